package moves

import "cmp"

// violationSum is how many violations there are, and how far in all they are beyond what is allowed.
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

// score is how good a way to place the tasks is: what comes first weighs more than all that
// follows.
type score struct {
	unplaced  int
	rules     [3]violationSum // by priority
	buffer    violationSum    // instances beyond what they take without the buffer
	worsened  [3]violationSum // the part of the rules that was not broken at the start
	cost      int
	moves     int
	exchanges int // moves of exchanges for which there is no room
}

// compareRules is what compares up to a priority, the unplaced first.
func (m *score) compareRules(o *score, upTo int) int {
	c := cmp.Compare(m.unplaced, o.unplaced)
	for level := 0; level <= upTo && c == 0; level++ {
		c = m.rules[level].compare(o.rules[level])
	}
	return c
}

// lowestLevel is the level of the rules that are the first to be given up.
const lowestLevel = 2

func (m *score) compareEffort(o *score) int {
	return cmp.Or(cmp.Compare(m.cost, o.cost), cmp.Compare(m.moves, o.moves))
}

func (m *score) compare(o *score) int {
	return cmp.Or(m.compareRules(o, lowestLevel), m.buffer.compare(o.buffer), m.compareEffort(o),
		cmp.Compare(m.exchanges, o.exchanges))
}

// compareForRoom is the order where tasks are to be placed: as little as possible is given up for
// them, and nothing repaired on the way.
func (m *score) compareForRoom(o *score) int {
	c := cmp.Compare(m.unplaced, o.unplaced)
	for level := 0; level <= lowestLevel && c == 0; level++ {
		c = m.worsened[level].compare(o.worsened[level])
	}
	return cmp.Or(c, m.compareEffort(o), cmp.Compare(m.exchanges, o.exchanges))
}

// What a search has decided on a task.
const (
	undecided uint8 = iota
	moved
	pinned
)

// assignment is where the tasks are while a search goes on.
type assignment struct {
	problem         *problem
	at              []int32 // per task
	load            []int64 // load per cell
	arrived         [][]int32
	decision        []uint8
	taskNumbers     []int32 // of all tasks
	undecidedCount  []int32 // per owner, its tasks that may still be decided on
	movedTasks      []int32 // tasks, in the order of their moves
	causes          []openViolation
	score           score
	initialFaults   []int // excess per owner at the start
	initialUpgrades []int
}

