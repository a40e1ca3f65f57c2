package moves

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/domain"
	"berth/shared/placement/rebalance"
)

// A balancing is the problem of moves once more, as the search of package rebalance reads it, and
// what the goals count. Whether a move may be made, the problem of moves decides in the end.
type balancing struct {
	problem *problem
	planner *Planner
	goals   *Goals
	metrics []metricGoal
	tally   *tally
	guard   *assignment // nil until moves are planned
}

// A metricGoal is a goal of a metric with what it refers to.
type metricGoal struct {
	MetricGoal
	dim   int32
	apart []bool // instances that no movable task with the metric could use
	count int    // of the others
	mean  float64
	// packs says that load is gathered on ever fewer instances, without a number of instances to empty.
	packs bool
}

// searchScale is what a distance of 1 costs in the search, which counts in whole numbers. Squares
// of deviations, and of loads of thousands of instances, stay within what 64 bits hold.
const searchScale = 1e10

// moveCharge is the least that a move has to gain: it pays for a task of the average load if the loads of
// the two instances differ by that load and half the charge, in multiples of the mean load of an instance
// and for a metric of weight 1. Costlier tasks have to gain more: a unit of move cost adds a tenth.
const (
	moveCharge     = 0.25
	chargePerUnit  = 0.1
	gpuThousandths = 1000
)

// newBalancing returns the problem of moves with the goals of the request, and its tally as the tasks are.
func newBalancing(p *Planner, r BalanceRequest) *balancing {
	r.whole = true
	goals := r.Goals
	if goals == nil {
		goals = p.GoalsOf()
	}
	b := &balancing{problem: p.newProblem(r.Request, nil), planner: p, goals: goals}
	for t := range b.problem.tasks {
		task := &b.problem.tasks[t]
		o := &b.problem.owners[task.owner].mover
		task.movable = task.movable && task.task.Last == cluster.TaskRunning && !dependsOnTasks(o.Spec)
	}
	b.addMetrics()
	b.tally = newTally(b)
	return b
}

// dependsOnTasks reports whether a constraint depends on which tasks are on an instance. Such tasks
// stay: their constraint was about the moment in which they were placed.
func dependsOnTasks(s *placement.Spec) bool {
	for _, x := range s.Constraints {
		if !x.Static() {
			return true
		}
	}
	return false
}

// addMetrics adds the goals of metrics that some movable task uses, in the order of names. Weights
// are in multiples of the highest: only their proportions matter.
func (b *balancing) addMetrics() {
	p := b.problem
	users := make([]map[int32]bool, p.dimensionCount()) // owners
	for t := range p.tasks {
		if !p.tasks[t].movable {
			continue
		}
		for _, a := range p.tasks[t].amounts {
			if a.amount > 0 && users[a.dim] == nil {
				users[a.dim] = map[int32]bool{}
			}
			if a.amount > 0 {
				users[a.dim][p.tasks[t].owner] = true
			}
		}
	}
	highest := 0.0
	for _, g := range b.goals.Metrics {
		highest = max(highest, g.Weight)
	}
	goals := slices.SortedFunc(slices.Values(b.goals.Metrics),
		func(x, y MetricGoal) int { return strings.Compare(x.Name, y.Name) })
	for _, g := range goals {
		dim := int32(slices.Index(p.names, g.Name))
		if dim < 0 || users[dim] == nil || g.Weight <= 0 && g.Safety <= 0 && !g.Gather {
			continue
		}
		g.Weight /= max(highest, math.SmallestNonzeroFloat64)
		out := metricGoal{MetricGoal: g, dim: dim, apart: make([]bool, len(p.instances))}
		for i := range p.instances {
			usable := false
			for o := range users[dim] {
				usable = usable || p.canHostTaskOf(o, int32(i))
			}
			if out.apart[i] = !usable; usable {
				out.count++
				out.mean += float64(p.load[p.cellIndex(int32(i), dim)])
			}
		}
		out.packs = g.Gather && g.Weight > 0 && b.goals.EmptyCount == 0 && b.goals.EmptyShare == 0 && out.count > 1
		if out.mean > 0 {
			out.mean /= float64(out.count)
			b.metrics = append(b.metrics, out)
		}
	}
}

