package moves

import (
	"fmt"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// planOf is the plan of a solution; the state is where its moves begin.
func planOf(s *moveState, duties []moveDuty, best moveSolution) *Plan {
	out := &Plan{Exact: best.exact, Cost: best.measure.cost}
	for _, d := range duties {
		out.Violations = append(out.Violations, describeViolation(s, d))
	}
	steps, _ := sequenceMoves(s, best.stage, best.steps) // what cannot be carried out is no solution
	for _, m := range steps {
		if s.problem.tasks[m.task].at < 0 {
			out.Places = append(out.Places, s.problem.instances[m.to].id)
		} else {
			out.Moves = append(out.Moves, describeMove(s, m, steps))
		}
	}
	for _, d := range remainingDefects(s, duties) {
		out.Unrepaired = append(out.Unrepaired, describeViolation(s, d))
	}
	return out
}

// remainingDefects is what is broken after the moves.
func remainingDefects(s *moveState, duties []moveDuty) []moveDuty {
	var out []moveDuty
	known := map[moveDuty]bool{}
	for _, d := range duties {
		known[d] = true
		if isBroken(s, d) {
			out = append(out, d)
		}
	}
	add := func(d moveDuty) {
		if !known[d] && isBroken(s, d) {
			out = append(out, d)
		}
		known[d] = true
	}
	for _, t := range s.moving {
		task := &s.problem.tasks[t]
		for _, a := range task.amounts {
			add(moveDuty{kind: dutyCell, instance: s.at[t], dim: a.dim, owner: -1, task: -1})
		}
		if !s.problem.takes(task.owner, s.at[t]) {
			add(moveDuty{kind: dutyMisfit, task: t, owner: task.owner, instance: s.at[t]})
		}
		if s.problem.owners[task.owner].domains != nil {
			add(moveDuty{kind: dutyFault, owner: task.owner, instance: -1, task: -1})
			add(moveDuty{kind: dutyUpgrade, owner: task.owner, instance: -1, task: -1})
		}
	}
	return out
}

// describeViolation describes a duty as things are now.
func describeViolation(s *moveState, d moveDuty) Violation {
	var v Violation
	if d.instance >= 0 {
		v.Instance = s.problem.instances[d.instance].id
	}
	if d.owner >= 0 {
		v.Owner = s.problem.owners[d.owner].name
	}
	switch d.kind {
	case dutyUnplaced:
		v.Rule = placement.RuleRoom
	case dutyMisfit:
		v.Rule, v.Task = placement.RulePlacement, s.problem.tasks[d.task].id
	case dutyCrowd:
		v.Rule, v.Have, v.Limit = placement.RuleOccupied, int64(s.on(d.owner, d.instance)),
			int64(s.problem.owners[d.owner].most)
	case dutyCell:
		c := s.problem.cell(d.instance, d.dim)
		v.Rule, v.Metric, v.Have, v.Limit = placement.RuleCapacity, s.problem.names[d.dim],
			s.now[c]-s.problem.leaving[c], s.problem.unbuffered[c]
	case dutyFault:
		fault, _ := s.problem.owners[d.owner].domains.Excess()
		v.Rule, v.Have = placement.RuleFault, int64(fault)
	case dutyUpgrade:
		_, upgrade := s.problem.owners[d.owner].domains.Excess()
		v.Rule, v.Have = placement.RuleUpgrade, int64(upgrade)
	}
	return v
}

// describeMove describes one move; the state is after all of them.
func describeMove(s *moveState, m orderedStep, steps []orderedStep) Move {
	task := &s.problem.tasks[m.task]
	out := Move{
		Task: task.id, Owner: s.problem.owners[task.owner].name, From: s.problem.instances[task.at].id,
		To:   s.problem.instances[m.to].id,
		Cost: task.cost, Mode: m.mode, Why: explainMove(s, m.moveStep),
	}
	if m.via >= 0 {
		out.Via = s.problem.instances[m.via].id
	}
	for _, n := range m.after { // positions among the moves: newcomers are none
		at := 0
		for _, o := range steps[:n] {
			if s.problem.tasks[o.task].at >= 0 {
				at++
			}
		}
		out.After = append(out.After, at)
	}
	return out
}

func explainMove(s *moveState, m moveStep) string {
	task := &s.problem.tasks[m.task]
	d := m.cause
	from, to := s.problem.instances[task.at].id, s.problem.instances[m.to].id
	for_ := ""
	if d.task >= 0 && d.task != m.task {
		for_ = fmt.Sprintf(", to make room for %s", describeTask(s, d.task))
	}
	switch d.kind {
	case dutyMisfit:
		return fmt.Sprintf("%s no longer meets the placement constraint, %s does", from, to)
	case dutyCrowd:
		return fmt.Sprintf("tasks of %s on %s go from %d to %d, at most %d may share an instance%s",
			s.problem.owners[task.owner].called, from,
			s.onAtFirst(task.owner, task.at), s.on(task.owner, task.at), s.problem.owners[task.owner].most, for_)
	case dutyCell:
		return describeLoad(s, d.dim, task.at, "") + for_ + describeLoad(s, d.dim, m.to, "; ")
	case dutyGPU, dutyPort:
		return strings.TrimPrefix(for_, ", ") + fmt.Sprintf(" on %s", s.problem.instances[d.instance].id)
	}
	return describeDomains(s, m) + for_
}

// describeTask is what a task is called.
func describeTask(s *moveState, t int32) string {
	task := &s.problem.tasks[t]
	if task.at >= 0 {
		return "task " + task.id
	}
	return "a task of " + s.problem.owners[task.owner].called + " that has no instance yet"
}

// describeLoad is how a cell changes, in the user's units; empty where nothing limits it.
func describeLoad(s *moveState, dim, i int32, prefix string) string {
	c := s.problem.cell(i, dim)
	scale := int64(1)
	if dim == dimCPU {
		scale = cluster.CPUUnit
	}
	limit := "no limit"
	if s.problem.unbuffered[c] < unlimited {
		limit = fmt.Sprint(s.problem.unbuffered[c] / scale)
		if s.problem.total[c] != s.problem.unbuffered[c] {
			limit += " without the buffer"
		}
	}
	return fmt.Sprintf("%s%s on %s goes from %d to %d of %s", prefix, s.problem.names[dim], s.problem.instances[i].id,
		(s.problem.load[c]-s.problem.leaving[c])/scale, (s.now[c]-s.problem.leaving[c])/scale, limit)
}

// describeDomains is how a domain rule of the task's owner is kept.
func describeDomains(s *moveState, m moveStep) string {
	task := &s.problem.tasks[m.task]
	o := &s.problem.owners[task.owner]
	fault, upgrade := o.domains.Excess()
	rule, was, is := placement.RuleFault, s.faults[task.owner], fault
	name := func(i int32) string { return s.problem.instances[i].view.FaultDomain() }
	if m.cause.kind == dutyUpgrade {
		rule, was, is = placement.RuleUpgrade, s.upgrades[task.owner], upgrade
		name = func(i int32) string { return s.problem.instances[i].view.UpgradeDomain() }
	}
	return fmt.Sprintf("%s rule of %s: tasks beyond it go from %d to %d, one moves from %s to %s", rule, o.called, was,
		is,
		name(task.at), name(m.to))
}
