package specs

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// A task that moves needs room for the loads that it takes along: those that it has reported, of metrics
// that its service still has. The specs of two tasks with different loads are not confused.
func TestPlannedMovesNeedRoomForReportedLoads(t *testing.T) {
	c := NewCache(nil)
	spec := &placement.Spec{Owner: "web", Loads: []cluster.Metric{{Name: "m", Load: 10}, {Name: "n", Load: 5}}}
	for _, x := range []struct {
		reported map[string]int64
		along    string
		loads    string
	}{
		{nil, "map[]", "[10 5]"},
		{map[string]int64{"m": 60}, "map[m:60]", "[60 5]"},
		{map[string]int64{"m": 60, "n": 0}, "map[m:60 n:0]", "[60 0]"},
		{map[string]int64{"m": 70, "gone": 9}, "map[m:70]", "[70 5]"},
		{map[string]int64{"gone": 9}, "map[]", "[10 5]"},
	} {
		along := LoadsTakenAlong(&cluster.Task{TaskReport: cluster.TaskReport{Reported: x.reported}}, spec)
		if got := fmt.Sprint(along); got != x.along {
			t.Errorf("of %v it takes %s along, expected %s", x.reported, got, x.along)
		}
		for range 2 {
			next := c.ForPlannedMove(spec, &cluster.Configuration{}, false, along)
			if got := fmt.Sprint([]int64{next.Loads[0].Load, next.Loads[1].Load}); got != x.loads {
				t.Errorf("with %v it needs room for %s, expected %s", x.reported, got, x.loads)
			}
		}
	}
	if got := spec.Loads[0].Load; got != 10 {
		t.Errorf("the load of new tasks is %d, expected 10 as before", got)
	}
}
