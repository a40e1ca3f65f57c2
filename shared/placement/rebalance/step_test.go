package rebalance

import (
	"math"
	"slices"
	"testing"
)

// near fails if a figure is further than a tolerance from what is expected.
func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance {
		t.Errorf("%s: %.3f, expected %.3f", what, got, want)
	}
}

// freeProblem has room for all tasks everywhere, and nothing costs anything. Task 0 is the largest.
func freeProblem(instances, tasks, services int) *Problem {
	p := &Problem{Resources: []Resource{{}}, Services: make([]Service, services)}
	for range instances {
		p.Instances = append(p.Instances, Instance{Capacity: []int64{1e9}, Safety: []int64{1e9}})
	}
	for t := range tasks {
		p.Tasks = append(p.Tasks, Task{Service: int32(t % services), Start: int32(t % instances),
			Needs: []int64{int64(tasks - t)}})
	}
	return p
}

// Where every change is accepted, half of the steps move a task, of which half draw a large one. A
// fifth exchange a large task with one of about its size, a tenth exchange two tasks of a service,
// and a fifth exchange any two.
func TestStepsTryEachKindByItsShare(t *testing.T) {
	const tasks, services, rounds = 4000, 41, 40
	shifts, large, exchanges, similar, similarLarge, same := 0, 0, 0, 0, 0, 0
	for seed := range uint64(rounds) {
		s := newAnnealing(freeProblem(200, tasks, services), seed)
		s.journal.best = -1 // nothing is better: the journal keeps every move
		s.anneal(Budget{Steps: checkInterval})
		list := s.journal.undo
		to := destinations(list, s.at)
		for n := 0; n < len(list); n++ {
			a := list[n]
			if n+1 == len(list) || to[n+1] != a.from || to[n] != list[n+1].from {
				if shifts++; a.task < tasks/5 {
					large++
				}
				continue
			}
			b := list[n+1]
			n++
			if exchanges++; math.Abs(float64(a.task-b.task)) <= similarRanks {
				if similar++; a.task < tasks/5 {
					similarLarge++
				}
			} else if a.task%services == b.task%services {
				same++
			}
		}
	}
	all := float64(shifts + exchanges)
	if all < 0.97*rounds*checkInterval {
		t.Errorf("%g changes in %d steps, expected nearly as many", all, rounds*checkInterval)
	}
	near(t, "part of the steps that move one task", float64(shifts)/all, 0.5, 0.04)
	// A large task is the first of four draws: the largest fifth is drawn with a chance of 59 %.
	near(t, "part of these with a task of the largest fifth", float64(large)/float64(shifts),
		(0.2+1-math.Pow(0.8, 4))/2, 0.03)
	near(t, "part of the steps that exchange tasks of a size", float64(similar)/all, 0.2, 0.015)
	near(t, "part of these with tasks of the largest fifth", float64(similarLarge)/float64(similar),
		1-math.Pow(0.8, 4), 0.03)
	near(t, "part of the steps that exchange tasks of a service", float64(same)/all, 0.1+0.2/services, 0.015)
}

// destinations returns where each move of a list led, when at is where the tasks are after all of
// them.
func destinations(list []undoneMove, at []int32) []int32 {
	next, out := slices.Clone(at), make([]int32, len(list))
	for n := len(list) - 1; n >= 0; n-- {
		out[n], next[list[n].task] = next[list[n].task], list[n].from
	}
	return out
}

// Two full instances with an overloaded one among them: the first task belongs on the second
// instance, and the other way round.
func crossed() *Problem {
	return &Problem{
		Resources: []Resource{{Overload: 1}}, Services: []Service{{}, {}},
		Instances: []Instance{{Capacity: []int64{10}, Safety: []int64{5}}, {Capacity: []int64{10}, Safety: []int64{9}}},
		Tasks:     []Task{{Needs: []int64{9}}, {Service: 1, Start: 1, Needs: []int64{5}}},
	}
}

// At temperature 0 a step makes what lowers the cost or keeps it, and nothing else.
func TestStepsAcceptWhatIsNoWorse(t *testing.T) {
	s := newAnnealing(crossed(), 1)
	if s.cost != 4 {
		t.Fatalf("the cost is %d, expected 4", s.cost)
	}
	s.shift(0, 1) // no room
	s.exchange(0, 0)
	if !slices.Equal(s.at, []int32{0, 1}) || len(s.journal.undo) > 0 {
		t.Fatalf("tasks are on %v, and %v is noted", s.at, s.journal.undo)
	}
	s.exchange(0, 1)
	if !slices.Equal(s.at, []int32{1, 0}) || s.cost != 0 ||
		!slices.Equal(s.journal.undo, []undoneMove{{0, 0}, {1, 1}}) {
		t.Fatalf("tasks are on %v, the cost is %d, and %v is noted", s.at, s.cost, s.journal.undo)
	}
	if s.exchange(0, 1); s.cost != 0 {
		t.Errorf("it accepts a cost of %d", s.cost)
	}
	s = newAnnealing(freeProblem(2, 1, 1), 1)
	if s.shift(0, 0); len(s.journal.undo) > 0 {
		t.Error("a task that stays is noted")
	}
	if s.shift(0, 1); s.at[0] != 1 || !slices.Equal(s.journal.undo, []undoneMove{{0, 0}}) {
		t.Errorf("the task is on %d, and %v is noted", s.at[0], s.journal.undo)
	}
}

// What costs as much as the temperature is accepted in 1 of e tries.
func TestAccepts(t *testing.T) {
	s := newAnnealing(crossed(), 7)
	s.temperature = 100
	for change, want := range map[int64]float64{-5: 1, 0: 1, 10: math.Exp(-0.1), 100: math.Exp(-1), 300: math.Exp(-3)} {
		accepted := 0
		for range 10000 {
			if s.accepts(change) {
				accepted++
			}
		}
		near(t, "part accepted", float64(accepted)/10000, want, 0.015)
	}
	s.temperature = 0
	if s.accepts(1) || !s.accepts(0) {
		t.Error("at temperature 0 it accepts what is worse, or not what is equal")
	}
}

