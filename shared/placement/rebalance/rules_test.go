package rebalance

import (
	"slices"
	"testing"
)

// drawRuledProblem returns a problem with every rule. Some instances hold more than they have, some
// services share instances that they should not share or are in fewer zones than they should, and
// where a service has a task, so have those that it depends on.
func drawRuledProblem(seed uint64) *Problem {
	g := &generator{seed}
	p := drawProblem(seed, 5+g.below(70), 40)
	for i := range p.Instances {
		x := &p.Instances[i]
		x.Zone, x.Neighborhood = int32(g.below(4)), int32(g.below(3))
		if g.below(4) == 0 {
			x.Capacity[0] = max(0, x.Capacity[0]-int64(g.below(30)))
		}
	}
	for s := range p.Services {
		p.Services[s].LeastZones = int32(g.below(4))
		p.Services[s].Exclusive = p.Services[s].Exclusive || g.below(2) == 0
	}
	hoods := make([]map[int32]bool, len(p.Services))
	for t := range p.Tasks {
		x := &p.Tasks[t]
		if hoods[x.Service] == nil {
			hoods[x.Service] = map[int32]bool{}
		}
		hoods[x.Service][p.Instances[x.Start].Neighborhood] = true
	}
	for s := range p.Services {
		for d := range p.Services {
			covers := g.below(2) == 0
			for hood := range hoods[s] {
				covers = covers && hoods[d][hood]
			}
			if covers && len(p.Services[s].DependsOn) < 2 {
				p.Services[s].DependsOn = append(p.Services[s].DependsOn, int32(d))
			}
		}
	}
	return p
}

// costOf returns what the assignment costs, by the definitions of [Problem].
func costOf(p *Problem, at []int32) (cost int64) {
	for i := range p.Instances {
		x := &p.Instances[i]
		used := make([]int64, len(p.Resources))
		copy(used, x.Base)
		for t := range p.Tasks {
			if at[t] == int32(i) {
				for r, n := range p.Tasks[t].Needs {
					used[r] += n
				}
			}
		}
		for r := range p.Resources {
			cost += p.Resources[r].Overload * max(0, used[r]-x.Safety[r])
		}
		for _, b := range p.Balances {
			first, second := x.Capacity[b.First]-used[b.First], x.Capacity[b.Second]-used[b.Second]
			cost += b.Weight * max(0, b.Ratio*first-second)
		}
		for _, e := range p.Evens {
			if off := float64(used[e.Resource])/e.Mean - 1; e.Apart == nil || !e.Apart[i] {
				cost += int64(e.Weight * off * off)
			}
		}
	}
	for _, x := range p.Spreads {
		inGroup := map[int32]int64{}
		for t := range p.Tasks {
			if group := at[t]; p.Tasks[t].Service == x.Service {
				if x.GroupOf != nil {
					group = x.GroupOf[group]
				}
				inGroup[group]++
			}
		}
		for _, n := range inGroup {
			cost += x.Weight * n * n
		}
	}
	moved := make([]int64, len(p.Services)+1)
	for t, x := range p.Tasks {
		if at[t] != x.Start {
			moved[x.Service]++
			cost += x.Cost*p.Weights.Task +
				p.Weights.Distance*int64(p.Distances[int(x.Start)*len(p.Instances)+int(at[t])])
		}
	}
	return cost + p.Weights.Service*slices.Max(moved)
}

// held returns how much of a resource is taken up on the instance.
func held(p *Problem, at []int32, i int32, r int) (sum int64) {
	if base := p.Instances[i].Base; base != nil {
		sum = base[r]
	}
	for t, x := range p.Tasks {
		if at[t] == i || p.Resources[r].Transit && x.Start == i {
			sum += x.Needs[r]
		}
	}
	return sum
}

// count returns the number of the service's tasks on instances of which f is true.
func count(p *Problem, at []int32, s int32, f func(i int32) bool) (n int) {
	for t, x := range p.Tasks {
		if x.Service == s && f(at[t]) {
			n++
		}
	}
	return n
}

func zoneCount(p *Problem, at []int32, s int32) (n int) {
	for zone := range int32(8) {
		if count(p, at, s, func(i int32) bool { return p.Instances[i].Zone == zone }) > 0 {
			n++
		}
	}
	return n
}

