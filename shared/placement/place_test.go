package placement_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/eligibility"
	"berth/shared/state"
	"berth/tests/oracle"
)

func TestPlaceSpreads(t *testing.T) {
	t.Run("ToTheZoneWithFewestTasks", func(t *testing.T) {
		// The documentation's example: zone a runs one task of the service, b and c none.
		s := oracle.SnapshotOf(oracle.Instance("i-a", oracle.Zone("a")), oracle.Instance("i-b", oracle.Zone("b")),
			oracle.Instance("i-c", oracle.Zone("c")), oracle.Task("t", "i-a"))
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(oracle.WebRequest(3)).Placed), "i-b i-c i-a")
	})
	t.Run("ThenToTheInstanceWithFewest", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.Zone("a")), oracle.Instance("i-2", oracle.Zone("a")),
			oracle.Instance("i-3", oracle.Zone("b")),
			oracle.Task("t1", "i-1"), oracle.Task("t2", "i-3"), oracle.Task("t3", "i-3"))
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(oracle.WebRequest(2)).Placed), "i-2 i-1")
	})
	t.Run("ZoneBeforeInstance", func(t *testing.T) {
		// i-3 has a task and i-2 none, but zone a has two.
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.Zone("a")), oracle.Instance("i-2", oracle.Zone("a")),
			oracle.Instance("i-3", oracle.Zone("b")),
			oracle.Task("t1", "i-1"), oracle.Task("t2", "i-1"), oracle.Task("t3", "i-3"))
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(oracle.WebRequest(1)).Placed), "i-3")
	})
	t.Run("AcrossInstancesWithoutAZone", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1"), oracle.Instance("i-2"), oracle.Instance("i-3", oracle.Zone("a")))
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(oracle.WebRequest(4)).Placed), "i-1 i-3 i-2 i-3")
	})
	t.Run("CountsTasksOfTheOwnerAlone", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.Zone("a")), oracle.Instance("i-2", oracle.Zone("b")),
			oracle.Task("t", "i-1", oracle.Owner("other")),
			oracle.Task("u", "i-2"))
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(oracle.WebRequest(1)).Placed), "i-1")
	})
	t.Run("AmongTheGroupOfStandaloneTasks", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.Zone("a")), oracle.Instance("i-2", oracle.Zone("b")),
			oracle.Task("t", "i-1", oracle.Group("family:x")),
			oracle.Task("u", "i-2", oracle.Group("family:y")), oracle.Task("v", "i-2", oracle.Group("family:y")))
		r := oracle.WebRequest(1)
		oracle.Expect(t, "all", oracle.Where(placement.New(s).Place(r).Placed), "i-1")
		r.Spec.Group = "family:x"
		oracle.Expect(t, "group", oracle.Where(placement.New(s).Place(r).Placed), "i-2")
	})
	t.Run("AmongItsDeployment", func(t *testing.T) {
		// Tasks of the earlier deployment are in zones a and b. As they will end, a third in zone c would
		// leave one zone without any.
		s := oracle.SnapshotOf(oracle.Instance("i-a", oracle.Zone("a")), oracle.Instance("i-b", oracle.Zone("b")),
			oracle.Instance("i-c", oracle.Zone("c")), oracle.Task("t1", "i-a", oracle.Deployment("1")),
			oracle.Task("t2", "i-b", oracle.Deployment("1")), oracle.Task("t3", "i-c", oracle.Deployment("2")))
		r := oracle.WebRequest(2)
		r.Spec.Deployment = "2"
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(r).Placed), "i-a i-b")
		r.Spec.PerInstance = 1 // which all tasks of the service count for
		oracle.Expect(t, "apart", oracle.Where(placement.New(s).Place(r).Placed), "")
		r.Spec.PerInstance, r.Count = 2, 5
		oracle.Expect(t, "in pairs", oracle.Where(placement.New(s).Place(r).Placed), "i-a i-b i-c")
	})
	t.Run("NotCountingTasksBeingStopped", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.Zone("a")), oracle.Instance("i-2", oracle.Zone("b")),
			oracle.Task("t1", "i-1", oracle.Stopping),
			oracle.Task("t2", "i-1", func(t *cluster.Task) { t.Last = cluster.TaskStopping }), oracle.Task("t3", "i-2"))
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(oracle.WebRequest(1)).Placed), "i-1")
	})
	t.Run("CountingTasksOnInstancesThatTakeNoMore", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.Zone("a"), oracle.Status(cluster.InstanceDraining)),
			oracle.Instance("i-2", oracle.Zone("a")),
			oracle.Instance("i-3", oracle.Zone("b")), oracle.Task("t", "i-1"))
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(oracle.WebRequest(1)).Placed), "i-3")
	})
	t.Run("ToTheNextZoneWhenTheBestIsFull", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.Zone("a"), oracle.Memory(100)),
			oracle.Instance("i-2", oracle.Zone("b")), oracle.Task("t", "i-2"))
		oracle.Expect(t, "one", oracle.Where(placement.New(s).Place(oracle.WebRequest(1)).Placed), "i-2")
		oracle.Expect(t, "two", oracle.Where(placement.New(s).Place(oracle.WebRequest(2)).Placed), "i-2 i-2")
	})
}

