package observe_test

import (
	"context"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/observe"
	"berth/shared/state"
)

// A fixedClock shows one time, which only a wait moves.
type fixedClock struct{ now time.Time }

func (c *fixedClock) Now() time.Time { return c.now }

func (c *fixedClock) Sleep(_ context.Context, d time.Duration) error {
	c.now = c.now.Add(d)
	return nil
}

// A racingStore runs something once, after the first row was read for certain: another function
// then stores a report at the same time.
type racingStore struct {
	state.Store
	meanwhile func()
}

func (s *racingStore) Get(ctx context.Context, key state.Key) (state.Row, error) {
	row, err := s.Store.Get(ctx, key)
	if race := s.meanwhile; race != nil {
		s.meanwhile = nil
		race()
	}
	return row, err
}

// Of two reports that are stored at the same time the later one counts, whichever is stored first.
func TestTheLaterOfTwoRacingReportsCounts(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, first := range map[string]time.Duration{"TheLaterIsStoredFirst": -2, "TheEarlierIsStoredFirst": -1} {
		t.Run(name, func(t *testing.T) {
			plain, err := embedded.OpenStore(embedded.StoreOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer plain.Close()
			const id = "web-1"
			task := &cluster.Task{Head: cluster.Head{Cluster: "prod", Rev: 1},
				TaskSpec:       cluster.TaskSpec{ID: id, Owner: cluster.TaskOwner(id), Service: "web"},
				TaskAssignment: cluster.TaskAssignment{Instance: "i", Desired: cluster.TaskRunning}}
			if _, err := plain.Write(t.Context(), state.Write{Put: task}); err != nil {
				t.Fatal(err)
			}
			report := func(store state.Store, at time.Duration) {
				t.Helper()
				loads := map[string]int64{"connections": int64(100 + at)}
				if err := observe.GatherLoads(t.Context(), store, &fixedClock{now}, "prod",
					[]cluster.LoadReport{{Task: id, Loads: loads, At: now.Add(at * time.Second)}}); err != nil {
					t.Fatal(err)
				}
			}
			other := time.Duration(-3) - first
			report(&racingStore{plain, func() { report(plain, other) }}, first)
			rows, err := plain.List(t.Context(), state.LoadsBy("prod", now.Add(time.Hour)))
			if err != nil || len(rows) != 1 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			if got := rows[0].(*state.PendingLoad).Loads["connections"]; got != 99 {
				t.Errorf("the load is %d, want 99, which was reported last", got)
			}
		})
	}
}

// A report of an instance that loses races against callers waits between its attempts, and is
// recorded.
func TestAReportThatLosesRacesWaits(t *testing.T) {
	plain, err := embedded.OpenStore(embedded.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	meta := &state.Meta{Head: cluster.Head{Cluster: "prod", Rev: 1}, Version: 7}
	known := &cluster.Instance{Head: cluster.Head{Cluster: "prod", Rev: 1}, ID: "i", Status: cluster.InstanceActive,
		AgentConnected: true, Version: 1}
	for _, row := range []state.Row{meta, known} {
		if _, err := plain.Write(t.Context(), state.Write{Put: row}); err != nil {
			t.Fatal(err)
		}
	}
	races := 0
	store := &narrowedStore{plain, func() {
		if races++; races > 10 {
			return
		}
		meta.Rev, meta.Version = meta.Rev+1, meta.Version+1
		if _, err := plain.Write(t.Context(), state.Write{Put: meta}); err != nil {
			t.Error(err)
		}
	}}
	clock := &fixedClock{time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	o := &observe.Observer{State: state.NewFeed(store, clock), Clock: clock, Now: clock.now}
	drained := *known
	drained.Status, drained.Version = cluster.InstanceDraining, 2
	begin := clock.now
	if err := o.RecordInstance(t.Context(), &drained, known); err != nil {
		t.Fatal(err)
	}
	row, err := plain.Get(t.Context(), state.InstanceKey("prod", "i"))
	if i, ok := row.(*cluster.Instance); err != nil || !ok || i.Status != cluster.InstanceDraining {
		t.Errorf("stored: %+v, %v", row, err)
	}
	if waited := clock.now.Sub(begin); waited < 50*time.Millisecond || waited > 2*time.Second {
		t.Errorf("it waited %s for 10 lost races", waited)
	}
}

// A narrowedStore calls before ahead of each commit that expects a placement version.
type narrowedStore struct {
	state.Store
	before func()
}

func (s *narrowedStore) Commit(ctx context.Context, c state.Commit) error {
	if c.Version != state.NoVersion {
		s.before()
	}
	return s.Store.Commit(ctx, c)
}