// worsens returns the rule that a change of the assignment breaks further, or "". Rules are those
// of [Problem].
func worsens(p *Problem, before, after []int32) string {
	for t := range p.Tasks {
		switch {
		case before[t] == after[t]:
		case p.Tasks[t].Fixed:
			return "fixed"
		case p.Allows != nil && !p.Allows(int32(t), after[t]):
			return "allowed"
		}
	}
	for i := range int32(len(p.Instances)) {
		for r := range p.Resources {
			if n := held(p, after, i, r); n > held(p, before, i, r) && n > p.Instances[i].Capacity[r] {
				return "capacity"
			}
		}
	}
	for s := range int32(len(p.Services)) {
		for i := range int32(len(p.Instances)) {
			here := func(j int32) bool { return i == j }
			if n := count(p, after, s, here); p.Services[s].Exclusive && n > 1 && n > count(p, before, s, here) {
				return "exclusive"
			}
		}
		if p.Services[s].Domains != nil && breaksThirds(p, before, after, s) {
			return "domains"
		}
		if now, was := zoneCount(p, after, s), zoneCount(p, before, s); now < was &&
			now < int(p.Services[s].LeastZones) {
			return "zones"
		}
		for hood := range int32(max(3, len(p.Instances))) {
			within := func(i int32) bool { return p.Instances[i].Neighborhood == hood }
			for _, d := range p.Services[s].DependsOn {
				if count(p, after, s, within) > 0 && count(p, after, d, within) == 0 {
					return "dependency"
				}
			}
		}
	}
	return ""
}

// A move or an exchange is possible if and only if it makes no rule worse, and changes the cost by
// what it says, wherever moves and exchanges have led.
func TestTriesAgreeWithTheDefinitions(t *testing.T) {
	tryChanges(t, drawRuledProblem, "", "capacity", "exclusive", "zones", "dependency")
}

// tryChanges tries random changes of drawn problems. Each of the results must come up often.
func tryChanges(t *testing.T, draw func(seed uint64) *Problem, results ...string) {
	t.Helper()
	refused := map[string]int{}
	for seed := range uint64(40) {
		p := draw(seed)
		s := newAnnealing(p, seed)
		for range 120 {
			before, cost := slices.Clone(s.at), costOf(p, s.at)
			if s.cost != cost {
				t.Fatalf("seed %d: the cost is %d, expected %d", seed, s.cost, cost)
			}
			task, other, to := s.drawTask(), s.drawTask(), s.drawInstance()
			exchanged := s.random.below(2) == 0
			after := slices.Clone(before)
			if after[task] = to; exchanged {
				after[task], after[other] = before[other], before[task]
			}
			if before[task] == after[task] {
				continue
			}
			change, ok := int64(0), false
			if exchanged {
				change, ok = s.tryExchange(task, other)
			} else {
				change, ok = s.tryShift(task, to)
			}
			rule := worsens(p, before, after)
			if refused[rule]++; ok != (rule == "") {
				t.Fatalf("seed %d: possible is %v, the rule that gets worse %q", seed, ok, rule)
			}
			if !ok {
				continue
			}
			if want := costOf(p, after) - cost; change != want {
				t.Fatalf("seed %d: the change is said to cost %d, expected %d", seed, change, want)
			}
			if s.temperature = 1e18; exchanged { // accepts everything
				s.exchange(task, other)
			} else {
				s.shift(task, to)
			}
			if !slices.Equal(s.at, after) {
				t.Fatalf("seed %d: the tasks are on %v, expected %v", seed, s.at, after)
			}
		}
		recount(t, s.assignment)
	}
	for _, rule := range results {
		if refused[rule] < 20 {
			t.Errorf("%d tries end with %q, expected more", refused[rule], rule)
		}
	}
}

// A rearrangement makes no rule worse, and no lifted task is left out.
func TestRearrangementsKeepTheRules(t *testing.T) { tryRearrangements(t, drawRuledProblem) }

func tryRearrangements(t *testing.T, draw func(seed uint64) *Problem) {
	t.Helper()
	rearranged := 0
	for seed := range uint64(60) {
		p := draw(seed)
		s := newAnnealing(p, seed)
		s.temperature = 1e18
		for range 20 {
			before := slices.Clone(s.at)
			s.rearrange()
			if rule := worsens(p, before, s.at); rule != "" {
				t.Fatalf("seed %d: it makes %s worse", seed, rule)
			}
			if s.cost != costOf(p, s.at) || len(s.lifted)+len(s.following) > 0 {
				t.Fatalf("seed %d: the cost is %d, expected %d; %v are lifted", seed, s.cost, costOf(p, s.at), s.lifted)
			}
			if !slices.Equal(before, s.at) {
				rearranged++
			}
		}
		recount(t, s.assignment)
	}
	if rearranged < 100 {
		t.Errorf("%d rearrangements, expected more", rearranged)
	}
}

// The result of a search and each step of the plan that leads there keep the rules and cost what
// they say.
func TestResultsKeepTheRules(t *testing.T) {
	searchAndPlan(t, drawRuledProblem, Budget{Steps: 3 * checkInterval})
}