func TestPlacePacksBetweenEquals(t *testing.T) {
	t.Run("KeepsOffFreeGPUs", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.GPUs(1)), oracle.Instance("i-2"))
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(oracle.WebRequest(1)).Placed), "i-2")
	})
	t.Run("FillsTheFullest", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1"), oracle.Instance("i-2"),
			oracle.Task("t", "i-2", oracle.Owner("other")))
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(oracle.WebRequest(1)).Placed), "i-2")
	})
	t.Run("WeighsFourGiBAsOneVCPU", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.CPU(1024), oracle.Memory(8192)),
			oracle.Instance("i-2", oracle.CPU(2048), oracle.Memory(4000)))
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(oracle.WebRequest(1)).Placed), "i-2")
	})
	t.Run("TakesTheLowestID", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-2"), oracle.Instance("i-1"))
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(oracle.WebRequest(1)).Placed), "i-1")
	})
}

func TestPlaceCountsItsOwnTasks(t *testing.T) {
	t.Run("FillsToTheLastUnit", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.CPU(512), oracle.Memory(1024)),
			oracle.Instance("i-2", oracle.CPU(256), oracle.Memory(512)))
		got := placement.New(s).Place(oracle.WebRequest(4))
		oracle.Expect(t, "placed", oracle.Where(got.Placed), "i-2 i-1 i-1")
		oracle.Expect(t, "unplaced", got.Diagnosis.Unplaced, 1)
	})
	t.Run("LeavesTheSnapshotAsItIs", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.GPUs(2)))
		r := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{CPU: 1, Memory: 1, GPUs: 1}, Owner: "web",
			Ports: nil}, Count: 2}
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(r).Placed), "i-1[0] i-1[1]")
		v := s.Instances["i-1"]
		if diff := cmp.Diff([]int{1000, 1000}, v.GPUs); diff != "" || v.CPU != 2*cluster.VCPU || s.TaskCount() != 0 {
			t.Errorf("changed: %+v", v)
		}
	})
	t.Run("CountsDevicesItGave", func(t *testing.T) {
		// After the first task both have one task and three devices free; i-1 has less memory left.
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.GPUs(4), oracle.Memory(600)),
			oracle.Instance("i-2", oracle.GPUs(3)), oracle.Task("t", "i-2", oracle.Needs(cluster.Resources{})))
		r := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: 1}, Owner: "web"}, Count: 2}
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(r).Placed), "i-1[0] i-1[1]")
	})
	t.Run("TheBestOfAllZonesWithFewest", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.Zone("a")),
			oracle.Instance("i-2", oracle.Zone("b"), oracle.Memory(1024)), oracle.Instance("i-3", oracle.Zone("c")),
			oracle.Task("t", "i-3"))
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(oracle.WebRequest(1)).Placed), "i-2")
	})
	t.Run("PlacesNoneOfNone", func(t *testing.T) {
		for _, n := range []int{0, -1} {
			if got := placement.New(oracle.SnapshotOf(oracle.Instance("i-1"))).Place(oracle.WebRequest(n)); len(got.Placed) != 0 || got.Diagnosis != nil {
				t.Errorf("count %d: %+v", n, got)
			}
		}
	})
	t.Run("OneStaticPortPerInstance", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1"), oracle.Instance("i-2", oracle.Reserved(oracle.QUIC)),
			oracle.Instance("i-3", oracle.Reserved(oracle.HTTP)))
		r := oracle.WebRequest(3)
		r.Spec.Ports = []cluster.Port{oracle.HTTP}
		got := placement.New(s).Place(r)
		oracle.Expect(t, "placed", oracle.Where(got.Placed), "i-1 i-2")
		oracle.Expect(t, "diagnosis", got.Diagnosis.String(), "0/3: 3 port in use (80/tcp)")
	})
}

