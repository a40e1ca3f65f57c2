package moves

import (
	"math"
	"slices"
)

// moveSearch looks for the best way to settle its duties. At each node it takes one thing that is
// broken and one task that could help by leaving, and tries all ways to send that task elsewhere,
// then to keep it. A move that breaks something adds a duty. So the moves of a solution all follow
// from what is broken, and nothing else is looked at.
type moveSearch struct {
	*moveState
	stage   moveStage
	focus   []moveDuty
	near    *moveNear // nil: every instance is a destination
	thrifty bool      // tasks are to be placed, not rules repaired
	rest    moveMeasure
	budget  int
	steps   int // left
	ejected int // moves on the path that make room for others
	begun   int // moves before the search

	best  moveMeasure
	found []moveStep // the best solution
	cut   bool       // the steps ran out, or not everything was looked at
}

// moveStep is one move of a solution.
type moveStep struct {
	task, to int32
	cause    moveDuty
}

// run searches, and leaves the state as it was. What was moved before stays moved. Run again it
// looks for what is better still.
func (s *moveSearch) run() {
	s.rest, s.begun = measureApart(s), len(s.moving)
	if s.found == nil {
		s.best = s.measure
	}
	s.descend()
}

// gains reports whether what was found is worth what the stage gives up, where a is what there was
// without.
func (s *moveSearch) gains(a *moveMeasure) bool {
	if s.thrifty {
		return s.best.unplaced < a.unplaced
	}
	return s.stage.gains(a, &s.best)
}

// compare is the order of solutions.
func (s *moveSearch) compare(a, b *moveMeasure) int {
	if s.thrifty {
		return a.compareThrifty(b)
	}
	return a.compare(b)
}

func (s *moveSearch) descend() {
	if s.steps--; s.steps < 0 {
		s.cut = true
		return
	}
	duty, must, found := findTrouble(s.moveState, s.stage)
	if found && must && bestRemedy(s.moveState, duty) < 0 {
		return
	}
	if bound := s.bound(); s.compare(&bound, &s.best) >= 0 {
		return
	}
	if !found {
		duty, found = s.next()
	}
	if !found {
		s.record()
		return
	}
	s.branch(duty, must)
}

// next is a duty of the search that is still open and that something can be done about.
func (s *moveSearch) next() (moveDuty, bool) {
	for _, d := range s.focus {
		if isBroken(s.moveState, d) && bestRemedy(s.moveState, d) >= 0 && !isExhausted(s, d) {
			return d, true
		}
	}
	return moveDuty{}, false
}

// isExhausted reports that a search of the surroundings has tried enough tasks of an owner for a
// domain rule.
func isExhausted(s *moveSearch, d moveDuty) bool {
	if s.near == nil || d.kind != dutyFault && d.kind != dutyUpgrade {
		return false
	}
	tired := s.near.kept[d.owner] >= nearTasks
	s.cut = s.cut || tired
	return tired
}

func (s *moveSearch) record() {
	now := s.measure
	if now.awkward = 0; s.compare(&now, &s.best) >= 0 || !constraintsAgree(s.moveState) {
		return
	}
	possible := false
	if now.awkward, possible = exchangesFrom(s.moveState, s.stage, s.begun); !possible ||
		s.compare(&now, &s.best) >= 0 {
		return
	}
	s.best, s.found = now, s.found[:0]
	for n, t := range s.moving {
		s.found = append(s.found, moveStep{t, s.at[t], s.causes[n]})
	}
}

// branch sends the task that can help most everywhere it may go, then keeps it where it is.
func (s *moveSearch) branch(d moveDuty, must bool) {
	t := bestRemedy(s.moveState, d)
	if must && s.near != nil && !s.near.hopeful(s, d, t) {
		s.cut = true
		return
	}
	room := false
	if s.problem.tasks[t].at < 0 || s.measure.moves < s.budget {
		if must {
			s.ejected++
		}
		measure := s.measure
		for _, to := range s.destinations(t, d) {
			s.move(t, to, d)
			s.descend()
			s.back(measure)
			room = true
		}
		if must {
			s.ejected--
		}
	}
	s.keep(t, d, room)
}

