package replay

import (
	"context"
	"testing"
	"time"

	"berth/cmd/berth/trace"
)

// shortTasks returns the tasks among the first n that run for at most the given time.
func shortTasks(tasks []trace.Task, n int, most time.Duration) (out []trace.Task) {
	for _, p := range tasks[:n] {
		if runTime(p) <= most {
			out = append(out, p)
		}
	}
	return out
}

// TestConsolidationSaves replays a part of the trace on groups twice: by ECS's rules and with
// consolidation, which must run the same tasks in at least 15 % fewer instance-hours and violate no
// percentage.
func TestConsolidationSaves(t *testing.T) {
	nodes, tasks := shippedTrace(t)
	o := Options{Nodes: everyNth(nodes, 50), Tasks: shortTasks(tasks, 250, 12*time.Hour), Compress: 20000, Seed: 1}
	var got [2]Scaled
	for n, consolidate := range []bool{false, true} {
		var err error
		if got[n], err = RunScaled(context.Background(), o, consolidate); err != nil {
			t.Fatal(err)
		}
		if got[n].Ran != len(o.Tasks) || got[n].Violated > 0 {
			t.Errorf("consolidate %t: %+v", consolidate, got[n])
		}
	}
	if got[0].Moved > 0 {
		t.Errorf("%d tasks were moved without consolidation", got[0].Moved)
	}
	if got[1].InstanceHours > 0.85*got[0].InstanceHours {
		t.Errorf("%.1f instance-hours with consolidation, %.1f without", got[1].InstanceHours, got[0].InstanceHours)
	}
	t.Logf("%+v, with consolidation %+v", got[0], got[1])
}