func TestPlaceAssignsDevices(t *testing.T) {
	gpu := func(n, milli int) placement.Request {
		return placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: n, GPUMilli: int32(milli)},
			Owner: "web"}, Count: 1}
	}
	whole, two, share := gpu(1, 0), gpu(2, 0), gpu(1, 400)
	holds := func(milli int, devices ...int) oracle.TaskOption {
		return func(t *cluster.Task) {
			t.Needs, t.GPUs = cluster.Resources{GPUs: len(devices), GPUMilli: int32(milli)}, devices
		}
	}
	foreign := oracle.Needs(cluster.Resources{GPUs: 1})
	for _, c := range []struct {
		name    string
		request placement.Request
		tasks   []*cluster.Task
		want    string
	}{
		{"TheFirstFree", whole, []*cluster.Task{oracle.Task("t", "i-1", holds(0, 0))}, "i-1[1]"},
		{"SeveralAtOnce", two, []*cluster.Task{oracle.Task("t", "i-1", holds(0, 1))}, "i-1[0,2]"},
		{"NoSharedOneAsWhole", two, []*cluster.Task{oracle.Task("t", "i-1", holds(100, 0)),
			oracle.Task("u", "i-1", holds(100, 1))}, ""},
		{"AShareWhereLeastIsLeft", share, []*cluster.Task{oracle.Task("t", "i-1", holds(300, 0)),
			oracle.Task("u", "i-1", holds(600, 2))}, "i-1[2]"},
		{"AShareOfAFreeOneIfNeedBe", share, []*cluster.Task{oracle.Task("t", "i-1", holds(700, 0)),
			oracle.Task("u", "i-1", holds(0, 1))}, "i-1[2]"},
		{"ShareOfOneDeviceOnly", share, []*cluster.Task{
			oracle.Task("t", "i-1", holds(700, 0)), oracle.Task("u", "i-1", holds(700, 1)),
			oracle.Task("v", "i-1", holds(700, 2))}, ""},
		{"LeavingWhatForeignTasksHold", two, []*cluster.Task{oracle.Task("t", "i-1", foreign),
			oracle.Task("u", "i-1", foreign)}, ""},
		{"NoShareOfWhatForeignTasksHold", share, []*cluster.Task{
			oracle.Task("t", "i-1", foreign), oracle.Task("u", "i-1", foreign), oracle.Task("v", "i-1", foreign)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.GPUs(3)))
			for _, task := range c.tasks {
				s.Put(task)
			}
			oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(c.request).Placed), c.want)
		})
	}
}

func TestPlaceOnRequestedInstances(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("i-1"), oracle.Instance("i-2"), oracle.Instance("i-3", oracle.Memory(100)),
		oracle.Instance("i-4"),
		oracle.Instance("i-5", oracle.Status(cluster.InstanceInactive)), oracle.Task("t", "i-4"),
		oracle.Task("u", "i-4", oracle.Stopping))
	on := func(n, perInstance int, ids ...string) placement.Result {
		r := oracle.WebRequest(n)
		r.Instances, r.Spec.PerInstance = ids, perInstance
		return placement.New(s).Place(r)
	}
	t.Run("InRequestedOrder", func(t *testing.T) {
		oracle.Expect(t, "placed", oracle.Where(on(2, 0, "i-4", "i-2", "i-1").Placed), "i-4 i-2")
	})
	t.Run("OneEachBeforeASecond", func(t *testing.T) {
		oracle.Expect(t, "placed", oracle.Where(on(4, 0, "i-2", "i-3", "i-1", "i-2").Placed), "i-2 i-1 i-2 i-1")
	})
	t.Run("OneEachAtMostForADaemon", func(t *testing.T) {
		got := on(3, 1, "i-1", "i-4", "i-2")
		oracle.Expect(t, "placed", oracle.Where(got.Placed), "i-1 i-2")
		oracle.Expect(t, "diagnosis", got.Diagnosis.String(), "0/3: 3 already have one")
	})
	t.Run("NeitherUnknownNorDeregistered", func(t *testing.T) {
		got := on(1, 0, "i-5", "i-9")
		oracle.Expect(t, "evaluated", got.Diagnosis.Evaluated, 0)
		oracle.Expect(t, "diagnosis", got.Diagnosis.String(), "0/0")
	})
	t.Run("NoneNamed", func(t *testing.T) {
		r := oracle.WebRequest(1)
		r.Instances = []string{}
		oracle.Expect(t, "placed", len(placement.New(s).Place(r).Placed), 0)
	})
	t.Run("ADaemonWaitsForItsPredecessor", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1"), oracle.Task("t", "i-1", oracle.Stopping))
		r := oracle.WebRequest(1)
		r.Instances, r.Spec.PerInstance = []string{"i-1"}, 1
		oracle.Expect(t, "placed", oracle.Where(placement.New(s).Place(r).Placed), "")
	})
}

