package rebalance

import (
	"slices"
	"testing"
)

// thirds are domains: the instances by their number modulo 3. A service has at most so many tasks
// in each, unless it had more before.
type thirds struct {
	counts [3]int
	most   int
}

func (d *thirds) AddTasks(i, count int) { d.counts[i%3] += count }

func (d *thirds) MayMove(from, to int) bool { return from%3 == to%3 || d.counts[to%3] < d.most }

const mostInThird = 2

func breaksThirds(p *Problem, before, after []int32, s int32) bool {
	for third := range int32(3) {
		within := func(i int32) bool { return i%3 == third }
		if n := count(p, after, s, within); n > mostInThird && n > count(p, before, s, within) {
			return true
		}
	}
	return false
}

// drawBalancedProblem returns a problem with every rule and every goal: some load besides the
// tasks', resources that are to be even, services that are to be spread over groups of instances or
// over single ones, domains, tasks that stay, and instances that some tasks may not be on.
func drawBalancedProblem(seed uint64) *Problem {
	p, g := drawRuledProblem(seed), &generator{^seed}
	for i := range p.Instances {
		if x := &p.Instances[i]; g.below(2) == 0 {
			x.Base = []int64{int64(g.below(20)), int64(g.below(20))}
			x.Capacity = []int64{x.Capacity[0] + x.Base[0], x.Capacity[1] + x.Base[1]}
		}
	}
	// Means and weights are such that costs are exact.
	p.Evens = []Evenness{{Resource: 0, Mean: 16, Weight: 4 << 10}, {Resource: 1, Mean: 8, Weight: 2 << 10}}
	p.Evens[1].Apart = make([]bool, len(p.Instances))
	groups := make([]int32, len(p.Instances))
	for i := range groups {
		p.Evens[1].Apart[i], groups[i] = g.below(3) == 0, int32(g.below(4))
	}
	for s := range int32(len(p.Services)) {
		if g.below(3) == 0 {
			p.Spreads = append(p.Spreads, Spread{Service: s, GroupOf: groups, Weight: int64(1 + g.below(9))})
		}
		if g.below(3) == 0 {
			p.Spreads = append(p.Spreads, Spread{Service: s, Weight: int64(1 + g.below(9))})
		}
		if g.below(3) == 0 {
			p.Services[s].Domains = func() Domains { return &thirds{most: mostInThird} }
		}
	}
	for t := range p.Tasks {
		p.Tasks[t].Fixed = g.below(12) == 0
	}
	p.Allows = func(t, i int32) bool { return (t+i)%7 != 0 }
	return p
}

// With goals, too, a change is possible if and only if it makes no rule worse, and costs what it
// says.
func TestTriesAgreeWithTheDefinitionsOfGoals(t *testing.T) {
	tryChanges(t, drawBalancedProblem, "", "capacity", "exclusive", "zones", "dependency", "fixed", "allowed",
		"domains")
}

func TestRearrangementsKeepTheRulesBesideGoals(t *testing.T) {
	tryRearrangements(t, drawBalancedProblem)
}

// A descent reaches results that keep the rules, and so does each step of the plans.
func TestDescentsKeepTheRules(t *testing.T) {
	searchAndPlan(t, drawBalancedProblem, Budget{Steps: 3 * checkInterval, Descend: true})
}

// No step of a descent makes the cost higher or a rule worse.
func TestDescentsNeverClimb(t *testing.T) {
	improved := 0
	for seed := range uint64(20) {
		p := drawBalancedProblem(seed)
		s := newAnnealing(p, seed)
		for range 200 {
			before, cost := slices.Clone(s.at), s.cost
			if s.tryStep(true); slices.Equal(before, s.at) && s.cost == cost {
				continue
			}
			if s.cost < cost {
				improved++
			}
			if rule := worsens(p, before, s.at); rule != "" || s.cost > cost || s.cost != costOf(p, s.at) {
				t.Fatalf("seed %d: the cost goes from %d to %d, expected %d; worse is %q", seed, cost, s.cost,
					costOf(p, s.at), rule)
			}
			if s.journal.observe(s.cost, s.at); s.journal.best != s.cost {
				t.Fatalf("seed %d: the best cost is %d, the cost %d", seed, s.journal.best, s.cost)
			}
		}
		recount(t, s.assignment)
		if s.journal.copyBest(s.at); costOf(p, s.journal.copied) != s.cost {
			t.Errorf("seed %d: the journal leads to a cost of %d, expected %d", seed, costOf(p, s.journal.copied),
				s.cost)
		}
	}
	if improved < 200 {
		t.Errorf("%d steps improve something, expected more", improved)
	}
}

