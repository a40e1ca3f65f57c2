package moves

import (
	"slices"

	"berth/shared/constraint"
)

// A violation that no moves repair, or whose moves cannot begin yet, poses the same problem with
// every decision. Small problems, of which every way is tried, are remembered with their plans.

// mostSolved is how many problems are remembered: that of the rules, and those of services that
// wait for room.
const mostSolved = 4

type solvedProblem struct {
	problem *problem
	plan    *Plan
}

// planForProblem returns the problem's plan, which the caller must not change. It remembers small
// problems only: comparing a large one takes about as long as searching near its violations.
func (planner *Planner) planForProblem(p *problem) *Plan {
	for _, s := range planner.solved {
		if haveSamePlan(s.problem, p) {
			return s.plan
		}
	}
	plan := solveProblem(p)
	if !p.isSmallEnough() || hasDynamicConstraints(p) {
		return plan
	}
	for i := range p.instances { // the snapshot will change these slices
		here := &p.instances[i]
		here.gpus, here.ports = slices.Clone(here.gpus), slices.Clone(here.ports)
	}
	if len(planner.solved) == mostSolved {
		planner.solved = slices.Delete(planner.solved, 0, 1)
	}
	planner.solved = append(planner.solved, solvedProblem{p, plan})
	return plan
}

// isSmallEnough reports whether the problem is small enough to try every way.
func (p *problem) isSmallEnough() bool { return p.movableCount()*len(p.instances) <= exactSize }

// hasDynamicConstraints reports whether a constraint depends on the tasks of an instance, which
// include more than the problem has.
func hasDynamicConstraints(p *problem) bool {
	return slices.ContainsFunc(p.owners, func(o problemOwner) bool {
		return slices.ContainsFunc(o.mover.Spec.Constraints, func(x *constraint.Expression) bool { return !x.Static() })
	})
}

// haveSamePlan reports whether two problems have the same plan: everything that the searches read
// must be equal. Rows are compared by pointer, because a changed row is a new one.
func haveSamePlan(p *problem, o *problem) bool {
	return p.configuration == o.configuration && p.budget == o.budget &&
		slices.Equal(p.names, o.names) && slices.Equal(p.load, o.load) && slices.Equal(p.endingLoad, o.endingLoad) &&
		slices.Equal(p.unbuffered, o.unbuffered) && slices.Equal(p.total, o.total) &&
		slices.Equal(p.reserved, o.reserved) && slices.EqualFunc(p.applications, o.applications, isSameApplication) &&
		slices.EqualFunc(p.owners, o.owners, func(a, b problemOwner) bool {
			return a.name == b.name && a.mover == b.mover
		}) &&
		slices.EqualFunc(p.instances, o.instances, isSameInstance) && slices.EqualFunc(p.tasks, o.tasks, isSameTask)
}

// isSameInstance also compares devices, ports and ending tasks, which change without a new row.
func isSameInstance(a, b problemInstance) bool {
	return a.row == b.row && a.unpinned == b.unpinned && slices.Equal(a.gpus, b.gpus) &&
		slices.Equal(a.ports, b.ports) && slices.Equal(a.endingOwners, b.endingOwners)
}

func isSameTask(a, b problemTask) bool {
	return a.id == b.id && a.owner == b.owner && a.initial == b.initial && a.cost == b.cost && a.movable == b.movable &&
		a.needs == b.needs && slices.Equal(a.amounts, b.amounts) && slices.Equal(a.gpus, b.gpus) &&
		slices.Equal(a.ports, b.ports)
}
