package moves

import (
	"fmt"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// planOfSolution returns the plan of a solution. The assignment must be where the moves begin.
func planOfSolution(s *assignment, violations []openViolation, best solution) *Plan {
	out := &Plan{Exact: best.exact, Cost: best.score.cost, Steps: best.work}
	for _, v := range violations {
		out.Violations = append(out.Violations, describeViolation(s, v))
	}
	steps, _ := sequenceMoves(s, best.stage, best.steps) // a solution can always be carried out
	for _, m := range steps {
		if s.problem.tasks[m.task].initial < 0 {
			out.Places = append(out.Places, s.problem.instances[m.to].id)
		} else {
			out.Moves = append(out.Moves, describeMove(s, m, steps))
		}
	}
	for _, v := range remainingViolations(s, violations) {
		out.Unrepaired = append(out.Unrepaired, describeViolation(s, v))
	}
	return out
}

// remainingViolations returns the violations after the moves: the first ones that are still there,
// and new ones where a task has gone. Nothing else can have become worse.
func remainingViolations(s *assignment, violations []openViolation) []openViolation {
	var out []openViolation
	known := map[openViolation]bool{}
	for _, v := range violations {
		known[v] = true
		if isStillBroken(s, v) {
			out = append(out, v)
		}
	}
	add := func(v openViolation) {
		if !known[v] && isStillBroken(s, v) {
			out = append(out, v)
		}
		known[v] = true
	}
	for _, t := range s.movedTasks {
		task := &s.problem.tasks[t]
		for _, a := range task.amounts {
			add(openViolation{kind: overloadedCell, instance: s.at[t], dim: a.dim, owner: -1, task: -1})
		}
		if !s.problem.canHostTaskOf(task.owner, s.at[t]) {
			add(openViolation{kind: mismatchedTask, task: t, owner: task.owner, instance: s.at[t]})
		}
		for _, u := range append(separableTasks(s, t), t) {
			add(openViolation{kind: separatedTask, task: u, owner: s.problem.tasks[u].owner, instance: s.at[u]})
		}
		if a := s.problem.applicationOf(t); a != noApplication {
			add(openViolation{kind: scatteredApplication, application: a, instance: -1, owner: -1, task: -1})
			for _, r := range s.problem.applications[a].reservations {
				add(openViolation{kind: overloadedCell, instance: s.at[t], dim: r.dim, owner: -1, task: -1})
			}
		}
		if s.problem.owners[task.owner].domains != nil {
			add(openViolation{kind: faultDomains, owner: task.owner, instance: -1, task: -1})
			add(openViolation{kind: upgradeDomains, owner: task.owner, instance: -1, task: -1})
		}
	}
	return out
}

// describeViolation returns the violation as it is now, by names.
func describeViolation(s *assignment, v openViolation) Violation {
	var out Violation
	if v.instance >= 0 {
		out.Instance = s.problem.instances[v.instance].id
	}
	if v.owner >= 0 {
		out.Owner = s.problem.owners[v.owner].name
	}
	switch v.kind {
	case unplacedTask:
		out.Rule = placement.RuleRoom
	case mismatchedTask:
		out.Rule, out.Task = placement.RulePlacement, s.problem.tasks[v.task].id
	case separatedTask:
		out.Rule, out.Task = placement.RuleAffinity, s.problem.tasks[v.task].id
		child := &s.problem.owners[s.problem.tasks[v.task].owner]
		out.Child, out.Parent = child.displayName, s.problem.owners[child.parent].displayName
	case sharedInstance:
		out.Rule, out.Have, out.Limit = placement.RuleOccupied, int64(s.ownerTasksOn(v.owner, v.instance)),
			int64(s.problem.owners[v.owner].maxPerInstance)
	case overloadedCell:
		c := s.problem.cellIndex(v.instance, v.dim)
		out.Rule, out.Metric, out.Have, out.Limit = placement.RuleCapacity, s.problem.names[v.dim],
			s.load[c]-s.problem.endingLoad[c], limitOf(s, c)
	case scatteredApplication:
		a := &s.problem.applications[v.application]
		out.Rule, out.Application, out.Have, out.Limit = placement.RuleApplication, a.name,
			int64(s.uses[v.application].nodes), int64(a.maximumNodes)
	case faultDomains:
		out.Rule, out.Have = placement.RuleFault, int64(s.domainExcess(v))
	case upgradeDomains:
		out.Rule, out.Have = placement.RuleUpgrade, int64(s.domainExcess(v))
	}
	return out
}

// describeMove returns one move of the plan. The assignment must be where all moves end.
func describeMove(s *assignment, m sequencedMove, steps []sequencedMove) Move {
	task := &s.problem.tasks[m.task]
	out := Move{
		Task: task.id, Owner: s.problem.owners[task.owner].name,
		From: s.problem.instances[task.initial].id, To: s.problem.instances[m.to].id,
		Cost: task.cost, Mode: m.mode, Why: explainMove(s, m.plannedMove),
	}
	if m.via >= 0 {
		out.Via = s.problem.instances[m.via].id
	}
	for _, n := range m.after { // counts moves only: the steps include newcomers
		at := 0
		for _, o := range steps[:n] {
			if s.problem.tasks[o.task].initial >= 0 {
				at++
			}
		}
		out.After = append(out.After, at)
	}
	return out
}

// explainMove says in one line which violation caused the move, with its numbers before and after
// all moves.
func explainMove(s *assignment, m plannedMove) string {
	task := &s.problem.tasks[m.task]
	v := m.cause
	from, to := s.problem.instances[task.initial].id, s.problem.instances[m.to].id
	purpose := ""
	if v.task >= 0 && v.task != m.task {
		purpose = fmt.Sprintf(", to make room for %s", describeTask(s, v.task))
	}
	switch v.kind {
	case mismatchedTask:
		return fmt.Sprintf("%s no longer meets the placement constraint, %s does", from, to)
	case sharedInstance:
		return fmt.Sprintf("tasks of %s on %s go from %d to %d, at most %d may share an instance%s",
			s.problem.owners[task.owner].displayName, from, s.initialTasksOn(task.owner, task.initial),
			s.ownerTasksOn(task.owner, task.initial), s.problem.owners[task.owner].maxPerInstance, purpose)
	case overloadedCell:
		return describeLoad(s, v.dim, task.initial, "") + purpose + describeLoad(s, v.dim, m.to, "; ")
	case scatteredApplication:
		return explainGathering(s, v.application) + purpose
	case separatedTask:
		return explainReunion(s, v.task)
	case missingGPU, portConflict:
		return strings.TrimPrefix(purpose, ", ") + fmt.Sprintf(" on %s", s.problem.instances[v.instance].id)
	}
	return describeDomains(s, m) + purpose
}

// describeTask returns what the task is called in texts.
func describeTask(s *assignment, t int32) string {
	task := &s.problem.tasks[t]
	if task.initial >= 0 {
		return "task " + task.id
	}
	return "a task of " + s.problem.owners[task.owner].displayName + " that has no instance yet"
}

// describeLoad says how a cell changes, in the user's units.
func describeLoad(s *assignment, dim, i int32, prefix string) string {
	c := s.problem.cellIndex(i, dim)
	scale := int64(1)
	if dim == dimCPU {
		scale = cluster.CPUUnit
	}
	limit := "no limit"
	if s.problem.unbuffered[c] < unlimited {
		limit = fmt.Sprint(limitOf(s, c) / scale)
		if s.problem.total[c] != s.problem.unbuffered[c] {
			limit += " without the buffer"
		}
	}
	return fmt.Sprintf("%s%s on %s goes from %d to %d of %s", prefix, s.problem.names[dim], s.problem.instances[i].id,
		(s.problem.load[c]-s.problem.endingLoad[c])/scale, (s.load[c]-s.problem.endingLoad[c])/scale, limit)
}

// describeDomains says how the move changes the domain violations of the task's owner.
func describeDomains(s *assignment, m plannedMove) string {
	task := &s.problem.tasks[m.task]
	o := &s.problem.owners[task.owner]
	rule, was := placement.RuleFault, s.initialFaults[task.owner]
	name := func(i int32) string { return s.problem.instances[i].view.FaultDomain() }
	if m.cause.kind == upgradeDomains {
		rule, was = placement.RuleUpgrade, s.initialUpgrades[task.owner]
		name = func(i int32) string { return s.problem.instances[i].view.UpgradeDomain() }
	}
	return fmt.Sprintf("%s rule of %s: tasks beyond it go from %d to %d, one moves from %s to %s", rule, o.displayName,
		was, s.domainExcess(m.cause), name(task.initial), name(m.to))
}
