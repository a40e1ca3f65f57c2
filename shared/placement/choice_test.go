package placement_test

import (
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/state"
	"berth/tests/oracle"
)

// Services that differ only in the taints that they tolerate are told apart, whichever comes first.
func TestTolerationsAreTheService(t *testing.T) {
	tolerant := func(owner, text string) *placement.Spec {
		read, err := cluster.ReadTolerations(text)
		if err != nil {
			t.Fatal(err)
		}
		return &placement.Spec{Owner: owner, Tolerations: read}
	}
	specs := []*placement.Spec{tolerant("x", "for=x"), tolerant("none", ""), tolerant("y", "for=y")}
	want := []string{"i-1", "", "i-2"}
	tainted := func(id, value string) state.Row {
		return oracle.Instance(id, oracle.Attribute(cluster.AttributeTaints, "for:"+value+":NO_SCHEDULE"))
	}
	for first := range specs {
		e := placement.New(oracle.SnapshotOf(tainted("i-1", "x"), tainted("i-2", "y")))
		for n := range specs {
			k := (first + n) % len(specs)
			got := e.Place(placement.Request{Spec: specs[k], Count: 1})
			oracle.Expect(t, "placed of "+specs[k].Owner, oracle.Where(got.Placed), want[k])
		}
	}
}

// Of instances that are equal the one with the lowest id is the best, and the next one the runner-up, in
// whichever order they have registered.
func TestTheLowestIDDecidesBetweenEquals(t *testing.T) {
	for _, order := range [][]string{{"i-1", "i-2", "i-3"}, {"i-3", "i-2", "i-1"}, {"i-2", "i-3", "i-1"}} {
		var rows []state.Row
		for _, id := range order {
			rows = append(rows, oracle.Instance(id))
		}
		x := placement.New(oracle.SnapshotOf(rows...)).Explain(placement.Request{Spec: &placement.Spec{Owner: "web"}})
		oracle.Expect(t, "best and runner-up", x.Best.Instance+" "+x.RunnerUp.Instance, "i-1 i-2")
	}
}

// Chance keeps the domain rule of both kinds: of the instances that are as good as the best, those whose
// fault domain or upgrade domain has its share of the tasks get none.
func TestChanceKeepsTheDomainRule(t *testing.T) {
	var rows []state.Row
	for _, id := range []string{"a1-1", "a1-2", "a1-3", "a2-1", "b1-1", "b1-2", "b1-3", "b2-1"} {
		rows = append(rows, oracle.Instance(id, oracle.Attribute(cluster.AttributeFaultDomain, "fd:/"+id[:1]),
			oracle.Attribute(cluster.AttributeUpgrade, id[1:2])))
	}
	e := placement.New(oracle.SnapshotOf(rows...))
	spec := &placement.Spec{Owner: "web", DomainPolicy: cluster.PolicyDifference,
		Strategies: []cluster.PlacementStrategy{{Type: cluster.StrategyRandom}}}
	for seed := range uint64(50) {
		placed := map[byte]int{}
		for _, p := range e.Place(placement.Request{Spec: spec, Count: 2, Target: 2, Seed: seed}).Placed {
			placed[p.Instance[0]]++
			placed[p.Instance[1]]++
		}
		if placed['a'] != 1 || placed['b'] != 1 || placed['1'] != 1 || placed['2'] != 1 {
			t.Fatalf("seed %d places %v, expected one task in each domain", seed, placed)
		}
	}
}

// No instance gets more tasks of an owner than may share it, however much better than the others it is.
func TestNoMoreTasksThanMayShareAnInstance(t *testing.T) {
	for most := 1; most <= 3; most++ {
		for name, spec := range map[string]*placement.Spec{
			"Spread": {Owner: "web", PerInstance: most},
			"Packed": {Owner: "web", PerInstance: most, Strategies: []cluster.PlacementStrategy{binpackBy("cpu")}},
			"AtRandom": {Owner: "web", PerInstance: most,
				Strategies: []cluster.PlacementStrategy{{Type: cluster.StrategyRandom}}},
		} {
			rows := []state.Row{oracle.Task("t", "i-1")}
			for _, id := range []string{"i-1", "i-2", "i-3", "i-4", "i-5", "i-6", "i-7", "i-8"} {
				rows = append(rows, oracle.Instance(id))
			}
			on := map[string]int{"i-1": 1}
			got := placement.New(oracle.SnapshotOf(rows...)).Place(placement.Request{Spec: spec, Count: 30, Target: 30})
			for _, p := range got.Placed {
				on[p.Instance]++
			}
			for id, n := range on {
				if n != most {
					t.Errorf("%s: %s has %d tasks, where %d may share an instance", name, id, n, most)
				}
			}
		}
	}
}
