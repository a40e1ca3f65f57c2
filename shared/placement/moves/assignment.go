package moves

import (
	"cmp"
	"slices"
)

// A violationSum is a number of violations, and how far in all they are beyond what is allowed.
type violationSum struct {
	count  int
	excess int64
}

func (t *violationSum) addViolations(count int, excess int64) {
	t.count += count
	t.excess += excess
}

func (t violationSum) compare(o violationSum) int {
	return cmp.Or(cmp.Compare(t.count, o.count), cmp.Compare(t.excess, o.excess))
}

// A score says how good a way to place the tasks is. Earlier fields weigh more than all later ones
// together: one violation less of priority 0 is worth any number of moves, and any number of new
// violations of priority 1. Whether a search may accept those is decided by its stage.
type score struct {
	unplaced  int
	rules     [3]violationSum // violations by priority
	buffer    violationSum    // instances beyond what they take without the buffer
	worsened  [3]violationSum // the part of rules that was not broken at the start
	cost      int
	moves     int
	exchanges int // moves of exchanges among full instances
}

// compareRules compares unplaced tasks, then violations up to a priority.
func (m *score) compareRules(o *score, upTo int) int {
	c := cmp.Compare(m.unplaced, o.unplaced)
	for level := 0; level <= upTo && c == 0; level++ {
		c = m.rules[level].compare(o.rules[level])
	}
	return c
}

// lowestLevel is the priority of the rules that are given up first.
const lowestLevel = 2

// compareEffort compares the costs, then the numbers of moves: four moves of cost 1 are better than
// one of cost 15.
func (m *score) compareEffort(o *score) int {
	return cmp.Or(cmp.Compare(m.cost, o.cost), cmp.Compare(m.moves, o.moves))
}

// compare is the order of solutions that repair rules.
func (m *score) compare(o *score) int {
	return cmp.Or(m.compareRules(o, lowestLevel), m.buffer.compare(o.buffer), m.compareEffort(o),
		cmp.Compare(m.exchanges, o.exchanges))
}

// compareForRoom is the order if newcomers are to be placed: they may worsen as little as possible,
// and nothing else is repaired on the way.
func (m *score) compareForRoom(o *score) int {
	c := cmp.Compare(m.unplaced, o.unplaced)
	for level := 0; level <= lowestLevel && c == 0; level++ {
		c = m.worsened[level].compare(o.worsened[level])
	}
	return cmp.Or(c, m.compareEffort(o), cmp.Compare(m.exchanges, o.exchanges))
}

// The decisions of a search on a task.
const (
	undecided uint8 = iota
	moved
	pinned
)

// An assignment says where the tasks are during a search, with everything that is counted
// from that. Moves are applied and undone in the manner of a stack, so that a node of the search
// costs the cells and domains that it touches, not the size of the problem.
type assignment struct {
	problem        *problem
	at             []int32          // instance per task, -1 for none
	load           []int64          // per cell
	reserved       []int64          // per cell; nil without applications
	uses           []applicationUse // per application
	arrived        [][]int32        // moved tasks per instance
	decision       []uint8          // per task: undecided, moved or pinned
	taskNumbers    []int32          // 0, 1, 2, ... for singleTask
	undecidedCount []int32          // movable tasks per owner that are undecided
	movedTasks     []int32          // in the order of their moves
	causes         []openViolation  // of these moves
	score          score
	// initialFaults and initialUpgrades are how far each owner was beyond its domain rules at the
	// start.
	initialFaults   []int
	initialUpgrades []int
}

// newAssignment returns the assignment with every task on its first instance, and its score.
func newAssignment(p *problem) *assignment {
	s := &assignment{
		problem: p, at: make([]int32, len(p.tasks)), load: append([]int64(nil), p.load...),
		arrived: make([][]int32, len(p.instances)), decision: make([]uint8, len(p.tasks)),
		taskNumbers: make([]int32, len(p.tasks)), undecidedCount: make([]int32, len(p.owners)),
		initialFaults:   make([]int, len(p.owners)),
		initialUpgrades: make([]int, len(p.owners)),
	}
	s.reserved = slices.Clone(p.reserved)
	for a := range p.applications {
		s.uses = append(s.uses, p.applications[a].initial.clone())
		countScattered(s, int32(a), 1)
	}
	for t := range p.tasks {
		s.at[t], s.taskNumbers[t] = p.tasks[t].initial, int32(t)
		if p.tasks[t].movable {
			s.undecidedCount[p.tasks[t].owner]++
		}
		switch {
		case p.tasks[t].initial < 0:
			s.score.unplaced++
		case p.tasks[t].mismatched:
			s.score.rules[p.levels.placement].addViolations(1, 0)
		}
		if p.tasks[t].apart {
			s.score.rules[p.levels.affinity].addViolations(1, 0)
		}
	}
	for i := range p.instances {
		s.countInstance(int32(i))
	}
	for o := range p.owners {
		if d := p.owners[o].domains; d != nil {
			s.initialFaults[o], s.initialUpgrades[o] = d.Excess()
			s.countDomains(int32(o), 1)
		}
	}
	return s
}

