package moves

import (
	"fmt"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// An Owner is an owner whose tasks may be moved to other instances.
type Owner struct {
	Name   string // what users call it; its key if empty
	Spec   *placement.Spec
	Target int // desired count, which domain rules depend on (P4, P5)
	// StartFirst forbids to stop a task before its replacement runs. Fixed forbids to move any.
	StartFirst, Fixed bool
	// KeepProvider keeps tasks on instances of their capacity provider when they move to balance
	// the cluster.
	KeepProvider bool
}

// A Request asks for moves.
type Request struct {
	Owners map[string]Owner // by the owner's short key; tasks of others stay
	Most   int              // moves of one plan (P15); 0 is no limit
	// Keep reports that a task must stay where it is, for a reason that placement does not know. It
	// may be nil.
	Keep func(*cluster.Task) bool
	// Cost returns the task's own move cost, or "" if its owner's applies. It may be nil.
	Cost func(*cluster.Task) cluster.MoveCost
	// Newcomer is what texts call the owner of tasks that look for an instance, if Owners lacks it.
	Newcomer string
	// whole makes a problem of all tasks, however many there are.
	whole bool
}

// A Violation is one rule broken in one place.
type Violation struct {
	Rule     placement.Rule
	Instance string // capacity, instance shared, placement
	Owner    string // instance shared, placement, affinity and domain rules
	Task     string // placement and affinity: its id
	// Child and Parent are what texts call the task's owner and the one beside which it has to run.
	Child, Parent string
	// Application is the one that is on too many instances.
	Application string
	Metric      string // capacity: the metric, or CPU, MEMORY, ENI
	// Have and Limit are, for capacity, the load and how much is taken without the buffer; for
	// shared instances, the tasks and how many may share it; for applications, the instances with
	// their tasks and how many there may be; for domain rules, how many tasks are too many or too
	// few, and 0.
	Have, Limit int64
}

// String describes the violation with the numbers that decide.
func (v Violation) String() string {
	switch v.Rule {
	case placement.RuleCapacity:
		return fmt.Sprintf("instance %s has %d of %s, which is more than %d", v.Instance, v.Have, v.Metric,
			v.Limit)
	case placement.RulePlacement:
		return fmt.Sprintf("task %s is on instance %s, which its constraints no longer allow", v.Task, v.Instance)
	case placement.RuleAffinity:
		return fmt.Sprintf("task %s of %s is on instance %s, which has no task of %s", v.Task, v.Child, v.Instance,
			v.Parent)
	case placement.RuleApplication:
		return fmt.Sprintf("application %s is on %d instances, which is more than %d", v.Application, v.Have, v.Limit)
	case placement.RuleOccupied:
		return fmt.Sprintf("instance %s has %d tasks, which is more than %d", v.Instance, v.Have, v.Limit)
	case placement.RuleFault, placement.RuleUpgrade:
		return fmt.Sprintf("%d tasks are too many or too few in their %s", v.Have, v.Rule)
	}
	return fmt.Sprintf("%s: %d, the limit is %d", v.Rule, v.Have, v.Limit)
}

// A Mode says how a move is carried out.
type Mode string

// The modes. All but the last start the replacement before the task stops.
const (
	StartFirst Mode = "start first"
	// IntoBuffer starts the replacement while the destination has room for it only in its buffer
	// (P14).
	IntoBuffer Mode = "start first, into the buffer"
	// Via starts the replacement on [Move.Via] first, where it waits while the other tasks of an
	// exchange move.
	Via Mode = "start first, by way of another instance"
	// StopFirst stops the task first: an exchange for which no instance has room.
	StopFirst Mode = "stop first"
)

// A Move is one task that changes its instance.
type Move struct {
	Task, Owner string // short key
	From, To    string
	Cost        int // Zero 0, Low 1, Medium 15, High 40
	Mode        Mode
	Via         string // in mode Via, the instance to wait on
	// After has the positions in the plan of moves that must be complete before this one begins.
	After []int
	Why   string // one line: the rule, with its numbers before and after
}

// A Plan is a list of moves, in an order in which they can be carried out, and the violations that
// remain.
type Plan struct {
	Moves      []Move
	Violations []Violation // before the moves
	Unrepaired []Violation // after them
	// Places has instances for the tasks of [Planner.MakeRoom]'s request: as many as find one after
	// the moves.
	Places []string
	Cost   int // of all moves
	// Steps is the work of the searches: a step is a task moved or kept, or 64 instances evaluated.
	Steps int
	// Exact reports that no cheaper moves repair as much. It is false if the search reached its
	// limit of steps, or looked only near each violation.
	Exact bool
}
