package invariant

import (
	"strings"

	"berth/tests/simulation/model"
)

// Families of task definitions whose tasks fail: those of the first are never RUNNING, those of the
// second become UNHEALTHY soon after.
const (
	BrokenFamily    = "broken"
	UnhealthyFamily = "sick"
)

// OutcomeOf returns what becomes of the tasks of a task definition.
func OutcomeOf(definition string) model.TaskOutcome {
	switch {
	case strings.HasPrefix(definition, BrokenFamily):
		return model.NeverRun
	case strings.HasPrefix(definition, UnhealthyFamily):
		return model.BecomeUnhealthy
	}
	return model.RunHealthy
}
