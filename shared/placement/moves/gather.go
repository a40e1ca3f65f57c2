package moves

import (
	"cmp"
	"math"
	"slices"
)

// The load of some metrics is gathered on few instances instead of evened out: until so many instances have
// none, or without such a number while the loads of a domain are near each other.

// emptyWanted returns how many of the instances that can use a gathered metric should have no load of
// these metrics.
func (b *balancing) emptyWanted() int {
	usable := 0
	for i := range b.problem.instances {
		if b.isGatheredOn(int32(i)) {
			usable++
		}
	}
	if b.goals.EmptyShare > 0 {
		return int(b.goals.EmptyShare * float64(usable))
	}
	return min(b.goals.EmptyCount, usable)
}

// isGatheredOn reports whether the instance can use a gathered metric.
func (b *balancing) isGatheredOn(i int32) bool {
	return slices.ContainsFunc(b.metrics, func(g metricGoal) bool { return g.Gather && !g.apart[i] })
}

// scatterWeight returns what the square roots of a packed metric's loads are multiplied by, so that their sum
// falls by the weight of empty instances on the way from even loads to all load on one instance.
func (b *balancing) scatterWeight(g *metricGoal) float64 {
	return b.goals.Empty / (float64(g.count) - math.Sqrt(float64(g.count)))
}

// isScattered reports whether load of a packed metric should be gathered: in some fault or upgrade domain each
// instance has load, and the fullest has at most as many times that of the emptiest as the metric's threshold
// says. A threshold of 1 always gathers, one of 0 or less never (Service Fabric, "Defragmentation").
func (b *balancing) isScattered(g *metricGoal, loads []int64) bool {
	threshold := 1.0
	if t, set := b.planner.snap.Configuration.Balancing[g.Name]; set {
		threshold = t
	}
	if threshold == 1 || threshold <= 0 {
		return threshold > 0
	}
	type extremes struct {
		least, most int64
		count       int
	}
	domains := map[string]extremes{}
	for i := range b.problem.instances {
		if g.apart[i] {
			continue
		}
		view := b.problem.instances[i].view
		for _, name := range []string{"f" + view.FaultDomain(), "u" + view.UpgradeDomain()} {
			d, known := domains[name]
			if d.most = max(d.most, loads[i]); !known || loads[i] < d.least {
				d.least = loads[i]
			}
			d.count++
			domains[name] = d
		}
	}
	for _, d := range domains {
		if d.count > 1 && d.least > 0 && float64(d.most) <= threshold*float64(d.least) {
			return true
		}
	}
	return false
}

// instancesToEmpty returns the instances that should have no load of the gathered metrics: those whose tasks
// are the least costly to move and, of these, those with the least load. If they should be over many domains,
// each next one is of the fault domain with the fewest of them and, of these, of such an upgrade domain.
func (b *balancing) instancesToEmpty() map[int32]bool {
	out := map[int32]bool{}
	type candidate struct {
		i    int32
		cost int
		load float64
	}
	var candidates []candidate
	for i := range int32(len(b.problem.instances)) {
		if b.isGatheredOn(i) {
			candidates = append(candidates, candidate{i, b.costToEmpty(i), b.gatheredLoad(i)})
		}
	}
	slices.SortStableFunc(candidates, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(x.cost, y.cost), cmp.Compare(x.load, y.load))
	})
	inFault, inUpgrade := map[string]int{}, map[string]int{}
	for range b.emptyWanted() {
		best := 0
		for n := range candidates {
			view, than := b.problem.instances[candidates[n].i].view, b.problem.instances[candidates[best].i].view
			if b.goals.EmptyOverDomains && cmp.Or(
				cmp.Compare(inFault[view.FaultDomain()], inFault[than.FaultDomain()]),
				cmp.Compare(inUpgrade[view.UpgradeDomain()], inUpgrade[than.UpgradeDomain()])) < 0 {
				best = n
			}
		}
		i := candidates[best].i
		out[i] = true
		inFault[b.problem.instances[i].view.FaultDomain()]++
		inUpgrade[b.problem.instances[i].view.UpgradeDomain()]++
		candidates = slices.Delete(candidates, best, best+1)
	}
	return out
}

// costToEmpty returns what the move costs of the tasks on the instance with load of gathered metrics are above
// Low. A task that stays costs more than any that may move.
func (b *balancing) costToEmpty(i int32) (cost int) {
	for _, t := range b.problem.instances[i].tasks {
		task := &b.problem.tasks[t]
		loads := slices.ContainsFunc(b.metrics, func(g metricGoal) bool { return g.Gather && task.amountOf(g.dim) > 0 })
		switch {
		case loads && !task.movable:
			cost += stayingCost
		case loads:
			cost += max(0, task.cost-1)
		}
	}
	return cost
}

// stayingCost is more than the move costs of an instance's tasks add up to.
const stayingCost = 1_000_000

// gatheredLoad returns the load of gathered metrics on the instance, in multiples of their means.
func (b *balancing) gatheredLoad(i int32) (load float64) {
	for n := range b.metrics {
		if g := &b.metrics[n]; g.Gather {
			load += float64(b.problem.load[b.problem.cellIndex(i, g.dim)]) / g.mean
		}
	}
	return load
}
