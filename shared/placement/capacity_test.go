package placement_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/tests/oracle"
)

// shopSnapshot has three instances, and a service of an application with a load of 3 on a and 9 on b.
func shopSnapshot(limits cluster.Application) *snapshot.Snapshot {
	rows := []state.Row{oracle.Configuration(cluster.Configuration{Applications: map[string]cluster.Application{
		"shop": limits}}), &cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 1},
		ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "web"},
		ServiceSpec:     cluster.ServiceSpec{Rules: cluster.Rules{Application: "shop"}}}}
	for _, id := range []string{"a", "b", "c"} {
		rows = append(rows, oracle.Instance(id, oracle.Metric("m", 100)))
	}
	return oracle.SnapshotOf(append(rows, oracle.Task("t1", "a", oracle.Load(3)), oracle.Task("t2", "b",
		oracle.Load(9)))...)
}

// What is left of an application's limit, which is nothing where more is used, is the best that an
// instance has for its next task.
func TestApplicationLimitsAreExplained(t *testing.T) {
	r := placement.Request{Count: 1, Spec: &placement.Spec{Owner: "web", Application: "shop",
		Loads: []cluster.Metric{{Name: "m", Load: 6}}}}
	for name, c := range map[string]struct {
		limit  cluster.ApplicationMetric
		filter cluster.Filter
		best   map[string]float64 // of refused instances
	}{
		"OnAnInstance": {cluster.ApplicationMetric{NodeCapacity: 8}, cluster.FilterApplicationNode,
			map[string]float64{"a": 5, "b": 0}},
		"InAll": {cluster.ApplicationMetric{TotalCapacity: 16}, cluster.FilterApplicationTotal,
			map[string]float64{"a": 4, "b": 4, "c": 4}},
	} {
		s := shopSnapshot(cluster.Application{Metrics: map[string]cluster.ApplicationMetric{"m": c.limit}})
		for id := range s.Instances {
			_, why := oracle.CheckInstance(s, id, r)
			if best, refused := c.best[id]; refused != (why != nil) || refused &&
				(why.Filter != c.filter || why.Need != 6 || why.Best != best || why.Detail != "shop, m") {
				t.Errorf("%s: %s is refused by %+v, expected best %g of 6: %v", name, id, why, best, refused)
			}
		}
	}
}

func TestCapacityOfMetric(t *testing.T) {
	t.Run("SumsWhatTakesTasks", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Configuration(cluster.Configuration{Buffer: map[string]float64{"m": 0.2}}),
			oracle.Instance("a", oracle.Metric("m", 100)), oracle.Instance("b", oracle.Metric("m", 7)),
			oracle.Instance("down", oracle.Disconnected, oracle.Metric("m", 100)),
			oracle.Instance("drains", oracle.Status(cluster.InstanceDraining), oracle.Metric("m", 100)),
			oracle.Task("t1", "a", oracle.Load(90)), oracle.Task("t2", "drains", oracle.Load(3)))
		c := placement.CapacityOfMetric(s, "m")
		if c.Total != 107 || c.Unbuffered != 85 || c.Load != 93 || c.Remaining != 14 || c.RemainingUnbuffered != 0 {
			t.Fatalf("%+v", c)
		}
		if len(c.Violated) != 1 || c.Violated[0] != "a" {
			t.Fatalf("%v is above what it takes without the buffer", c.Violated)
		}
		down := placement.InstanceCapacities(s, s.Instances["down"])[s.MetricIndex("m")]
		if down.Capacity != 100 || down.Remaining != 100 {
			t.Fatalf("an instance that is down still has its own: %+v", down)
		}
	})
	// On a 5 of 8 are not used, on b none; and one instance is missing to the least number of three.
	t.Run("ReservedByApplications", func(t *testing.T) {
		c := placement.CapacityOfMetric(shopSnapshot(cluster.Application{MinimumNodes: 3,
			Metrics: map[string]cluster.ApplicationMetric{"m": {Reservation: 8}}}), "m")
		if c.Reserved != 5+8 || c.Remaining != 300-12-13 {
			t.Fatalf("%+v", c)
		}
	})
	t.Run("NothingWithoutInstances", func(t *testing.T) {
		if c := placement.CapacityOfMetric(oracle.SnapshotOf(), "m"); c.Total != 0 || c.Remaining != 0 {
			t.Fatalf("%+v", c)
		}
	})
	t.Run("WithoutInstancesThatLeft", func(t *testing.T) {
		left := oracle.Instance("a", oracle.Metric("m", 100))
		s := oracle.SnapshotOf(left, oracle.Instance("b", oracle.Metric("m", 7)))
		s.ApplyRecord(state.Record{Op: state.Remove, Old: left})
		if c := placement.CapacityOfMetric(s, "m"); c.Total != 7 {
			t.Fatalf("%+v", c)
		}
	})
	t.Run("UnlimitedWhereOneInstanceIs", func(t *testing.T) {
		c := placement.CapacityOfMetric(oracle.SnapshotOf(oracle.Instance("a", oracle.Metric("m", 1)),
			oracle.Instance("b"),
			oracle.Task("t", "a", oracle.Load(5))), "m")
		if c.Total != placement.Unlimited || c.Remaining != placement.Unlimited {
			t.Fatalf("%+v", c)
		}
	})
	t.Run("OverbookingIsNoCapacity", func(t *testing.T) {
		s := oracle.SnapshotOf(oracle.Configuration(cluster.Configuration{Overbooking: map[string]float64{"m": 0.2}}),
			oracle.Instance("a", oracle.Metric("m", 100)), oracle.Task("t", "a", oracle.Load(110)))
		here := placement.InstanceCapacities(s, s.Instances["a"])[s.MetricIndex("m")]
		if here.Capacity != 100 || here.Total != 120 || here.Remaining != 10 || !here.Violated {
			t.Fatalf("%+v", here)
		}
		if c := placement.CapacityOfMetric(s, "m"); c.Total != 100 {
			t.Fatalf("%+v", c)
		}
	})
}

