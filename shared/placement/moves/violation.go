package moves

import (
	"fmt"

	"berth/shared/placement"
)

// String is the violation in a few words, with the numbers that decide.
func (v Violation) String() string {
	switch v.Rule {
	case placement.RuleCapacity:
		return fmt.Sprintf("instance %s has %d of %s, which is more than %d", v.Instance, v.Have, v.Metric, v.Limit)
	case placement.RulePlacement:
		return fmt.Sprintf("task %s is on instance %s, which its constraints no longer allow", v.Task, v.Instance)
	case placement.RuleOccupied:
		return fmt.Sprintf("instance %s has %d tasks, which is more than %d", v.Instance, v.Have, v.Limit)
	case placement.RuleFault, placement.RuleUpgrade:
		return fmt.Sprintf("%d tasks are too many or too few in their %s", v.Have, v.Rule)
	}
	return fmt.Sprintf("%s: %d, the limit is %d", v.Rule, v.Have, v.Limit)
}
