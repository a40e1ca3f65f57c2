package rebalance

// spreadCounts count the tasks of services in groups of instances, where a spread needs them.
type spreadCounts struct {
	ofService [][]int32 // spreads, per service
	counts    [][]int64 // per spread and group; empty if each instance is its own group
}

func newSpreadCounts(p *Problem) spreadCounts {
	c := spreadCounts{make([][]int32, len(p.Services)), make([][]int64, len(p.Spreads))}
	for n, x := range p.Spreads {
		c.ofService[x.Service] = append(c.ofService[x.Service], int32(n))
		groups := int32(0)
		for _, g := range x.GroupOf {
			groups = max(groups, g+1)
		}
		c.counts[n] = make([]int64, groups)
	}
	return c
}

// tasksInGroup returns how many tasks of the spread's service are in the instance's group.
func (a *assignment) tasksInGroup(spread, i int32) (count int64) {
	x := &a.problem.Spreads[spread]
	if x.GroupOf != nil {
		return a.spreads.counts[spread][x.GroupOf[i]]
	}
	for _, t := range a.on[i] {
		if a.serviceOf[t] == x.Service {
			count++
		}
	}
	return count
}

// addToSpreads counts one more task of the service on the instance, before it is in the list of the
// instance's tasks, and returns the change of the cost.
func (a *assignment) addToSpreads(s, i int32) (change int64) {
	for _, n := range a.spreads.ofService[s] {
		x := &a.problem.Spreads[n]
		change += x.Weight * (2*a.tasksInGroup(n, i) + 1)
		if x.GroupOf != nil {
			a.spreads.counts[n][x.GroupOf[i]]++
		}
	}
	return change
}

// removeFromSpreads counts one task of the service less on the instance, after it has left the list
// of the instance's tasks, and returns what that saves.
func (a *assignment) removeFromSpreads(s, i int32) (saved int64) {
	for _, n := range a.spreads.ofService[s] {
		x := &a.problem.Spreads[n]
		if x.GroupOf != nil {
			a.spreads.counts[n][x.GroupOf[i]]--
		}
		saved += x.Weight * (2*a.tasksInGroup(n, i) + 1)
	}
	return saved
}

// spreadChange returns the change of what spreads cost if a task of the service moves.
func (a *assignment) spreadChange(s, from, to int32) (change int64) {
	for _, n := range a.spreads.ofService[s] {
		x := &a.problem.Spreads[n]
		if x.GroupOf == nil || x.GroupOf[from] != x.GroupOf[to] {
			change += 2 * x.Weight * (a.tasksInGroup(n, to) - a.tasksInGroup(n, from) + 1)
		}
	}
	return change
}

// spreadCost returns what spreads cost more if a task of the service that is nowhere is put on the
// instance.
func (a *assignment) spreadCost(s, i int32) (cost int64) {
	for _, n := range a.spreads.ofService[s] {
		cost += a.problem.Spreads[n].Weight * (2*a.tasksInGroup(n, i) + 1)
	}
	return cost
}
