package rebalance

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// drawProblem returns a problem with nearly full instances and rules that hold at the start.
func drawProblem(seed uint64, instances, tasks int) *Problem {
	g := &generator{seed}
	p := &Problem{
		Resources: []Resource{{Overload: 3}, {Transit: true, Overload: 1}},
		Balances:  []Balance{{First: 0, Second: 1, Ratio: 1, Weight: 2}},
		Weights:   Weights{Task: 1, Service: 10, Distance: 2},
	}
	for i := range instances {
		p.Instances = append(p.Instances, Instance{Zone: int32(i % 3), Neighborhood: int32(i % 2),
			Capacity: []int64{int64(g.below(30)), int64(g.below(30))}, Safety: []int64{int64(g.below(60)), 50}})
		for range instances {
			p.Distances = append(p.Distances, int32(g.below(4)))
		}
	}
	services := tasks/2 + 1
	zones := make([]map[int32]bool, services)
	for s := range services {
		p.Services = append(p.Services, Service{Exclusive: g.below(2) == 0})
		zones[s] = map[int32]bool{}
	}
	taken := map[[2]int]bool{}
	for range tasks {
		s, i := g.below(services), g.below(instances)
		for p.Services[s].Exclusive && taken[[2]int{s, i}] {
			s, i = g.below(services), g.below(instances)
		}
		taken[[2]int{s, i}] = true
		zones[s][p.Instances[i].Zone] = true
		needs := []int64{int64(g.below(20)), int64(g.below(20))}
		for r, n := range needs {
			p.Instances[i].Capacity[r] += n
		}
		p.Tasks = append(p.Tasks, Task{Service: int32(s), Start: int32(i), Needs: needs, Cost: int64(g.below(5))})
	}
	for s := range services {
		p.Services[s].LeastZones = int32(len(zones[s]))
	}
	return p
}

// recount fails if what the assignment keeps differs from a count of everything anew.
func recount(t *testing.T, a *assignment) {
	t.Helper()
	fresh := newAssignment(a.problem)
	for task, to := range a.at {
		fresh.liftTask(int32(task))
		fresh.putTask(int32(task), to)
	}
	if fresh.cost != a.cost || !slices.Equal(fresh.cells, a.cells) ||
		!slices.Equal(fresh.rules.inZone, a.rules.inZone) ||
		!slices.Equal(fresh.rules.zoneCount, a.rules.zoneCount) {
		t.Fatalf("the cost is %d, counted anew %d", a.cost, fresh.cost)
	}
	for i, list := range a.on {
		for n, task := range list {
			if a.at[task] != int32(i) || a.position[task] != int32(n) {
				t.Fatalf("task %d is listed on instance %d at %d, it is on %d at %d", task, i, n, a.at[task],
					a.position[task])
			}
		}
	}
}

// What a move is said to change is what it changes.
func TestTriedMovesChangeWhatTheySay(t *testing.T) {
	shifts, exchanges := 0, 0
	for seed := range uint64(20) {
		p := drawProblem(seed, 6, 30)
		s := newAnnealing(p, seed)
		for range 500 {
			before, task, other, to := s.cost, s.drawTask(), s.drawTask(), s.drawInstance()
			if change, ok := s.tryShift(task, to); to != s.at[task] && ok {
				shifts++
				if s.moveTask(task, to); s.cost-before != change {
					t.Fatalf("seed %d: the move changes the cost by %d, expected %d", seed, s.cost-before, change)
				}
			}
			if s.at[task] == s.at[other] {
				continue
			}
			before = s.cost
			if change, ok := s.tryExchange(task, other); ok {
				exchanges++
				s.temperature = 1e18 // accepts everything
				if s.exchange(task, other); s.cost-before != change {
					t.Fatalf("seed %d: the exchange changes the cost by %d, expected %d", seed, s.cost-before, change)
				}
			}
		}
		recount(t, s.assignment)
	}
	if shifts < 100 || exchanges < 100 {
		t.Errorf("%d moves and %d exchanges, expected many", shifts, exchanges)
	}
}