func TestEligibleInstances(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("i-3", oracle.Attribute("disk", "ssd")),
		oracle.Instance("i-1", oracle.Zone("z"), oracle.Attribute("disk", "ssd"), oracle.Disconnected),
		oracle.Instance("i-2", oracle.Attribute("disk", "hdd")),
		oracle.Instance("i-4", oracle.Attribute("disk", "ssd"), oracle.Status(cluster.InstanceDraining)),
		oracle.Instance("i-5", oracle.Attribute("disk", "ssd"), oracle.Memory(0)),
		oracle.Instance("i-6", oracle.Attribute("disk", "ssd"), oracle.Status(cluster.InstanceInactive)),
		oracle.Task("t", "i-7"))
	r := placement.Request{Spec: &placement.Spec{Needs: oracle.Small, Attributes: []string{"disk=ssd"}, Owner: "web"}}
	if diff := cmp.Diff([]string{"i-1", "i-3", "i-5"}, placement.New(s).EligibleInstances(r.Spec)); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[string]bool{"i-1": true, "i-2": false, "i-4": true, "i-7": true, "i-8": true} {
		oracle.Expect(t, "Matches "+id, placement.New(s).MatchesInstance(s.Instances[id], r.Spec), want)
	}
}

// A taint keeps tasks without a matching toleration away: also where somebody wrote it by hand.
func TestPlaceKeepsOffTaintedInstances(t *testing.T) {
	for _, c := range []struct {
		taints, tolerations string
		want                bool
	}{
		{"", "", true}, {"", "a=b", true}, {"a:b:NO_SCHEDULE", "", false}, {"a:b:NO_EXECUTE", "", false},
		{"a:b:NO_SCHEDULE", "a", true}, {"a:b:NO_SCHEDULE", "a=b", true}, {"a:b:NO_SCHEDULE", "a=c", false},
		{"a:b:NO_SCHEDULE", "a:NO_EXECUTE", false}, {"a:b:NO_EXECUTE", "a=b:NO_EXECUTE", true},
		{"a:b:NO_SCHEDULE", "b", false}, {"a:b:NO_SCHEDULE", "*", true}, {"a:b:NO_SCHEDULE", "*:NO_EXECUTE", false},
		{"a::NO_SCHEDULE", "a=", true}, {"a:b:NO_SCHEDULE", "a=", false},
		{"a:b:NO_SCHEDULE c:d:NO_EXECUTE", "a", false}, {"a:b:NO_SCHEDULE c:d:NO_EXECUTE", "c,a", true},
		{"by-hand", "", false}, {"by-hand", "by-hand", true}, {"a:b:Whatever", "a=b:NO_SCHEDULE", true},
	} {
		tolerations, err := cluster.ReadTolerations(c.tolerations)
		if err != nil {
			t.Fatal(err)
		}
		i := oracle.Instance("i-1")
		if c.taints != "" {
			i = oracle.Instance("i-1", oracle.Attribute(cluster.AttributeTaints, c.taints))
		}
		e := placement.New(oracle.SnapshotOf(i))
		r := placement.Request{Spec: &placement.Spec{Needs: oracle.Small, Owner: "web", Tolerations: tolerations},
			Count: 1}
		if got := len(e.Place(r).Placed) == 1; got != c.want {
			t.Errorf("a task that tolerates %q is placed on %q: %t", c.tolerations, c.taints, got)
		}
		if got := len(e.EligibleInstances(r.Spec)) == 1; got != c.want {
			t.Errorf("a daemon that tolerates %q is due on %q: %t", c.tolerations, c.taints, got)
		}
	}
}

