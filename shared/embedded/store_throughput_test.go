package embedded_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/embedded"
	"berth/shared/state"
)

// A partition takes 1,000 write and 3,000 read units a second, a transaction counts twice, and what is
// refused changes nothing.
func TestThroughput(t *testing.T) {
	now := time.Unix(0, 0)
	open := func(t *testing.T, partitions int) *embedded.Store {
		s, err := embedded.OpenStore(embedded.StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		s.LimitThroughput(&embedded.Throughput{Now: func() time.Time { return now }, Partitions: partitions})
		return s
	}
	service := func(n int) *cluster.Service {
		return &cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 1},
			ServiceIdentity: cluster.ServiceIdentity{Name: fmt.Sprint("s", n)}}
	}
	task := func(n int) *cluster.Task {
		return &cluster.Task{Head: cluster.Head{Cluster: "c", Rev: 1},
			TaskSpec: cluster.TaskSpec{ID: fmt.Sprintf("%032x", n), Owner: "o"}}
	}
	// countWrites returns how many rows the store takes at once.
	countWrites := func(t *testing.T, s *embedded.Store, row func(n int) state.Row) int {
		for n := range 10_000 {
			_, err := s.Write(t.Context(), state.Write{Put: row(n)})
			if errors.Is(err, embedded.ErrThroughput) {
				if row, err := s.Get(t.Context(), state.KeyOf(row(n))); row != nil || err != nil {
					t.Errorf("the refused row is %v, %v", row, err)
				}
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return 10_000
	}
	t.Run("Writes", func(t *testing.T) {
		s := open(t, 1)
		if n := countWrites(t, s, func(n int) state.Row { return service(n) }); n != 1000 {
			t.Errorf("%d writes at once, want 1000", n)
		}
		now = now.Add(500 * time.Millisecond)
		if n := countWrites(t, s, func(n int) state.Row { return service(1000 + n) }); n != 500 {
			t.Errorf("%d writes half a second later, want 500", n)
		}
	})
	t.Run("Transactions", func(t *testing.T) {
		s, n := open(t, 1), 0
		for ; ; n += 50 {
			var writes []state.Write
			for i := range 50 {
				writes = append(writes, state.Write{Put: service(n + i)})
			}
			err := s.Commit(t.Context(), state.Commit{Cluster: "c", Version: state.NoVersion, Writes: writes})
			if errors.Is(err, embedded.ErrThroughput) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if n != 500 {
			t.Errorf("%d rows in transactions, want 500", n)
		}
	})
	// What a condition refuses, and the deletion of nothing, take units, too.
	t.Run("WritesWithoutEffect", func(t *testing.T) {
		absent := state.ServiceKey("c", "absent")
		for name, w := range map[string]state.Write{
			"Refused": {Put: &cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 7},
				ServiceIdentity: cluster.ServiceIdentity{Name: "absent"}}},
			"NothingToDelete": {Delete: &absent},
		} {
			s, n := open(t, 1), 0
			for ; n < 2000; n++ {
				if _, err := s.Write(t.Context(), w); errors.Is(err, embedded.ErrThroughput) {
					break
				} else if err := state.IgnoreConflict(err); err != nil {
					t.Fatal(err)
				}
			}
			if n != 1000 {
				t.Errorf("%s: %d at once, want 1000", name, n)
			}
		}
	})
	t.Run("Reads", func(t *testing.T) {
		s, n := open(t, 1), 0
		for ; ; n++ {
			if _, err := s.Get(t.Context(), state.ServiceKey("c", "s")); errors.Is(err, embedded.ErrThroughput) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if n != 3000 {
			t.Errorf("%d reads at once, want 3000", n)
		}
	})
	t.Run("TasksUseSeveralPartitions", func(t *testing.T) {
		one := countWrites(t, open(t, 1), func(n int) state.Row { return task(n) })
		four := countWrites(t, open(t, 4), func(n int) state.Row { return task(n) })
		services := countWrites(t, open(t, 4), func(n int) state.Row { return service(n) })
		if one != 1000 || services != 1000 || four < 1500 {
			t.Errorf("%d tasks in one partition, %d in four, %d services in four", one, four, services)
		}
	})
}