// A rearrangement that is not accepted leaves everything as it was.
func TestRearrangementsAreUndone(t *testing.T) {
	for seed := range uint64(20) {
		s := newAnnealing(drawProblem(seed, 6, 30), seed)
		kept, changed := 0, 0
		for range 300 {
			at, before := slices.Clone(s.at), s.cost
			if s.rearrange(); s.cost == before && slices.Equal(s.at, at) {
				kept++
			} else if changed++; s.cost > before {
				t.Fatalf("seed %d: at temperature 0 the cost rises from %d to %d", seed, before, s.cost)
			}
		}
		recount(t, s.assignment)
		if kept == 0 {
			t.Errorf("seed %d: %d rearrangements were accepted, expected some to be undone", seed, changed)
		}
	}
}

// The journal returns the best assignment, however many moves were made since.
func TestJournalReturnsTheBest(t *testing.T) {
	for _, since := range []int{0, 1, 5, 40, 400} {
		s := newAnnealing(drawProblem(3, 6, 30), 1)
		s.journal.best = s.cost + 1
		s.journal.observe(s.cost, s.at)
		best := slices.Clone(s.at)
		s.temperature = 1e18
		for range since {
			s.shift(s.drawTask(), s.drawInstance())
			if s.journal.observe(s.journal.best, s.at); len(s.journal.undo) > len(s.at) {
				t.Fatalf("it keeps %d moves of %d tasks", len(s.journal.undo), len(s.at))
			}
		}
		if s.journal.copyBest(s.at); !slices.Equal(s.journal.copied, best) {
			t.Errorf("after %d steps it returns another assignment", since)
		}
	}
}

func TestSearchStartsFromItsOwnResult(t *testing.T) {
	p := drawProblem(5, 5, 12)
	first, err := Search(p, Budget{Steps: 200_000}, 1)
	if err != nil || first.After >= first.Before || first.Moved == 0 {
		t.Fatalf("%+v, %v: expected a lower cost", first, err)
	}
	p.Weights = Weights{Task: 100, Service: 100, Distance: 100} // no gain is worth a move
	for task := range p.Tasks {
		p.Tasks[task].Start, p.Tasks[task].Cost = first.Instances[task], 1e6
	}
	again, err := Search(p, Budget{Steps: 50_000}, 2)
	if err != nil || again.Moved != 0 || again.After != again.Before {
		t.Errorf("it moves %d tasks, cost %d to %d, %v", again.Moved, again.Before, again.After, err)
	}
}

func TestBudget(t *testing.T) {
	p := drawProblem(1, 4, 10)
	none, err := Search(p, Budget{}, 1)
	if err != nil || none.Steps != 0 || none.Moved != 0 {
		t.Errorf("without a budget: %+v, %v", none, err)
	}
	calls := 0
	timed, err := Search(p, Budget{Used: func() float64 { calls++; return float64(calls) / 4 }}, 1)
	if err != nil || timed.Steps != 3*checkInterval {
		t.Errorf("after three looks at the clock: %d steps, %v", timed.Steps, err)
	}
}

// Two tasks on full instances change places if a third instance has room for one of them.
func TestPlanStagesExchanges(t *testing.T) {
	full := func(n int64) Instance { return Instance{Capacity: []int64{n}, Safety: []int64{n}} }
	p := &Problem{Resources: []Resource{{Overload: 1}}, Services: []Service{{}, {}},
		Tasks:     []Task{{Needs: []int64{5}}, {Service: 1, Start: 1, Needs: []int64{5}}},
		Instances: []Instance{full(5), full(5), full(5)},
		Weights:   Weights{Distance: 1},
		Distances: []int32{0, -3, 0, -3, 0, 0, 0, 0, 0}} // the exchange is worth 6
	plan, err := PlanMoves(p, []int32{1, 0})
	if err != nil || len(plan.Moves) != 3 || plan.Staged != 1 || plan.Unplanned != 0 || plan.After != -6 {
		t.Errorf("%+v, %v: expected three moves, one to wait", plan, err)
	}
	p.Instances[2].Capacity[0] = 4
	plan, err = PlanMoves(p, []int32{1, 0})
	if err != nil || len(plan.Moves) != 0 || plan.Unplanned != 2 || plan.After != 0 {
		t.Errorf("%+v, %v: expected no move, as no instance has room", plan, err)
	}
}