func replaces(id string) oracle.TaskOption { return func(t *cluster.Task) { t.Replaces = id } }

func stopping(t *cluster.Task) { t.Desired = cluster.TaskStopped }

func metricDemand(load int64, count int) placement.Demand {
	return placement.Demand{Metrics: []cluster.Metric{{Name: "m", Load: load}}, Count: count}
}

func TestAdmit(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Configuration(cluster.Configuration{Buffer: map[string]float64{"m": 0.1}}),
		oracle.Instance("a", oracle.Metric("m", 15)), oracle.Instance("b", oracle.Metric("m", 15)),
		oracle.Task("t", "a", oracle.Load(15)))
	t.Run("RefusesWithTheNumbers", func(t *testing.T) {
		err := placement.Admit(s, metricDemand(6, 3), placement.Demand{})
		if cluster.ErrorCode(err) != cluster.CodeInvalidParameter {
			t.Fatal(err)
		}
		if want := "metric m: 18 more required, 12 available (capacity 30, 27 without the buffer, load 15)"; !strings.Contains(err.Error(), want) {
			t.Fatal(err)
		}
	})
	t.Run("AcceptsWhatJustFits", func(t *testing.T) {
		if err := placement.Admit(s, metricDemand(6, 2), placement.Demand{}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("CountsOnlyWhatIsMore", func(t *testing.T) {
		if err := placement.Admit(s, metricDemand(10, 5), metricDemand(10, 4)); err != nil {
			t.Fatal(err)
		}
		if placement.Admit(s, metricDemand(10, 6), metricDemand(10, 4)) == nil {
			t.Fatal("20 more fit in 12")
		}
	})
	t.Run("NeverRefusesNoLoad", func(t *testing.T) {
		full := oracle.SnapshotOf(oracle.Instance("a", oracle.Metric("m", 0)))
		if err := placement.Admit(full, metricDemand(0, 1000), placement.Demand{}); err != nil {
			t.Fatal(err)
		}
		if placement.Admit(full, metricDemand(1, 1), placement.Demand{}) == nil {
			t.Fatal("capacity 0 is none")
		}
	})
	t.Run("CountsATaskThatMovesOnce", func(t *testing.T) {
		moving := oracle.SnapshotOf(oracle.Instance("a", oracle.Metric("m", 150)),
			oracle.Instance("b", oracle.Metric("m", 150)),
			oracle.Task("stays", "a", oracle.Load(50)), oracle.Task("old", "a", oracle.Load(50)),
			oracle.Task("new", "b", oracle.Load(50), replaces("old")),
			oracle.Task("moved", "b", oracle.Load(50)), oracle.Task("stopping", "a", oracle.Load(50), stopping))
		if err := placement.Admit(moving, metricDemand(150, 1), placement.Demand{}); err != nil {
			t.Fatal(err) // three tasks of 50 leave 150 of 300
		}
		if err := placement.Admit(moving, metricDemand(151, 1), placement.Demand{}); err == nil ||
			!strings.Contains(err.Error(), "150 available (capacity 300, 300 without the buffer, load 150)") {
			t.Fatal(err)
		}
	})
	t.Run("HoldsReservationsBack", func(t *testing.T) {
		shop := cluster.Application{MinimumNodes: 2,
			Metrics: map[string]cluster.ApplicationMetric{"m": {Reservation: 8}}}
		s := oracle.SnapshotOf(oracle.Configuration(cluster.Configuration{
			Applications: map[string]cluster.Application{"shop": shop}}),
			&cluster.Service{ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "web"},
				ServiceSpec: cluster.ServiceSpec{Rules: cluster.Rules{Application: "shop"}},
				Head:        cluster.Head{Cluster: "c", Rev: 1}},
			oracle.Instance("a", oracle.Metric("m", 15)), oracle.Instance("b", oracle.Metric("m", 15)),
			oracle.Task("t", "a", oracle.Load(3)))
		// 5 on a and 8 for another instance are reserved; 3 are in use.
		if err := placement.Admit(s, metricDemand(14, 1), placement.Demand{}); err != nil {
			t.Fatal(err)
		}
		want := "metric m: 15 more required, 14 available (capacity 30, 30 without the buffer, load 3, 13 reserved for applications)"
		if err := placement.Admit(s, metricDemand(15, 1), placement.Demand{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatal(err)
		}
		own := metricDemand(27, 1)
		own.Application = "shop"
		if err := placement.Admit(s, own, placement.Demand{}); err != nil {
			t.Fatal(err)
		}
		c := placement.CapacityOfMetric(s, "m")
		oracle.Expect(t, "reserved", c.Reserved, 13)
		oracle.Expect(t, "remaining", c.Remaining, 14)
		m := s.MetricIndex("m")
		oracle.Expect(t, "remaining on a", placement.InstanceCapacities(s, s.Instances["a"])[m].Remaining, 7)
	})
	t.Run("CountsOverbooking", func(t *testing.T) {
		for percent, most := range map[float64]int64{0.2: 225, -1: 1 << 40} { // 120 % of 200 less 15
			s := oracle.SnapshotOf(oracle.Configuration(cluster.Configuration{Overbooking: map[string]float64{"m": percent}}),
				oracle.Instance("a", oracle.Metric("m", 100)), oracle.Instance("b", oracle.Metric("m", 100)),
				oracle.Instance("down", oracle.Disconnected, oracle.Metric("m", 100)),
				oracle.Task("t", "a", oracle.Load(15)))
			if err := placement.Admit(s, metricDemand(most, 1), placement.Demand{}); err != nil {
				t.Errorf("%v: %v", percent, err)
			}
			if err := placement.Admit(s, metricDemand(most+1, 1), placement.Demand{}); (err == nil) != (percent == -1) {
				t.Errorf("%v: one more: %v", percent, err)
			}
		}
	})
	t.Run("SumsDoNotOverflow", func(t *testing.T) {
		if placement.Admit(s, metricDemand(1<<62, 8), placement.Demand{}) == nil {
			t.Fatal("2^65 fit in 12")
		}
	})
}

// What Admit allows on an empty cluster never exceeds the whole capacity without the buffer. It
// refuses one more.
func TestAdmitHoldsBackTheBuffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percent := rapid.IntRange(0, 100).Draw(t, "buffer")
		rows := []state.Row{oracle.Configuration(cluster.Configuration{Buffer: map[string]float64{"m": float64(percent) / 100}})}
		total := int64(0)
		for n := range rapid.IntRange(1, 5).Draw(t, "instances") {
			c := int64(rapid.IntRange(0, 1000).Draw(t, "capacity"))
			total += c
			rows = append(rows, oracle.Instance(string(rune('a'+n)), oracle.Metric("m", c)))
		}
		s := oracle.SnapshotOf(rows...)
		usable := total * int64(100-percent) / 100
		if err := placement.Admit(s, metricDemand(1, int(usable)), placement.Demand{}); err != nil {
			t.Fatal(err)
		}
		if placement.Admit(s, metricDemand(1, int(usable)+1), placement.Demand{}) == nil {
			t.Fatalf("%d of %d were admitted", usable+1, usable)
		}
	})
}