// searchAndPlan checks the results of searches in drawn problems, and the plans that lead there.
func searchAndPlan(t *testing.T, draw func(seed uint64) *Problem, b Budget) {
	t.Helper()
	moved, planned := 0, 0
	for seed := range uint64(30) {
		p := draw(seed)
		start := newAssignment(p).at
		result, err := Search(p, b, seed)
		if err != nil {
			t.Fatal(err)
		}
		if rule := worsens(p, start, result.Instances); rule != "" {
			t.Fatalf("seed %d: the result makes %s worse", seed, rule)
		}
		if result.Before != costOf(p, start) || result.After != costOf(p, result.Instances) ||
			result.After > result.Before || result.Steps != b.Steps {
			t.Fatalf("seed %d: %+v", seed, result)
		}
		plan, err := PlanMoves(p, result.Instances)
		if err != nil {
			t.Fatal(err)
		}
		moved, planned = moved+result.Moved, planned+len(plan.Moves)
		checkPlan(t, p, result.Instances, plan)
	}
	if planned < 200 || planned*5 < moved*2 {
		t.Errorf("%d moves planned for %d moved tasks, expected more", planned, moved)
	}
}

// checkPlan carries a plan out, move by move.
func checkPlan(t *testing.T, p *Problem, target []int32, plan *Plan) {
	t.Helper()
	at := newAssignment(p).at
	least, staged, unplanned := costOf(p, at), 0, 0
	for n, m := range plan.Moves {
		before, cost := slices.Clone(at), costOf(p, at)
		if at[m.Task] != m.From {
			t.Fatalf("move %d is from %d, the task is on %d", n, m.From, at[m.Task])
		}
		at[m.Task] = m.To
		if rule := worsens(p, before, at); rule != "" {
			t.Fatalf("move %d makes %s worse", n, rule)
		}
		if now := costOf(p, at); m.Gain != cost-now {
			t.Fatalf("move %d gains %d, expected %d", n, m.Gain, cost-now)
		} else if now >= least && n == len(plan.Moves)-1 {
			t.Fatalf("the plan does not end where the cost is lowest")
		} else {
			least = min(least, now)
		}
		if m.To != target[m.Task] {
			staged++
		}
	}
	for task := range at {
		if at[task] != target[task] {
			unplanned++
		}
	}
	if plan.After != costOf(p, at) || plan.Staged != staged || plan.Unplanned != unplanned {
		t.Fatalf("%+v: expected cost %d, %d to wait, %d left", plan, costOf(p, at), staged, unplanned)
	}
}

// Where two services that share no instance have two tasks each on one, the instance is free for a
// service once both of its own tasks have left.
func TestInstancesAreOccupiedUntilTheLastTaskLeaves(t *testing.T) {
	p := freeProblem(3, 4, 2)
	for task := range p.Tasks {
		p.Tasks[task].Start = 0
	}
	p.Services[0].Exclusive, p.Services[1].Exclusive = true, true
	a := newAssignment(p)
	for n, task := range []int32{0, 2} { // of service 0
		a.moveTask(task, int32(1+n))
		if isOccupied := a.rules.isOccupied(0, 0); isOccupied != (n == 0) || !a.rules.isOccupied(1, 0) {
			t.Errorf("after %d tasks left: whether the instance is occupied is %v", n+1, isOccupied)
		}
	}
}

// The bound of what assignments may cost is never below what one does.
func TestCostBound(t *testing.T) {
	for seed := range uint64(20) {
		p := drawRuledProblem(seed)
		a := newAssignment(p)
		for task := range p.Tasks {
			a.moveTask(int32(task), 0)
		}
		if most := p.costBound(); float64(a.cost) > most {
			t.Errorf("seed %d: the cost is %d, the bound %g", seed, a.cost, most)
		}
	}
	p := &Problem{
		Resources: []Resource{{Overload: 3}, {}}, Services: []Service{{}},
		Instances: []Instance{{Capacity: []int64{100, 1000}, Safety: []int64{0, 0}},
			{Capacity: []int64{200, 2000}, Safety: []int64{0, 0}}},
		Tasks:     []Task{{Needs: []int64{10, 20}, Cost: 7}},
		Balances:  []Balance{{First: 0, Second: 1, Ratio: 5, Weight: 2}},
		Evens:     []Evenness{{Resource: 0, Weight: 2, Mean: 4}},
		Spreads:   []Spread{{Service: 0, Weight: 5}},
		Weights:   Weights{Task: 11, Service: 13, Distance: 17},
		Distances: []int32{0, 4, 6, 0},
	}
	want := 10.*3 + 20 + // loads
		2*(5*300+3000) + 2*(5*10+20) + // balances
		2*(2.5*2.5+2) + 5*1 + // evenness of 10 over a mean of 4 on two instances, and a spread
		7*11 + 13 + 6*17 // moves
	if got := p.costBound(); got != want {
		t.Errorf("the bound is %g, expected %g", got, want)
	}
}
