package moves

import (
	"fmt"
	"slices"
	"strings"

	"berth/shared/placement"
)

// A Trial makes any moves of a request's tasks, allowed or not, as a search does on its way.
type Trial struct {
	*assignment
	fresh  *problem // the same problem, without the moves
	before []score  // of each move
}

// NewTrial returns the request's problem with its tasks where they are. r may be nil.
func NewTrial(e *Planner, m Request, r *placement.Request) *Trial {
	return &Trial{assignment: newAssignment(e.newProblem(m, r)), fresh: e.newProblem(m, r)}
}

// Move moves a task that draw chooses to an instance that it chooses, and reports whether one is
// left that may move. draw(n) returns a number below n.
func (x *Trial) Move(draw func(n int) int) bool {
	var tasks, places []int32
	for t := range x.at {
		if x.isUndecided(int32(t)) {
			tasks = append(tasks, int32(t))
		}
	}
	if len(tasks) == 0 {
		return false
	}
	t := tasks[draw(len(tasks))]
	for i := range x.problem.instances {
		if x.problem.instances[i].takesTasks && int32(i) != x.at[t] {
			places = append(places, int32(i))
		}
	}
	if len(places) == 0 {
		return false
	}
	x.before = append(x.before, x.score)
	x.moveTask(t, places[draw(len(places))], openViolation{kind: mismatchedTask, task: t})
	return true
}

// MoveTo moves a task to an instance, both by their ids.
func (x *Trial) MoveTo(task, instance string) {
	t := slices.IndexFunc(x.problem.tasks, func(t problemTask) bool { return t.id == task })
	to := slices.IndexFunc(x.problem.instances, func(i problemInstance) bool { return i.id == instance })
	x.before = append(x.before, x.score)
	x.moveTask(int32(t), int32(to), openViolation{kind: mismatchedTask, task: int32(t)})
}

// Undo undoes the last move.
func (x *Trial) Undo() {
	last := len(x.before) - 1
	x.undoLastMove(x.before[last])
	x.before = x.before[:last]
}

// Search searches for repairs of what is broken, in both ways.
func (x *Trial) Search() {
	violations, forRoom := findViolations(x.assignment), x.score.unplaced > 0
	if forRoom {
		violations = violations[:x.score.unplaced]
	}
	if len(violations) > 0 {
		searchExhaustively(x.assignment, violations, forRoom)
		searchLocally(x.assignment, violations, forRoom)
	}
}

// Sequence looks for an order of the moves, and reports whether there is one.
func (x *Trial) Sequence() bool {
	_, possible := countExchanges(x.assignment, stageFirst, 0)
	return possible
}

// MayStay reports whether the task that has moved may stay where it is.
func (x *Trial) MayStay(task string) bool {
	t := slices.IndexFunc(x.problem.tasks, func(t problemTask) bool { return t.id == task })
	return mayStay(x.assignment, stageBuffer, int32(t))
}

// Plan returns the moves so far in the order in which they can be carried out, or nil if there is
// none, or a rule forbids that a task stays where it has gone. The trial ends.
func (x *Trial) Plan() *Plan {
	for _, t := range x.movedTasks {
		if !mayStay(x.assignment, stageBuffer, t) || !x.problem.canHostTaskOf(x.problem.tasks[t].owner, x.at[t]) {
			return nil
		}
	}
	if _, possible := countExchanges(x.assignment, stageBuffer, 0); !possible {
		return nil
	}
	steps := x.movesSince(0)
	x.undoMovesTo(0)
	return planOfSolution(x.assignment, nil, solution{steps: steps, stage: stageBuffer})
}

// State describes everything that moves and searches change.
func (x *Trial) State() string {
	var text strings.Builder
	fmt.Fprintln(&text, x.at, x.load, x.arrived, x.decision, x.undecidedCount, x.movedTasks, x.causes, x.score)
	for o := range x.problem.owners {
		d := x.problem.owners[o].domains
		if d == nil {
			continue
		}
		fault, upgrade := d.Excess()
		fmt.Fprintln(&text, o, fault, upgrade)
		for i := range x.problem.instances {
			fmt.Fprint(&text, d.AdmitsFault(d.FaultDomain(i)), d.AdmitsUpgrade(d.UpgradeDomain(i)), " ")
		}
	}
	return text.String()
}