func TestChooseStops(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.Zone("a")), oracle.Instance("i-2", oracle.Zone("b")),
		oracle.Instance("i-3", oracle.Zone("b")))
	all := []*cluster.Task{
		oracle.Task("t1", "i-1"), oracle.Task("t2", "i-1"), oracle.Task("t3", "i-2"), oracle.Task("t4", "i-3"),
		oracle.Task("t5", "i-3", oracle.Created(2000)),
		oracle.Task("t6", "i-1", oracle.Pending), oracle.Task("t7", "", oracle.Pending),
		oracle.Task("t8", "i-2", oracle.Stopping),
	}
	for _, x := range all {
		s.Put(x)
	}
	t.Run("WaitingThenPendingThenTheFullestZone", func(t *testing.T) {
		// Once t6 is gone zone b has three tasks, a two; in b i-3 has two, t5 the younger. Then
		// both zones have two, and i-1 has two, the others one.
		oracle.Expect(t, "stops", oracle.IDs(oracle.ChooseStops(s, all, 4)), "t7 t6 t5 t1")
	})
	t.Run("AllThereAre", func(t *testing.T) {
		oracle.Expect(t, "stops", len(oracle.ChooseStops(s, all, 99)), 7)
	})
	t.Run("None", func(t *testing.T) {
		oracle.Expect(t, "stops", len(oracle.ChooseStops(s, all, 0)), 0)
		oracle.Expect(t, "stops", len(oracle.ChooseStops(s, nil, 3)), 0)
	})
	t.Run("CountsTasksThatAreNoCandidates", func(t *testing.T) {
		oracle.Expect(t, "stops", oracle.IDs(oracle.ChooseStops(s, []*cluster.Task{all[0], all[2]}, 1)), "t1")
	})
	t.Run("CountsWhatItChoseItself", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1"), oracle.Instance("i-2"))
		tasks := []*cluster.Task{oracle.Task("t1", "i-1"), oracle.Task("t2", "i-1"), oracle.Task("t3", "i-1"),
			oracle.Task("t4", "i-2"), oracle.Task("t5", "i-2", oracle.Created(2000))}
		for _, x := range tasks {
			s.Put(x)
		}
		oracle.Expect(t, "stops", oracle.IDs(oracle.ChooseStops(s, tasks, 3)), "t1 t5 t2")
	})
	t.Run("CountsThePendingItChoseToo", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.Zone("a")), oracle.Instance("i-2", oracle.Zone("b")))
		tasks := []*cluster.Task{oracle.Task("t1", "i-1", oracle.Pending), oracle.Task("t2", "i-1"),
			oracle.Task("t3", "i-1"), oracle.Task("t4", "i-2"), oracle.Task("t5", "i-2", oracle.Created(2000))}
		for _, x := range tasks {
			s.Put(x)
		}
		oracle.Expect(t, "stops", oracle.IDs(oracle.ChooseStops(s, tasks, 2)), "t1 t5")
	})
	t.Run("WaitingTasksEmptyNoZone", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1"), oracle.Instance("i-2", oracle.Zone("b")))
		tasks := []*cluster.Task{oracle.Task("t1", "i-1"), oracle.Task("t2", "i-1"), oracle.Task("t3", "i-2"),
			oracle.Task("t4", "", oracle.Pending), oracle.Task("t5", "", oracle.Pending)}
		for _, x := range tasks {
			s.Put(x)
		}
		oracle.Expect(t, "stops", oracle.IDs(oracle.ChooseStops(s, tasks, 3)), "t4 t5 t1")
	})
	t.Run("CountsNoneOfAnotherGroupThatIsReplaced", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Instance("i-1"), oracle.Instance("i-2"))
		come := oracle.Task("t2", "i-1", oracle.Group("g"), oracle.Pending)
		come.Replaces = "t1"
		tasks := []*cluster.Task{oracle.Task("t1", "i-1", oracle.Group("old")), come,
			oracle.Task("t3", "i-1", oracle.Group("g")),
			oracle.Task("t4", "i-2", oracle.Group("g"), oracle.Created(2000))}
		for _, x := range tasks {
			s.Put(x)
		}
		r := oracle.WebRequest(2)
		r.Spec.Group = "g"
		oracle.Expect(t, "stops", oracle.IDs(placement.New(s).ChooseStops(r, tasks[1:])), "t2 t4")
	})
}

