package placement_test

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/state"
	"berth/tests/oracle"
)

// What a user reads if a task finds no instance (P17).
func TestDiagnosisText(t *testing.T) {
	big := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{CPU: 4 * cluster.VCPU, Memory: 1024},
		Owner: "web"}, Count: 1}
	wide := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{Memory: 1 << 20}, Owner: "web"}, Count: 3}
	for _, c := range []struct {
		name    string
		request placement.Request
		rows    []state.Row
		want    string
		closest string
	}{
		{"EmptyCluster", oracle.WebRequest(1), nil, "0/0", ""},
		{"DeregisteredIsNotEvaluated", oracle.WebRequest(1), []state.Row{oracle.Instance("i-1",
			oracle.Status(cluster.InstanceInactive))}, "0/0", ""},
		{"LargestGroupFirst", big, []state.Row{
			oracle.Instance("i-1"), oracle.Instance("i-2", oracle.CPU(3000)),
			oracle.Instance("i-3", oracle.Status(cluster.InstanceDraining)),
		}, "0/3: 2 insufficient CPU (needs 4096 units, best free 3000), 1 not active (DRAINING)", "i-2"},
		{"EachStatusByItself", oracle.WebRequest(1), []state.Row{
			oracle.Instance("i-1", oracle.Status(cluster.InstanceRegistering)),
			oracle.Instance("i-2", oracle.Status(cluster.InstanceDraining)),
			oracle.Instance("i-3", oracle.Disconnected),
		}, "0/3: 1 agent disconnected, 1 not active (DRAINING), 1 not active (REGISTERING)", "i-3"},
		{"LargeNumbersInFull", wide, []state.Row{oracle.Instance("i-1"),
			oracle.Instance("i-2", oracle.Memory(1_000_000))},
			"0/2: 2 insufficient memory (needs 1048576 MiB, best free 1000000)", "i-2"},
		{"BestOfThoseRemoved", placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{Memory: 1024, GPUs: 1}},
			Count: 1}, []state.Row{
			oracle.Instance("i-1", oracle.Memory(1000), oracle.GPUs(1)), oracle.Instance("i-2", oracle.Memory(8000)),
			oracle.Instance("i-3", oracle.Memory(812), oracle.GPUs(1)),
		}, "0/3: 2 insufficient memory (needs 1024 MiB, best free 1000), 1 insufficient GPU (needs 1, best free 0)",
			"i-2"},
		{"SharesOfADevice", placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: 1, GPUMilli: 500}},
			Count: 1}, []state.Row{
			oracle.Instance("i-1", oracle.GPUs(1)), oracle.Task("t", "i-1", func(t *cluster.Task) {
				t.Needs, t.GPUs = cluster.Resources{GPUs: 1, GPUMilli: 700}, []int{0}
			}),
		}, "0/1: 1 insufficient GPU (needs 0.5, best free 0.3)", "i-1"},
		{"NoShareIsAWholeDevice", placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: 1}}, Count: 1},
			[]state.Row{oracle.Instance("i-1", oracle.GPUs(1)), oracle.Task("t", "i-1", func(t *cluster.Task) {
				t.Needs, t.GPUs = cluster.Resources{GPUs: 1, GPUMilli: 700}, []int{0}
			})}, "0/1: 1 insufficient GPU (needs 1, best free 0)", "i-1"},
		{"TheAttributeAsked", placement.Request{Spec: &placement.Spec{Attributes: []string{"disk=ssd",
			"ecs.capability.task-eni"}}, Count: 1}, []state.Row{
			oracle.Instance("i-1", oracle.Attribute("disk", "ssd")),
			oracle.Instance("i-2", oracle.Attribute("disk", "hdd")), oracle.Instance("i-3"),
		}, "0/3: 2 missing attribute (disk=ssd), 1 missing attribute (ecs.capability.task-eni)", "i-1"},
		{"TheTaintThatIsNotTolerated", placement.Request{Spec: &placement.Spec{
			Tolerations: []cluster.Toleration{{Key: "dedicated", Value: "gpu"}}}, Count: 2}, []state.Row{
			oracle.Instance("i-1", oracle.Attribute("berth.taints", "dedicated:db:NO_SCHEDULE")),
			oracle.Instance("i-2", oracle.Attribute("berth.taints", "dedicated:gpu:NO_EXECUTE old::NO_SCHEDULE")),
		}, "0/2: 1 taint not tolerated (dedicated=db:NO_SCHEDULE), 1 taint not tolerated (old:NO_SCHEDULE)", "i-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := placement.New(oracle.SnapshotOf(c.rows...)).Place(c.request).Diagnosis
			oracle.Expect(t, "text", d.String(), c.want)
			oracle.Expect(t, "closest", d.Closest, c.closest)
		})
	}
}

