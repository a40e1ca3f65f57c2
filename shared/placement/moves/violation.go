package moves

import (
	"fmt"

	"berth/shared/placement"
)

// String is the violation in a few words, with the numbers that decide.
func (out Violation) String() string {
	switch out.Rule {
	case placement.RuleCapacity:
		return fmt.Sprintf("instance %s has %d of %s, which is more than %d", out.Instance, out.Have, out.Metric,
			out.Limit)
	case placement.RulePlacement:
		return fmt.Sprintf("task %s is on instance %s, which its constraints no longer allow", out.Task, out.Instance)
	case placement.RuleOccupied:
		return fmt.Sprintf("instance %s has %d tasks, which is more than %d", out.Instance, out.Have, out.Limit)
	case placement.RuleFault, placement.RuleUpgrade:
		return fmt.Sprintf("%d tasks are too many or too few in their %s", out.Have, out.Rule)
	}
	return fmt.Sprintf("%s: %d, the limit is %d", out.Rule, out.Have, out.Limit)
}
