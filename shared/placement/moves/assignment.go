package moves

import "cmp"

// moveTally is how many violations there are, and how far in all they are beyond what is allowed.
type moveTally struct {
	count  int
	excess int64
}

func (t *moveTally) add(count int, excess int64) {
	t.count += count
	t.excess += excess
}

func (t moveTally) compare(o moveTally) int {
	return cmp.Or(cmp.Compare(t.count, o.count), cmp.Compare(t.excess, o.excess))
}

// moveMeasure is how good a way to place the tasks is: what comes first weighs more than all that
// follows.
type moveMeasure struct {
	unplaced int
	rules    [3]moveTally // by priority
	buffer   moveTally    // instances beyond what they take without the buffer
	worse    [3]moveTally // the part of the rules that was not broken at the start
	cost     int
	moves    int
	awkward  int // moves of exchanges for which there is no room
}

// compareRules is what compares up to a priority, the unplaced first.
func (m *moveMeasure) compareRules(o *moveMeasure, upTo int) int {
	c := cmp.Compare(m.unplaced, o.unplaced)
	for level := 0; level <= upTo && c == 0; level++ {
		c = m.rules[level].compare(o.rules[level])
	}
	return c
}

// lowest is the level of the rules that are the first to be given up.
const lowest = 2

func (m *moveMeasure) compareEffort(o *moveMeasure) int {
	return cmp.Or(cmp.Compare(m.cost, o.cost), cmp.Compare(m.moves, o.moves))
}

func (m *moveMeasure) compare(o *moveMeasure) int {
	return cmp.Or(m.compareRules(o, lowest), m.buffer.compare(o.buffer), m.compareEffort(o),
		cmp.Compare(m.awkward, o.awkward))
}

// compareThrifty is the order where tasks are to be placed: as little as possible is given up for
// them, and nothing repaired on the way.
func (m *moveMeasure) compareThrifty(o *moveMeasure) int {
	c := cmp.Compare(m.unplaced, o.unplaced)
	for level := 0; level <= lowest && c == 0; level++ {
		c = m.worse[level].compare(o.worse[level])
	}
	return cmp.Or(c, m.compareEffort(o), cmp.Compare(m.awkward, o.awkward))
}

// What a search has decided on a task.
const (
	undecided uint8 = iota
	moved
	pinned
)

// moveState is where the tasks are while a search goes on.
type moveState struct {
	problem  *moveProblem
	at       []int32 // per task
	now      []int64 // load per cell
	arrived  [][]int32
	decision []uint8
	numbers  []int32 // of all tasks
	open     []int32 // per owner, its tasks that may still be decided on
	moving   []int32 // tasks, in the order of their moves
	causes   []moveDuty
	measure  moveMeasure
	faults   []int // excess per owner at the start
	upgrades []int
}

func newMoveState(p *moveProblem) *moveState {
	s := &moveState{
		problem: p, at: make([]int32, len(p.tasks)), now: append([]int64(nil), p.load...),
		arrived: make([][]int32, len(p.instances)), decision: make([]uint8, len(p.tasks)),
		numbers: make([]int32, len(p.tasks)), open: make([]int32, len(p.owners)), faults: make([]int, len(p.owners)),
		upgrades: make([]int, len(p.owners)),
	}
	for t := range p.tasks {
		s.at[t], s.numbers[t] = p.tasks[t].at, int32(t)
		if p.tasks[t].movable {
			s.open[p.tasks[t].owner]++
		}
		switch {
		case p.tasks[t].at < 0:
			s.measure.unplaced++
		case p.tasks[t].misfit:
			s.measure.rules[p.levels.placement].add(1, 0)
		}
	}
	for i := range p.instances {
		s.start(int32(i))
	}
	for o := range p.owners {
		if d := p.owners[o].domains; d != nil {
			s.faults[o], s.upgrades[o] = d.Excess()
			s.spread(int32(o), 1)
		}
	}
	return s
}

// start counts what is broken on one instance.
func (s *moveState) start(i int32) {
	if !s.problem.instances[i].gives {
		return
	}
	for dim := range int32(s.problem.dims()) {
		s.count(s.problem.cell(i, dim), dim, 1)
	}
	for _, o := range overcrowdedOwners(s, i) {
		s.measure.rules[hardest].add(s.surplus(o, i), 0)
	}
}

// overcrowdedOwners are the owners of which the instance has more tasks than may share it, at the
// start.
func overcrowdedOwners(s *moveState, i int32) []int32 {
	var out []int32
	seen := map[int32]int{}
	for _, t := range s.problem.instances[i].tasks {
		o := s.problem.tasks[t].owner
		if most := s.problem.owners[o].most; most > 0 {
			if seen[o]++; seen[o] == most+1 {
				out = append(out, o)
			}
		}
	}
	return out
}

// level is the priority of a dimension's capacity.
func (s *moveState) level(dim int32) int {
	if dim < fixedDims {
		return hardest
	}
	return max(0, s.problem.levels.capacity)
}

// beyond is how far a cell is above what it takes in all, and without the buffer.
func (s *moveState) beyond(c int) (total, unbuffered int64) {
	load := s.now[c] - s.problem.leaving[c]
	return excess(load, s.problem.total[c]), excess(load, s.problem.unbuffered[c])
}

