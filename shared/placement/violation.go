package placement

import "fmt"

// String is the violation in a few words, with the numbers that decide.
func (v Violation) String() string {
	switch v.Rule {
	case MoveCapacity:
		return fmt.Sprintf("instance %s has %d of %s, which is more than %d", v.Instance, v.Have, v.Metric, v.Limit)
	case MovePlacement:
		return fmt.Sprintf("task %s is on instance %s, which its constraints no longer allow", v.Task, v.Instance)
	case MoveOccupied:
		return fmt.Sprintf("instance %s has %d tasks, which is more than %d", v.Instance, v.Have, v.Limit)
	case MoveFault, MoveUpgrade:
		return fmt.Sprintf("%d tasks are too many or too few in their %s", v.Have, v.Rule)
	}
	return fmt.Sprintf("%s: %d, the limit is %d", v.Rule, v.Have, v.Limit)
}
