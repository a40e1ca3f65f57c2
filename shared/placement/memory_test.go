package placement

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/snapshot"
	"berth/shared/tally"
)

// memorySnapshot has instances of two zones and racks.
func memorySnapshot(instances int) *snapshot.Snapshot {
	s := snapshot.NewSnapshot()
	for n := range instances {
		s.Put(&cluster.Instance{Head: cluster.Head{Cluster: "c", Rev: 1}, ID: fmt.Sprintf("i-%03d", n),
			Status: cluster.InstanceActive, AgentConnected: true,
			Registered: cluster.Capacity{CPU: 4 * cluster.VCPU, Memory: 8192},
			Attributes: map[string]string{cluster.AttributeZone: fmt.Sprint(n % 2), "rack": fmt.Sprint(n % 5)}})
	}
	return s
}

// otherSpec returns the n-th of many specs that share nothing: each has an owner, a constraint, a
// size and a spread of its own. Some have domain rules, some an index of their own.
func otherSpec(t *testing.T, n int) *Spec {
	t.Helper()
	x, err := constraint.ParseQuery(fmt.Sprintf("attribute:rack != r%d", n))
	if err != nil {
		t.Fatal(err)
	}
	spec := &Spec{Owner: fmt.Sprintf("o%d", n), Needs: cluster.Resources{CPU: int64(n + 1), Memory: 1},
		Constraints: []*constraint.Expression{x}}
	spread := cluster.PlacementStrategy{Type: cluster.StrategySpread, Field: fmt.Sprintf("attribute:a%d", n)}
	switch n % 4 {
	case 0:
		spec.DomainPolicy = cluster.PolicyQuorum
	case 1:
		spec.Strategies = []cluster.PlacementStrategy{spread, {Type: cluster.StrategyRandom}}
	case 2:
		spec.Strategies = []cluster.PlacementStrategy{spread, {Type: cluster.StrategySpread, Field: "instanceId"}}
	case 3:
		spec.Scoring, spec.PerInstance = BestFit, 1
	}
	return spec
}

// cacheSizes returns how many entries each cache has.
func (e *Engine) cacheSizes() map[string]int {
	c := &e.caches
	return map[string]int{"choosers": len(c.choosers), "counts": len(c.counts), "owners": len(c.countsByOwner),
		"region maps": len(c.regionMaps), "constraints": len(c.constraints), "masks": len(c.masks),
		"indexes": len(c.indexes), "templates": len(c.templates), "rejections": len(c.rejections)}
}

// A service that has been updated a hundred times costs its tasks' changes no more than one that has been
// updated a few times.
func TestEndedDeploymentsAreNotCounted(t *testing.T) {
	e := New(memorySnapshot(20))
	for n := range 100 {
		spec := &Spec{Owner: "web", Group: "service:web", Deployment: fmt.Sprint(n), Needs: cluster.Resources{CPU: 1, Memory: 1}}
		for range 2 { // the second finds what the first has left
			if got := e.Place(Request{Spec: spec, Count: 2}); len(got.Placed) != 2 {
				t.Fatalf("deployment %d finds no instances: %v", n, got.Diagnosis)
			}
		}
		if err := e.CheckKept(); err != nil {
			t.Fatal(err)
		}
	}
	for cache, most := range map[string]int{"counts": 2 + maxDeployments, "choosers": 1 + maxDeployments} {
		if n := e.cacheSizes()[cache]; n > most {
			t.Errorf("%d %s after 100 deployments, at most %d are needed", n, cache, most)
		}
	}
}

// However many specs there are, caches keep what the choosers in use need: one entry of each kind
// for each at most. The chooser that was used last is never dropped, and each new one makes the
// estimate of memory larger.
func TestCachesAreBounded(t *testing.T) {
	e := New(memorySnapshot(60))
	e.LimitMemory(150_000)
	dropped, last := 0, 0
	for n := range 200 {
		spec, choosers, before, next := otherSpec(t, n), len(e.caches.choosers), estimateMemory(e), e.evictAt
		if got := e.Place(Request{Spec: spec, Count: 1}); len(got.Placed) != 1 {
			t.Fatalf("spec %d finds no instance: %v", n, got.Diagnosis)
		}
		now := estimateMemory(e)
		if len(e.caches.choosers) <= choosers && n > 0 {
			dropped++
		} else if now < before+1024 {
			t.Fatalf("spec %d makes the estimate %d, it was %d", n, now, before)
		}
		last = max(last, now)
		if n := len(e.caches.choosers); e.evictAt <= n || e.evictAt > n+1+n/evictShare {
			t.Fatalf("with %d choosers the estimate is made again at %d", n, e.evictAt)
		}
		if choosers+1 < next && e.evictAt != next {
			t.Fatalf("with %d choosers the estimate was made again, expected at %d", choosers+1, next)
		}
		if e.caches.choosers[chooserKey{spec, 0}] == nil {
			t.Fatalf("the chooser of spec %d is not kept", n)
		}
		for kind, size := range e.cacheSizes() {
			if size > len(e.caches.choosers) {
				t.Fatalf("after spec %d there are %d %s for %d choosers", n, size, kind, len(e.caches.choosers))
			}
		}
		for _, regions := range e.caches.regionMaps {
			if len(regions.groupCounts) > len(e.caches.choosers) {
				t.Fatalf("a region map has the counts of %d owners, for %d choosers", len(regions.groupCounts),
					len(e.caches.choosers))
			}
		}
	}
	if dropped < 5 || last > 200_000 || len(e.caches.choosers) < 5 {
		t.Errorf("choosers are dropped %d times, %d are left, the estimate was up to %d", dropped,
			len(e.caches.choosers),
			last)
	}
	if err := e.CheckKept(); err != nil {
		t.Error(err)
	}
}