// To bring a task home leaves fewer tasks away from home, and the task at home, or changes nothing.
func TestBringHome(t *testing.T) {
	home, replaced := 0, 0
	for seed := range uint64(100) {
		p := drawBalancedProblem(seed)
		if seed%2 == 0 {
			p = drawProblem(seed, 6, 30)
		} else if len(p.Instances) > 12 {
			continue // tasks have room at home
		}
		s := newAnnealing(p, seed)
		s.temperature = 1e18
		for n := range 300 {
			if s.exchange(s.drawTask(), s.drawTask()); n%2 == 0 {
				s.shift(s.drawTask(), s.drawInstance())
			}
		}
		for range 50 {
			before, moved := slices.Clone(s.at), s.moved.all
			task := s.drawTask()
			s.bringHome(task)
			if rule := worsens(p, before, s.at); rule != "" || s.cost != costOf(p, s.at) {
				t.Fatalf("seed %d: the cost is %d, expected %d; worse is %q", seed, s.cost, costOf(p, s.at), rule)
			}
			changed := 0
			for n := range before {
				if before[n] != s.at[n] {
					changed++
				}
			}
			switch {
			case changed == 0 && s.moved.all == moved:
			case changed > 2 || s.at[task] != s.start[task] || s.moved.all >= moved:
				t.Fatalf("seed %d: %d tasks change, task %d is on %d, home is %d, away are %d, before %d", seed,
					changed,
					task, s.at[task], s.start[task], s.moved.all, moved)
			case changed == 2:
				replaced++
			default:
				home++
			}
		}
		recount(t, s.assignment)
	}
	if home < 100 || replaced < 20 {
		t.Errorf("%d tasks come home alone, %d with another one, expected more", home, replaced)
	}
}

// A task comes home to a full instance if a moved task there leaves for the place that becomes
// free: one of another service that started elsewhere, too.
func TestBringHomeTakesThePlaceOfAnother(t *testing.T) {
	full := func() Instance { return Instance{Capacity: []int64{5}, Safety: []int64{5}} }
	p := &Problem{Resources: []Resource{{Overload: 1}}, Services: []Service{{}, {}},
		Instances: []Instance{full(), full(), full()},
		Tasks:     []Task{{Needs: []int64{5}, Cost: 1}, {Service: 1, Start: 1, Needs: []int64{5}, Cost: 1}},
		Weights:   Weights{Task: 1}}
	s := newAnnealing(p, 1)
	s.moveTask(1, 2)
	s.moveTask(0, 1)
	s.moveTask(1, 0)
	if s.cost != 2 || s.moved.all != 2 {
		t.Fatalf("the cost is %d, and %d tasks have moved", s.cost, s.moved.all)
	}
	if s.bringHome(0); s.cost != 0 || s.at[0] != 0 || s.at[1] != 1 {
		t.Errorf("tasks are on %v, the cost is %d", s.at, s.cost)
	}
	if !slices.Equal(s.journal.undo, []undoneMove{{0, 1}, {1, 0}}) {
		t.Errorf("%v is noted", s.journal.undo)
	}
	p.Tasks[1].Fixed = true
	s = newAnnealing(p, 1)
	s.moveTask(1, 2)
	s.moveTask(0, 1)
	s.moveTask(1, 0)
	if s.bringHome(0); s.at[0] != 1 || s.at[1] != 0 {
		t.Errorf("tasks are on %v, expected that the fixed one stays", s.at)
	}
}

// Of some instances, a task goes to the best one that has room, if that is no worse than where it
// is.
func TestShiftToBest(t *testing.T) {
	p := freeProblem(4, 1, 1)
	p.Weights, p.Distances = Weights{Distance: 1}, make([]int32, 16)
	copy(p.Distances, []int32{0, -3, -9, -20})
	p.Instances[3].Capacity[0] = 0 // the nearest has no room
	found := 0
	for seed := range uint64(100) {
		s := newAnnealing(p, seed)
		if s.shiftToBest(0); s.at[0] == 2 {
			found++
		}
		if s.cost != int64(p.Distances[s.at[0]]) || s.at[0] == 3 {
			t.Fatalf("seed %d: the task is on %d, the cost %d", seed, s.at[0], s.cost)
		}
	}
	// One of eight draws is the best with a chance of 90 %.
	if found < 80 {
		t.Errorf("%d of 100 tasks go to the best instance", found)
	}
	for n := range p.Distances {
		p.Distances[n] = 5
	}
	p.Distances[0] = 0
	s := newAnnealing(p, 1)
	if s.shiftToBest(0); s.at[0] != 0 || len(s.journal.undo) > 0 {
		t.Errorf("the task goes to %d, where it costs more", s.at[0])
	}
	if s.temperature = 1e18; s.at[0] == 0 {
		if s.shiftToBest(0); s.at[0] == 0 || len(s.journal.undo) != 1 || s.journal.undo[0] != (undoneMove{0, 0}) {
			t.Errorf("the task is on %d, and %v is noted", s.at[0], s.journal.undo)
		}
	}
}

