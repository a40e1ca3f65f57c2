package snapshot_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Tasks are found by owner and id, also if two owners have the same id, after any insertions and
// removals.
func TestTasksAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, want := snapshot.NewSnapshot(), map[[2]string]int64{}
		size := rapid.SampledFrom([]int{3, 40, 400}).Draw(t, "ids")
		for rev := range rapid.Int64Range(1, 300).Draw(t, "changes") {
			x := running(fmt.Sprintf("t-%d", rapid.IntRange(0, size).Draw(t, "id")), "i-1", rev+1)
			x.Owner = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "owner")
			x.Instance = rapid.SampledFrom([]string{"", "i-1", "i-2"}).Draw(t, "instance")
			x.Last = ""
			if rapid.IntRange(0, 2).Draw(t, "removed") > 0 {
				s.Put(x)
				want[[2]string{x.Owner, x.ID}] = x.Rev
			} else {
				s.ApplyRecord(state.Record{Op: state.Remove, Old: x})
				delete(want, [2]string{x.Owner, x.ID})
			}
		}
		lists := map[string]map[*cluster.Task]bool{"all": {}, "owned": {}, "placed": {}}
		for x := range s.Tasks() {
			lists["all"][x] = true
		}
		for _, x := range slices.Concat(s.TasksOf("a"), s.TasksOf("b")) {
			lists["owned"][x] = true
		}
		for _, x := range s.ProvisioningTasks() {
			lists["placed"][x] = true
		}
		for _, v := range s.Instances {
			for _, x := range v.Tasks {
				lists["placed"][x] = true
			}
		}
		for key, rev := range want {
			x := s.Task(key[0], key[1])
			if x == nil || x.Rev != rev {
				t.Fatalf("task %v is %+v, want revision %d", key, x, rev)
			}
			for name, list := range lists {
				if !list[x] {
					t.Fatalf("task %v is not among %s", key, name)
				}
			}
		}
		for name, list := range lists {
			if len(list) != len(want) {
				t.Fatalf("%d tasks among %s, want %d", len(list), name, len(want))
			}
		}
		if s.TaskCount() != len(want) || s.Task("c", "t-0") != nil {
			t.Fatalf("%d tasks, want %d", s.TaskCount(), len(want))
		}
	})
}

// Others read the same record, so the snapshot interns strings only in its own copy of the row.
func TestRecordsAreNotChanged(t *testing.T) {
	s := snapshot.NewSnapshot()
	record := ofWeb("t", "i-1", 1)
	s.ApplyRecord(state.Record{Op: state.Insert, New: record})
	if s.Task("web", "t") == record {
		t.Error("the snapshot has the record's own row")
	}
	row := instance("i-1", "a", 1)
	s.ApplyRecord(state.Record{Op: state.Insert, New: row})
	if s.Instances["i-1"].Instance == row {
		t.Error("the snapshot has the record's own row")
	}
}
