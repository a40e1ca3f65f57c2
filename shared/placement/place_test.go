package placement_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/placement"
	. "berth/tests/oracle"
)

func TestPlaceSpreads(t *testing.T) {
	t.Run("ToTheZoneWithFewestTasks", func(t *testing.T) {
		// The documentation's example: zone a runs one task of the service, b and c none.
		s := SnapshotOf(Instance("i-a", Zone("a")), Instance("i-b", Zone("b")), Instance("i-c", Zone("c")), Task("t", "i-a"))
		Expect(t, "placed", Where(placement.New(s).Place(Web(3)).Placed), "i-b i-c i-a")
	})
	t.Run("ThenToTheInstanceWithFewest", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1", Zone("a")), Instance("i-2", Zone("a")), Instance("i-3", Zone("b")),
			Task("t1", "i-1"), Task("t2", "i-3"), Task("t3", "i-3"))
		Expect(t, "placed", Where(placement.New(s).Place(Web(2)).Placed), "i-2 i-1")
	})
	t.Run("ZoneBeforeInstance", func(t *testing.T) {
		// i-3 has a task and i-2 none, but zone a has two.
		s := SnapshotOf(Instance("i-1", Zone("a")), Instance("i-2", Zone("a")), Instance("i-3", Zone("b")),
			Task("t1", "i-1"), Task("t2", "i-1"), Task("t3", "i-3"))
		Expect(t, "placed", Where(placement.New(s).Place(Web(1)).Placed), "i-3")
	})
	t.Run("AcrossInstancesWithoutAZone", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1"), Instance("i-2"), Instance("i-3", Zone("a")))
		Expect(t, "placed", Where(placement.New(s).Place(Web(4)).Placed), "i-1 i-3 i-2 i-3")
	})
	t.Run("CountsTasksOfTheOwnerAlone", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1", Zone("a")), Instance("i-2", Zone("b")), Task("t", "i-1", Owner("other")),
			Task("u", "i-2"))
		Expect(t, "placed", Where(placement.New(s).Place(Web(1)).Placed), "i-1")
	})
	t.Run("AmongTheGroupOfStandaloneTasks", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1", Zone("a")), Instance("i-2", Zone("b")), Task("t", "i-1", Group("family:x")),
			Task("u", "i-2", Group("family:y")), Task("v", "i-2", Group("family:y")))
		r := Web(1)
		Expect(t, "all", Where(placement.New(s).Place(r).Placed), "i-1")
		r.Spec.Group = "family:x"
		Expect(t, "group", Where(placement.New(s).Place(r).Placed), "i-2")
	})
	t.Run("NotCountingTasksBeingStopped", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1", Zone("a")), Instance("i-2", Zone("b")), Task("t1", "i-1", Stopping),
			Task("t2", "i-1", func(t *cluster.Task) { t.Last = cluster.TaskStopping }), Task("t3", "i-2"))
		Expect(t, "placed", Where(placement.New(s).Place(Web(1)).Placed), "i-1")
	})
	t.Run("CountingTasksOnInstancesThatTakeNoMore", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1", Zone("a"), Status(cluster.InstanceDraining)), Instance("i-2", Zone("a")),
			Instance("i-3", Zone("b")), Task("t", "i-1"))
		Expect(t, "placed", Where(placement.New(s).Place(Web(1)).Placed), "i-3")
	})
	t.Run("ToTheNextZoneWhenTheBestIsFull", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1", Zone("a"), Memory(100)), Instance("i-2", Zone("b")), Task("t", "i-2"))
		Expect(t, "one", Where(placement.New(s).Place(Web(1)).Placed), "i-2")
		Expect(t, "two", Where(placement.New(s).Place(Web(2)).Placed), "i-2 i-2")
	})
}

