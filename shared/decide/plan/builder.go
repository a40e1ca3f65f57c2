package plan

import (
	"fmt"
	"hash/fnv"
	"time"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// RowsPerStart is the most rows that one start adds to a commit: the task, an alias and an outbox
// row.
const RowsPerStart = 3

// Builder gathers the writes of one decision into a chain of commits of at most [maxRows] rows, and
// applies each to the snapshot as if it had been committed.
type Builder struct {
	snap      *snapshot.Snapshot
	now       time.Time
	requested *Requested
	done      []state.Commit
	version   int64 // placement version that the open commit makes, if it rests on it
	open      commit
}

// commit is the open commit.
type commit struct {
	writes    []state.Write
	keys      map[state.Key]bool
	versioned bool            // rests on the placement version
	outbox    []*state.Outbox // starts and stops
	notices   *state.Outbox   // registrations and published events, or nil: they take no token and rest on no version
	batches   map[string]int  // starts per owner and instance
}

// Requested remembers what earlier decisions about the cluster have asked for, so that each thing
// is asked for once.
type Requested struct {
	// Timers are the due rows that are set.
	Timers map[Timer]time.Time
	// Deregistrations are the [cluster.Target] rows that dispatch has been asked to deregister.
	Deregistrations map[state.Key]bool
}

// Timer identifies a due row by its subject.
type Timer struct {
	Kind    state.DueKind
	Subject string
}

// NewRequested returns a memory in which nothing has been asked for.
func NewRequested() *Requested {
	return &Requested{Timers: map[Timer]time.Time{}, Deregistrations: map[state.Key]bool{}}
}

// NewBuilder returns a Builder whose first commit makes the snapshot's next placement version.
func NewBuilder(snap *snapshot.Snapshot, requested *Requested, now time.Time) *Builder {
	return &Builder{snap: snap, now: now, requested: requested, version: snap.Meta.Version + 1, open: newCommit()}
}

func newCommit() commit { return commit{keys: map[state.Key]bool{}, batches: map[string]int{}} }

// maxRows is the most rows of a commit. One more is left for the inbox row of tasks that it ends.
const maxRows = state.MaxWrites - 1

// RowsLeft returns how many rows the open commit can still take.
func (b *Builder) RowsLeft() int { return maxRows - b.open.rowCount() }

func (c *commit) rowCount() int {
	n := len(c.writes) + len(c.outbox)
	if c.notices != nil {
		n++
	}
	return n
}

// KeepTogether makes sure that the next n rows go into one commit: it closes the open one if they
// do not fit.
func (b *Builder) KeepTogether(n int) {
	if b.RowsLeft() < n {
		b.CloseCommit()
	}
}

// CloseCommit ends the open commit. What comes next goes into another one.
func (b *Builder) CloseCommit() {
	if b.open.rowCount() == 0 {
		return
	}
	for _, o := range b.open.outbox {
		b.open.writes = append(b.open.writes, state.Write{Put: o})
	}
	if b.open.notices != nil {
		b.open.notices.ID = b.noticeRowID()
		b.open.writes = append(b.open.writes, state.Write{Put: b.open.notices, Any: true})
	}
	c := state.Commit{Cluster: b.snap.Meta.Cluster, Version: state.NoVersion, Writes: b.open.writes}
	if b.open.versioned {
		c.Version = b.version - 1
		b.version++
	}
	b.done = append(b.done, c)
	b.open = newCommit()
}

// Commits closes the open commit and returns the chain.
func (b *Builder) Commits() []state.Commit {
	b.CloseCommit()
	return b.done
}

// OpenVersion returns the placement version that the open commit makes, if it rests on it.
func (b *Builder) OpenVersion() int64 { return b.version }

// SeedFor returns the number that decides by chance about the subject in the open commit. It
// differs from one commit to the next, and is the same if the decision is made again.
func (b *Builder) SeedFor(subject string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d", subject, b.version)
	return h.Sum64()
}

// IsWriting reports whether the open commit already writes the row.
func (b *Builder) IsWriting(row state.Row) bool { return b.open.keys[state.KeyOf(row)] }

// AddWrite appends a write unless the open commit already writes the same row.
func (b *Builder) AddWrite(w state.Write) {
	if key := w.Key(); !b.open.keys[key] {
		b.open.keys[key] = true
		b.open.writes = append(b.open.writes, w)
	}
}

// PutRow writes a row that was read with a Rev of one less. Only tasks rest on the placement
// version.
func (b *Builder) PutRow(row state.Row) {
	b.AddWrite(state.Write{Put: row})
	b.snap.Put(row)
	if _, ok := row.(*cluster.Task); ok {
		b.open.versioned = true
	}
}

// ScheduleDue writes a due row, which wakes placement for the subject at a time, rounded up to
// whole seconds. It writes nothing if the same row is set already.
func (b *Builder) ScheduleDue(kind state.DueKind, subject string, at time.Time) {
	at = at.Add(time.Second - 1).Truncate(time.Second)
	timer := Timer{kind, subject}
	if at.After(b.now) && b.requested.Timers[timer].Equal(at) {
		return
	}
	b.requested.Timers[timer] = at
	b.KeepTogether(1)
	b.AddWrite(state.Write{Any: true, Put: state.NewDue(b.snap.Meta.Cluster, kind, subject, at, b.now)})
}

// IsScheduled reports whether such a due row is known to be set for later.
func (b *Builder) IsScheduled(kind state.DueKind, subject string) bool {
	return b.requested.Timers[Timer{kind, subject}].After(b.now)
}

// noticeRowID returns the id of the open commit's row of [Builder.noticeRow]. It sorts before the rows
// of starts and stops, oldest first. It follows from the rows in the commit, so the same decision
// made again makes the same row and no other does.
func (b *Builder) noticeRowID() string {
	of := make([]string, 0, 2*len(b.open.writes))
	for _, w := range b.open.writes {
		of = append(of, w.Key().Sort)
		if w.Put != nil && !w.Any {
			of = append(of, fmt.Sprint(w.Put.Header().Rev))
		}
	}
	for _, t := range b.open.notices.Targets {
		of = append(of, t.Owner, t.ID)
	}
	return fmt.Sprintf("%s%013d-%s", state.OutboxFirst, b.now.UnixMilli(), cluster.Digest(of...)[:16])
}
