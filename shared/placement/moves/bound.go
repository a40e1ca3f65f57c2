package moves

import (
	"cmp"
	"math"
	"slices"
)

// bound is better than, or as good as, everything that can still come of the state: what can no
// longer be repaired stays broken, and what must be repaired to be as good as the best costs the
// cheapest tasks that could do it.
func (s *moveSearch) bound() moveMeasure {
	out := s.rest
	out.worse = [3]moveTally{}
	out.cost, out.moves = s.measure.cost, s.measure.moves
	for _, d := range s.focus {
		addCertain(s, d, &out)
	}
	for _, d := range s.focus {
		if need := requiredRelief(s, d, out); need > 0 {
			cost, moves := coverCost(s, d, need, costAllowance(s, &out))
			out.cost += cost
			out.moves += moves
			break
		}
	}
	return out
}

// costAllowance is what a solution may cost from here on to be as good as the best.
func costAllowance(s *moveSearch, out *moveMeasure) int {
	if out.compareRules(&s.best, lowest) < 0 || out.buffer.compare(s.best.buffer) < 0 {
		return math.MaxInt // it may be better, whatever it costs
	}
	return s.best.cost - out.cost
}

// measureApart is what is broken besides the duties of the search; where they are all there are,
// nothing.
func measureApart(s *moveSearch) moveMeasure {
	out := s.measure
	var mine moveMeasure
	for _, d := range s.focus {
		addActual(s, d, &mine)
	}
	out.unplaced -= mine.unplaced
	for level := range out.rules {
		out.rules[level].add(-mine.rules[level].count, -mine.rules[level].excess)
	}
	out.buffer.add(-mine.buffer.count, -mine.buffer.excess)
	return out
}

// addActual adds what the duty counts for now.
func addActual(s *moveSearch, d moveDuty, out *moveMeasure) {
	switch d.kind {
	case dutyUnplaced:
		if s.at[d.task] < 0 {
			out.unplaced++
		}
	case dutyMisfit:
		if isBroken(s.moveState, d) {
			out.rules[s.problem.levels.placement].add(1, 0)
		}
	case dutyCrowd:
		out.rules[hardest].add(s.surplus(d.owner, d.instance), 0)
	case dutyCell:
		addCellExcess(s, out, d, 0)
	case dutyFault, dutyUpgrade:
		addDomainExcess(s, out, d)
	}
}

// addCertain adds what the duty will leave broken whatever happens to the tasks that are not
// decided on.
func addCertain(s *moveSearch, d moveDuty, out *moveMeasure) {
	switch d.kind {
	case dutyUnplaced, dutyMisfit:
		if !s.free(d.task) {
			addActual(s, d, out)
		}
	case dutyCrowd:
		n := s.surplus(d.owner, d.instance)
		for _, t := range s.problem.instances[d.instance].tasks {
			if s.problem.tasks[t].owner == d.owner && s.free(t) {
				n--
			}
		}
		out.rules[hardest].add(max(0, n), 0)
	case dutyCell:
		addCellExcess(s, out, d, removableLoad(s, d))
	case dutyFault, dutyUpgrade:
		if s.open[d.owner] == 0 {
			addDomainExcess(s, out, d)
		}
	}
}

// removableLoad is how much of a cell's load is of tasks that are not decided on.
func removableLoad(s *moveSearch, d moveDuty) (n int64) {
	for _, t := range s.problem.instances[d.instance].tasks {
		if s.free(t) {
			n += s.problem.tasks[t].amount(d.dim)
		}
	}
	return n
}

func addDomainExcess(s *moveSearch, out *moveMeasure, d moveDuty) {
	fault, upgrade := s.problem.owners[d.owner].domains.Excess()
	if d.kind == dutyFault {
		out.rules[max(0, s.problem.levels.fault)].add(fault, 0)
	} else {
		out.rules[max(0, s.problem.levels.upgrade)].add(upgrade, 0)
	}
}

// addCellExcess adds what a cell is beyond its limits with so much less load.
func addCellExcess(s *moveSearch, out *moveMeasure, d moveDuty, less int64) {
	total, unbuffered := s.beyond(s.problem.cell(d.instance, d.dim))
	if total -= less; total > 0 {
		out.rules[s.level(d.dim)].add(1, total)
	}
	if unbuffered -= less; unbuffered > 0 {
		out.buffer.add(1, unbuffered)
	}
}

// requiredRelief is how much load has to leave a cell, so that the solution can be as good as the
// best; out is the bound so far.
func requiredRelief(s *moveSearch, d moveDuty, out moveMeasure) int64 {
	if d.kind != dutyCell || !isBroken(s.moveState, d) {
		return 0
	}
	total, unbuffered := s.beyond(s.problem.cell(d.instance, d.dim))
	removable := removableLoad(s, d)
	with := out
	with.rules[s.level(d.dim)].add(1, 1)
	if total > 0 && total <= removable && with.compareRules(&s.best, lowest) > 0 {
		return total
	}
	with = out
	with.buffer.add(1, 1)
	if unbuffered <= removable && out.compareRules(&s.best, lowest) >= 0 && with.buffer.compare(s.best.buffer) > 0 {
		return unbuffered
	}
	return 0
}

// coverCost is the least cost and the fewest moves that could take so much load off a cell, by
// tasks that cost no more than is allowed.
func coverCost(s *moveSearch, d moveDuty, need int64, allowed int) (cost, moves int) {
	type item struct {
		relief int64
		cost   int
	}
	var items []item
	for _, t := range s.problem.instances[d.instance].tasks {
		if n := s.problem.tasks[t].amount(d.dim); n > 0 && s.free(t) && s.problem.tasks[t].cost <= allowed {
			items = append(items, item{min(n, need), s.problem.tasks[t].cost})
		}
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(b.relief, a.relief) })
	for rest := need; rest > 0 && moves < len(items); moves++ {
		rest -= items[moves].relief
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(int64(a.cost)*b.relief, int64(b.cost)*a.relief) })
	price, rest := 0.0, need
	for _, i := range items {
		part := min(i.relief, rest)
		price += float64(i.cost) * float64(part) / float64(i.relief)
		rest -= part
	}
	if rest > 0 {
		return allowed + 1, moves
	}
	return int(math.Ceil(price - 1e-6)), moves
}