// A task waits on a third instance only if another one can move then: here the large task never fits
// where the small one starts, so that only the large one has to make room.
func TestTasksWaitOnlyWhereThatFreesAnother(t *testing.T) {
	of := func(capacity, safety int64) Instance {
		return Instance{Capacity: []int64{capacity}, Safety: []int64{safety}}
	}
	p := &Problem{Resources: []Resource{{Overload: 1}}, Services: []Service{{}, {}},
		Tasks:     []Task{{Needs: []int64{4}}, {Service: 1, Start: 1, Needs: []int64{5}}},
		Instances: []Instance{of(4, 0), of(5, 5), of(9, 9)}}
	plan, err := PlanMoves(p, []int32{1, 0})
	if err != nil || len(plan.Moves) != 2 || plan.Moves[0].Task != 1 || plan.Moves[0].To != 2 ||
		plan.Moves[1].Task != 0 || plan.Moves[1].To != 1 || plan.Unplanned != 1 || plan.After != 0 {
		t.Errorf("%+v, %v: expected that task 1 waits on instance 2 while task 0 takes its place", plan, err)
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(p *Problem)
		want  string
	}{
		"NoInstances": {func(p *Problem) { p.Instances = nil }, "there are 0 instances"},
		"Distances":   {func(p *Problem) { p.Distances = p.Distances[1:] }, "there are 15 distances, expected 16"},
		"Capacities":  {func(p *Problem) { p.Instances[2].Capacity = nil }, "instance 2 has 0 capacities"},
		"Zone":        {func(p *Problem) { p.Instances[1].Zone = -1 }, "instance 1 is in zone -1"},
		"Dependency": {func(p *Problem) { p.Services[1].DependsOn = []int32{6} },
			"service 1 depends on service 6, expected 0 to 5"},
		"Service":      {func(p *Problem) { p.Tasks[3].Service = 6 }, "task 3 is of service 6, expected 0 to 5"},
		"Start":        {func(p *Problem) { p.Tasks[3].Start = 4 }, "task 3 is on instance 4, expected 0 to 3"},
		"Needs":        {func(p *Problem) { p.Tasks[3].Needs = nil }, "task 3 needs 0 resources, expected 2"},
		"NegativeNeed": {func(p *Problem) { p.Tasks[3].Needs[1] = -1 }, "task 3 needs -1"},
		"Balance": {func(p *Problem) { p.Balances[0].Second = 2 },
			"balance 0 is between resources 0 and 2, expected 0 to 1"},
		"Base": {func(p *Problem) { p.Instances[1].Base = []int64{1} },
			"instance 1 has 1 base loads, expected 2"},
		"EvennessBelow": {func(p *Problem) { p.Evens = []Evenness{{Resource: -1, Mean: 1}} },
			"evenness 0 is of resource -1"},
		"EvennessBeyond": {func(p *Problem) { p.Evens = []Evenness{{Resource: 2, Mean: 1}} },
			"evenness 0 is of resource 2"},
		"EvennessMean":   {func(p *Problem) { p.Evens = []Evenness{{Weight: 1}} }, "with mean 0"},
		"EvennessNoMean": {func(p *Problem) { p.Evens = []Evenness{{Mean: math.NaN()}} }, "with mean NaN"},
		"EvennessWeight": {func(p *Problem) { p.Evens = []Evenness{{Mean: 1, Weight: -1}} },
			"weight -1, expected 0 to 1,"},
		"EvennessApart": {func(p *Problem) { p.Evens = []Evenness{{Mean: 1, Apart: []bool{true}}} },
			"evenness 0 knows 1 instances, expected 4"},
		"SpreadBelow": {func(p *Problem) { p.Spreads = []Spread{{Service: -1}} }, "spread 0 is of service -1"},
		"SpreadBeyond": {func(p *Problem) { p.Spreads = []Spread{{Service: 6}} },
			"of service 6 over 0 instances, expected 0 to 5"},
		"SpreadGroups": {func(p *Problem) { p.Spreads = []Spread{{GroupOf: []int32{0, 0, 0}}} },
			"over 3 instances, expected 0 to 5, and 4 instances"},
		"SpreadGroup": {func(p *Problem) { p.Spreads = []Spread{{GroupOf: []int32{0, 0, -1, 0}}} }, "groups from 0"},
		"Overflow":    {func(p *Problem) { p.Resources[0].Overload = 1 << 60 }, "costs may reach"},
	} {
		t.Run(name, func(t *testing.T) {
			p := drawProblem(1, 4, 10)
			c.spoil(p)
			if _, err := Search(p, Budget{Steps: 1}, 1); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected %q", err, c.want)
			}
			if _, err := PlanMoves(p, make([]int32, 10)); err == nil {
				t.Error("PlanMoves accepts it")
			}
		})
	}
}