// Of the choosers, those that were used least recently are dropped.
func TestRecentChoosersAreKept(t *testing.T) {
	e := New(memorySnapshot(60))
	e.LimitMemory(150_000)
	often := otherSpec(t, 1000)
	for n := range 100 {
		e.Place(Request{Spec: often, Count: 1})
		kept := e.caches.choosers[chooserKey{often, 0}]
		e.Place(Request{Spec: otherSpec(t, n), Count: 1})
		if e.caches.choosers[chooserKey{often, 0}] != kept {
			t.Fatalf("after %d specs, one is dropped that was used before the last", n)
		}
	}
}

// The estimate of memory is at least 8 bytes for each number that is kept of each instance.
func TestEstimateCountsWhatIsKept(t *testing.T) {
	for n := range 4 {
		small, large := New(memorySnapshot(10)), New(memorySnapshot(1010))
		for _, e := range []*Engine{small, large} {
			e.Place(Request{Spec: otherSpec(t, n), Count: 1})
			e.Place(Request{Spec: &Spec{Owner: "none", Needs: cluster.Resources{CPU: 1 << 40}}, Count: 1})
		}
		if a, b := estimateMemory(small), estimateMemory(large); b-a < 1000*8 {
			t.Errorf("spec %d: the estimate is %d for 10 instances, %d for 1010", n, a, b)
		}
	}
}

// The estimate counts each part of what is kept: of the index of an owner's own, of the reasons for
// refusals, of domains, of the blocks of an index, and of counts.
func TestEstimateCountsEachPart(t *testing.T) {
	const n = 500
	place := func(spec *Spec) (*Engine, *chooser) {
		e := New(memorySnapshot(n))
		for i := range n { // on each instance, so that the owner's index is its own
			e.snap.Put(&cluster.Task{Head: cluster.Head{Cluster: "c", Rev: 1},
				TaskSpec: cluster.TaskSpec{ID: fmt.Sprint(i),
					Owner: spec.Owner}, TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning,
					Instance: fmt.Sprintf("i-%03d", i)}, TaskReport: cluster.TaskReport{Last: cluster.TaskRunning}})
		}
		e.Place(Request{Spec: spec, Count: 1})
		return e, e.caches.choosers[chooserKey{spec, 0}]
	}
	spread := []cluster.PlacementStrategy{{Type: cluster.StrategySpread, Field: "instanceId"},
		{Type: cluster.StrategyRandom}}
	full := cluster.Resources{CPU: 1 << 50}
	for name, c := range map[string]struct {
		spec *Spec
		drop func(e *Engine, c *chooser)
	}{
		"OwnIndex": {&Spec{Owner: "o", Strategies: spread}, func(_ *Engine, c *chooser) { c.ownIndex = false }},
		"Refusals of the owner": {&Spec{Owner: "o", PerInstance: 1, Needs: full},
			func(_ *Engine, c *chooser) { c.rejections = nil }},
		"Refusals": {&Spec{Owner: "o", Needs: full}, func(e *Engine, _ *chooser) { clear(e.caches.rejections) }},
		"Domains": {&Spec{Owner: "o", DomainPolicy: cluster.PolicyQuorum},
			func(_ *Engine, c *chooser) { c.domains = nil }},
		"SharedIndex": {&Spec{Owner: "none", Scoring: BestFit},
			func(e *Engine, _ *chooser) { clear(e.caches.indexes) }},
		"Blocks": {&Spec{Owner: "none", Scoring: BestFit}, func(e *Engine, _ *chooser) {
			for _, x := range e.caches.indexes {
				clear(x.runs)
			}
		}},
		"Counts": {&Spec{Owner: "o"}, func(e *Engine, _ *chooser) {
			for _, counts := range e.caches.counts {
				counts.active = tally.Counts{}
			}
		}},
		"Occupied": {&Spec{Owner: "o", PerInstance: 1}, func(e *Engine, _ *chooser) {
			for _, counts := range e.caches.counts {
				counts.occupying = tally.Counts{}
			}
		}},
		"Column": {&Spec{Owner: "o", Strategies: spread}, func(e *Engine, _ *chooser) {
			for _, counts := range e.caches.counts {
				counts.dense = nil
			}
		}},
		"Scores": {&Spec{Owner: "none", Scoring: LeastFragmentation}, func(e *Engine, _ *chooser) {
			for _, x := range e.caches.indexes {
				x.scores = nil
			}
		}},
	} {
		e, chooser := place(c.spec)
		before := estimateMemory(e)
		inParts := name == "Domains" || name == "Blocks" // not for each instance
		if c.drop(e, chooser); before-estimateMemory(e) < 8*n && !inParts || before <= estimateMemory(e) {
			t.Errorf("%s: the estimate is %d, and %d without", name, before, estimateMemory(e))
		}
	}
}

// Owners whose refusals are equal share them, and the estimate counts them once: with another owner
// it grows by less than one number for each instance.
func TestEstimateCountsSharedRefusalsOnce(t *testing.T) {
	const n = 1000
	e := New(memorySnapshot(n))
	before := 0
	for _, owner := range []string{"a", "b"} {
		before = estimateMemory(e)
		e.Place(Request{Spec: &Spec{Owner: owner, Needs: cluster.Resources{CPU: 1 << 50}}, Count: 1})
	}
	if more := estimateMemory(e) - before; more >= 8*n {
		t.Errorf("the second owner adds %d to the estimate, for %d instances", more, n)
	}
}