func TestClosestNeedsTheLeastChange(t *testing.T) {
	r := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 4000,
		GPUs: 1}}, Count: 1}
	closest := func(rows ...state.Row) string {
		d := placement.New(oracle.SnapshotOf(rows...)).Place(r).Diagnosis
		return fmt.Sprint(d.Closest, " ", d.ClosestFilter)
	}
	t.Run("FewestFilters", func(t *testing.T) {
		// i-1 has the CPU and lacks memory and a GPU, i-2 lacks only CPU.
		oracle.Expect(t, "closest", closest(oracle.Instance("i-1", oracle.Memory(1)),
			oracle.Instance("i-2", oracle.CPU(1), oracle.GPUs(1))), "i-2 insufficient CPU")
	})
	t.Run("LatestFilter", func(t *testing.T) {
		oracle.Expect(t, "closest", closest(oracle.Instance("i-1", oracle.CPU(1), oracle.GPUs(1)),
			oracle.Instance("i-2", oracle.Memory(1), oracle.GPUs(1))), "i-2 insufficient memory")
	})
	t.Run("SmallestLack", func(t *testing.T) {
		oracle.Expect(t, "closest", closest(oracle.Instance("i-1", oracle.Memory(1), oracle.GPUs(1)),
			oracle.Instance("i-2", oracle.Memory(3999), oracle.GPUs(1))), "i-2 insufficient memory")
	})
	t.Run("LowestID", func(t *testing.T) {
		oracle.Expect(t, "closest", closest(oracle.Instance("i-2", oracle.Disconnected, oracle.GPUs(1)),
			oracle.Instance("i-1", oracle.Disconnected, oracle.GPUs(1))), "i-1 agent disconnected")
	})
}

func TestCheckInstance(t *testing.T) {
	why := func(r placement.Request, i *cluster.Instance, tasks ...state.Row) string {
		devices, rejected := oracle.CheckInstance(oracle.SnapshotOf(append(tasks, i)...), "i-1", r)
		if rejected == nil {
			return fmt.Sprint(devices)
		}
		return rejected.String()
	}
	daemon := oracle.WebRequest(1)
	daemon.Spec.PerInstance = 1
	for _, c := range []struct{ name, got, want string }{
		{"Fits", why(oracle.WebRequest(1), oracle.Instance("i-1")), "[]"},
		{"FitsExactly", why(oracle.WebRequest(1), oracle.Instance("i-1", oracle.CPU(256), oracle.Memory(512))), "[]"},
		{"TheFirstFilterCounts", why(oracle.WebRequest(1),
			oracle.Instance("i-1", oracle.Disconnected, oracle.Memory(1))),
			"1 agent disconnected"},
		{"Gone", why(oracle.WebRequest(1), oracle.Instance("i-1", oracle.Status(cluster.InstanceInactive))),
			"1 not active (INACTIVE)"},
		{"Occupied", why(daemon, oracle.Instance("i-1"), oracle.Task("t", "i-1")), "1 already has one"},
		{"NotOccupiedByOthers", why(daemon, oracle.Instance("i-1"), oracle.Task("t", "i-1", oracle.Owner("other"))),
			"[]"},
		{"FullByAStoppingTask", why(oracle.WebRequest(1), oracle.Instance("i-1", oracle.Memory(1000)),
			oracle.Task("t", "i-1", oracle.Stopping)),
			"1 insufficient memory (needs 512 MiB, best free 488)"},
		{"Devices", why(placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: 2}}},
			oracle.Instance("i-1", oracle.GPUs(3))), "[0 1]"},
	} {
		t.Run(c.name, func(t *testing.T) { oracle.Expect(t, "Check", c.got, c.want) })
	}
	t.Run("UnknownInstance", func(t *testing.T) {
		_, rejected := oracle.CheckInstance(oracle.SnapshotOf(oracle.Task("t", "i-1")), "i-1", oracle.WebRequest(1))
		oracle.Expect(t, "filter", rejected.Filter, cluster.FilterStatus)
	})
}

// Of many details of one filter the eight with the most instances are listed, in the order of the
// alphabet, and the others are summed up.
func TestRareDetailsAreSummedUp(t *testing.T) {
	var rows []state.Row
	for rack := range 10 { // rack 9 has the most instances, racks 0 and 1 the fewest
		for n := range rack + 1 {
			id := fmt.Sprintf("i-%d-%02d", rack, n)
			rows = append(rows, oracle.Instance(id, oracle.Attribute(cluster.AttributeFaultDomain,
				fmt.Sprint("fd:/r", rack))))
			if n == 0 {
				rows = append(rows, oracle.Task("t"+id, id, oracle.Owner("o")))
			}
		}
	}
	r := placement.Request{Count: 1, Target: 11, Spec: &placement.Spec{Owner: "o",
		DomainPolicy: cluster.PolicyNonpacking}}
	d := placement.New(oracle.SnapshotOf(rows...)).Place(r).Diagnosis
	got := ""
	for _, x := range d.Rejected {
		if x.Filter == cluster.FilterFaultDomain {
			got += fmt.Sprintf("%s %d, ", x.Detail, x.Count)
		}
	}
	// One instance of each rack has a task, which counts first.
	oracle.Expect(t, "details", got, "fd:/r3 3, fd:/r4 4, fd:/r5 5, fd:/r6 6, fd:/r7 7, fd:/r8 8, fd:/r9 9, others 3, ")
}
