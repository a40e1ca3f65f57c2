package handler_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// slowLists is a store whose lists of instances take a second. Each read of a cluster has one.
type slowLists struct {
	state.Store
	reads, atOnce, most atomic.Int32
}

func (s *slowLists) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	if r.From != state.PrefixInstance {
		return s.Store.List(ctx, r)
	}
	s.reads.Add(1)
	if n := s.atOnce.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	defer s.atOnce.Add(-1)
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Store.List(ctx, r)
}

// Lists of instances by their tasks read the whole cluster. Calls that wait for such a read share the
// next one, so that many callers need no more memory than two.
func TestAPI_ListInstancesReadTogether(t *testing.T) {
	q := operation.ListInstances{Cluster: prod, Filter: "task:group != service:none", Limit: 100}
	begin := func(t *testing.T) (*world, *slowLists) {
		w := newWorld(t)
		w.instances("i", 2, 1024, 8192)
		slow := &slowLists{Store: w.store}
		w.api.State = slow
		return w, slow
	}
	list := func(t *testing.T, w *world, instances int) {
		ids, _, err := w.api.Clusters.ListInstances(ctx, q)
		if err != nil || len(ids) != instances {
			t.Errorf("got %q, %v, want %d instances", ids, err, instances)
		}
	}
	t.Run("CallsThatOverlap", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, slow := begin(t)
			var calls sync.WaitGroup
			calls.Go(func() { list(t, w, 2) })
			synctest.Wait()
			for range 30 {
				calls.Go(func() { list(t, w, 2) })
			}
			calls.Wait()
			want(t, "reads", slow.reads.Load(), 2)
			want(t, "reads at once", slow.most.Load(), 1)
		})
	})
	// The first read has begun when the third instance comes: whoever calls after that sees it.
	t.Run("SeeWhatCameBefore", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, _ := begin(t)
			var calls sync.WaitGroup
			calls.Go(func() { _, _, _ = w.api.Clusters.ListInstances(ctx, q) })
			synctest.Wait()
			<-time.After(500 * time.Millisecond) // in the middle of it
			w.instances("j", 1, 1024, 8192)
			calls.Go(func() { list(t, w, 3) })
			calls.Wait()
		})
	})
	t.Run("WhoReadsLeaves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, slow := begin(t)
			leaving, leave := context.WithCancel(ctx)
			var calls sync.WaitGroup
			calls.Go(func() { list(t, w, 2) })
			synctest.Wait()
			for range 2 { // the first of them waits to read, for the other as well
				calls.Go(func() {
					if _, _, err := w.api.Clusters.ListInstances(leaving, q); !errors.Is(err, context.Canceled) {
						t.Errorf("a client that left got %v", err)
					}
				})
				synctest.Wait()
			}
			calls.Go(func() { list(t, w, 2) })
			synctest.Wait()
			leave()
			calls.Wait()
			want(t, "reads", slow.reads.Load(), 2)
		})
	})
	t.Run("OfAClusterThatIsDeleted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, _ := begin(t)
			var calls sync.WaitGroup
			calls.Go(func() { list(t, w, 2) })
			synctest.Wait()
			calls.Go(func() {
				_, _, err := w.api.Clusters.ListInstances(ctx, q)
				wantCode(t, err, cluster.CodeClusterNotFound, "Cluster not found.")
			})
			synctest.Wait() // it has found the cluster, and waits to read it
			meta := state.Key{Cluster: prod, Sort: state.PrefixMeta}
			if _, err := w.store.Write(ctx, state.Write{Delete: &meta}); err != nil {
				t.Fatal(err)
			}
			calls.Wait()
		})
	})
}
