package nodegroup_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
)

// The example of rule N2: with five zones, one node at a time gives ten more nodes, twenty at a
// time twenty more.
func TestUpgradeOfFiveZones(t *testing.T) {
	for _, c := range []struct{ unavailable, surge int }{{1, 10}, {20, 20}} {
		t.Run(fmt.Sprintf("MaxUnavailable%d", c.unavailable), func(t *testing.T) {
			w := newWorld(t, 5, 20, cluster.UpdateConfig{MaxUnavailable: c.unavailable})
			w.begin()
			most := w.group.Sizes
			u := w.until(func(u *cluster.Update) bool {
				most.Max, most.Desired = max(most.Max, w.group.Max), max(most.Desired, w.group.Desired)
				return u.HasEnded()
			})
			w.check()
			if u.Status != cluster.UpdateSuccessful || u.Surge != c.surge || u.SizesReason != "" {
				t.Errorf("%s with a surge of %d (%s): %v", u.Status, u.Surge, u.SizesReason, u.Errors)
			}
			if want := (cluster.Sizes{Min: 1, Max: 102 + c.surge, Desired: 100 + c.surge}); most != want {
				t.Errorf("the group grew to %+v, want %+v", most, want)
			}
			if n := len(w.vms); n != 100 {
				t.Errorf("%d nodes are left", n)
			}
			t.Logf("%v, %d writes, %d actions", w.now.Sub(noon), w.writes, w.acts)
		})
	}
}
