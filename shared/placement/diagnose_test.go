package placement_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/state"
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
		{"EmptyCluster", web(1), nil, "0/0", ""},
		{"GoneIsNotEvaluated", web(1), []state.Row{instance("i-1", status(cluster.InstanceInactive))}, "0/0", ""},
		{"LargestGroupFirst", big, []state.Row{
			instance("i-1"), instance("i-2", cpu(3000)), instance("i-3", status(cluster.InstanceDraining)),
		}, "0/3: 2 insufficient CPU (needs 4096 units, best free 3000), 1 not active (DRAINING)", "i-2"},
		{"EachStatusByItself", web(1), []state.Row{
			instance("i-1", status(cluster.InstanceRegistering)), instance("i-2", status(cluster.InstanceDraining)), instance("i-3", disconnected),
		}, "0/3: 1 agent disconnected, 1 not active (DRAINING), 1 not active (REGISTERING)", "i-3"},
		{"LargeNumbersInFull", wide, []state.Row{instance("i-1"), instance("i-2", memory(1_000_000))},
			"0/2: 2 insufficient memory (needs 1048576 MiB, best free 1000000)", "i-2"},
		{"BestOfThoseRemoved", placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{Memory: 1024, GPUs: 1}}, Count: 1}, []state.Row{
			instance("i-1", memory(1000), gpus(1)), instance("i-2", memory(8000)), instance("i-3", memory(812), gpus(1)),
		}, "0/3: 2 insufficient memory (needs 1024 MiB, best free 1000), 1 insufficient GPU (needs 1, best free 0)", "i-2"},
		{"SharesOfADevice", placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: 1, GPUMilli: 500}}, Count: 1}, []state.Row{
			instance("i-1", gpus(1)), task("t", "i-1", func(t *cluster.Task) {
				t.Needs, t.GPUs = cluster.Resources{GPUs: 1, GPUMilli: 700}, []int{0}
			}),
		}, "0/1: 1 insufficient GPU (needs 0.5, best free 0.3)", "i-1"},
		{"TheAttributeAsked", placement.Request{Spec: &placement.Spec{Attributes: []string{"disk=ssd", "ecs.capability.task-eni"}}, Count: 1}, []state.Row{
			instance("i-1", attribute("disk", "ssd")), instance("i-2", attribute("disk", "hdd")), instance("i-3"),
		}, "0/3: 2 missing attribute (disk=ssd), 1 missing attribute (ecs.capability.task-eni)", "i-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := placement.New(snapshotOf(c.rows...)).Place(c.request).Diagnosis
			expect(t, "text", d.String(), c.want)
			expect(t, "closest", d.Closest, c.closest)
		})
	}
}

func TestClosestIsTheOneThatNeedsTheLeastChange(t *testing.T) {
	r := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 4000, GPUs: 1}}, Count: 1}
	closest := func(rows ...state.Row) string {
		d := placement.New(snapshotOf(rows...)).Place(r).Diagnosis
		return fmt.Sprint(d.Closest, " ", d.ClosestFilter)
	}
	t.Run("FewestFilters", func(t *testing.T) {
		// i-1 has the CPU and lacks memory and a GPU, i-2 lacks only CPU.
		expect(t, "closest", closest(instance("i-1", memory(1)), instance("i-2", cpu(1), gpus(1))), "i-2 insufficient CPU")
	})
	t.Run("LatestFilter", func(t *testing.T) {
		expect(t, "closest", closest(instance("i-1", cpu(1), gpus(1)), instance("i-2", memory(1), gpus(1))), "i-2 insufficient memory")
	})
	t.Run("SmallestLack", func(t *testing.T) {
		expect(t, "closest", closest(instance("i-1", memory(1), gpus(1)), instance("i-2", memory(3999), gpus(1))), "i-2 insufficient memory")
	})
	t.Run("LowestID", func(t *testing.T) {
		expect(t, "closest", closest(instance("i-2", disconnected, gpus(1)), instance("i-1", disconnected, gpus(1))), "i-1 agent disconnected")
	})
}

func TestCheck(t *testing.T) {
	why := func(r placement.Request, i *cluster.Instance, tasks ...state.Row) string {
		devices, rejected := check(snapshotOf(append(tasks, i)...), "i-1", r)
		if rejected == nil {
			return fmt.Sprint(devices)
		}
		return rejected.String()
	}
	daemon := web(1)
	daemon.Spec.PerInstance = 1
	for _, c := range []struct{ name, got, want string }{
		{"Fits", why(web(1), instance("i-1")), "[]"},
		{"FitsExactly", why(web(1), instance("i-1", cpu(256), memory(512))), "[]"},
		{"TheFirstFilterCounts", why(web(1), instance("i-1", disconnected, memory(1))), "1 agent disconnected"},
		{"Gone", why(web(1), instance("i-1", status(cluster.InstanceInactive))), "1 not active (INACTIVE)"},
		{"Occupied", why(daemon, instance("i-1"), task("t", "i-1")), "1 already has one"},
		{"NotOccupiedByOthers", why(daemon, instance("i-1"), task("t", "i-1", owner("other"))), "[]"},
		{"FullByAStoppingTask", why(web(1), instance("i-1", memory(1000)), task("t", "i-1", stopping)),
			"1 insufficient memory (needs 512 MiB, best free 488)"},
		{"Devices", why(placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: 2}}}, instance("i-1", gpus(3))), "[0 1]"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, "Check", c.got, c.want) })
	}
	t.Run("UnknownInstance", func(t *testing.T) {
		_, rejected := check(snapshotOf(task("t", "i-1")), "i-1", web(1))
		expect(t, "filter", rejected.Filter, cluster.FilterStatus)
	})
}
