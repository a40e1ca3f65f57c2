package placement_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/state"
	"berth/tests/oracle"
)

// A metric that only instances name has the weight that Service Fabric gives to one without: it may
// be out of balance (P15).
func TestMetricWithoutAServiceMayBeOutOfBalance(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("a", oracle.Metric("m", 100)), oracle.Instance("b", oracle.Metric("m", 100)),
		oracle.Task("t", "a", oracle.Load(50)))
	for _, b := range placement.MetricBalances(s) {
		if b.Metric == "m" && b.Balanced {
			t.Errorf("%+v", b)
		}
	}
}

// Of many services whose rules exclude an instance, three are named, in order.
func TestExcludingServicesAreNamed(t *testing.T) {
	var rows []state.Row
	for i, at := range [][2]int{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {0, 1}} {
		rows = append(rows, oracle.Instance(fmt.Sprintf("N%d", i+1),
			oracle.Attribute(cluster.AttributeFaultDomain, fmt.Sprintf("fd:/FD%d", at[0])),
			oracle.Attribute(cluster.AttributeUpgrade, fmt.Sprintf("UD%d", at[1]))))
	}
	services := func(names ...string) (out []placement.ServiceSpec) {
		for _, name := range names {
			out = append(out, placement.ServiceSpec{Name: name, Target: 5,
				Spec: &placement.Spec{Owner: name, DomainPolicy: cluster.PolicyDifference}})
		}
		return out
	}
	e := placement.New(oracle.SnapshotOf(rows...))
	for want, names := range map[string][]string{
		"a, b, c": {"c", "a", "b"}, "a, b, c and 1 more": {"d", "c", "b", "a"},
		"a, b, c and 2 more": {"e", "d", "c", "b", "a"},
	} {
		got := e.UnusableInstances(services(names...))
		if len(got) != 1 || got[0].Why != "a task there would break the domain rule of "+want {
			t.Errorf("%v: %+v", names, got)
		}
	}
}

// An explanation of a scoring function has each candidate's score, and the lower one wins.
func TestScoresAreExplained(t *testing.T) {
	for _, scoring := range []string{placement.BestFit, placement.LeastFragmentation} {
		e := placement.New(oracle.SnapshotOf(oracle.Instance("a", oracle.GPUs(2)), oracle.Instance("b", oracle.GPUs(4)),
			oracle.Task("t", "b", oracle.Needs(cluster.Resources{GPUs: 1}),
				func(t *cluster.Task) { t.GPUs = []int{0} })))
		x := e.Explain(placement.Request{Count: 1, Spec: &placement.Spec{Owner: "o", Scoring: scoring,
			Needs: cluster.Resources{GPUs: 1}}})
		if x.Best == nil || x.RunnerUp == nil {
			t.Fatalf("%s: %+v", scoring, x)
		}
		for _, c := range x.Best.Key {
			shown, err := strconv.ParseFloat(c.Text, 64)
			if err == nil && math.Abs(shown-c.Value) > 1e-3*math.Abs(c.Value) && c.Name != "requested order" {
				t.Errorf("%s: %+v says %g", scoring, c, shown)
			}
		}
		for n, c := range x.Best.Key {
			if c.Text != x.RunnerUp.Key[n].Text {
				if c.Value > x.RunnerUp.Key[n].Value {
					t.Errorf("%s: %v wins over %v", scoring, c, x.RunnerUp.Key[n])
				}
				break
			}
		}
	}
}

// Ports of the two protocols are apart: 53 for UDP leaves 53 for TCP free, and the reverse (S2).
func TestPortsOfBothProtocols(t *testing.T) {
	dns := func(protocol cluster.Protocol) cluster.Port { return cluster.Port{Number: 53, Protocol: protocol} }
	for _, used := range []cluster.Protocol{cluster.TCP, cluster.UDP} {
		for _, asked := range []cluster.Protocol{cluster.TCP, cluster.UDP} {
			e := placement.New(oracle.SnapshotOf(oracle.Instance("a"), oracle.Task("t", "a", oracle.Ports(dns(used)))))
			got := e.Place(placement.Request{Count: 1,
				Spec: &placement.Spec{Owner: "o", Ports: []cluster.Port{dns(asked)}}})
			if (len(got.Placed) == 1) != (used != asked) {
				t.Errorf("%v is in use, %v is asked for: placed %v", used, asked, got.Placed)
			}
		}
	}
}

// A task may use all that is left with overbooking, and not one unit more (P13).
func TestOverbookedCapacityCanBeUsedUp(t *testing.T) {
	for load, fits := range map[int64]bool{19: true, 20: true, 21: false} {
		e := placement.New(oracle.SnapshotOf(
			oracle.Configuration(cluster.Configuration{Overbooking: map[string]float64{"m": 0.2}}),
			oracle.Instance("a", oracle.Metric("m", 100)), oracle.Task("t", "a", oracle.Load(100))))
		got := e.Place(placement.Request{Count: 1, Spec: &placement.Spec{Owner: "o",
			Loads: []cluster.Metric{{Name: "m", Load: load}}}})
		if (len(got.Placed) == 1) != fits {
			t.Errorf("load %d of 20 left: placed %v", load, got.Placed)
		}
	}
}

