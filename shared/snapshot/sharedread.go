package snapshot

import (
	"context"
	"errors"
	"sync"

	"berth/shared/state"
)

// SharedReads lets callers of a process that need a whole cluster read it together: 50,000 tasks are
// 45 MB, and many read at once. Per cluster one read runs, and all callers that come meanwhile share
// the next: it begins after they have come, so each sees what was written before it.
type SharedReads struct {
	mu            sync.Mutex
	next, running map[string]*sharedRead
}

// A sharedRead is one read of a cluster, and what it has found once it is done.
type sharedRead struct {
	done chan struct{}
	err  error
	mu   sync.Mutex // held by who looks at snap, because a look may number a metric
	snap *Snapshot
}

// NewSharedReads returns reads of which none has begun.
func NewSharedReads() *SharedReads {
	return &SharedReads{next: map[string]*sharedRead{}, running: map[string]*sharedRead{}}
}

// View calls look with a snapshot of the cluster that was read after the call. Errors are those of
// [Load] and of look.
func (r *SharedReads) View(
	ctx context.Context, store state.Store, clusterName string, look func(*Snapshot) error,
) error {
	for {
		read, isFirst := r.join(clusterName)
		if isFirst {
			r.run(ctx, store, clusterName, read)
		}
		select {
		case <-read.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if read.snap != nil {
			read.mu.Lock()
			defer read.mu.Unlock()
			return look(read.snap)
		}
		// The client of whoever read may have left. Then one of the others reads.
		if isFirst || !errors.Is(read.err, context.Canceled) && !errors.Is(read.err, context.DeadlineExceeded) {
			return read.err
		}
	}
}

// join returns the next read of the cluster. The first who joins it runs it.
func (r *SharedReads) join(clusterName string) (read *sharedRead, isFirst bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	read = r.next[clusterName]
	if isFirst = read == nil; isFirst {
		read = &sharedRead{done: make(chan struct{})}
		r.next[clusterName] = read
	}
	return read, isFirst
}

// run reads the cluster once the read before has ended.
func (r *SharedReads) run(ctx context.Context, store state.Store, clusterName string, read *sharedRead) {
	defer close(read.done)
	r.mu.Lock()
	before := r.running[clusterName]
	r.mu.Unlock()
	if before != nil {
		select {
		case <-before.done:
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	delete(r.next, clusterName) // who comes from now on may need what this read does not see
	if read.err = ctx.Err(); read.err == nil {
		r.running[clusterName] = read
	}
	r.mu.Unlock()
	if read.err != nil {
		return
	}
	read.snap, read.err = Load(ctx, store, clusterName)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, clusterName)
}
