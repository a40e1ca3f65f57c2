package handler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// A call that loses races waits, longer each time, and then succeeds. One that never wins is
// throttled: SDKs repeat it.
func TestAPI_Races(t *testing.T) {
	begin := func(t *testing.T, races int) (*world, *int) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.create("web", "web", 1)
		w.pump()
		spy, commits := &spyState{Store: w.store}, 0
		spy.beforeCommit = func(c state.Commit) error {
			if commits++; commits <= races && c.Version >= 0 {
				w.bump() // placement, or another caller, comes first
			}
			return nil
		}
		w.api.State = spy
		return w, &commits
	}
	scale := func(w *world) error {
		_, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web",
			Desired: new(0)})
		return err
	}
	t.Run("AreWaitedFor", func(t *testing.T) {
		w, commits := begin(t, 60)
		at := w.clock.now
		if err := scale(w); err != nil {
			t.Fatal(err)
		}
		want(t, "commits", *commits, 61)
		if took := w.clock.now.Sub(at); took < time.Second || took > 10*time.Second {
			t.Errorf("took %s", took)
		}
	})
	t.Run("WithoutEnd", func(t *testing.T) {
		w, _ := begin(t, 1_000_000)
		at := w.clock.now
		wantCode(t, scale(w), cluster.CodeThrottling, "Rate exceeded")
		if took := w.clock.now.Sub(at); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("gave up after %s", took)
		}
	})
	// DeleteCluster may come between any two steps of a call.
	t.Run("WithDeleteCluster", func(t *testing.T) {
		for name, call := range map[string]func(w *world) error{
			"UpdateService": scale,
			"CreateService": func(w *world) error {
				_, err := w.api.Services.CreateService(ctx, operation.CreateService{Cluster: prod, Name: "new",
					TaskDefinition: "web", Desired: new(1)})
				return err
			},
			"UpdateTaskProtection": func(w *world) error {
				_, _, err := w.api.TaskProtections.ProtectTasks(ctx, prod, []string{w.tasks()[0].ID}, time.Hour)
				return err
			},
			"PutConfiguration": func(w *world) error {
				return w.api.Configurations.PutConfiguration(ctx,
					&cluster.Configuration{Head: cluster.Head{Cluster: prod}})
			},
		} {
			t.Run(name, func(t *testing.T) {
				w, _ := begin(t, 0)
				meta := state.Key{Cluster: prod, Sort: state.PrefixMeta}
				w.api.State.(*spyState).beforeCommit = func(state.Commit) error {
					_, err := w.store.Write(ctx, state.Write{Delete: &meta})
					return err
				}
				wantCode(t, call(w), cluster.CodeClusterNotFound, "Cluster not found.")
			})
		}
	})
}

// Callers in a closed loop move the placement version before each commit of placement, which takes
// longer than they do. After three lost races they wait: the batch is decided, not given up.
func TestPlacement_GoesFirst(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	w.create("web", "web", 1)
	calls, lost := 0, 0
	w.state.beforeCommit = func(c state.Commit) error {
		if c.Version < 0 {
			return nil
		}
		calls++
		err := state.TryNarrowing(ctx, w.store, prod, w.clock.now, func(int64) ([]state.Write, error) {
			return []state.Write{{Put: &state.Alias{Head: cluster.Head{Cluster: prod, Rev: 1},
				Derived: fmt.Sprint("call", calls)}}}, nil
		})
		if err == nil {
			lost++
		}
		return state.IgnoreConflict(err)
	}
	w.pump()
	t.Logf("placement lost %d races against %d calls", lost, calls)
	want(t, "races that placement lost", lost, 3)
	want(t, "tasks", len(w.tasks()), 1)
	w.state.beforeCommit = nil
	at := w.clock.now
	if _, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web",
		Desired: new(0)}); err != nil {
		t.Fatal(err)
	}
	if waited := w.clock.now.Sub(at); waited == 0 || waited > 5*time.Second {
		t.Errorf("the next call waited %s, want until the hold has ended", waited)
	}
}

// wallClock is the clock of a test's bubble.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A slowStore commits after 3 ms.
type slowStore struct {
	state.Store
	lost atomic.Int64 // commits for which another one came first
}

func (s *slowStore) Commit(ctx context.Context, c state.Commit) error {
	if err := (wallClock{}).Sleep(ctx, 3*time.Millisecond); err != nil {
		return err
	}
	err := s.Store.Commit(ctx, c)
	if err != nil {
		s.lost.Add(1)
	}
	return err
}

// Calls of one process that change a cluster take turns in the order in which they come: none loses a
// race to another, and none waits for those behind it. Calls for other clusters do not wait.
func TestAPI_CallsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		store := &slowStore{Store: w.store}
		w.api.State, w.api.Clock = store, wallClock{}
		const other = "other"
		w.ecs.clusters[other] = true
		if err := w.api.Clusters.ClusterCreated(ctx, other); err != nil {
			t.Fatal(err)
		}
		configure := func(ctx context.Context, name string) error {
			return w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{Head: cluster.Head{Cluster: name}})
		}
		begin := time.Now()
		var all sync.WaitGroup
		var order []int
		var mu sync.Mutex
		for n := range 30 {
			all.Go(func() {
				if err := configure(ctx, prod); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, n)
			})
			synctest.Wait()
		}
		if err := configure(ctx, other); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != 3*time.Millisecond {
			t.Errorf("a call for another cluster took %s, want 3ms", took)
		}
		gone, leave := context.WithTimeout(ctx, 20*time.Millisecond)
		defer leave()
		if err := configure(gone, prod); err == nil {
			t.Error("a call whose client has left was carried out")
		}
		all.Wait()
		want(t, "lost races", int(store.lost.Load()), 0)
		for n := range order {
			want(t, fmt.Sprintf("call %d to end", n), order[n], n)
		}
		if took := time.Since(begin); took > 30*8*time.Millisecond {
			t.Errorf("30 calls took %s", took)
		}
	})
}