// newSearchProblem translates the problem. The dimensions are the resources; the last one is GPUs
// in thousandths, whose devices only the problem of moves tells apart.
func (b *balancing) newSearchProblem() *rebalance.Problem {
	p := b.problem
	width := p.dimensionCount() + 1
	out := &rebalance.Problem{Resources: make([]rebalance.Resource, width), Weights: rebalance.Weights{Task: 1},
		Together: p.hasAffinity, Instances: make([]rebalance.Instance, 0, len(p.instances)),
		Tasks: make([]rebalance.Task, 0, len(p.tasks))}
	// One allocation for all amounts: there are tens of thousands of tasks.
	free := make([]int64, width*(3*len(p.instances)+len(p.tasks)))
	amounts := func() (some []int64) {
		some, free = free[:width:width], free[width:]
		return some
	}
	for i := range p.instances {
		x := rebalance.Instance{Capacity: amounts(), Base: amounts(), Safety: amounts()}
		if p.hasAffinity {
			x.Neighborhood = int32(i)
		}
		for dim := range int32(width - 1) {
			c := p.cellIndex(int32(i), dim)
			x.Capacity[dim], x.Base[dim], x.Safety[dim] = p.withoutReserved(c), p.load[c], unlimited
		}
		for _, unused := range p.instances[i].gpus {
			x.Capacity[width-1] += int64(unused)
		}
		x.Safety[width-1] = unlimited
		out.Instances = append(out.Instances, x)
	}
	charge := moveCharge * searchScale / float64(max(1, len(p.tasks)))
	for t := range p.tasks {
		task := &p.tasks[t]
		x := rebalance.Task{Service: task.owner, Start: task.initial, Needs: amounts(),
			Cost: int64(charge * (1 + chargePerUnit*float64(task.cost))), Fixed: !task.movable}
		base := out.Instances[task.initial].Base
		for _, a := range task.amounts {
			x.Needs[a.dim] += a.amount
			base[a.dim] -= a.amount
		}
		if n := task.needs.GPUs; n > 0 {
			x.Needs[width-1] = int64(n) * gpuThousandths
			if task.needs.GPUMilli > 0 {
				x.Needs[width-1] = int64(task.needs.GPUMilli)
			}
			out.Instances[task.initial].Capacity[width-1] += x.Needs[width-1]
		}
		out.Tasks = append(out.Tasks, x)
	}
	b.addSearchServices(out)
	b.addSearchGoals(out)
	return out
}

// addSearchServices adds the owners with their rules, and which instances their tasks may be on.
func (b *balancing) addSearchServices(out *rebalance.Problem) {
	p := b.problem
	for o := range p.owners {
		owner := &p.owners[o]
		x := rebalance.Service{Exclusive: owner.maxPerInstance == 1}
		if owner.parent != noParent {
			x.DependsOn = []int32{owner.parent}
		}
		if owner.domains != nil {
			rule := domain.NewRule(owner.mover.Spec.DomainPolicy, owner.mover.Target, &b.planner.snap.Configuration)
			x.Domains = func() rebalance.Domains { return owner.domains.WithoutTasks(rule) }
		}
		out.Services = append(out.Services, x)
	}
	providers := make([]string, len(p.instances))
	for i := range p.instances {
		providers[i] = p.instances[i].row.CapacityProvider()
	}
	mayJoin := b.nodesOfApplications()
	out.Allows = func(t, i int32) bool {
		task := &p.tasks[t]
		if i == task.initial {
			return true
		}
		if a := p.owners[task.owner].application; a != noApplication && mayJoin[a] != nil && !mayJoin[a][i] &&
			p.applications[a].initial.counted[task.initial] > 1 { // one alone takes its place along
			return false
		}
		return p.canHostTaskOf(task.owner, i) && !p.lacksReservation(task.owner, i) &&
			(!p.owners[task.owner].mover.KeepProvider ||
				providers[i] == providers[task.initial])
	}
}

// addSearchGoals adds evenness, safety levels, instances to empty, and spreads.
func (b *balancing) addSearchGoals(out *rebalance.Problem) {
	p := b.problem
	targets := b.instancesToEmpty()
	for n := range b.metrics {
		g := &b.metrics[n]
		if !g.Gather && g.Weight > 0 {
			out.Evens = append(out.Evens, rebalance.Evenness{Resource: g.dim, Mean: g.mean, Apart: g.apart,
				Weight: g.Weight * searchScale / float64(g.count)})
		}
		if g.packs {
			out.Evens = append(out.Evens, rebalance.Evenness{Resource: g.dim, Mean: g.mean, Apart: g.apart, Few: true,
				Weight: b.scatterWeight(g) * searchScale})
		}
		weight := 0.0
		for i := range p.instances {
			c := p.cellIndex(int32(i), g.dim)
			if g.Safety > 0 && p.unbuffered[c] < unlimited {
				out.Instances[i].Safety[g.dim] = int64(g.Safety * float64(p.unbuffered[c]))
				weight = safetyWeight
			}
			if g.Gather && targets[int32(i)] {
				out.Instances[i].Safety[g.dim] = 0
				weight = max(weight, b.goals.Empty)
			}
		}
		out.Resources[g.dim].Overload = max(1, int64(weight*searchScale/(g.mean*float64(g.count))))
	}
	groups := b.groupings()
	for o := range p.owners {
		spec := p.owners[o].mover.Spec
		for _, kind := range spreadKindsOf(spec) {
			if weight := b.weightOf(kind); weight > 0 {
				out.Spreads = append(out.Spreads, rebalance.Spread{Service: int32(o), GroupOf: groups[kind],
					Weight: int64(weight * searchScale / float64(max(1, len(p.tasks))))})
			}
		}
	}
}

// A spreadKind is what a service's tasks are spread over.
type spreadKind uint8

