package rebalance

import (
	"slices"
	"testing"
)

// drawTogetherProblem returns a problem in which each instance is a neighborhood of its own. Some
// services depend on one or two others, and their tasks are where those have tasks.
func drawTogetherProblem(seed uint64) *Problem {
	g := &generator{seed}
	p := &Problem{Resources: []Resource{{Overload: 3}, {Transit: true, Overload: 1}}, Together: true,
		Weights: Weights{Task: 1, Service: 5, Distance: 1}, Services: make([]Service, 8)}
	instances := 4 + g.below(6)
	for i := range instances {
		p.Instances = append(p.Instances, Instance{Neighborhood: int32(i), Safety: []int64{10, 20},
			Capacity: []int64{int64(40 + g.below(60)), int64(40 + g.below(60))}})
		for range instances {
			p.Distances = append(p.Distances, int32(g.below(4)))
		}
	}
	has := func(s, i int32) bool {
		return slices.ContainsFunc(p.Tasks, func(t Task) bool { return t.Service == s && t.Start == i })
	}
	for s := range int32(len(p.Services)) {
		p.Services[s].Exclusive = g.below(4) == 0
		if s%2 == 1 {
			p.Services[s].DependsOn = []int32{s - 1}
		}
		if s == 7 {
			p.Services[s].DependsOn = []int32{6, 5}
		}
		for range 1 + g.below(4) {
			i := int32(g.below(instances))
			missing := func(d int32) bool { return !has(d, i) }
			if p.Services[s].Exclusive && has(s, i) || slices.ContainsFunc(p.Services[s].DependsOn, missing) {
				continue
			}
			p.Tasks = append(p.Tasks, Task{Service: s, Start: i, Cost: int64(g.below(5)), Fixed: g.below(12) == 0,
				Needs: []int64{int64(g.below(20)), int64(g.below(20))}})
		}
	}
	return p
}

// leftBehind returns the tasks that depend on this one alone: no other task of its service is beside
// them.
func leftBehind(p *Problem, at []int32, task int32) (out []int32) {
	here := func(i int32) bool { return i == at[task] }
	if count(p, at, p.Tasks[task].Service, here) > 1 {
		return nil
	}
	for u, x := range p.Tasks {
		if at[u] == at[task] && slices.Contains(p.Services[x.Service].DependsOn, p.Tasks[task].Service) {
			out = append(out, int32(u))
		}
	}
	return out
}

// A task takes along those that depend on it alone, if the rules allow all of them to move, and
// otherwise none moves. The journal leads back to where they were.
func TestTasksMoveTogether(t *testing.T) {
	together, refused := 0, 0
	for seed := range uint64(60) {
		p := drawTogetherProblem(seed)
		s := newAnnealing(p, seed)
		start := slices.Clone(s.at)
		for range 60 {
			s.temperature = 1e18 // accepts everything
			task, to := s.drawTask(), s.drawInstance()
			before, after := slices.Clone(s.at), slices.Clone(s.at)
			others := leftBehind(p, before, task)
			for _, u := range append([]int32{task}, others...) {
				after[u] = to
			}
			rule := worsens(p, before, after)
			if rule != "" {
				after = before
			}
			if s.shift(task, to); !slices.Equal(s.at, after) || s.cost != costOf(p, after) {
				t.Fatalf("seed %d: task %d moves to %d with %v, rule %q: they are on %v, expected %v; cost %d", seed, task,
					to, others, rule, s.at, after, s.cost)
			}
			switch {
			case before[task] == to || len(others) == 0:
			case rule == "":
				together++
			default:
				refused++
			}
		}
		recount(t, s.assignment)
		if s.journal.copyBest(s.at); !slices.Equal(s.journal.copied, start) {
			t.Fatalf("seed %d: the journal leads to %v, expected %v", seed, s.journal.copied, start)
		}
	}
	if together < 100 || refused < 100 {
		t.Errorf("%d moves together and %d refused, expected more", together, refused)
	}
}