func newAssignment(p *problem) *assignment {
	s := &assignment{
		problem: p, at: make([]int32, len(p.tasks)), load: append([]int64(nil), p.load...),
		arrived: make([][]int32, len(p.instances)), decision: make([]uint8, len(p.tasks)),
		taskNumbers: make([]int32, len(p.tasks)), undecidedCount: make([]int32, len(p.owners)),
		initialFaults:   make([]int, len(p.owners)),
		initialUpgrades: make([]int, len(p.owners)),
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

// countInstance counts what is broken on one instance.
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

// overcrowdedOwners are the owners of which the instance has more tasks than may share it, at the
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

// capacityLevel is the priority of a dimension's capacity.
func (s *assignment) capacityLevel(dim int32) int {
	if dim < fixedDims {
		return alwaysBinding
	}
	return max(0, s.problem.levels.capacity)
}

// excessOf is how far a cell is above what it takes in all, and without the buffer.
func (s *assignment) excessOf(c int) (total, unbuffered int64) {
	load := s.load[c] - s.problem.endingLoad[c]
	return excessOver(load, s.problem.total[c]), excessOver(load, s.problem.unbuffered[c])
}

// excessOver is how much of a load is above a limit. The load may be below zero where nothing is
// counted, and the limit the largest number.
func excessOver(load, limit int64) int64 {
	if load <= limit {
		return 0
	}
	return load - limit
}

func (s *assignment) countCell(c int, dim int32, sign int) {
	total, unbuffered := s.excessOf(c)
	if total > 0 {
		s.score.rules[s.capacityLevel(dim)].addViolations(sign, int64(sign)*total)
		if more := total - excessOver(s.problem.load[c]-s.problem.endingLoad[c], s.problem.total[c]); more > 0 {
			s.score.worsened[s.capacityLevel(dim)].addViolations(sign, int64(sign)*more)
		}
	}
	if unbuffered > 0 {
		s.score.buffer.addViolations(sign, int64(sign)*unbuffered)
	}
}

// tasksOn is how many tasks of the owner the instance has.
func (s *assignment) tasksOn(o, i int32) (n int) {
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

// surplusOn is how many of them are too many.
func (s *assignment) surplusOn(o, i int32) int {
	if s.problem.owners[o].maxPerInstance == 0 {
		return 0
	}
	return max(0, s.tasksOn(o, i)-s.problem.owners[o].maxPerInstance)
}

// countDomains counts how far the owner's tasks are from what the domain rules allow.
func (s *assignment) countDomains(o int32, sign int) {
	d := s.problem.owners[o].domains
	if d == nil {
		return
	}
	fault, upgrade := d.Excess()
	faults, upgrades := max(0, s.problem.levels.fault), max(0, s.problem.levels.upgrade)
	s.score.rules[faults].addViolations(sign*fault, 0)
	s.score.worsened[faults].addViolations(sign*max(0, fault-s.initialFaults[o]), 0)
	s.score.rules[upgrades].addViolations(sign*upgrade, 0)
	s.score.worsened[upgrades].addViolations(sign*max(0, upgrade-s.initialUpgrades[o]), 0)
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

func (s *assignment) setDecision(t int32, d uint8) {
	if d == undecided {
		s.undecidedCount[s.problem.tasks[t].owner]++
	} else {
		s.undecidedCount[s.problem.tasks[t].owner]--
	}
	s.decision[t] = d
}

func (s *assignment) removeTask(t, from int32) {
	task := &s.problem.tasks[t]
	o := &s.problem.owners[task.owner]
	for _, a := range task.amounts {
		s.addLoad(from, a.dim, -a.amount)
	}
	if task.mismatched {
		s.score.rules[s.problem.levels.placement].addViolations(-1, 0)
	}
	was := s.surplusOn(task.owner, from)
	s.at[t] = -1
	s.score.rules[alwaysBinding].addViolations(s.surplusOn(task.owner, from)-was, 0)
	if o.domains != nil {
		o.domains.AddTasks(int(from), -1)
	}
}

func (s *assignment) insertTask(t, to int32) {
	task := &s.problem.tasks[t]
	o := &s.problem.owners[task.owner]
	for _, a := range task.amounts {
		s.addLoad(to, a.dim, a.amount)
	}
	if !s.problem.canHost(task.owner, to) {
		s.score.rules[max(0, s.problem.levels.placement)].addViolations(1, 0)
		s.score.worsened[max(0, s.problem.levels.placement)].addViolations(1, 0)
	}
	was := s.surplusOn(task.owner, to)
	s.at[t] = to
	s.arrived[to] = append(s.arrived[to], t)
	s.score.rules[alwaysBinding].addViolations(s.surplusOn(task.owner, to)-was, 0)
	if o.domains != nil {
		o.domains.AddTasks(int(to), 1)
	}
}

func (s *assignment) addLoad(i, dim int32, n int64) {
	c := s.problem.cellIndex(i, dim)
	s.countCell(c, dim, -1)
	s.load[c] += n
	s.countCell(c, dim, 1)
}

// undoLast undoes the last move; measure is what it was before.
func (s *assignment) undoLast(measure score) {
	last := len(s.movedTasks) - 1
	t := s.movedTasks[last]
	s.movedTasks, s.causes = s.movedTasks[:last], s.causes[:last]
	task := &s.problem.tasks[t]
	to := s.at[t]
	s.arrived[to] = s.arrived[to][:len(s.arrived[to])-1]
	s.at[t], s.score = -1, measure
	s.setDecision(t, undecided)
	for _, a := range task.amounts {
		s.load[s.problem.cellIndex(to, a.dim)] -= a.amount
	}
	if d := s.problem.owners[task.owner].domains; d != nil {
		d.AddTasks(int(to), -1)
	}
	s.restoreTask(t)
}

// restoreTask puts a task that is nowhere back where it was at the start. The measure is not kept.
func (s *assignment) restoreTask(t int32) {
	task := &s.problem.tasks[t]
	if task.initial < 0 {
		return
	}
	s.at[t] = task.initial
	for _, a := range task.amounts {
		s.load[s.problem.cellIndex(task.initial, a.dim)] += a.amount
	}
	if d := s.problem.owners[task.owner].domains; d != nil {
		d.AddTasks(int(task.initial), 1)
	}
}
