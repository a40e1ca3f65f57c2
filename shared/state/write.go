package state

import (
	"time"

	"berth/shared/cluster"
)

// A Write is one conditional change of one row: exactly one of Put, Delete, Stop, Claim and Observe
// is set.
type Write struct {
	// Put stores the whole row, if the stored row's Rev is one less than this one's. An absent row
	// has Rev 0. So a caller that has read Rev n writes n+1, and one that creates the row writes 1.
	Put Row
	// Any makes Put unconditional. The store sets Rev.
	Any bool
	// Delete removes the row, if there is one. If Rev is not zero, the row must have that Rev.
	Delete *Key
	Rev    int64
	// Stop, Claim and Observe each change their own part of a task's row, without reading it.
	Stop    *Stop
	Claim   *Claim
	Observe *Observation
}

// Key returns the key of the row that the write changes.
func (w Write) Key() Key {
	switch {
	case w.Put != nil:
		return KeyOf(w.Put)
	case w.Delete != nil:
		return *w.Delete
	case w.Stop != nil:
		return w.Stop.Task
	case w.Claim != nil:
		return w.Claim.Task
	default:
		return w.Observe.Task
	}
}

// A Stop sets a task's desired status to STOPPED, if it is RUNNING and the task has not been
// reported STOPPED.
type Stop struct {
	Task   Key
	Code   string
	Reason string
}

// A Claim takes the right to start a task. It holds only if the task's desired status is RUNNING,
// nothing has been reported of it, and it is at the attempt before this one. A task that was
// reported runs, or has run.
type Claim struct {
	Task    Key
	Attempt int32
	At      time.Time
}

// An Observation is what ECS reported of a task. It holds only if it is news ([Observation.IsNews]), the
// row has no other ECS task (its ECSID is empty or the same) and is not STOPPED. What is known only of
// one attempt to start the task holds while no later one has been claimed.
type Observation struct {
	Task     Key
	Version  int64
	Attempt  int32 // 0 for what is known of the task itself
	ECSID    string
	Last     cluster.TaskStatus
	Health   cluster.Health // unknown, as in events, leaves the row's; a task that has STOPPED has none
	Started  time.Time
	Stopped  time.Time
	StopCode string // stored only if the row has none
	Reason   string // kept only where the row has none
	ExitCode *int
	Expires  int64 // Unix seconds; 0 leaves the row's
}

// Apply returns the row after the write, and false if the write's condition does not hold. old is
// nil if there is no row, and is not changed. The result of a deletion is nil.
func (w Write) Apply(old Row) (Row, bool) {
	switch {
	case w.Put != nil:
		return w.applyPut(old)
	case w.Delete != nil:
		return nil, w.Rev == 0 || old != nil && old.Header().Rev == w.Rev
	}
	task, ok := old.(*cluster.Task)
	if !ok || task == nil {
		return nil, false
	}
	next := *task
	next.Rev++
	switch {
	case w.Stop != nil:
		ok = w.Stop.apply(&next)
	case w.Claim != nil:
		ok = w.Claim.apply(&next)
	default:
		ok = w.Observe.apply(&next)
	}
	return &next, ok
}

func (w Write) applyPut(old Row) (Row, bool) {
	var rev int64
	if old != nil {
		rev = old.Header().Rev
	}
	if w.Any {
		w.Put.Header().Rev = rev + 1
		return w.Put, true
	}
	return w.Put, w.Put.Header().Rev == rev+1
}

func (s *Stop) apply(t *cluster.Task) bool {
	if t.Desired != cluster.TaskRunning || t.Last == cluster.TaskStopped {
		return false
	}
	t.Desired, t.StopCode, t.Reason = cluster.TaskStopped, s.Code, s.Reason
	return true
}

func (c *Claim) apply(t *cluster.Task) bool {
	if t.Desired != cluster.TaskRunning || t.Last != "" || t.Attempt != c.Attempt-1 {
		return false
	}
	t.Attempt, t.ClaimedAt = c.Attempt, cluster.At(c.At)
	return true
}

func (o *Observation) apply(t *cluster.Task) bool {
	if !o.IsNews(t.Version, t.Health) || t.Last == cluster.TaskStopped || o.isOfAnother(t) {
		return false
	}
	t.Version, t.Last = o.Version, o.Last
	if o.ReportsHealth() {
		t.Health = o.Health
	}
	if o.ECSID != "" {
		t.ECSID = o.ECSID
	}
	if !o.Started.IsZero() {
		t.Started = cluster.At(o.Started)
	}
	if o.Last == cluster.TaskStopped {
		t.Stopped, t.ExitCode, t.Health = cluster.At(o.Stopped), o.ExitCode, cluster.UnknownHealth
		if t.StopCode == "" {
			t.StopCode = o.StopCode
		}
		if t.Reason == "" {
			t.Reason = o.Reason
		}
	}
	if o.Expires != 0 {
		t.Expires = o.Expires
	}
	return true
}

// IsNews reports whether the observation says something that a row of this version and health does not: its
// version is higher, or it is the same and the health is another. ECS counts no version for a change of health
// (Amazon ECS API reference, Task).
func (o *Observation) IsNews(version int64, health cluster.Health) bool {
	return o.Version > version || o.Version == version && version > 0 && o.ReportsHealth() && o.Health != health
}

// ReportsHealth reports whether the observation has the health of a task that has not stopped.
func (o *Observation) ReportsHealth() bool {
	return o.Health != cluster.UnknownHealth && o.Last != cluster.TaskStopped
}

// isOfAnother reports whether it was another ECS task that was observed than the row's, or an attempt to
// start it before the last one.
func (o *Observation) isOfAnother(t *cluster.Task) bool {
	return t.ECSID != "" && o.ECSID != "" && t.ECSID != o.ECSID || o.Attempt != 0 && o.Attempt != t.Attempt
}

// A Commit is a set of writes that take effect together or not at all. No row may appear twice.
type Commit struct {
	Cluster string
	// Version is the placement version that the writes were decided on. The commit holds only if
	// the cluster still has it, and moves it on by one.
	Version int64
	Writes  []Write
}

// NoVersion is the Version of a commit that neither checks nor moves the placement version, because
// it only frees capacity or concerns nothing that placement decides on.
const NoVersion = -1

// MaxWrites is the most writes of a commit with a version. DynamoDB allows 100 in a transaction,
// and the version is one.
const MaxWrites = 99

// An Op is what happened to a row.
type Op string

// The three operations of a stream record.
const (
	Insert Op = "INSERT"
	Modify Op = "MODIFY"
	Remove Op = "REMOVE"
)

// A Record is one change of one row as the stream reports it: in order per row, at least once.
type Record struct {
	Sequence string // names the record within the stream
	Op       Op
	Key      Key
	Old      Row // nil for Insert
	New      Row // nil for Remove
}

// Row returns the row after the change, or before it was removed.
func (r Record) Row() Row {
	if r.New != nil {
		return r.New
	}
	return r.Old
}

// A Message is one message of a queue.
type Message struct {
	ID       string
	Body     []byte
	Receives int // how often it was delivered, including this time
}
