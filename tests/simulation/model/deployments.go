package model

import "fmt"

// The states of a deployment (rolloutState).
const (
	InProgress = "IN_PROGRESS"
	Completed  = "COMPLETED"
	Failed     = "FAILED"
)

// A TaskOutcome is what becomes of the tasks of a revision.
type TaskOutcome int

// The outcomes of tasks.
const (
	RunHealthy      TaskOutcome = iota // RUNNING and healthy
	NeverRun                           // never RUNNING
	BecomeUnhealthy                    // RUNNING, and found UNHEALTHY
)

// A Cause is the reason why a deployment failed.
type Cause int

// The causes.
const (
	ByBreaker Cause = iota
	ByAlarm
	ByRequest // StopServiceDeployment with ROLLBACK
	ByAbort   // StopServiceDeployment with ABORT: the tasks stay
)

// A Deployment is one deployment of a service.
type Deployment struct {
	ID      string
	State   string
	Outcome TaskOutcome
	// RolledBackTo means that it is PRIMARY again because of a rollback.
	RolledBackTo bool
}

// A DeploymentHistory is the state of a service's deployments: S8 as a state machine, which refuses
// steps that must not happen.
type DeploymentHistory struct {
	Primary Deployment
	// Older are the ACTIVE deployments, newest first.
	Older []Deployment
	// LastCompleted is the deployment that completed last before the PRIMARY one, or "".
	LastCompleted string
	// RollingBack means that the PRIMARY deployment replaces a failed one and has not completed
	// yet.
	RollingBack bool
	Release     string // status of the service deployment
	outcomes    map[string]TaskOutcome
}

// StartHistory returns the history of a service that was just created.
func StartHistory(id string, fate TaskOutcome) *DeploymentHistory {
	return &DeploymentHistory{
		Primary: Deployment{ID: id, State: InProgress, Outcome: fate}, Release: InProgress,
		outcomes: map[string]TaskOutcome{id: fate},
	}
}

// Begin is an update that starts a deployment: it becomes PRIMARY, and the others are replaced.
func (h *DeploymentHistory) Begin(id string, fate TaskOutcome) error {
	if _, known := h.outcomes[id]; known {
		return fmt.Errorf("a new deployment has the id of an earlier one, %s", id)
	}
	h.outcomes[id] = fate
	h.retire()
	h.Primary, h.RollingBack, h.Release = Deployment{ID: id, State: InProgress, Outcome: fate}, false, InProgress
	return nil
}

// retire makes the PRIMARY deployment an older one.
func (h *DeploymentHistory) retire() {
	if h.Primary.State == Completed {
		h.LastCompleted = h.Primary.ID
	}
	h.Older = append([]Deployment{h.Primary}, h.Older...)
}

// Complete is the step in which the PRIMARY deployment has all its tasks, healthy, and no others
// are left.
func (h *DeploymentHistory) Complete() error {
	if h.Primary.State != InProgress {
		return fmt.Errorf("deployment %s was completed, and it is %s", h.Primary.ID, h.Primary.State)
	}
	h.Primary.State, h.Older = Completed, nil
	h.Release = "SUCCESSFUL"
	if h.RollingBack {
		h.Release = "ROLLBACK_SUCCESSFUL"
	}
	h.RollingBack = false
	return nil
}

// Fail is the step in which the PRIMARY deployment fails. It returns the deployment that becomes
// PRIMARY instead: the last completed one, or "" if there is none or no rollback is wanted. In that
// case the service starts no more tasks.
func (h *DeploymentHistory) Fail(s Service, cause Cause, alarmRollback bool) (target string, err error) {
	if h.Primary.State != InProgress {
		return "", fmt.Errorf("deployment %s failed, and it is %s", h.Primary.ID, h.Primary.State)
	}
	if cause == ByBreaker && !s.Breaker.Enable {
		return "", fmt.Errorf("the circuit breaker of %s failed deployment %s, which is off", s.Name, h.Primary.ID)
	}
	h.Primary.State = Failed
	wanted := cause == ByRequest || cause == ByBreaker && s.Breaker.Rollback || cause == ByAlarm && alarmRollback
	if !wanted || h.LastCompleted == "" || h.Primary.RolledBackTo && h.RollingBack {
		h.Release = "STOPPED"
		if h.RollingBack {
			h.Release = "ROLLBACK_FAILED"
		}
		h.RollingBack = false
		return "", nil
	}
	target = h.LastCompleted
	h.retire()
	for n, d := range h.Older {
		if d.ID == target {
			h.Older = append(h.Older[:n:n], h.Older[n+1:]...)
			break
		}
	}
	// It is no target of a rollback until it completes again.
	h.Primary, h.LastCompleted = Deployment{ID: target, State: InProgress, Outcome: h.outcomes[target],
		RolledBackTo: true}, ""
	h.RollingBack, h.Release = true, "ROLLBACK_IN_PROGRESS"
	return target, nil
}
