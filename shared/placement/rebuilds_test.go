package placement

import (
	"fmt"
	"slices"
	"testing"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/snapshot"
)

// keptSpecs returns specs of each kind: with a spread, binpack, chance, a scoring, domain rules, a
// static constraint and one that depends on tasks.
func keptSpecs(t *testing.T) map[string]*Spec {
	t.Helper()
	parse := func(query string) []*constraint.Expression {
		x, err := constraint.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		return []*constraint.Expression{x}
	}
	binpack := cluster.PlacementStrategy{Type: cluster.StrategyBinpack, Field: "memory"}
	return map[string]*Spec{
		"Default": {Owner: "a"}, "Binpack": {Owner: "b", Strategies: []cluster.PlacementStrategy{binpack}},
		"Chance": {Owner: "c", Strategies: []cluster.PlacementStrategy{{Type: cluster.StrategyRandom}}},
		"Score":  {Owner: "d", Scoring: LeastFragmentation}, "Exclusive": {Owner: "e", PerInstance: 1},
		"Domains": {Owner: "f", DomainPolicy: cluster.PolicyDifference},
		"Static":  {Owner: "g", Constraints: parse("attribute:rack != 1")},
		"Dynamic": {Owner: "h", Constraints: parse("runningTasksCount < 50")},
		"DomainsAndDynamic": {Owner: "i", DomainPolicy: cluster.PolicyDifference,
			Constraints: parse("runningTasksCount < 50")},
	}
}

func putTask(s *snapshot.Snapshot, id, owner, instance string) *cluster.Task {
	t := &cluster.Task{Head: cluster.Head{Cluster: "c", Rev: 1}, TaskSpec: cluster.TaskSpec{ID: id, Owner: owner,
		Needs: cluster.Resources{CPU: 1, Memory: 1}}, TaskAssignment: cluster.TaskAssignment{Instance: instance,
		Desired: cluster.TaskRunning}, TaskReport: cluster.TaskReport{Last: cluster.TaskRunning}}
	s.Put(t)
	return t
}

// A change of a task rebuilds nothing that the engine keeps: not the regions, the domains, the
// index, the counts or the chooser. Otherwise a placement would take time in proportion to the
// instances. Only an index by scores is built again when the scorer has learned.
func TestTaskChangesRebuildNothing(t *testing.T) {
	for name, spec := range keptSpecs(t) {
		t.Run(name, func(t *testing.T) {
			s := memorySnapshot(200)
			e := New(s)
			e.Place(Request{Spec: spec, Count: 1})
			c := e.caches.choosers[chooserKey{spec, 0}]
			regions, counts, groups, runs := c.regionMap.revision, c.counts, c.groupCounts, &c.index.runs[0]
			matches, domains := &c.matcher.static.passes[0], 0
			if c.domainTemplate != nil {
				domains = c.domainTemplate.revision
			}
			for n := range 5 {
				putTask(s, fmt.Sprint("t", n), spec.Owner, fmt.Sprintf("i-%03d", 100+n))
				if got := e.Place(Request{Spec: spec, Count: 1}); len(got.Placed) != 1 {
					t.Fatalf("placed %v: %v", got.Placed, got.Diagnosis)
				}
			}
			if e.caches.choosers[chooserKey{spec, 0}] != c || c.regionMap.revision != regions || c.counts != counts ||
				c.groupCounts != groups || &c.index.runs[0] != runs && spec.Scoring == "" ||
				&c.matcher.static.passes[0] != matches ||
				c.domainTemplate != nil && c.domainTemplate.revision != domains {
				t.Errorf("something was built again: %d regions' revision, was %d; index %v, domains %v",
					c.regionMap.revision, regions, &c.index.runs[0] == runs, c.domainTemplate)
			}
		})
	}
}

