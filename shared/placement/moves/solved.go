package moves

import (
	"slices"

	"berth/shared/constraint"
)

// Where something is broken that no moves mend, or whose moves cannot begin yet, the same problem
// is posed with every decision. Small ones, of which every way is tried, are remembered with their
// plans.

// mostSolved is how many problems are remembered: that of the rules, and those of services that
// wait for room.
const mostSolved = 4

type solvedProblem struct {
	problem *problem
	plan    *Plan
}

// planFor is the problem's plan; the caller changes nothing of it.
func (planner *Planner) planFor(p *problem) *Plan {
	for _, s := range planner.solved {
		if haveSamePlan(s.problem, p) {
			return s.plan
		}
	}
	plan := solveProblem(p)
	if !p.isSmall() || hasDynamicConstraints(p) {
		return plan
	}
	for i := range p.instances { // the snapshot changes its own
		p.instances[i].gpus, p.instances[i].ports = slices.Clone(p.instances[i].gpus),
			slices.Clone(p.instances[i].ports)
	}
	if len(planner.solved) == mostSolved {
		planner.solved = slices.Delete(planner.solved, 0, 1)
	}
	planner.solved = append(planner.solved, solvedProblem{p, plan})
	return plan
}

// isSmall reports whether the problem is so small that every way is tried.
func (p *problem) isSmall() bool { return p.movableCount()*len(p.instances) <= exactSize }

// hasDynamicConstraints reports whether a constraint goes by what runs on an instance: by more,
// that is, than the problem has.
func hasDynamicConstraints(p *problem) bool {
	return slices.ContainsFunc(p.owners, func(o problemOwner) bool {
		return slices.ContainsFunc(o.mover.Spec.Constraints, func(x *constraint.Expression) bool { return !x.Static() })
	})
}

// haveSamePlan reports whether two problems have the same plan.
func haveSamePlan(p *problem, o *problem) bool {
	return p.configuration == o.configuration && p.budget == o.budget &&
		slices.Equal(p.names, o.names) && slices.Equal(p.load, o.load) && slices.Equal(p.endingLoad, o.endingLoad) &&
		slices.Equal(p.unbuffered, o.unbuffered) && slices.Equal(p.total, o.total) &&
		slices.EqualFunc(p.owners, o.owners, func(a, b problemOwner) bool {
			return a.name == b.name &&
				a.mover == b.mover
		}) &&
		slices.EqualFunc(p.instances, o.instances, sameInstance) && slices.EqualFunc(p.tasks, o.tasks, sameTask)
}

func sameInstance(a, b problemInstance) bool {
	return a.row == b.row && a.unpinned == b.unpinned && slices.Equal(a.gpus, b.gpus) &&
		slices.Equal(a.ports, b.ports) && slices.Equal(a.endingOwners, b.endingOwners)
}

func sameTask(a, b problemTask) bool {
	return a.id == b.id && a.owner == b.owner && a.initial == b.initial && a.cost == b.cost && a.movable == b.movable &&
		a.needs == b.needs &&
		slices.Equal(a.amounts, b.amounts) && slices.Equal(a.gpus, b.gpus) && slices.Equal(a.ports, b.ports)
}