func TestPlaceBetweenEqualsPacks(t *testing.T) {
	t.Run("KeepsOffFreeGPUs", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1", GPUs(1)), Instance("i-2"))
		Expect(t, "placed", Where(placement.New(s).Place(Web(1)).Placed), "i-2")
	})
	t.Run("FillsTheFullest", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1"), Instance("i-2"), Task("t", "i-2", Owner("other")))
		Expect(t, "placed", Where(placement.New(s).Place(Web(1)).Placed), "i-2")
	})
	t.Run("WeighsFourGiBAsOneVCPU", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1", CPU(1024), Memory(8192)), Instance("i-2", CPU(2048), Memory(4000)))
		Expect(t, "placed", Where(placement.New(s).Place(Web(1)).Placed), "i-2")
	})
	t.Run("TakesTheLowestID", func(t *testing.T) {
		s := SnapshotOf(Instance("i-2"), Instance("i-1"))
		Expect(t, "placed", Where(placement.New(s).Place(Web(1)).Placed), "i-1")
	})
}

func TestPlaceAccountsForItsOwn(t *testing.T) {
	t.Run("FillsToTheLastUnit", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1", CPU(512), Memory(1024)), Instance("i-2", CPU(256), Memory(512)))
		got := placement.New(s).Place(Web(4))
		Expect(t, "placed", Where(got.Placed), "i-2 i-1 i-1")
		Expect(t, "unplaced", got.Diagnosis.Unplaced, 1)
	})
	t.Run("LeavesTheSnapshotAsItIs", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1", GPUs(2)))
		r := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{CPU: 1, Memory: 1, GPUs: 1}, Owner: "web", Ports: nil}, Count: 2}
		Expect(t, "placed", Where(placement.New(s).Place(r).Placed), "i-1[0] i-1[1]")
		v := s.Instances["i-1"]
		if diff := cmp.Diff([]int{1000, 1000}, v.GPUs); diff != "" || v.CPU != 2*cluster.VCPU || s.TaskCount() != 0 {
			t.Errorf("changed: %+v", v)
		}
	})
	t.Run("CountsDevicesItGave", func(t *testing.T) {
		// After the first task both have one task and three devices free; i-1 has less memory left.
		s := SnapshotOf(Instance("i-1", GPUs(4), Memory(600)), Instance("i-2", GPUs(3)), Task("t", "i-2", Needs(cluster.Resources{})))
		r := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: 1}, Owner: "web"}, Count: 2}
		Expect(t, "placed", Where(placement.New(s).Place(r).Placed), "i-1[0] i-1[1]")
	})
	t.Run("TheBestOfAllZonesWithFewest", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1", Zone("a")), Instance("i-2", Zone("b"), Memory(1024)), Instance("i-3", Zone("c")), Task("t", "i-3"))
		Expect(t, "placed", Where(placement.New(s).Place(Web(1)).Placed), "i-2")
	})
	t.Run("PlacesNoneOfNone", func(t *testing.T) {
		for _, n := range []int{0, -1} {
			if got := placement.New(SnapshotOf(Instance("i-1"))).Place(Web(n)); len(got.Placed) != 0 || got.Diagnosis != nil {
				t.Errorf("count %d: %+v", n, got)
			}
		}
	})
	t.Run("OneStaticPortPerInstance", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1"), Instance("i-2", Reserved(QUIC)), Instance("i-3", Reserved(HTTP)))
		r := Web(3)
		r.Spec.Ports = []cluster.Port{HTTP}
		got := placement.New(s).Place(r)
		Expect(t, "placed", Where(got.Placed), "i-1 i-2")
		Expect(t, "diagnosis", got.Diagnosis.String(), "0/3: 3 port in use (80/tcp)")
	})
}