// hopeful reports whether a search of the surroundings goes on to make room.
func (n *moveNear) hopeful(s *moveSearch, d moveDuty, t int32) bool {
	if s.ejected >= n.depth || n.kept[s.problem.tasks[t].owner] >= nearTasks {
		return false
	}
	if d.kind != dutyCell {
		return true
	}
	c := s.problem.cell(d.instance, d.dim)
	return canRelieve(s.moveState, d.instance, d.dim, s.now[c]-s.roof(s.stage, d.task, c, d.dim), n.depth-s.ejected)
}

// keep leaves the task where it is, and with it those there that are like it: they could do no
// better.
func (s *moveSearch) keep(t int32, d moveDuty, tried bool) {
	var kept []int32
	for _, o := range tasksBeside(s, t) {
		if s.free(o) && (s.problem.tasks[o].shape == s.problem.tasks[t].shape || tried && s.near != nil &&
			isDominated(s, o, t, d)) {
			kept = append(kept, o)
			s.decide(o, pinned)
		}
	}
	if s.near != nil {
		s.near.kept[s.problem.tasks[t].owner]++
	}
	s.descend()
	if s.near != nil {
		s.near.kept[s.problem.tasks[t].owner]--
	}
	for _, o := range kept {
		s.decide(o, undecided)
	}
}

// tasksBeside are the tasks that are where the task is: on its instance, or nowhere.
func tasksBeside(s *moveSearch, t int32) []int32 {
	if at := s.problem.tasks[t].at; at >= 0 {
		return s.problem.instances[at].tasks
	}
	var out []int32
	for _, o := range s.problem.owners[s.problem.tasks[t].owner].tasks {
		if s.problem.tasks[o].at < 0 {
			out = append(out, o)
		}
	}
	return out
}

// isDominated reports whether the other task costs no less to move and relieves the cell no more:
// where the task can go and stays, there is little hope in that one.
func isDominated(s *moveSearch, o, t int32, d moveDuty) bool {
	return d.kind == dutyCell && s.problem.tasks[o].cost >= s.problem.tasks[t].cost &&
		s.problem.tasks[o].amount(d.dim) <= s.problem.tasks[t].amount(d.dim)
}

// bestRemedy is the task whose leaving helps most with the duty, -1 where none may leave any more:
// the least cost for what it relieves, then the most relief, then the first.
func bestRemedy(s *moveState, d moveDuty) int32 {
	best := int32(-1)
	var bestKey [2]float64
	for _, t := range remedyCandidates(s, d) {
		if !s.free(t) || !canHelp(s, d, t) || d.kind == dutyPort && !sharesPort(s, d, t) {
			continue
		}
		key := remedyWorth(s, d, t)
		if best < 0 || key[0] < bestKey[0] || key[0] == bestKey[0] && key[1] < bestKey[1] {
			best, bestKey = t, key
		}
	}
	return best
}

// sharesPort reports whether the task has a port that the one which moved here wants.
func sharesPort(s *moveState, d moveDuty, t int32) bool {
	for _, p := range s.problem.tasks[t].ports {
		if slices.Contains(s.problem.tasks[d.task].ports, p) {
			return true
		}
	}
	return false
}

func remedyWorth(s *moveState, d moveDuty, t int32) [2]float64 {
	task := &s.problem.tasks[t]
	switch d.kind {
	case dutyCell:
		n := task.amount(d.dim)
		_, beyond := s.beyond(s.problem.cell(d.instance, d.dim))
		return [2]float64{float64(task.cost) / float64(min(n, max(beyond, 1))), -float64(n)}
	case dutyFault, dutyUpgrade:
		domains := s.problem.owners[d.owner].domains
		if task.at < 0 {
			return [2]float64{math.Inf(1), 0}
		}
		domains.Add(int(task.at), -1)
		fault, upgrade := domains.Excess()
		domains.Add(int(task.at), 1)
		return [2]float64{float64(fault + upgrade), float64(task.cost)}
	}
	return [2]float64{float64(task.cost), 0}
}
