package rebalance

// allows reports whether the task may move, and be on the instance as far as that does not depend
// on other tasks.
func (a *assignment) allows(t, i int32) bool {
	return (a.fixed == nil || !a.fixed[t]) && (a.problem.Allows == nil || a.problem.Allows(t, i))
}

// tryShift returns the change of the cost if the task moves to the instance, and whether the rules
// allow that.
func (a *assignment) tryShift(t, to int32) (change int64, ok bool) {
	from, s := a.at[t], a.serviceOf[t]
	if !a.allows(t, to) || a.rules.isOccupied(s, to) || !a.hasRoom(to, a.heldNeedsOf(t, to), a.nothing) ||
		!a.rules.keepsZones(s, from, to) || !a.rules.keepsHoods(s, -1, from, to) ||
		!a.rules.keepsDomains(s, from, to) {
		return 0, false
	}
	needs := a.needsOf(t)
	change = a.loadCost(from, a.nothing, needs) - a.loadCosts[from] +
		a.loadCost(to, needs, a.nothing) - a.loadCosts[to] + a.moveCost(t, to) - a.moveCost(t, from) +
		a.spreadChange(s, from, to)
	if a.moved.weight != 0 {
		sign := a.moveSign(t, to)
		change += a.moved.change(s, sign)
		a.moved.change(s, -sign)
	}
	return change, true
}

// tryExchange returns the change of the cost if two tasks on different instances change places, and
// whether the rules allow that.
func (a *assignment) tryExchange(t, u int32) (change int64, ok bool) {
	i, j := a.at[t], a.at[u]
	s, o := a.serviceOf[t], a.serviceOf[u]
	give, take := a.needsOf(t), a.needsOf(u)
	if !a.allows(t, j) || !a.allows(u, i) || s != o && (a.rules.isOccupied(s, j) || a.rules.isOccupied(o, i)) ||
		!a.hasRoom(j, a.heldNeedsOf(t, j), a.heldNeedsOf(u, j)) ||
		!a.hasRoom(i, a.heldNeedsOf(u, i), a.heldNeedsOf(t, i)) {
		return 0, false
	}
	if s != o && (!a.rules.keepsZones(s, i, j) || !a.rules.keepsZones(o, j, i) || !a.rules.keepsHoods(s, o, i, j) ||
		!a.rules.keepsHoods(o, s, j, i) || !a.rules.keepsDomains(s, i, j) || !a.rules.keepsDomains(o, j, i)) {
		return 0, false
	}
	change = a.loadCost(i, take, give) - a.loadCosts[i] + a.loadCost(j, give, take) - a.loadCosts[j] +
		a.moveCost(t, j) - a.moveCost(t, i) + a.moveCost(u, i) - a.moveCost(u, j)
	if s != o {
		change += a.spreadChange(s, i, j) + a.spreadChange(o, j, i)
	}
	if a.moved.weight != 0 {
		first, second := a.moveSign(t, j), a.moveSign(u, i)
		change += a.moved.change(s, first) + a.moved.change(o, second)
		a.moved.change(o, -second)
		a.moved.change(s, -first)
	}
	return change, true
}
