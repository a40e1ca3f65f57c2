package state

import (
	"time"

	"berth/shared/cluster"
)

// Write is one conditional change of one row: exactly one of the fields below is set.
type Write struct {
	// Put stores the row whole. It holds only if the stored row's Rev is one less than this one's
	// (an absent row counts as 0), so a caller that read Rev n writes n+1, and one that creates
	// writes 1.
	Put Row
	// Any makes Put hold whatever is stored; the store then sets Rev.
	Any bool
	// Delete removes the row named, if it is there; with a Rev it holds only if the row's Rev is
	// that one.
	Delete *Key
	Rev    int64
	// Stop, Claim and Observe each change their own part of a task's row, without reading it.
	Stop    *Stop
	Claim   *Claim
	Observe *Observation
}

// Key is the row that the write concerns.
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

// Stop wants a task stopped. It holds only if the row is there, wants RUNNING and has not been
// reported STOPPED.
type Stop struct {
	Task   Key
	Code   string
	Reason string
}

// Claim takes the right to start a task. It holds only if the row is there, wants RUNNING, has not
// been reported, and is at the attempt before this one: what was reported runs, or has run.
type Claim struct {
	Task    Key
	Attempt int32
	At      time.Time
}

// Observation is what ECS reported of a task. It holds only if the row is there, Version is above
// the row's, the row has no other ECS task (ECSID empty or the same) and is not STOPPED.
type Observation struct {
	Task     Key
	Version  int64
	ECSID    string
	Last     cluster.TaskStatus
	Health   cluster.Health
	Started  time.Time
	Stopped  time.Time
	StopCode string // kept only where the row has none
	Reason   string // kept only where the row has none
	ExitCode *int
	Expires  int64 // Unix seconds, for a STOPPED task; 0 leaves the row's
}

// Apply is the row after the write, or false where its condition does not hold. old is nil when the
// row is absent and is never changed. A deletion gives nil.
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
	if o.Version <= t.Version || t.Last == cluster.TaskStopped || t.ECSID != "" && o.ECSID != "" && t.ECSID != o.ECSID {
		return false
	}
	t.Version, t.Last, t.Health = o.Version, o.Last, o.Health
	if o.ECSID != "" {
		t.ECSID = o.ECSID
	}
	if !o.Started.IsZero() {
		t.Started = cluster.At(o.Started)
	}
	if o.Last == cluster.TaskStopped {
		t.Stopped, t.ExitCode = cluster.At(o.Stopped), o.ExitCode
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

// Commit is a set of writes that take effect together or not at all. No row may appear twice.
type Commit struct {
	Cluster string
	// Version, where not negative, is the placement version that the writes were decided on: the
	// commit holds only if it is still that, and moves it on by one.
	Version int64
	Writes  []Write
}

// NoVersion is the Version of a commit that neither checks nor moves the placement version: it only
// frees, or concerns nothing that placement decides on.
const NoVersion = -1

// MaxWrites is the most writes that a commit with a version may have: DynamoDB takes 100 in a
// transaction, and the version is one.
const MaxWrites = 99

// Op is what happened to a row.
type Op string

// The three operations of a stream record.
const (
	Insert Op = "INSERT"
	Modify Op = "MODIFY"
	Remove Op = "REMOVE"
)

// Record is one change of one row, as the stream reports it: in order per row, at least once.
type Record struct {
	Sequence string // names the record within the stream
	Op       Op
	Key      Key
	Old      Row // nil for Insert
	New      Row // nil for Remove
}

// Row is the row after the change, or before it was removed.
func (r Record) Row() Row {
	if r.New != nil {
		return r.New
	}
	return r.Old
}

// Message is one message of a queue.
type Message struct {
	ID       string
	Body     []byte
	Receives int // how often it was delivered, this time included
}