// Counts returns what the trial has counted move by move, and the same by the definitions.
func (x *Trial) Counts() (counted, defined string) {
	want := score{}
	p := x.problem
	x.defineCells(&want)
	x.defineTasks(&want)
	for o := range p.owners {
		x.defineSharing(int32(o), &want)
		x.defineDomains(int32(o), &want)
	}
	return fmt.Sprintf("%+v", x.score), fmt.Sprintf("%+v", want)
}

// defineCells counts the loads of instances: those at the start, less the tasks that have left,
// with those that have come.
func (x *Trial) defineCells(want *score) {
	p := x.problem
	load := slices.Clone(x.fresh.load)
	for t, at := range x.at {
		for _, a := range p.tasks[t].amounts {
			if from := p.tasks[t].initial; from >= 0 {
				load[p.cellIndex(from, a.dim)] -= a.amount
			}
			if at >= 0 {
				load[p.cellIndex(at, a.dim)] += a.amount
			}
		}
	}
	for i := range p.instances {
		for dim := range int32(p.dimensionCount()) {
			c := p.cellIndex(int32(i), dim)
			level := 0
			if dim >= fixedDims {
				level = max(0, p.levels.capacity)
			}
			now, was := load[c]-p.endingLoad[c], x.fresh.load[c]-p.endingLoad[c]
			if !p.instances[i].givesTasks {
				continue
			}
			if over := now - p.total[c]; now > p.total[c] {
				want.rules[level].addViolations(1, over)
				if more := over - max(0, was-p.total[c]); more > 0 {
					want.worsened[level].addViolations(1, more)
				}
			}
			if now > p.unbuffered[c] {
				want.buffer.addViolations(1, now-p.unbuffered[c])
			}
		}
	}
}

// defineTasks counts what is wrong with single tasks: where they are, and beside whom.
func (x *Trial) defineTasks(want *score) {
	p := x.problem
	for t := range p.tasks {
		task, at := &p.tasks[t], x.at[t]
		switch {
		case at < 0:
			want.unplaced++
			continue
		case at == task.initial && task.mismatched:
			want.rules[p.levels.placement].addViolations(1, 0)
		case at != task.initial:
			if !p.canHostTaskOf(task.owner, at) {
				want.rules[max(0, p.levels.placement)].addViolations(1, 0)
				want.worsened[max(0, p.levels.placement)].addViolations(1, 0)
			}
			if task.initial >= 0 {
				want.moves, want.cost = want.moves+1, want.cost+task.cost
			}
		}
		parent := p.owners[task.owner].parent
		beside := func(o int32) bool { return x.at[o] == at }
		if parent != noParent && p.instances[at].givesTasks && !slices.ContainsFunc(p.owners[parent].tasks, beside) {
			want.rules[p.levels.affinity].addViolations(1, 0)
			if !task.apart {
				want.worsened[p.levels.affinity].addViolations(1, 0)
			}
		}
	}
}

// defineSharing counts the owner's tasks beyond those that may share an instance.
func (x *Trial) defineSharing(o int32, want *score) {
	most := x.problem.owners[o].maxPerInstance
	if most == 0 {
		return
	}
	for i := range x.problem.instances {
		n := 0
		for _, t := range x.problem.owners[o].tasks {
			if x.at[t] == int32(i) {
				n++
			}
		}
		if x.problem.instances[i].givesTasks && n > most {
			want.rules[alwaysBinding].addViolations(n-most, 0)
		}
	}
}

// defineDomains counts what is beyond the owner's domain rules.
func (x *Trial) defineDomains(o int32, want *score) {
	d := x.fresh.owners[o].domains
	if d == nil {
		return
	}
	firstFault, firstUpgrade := d.Excess()
	shift := func(sign int) {
		for _, t := range x.problem.owners[o].tasks {
			if from := x.problem.tasks[t].initial; from >= 0 {
				d.AddTasks(int(from), -sign)
			}
			if x.at[t] >= 0 {
				d.AddTasks(int(x.at[t]), sign)
			}
		}
	}
	shift(1)
	fault, upgrade := d.Excess()
	shift(-1)
	faults, upgrades := max(0, x.problem.levels.fault), max(0, x.problem.levels.upgrade)
	want.rules[faults].addViolations(fault, 0)
	want.worsened[faults].addViolations(max(0, fault-firstFault), 0)
	want.rules[upgrades].addViolations(upgrade, 0)
	want.worsened[upgrades].addViolations(max(0, upgrade-firstUpgrade), 0)
}