// excess is how much of a load is above a limit. The load may be below zero where nothing is
// counted, and the limit the largest number.
func excess(load, limit int64) int64 {
	if load <= limit {
		return 0
	}
	return load - limit
}

func (s *moveState) count(c int, dim int32, sign int) {
	total, unbuffered := s.beyond(c)
	if total > 0 {
		s.measure.rules[s.level(dim)].add(sign, int64(sign)*total)
		if more := total - excess(s.problem.load[c]-s.problem.leaving[c], s.problem.total[c]); more > 0 {
			s.measure.worse[s.level(dim)].add(sign, int64(sign)*more)
		}
	}
	if unbuffered > 0 {
		s.measure.buffer.add(sign, int64(sign)*unbuffered)
	}
}

// on is how many tasks of the owner the instance has.
func (s *moveState) on(o, i int32) (n int) {
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

// surplus is how many of them are too many.
func (s *moveState) surplus(o, i int32) int {
	if s.problem.owners[o].most == 0 {
		return 0
	}
	return max(0, s.on(o, i)-s.problem.owners[o].most)
}

// spread counts how far the owner's tasks are from what the domain rules allow.
func (s *moveState) spread(o int32, sign int) {
	d := s.problem.owners[o].domains
	if d == nil {
		return
	}
	fault, upgrade := d.Excess()
	faults, upgrades := max(0, s.problem.levels.fault), max(0, s.problem.levels.upgrade)
	s.measure.rules[faults].add(sign*fault, 0)
	s.measure.worse[faults].add(sign*max(0, fault-s.faults[o]), 0)
	s.measure.rules[upgrades].add(sign*upgrade, 0)
	s.measure.worse[upgrades].add(sign*max(0, upgrade-s.upgrades[o]), 0)
}

// move puts the task on another instance.
func (s *moveState) move(t, to int32, cause moveDuty) {
	from := s.at[t]
	task := &s.problem.tasks[t]
	s.spread(task.owner, -1)
	if from >= 0 {
		s.remove(t, from)
		s.measure.cost += task.cost
		s.measure.moves++
	} else {
		s.measure.unplaced--
	}
	s.insert(t, to)
	s.spread(task.owner, 1)
	s.decide(t, moved)
	s.moving = append(s.moving, t)
	s.causes = append(s.causes, cause)
}

func (s *moveState) decide(t int32, d uint8) {
	if d == undecided {
		s.open[s.problem.tasks[t].owner]++
	} else {
		s.open[s.problem.tasks[t].owner]--
	}
	s.decision[t] = d
}

func (s *moveState) remove(t, from int32) {
	task := &s.problem.tasks[t]
	o := &s.problem.owners[task.owner]
	for _, a := range task.amounts {
		s.shift(from, a.dim, -a.n)
	}
	if task.misfit {
		s.measure.rules[s.problem.levels.placement].add(-1, 0)
	}
	was := s.surplus(task.owner, from)
	s.at[t] = -1
	s.measure.rules[hardest].add(s.surplus(task.owner, from)-was, 0)
	if o.domains != nil {
		o.domains.Add(int(from), -1)
	}
}

func (s *moveState) insert(t, to int32) {
	task := &s.problem.tasks[t]
	o := &s.problem.owners[task.owner]
	for _, a := range task.amounts {
		s.shift(to, a.dim, a.n)
	}
	if !s.problem.takes(task.owner, to) {
		s.measure.rules[max(0, s.problem.levels.placement)].add(1, 0)
		s.measure.worse[max(0, s.problem.levels.placement)].add(1, 0)
	}
	was := s.surplus(task.owner, to)
	s.at[t] = to
	s.arrived[to] = append(s.arrived[to], t)
	s.measure.rules[hardest].add(s.surplus(task.owner, to)-was, 0)
	if o.domains != nil {
		o.domains.Add(int(to), 1)
	}
}

func (s *moveState) shift(i, dim int32, n int64) {
	c := s.problem.cell(i, dim)
	s.count(c, dim, -1)
	s.now[c] += n
	s.count(c, dim, 1)
}

// back undoes the last move; measure is what it was before.
func (s *moveState) back(measure moveMeasure) {
	last := len(s.moving) - 1
	t := s.moving[last]
	s.moving, s.causes = s.moving[:last], s.causes[:last]
	task := &s.problem.tasks[t]
	to := s.at[t]
	s.arrived[to] = s.arrived[to][:len(s.arrived[to])-1]
	s.at[t], s.measure = -1, measure
	s.decide(t, undecided)
	for _, a := range task.amounts {
		s.now[s.problem.cell(to, a.dim)] -= a.n
	}
	if d := s.problem.owners[task.owner].domains; d != nil {
		d.Add(int(to), -1)
	}
	s.reinstate(t)
}

// reinstate puts a task that is nowhere back where it was at the start. The measure is not kept.
func (s *moveState) reinstate(t int32) {
	task := &s.problem.tasks[t]
	if task.at < 0 {
		return
	}
	s.at[t] = task.at
	for _, a := range task.amounts {
		s.now[s.problem.cell(task.at, a.dim)] += a.n
	}
	if d := s.problem.owners[task.owner].domains; d != nil {
		d.Add(int(task.at), 1)
	}
}