const (
	overZones spreadKind = iota
	overDomains
	overInstances
	spreadKinds
)

func (b *balancing) weightOf(kind spreadKind) float64 {
	return [spreadKinds]float64{b.goals.Zones, b.goals.Domains, b.goals.Instances}[kind]
}

// spreadKindsOf returns what the owner's tasks should be spread over (S2, S3): as its strategies
// say, up to the first that says something else; without strategies over zones and instances; with
// a domain policy over fault domains.
func spreadKindsOf(spec *placement.Spec) (kinds []spreadKind) {
	if spec.IsGoverned() {
		return []spreadKind{overDomains}
	}
	if len(spec.Strategies) == 0 {
		if spec.Scoring != "" {
			return nil
		}
		return []spreadKind{overZones, overInstances}
	}
	for _, s := range spec.Strategies {
		switch {
		case s.Type != cluster.StrategySpread:
			return kinds
		case s.Field == "attribute:"+cluster.AttributeZone:
			kinds = append(kinds, overZones)
		case !strings.HasPrefix(s.Field, "attribute:"):
			return append(kinds, overInstances)
		default:
			return kinds
		}
	}
	return kinds
}

// groupings returns the group of each instance: its zone, and its fault domain. Each instance is
// its own group, which nil stands for.
func (b *balancing) groupings() (out [spreadKinds][]int32) {
	for kind, name := range map[spreadKind]func(*problemInstance) string{
		overZones:   func(i *problemInstance) string { return i.view.Zone() },
		overDomains: func(i *problemInstance) string { return i.view.FaultDomain() },
	} {
		number := map[string]int32{}
		for i := range b.problem.instances {
			key := name(&b.problem.instances[i])
			if _, known := number[key]; !known {
				number[key] = int32(len(number))
			}
			out[kind] = append(out[kind], number[key])
		}
	}
	return out
}

// isWanted reports whether something is out of balance.
func (b *balancing) isWanted(now *Balance) bool {
	if now.Zones+now.Domains+now.Instances > 0 || now.Empty < now.EmptyWanted {
		return true
	}
	return slices.ContainsFunc(now.Metrics, func(m MetricBalance) bool { return !m.Balanced || m.Unsafe > 0 })
}

// MakeMoves makes moves to one instance that the search has ordered, if the problem of moves allows
// all of them: there is room without the buffer, in ports and devices too, and no rule is broken
// further. A limit that was exceeded at the start is not a measure here: moves that balance come one after
// the other, so what an earlier one has put right must not be undone.
func (b *balancing) MakeMoves(tasks []int32, to int32) bool {
	s, made, before := b.guard, len(b.guard.movedTasks), b.guard.score
	for _, t := range tasks {
		domains := b.problem.owners[b.problem.tasks[t].owner].domains
		if !s.hasRoomFor(stageKeep, t, to) || !keepsLimits(s, t, to) || !keepsNodes(s, t, to) ||
			domains != nil && !domains.MayMove(int(s.at[t]), int(to)) {
			s.undoMovesTo(made)
			s.score = before
			return false
		}
		s.moveTask(t, to, openViolation{task: t})
	}
	for _, t := range tasks {
		if _, apart := separatedBy(s, stageKeep, t); apart {
			s.undoMovesTo(made)
			s.score = before
			return false
		}
	}
	return true
}

// keepsLimits reports whether the instance is within its limits, without the buffer, with the task there as
// well. What the task does not add to does not matter.
func keepsLimits(s *assignment, t, i int32) bool {
	for _, a := range s.problem.tasks[t].amounts {
		c, used := s.problem.cellIndex(i, a.dim), usedWith(s, t, i, a)
		if used > s.problem.unbuffered[c] && used > usedOf(s, c) {
			return false
		}
	}
	return true
}

// nodesOfApplications returns which instances the tasks of each application may be on after a search,
// which does not know how many there may be: those with its tasks and, as long as there may be more, the
// ones with the fewest tasks. A task alone on its instance may go anywhere. An application without such a limit
// has nil.
func (b *balancing) nodesOfApplications() [][]bool {
	p := b.problem
	out := make([][]bool, len(p.applications))
	for a := range p.applications {
		x := &p.applications[a]
		if x.maximumNodes == 0 {
			continue
		}
		out[a] = make([]bool, len(p.instances))
		var others []int32
		for i, n := range x.initial.counted {
			if out[a][i] = n > 0; n == 0 && slices.ContainsFunc(p.owners, func(o problemOwner) bool {
				return o.application == int32(a) && o.suits(i) && !o.isAvoided(i) && p.instances[i].takesTasks
			}) {
				others = append(others, int32(i))
			}
		}
		slices.SortStableFunc(others, func(i, k int32) int {
			return cmp.Compare(len(p.instances[i].view.Tasks), len(p.instances[k].view.Tasks))
		})
		for _, i := range others[:min(len(others), max(0, x.maximumNodes-x.initial.nodes))] {
			out[a][i] = true
		}
	}
	return out
}