func TestPlaceGivesDevices(t *testing.T) {
	gpu := func(n, milli int) placement.Request {
		return placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: n, GPUMilli: int32(milli)}, Owner: "web"}, Count: 1}
	}
	whole, two, share := gpu(1, 0), gpu(2, 0), gpu(1, 400)
	holds := func(milli int, devices ...int) TaskOption {
		return func(t *cluster.Task) {
			t.Needs, t.GPUs = cluster.Resources{GPUs: len(devices), GPUMilli: int32(milli)}, devices
		}
	}
	foreign := Needs(cluster.Resources{GPUs: 1})
	for _, c := range []struct {
		name    string
		request placement.Request
		tasks   []*cluster.Task
		want    string
	}{
		{"TheFirstFree", whole, []*cluster.Task{Task("t", "i-1", holds(0, 0))}, "i-1[1]"},
		{"SeveralAtOnce", two, []*cluster.Task{Task("t", "i-1", holds(0, 1))}, "i-1[0,2]"},
		{"NoSharedOneAsWhole", two, []*cluster.Task{Task("t", "i-1", holds(100, 0)), Task("u", "i-1", holds(100, 1))}, ""},
		{"AShareWhereLeastIsLeft", share, []*cluster.Task{Task("t", "i-1", holds(300, 0)), Task("u", "i-1", holds(600, 2))}, "i-1[2]"},
		{"AShareOfAFreeOneIfNeedBe", share, []*cluster.Task{Task("t", "i-1", holds(700, 0)), Task("u", "i-1", holds(0, 1))}, "i-1[2]"},
		{"ShareOfOneDeviceOnly", share, []*cluster.Task{
			Task("t", "i-1", holds(700, 0)), Task("u", "i-1", holds(700, 1)), Task("v", "i-1", holds(700, 2))}, ""},
		{"LeavingWhatForeignTasksHold", two, []*cluster.Task{Task("t", "i-1", foreign), Task("u", "i-1", foreign)}, ""},
		{"NoShareOfWhatForeignTasksHold", share, []*cluster.Task{
			Task("t", "i-1", foreign), Task("u", "i-1", foreign), Task("v", "i-1", foreign)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := SnapshotOf(Instance("i-1", GPUs(3)))
			for _, task := range c.tasks {
				s.Put(task)
			}
			Expect(t, "placed", Where(placement.New(s).Place(c.request).Placed), c.want)
		})
	}
}

func TestPlaceOnNamedInstances(t *testing.T) {
	s := SnapshotOf(Instance("i-1"), Instance("i-2"), Instance("i-3", Memory(100)), Instance("i-4"),
		Instance("i-5", Status(cluster.InstanceInactive)), Task("t", "i-4"), Task("u", "i-4", Stopping))
	on := func(n, perInstance int, ids ...string) placement.Result {
		r := Web(n)
		r.Instances, r.Spec.PerInstance = ids, perInstance
		return placement.New(s).Place(r)
	}
	t.Run("InOrderOfWish", func(t *testing.T) {
		Expect(t, "placed", Where(on(2, 0, "i-4", "i-2", "i-1").Placed), "i-4 i-2")
	})
	t.Run("OneEachBeforeASecond", func(t *testing.T) {
		Expect(t, "placed", Where(on(4, 0, "i-2", "i-3", "i-1", "i-2").Placed), "i-2 i-1 i-2 i-1")
	})
	t.Run("OneEachAtMostForADaemon", func(t *testing.T) {
		got := on(3, 1, "i-1", "i-4", "i-2")
		Expect(t, "placed", Where(got.Placed), "i-1 i-2")
		Expect(t, "diagnosis", got.Diagnosis.String(), "0/3: 3 already has one")
	})
	t.Run("NeitherUnknownNorGone", func(t *testing.T) {
		got := on(1, 0, "i-5", "i-9")
		Expect(t, "evaluated", got.Diagnosis.Evaluated, 0)
		Expect(t, "diagnosis", got.Diagnosis.String(), "0/0")
	})
	t.Run("NoneNamed", func(t *testing.T) {
		r := Web(1)
		r.Instances = []string{}
		Expect(t, "placed", len(placement.New(s).Place(r).Placed), 0)
	})
	t.Run("ADaemonWaitsForItsPredecessor", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1"), Task("t", "i-1", Stopping))
		r := Web(1)
		r.Instances, r.Spec.PerInstance = []string{"i-1"}, 1
		Expect(t, "placed", Where(placement.New(s).Place(r).Placed), "")
	})
}

