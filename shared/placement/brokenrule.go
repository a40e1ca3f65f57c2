package placement

// Rule names a rule that moves repair.
type Rule string

// The rules, each with the priority that [cluster.Priorities] gives it. Duplicates, and what ECS
// counts, always bind.
const (
	// RuleCapacity is an instance with more load of a metric than it takes without its buffer and
	// without overbooking (P10, P12, P13), or with more CPU, memory or network interfaces in use
	// than it has.
	RuleCapacity Rule = "capacity"
	// RulePlacement is a task whose instance no longer has what the task must find there (P8).
	RulePlacement Rule = "placement constraint"
	// RuleOccupied is more tasks of an owner on one instance than may share it.
	RuleOccupied Rule = "instance shared"
	// RuleFault and MoveUpgrade are the domain rules (P3–P5).
	RuleFault   Rule = "fault domain"
	RuleUpgrade Rule = "upgrade domain"
	// RuleRoom is a task that fits nowhere as things stand (P11).
	RuleRoom Rule = "no room"
)
