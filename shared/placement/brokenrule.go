package placement

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