// Where only gains are accepted, tasks that would lose by moving together stay, and the cost never
// rises.
func TestMovesTogetherThatLoseAreUndone(t *testing.T) {
	gained, kept := 0, 0
	for seed := range uint64(200) {
		s := newAnnealing(drawTogetherProblem(seed), seed)
		for n := range 60 {
			before, cost, task := slices.Clone(s.at), s.cost, s.drawTask()
			if n%2 == 0 {
				s.shift(task, s.drawInstance())
			} else {
				s.shiftToBest(task)
			}
			if rule := worsens(s.problem, before, s.at); rule != "" || s.cost > cost || s.cost != costOf(s.problem, s.at) {
				t.Fatalf("seed %d: the cost goes from %d to %d, worse is %q", seed, cost, s.cost, rule)
			}
			if len(leftBehind(s.problem, before, task)) == 0 {
				continue
			}
			if slices.Equal(before, s.at) {
				kept++
			} else {
				gained++
			}
		}
		recount(t, s.assignment)
	}
	if gained < 50 || kept < 50 {
		t.Errorf("%d moves together that gain and %d that lose, expected more", gained, kept)
	}
}

// The moves of a plan that are made together keep the rules once all of them are made, and gain what
// the first of them says.
func TestPlansMoveTasksTogether(t *testing.T) {
	together := 0
	for seed := range uint64(200) {
		p := drawTogetherProblem(seed)
		result, err := Search(p, Budget{Steps: 4 * checkInterval, Descend: seed%2 == 0}, seed)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := PlanMoves(p, result.Instances)
		if err != nil {
			t.Fatal(err)
		}
		at := newAssignment(p).at
		for n := 0; n < len(plan.Moves); {
			before, gain := slices.Clone(at), int64(0)
			for first := n; n < len(plan.Moves) && (n == first || plan.Moves[n].Together); n++ {
				m := plan.Moves[n]
				if at[m.Task] != m.From || n > first && (m.To != plan.Moves[first].To || m.Gain != 0) {
					t.Fatalf("seed %d: move %d of %+v", seed, n, plan.Moves)
				}
				at[m.Task] = m.To
				if gain += m.Gain; n > first {
					together++
				}
			}
			if rule := worsens(p, before, at); rule != "" || gain != costOf(p, before)-costOf(p, at) {
				t.Fatalf("seed %d: moves before %d of %+v make %q worse, or do not gain %d", seed, n, plan.Moves, rule,
					gain)
			}
		}
		if plan.After != costOf(p, at) {
			t.Fatalf("seed %d: the plan costs %d, expected %d", seed, plan.After, costOf(p, at))
		}
	}
	if together < 30 {
		t.Errorf("%d moves are made with another, expected more", together)
	}
}

// strictGuard refuses moves to the instance 0, and notes the others.
type strictGuard struct{ made map[[2]int32]bool }

func (g strictGuard) MakeMoves(tasks []int32, to int32) bool {
	for _, t := range tasks {
		g.made[[2]int32{t, to}] = to != 0
	}
	return to != 0
}

// A guard is asked about tasks that move together, too: a plan has no move that it refused or was not
// asked about.
func TestGuardsAreAskedAboutMovesTogether(t *testing.T) {
	together, refused := 0, 0
	for seed := range uint64(200) {
		p := drawTogetherProblem(seed)
		result, err := Search(p, Budget{Steps: 4 * checkInterval}, seed)
		if err != nil {
			t.Fatal(err)
		}
		guard := strictGuard{map[[2]int32]bool{}}
		plan, err := PlanMovesBy(p, result.Instances, guard)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range plan.Moves {
			if !guard.made[[2]int32{m.Task, m.To}] {
				t.Fatalf("seed %d: the guard has not made %+v", seed, m)
			}
			if m.Together {
				together++
			}
		}
		for _, made := range guard.made {
			if !made {
				refused++
			}
		}
	}
	if together < 20 || refused < 20 {
		t.Errorf("%d moves are made with another, %d are refused, expected more", together, refused)
	}
}