// countInstance counts the violations on one instance at the start.
func (s *assignment) countInstance(i int32) {
	if !s.problem.instances[i].givesTasks {
		return
	}
	for dim := range int32(s.problem.dimensionCount()) {
		s.countCell(s.problem.cellIndex(i, dim), dim, 1)
	}
	for _, o := range overcrowdedOwners(s, i) {
		s.score.rules[alwaysBinding].addViolations(s.surplusOn(o, i), 0)
	}
}

// overcrowdedOwners returns the owners with more tasks on the instance than may share it, at the
// start.
func overcrowdedOwners(s *assignment, i int32) []int32 {
	var out []int32
	seen := map[int32]int{}
	for _, t := range s.problem.instances[i].tasks {
		o := s.problem.tasks[t].owner
		if most := s.problem.owners[o].maxPerInstance; most > 0 {
			if seen[o]++; seen[o] == most+1 {
				out = append(out, o)
			}
		}
	}
	return out
}

// capacityLevel returns the priority of a dimension's capacity. CPU, memory, interfaces and what an
// application may use always bind.
func (s *assignment) capacityLevel(dim int32) int {
	if dim < fixedDims || dim >= s.problem.firstApplicationDim {
		return alwaysBinding
	}
	return max(0, s.problem.levels.capacity)
}

// cellExcessOf returns how far a cell is above its total limit and above the one without the
// buffer. Load that is about to end is no one's violation.
func (s *assignment) cellExcessOf(c int) (total, unbuffered int64) {
	load := usedOf(s, c) - s.problem.endingLoad[c]
	return excessOver(load, s.problem.total[c]), excessOver(load, s.problem.unbuffered[c])
}

// excessOver returns load less limit, at least 0. It does not overflow: a load may be negative, a
// limit the largest number.
func excessOver(load, limit int64) int64 {
	if load <= limit {
		return 0
	}
	return load - limit
}

// countCell adds (sign 1) or removes (-1) a cell's violations.
func (s *assignment) countCell(c int, dim int32, sign int) {
	total, unbuffered := s.cellExcessOf(c)
	if total > 0 {
		s.score.rules[s.capacityLevel(dim)].addViolations(sign, int64(sign)*total)
		if more := total - excessOver(s.problem.usedOf(c)-s.problem.endingLoad[c], s.problem.total[c]); more > 0 {
			s.score.worsened[s.capacityLevel(dim)].addViolations(sign, int64(sign)*more)
		}
	}
	if unbuffered > 0 {
		s.score.buffer.addViolations(sign, int64(sign)*unbuffered)
	}
}

// ownerTasksOn returns how many tasks of the owner are on the instance.
func (s *assignment) ownerTasksOn(o, i int32) (n int) {
	for _, t := range s.problem.instances[i].tasks {
		if s.problem.tasks[t].owner == o && s.at[t] == i {
			n++
		}
	}
	for _, t := range s.arrived[i] {
		if s.problem.tasks[t].owner == o {
			n++
		}
	}
	return n
}

// surplusOn returns how many of them are too many.
func (s *assignment) surplusOn(o, i int32) int {
	if s.problem.owners[o].maxPerInstance == 0 {
		return 0
	}
	return max(0, s.ownerTasksOn(o, i)-s.problem.owners[o].maxPerInstance)
}

// countDomains adds (sign 1) or removes (-1) the owner's violations of domain rules.
func (s *assignment) countDomains(o int32, sign int) {
	d := s.problem.owners[o].domains
	if d == nil {
		return
	}
	fault, upgrade := d.Excess()
	levels := domainPriorities(s)
	s.score.rules[levels[0]].addViolations(sign*fault, 0)
	s.score.worsened[levels[0]].addViolations(sign*max(0, fault-s.initialFaults[o]), 0)
	s.score.rules[levels[1]].addViolations(sign*upgrade, 0)
	s.score.worsened[levels[1]].addViolations(sign*max(0, upgrade-s.initialUpgrades[o]), 0)
}

// domainPriorities returns the priorities of the rules of fault and upgrade domains. Rules that are
// switched off have no excess, so that their level does not matter.
func domainPriorities(s *assignment) [2]int {
	return [2]int{max(0, s.problem.levels.fault), max(0, s.problem.levels.upgrade)}
}

// domainExcess returns how far the violation's owner is beyond its rule of fault or upgrade
// domains.
func (s *assignment) domainExcess(v openViolation) int {
	fault, upgrade := s.problem.owners[v.owner].domains.Excess()
	if v.kind == faultDomains {
		return fault
	}
	return upgrade
}

