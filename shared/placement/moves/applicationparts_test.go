package moves

import (
	"math"
	"reflect"
	"slices"
	"testing"
)

// shopOn returns an assignment of one application, whose tasks are on these instances at the start (-1
// for a newcomer) and may all move.
func shopOn(instances int, initial ...int32) *assignment {
	p := &problem{budget: 100, applications: make([]problemApplication, 1), instances: make([]problemInstance, instances),
		owners: []problemOwner{{parent: noParent}}, load: make([]int64, instances), total: make([]int64, instances),
		names: []string{"m"}}
	x := &p.applications[0]
	x.unmovable = make([]int32, instances)
	x.initial = applicationUse{holding: make([]int32, instances), counted: make([]int32, instances)}
	for t, i := range initial {
		p.tasks = append(p.tasks, problemTask{initial: i, movable: true})
		x.tasks = append(x.tasks, int32(t))
		if i < 0 {
			continue
		}
		if x.initial.holding[i]++; x.initial.counted[i] == 0 {
			x.initial.nodes++
		}
		x.initial.counted[i]++
	}
	return newAssignment(p)
}

// An application that is on too many instances leaves those with the fewest of its tasks first, of these
// the cheapest task first, and last those that it cannot leave.
func TestTheEmptiestInstancesAreLeftFirst(t *testing.T) {
	s := shopOn(3, 0, 0, 0, 1, 2, 2, -1)
	s.problem.applications[0].unmovable[2] = 1
	s.problem.tasks[0].cost = 5
	for task, want := range [][2]float64{{3, 5}, {3, 0}, {3, 0}, {1, 0}, {math.Inf(1), 0}, {math.Inf(1), 0},
		{math.Inf(1), 0}} {
		if got := gatherCost(s, 0, int32(task)); got != want {
			t.Errorf("task %d compares by %v, expected %v", task, got, want)
		}
	}
}

// An application stays on the instances where a task of it has its place for good: one that may not move,
// or whose place is decided. A newcomer without a place keeps it nowhere.
func TestInstancesThatAnApplicationCannotLeave(t *testing.T) {
	s := &branchSearch{assignment: shopOn(4, 0, 0, 1, 2, -1)}
	expect := func(when string, want int) {
		t.Helper()
		if got := unavoidableNodes(s, 0); got != want {
			t.Errorf("%s: %d instances, expected %d", when, got, want)
		}
	}
	expect("all may move", 0)
	s.setDecision(0, pinned)
	expect("one of two on an instance stays", 1)
	s.problem.tasks[1].movable = false
	expect("both stay", 1)
	s.setDecision(3, pinned)
	expect("the only one on another stays, too", 2)
}

// If more tasks have to leave the emptiest instances than a plan may move, the rest counts: several plans
// then do it. Instances that cannot be left do not count.
func TestTasksBeyondOnePlan(t *testing.T) {
	s := shopOn(4, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 3)
	s.problem.applications[0].unmovable[1] = 1
	for _, c := range []struct {
		budget, surplus int
		want            int64
	}{{11, 2, 0}, {4, 1, 0}, {4, 2, 1}, {3, 2, 2}, {3, 3, 7}, {3, 4, 7}} {
		s.problem.budget = c.budget
		if got := tasksBeyondPlan(s, 0, c.surplus); got != c.want {
			t.Errorf("%+v: %d tasks are beyond the plan", c, got)
		}
	}
}

// An application that was on more instances than it may be on worsens nothing by staying on as many.
func TestOnlyFurtherInstancesAreWorse(t *testing.T) {
	s := shopOn(4, 0, 0, 1, 2)
	s.problem.applications[0].maximumNodes = 2
	for nodes, want := range map[int][2]int{1: {0, 0}, 2: {0, 0}, 3: {1, 0}, 4: {2, 1}} {
		s.score, s.uses[0].nodes = score{}, nodes
		countScattered(s, 0, 1)
		if got := [2]int{s.score.rules[alwaysBinding].count, s.score.worsened[alwaysBinding].count}; got != want {
			t.Errorf("on %d instances: %v too many, and more than at the start, expected %v", nodes, got, want)
		}
	}
}

// A task uses of its application's limits what it uses of their metrics. Of a metric that is reserved it
// uses 0 if it has no load, because it brings the reservation along.
func TestAmountsOfAnApplication(t *testing.T) {
	p := &problem{applications: []problemApplication{{nodeDims: []int32{7, -1, 8},
		reservations: []reservation{{dim: 3, amount: 10}, {dim: 4, amount: 10}, {dim: 5}}}}}
	with := func(amounts ...resourceAmount) []resourceAmount { return amounts }
	for _, c := range []struct{ amounts, want []resourceAmount }{
		{with(), with(resourceAmount{3, 0}, resourceAmount{4, 0})},
		{with(resourceAmount{3, 2}), with(resourceAmount{3, 2}, resourceAmount{4, 0}, resourceAmount{7, 2})},
		{with(resourceAmount{4, 2}, resourceAmount{5, 6}), with(resourceAmount{3, 0}, resourceAmount{4, 2},
			resourceAmount{5, 6}, resourceAmount{8, 6})},
		{with(resourceAmount{1, 9}), with(resourceAmount{1, 9}, resourceAmount{3, 0}, resourceAmount{4, 0})},
	} {
		if got := p.addApplicationAmounts(0, slices.Clone(c.amounts)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("of %v the application counts %v, expected %v", c.amounts, got, c.want)
		}
		if got := p.addApplicationAmounts(noApplication, c.amounts); !slices.Equal(got, c.amounts) {
			t.Errorf("without an application %v are %v", c.amounts, got)
		}
	}
}