// Half of a descent's steps are moves to the best of some instances. A quarter brings a task home,
// which nothing is left to do for where no task has moved.
func TestDescentsTryEachKindByItsShare(t *testing.T) {
	const steps = 20_000
	p := freeProblem(2, 2, 2) // the second instance is better for the first task, and costs nothing for the other
	p.Weights, p.Distances = Weights{Distance: 1}, []int32{0, 0, 0, 0}
	shifts := 0
	s := newAnnealing(p, 1)
	for range steps {
		before := slices.Clone(s.at)
		s.journal.undo = s.journal.undo[:0]
		if s.tryStep(true); !slices.Equal(before, s.at) {
			shifts++
		}
	}
	// A move to the best finds the other instance unless all eight draws are this one.
	if shifts < steps/2 {
		t.Errorf("%d of %d steps move a task, expected at least half", shifts, steps)
	}
}

// What a spread costs bounds its weight: four times the weight for two tasks in a group.
func TestCostBoundOfSpreads(t *testing.T) {
	p := &Problem{Services: []Service{{}}, Instances: []Instance{{}}, Tasks: []Task{{}, {}},
		Spreads: []Spread{{Weight: 25e16}}}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	p.Spreads[0].Weight++
	if p.Spreads[0].Weight += 1000; p.Validate() == nil {
		t.Error("costs may reach more than 1e18")
	}
}

// Loads besides the tasks' count towards what evenness may cost.
func TestCostBoundOfEvenness(t *testing.T) {
	p := &Problem{Resources: []Resource{{}}, Services: []Service{{}},
		Instances: []Instance{{Capacity: []int64{0}, Safety: []int64{0}, Base: []int64{1000}},
			{Capacity: []int64{0}, Safety: []int64{0}, Base: []int64{2000}}},
		Tasks: []Task{{Needs: []int64{3000}}},
		Evens: []Evenness{{Mean: 1, Weight: 1}}}
	a := newAssignment(p)
	a.moveTask(0, 1)
	if most := p.costBound(); float64(a.cost) > most || a.cost != 999*999+4999*4999 {
		t.Errorf("the cost is %d, the bound %g", a.cost, most)
	}
	p.Evens[0] = Evenness{Mean: 1e6, Weight: 1e12}
	a = newAssignment(p)
	if most := p.costBound(); float64(a.cost) > most {
		t.Errorf("the cost is %d, the bound %g", a.cost, most)
	}
	if p.Evens[0].Weight = 0; p.Validate() != nil {
		t.Error("a weight of 0 is refused")
	}
}

// A task that stays where it is is no loss: the average is about moves alone.
func TestAverageLossIsAboutMoves(t *testing.T) {
	p := freeProblem(2, 1, 1)
	p.Resources[0].Overload = 1
	for i := range p.Instances {
		p.Instances[i].Safety[0] = p.Tasks[0].Needs[0] // twice the task would be an overload
	}
	near(t, "average loss", newAnnealing(p, 1).averageLoss(), 0, 0)
}

// With one instance there is nothing to search.
func TestOneInstanceNeedsNoSteps(t *testing.T) {
	result, err := Search(freeProblem(1, 3, 1), Budget{Steps: 1000}, 1)
	if err != nil || result.Steps != 0 || result.Moved != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if result, err = Search(freeProblem(2, 0, 1), Budget{Steps: 1000}, 1); err != nil || result.Steps != 0 {
		t.Errorf("without tasks: %+v, %v", result, err)
	}
}

// All instances of a cluster that is not large are tried, and what a spread costs counts.
func TestLiftedTasksFindTheOnlyBestInstance(t *testing.T) {
	best, apart := 0, 0
	for seed := range uint64(100) {
		p := freeProblem(wholeCluster, 1, 1)
		p.Weights, p.Distances = Weights{Distance: 1}, make([]int32, wholeCluster*wholeCluster)
		p.Distances[wholeCluster-1] = -5
		s := newAnnealing(p, seed)
		if s.lift(0); s.cheapestInstance(0) == wholeCluster-1 {
			best++
		}
		p = freeProblem(3, 4, 1)
		for task, start := range []int32{0, 0, 1, 1} {
			p.Tasks[task].Start = start
		}
		p.Spreads = []Spread{{Weight: 1}}
		s = newAnnealing(p, seed)
		if s.lift(3); s.cheapestInstance(3) == 2 {
			apart++
		}
	}
	if best < 90 || apart < 90 {
		t.Errorf("of 100 tasks, %d find the only best instance, and %d the one without a task of the service", best,
			apart)
	}
}