// A placement checks about as many instances in a large cluster as in a small one.
func TestPlacementsDoNotScanTheCluster(t *testing.T) {
	for name, spec := range keptSpecs(t) {
		t.Run(name, func(t *testing.T) {
			s := memorySnapshot(4000)
			e := New(s)
			for n := range 50 {
				putTask(s, fmt.Sprint("before", n), spec.Owner, fmt.Sprintf("i-%03d", n))
			}
			e.Place(Request{Spec: spec, Count: 1})
			before := e.InstanceVisits()
			for n := range 10 {
				putTask(s, fmt.Sprint("t", n), spec.Owner, fmt.Sprintf("i-%03d", 100+n))
				e.Place(Request{Spec: spec, Count: 1})
			}
			if visits := (e.InstanceVisits() - before) / 10; visits > 150 {
				t.Errorf("each placement checks %d of 4000 instances", visits)
			}
		})
	}
}

// Two choosers of one owner share its counts, by instance and by group.
func TestChoosersOfAnOwnerShareItsCounts(t *testing.T) {
	e := New(memorySnapshot(20))
	small, large := &Spec{Owner: "o"}, &Spec{Owner: "o", Needs: cluster.Resources{CPU: 5}}
	e.Place(Request{Spec: small, Count: 1})
	e.Place(Request{Spec: large, Count: 1})
	a, b := e.caches.choosers[chooserKey{small, 0}], e.caches.choosers[chooserKey{large, 0}]
	if a.counts != b.counts || a.groupCounts != b.groupCounts || len(a.counts.groupCounts) != 1 ||
		len(a.regionMap.groupCounts) != 1 {
		t.Errorf("counts %p and %p, by groups %p and %p", a.counts, b.counts, a.groupCounts, b.groupCounts)
	}
}

// An instance in another region cannot be better if the best of that region is not: with binpack,
// one block of one region is enough.
func TestRegionsThatCannotWinAreSkipped(t *testing.T) {
	s := snapshot.NewSnapshot()
	for n := range 1000 {
		s.Put(&cluster.Instance{Head: cluster.Head{Cluster: "c", Rev: 1}, ID: fmt.Sprintf("i-%04d", n),
			Status: cluster.InstanceActive, AgentConnected: true,
			Registered: cluster.Capacity{CPU: 4 * cluster.VCPU, Memory: int64(8000 + n)},
			Attributes: map[string]string{cluster.AttributeZone: fmt.Sprint(n % 100)}})
	}
	spread := cluster.PlacementStrategy{Type: cluster.StrategySpread, Field: "attribute:" + cluster.AttributeZone}
	pack := cluster.PlacementStrategy{Type: cluster.StrategyBinpack, Field: "memory"}
	e := New(s)
	spec := &Spec{Owner: "o", Strategies: []cluster.PlacementStrategy{spread, pack}}
	e.Place(Request{Spec: spec, Count: 1})
	before := e.InstanceVisits()
	got := e.Place(Request{Spec: spec, Count: 1})
	if visits := e.InstanceVisits() - before; visits > 30 || len(got.Placed) != 1 ||
		got.Placed[0].Instance != "i-0000" {
		t.Errorf("placed %v after %d instances were checked, expected one of the first region", got.Placed, visits)
	}
}

// The engine follows an instance that leaves, and one that comes back under the same id in another
// place, whatever other instances do meanwhile.
func TestInstancesThatComeBack(t *testing.T) {
	s := memorySnapshot(12)
	e := New(s)
	spec := &Spec{Owner: "o"}
	e.Place(Request{Spec: spec, Count: 1})
	for round := range 20 {
		id := fmt.Sprintf("i-%03d", round*5%12)
		gone := *s.Instances[id].Instance
		gone.Rev, gone.Status = gone.Rev+1, cluster.InstanceInactive
		s.Put(&gone)
		back := gone
		back.Rev, back.Status = back.Rev+1, cluster.InstanceActive
		if round%2 == 0 {
			e.Place(Request{Spec: spec, Count: 1})
		}
		s.Put(&back)
		if got := e.Place(Request{Spec: spec, Count: 12}); len(got.Placed) != 12 {
			t.Fatalf("placed %v", got.Placed)
		}
		if err := e.CheckKept(); err != nil {
			t.Fatal(err)
		}
	}
	ids := slices.Clone(e.byID)
	if slices.Sort(ids); len(slices.Compact(ids)) != 12 {
		t.Errorf("%d instances have a label, expected 12", len(e.byID))
	}
}
