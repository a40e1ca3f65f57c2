package placement

import "berth/shared/cluster"

// Mover is an owner whose tasks may be moved to other instances.
type Mover struct {
	Name   string // what its users call it; its key where empty
	Spec   *Spec
	Target int // desired count: domain rules depend on it (P4, P5)
	// StartFirst reports that no task of it may stop before what takes over from it runs; Fixed, that none may move at all.
	StartFirst, Fixed bool
}

// Moves asks for moves.
type Moves struct {
	Owners map[string]Mover // by the owner's short key; tasks of others stay
	Most   int              // moves of one plan (P15); 0 is no limit
	// Keep reports that a task must stay where it is, for a reason that placement does not know; nil: none must.
	Keep func(*cluster.Task) bool
	// Cost is what a task says of its own move cost, empty where its owner's holds; nil: none says anything.
	Cost func(*cluster.Task) cluster.MoveCost
}

// MoveRule names a rule that moves repair.
type MoveRule string

// The rules, each with the priority that [cluster.Priorities] gives it. Duplicates, and what ECS counts, always bind.
const (
	// MoveCapacity is an instance with more load of a metric than it takes without its buffer and without overbooking
	// (P10, P12, P13), or with more CPU, memory or network interfaces in use than it has.
	MoveCapacity MoveRule = "capacity"
	// MovePlacement is a task whose instance no longer has what the task must find there (P8).
	MovePlacement MoveRule = "placement constraint"
	// MoveOccupied is more tasks of an owner on one instance than may share it.
	MoveOccupied MoveRule = "instance shared"
	// MoveFault and MoveUpgrade are the domain rules (P3–P5).
	MoveFault   MoveRule = "fault domain"
	MoveUpgrade MoveRule = "upgrade domain"
	// MoveRoom is a task that fits nowhere as things stand (P11).
	MoveRoom MoveRule = "no room"
)

// Violation is one rule broken in one place.
type Violation struct {
	Rule     MoveRule
	Instance string // capacity, occupied, placement
	Owner    string // occupied, placement and domain rules
	Task     string // placement: its id
	Metric   string // capacity: the metric, or CPU, MEMORY, ENI
	// Have and Limit are the load and how much is taken without the buffer, the tasks and how many may be, or how many
	// tasks a domain rule has too many or too few and 0.
	Have, Limit int64
}

// MoveMode is how a move is carried out.
type MoveMode string

// The modes. All but the last start the replacement before the task stops.
const (
	MoveStartFirst MoveMode = "start first"
	// MoveIntoBuffer starts the replacement while the destination has room for it in its buffer only (P14).
	MoveIntoBuffer MoveMode = "start first, into the buffer"
	// MoveVia starts the replacement on [Move.Via] first, where there is room for it while the others of an exchange move.
	MoveVia MoveMode = "start first, by way of another instance"
	// MoveStopFirst stops the task first: an exchange for which no instance has room.
	MoveStopFirst MoveMode = "stop first"
)

// Move is one task that changes its instance.
type Move struct {
	Task, Owner string // id; short key
	From, To    string
	Cost        int // Zero 0, Low 1, Medium 15, High 40
	Mode        MoveMode
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
	// Places are instances for the tasks of [Engine.MakeRoom]'s request, as many as find one once the moves are over.
	Places []string
	Cost   int // of all moves
	// Exact reports that no cheaper moves repair as much. Where it is false the search ended at its limit of steps, or
	// looked at the surroundings of each violation only.
	Exact bool
}

// PlanMoves finds what is broken among the tasks where they are, and the moves that repair as much of it as possible, at
// the least cost and with the fewest moves (P8, P10). Rules that bind count before those that may be given up. Nothing
// gets worse than it is, except that a rule may be broken to repair one of a higher priority, and the buffer may be used
// where repair takes it. Instances that are draining or disconnected neither take nor give tasks, and nothing counts as
// broken there; cordoned ones only give; those that an owner avoids neither take nor give tasks of that owner. The same
// snapshot always gives the same plan. Where nothing is broken, or nothing could be done the last time and nothing has
// happened that could help, it costs by what has changed since. A plan may be the same one as before: the caller changes nothing
// of it.
func (e *Engine) PlanMoves(m Moves) *Plan {
	e.sync()
	if e.sound(&m) {
		return &Plan{Exact: true}
	}
	if p := e.watch.repeats(&m); p != nil {
		return p
	}
	p := e.solve(e.newMoveProblem(m, nil))
	e.watch.remember(&m, p)
	return p
}

// MakeRoom finds the moves that let tasks run which fit nowhere as things stand (P11): the most tasks, then the least
// cost, then the fewest moves. Its Places include those for tasks that need no move. It finds none where the
// configuration keeps tasks in place.
func (e *Engine) MakeRoom(r Request, m Moves) *Plan {
	if e.snap.Configuration.KeepInPlace {
		m.Keep = func(*cluster.Task) bool { return true }
	}
	e.sync()
	e.sound(&m) // who has what is broken
	return e.solve(e.newMoveProblem(m, &r))
}