func TestEligible(t *testing.T) {
	s := SnapshotOf(Instance("i-3", Attribute("disk", "ssd")), Instance("i-1", Zone("z"), Attribute("disk", "ssd"), Disconnected),
		Instance("i-2", Attribute("disk", "hdd")), Instance("i-4", Attribute("disk", "ssd"), Status(cluster.InstanceDraining)),
		Instance("i-5", Attribute("disk", "ssd"), Memory(0)), Instance("i-6", Attribute("disk", "ssd"), Status(cluster.InstanceInactive)),
		Task("t", "i-7"))
	r := placement.Request{Spec: &placement.Spec{Needs: Small, Attributes: []string{"disk=ssd"}, Owner: "web"}}
	if diff := cmp.Diff([]string{"i-1", "i-3", "i-5"}, placement.New(s).Eligible(r.Spec)); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[string]bool{"i-1": true, "i-2": false, "i-4": true, "i-7": true, "i-8": true} {
		Expect(t, "Matches "+id, placement.New(s).Matches(s.Instances[id], r.Spec), want)
	}
}

func TestChooseStops(t *testing.T) {
	s := SnapshotOf(Instance("i-1", Zone("a")), Instance("i-2", Zone("b")), Instance("i-3", Zone("b")))
	all := []*cluster.Task{
		Task("t1", "i-1"), Task("t2", "i-1"), Task("t3", "i-2"), Task("t4", "i-3"), Task("t5", "i-3", Created(2000)),
		Task("t6", "i-1", Pending), Task("t7", "", Pending), Task("t8", "i-2", Stopping),
	}
	for _, x := range all {
		s.Put(x)
	}
	t.Run("WaitingThenPendingThenTheFullestZone", func(t *testing.T) {
		// Once t6 is gone zone b has three tasks, a two; in b i-3 has two, t5 the younger. Then both zones have two, and
		// i-1 has two, the others one.
		Expect(t, "stops", IDs(Stop(s, all, 4)), "t7 t6 t5 t1")
	})
	t.Run("AllThereAre", func(t *testing.T) {
		Expect(t, "stops", len(Stop(s, all, 99)), 7)
	})
	t.Run("None", func(t *testing.T) {
		Expect(t, "stops", len(Stop(s, all, 0)), 0)
		Expect(t, "stops", len(Stop(s, nil, 3)), 0)
	})
	t.Run("CountsTasksThatAreNoCandidates", func(t *testing.T) {
		Expect(t, "stops", IDs(Stop(s, []*cluster.Task{all[0], all[2]}, 1)), "t1")
	})
	t.Run("CountsWhatItChoseItself", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1"), Instance("i-2"))
		tasks := []*cluster.Task{Task("t1", "i-1"), Task("t2", "i-1"), Task("t3", "i-1"), Task("t4", "i-2"), Task("t5", "i-2", Created(2000))}
		for _, x := range tasks {
			s.Put(x)
		}
		Expect(t, "stops", IDs(Stop(s, tasks, 3)), "t1 t5 t2")
	})
	t.Run("CountsThePendingItChoseToo", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1", Zone("a")), Instance("i-2", Zone("b")))
		tasks := []*cluster.Task{Task("t1", "i-1", Pending), Task("t2", "i-1"), Task("t3", "i-1"), Task("t4", "i-2"), Task("t5", "i-2", Created(2000))}
		for _, x := range tasks {
			s.Put(x)
		}
		Expect(t, "stops", IDs(Stop(s, tasks, 2)), "t1 t5")
	})
	t.Run("WaitingTasksEmptyNoZone", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1"), Instance("i-2", Zone("b")))
		tasks := []*cluster.Task{Task("t1", "i-1"), Task("t2", "i-1"), Task("t3", "i-2"), Task("t4", "", Pending), Task("t5", "", Pending)}
		for _, x := range tasks {
			s.Put(x)
		}
		Expect(t, "stops", IDs(Stop(s, tasks, 3)), "t4 t5 t1")
	})
	t.Run("CountsNoneOfAnotherGroupThatIsReplaced", func(t *testing.T) {
		s := SnapshotOf(Instance("i-1"), Instance("i-2"))
		come := Task("t2", "i-1", Group("g"), Pending)
		come.Replaces = "t1"
		tasks := []*cluster.Task{Task("t1", "i-1", Group("old")), come, Task("t3", "i-1", Group("g")), Task("t4", "i-2", Group("g"), Created(2000))}
		for _, x := range tasks {
			s.Put(x)
		}
		r := Web(2)
		r.Spec.Group = "g"
		Expect(t, "stops", IDs(placement.New(s).ChooseStops(r, tasks[1:])), "t2 t4")
	})
}
