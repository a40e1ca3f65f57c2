package moves_test

import (
	"cmp"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement/moves"
)

// Tasks are in the order of their ids, and those of one id in the order of their owners: ids that
// differ in any byte, and ids that begin with one another.
func TestTasksAreSortedByIDThenOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Custom(func(t *rapid.T) string {
			begin := rapid.SampledFrom([]string{"", "a", "abcdefg", "abcdefgh", "abcdefghijklmno", "abcdefghijklmnop"})
			return begin.Draw(t, "begin") + rapid.StringMatching(`[ab\x00]{0,12}`).Draw(t, "end")
		})
		var tasks []*cluster.Task
		for range rapid.IntRange(0, 40).Draw(t, "tasks") {
			x := &cluster.Task{}
			x.ID, x.Owner = id.Draw(t, "id"), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "owner")
			tasks = append(tasks, x)
		}
		moves.SortTasks(tasks)
		for n := 1; n < len(tasks); n++ {
			a, b := tasks[n-1], tasks[n]
			if cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Owner, b.Owner)) > 0 {
				t.Fatalf("task %q of %s is before %q of %s", a.ID, a.Owner, b.ID, b.Owner)
			}
		}
	})
}
