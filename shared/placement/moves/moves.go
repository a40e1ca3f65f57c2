package moves

import (
	"berth/shared/cluster"
	"berth/shared/placement"
)

// Owner is an owner whose tasks may be moved to other instances.
type Owner struct {
	Name   string // what its users call it; its key where empty
	Spec   *placement.Spec
	Target int // desired count: domain rules depend on it (P4, P5)
	// StartFirst reports that no task of it may stop before what takes over from it runs; Fixed,
	// that none may move at all.
	StartFirst, Fixed bool
}

// Request asks for moves.
type Request struct {
	Owners map[string]Owner // by the owner's short key; tasks of others stay
	Most   int              // moves of one plan (P15); 0 is no limit
	// Keep reports that a task must stay where it is, for a reason that placement does not know;
	// nil: none must.
	Keep func(*cluster.Task) bool
	// Cost is what a task says of its own move cost, empty where its owner's holds; nil: none says
	// anything.
	Cost func(*cluster.Task) cluster.MoveCost
}

// Violation is one rule broken in one place.
type Violation struct {
	Rule     placement.Rule
	Instance string // capacity, occupied, placement
	Owner    string // occupied, placement and domain rules
	Task     string // placement: its id
	Metric   string // capacity: the metric, or CPU, MEMORY, ENI
	// Have and Limit are the load and how much is taken without the buffer, the tasks and how many
	// may be, or how many tasks a domain rule has too many or too few and 0.
	Have, Limit int64
}

// Mode is how a move is carried out.
type Mode string

// The modes. All but the last start the replacement before the task stops.
const (
	StartFirst Mode = "start first"
	// IntoBuffer starts the replacement while the destination has room for it in its buffer only
	// (P14).
	IntoBuffer Mode = "start first, into the buffer"
	// Via starts the replacement on [Move.Via] first, where there is room for it while the others
	// of an exchange move.
	Via Mode = "start first, by way of another instance"
	// StopFirst stops the task first: an exchange for which no instance has room.
	StopFirst Mode = "stop first"
)

// Move is one task that changes its instance.
type Move struct {
	Task, Owner string // id; short key
	From, To    string
	Cost        int // Zero 0, Low 1, Medium 15, High 40
	Mode        Mode
	Via         string // an instance to wait on, in mode MoveVia
	// After are the positions in the plan of moves that must be over before this one may begin.
	After []int
	Why   string // one line: the rule, with its numbers before and after
}

// Plan is moves, in an order in which they can be carried out, and what they leave broken.
type Plan struct {
	Moves      []Move
	Violations []Violation // before the moves
	Unrepaired []Violation // after them
	// Places are instances for the tasks of [Engine.MakeRoom]'s request, as many as find one once
	// the moves are over.
	Places []string
	Cost   int // of all moves
	// Exact reports that no cheaper moves repair as much. Where it is false the search ended at its
	// limit of steps, or looked at the surroundings of each violation only.
	Exact bool
}
