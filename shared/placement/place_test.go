package placement_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
	"berth/shared/placement"
)

func TestPlaceSpreads(t *testing.T) {
	t.Run("ToTheZoneWithFewestTasks", func(t *testing.T) {
		// The documentation's example: zone a runs one task of the service, b and c none.
		s := snapshotOf(instance("i-a", zone("a")), instance("i-b", zone("b")), instance("i-c", zone("c")), task("t", "i-a"))
		expect(t, "placed", where(placement.New(s).Place(web(3)).Placed), "i-b i-c i-a")
	})
	t.Run("ThenToTheInstanceWithFewest", func(t *testing.T) {
		s := snapshotOf(instance("i-1", zone("a")), instance("i-2", zone("a")), instance("i-3", zone("b")),
			task("t1", "i-1"), task("t2", "i-3"), task("t3", "i-3"))
		expect(t, "placed", where(placement.New(s).Place(web(2)).Placed), "i-2 i-1")
	})
	t.Run("ZoneBeforeInstance", func(t *testing.T) {
		// i-3 has a task and i-2 none, but zone a has two.
		s := snapshotOf(instance("i-1", zone("a")), instance("i-2", zone("a")), instance("i-3", zone("b")),
			task("t1", "i-1"), task("t2", "i-1"), task("t3", "i-3"))
		expect(t, "placed", where(placement.New(s).Place(web(1)).Placed), "i-3")
	})
	t.Run("AcrossInstancesWithoutAZone", func(t *testing.T) {
		s := snapshotOf(instance("i-1"), instance("i-2"), instance("i-3", zone("a")))
		expect(t, "placed", where(placement.New(s).Place(web(4)).Placed), "i-1 i-3 i-2 i-3")
	})
	t.Run("CountsTasksOfTheOwnerAlone", func(t *testing.T) {
		s := snapshotOf(instance("i-1", zone("a")), instance("i-2", zone("b")), task("t", "i-1", owner("other")),
			task("u", "i-2"))
		expect(t, "placed", where(placement.New(s).Place(web(1)).Placed), "i-1")
	})
	t.Run("AmongTheGroupOfStandaloneTasks", func(t *testing.T) {
		s := snapshotOf(instance("i-1", zone("a")), instance("i-2", zone("b")), task("t", "i-1", group("family:x")),
			task("u", "i-2", group("family:y")), task("v", "i-2", group("family:y")))
		r := web(1)
		expect(t, "all", where(placement.New(s).Place(r).Placed), "i-1")
		r.Spec.Group = "family:x"
		expect(t, "group", where(placement.New(s).Place(r).Placed), "i-2")
	})
	t.Run("NotCountingTasksBeingStopped", func(t *testing.T) {
		s := snapshotOf(instance("i-1", zone("a")), instance("i-2", zone("b")), task("t1", "i-1", stopping),
			task("t2", "i-1", func(t *cluster.Task) { t.Last = cluster.TaskStopping }), task("t3", "i-2"))
		expect(t, "placed", where(placement.New(s).Place(web(1)).Placed), "i-1")
	})
	t.Run("CountingTasksOnInstancesThatTakeNoMore", func(t *testing.T) {
		s := snapshotOf(instance("i-1", zone("a"), status(cluster.InstanceDraining)), instance("i-2", zone("a")),
			instance("i-3", zone("b")), task("t", "i-1"))
		expect(t, "placed", where(placement.New(s).Place(web(1)).Placed), "i-3")
	})
	t.Run("ToTheNextZoneWhenTheBestIsFull", func(t *testing.T) {
		s := snapshotOf(instance("i-1", zone("a"), memory(100)), instance("i-2", zone("b")), task("t", "i-2"))
		expect(t, "one", where(placement.New(s).Place(web(1)).Placed), "i-2")
		expect(t, "two", where(placement.New(s).Place(web(2)).Placed), "i-2 i-2")
	})
}

