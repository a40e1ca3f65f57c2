package placement_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/state"
	. "berth/tests/oracle"
)

// The golden texts: what a user reads when a task finds no instance (P17).
func TestDiagnosisInWords(t *testing.T) {
	big := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{CPU: 4 * cluster.VCPU, Memory: 1024}, Owner: "web"}, Count: 1}
	wide := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{Memory: 1 << 20}, Owner: "web"}, Count: 3}
	for _, c := range []struct {
		name    string
		request placement.Request
		rows    []state.Row
		want    string
		closest string
	}{
		{"EmptyCluster", Web(1), nil, "0/0", ""},
		{"GoneIsNotEvaluated", Web(1), []state.Row{Instance("i-1", Status(cluster.InstanceInactive))}, "0/0", ""},
		{"LargestGroupFirst", big, []state.Row{
			Instance("i-1"), Instance("i-2", CPU(3000)), Instance("i-3", Status(cluster.InstanceDraining)),
		}, "0/3: 2 insufficient CPU (needs 4096 units, best free 3000), 1 not active (DRAINING)", "i-2"},
		{"EachStatusByItself", Web(1), []state.Row{
			Instance("i-1", Status(cluster.InstanceRegistering)), Instance("i-2", Status(cluster.InstanceDraining)), Instance("i-3", Disconnected),
		}, "0/3: 1 agent disconnected, 1 not active (DRAINING), 1 not active (REGISTERING)", "i-3"},
		{"LargeNumbersInFull", wide, []state.Row{Instance("i-1"), Instance("i-2", Memory(1_000_000))},
			"0/2: 2 insufficient memory (needs 1048576 MiB, best free 1000000)", "i-2"},
		{"BestOfThoseRemoved", placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{Memory: 1024, GPUs: 1}}, Count: 1}, []state.Row{
			Instance("i-1", Memory(1000), GPUs(1)), Instance("i-2", Memory(8000)), Instance("i-3", Memory(812), GPUs(1)),
		}, "0/3: 2 insufficient memory (needs 1024 MiB, best free 1000), 1 insufficient GPU (needs 1, best free 0)", "i-2"},
		{"SharesOfADevice", placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: 1, GPUMilli: 500}}, Count: 1}, []state.Row{
			Instance("i-1", GPUs(1)), Task("t", "i-1", func(t *cluster.Task) {
				t.Needs, t.GPUs = cluster.Resources{GPUs: 1, GPUMilli: 700}, []int{0}
			}),
		}, "0/1: 1 insufficient GPU (needs 0.5, best free 0.3)", "i-1"},
		{"TheAttributeAsked", placement.Request{Spec: &placement.Spec{Attributes: []string{"disk=ssd", "ecs.capability.task-eni"}}, Count: 1}, []state.Row{
			Instance("i-1", Attribute("disk", "ssd")), Instance("i-2", Attribute("disk", "hdd")), Instance("i-3"),
		}, "0/3: 2 missing attribute (disk=ssd), 1 missing attribute (ecs.capability.task-eni)", "i-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := placement.New(SnapshotOf(c.rows...)).Place(c.request).Diagnosis
			Expect(t, "text", d.String(), c.want)
			Expect(t, "closest", d.Closest, c.closest)
		})
	}
}

func TestClosestIsTheOneThatNeedsTheLeastChange(t *testing.T) {
	r := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 4000, GPUs: 1}}, Count: 1}
	closest := func(rows ...state.Row) string {
		d := placement.New(SnapshotOf(rows...)).Place(r).Diagnosis
		return fmt.Sprint(d.Closest, " ", d.ClosestFilter)
	}
	t.Run("FewestFilters", func(t *testing.T) {
		// i-1 has the CPU and lacks memory and a GPU, i-2 lacks only CPU.
		Expect(t, "closest", closest(Instance("i-1", Memory(1)), Instance("i-2", CPU(1), GPUs(1))), "i-2 insufficient CPU")
	})
	t.Run("LatestFilter", func(t *testing.T) {
		Expect(t, "closest", closest(Instance("i-1", CPU(1), GPUs(1)), Instance("i-2", Memory(1), GPUs(1))), "i-2 insufficient memory")
	})
	t.Run("SmallestLack", func(t *testing.T) {
		Expect(t, "closest", closest(Instance("i-1", Memory(1), GPUs(1)), Instance("i-2", Memory(3999), GPUs(1))), "i-2 insufficient memory")
	})
	t.Run("LowestID", func(t *testing.T) {
		Expect(t, "closest", closest(Instance("i-2", Disconnected, GPUs(1)), Instance("i-1", Disconnected, GPUs(1))), "i-1 agent disconnected")
	})
}

func TestCheck(t *testing.T) {
	why := func(r placement.Request, i *cluster.Instance, tasks ...state.Row) string {
		devices, rejected := Check(SnapshotOf(append(tasks, i)...), "i-1", r)
		if rejected == nil {
			return fmt.Sprint(devices)
		}
		return rejected.String()
	}
	daemon := Web(1)
	daemon.Spec.PerInstance = 1
	for _, c := range []struct{ name, got, want string }{
		{"Fits", why(Web(1), Instance("i-1")), "[]"},
		{"FitsExactly", why(Web(1), Instance("i-1", CPU(256), Memory(512))), "[]"},
		{"TheFirstFilterCounts", why(Web(1), Instance("i-1", Disconnected, Memory(1))), "1 agent disconnected"},
		{"Gone", why(Web(1), Instance("i-1", Status(cluster.InstanceInactive))), "1 not active (INACTIVE)"},
		{"Occupied", why(daemon, Instance("i-1"), Task("t", "i-1")), "1 already has one"},
		{"NotOccupiedByOthers", why(daemon, Instance("i-1"), Task("t", "i-1", Owner("other"))), "[]"},
		{"FullByAStoppingTask", why(Web(1), Instance("i-1", Memory(1000)), Task("t", "i-1", Stopping)),
			"1 insufficient memory (needs 512 MiB, best free 488)"},
		{"Devices", why(placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: 2}}}, Instance("i-1", GPUs(3))), "[0 1]"},
	} {
		t.Run(c.name, func(t *testing.T) { Expect(t, "Check", c.got, c.want) })
	}
	t.Run("UnknownInstance", func(t *testing.T) {
		_, rejected := Check(SnapshotOf(Task("t", "i-1")), "i-1", Web(1))
		Expect(t, "filter", rejected.Filter, cluster.FilterStatus)
	})
}