// The numbers of a generator are spread evenly.
func TestGenerator(t *testing.T) {
	g := &generator{1}
	counts, sum := make([]int, 10), 0.0
	for range 100_000 {
		counts[g.below(10)]++
		sum += g.exponential()
	}
	for n, c := range counts {
		near(t, "part of draws", float64(c)/100_000, 0.1, 0.004)
		if g.below(1) != 0 {
			t.Errorf("%d: a number below 1 is not 0", n)
		}
	}
	near(t, "mean of the exponential numbers", sum/100_000, 1, 0.01)
	if first, again := (&generator{5}).nextBits(), (&generator{5}).nextBits(); first != again {
		t.Errorf("a seed gives %d, then %d", first, again)
	}
}

// The temperature falls from a multiple of the average loss: to a thousandth in nine tenths of the
// budget, and to a millionth in all.
func TestCooling(t *testing.T) {
	for used, want := range map[float64]float64{0: 1, 0.45: math.Pow(1e-3, 0.5), 0.9: 1e-3,
		0.95: 1e-3 * math.Pow(1e-3, 0.5),
		1:    1e-6} {
		near(t, "temperature", coolingAfter(used)/want, 1, 1e-9)
	}
	// A move of the only task costs 7 or 13, by the instance that it goes to.
	p := freeProblem(3, 1, 1)
	p.Weights, p.Distances = Weights{Distance: 1}, []int32{0, 7, 13, 0, 0, 0, 0, 0, 0}
	near(t, "average loss", newAnnealing(p, 1).averageLoss(), 10, 0.3)
	// Moves that cost nothing are no losses.
	p.Distances[1] = 0
	near(t, "average loss", newAnnealing(p, 1).averageLoss(), 13, 0)
	p.Distances[1] = 7
	// Where no move is a loss, there is none on average.
	near(t, "average loss", newAnnealing(freeProblem(3, 1, 1), 1).averageLoss(), 0, 0)
	// Moves that the rules do not allow do not count.
	p.Instances[2].Capacity[0] = 0
	near(t, "average loss", newAnnealing(p, 1).averageLoss(), 7, 0)
	b := Budget{Steps: 100, Used: func() float64 { return 0.3 }}
	near(t, "used", b.usedAfter(20), 0.3, 0)
	near(t, "used", b.usedAfter(50), 0.5, 0)
	near(t, "used", (&Budget{}).usedAfter(0), 1, 0)
}

// Tasks are ordered by the share of the cluster that they need.
func TestTaskOrder(t *testing.T) {
	p := freeProblem(2, 4, 2)
	p.Resources = append(p.Resources, Resource{})
	for i := range p.Instances {
		p.Instances[i].Capacity, p.Instances[i].Safety = []int64{100, 10}, []int64{100, 10}
	}
	for task, needs := range [][]int64{{40, 0}, {0, 5}, {0, 1}, {45, 1}} {
		p.Tasks[task].Needs = needs
	}
	o := newTaskOrder(p) // the shares are 0.2, 0.25, 0.05 and 0.275
	if !slices.Equal(o.bySize, []int32{3, 1, 0, 2}) || !slices.Equal(o.rank, []int32{2, 1, 3, 0}) ||
		!slices.Equal(o.ofService[0], []int32{0, 2}) || !slices.Equal(o.ofService[1], []int32{1, 3}) {
		t.Errorf("%+v", o)
	}
	p.Tasks[2].Needs = p.Tasks[0].Needs
	if o := newTaskOrder(p); !slices.Equal(o.bySize, []int32{3, 1, 0, 2}) {
		t.Errorf("equal tasks are in the order %v", o.bySize)
	}
}

// A journal keeps at most one move more than there are tasks: beyond that it keeps the best assignment.
func TestJournalIsBounded(t *testing.T) {
	j, at := journal{best: 10}, []int32{0, 1, 2}
	for n := range int32(50) {
		task := n % 3
		from := at[task]
		at[task] = n % 4
		j.note(task, from)
		if j.observe(20, at); len(j.undo) > len(at) {
			t.Fatalf("%d moves are kept after %d", len(j.undo), n+1)
		}
	}
	if want := []int32{0, 1, 2}; !slices.Equal(j.copied, want) {
		t.Errorf("the best assignment is %v, expected %v", j.copied, want)
	}
}

// Where a task of 5 goes the load is even as well as where tasks of 2 and 3 go: one task less moves.
func TestOneMovesForTwo(t *testing.T) {
	p := &Problem{Resources: []Resource{{}}, Weights: Weights{Task: 1}}
	for range 5 {
		p.Instances = append(p.Instances, Instance{Capacity: []int64{100}, Safety: []int64{100}})
	}
	for s, need := range []int64{2, 3, 5} {
		p.Services = append(p.Services, Service{Exclusive: true})
		for i := range int32(3) {
			if need < 5 || i < 2 {
				p.Tasks = append(p.Tasks, Task{Service: int32(s), Start: i, Needs: []int64{need}, Cost: 1000})
			}
		}
	}
	p.Evens = []Evenness{{Resource: 0, Mean: 5, Weight: 1e6}}
	for seed := range uint64(20) {
		found, err := Search(p, Budget{Steps: 20_000, Descend: true}, seed)
		if err != nil || found.Moved != 2 {
			t.Errorf("seed %d: %d tasks move to %v, expected 2: %v", seed, found.Moved, found.Instances, err)
		}
	}
}
