package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
	"berth/tests/oracle"
)

func memberOf(expression string) cluster.PlacementConstraint {
	return cluster.PlacementConstraint{Type: cluster.MemberOf, Expression: expression}
}

// A spec has what its definition needs and what its rules say. The constraints of both must hold,
// and a node constraint may set policies.
func TestNewSpec(t *testing.T) {
	def := &cluster.TaskDefinition{Needs: oracle.Small, Ports: []cluster.Port{oracle.HTTP}, Attributes: []string{"gpu"},
		Constraints: []cluster.PlacementConstraint{memberOf("attribute:disk == ssd")}}
	rules := &cluster.Rules{Constraints: []cluster.PlacementConstraint{memberOf("attribute:rack == r1")},
		Strategies: []cluster.PlacementStrategy{{Type: cluster.StrategyBinpack, Field: "cpu"}},
		Metrics:    []cluster.Metric{{Name: "m", Load: 3}}, DomainPolicy: cluster.PolicyQuorum,
		Scoring: placement.BestFit, MoveCost: cluster.CostHigh}
	read := func() *placement.Spec {
		t.Helper()
		s, err := placement.NewSpec(def, "o", "g", rules)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	describe := func(s *placement.Spec) string {
		var texts []string
		for _, x := range s.Constraints {
			texts = append(texts, x.String())
		}
		return fmt.Sprint(s.Needs, s.Ports, s.Attributes, s.Loads, s.Owner, s.Group, s.PerInstance, texts, s.Strategies,
			s.DomainPolicy, s.Scoring, s.AllOrNothing, s.MoveCost)
	}
	constraints := []string{"attribute:disk == ssd", "attribute:rack == r1"}
	oracle.Expect(t, "spec", describe(read()), fmt.Sprint(def.Needs, def.Ports, def.Attributes, rules.Metrics, "o", "g",
		0,
		constraints, rules.Strategies, cluster.PolicyQuorum, placement.BestFit, false, cluster.CostHigh))
	rules.Constraints = append(rules.Constraints, cluster.PlacementConstraint{Type: cluster.DistinctInstance})
	rules.External = true
	s := read()
	oracle.Expect(t, "tasks per instance", s.PerInstance, 1)
	oracle.Expect(t, "attributes", fmt.Sprint(s.Attributes), fmt.Sprint([]string{"gpu", cluster.AttributeExternal}))
	oracle.Expect(t, "attributes of the definition", len(def.Attributes), 1)
	for text, want := range map[string]string{
		"rack == r1": "false quorum-safe",
		"rack == r1 && PlacePolicy ~ NonPartially":        "true quorum-safe",
		"rack == r1 && FDPolicy ~ Nonpacking":             "false nonpacking",
		"FDPolicy ~ ignore && PlacePolicy ~ NonPartially": "true ignore",
	} {
		rules.NodeConstraint = text
		s := read()
		oracle.Expect(t, text, fmt.Sprint(s.AllOrNothing, " ", s.DomainPolicy), want)
		oracle.Expect(t, "constraints", len(s.Constraints), 3)
	}
	rules.NodeConstraint = "rack == "
	if _, err := placement.NewSpec(def, "o", "g", rules); err == nil ||
		!strings.Contains(err.Error(), "node constraint") {
		t.Errorf("a node constraint that cannot be read: %v", err)
	}
	rules.NodeConstraint, rules.Constraints = "", []cluster.PlacementConstraint{memberOf("attribute:")}
	if _, err := placement.NewSpec(def, "o", "g", rules); err == nil ||
		!strings.Contains(err.Error(), `placement constraint "attribute:"`) {
		t.Errorf("a constraint that cannot be read: %v", err)
	}
}

// What an instance's row decides: whether it is in the cluster, takes tasks, and has what is
// required.
func TestEligibility(t *testing.T) {
	for name, c := range map[string]struct {
		option           oracle.Option
		inCluster, takes bool
	}{
		"Active":       {oracle.Zone("a"), true, true},
		"Draining":     {oracle.Status(cluster.InstanceDraining), true, false},
		"Disconnected": {oracle.Disconnected, true, false},
		"Deregistered": {oracle.Status(cluster.InstanceInactive), false, false},
		"Cordoned":     {oracle.Attribute(cluster.AttributeUnschedulable, ""), true, false},
	} {
		v := oracle.SnapshotOf(oracle.Instance("i", c.option)).Instances["i"]
		if eligibility.InCluster(v) != c.inCluster || eligibility.TakesTasks(v) != c.takes ||
			eligibility.IsCordoned(v) != (name == "Cordoned") {
			t.Errorf("%s: in the cluster %v, takes tasks %v, cordoned %v", name, eligibility.InCluster(v),
				eligibility.TakesTasks(v), eligibility.IsCordoned(v))
		}
	}
	s := oracle.SnapshotOf(oracle.Task("t", "unknown"))
	if v := s.Instances["unknown"]; v == nil || eligibility.InCluster(v) || eligibility.TakesTasks(v) {
		t.Errorf("an instance without a row is in the cluster")
	}
	provider := func(i *cluster.Instance) { i.Provider = "b" }
	v := oracle.SnapshotOf(oracle.Instance("i", oracle.Attribute("disk", "ssd"), provider)).Instances["i"]
	none := oracle.SnapshotOf(oracle.Instance("mi-1",
		oracle.Attribute(cluster.AttributeExternal, ""))).Instances["mi-1"]
	for required, want := range map[string]string{
		"": "", "disk": "", "disk=ssd": "", "disk=hdd": "disk=hdd", "net": "net", "disk net gpu": "net",
		"berth.capacity-provider": "", "berth.capacity-provider=a|b": "",
		"berth.capacity-provider=a|c": "berth.capacity-provider=a|c",
		cluster.AttributeExternal:     cluster.AttributeExternal,
	} {
		oracle.Expect(t, "missing of "+required, eligibility.MissingAttribute(v, strings.Fields(required)), want)
	}
	oracle.Expect(t, "missing", eligibility.MissingAttribute(none, []string{cluster.AttributeExternal}), "")
	oracle.Expect(t, "missing", eligibility.MissingAttribute(none, []string{"berth.capacity-provider"}),
		"berth.capacity-provider")
}

// A share of a device may be used up exactly.
func TestSharesOfDevicesAreUsedUp(t *testing.T) {
	for share, fits := range map[int32]bool{299: true, 300: true, 301: false} {
		for count, room := range map[int]bool{1: fits, 2: fits} {
			used := func(device int) oracle.TaskOption {
				return func(t *cluster.Task) {
					t.Needs, t.GPUs = cluster.Resources{GPUs: 1, GPUMilli: 700}, []int{device}
				}
			}
			e := placement.New(oracle.SnapshotOf(oracle.Instance("a", oracle.GPUs(2)), oracle.Task("t0", "a", used(0)),
				oracle.Task("t1", "a", used(1))))
			got := e.Place(placement.Request{Count: 1, Spec: &placement.Spec{Owner: "o",
				Needs: cluster.Resources{GPUs: count, GPUMilli: share}}})
			if (len(got.Placed) == 1) != room {
				t.Errorf("%d of %d thousandths: placed %v", count, share, got.Placed)
			}
		}
	}
}

// What a service keeps for tasks to come is not free: CPU, memory and interfaces.
func TestReservedCapacityIsNotFree(t *testing.T) {
	enis := 2
	for name, needs := range map[string]cluster.Resources{"CPU": {CPU: 2 * cluster.VCPU}, "Memory": {Memory: 4096},
		"Interface": {ENIs: 2}} {
		s := oracle.SnapshotOf(oracle.Instance("a", func(i *cluster.Instance) { i.Registered.ENIs = &enis }))
		e, r := placement.New(s), placement.Request{Count: 1, Spec: &placement.Spec{Owner: "o", Needs: needs}}
		if got := e.Place(r); len(got.Placed) != 1 {
			t.Errorf("%s: %v", name, got.Diagnosis)
		}
		for reserved, fits := range map[int64]bool{1: false, 0: true} {
			part := cluster.Resources{CPU: reserved * min(1, needs.CPU), Memory: reserved * min(1, needs.Memory),
				ENIs: int32(reserved) * min(1, needs.ENIs)}
			s.Reserve("daemon", map[*snapshot.InstanceView]cluster.Resources{s.Instances["a"]: part})
			if got := e.Place(r); (len(got.Placed) == 1) != fits {
				t.Errorf("%s: %d reserved, placed %v", name, reserved, got.Placed)
			}
		}
	}
}

// With the random strategy chance decides which of equal tasks stop: each about as often, and for a
// seed always the same.
func TestStopsAtRandom(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("a"), oracle.Task("t0", "a"), oracle.Task("t1", "a"), oracle.Task("t2", "a"),
		oracle.Task("t3", "a"))
	e, stops := placement.New(s), map[string]int{}
	spec := &placement.Spec{Owner: "web", Strategies: []cluster.PlacementStrategy{{Type: cluster.StrategyRandom}}}
	for seed := range uint64(400) {
		r := placement.Request{Spec: spec, Count: 1, Seed: seed}
		first, again := e.ChooseStops(r, s.TasksOf("web")), e.ChooseStops(r, s.TasksOf("web"))
		if len(first) != 1 || len(again) != 1 || first[0] != again[0] {
			t.Fatalf("seed %d stops %s, then %s", seed, oracle.IDs(first), oracle.IDs(again))
		}
		stops[first[0].ID]++
	}
	for id, n := range stops {
		if n < 60 || n > 140 || len(stops) != 4 {
			t.Errorf("of 400 seeds, %d stop %s", n, id)
		}
	}
}