// What an application has reserved and does not use is no room for others: of 100 it uses 10 and keeps
// 30 more. The explanation has what is left.
func TestReservationsAreExplained(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Configuration(cluster.Configuration{Applications: map[string]cluster.Application{
		"shop": {Metrics: map[string]cluster.ApplicationMetric{"m": {Reservation: 40}}}}}),
		&cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 1},
			ServiceIdentity: cluster.ServiceIdentity{Name: "cart", Short: "cart"},
			ServiceSpec:     cluster.ServiceSpec{Rules: cluster.Rules{Application: "shop"}}},
		oracle.Instance("a", oracle.Metric("m", 100)), oracle.Task("t", "a", oracle.Owner("cart"), oracle.Load(10)))
	for load, fits := range map[int64]bool{60: true, 61: false} {
		_, why := oracle.CheckInstance(s, "a", placement.Request{Count: 1, Spec: &placement.Spec{Owner: "o",
			Loads: []cluster.Metric{{Name: "m", Load: load}}}})
		if (why == nil) != fits || why != nil && (why.Need != float64(load) || why.Best != 60) {
			t.Errorf("load %d: %+v, expected 60 left", load, why)
		}
	}
}

// A task of three half devices needs three devices. One that is free counts once, beside one of which
// 600 thousandths are left.
func TestDevicesCountOnce(t *testing.T) {
	half := cluster.Resources{GPUs: 3, GPUMilli: 500}
	for devices, fits := range map[int]bool{2: false, 3: true} {
		s := oracle.SnapshotOf(oracle.Instance("a", oracle.GPUs(devices)), oracle.Task("t", "a",
			oracle.Needs(cluster.Resources{GPUs: 1, GPUMilli: 400}), func(t *cluster.Task) { t.GPUs = []int{0} }))
		got := placement.New(s).Place(placement.Request{Count: 1, Spec: &placement.Spec{Owner: "o", Needs: half}})
		if (len(got.Placed) == 1) != fits {
			t.Errorf("%d devices: placed %v", devices, got.Placed)
		}
	}
}

// An instance that the cluster does not have, or has no more, is no candidate.
func TestInstancesThatAreGoneAreNoCandidates(t *testing.T) {
	e := placement.New(oracle.SnapshotOf(oracle.Instance("a"), oracle.Instance("b", oracle.Status(cluster.InstanceInactive))))
	for id, want := range map[string]bool{"a": true, "b": false, "nowhere": false} {
		if got := e.CandidateOn(oracle.WebRequest(1), id); (got != nil) != want {
			t.Errorf("%s is a candidate: %v", id, got)
		}
	}
}

// Instances without an attribute are a group of their own, beside those that have it without a value.
func TestEmptyAttributesAreAGroup(t *testing.T) {
	spec := &placement.Spec{Owner: "web", Needs: oracle.Small, Strategies: []cluster.PlacementStrategy{
		{Type: cluster.StrategySpread, Field: "attribute:x"}}}
	s := oracle.SnapshotOf(oracle.Instance("a", oracle.Attribute("x", "")), oracle.Instance("b"), oracle.Task("t", "a"))
	if got := oracle.Where(placement.New(s).Place(placement.Request{Spec: spec, Count: 1}).Placed); got != "b" {
		t.Errorf("the second task goes to %s, expected b: no task is in its group", got)
	}
}

// An application on one of three instances, with a load of 10 of 45, has room on two more, and for three
// more tasks with a load of 10 each.
func TestApplicationRoom(t *testing.T) {
	shop := map[string]cluster.ApplicationMetric{"m": {TotalCapacity: 45}}
	for limits, want := range map[*cluster.Application][2]int{
		{MaximumNodes: 3}:                {2, math.MaxInt},
		{Metrics: shop}:                  {math.MaxInt, 3},
		{MaximumNodes: 1, Metrics: shop}: {0, 3},
	} {
		e := placement.New(oracle.SnapshotOf(
			oracle.Configuration(cluster.Configuration{Applications: map[string]cluster.Application{"shop": *limits}}),
			&cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 1},
				ServiceIdentity: cluster.ServiceIdentity{Name: "cart", Short: "cart"},
				ServiceSpec:     cluster.ServiceSpec{Rules: cluster.Rules{Application: "shop"}}},
			oracle.Instance("a"), oracle.Task("t", "a", oracle.Owner("cart"), oracle.Load(10))))
		instances, tasks := placement.ApplicationRoom(e, &placement.Spec{Owner: "cart", Application: "shop",
			Loads: []cluster.Metric{{Name: "m", Load: 10}}})
		if got := [2]int{instances, tasks}; got != want {
			t.Errorf("%+v: room on %d more instances, for %d more tasks, expected %v", *limits, instances, tasks, want)
		}
	}
}
