package invariant

import (
	"strings"

	"berth/tests/simulation/model"
)

// Families whose tasks come to nothing: of the one none is ever RUNNING, of the other all are UNHEALTHY soon after.
const (
	BrokenFamily    = "broken"
	UnhealthyFamily = "sick"
)

// OutcomeOf is what becomes of tasks of a task definition.
func OutcomeOf(definition string) model.TaskOutcome {
	switch {
	case strings.HasPrefix(definition, BrokenFamily):
		return model.NeverRun
	case strings.HasPrefix(definition, UnhealthyFamily):
		return model.BecomeUnhealthy
	}
	return model.RunHealthy
}
