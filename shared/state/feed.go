package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"berth/shared/cluster"
)

// A Feed is a [Store] for functions that change tasks. It gathers the tasks that placement must look
// at again, and writes them into [Inbox] rows, many tasks into one. The function that makes a Feed
// calls [Feed.Flush] at the end, and reports its work as done only after that.
//
// A Feed flushes by itself before it deletes a row, writes an outbox row, or commits. So the row that
// says that work is done is never written before the inbox row.
//
// It may be used by several goroutines.
type Feed struct {
	Store
	clock Clock

	mu      sync.Mutex
	changed map[Key]*cluster.Task
}

// NewFeed returns a Feed that has gathered nothing.
func NewFeed(store Store, clock Clock) *Feed {
	return &Feed{Store: store, clock: clock, changed: map[Key]*cluster.Task{}}
}

// Write makes one change, see [Store.Write]. It also gathers the task of an observation or a claim
// that changes nothing: the function may have been cut off after the same write, before it wrote the
// inbox row.
func (f *Feed) Write(ctx context.Context, w Write) (Row, error) {
	if _, isOutbox := w.Put.(*Outbox); isOutbox || w.Delete != nil {
		if err := f.Flush(ctx); err != nil {
			return nil, err
		}
	}
	row, err := f.Store.Write(ctx, w)
	written := row
	var c *Conflict
	if errors.As(err, &c) && (w.Observe != nil || w.Claim != nil) {
		written = c.Row
	}
	if t, ok := written.(*cluster.Task); ok && t != nil {
		if full := f.gather(t); full {
			err = errors.Join(err, f.Flush(ctx))
		}
	}
	return row, err
}

// Announce gathers a task that was read. The caller takes its work as done because of what the row
// says, and the function that wrote the row may have been cut off before it wrote the inbox row.
func (f *Feed) Announce(t *cluster.Task) { f.gather(t) }

// maxGathered is how many tasks a Feed gathers before it flushes by itself, so that a sweep over a
// large cluster keeps few.
const maxGathered = 10 * maxInboxTasks

// gather remembers the newest version of a task that concerns placement, and reports whether it is
// time to flush.
func (f *Feed) gather(t *cluster.Task) (full bool) {
	if !ConcernsPlacement(t) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := KeyOf(t)
	if known := f.changed[key]; known == nil || known.Rev < t.Rev {
		f.changed[key] = t
	}
	return len(f.changed) >= maxGathered
}

// Commit makes all changes or none, see [Store.Commit]. The inbox row of the tasks that it puts is part
// of the commit. There must be room for it: at most one write less than [MaxWrites].
func (f *Feed) Commit(ctx context.Context, c Commit) error {
	if err := f.Flush(ctx); err != nil {
		return err
	}
	c, err := WithInbox(c, f.clock)
	if err != nil {
		return err
	}
	return f.Store.Commit(ctx, c)
}

// WithInbox returns the commit with an inbox row of the tasks that it puts and that concern
// placement. A commit without such tasks stays as it is.
func WithInbox(c Commit, clock Clock) (Commit, error) {
	var tasks []*cluster.Task
	for _, w := range c.Writes {
		if t, ok := w.Put.(*cluster.Task); ok && ConcernsPlacement(t) {
			tasks = append(tasks, t)
		}
	}
	if len(tasks) == 0 {
		return c, nil
	}
	sortTasks(tasks)
	inbox, err := NewInbox(c.Cluster, clock.Now(), tasks)
	if err != nil {
		return c, err
	}
	c.Writes = append(slices.Clip(c.Writes), Write{Put: inbox, Any: true})
	return c, nil
}

// Flush writes the inbox rows of the tasks that were gathered. If it fails, they stay gathered.
func (f *Feed) Flush(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	byCluster := map[string][]*cluster.Task{}
	for key, t := range f.changed {
		byCluster[key.Cluster] = append(byCluster[key.Cluster], t)
	}
	for _, name := range slices.Sorted(maps.Keys(byCluster)) {
		tasks := byCluster[name]
		sortTasks(tasks)
		for some := range slices.Chunk(tasks, maxInboxTasks) {
			inbox, err := NewInbox(name, f.clock.Now(), some)
			if err != nil {
				return err
			}
			if _, err := f.Store.Write(ctx, Write{Put: inbox, Any: true}); err != nil {
				return fmt.Errorf("writing %d tasks into the inbox: %w", len(some), err)
			}
			for _, t := range some {
				delete(f.changed, KeyOf(t))
			}
		}
	}
	return nil
}