// A call waits for the decision that placement makes in the same process, and for no other one: those
// that follow each other at once would keep it waiting.
func TestAPI_CallsWaitForOneDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.api.Clock = wallClock{}
		calls := map[string]func() error{
			"Configuration": func() error {
				return w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{Head: cluster.Head{Cluster: prod}})
			},
			"Instances": func() error { return w.api.Clusters.InstancesChanged(ctx, prod, w.instances("i", 1, 1024, 1024)) },
		}
		for name, call := range calls {
			const decision = 200 * time.Millisecond
			release := w.api.HoldCallers(ctx, wallClock{}, prod)
			ended := make(chan time.Duration, 1)
			begin := time.Now()
			go func() {
				if err := call(); err != nil {
					t.Error(err)
				}
				ended <- time.Since(begin)
			}()
			<-time.After(decision)
			if len(ended) > 0 {
				t.Errorf("%s: the call did not wait for the decision", name)
			}
			release()
			release = w.api.HoldCallers(ctx, wallClock{}, prod)
			if len(ended) == 0 {
				t.Errorf("%s: the next decision did not wait for the call", name)
			}
			release()
		}
		if err := calls["Configuration"](); err != nil { // nothing is held any more
			t.Error(err)
		}
	})
}

// A decision waits no longer for a call that is slow.
func TestAPI_DecisionsWaitForCallsAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.api.State, w.api.Clock = &spyState{Store: w.store, beforeCommit: func(state.Commit) error {
			return wallClock{}.Sleep(ctx, time.Minute)
		}}, wallClock{}
		var slow sync.WaitGroup
		slow.Go(func() {
			if err := w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{
				Head: cluster.Head{Cluster: prod}}); err != nil {
				t.Error(err)
			}
		})
		defer slow.Wait()
		synctest.Wait()
		begin := time.Now()
		w.api.HoldCallers(ctx, wallClock{}, prod)()
		if took := time.Since(begin); took != 50*time.Millisecond {
			t.Errorf("the decision waited for %s, want 50ms", took)
		}
	})
}

// A call whose turn does not come within ten seconds is throttled, and those behind it are not held up.
func TestAPI_CallsWaitForTheirTurnTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.api.State, w.api.Clock = &spyState{Store: w.store, beforeCommit: func(state.Commit) error {
			return wallClock{}.Sleep(ctx, time.Minute)
		}}, wallClock{}
		configure := func() error {
			return w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{Head: cluster.Head{Cluster: prod}})
		}
		var slow sync.WaitGroup
		slow.Go(func() {
			if err := configure(); err != nil {
				t.Error(err)
			}
		})
		defer slow.Wait()
		synctest.Wait()
		begin := time.Now()
		wantCode(t, configure(), cluster.CodeThrottling, "Rate exceeded")
		if took := time.Since(begin).Round(100 * time.Millisecond); took != 10*time.Second {
			t.Errorf("gave up after %s, want 10s", took)
		}
		slow.Wait()
		w.api.State = w.store
		if err := configure(); err != nil {
			t.Error(err)
		}
	})
}

// What Berth records from events waits for no decision, as tasks that have gone have to be seen. Where it
// comes before nine in ten commits, 200 batches of placement are decided within a few of the twenty attempts
// that template.yaml allows (MaximumRetryAttempts).
func TestPlacement_IsNotGivenUpBecauseOfRaces(t *testing.T) {
	const attempts, batches = 20, 200
	w := newWorld(t)
	w.instances("i", 10, 1<<20, 1<<20)
	w.create("web", "web", 1)
	w.pump()
	random := rand.New(rand.NewPCG(1, 1))
	most, lost := 0, 0
	for n := range batches {
		w.placementAsleep = true
		w.scale("web", 2+n%2)
		w.pump()
		w.placementAsleep = false
		records := w.decide
		w.decide = nil
		w.state.beforeCommit = func(c state.Commit) error {
			if c.Version >= 0 && random.IntN(10) > 0 {
				lost++
				w.bump()
			}
			return nil
		}
		for used := 1; ; used++ {
			from, err := w.placement.HandleRecords(ctx, records)
			if err != nil {
				t.Fatal(err)
			}
			if from == "" {
				most = max(most, used)
				break
			}
			if used == attempts {
				t.Fatalf("batch %d was given up after %d attempts", n, used)
			}
		}
		w.state.beforeCommit = nil
		w.pump()
	}
	t.Logf("%d batches lost %d races, and took up to %d attempts", batches, lost, most)
	if most < 2 {
		t.Error("no batch lost all races of an attempt, so this shows nothing")
	}
}