// movesSince returns the moves made after the first ones.
func (s *assignment) movesSince(first int) (out []plannedMove) {
	for n, t := range s.movedTasks[first:] {
		out = append(out, plannedMove{t, s.at[t], s.causes[first+n]})
	}
	return out
}

// moveTask puts the task on another instance.
func (s *assignment) moveTask(t, to int32, cause openViolation) {
	from := s.at[t]
	task := &s.problem.tasks[t]
	s.countDomains(task.owner, -1)
	if from >= 0 {
		s.removeTask(t, from)
		s.score.cost += task.cost
		s.score.moves++
	} else {
		s.score.unplaced--
	}
	s.insertTask(t, to)
	s.countDomains(task.owner, 1)
	s.setDecision(t, moved)
	s.movedTasks = append(s.movedTasks, t)
	s.causes = append(s.causes, cause)
}

// setDecision also keeps the owner's number of undecided tasks, which tells a bound whether a
// domain rule can still be repaired.
func (s *assignment) setDecision(t int32, d uint8) {
	if d == undecided {
		s.undecidedCount[s.problem.tasks[t].owner]++
	} else {
		s.undecidedCount[s.problem.tasks[t].owner]--
	}
	s.decision[t] = d
}

// removeTask takes the task off its instance. Until insertTask it is nowhere, which the sequencer
// uses for tasks that are stopped first.
func (s *assignment) removeTask(t, from int32) {
	task := &s.problem.tasks[t]
	o := &s.problem.owners[task.owner]
	for _, a := range task.amounts {
		s.addCellLoad(from, a.dim, -a.amount)
	}
	countInApplication(s, t, from, -1)
	if task.mismatched {
		s.score.rules[s.problem.levels.placement].addViolations(-1, 0)
	}
	if s.problem.hasAffinity {
		countApart(s, t, -1)
	}
	was := s.surplusOn(task.owner, from)
	s.at[t] = -1
	s.score.rules[alwaysBinding].addViolations(s.surplusOn(task.owner, from)-was, 0)
	if o.domains != nil {
		o.domains.AddTasks(int(from), -1)
	}
	if s.problem.hasAffinity {
		countChildren(s, task.owner, from, 1)
	}
}

// insertTask puts a task that is nowhere on an instance.
func (s *assignment) insertTask(t, to int32) {
	task := &s.problem.tasks[t]
	o := &s.problem.owners[task.owner]
	for _, a := range task.amounts {
		s.addCellLoad(to, a.dim, a.amount)
	}
	countInApplication(s, t, to, 1)
	if !s.problem.canHostTaskOf(task.owner, to) { // only stages that give up placement try such moves
		s.score.rules[max(0, s.problem.levels.placement)].addViolations(1, 0)
		s.score.worsened[max(0, s.problem.levels.placement)].addViolations(1, 0)
	}
	if s.problem.hasAffinity {
		countChildren(s, task.owner, to, -1)
	}
	was := s.surplusOn(task.owner, to)
	s.at[t] = to
	s.arrived[to] = append(s.arrived[to], t)
	s.score.rules[alwaysBinding].addViolations(s.surplusOn(task.owner, to)-was, 0)
	if o.domains != nil {
		o.domains.AddTasks(int(to), 1)
	}
	if s.problem.hasAffinity {
		countApart(s, t, 1)
	}
}

// addCellLoad changes a cell's load and what it counts in the score.
func (s *assignment) addCellLoad(i, dim int32, n int64) {
	c := s.problem.cellIndex(i, dim)
	s.countCell(c, dim, -1)
	s.load[c] += n
	s.countCell(c, dim, 1)
}

// undoLastMove undoes the last move. before is the score without it: restoring it is cheaper than
// counting back.
func (s *assignment) undoLastMove(before score) {
	last := len(s.movedTasks) - 1
	t := s.movedTasks[last]
	s.movedTasks, s.causes = s.movedTasks[:last], s.causes[:last]
	task := &s.problem.tasks[t]
	to := s.at[t]
	s.arrived[to] = s.arrived[to][:len(s.arrived[to])-1]
	s.at[t], s.score = -1, before
	s.setDecision(t, undecided)
	for _, a := range task.amounts {
		s.load[s.problem.cellIndex(to, a.dim)] -= a.amount
	}
	shiftInApplication(s, t, to, -1)
	if d := s.problem.owners[task.owner].domains; d != nil {
		d.AddTasks(int(to), -1)
	}
	s.restoreTask(t)
}

// restoreTask puts a task that is nowhere back on its first instance. It does not maintain the
// score.
func (s *assignment) restoreTask(t int32) {
	task := &s.problem.tasks[t]
	if task.initial < 0 {
		return
	}
	s.at[t] = task.initial
	for _, a := range task.amounts {
		s.load[s.problem.cellIndex(task.initial, a.dim)] += a.amount
	}
	shiftInApplication(s, t, task.initial, 1)
	if d := s.problem.owners[task.owner].domains; d != nil {
		d.AddTasks(int(task.initial), 1)
	}
}