// Tasks must leave an instance only for a taint NO_EXECUTE that they do not tolerate.
func TestEvicts(t *testing.T) {
	for _, c := range []struct {
		taints, tolerations string
		want                bool
	}{
		{"", "", false},
		{"a:b:NO_EXECUTE", "", true},
		{"a:b:NO_EXECUTE", "a=b", false},
		{"a:b:NO_EXECUTE", "a=c", true},
		{"a:b:NO_SCHEDULE", "", false},
		{"a:b:NO_SCHEDULE c:d:NO_EXECUTE", "a", true},
		{"a:b:NO_SCHEDULE c:d:NO_EXECUTE", "c", false},
	} {
		tolerations, err := cluster.ReadTolerations(c.tolerations)
		if err != nil {
			t.Fatal(err)
		}
		s := oracle.SnapshotOf(oracle.Instance("i", oracle.Attribute(cluster.AttributeTaints, c.taints)))
		if got := eligibility.Evicts(s.Instances["i"], tolerations); got != c.want {
			t.Errorf("tasks that tolerate %q must leave an instance with %q: %t", c.tolerations, c.taints, got)
		}
	}
}

// Under domain rules, tasks go to the requested instances in the order of the request, where the
// domains admit them: one that admits none at first may do so after others have got theirs.
func TestPlaceOnRequestedInstancesOfDomains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 5 {
			w := oracle.GenWorld(t)
			w.Config = oracle.Configuration(cluster.Configuration{})
			for _, i := range w.Instances {
				i.Status, i.AgentConnected = cluster.InstanceActive, true
				domain := rapid.SampledFrom([]string{"fd:/a", "fd:/a", "fd:/a", "fd:/b", "fd:/c"}).Draw(t, "domain")
				oracle.Attribute(cluster.AttributeFaultDomain, domain)(i)
			}
			r := placement.Request{Count: rapid.IntRange(1, 12).Draw(t, "count"), Target: 6,
				Instances: rapid.Permutation(oracle.Names(w.Instances)).Draw(t, "order"),
				Spec:      &placement.Spec{Owner: "web", DomainPolicy: cluster.PolicyDifference}}
			checkPlaced(t, w, r, placement.New(w.Snapshot(1)).Place(r))
		}
	})
}

// A service that wants all of its tasks or none gets none where some do not fit, unless it has some
// already. What the caller has placed before is not touched.
func TestPlaceAllOrNothing(t *testing.T) {
	rows := []state.Row{oracle.Instance("i-1"), oracle.Instance("i-2")}
	r := oracle.WebRequest(3)
	r.Spec.AllOrNothing, r.Spec.PerInstance = true, 1
	before := []placement.Placement{{Instance: "before"}}
	got := placement.New(oracle.SnapshotOf(rows...)).PlaceInto(before, r)
	oracle.Expect(t, "placed", oracle.Where(got.Placed), "before")
	oracle.Expect(t, "not placed", got.Diagnosis.Unplaced, 3)
	r.Count = 2
	got = placement.New(oracle.SnapshotOf(rows...)).PlaceInto(before, r)
	oracle.Expect(t, "placed", oracle.Where(got.Placed), "before i-1 i-2")
	got = placement.New(oracle.SnapshotOf(append(rows, oracle.Task("t", "i-1"))...)).PlaceInto(before, r)
	oracle.Expect(t, "placed beside one that is there", oracle.Where(got.Placed), "before i-2")
	oracle.Expect(t, "not placed", got.Diagnosis.Unplaced, 1)
}

// An instance without free interfaces is not refused for those to a task that needs none, even if
// tasks there have more than it has.
func TestTasksWithoutInterfacesAreNotRefusedForThem(t *testing.T) {
	none := 0
	s := oracle.SnapshotOf(oracle.Instance("i-1", func(i *cluster.Instance) { i.Registered.ENIs = &none }),
		oracle.Task("t", "i-1", oracle.Owner("other"), oracle.Needs(cluster.Resources{ENIs: 1})))
	for interfaces, want := range map[int32]string{0: "0/1: 1 already has metric m", 1: "0/1: 1 too few interfaces"} {
		r := placement.Request{Spec: &placement.Spec{Owner: "web", Needs: cluster.Resources{ENIs: interfaces}}, Count: 1}
		got := placement.New(s).Place(r)
		if isPlaced := len(got.Placed) == 1; isPlaced != (interfaces == 0) {
			t.Errorf("with %d interfaces: placed %v, %s", interfaces, got.Placed, want)
		}
		if _, why := oracle.CheckInstance(s, "i-1", r); (why == nil) != (interfaces == 0) {
			t.Errorf("with %d interfaces it is refused by %v", interfaces, why)
		}
	}
}