func TestPlaceBetweenEqualsPacks(t *testing.T) {
	t.Run("KeepsOffFreeGPUs", func(t *testing.T) {
		s := snapshotOf(instance("i-1", gpus(1)), instance("i-2"))
		expect(t, "placed", where(placement.New(s).Place(web(1)).Placed), "i-2")
	})
	t.Run("FillsTheFullest", func(t *testing.T) {
		s := snapshotOf(instance("i-1"), instance("i-2"), task("t", "i-2", owner("other")))
		expect(t, "placed", where(placement.New(s).Place(web(1)).Placed), "i-2")
	})
	t.Run("WeighsFourGiBAsOneVCPU", func(t *testing.T) {
		s := snapshotOf(instance("i-1", cpu(1024), memory(8192)), instance("i-2", cpu(2048), memory(4000)))
		expect(t, "placed", where(placement.New(s).Place(web(1)).Placed), "i-2")
	})
	t.Run("TakesTheLowestID", func(t *testing.T) {
		s := snapshotOf(instance("i-2"), instance("i-1"))
		expect(t, "placed", where(placement.New(s).Place(web(1)).Placed), "i-1")
	})
}

func TestPlaceAccountsForItsOwn(t *testing.T) {
	t.Run("FillsToTheLastUnit", func(t *testing.T) {
		s := snapshotOf(instance("i-1", cpu(512), memory(1024)), instance("i-2", cpu(256), memory(512)))
		got := placement.New(s).Place(web(4))
		expect(t, "placed", where(got.Placed), "i-2 i-1 i-1")
		expect(t, "unplaced", got.Diagnosis.Unplaced, 1)
	})
	t.Run("LeavesTheSnapshotAsItIs", func(t *testing.T) {
		s := snapshotOf(instance("i-1", gpus(2)))
		r := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{CPU: 1, Memory: 1, GPUs: 1}, Owner: "web", Ports: nil}, Count: 2}
		expect(t, "placed", where(placement.New(s).Place(r).Placed), "i-1[0] i-1[1]")
		v := s.Instances["i-1"]
		if diff := cmp.Diff([]int{1000, 1000}, v.GPUs); diff != "" || v.CPU != 2*cluster.VCPU || s.TaskCount() != 0 {
			t.Errorf("changed: %+v", v)
		}
	})
	t.Run("CountsDevicesItGave", func(t *testing.T) {
		// After the first task both have one task and three devices free; i-1 has less memory left.
		s := snapshotOf(instance("i-1", gpus(4), memory(600)), instance("i-2", gpus(3)), task("t", "i-2", needs(cluster.Resources{})))
		r := placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: 1}, Owner: "web"}, Count: 2}
		expect(t, "placed", where(placement.New(s).Place(r).Placed), "i-1[0] i-1[1]")
	})
	t.Run("TheBestOfAllZonesWithFewest", func(t *testing.T) {
		s := snapshotOf(instance("i-1", zone("a")), instance("i-2", zone("b"), memory(1024)), instance("i-3", zone("c")), task("t", "i-3"))
		expect(t, "placed", where(placement.New(s).Place(web(1)).Placed), "i-2")
	})
	t.Run("PlacesNoneOfNone", func(t *testing.T) {
		for _, n := range []int{0, -1} {
			if got := placement.New(snapshotOf(instance("i-1"))).Place(web(n)); len(got.Placed) != 0 || got.Diagnosis != nil {
				t.Errorf("count %d: %+v", n, got)
			}
		}
	})
	t.Run("OneStaticPortPerInstance", func(t *testing.T) {
		s := snapshotOf(instance("i-1"), instance("i-2", reserved(quic)), instance("i-3", reserved(http)))
		r := web(3)
		r.Spec.Ports = []cluster.Port{http}
		got := placement.New(s).Place(r)
		expect(t, "placed", where(got.Placed), "i-1 i-2")
		expect(t, "diagnosis", got.Diagnosis.String(), "0/3: 3 port in use (80/tcp)")
	})
}

