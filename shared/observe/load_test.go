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
				if err := observe.GatherLoads(t.Context(), store, now, "prod",
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