// Newcomers take nothing that others could use if they fit into what their application has reserved on
// the instance for tasks that stay. A task that moves there, and the first tasks of the application, do.
func TestNewcomersFillReservations(t *testing.T) {
	for name, c := range map[string]struct {
		initial         []int32
		load, newcomers int64
		want            bool
	}{
		"BesideATaskThatStays": {[]int32{0, -1}, 5, 5, true},
		"UpToAllOfIt":          {[]int32{0, -1, -1}, 10, 5, true},
		"BeyondIt":             {[]int32{0, -1, -1}, 12, 6, false},
		"TheFirstTasks":        {[]int32{-1, -1}, 10, 5, false},
		"ATaskThatMoves":       {[]int32{0, 1}, 5, 5, false},
	} {
		s := shopOn(2, c.initial...)
		x := &s.problem.applications[0]
		x.reservations = []reservation{{dim: 0, amount: 10, onInstance: []int64{10, 10}}}
		last := int32(len(c.initial) - 1)
		for task, i := range c.initial {
			s.problem.tasks[task].amounts = []resourceAmount{{0, c.newcomers}}
			if i != 0 {
				s.arrived[0] = append(s.arrived[0], int32(task))
			}
		}
		s.uses[0].holding[0], s.uses[0].loads = int32(len(c.initial)), [][]int64{{c.load, 0}}
		if got := fillsReservation(s, last, 0, 0); got != c.want {
			t.Errorf("%s: it fits into the reservation: %v, expected %v", name, got, c.want)
		}
		if fillsReservation(s, last, 0, 1) {
			t.Errorf("%s: it fits into a reservation of another metric", name)
		}
	}
}

// An application needs as many instances as hold what its tasks use: of 9 in all, 5 and 4 fit on instances that
// take 6 and 4 beside what stays there. Of a service with one task on each instance it needs one for each task,
// except where more were at the start.
func TestFewestInstancesOfAnApplication(t *testing.T) {
	newSearch := func() *branchSearch {
		s := &branchSearch{assignment: shopOn(4, 0, 1, 1, 2)}
		p := s.problem
		for i := range p.instances {
			p.instances[i].takesTasks, p.instances[i].givesTasks = true, true
		}
		for task, n := range []int64{2, 2, 3, 2} {
			x := &p.tasks[task]
			x.amounts = []resourceAmount{{0, n}}
			p.load[x.initial] += n
			p.instances[x.initial].tasks = append(p.instances[x.initial].tasks, int32(task))
		}
		p.total, p.unbuffered = []int64{6, 5, 3, 2}, []int64{6, 5, 3, 2}
		return s
	}
	expect := func(when string, s *branchSearch, want int) {
		t.Helper()
		if got := leastNodes(s, 0); got != want {
			t.Errorf("%s: at least %d instances, expected %d", when, got, want)
		}
	}
	expect("room for 6, 5, 3 and 2", newSearch(), 2)
	s := newSearch()
	s.problem.load[0] += 4 // of another service, which stays
	expect("room for 5, 3, 2 and 2", s, 3)
	s = newSearch()
	s.problem.unbuffered[0] = 20
	expect("room for all on one", s, 1)
	s = newSearch()
	s.problem.owners[0].maxPerInstance = 1
	expect("one on each instance, but two were on one", s, 3)
	s = newSearch()
	s.problem.total, s.problem.unbuffered = make([]int64, 4), make([]int64, 4)
	expect("no room at all, beyond what is there", s, 3)
}

// To be on as few instances as in the best solution, an application leaves those with the fewest tasks.
func TestCostOfGathering(t *testing.T) {
	s := &branchSearch{assignment: shopOn(3, 0, 1, 1, 1, 2, 2, 2, 2, 2), leastNodes: map[int32]int{0: 1}}
	s.problem.applications[0].maximumNodes = 1
	for task := range s.problem.tasks {
		s.problem.tasks[task].cost = 1
	}
	s.problem.tasks[0].cost = 9
	v, bound := openViolation{kind: scatteredApplication}, score{}
	for nodes, want := range map[int][2]int{1: {8, 4}, 2: {3, 1}, 3: {0, 0}} {
		s.bestScore = score{}
		s.bestScore.rules[alwaysBinding].count = nodes - 1
		if cost, moves := gatheringCost(s, v, bound); cost != want[0] || moves != want[1] {
			t.Errorf("with %d instances in the best solution: %d moves of cost %d, expected %v", nodes, moves, cost, want)
		}
	}
}