func TestPlaceGivesDevices(t *testing.T) {
	gpu := func(n, milli int) placement.Request {
		return placement.Request{Spec: &placement.Spec{Needs: cluster.Resources{GPUs: n, GPUMilli: int32(milli)}, Owner: "web"}, Count: 1}
	}
	whole, two, share := gpu(1, 0), gpu(2, 0), gpu(1, 400)
	holds := func(milli int, devices ...int) taskOption {
		return func(t *cluster.Task) {
			t.Needs, t.GPUs = cluster.Resources{GPUs: len(devices), GPUMilli: int32(milli)}, devices
		}
	}
	foreign := needs(cluster.Resources{GPUs: 1})
	for _, c := range []struct {
		name    string
		request placement.Request
		tasks   []*cluster.Task
		want    string
	}{
		{"TheFirstFree", whole, []*cluster.Task{task("t", "i-1", holds(0, 0))}, "i-1[1]"},
		{"SeveralAtOnce", two, []*cluster.Task{task("t", "i-1", holds(0, 1))}, "i-1[0,2]"},
		{"NoSharedOneAsWhole", two, []*cluster.Task{task("t", "i-1", holds(100, 0)), task("u", "i-1", holds(100, 1))}, ""},
		{"AShareWhereLeastIsLeft", share, []*cluster.Task{task("t", "i-1", holds(300, 0)), task("u", "i-1", holds(600, 2))}, "i-1[2]"},
		{"AShareOfAFreeOneIfNeedBe", share, []*cluster.Task{task("t", "i-1", holds(700, 0)), task("u", "i-1", holds(0, 1))}, "i-1[2]"},
		{"ShareOfOneDeviceOnly", share, []*cluster.Task{
			task("t", "i-1", holds(700, 0)), task("u", "i-1", holds(700, 1)), task("v", "i-1", holds(700, 2))}, ""},
		{"LeavingWhatForeignTasksHold", two, []*cluster.Task{task("t", "i-1", foreign), task("u", "i-1", foreign)}, ""},
		{"NoShareOfWhatForeignTasksHold", share, []*cluster.Task{
			task("t", "i-1", foreign), task("u", "i-1", foreign), task("v", "i-1", foreign)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshotOf(instance("i-1", gpus(3)))
			for _, task := range c.tasks {
				s.Put(task)
			}
			expect(t, "placed", where(placement.New(s).Place(c.request).Placed), c.want)
		})
	}
}

func TestPlaceOnNamedInstances(t *testing.T) {
	s := snapshotOf(instance("i-1"), instance("i-2"), instance("i-3", memory(100)), instance("i-4"),
		instance("i-5", status(cluster.InstanceInactive)), task("t", "i-4"), task("u", "i-4", stopping))
	on := func(n, perInstance int, ids ...string) placement.Result {
		r := web(n)
		r.Instances, r.Spec.PerInstance = ids, perInstance
		return placement.New(s).Place(r)
	}
	t.Run("InOrderOfWish", func(t *testing.T) {
		expect(t, "placed", where(on(2, 0, "i-4", "i-2", "i-1").Placed), "i-4 i-2")
	})
	t.Run("OneEachBeforeASecond", func(t *testing.T) {
		expect(t, "placed", where(on(4, 0, "i-2", "i-3", "i-1", "i-2").Placed), "i-2 i-1 i-2 i-1")
	})
	t.Run("OneEachAtMostForADaemon", func(t *testing.T) {
		got := on(3, 1, "i-1", "i-4", "i-2")
		expect(t, "placed", where(got.Placed), "i-1 i-2")
		expect(t, "diagnosis", got.Diagnosis.String(), "0/3: 3 already has one")
	})
	t.Run("NeitherUnknownNorGone", func(t *testing.T) {
		got := on(1, 0, "i-5", "i-9")
		expect(t, "evaluated", got.Diagnosis.Evaluated, 0)
		expect(t, "diagnosis", got.Diagnosis.String(), "0/0")
	})
	t.Run("NoneNamed", func(t *testing.T) {
		r := web(1)
		r.Instances = []string{}
		expect(t, "placed", len(placement.New(s).Place(r).Placed), 0)
	})
	t.Run("ADaemonWaitsForItsPredecessor", func(t *testing.T) {
		s := snapshotOf(instance("i-1"), task("t", "i-1", stopping))
		r := web(1)
		r.Instances, r.Spec.PerInstance = []string{"i-1"}, 1
		expect(t, "placed", where(placement.New(s).Place(r).Placed), "")
	})
}

func TestEligible(t *testing.T) {
	s := snapshotOf(instance("i-3", attribute("disk", "ssd")), instance("i-1", zone("z"), attribute("disk", "ssd"), disconnected),
		instance("i-2", attribute("disk", "hdd")), instance("i-4", attribute("disk", "ssd"), status(cluster.InstanceDraining)),
		instance("i-5", attribute("disk", "ssd"), memory(0)), instance("i-6", attribute("disk", "ssd"), status(cluster.InstanceInactive)),
		task("t", "i-7"))
	r := placement.Request{Spec: &placement.Spec{Needs: small, Attributes: []string{"disk=ssd"}, Owner: "web"}}
	if diff := cmp.Diff([]string{"i-1", "i-3", "i-5"}, placement.New(s).Eligible(r.Spec)); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[string]bool{"i-1": true, "i-2": false, "i-4": true, "i-7": true, "i-8": true} {
		expect(t, "Matches "+id, placement.New(s).Matches(s.Instances[id], r.Spec), want)
	}
}

func TestChooseStops(t *testing.T) {
	s := snapshotOf(instance("i-1", zone("a")), instance("i-2", zone("b")), instance("i-3", zone("b")))
	all := []*cluster.Task{
		task("t1", "i-1"), task("t2", "i-1"), task("t3", "i-2"), task("t4", "i-3"), task("t5", "i-3", created(2000)),
		task("t6", "i-1", pending), task("t7", "", pending), task("t8", "i-2", stopping),
	}
	for _, x := range all {
		s.Put(x)
	}
	t.Run("WaitingThenPendingThenTheFullestZone", func(t *testing.T) {
		// Once t6 is gone zone b has three tasks, a two; in b i-3 has two, t5 the younger. Then both zones have two, and
		// i-1 has two, the others one.
		expect(t, "stops", ids(stop(s, all, 4)), "t7 t6 t5 t1")
	})
	t.Run("AllThereAre", func(t *testing.T) {
		expect(t, "stops", len(stop(s, all, 99)), 7)
	})
	t.Run("None", func(t *testing.T) {
		expect(t, "stops", len(stop(s, all, 0)), 0)
		expect(t, "stops", len(stop(s, nil, 3)), 0)
	})
	t.Run("CountsTasksThatAreNoCandidates", func(t *testing.T) {
		expect(t, "stops", ids(stop(s, []*cluster.Task{all[0], all[2]}, 1)), "t1")
	})
	t.Run("CountsWhatItChoseItself", func(t *testing.T) {
		s := snapshotOf(instance("i-1"), instance("i-2"))
		tasks := []*cluster.Task{task("t1", "i-1"), task("t2", "i-1"), task("t3", "i-1"), task("t4", "i-2"), task("t5", "i-2", created(2000))}
		for _, x := range tasks {
			s.Put(x)
		}
		expect(t, "stops", ids(stop(s, tasks, 3)), "t1 t5 t2")
	})
	t.Run("CountsThePendingItChoseToo", func(t *testing.T) {
		s := snapshotOf(instance("i-1", zone("a")), instance("i-2", zone("b")))
		tasks := []*cluster.Task{task("t1", "i-1", pending), task("t2", "i-1"), task("t3", "i-1"), task("t4", "i-2"), task("t5", "i-2", created(2000))}
		for _, x := range tasks {
			s.Put(x)
		}
		expect(t, "stops", ids(stop(s, tasks, 2)), "t1 t5")
	})
	t.Run("WaitingTasksEmptyNoZone", func(t *testing.T) {
		s := snapshotOf(instance("i-1"), instance("i-2", zone("b")))
		tasks := []*cluster.Task{task("t1", "i-1"), task("t2", "i-1"), task("t3", "i-2"), task("t4", "", pending), task("t5", "", pending)}
		for _, x := range tasks {
			s.Put(x)
		}
		expect(t, "stops", ids(stop(s, tasks, 3)), "t4 t5 t1")
	})
	t.Run("CountsNoneOfAnotherGroupThatIsReplaced", func(t *testing.T) {
		s := snapshotOf(instance("i-1"), instance("i-2"))
		come := task("t2", "i-1", group("g"), pending)
		come.Replaces = "t1"
		tasks := []*cluster.Task{task("t1", "i-1", group("old")), come, task("t3", "i-1", group("g")), task("t4", "i-2", group("g"), created(2000))}
		for _, x := range tasks {
			s.Put(x)
		}
		r := web(2)
		r.Spec.Group = "g"
		expect(t, "stops", ids(placement.New(s).ChooseStops(r, tasks[1:])), "t2 t4")
	})
}
