package model

import "fmt"

// The states of a deployment (rolloutState).
const (
	InProgress = "IN_PROGRESS"
	Completed  = "COMPLETED"
	Failed     = "FAILED"
)

// TaskOutcome is what becomes of the tasks of a revision.
type TaskOutcome int

// The fates of tasks.
const (
	RunHealthy      TaskOutcome = iota // RUNNING and healthy
	NeverRun                           // never RUNNING
	BecomeUnhealthy                    // RUNNING, and found UNHEALTHY
)

// Cause is why a deployment failed.
type Cause int

// The causes.
const (
	ByBreaker Cause = iota
	ByAlarm
	ByRequest // StopServiceDeployment with ROLLBACK
	ByAbort   // StopServiceDeployment with ABORT: what is there stays
)

// Deployment is one of a service's deployments.
type Deployment struct {
	ID      string
	State   string
	Outcome TaskOutcome
	// RolledBackTo tells that it is PRIMARY again by a rollback.
	RolledBackTo bool
}

// DeploymentHistory is what has become of a service's deployments so far: S8 as a machine that takes one step per happening, and
// refuses those that may not be.
type DeploymentHistory struct {
	Primary Deployment
	// Older are the ACTIVE ones, newest first.
	Older []Deployment
	// LastCompleted is the deployment completed last before the PRIMARY one; empty where there is none.
	LastCompleted string
	// RollingBack tells that the PRIMARY one is there in place of one that failed, and is not completed yet.
	RollingBack bool
	Release     string // status of the service deployment
	outcomes    map[string]TaskOutcome
}

// StartHistory begins a course with the service's creation.
func StartHistory(id string, fate TaskOutcome) *DeploymentHistory {
	return &DeploymentHistory{
		Primary: Deployment{ID: id, State: InProgress, Outcome: fate}, Release: InProgress, outcomes: map[string]TaskOutcome{id: fate},
	}
}

// Begin is an update that starts a deployment: it becomes PRIMARY, the others go.
func (c *DeploymentHistory) Begin(id string, fate TaskOutcome) error {
	if _, known := c.outcomes[id]; known {
		return fmt.Errorf("a new deployment has the id of an earlier one, %s", id)
	}
	c.outcomes[id] = fate
	c.retire()
	c.Primary, c.RollingBack, c.Release = Deployment{ID: id, State: InProgress, Outcome: fate}, false, InProgress
	return nil
}

// retire makes the PRIMARY deployment an older one.
func (c *DeploymentHistory) retire() {
	if c.Primary.State == Completed {
		c.LastCompleted = c.Primary.ID
	}
	c.Older = append([]Deployment{c.Primary}, c.Older...)
}

// Complete is the PRIMARY deployment having all tasks, healthy, and none being left of others.
func (c *DeploymentHistory) Complete() error {
	if c.Primary.State != InProgress {
		return fmt.Errorf("deployment %s was completed, and it is %s", c.Primary.ID, c.Primary.State)
	}
	c.Primary.State, c.Older = Completed, nil
	c.Release = "SUCCESSFUL"
	if c.RollingBack {
		c.Release = "ROLLBACK_SUCCESSFUL"
	}
	c.RollingBack = false
	return nil
}

// Fail is the PRIMARY deployment failing. It says which deployment becomes PRIMARY in its place: the one completed last;
// none where none was, or no rollback is wanted, and it then launches nothing more.
func (c *DeploymentHistory) Fail(s Service, cause Cause, alarmRollback bool) (target string, err error) {
	if c.Primary.State != InProgress {
		return "", fmt.Errorf("deployment %s failed, and it is %s", c.Primary.ID, c.Primary.State)
	}
	if cause == ByBreaker && !s.Breaker.Enable {
		return "", fmt.Errorf("the circuit breaker of %s failed deployment %s, and it is off", s.Name, c.Primary.ID)
	}
	c.Primary.State = Failed
	wanted := cause == ByRequest || cause == ByBreaker && s.Breaker.Rollback || cause == ByAlarm && alarmRollback
	if !wanted || c.LastCompleted == "" || c.Primary.RolledBackTo && c.RollingBack {
		c.Release = "STOPPED"
		if c.RollingBack {
			c.Release = "ROLLBACK_FAILED"
		}
		c.RollingBack = false
		return "", nil
	}
	target = c.LastCompleted
	c.retire()
	for n, d := range c.Older {
		if d.ID == target {
			c.Older = append(c.Older[:n:n], c.Older[n+1:]...)
			break
		}
	}
	// It is no rollback target again until it is completed again.
	c.Primary, c.LastCompleted = Deployment{ID: target, State: InProgress, Outcome: c.outcomes[target], RolledBackTo: true}, ""
	c.RollingBack, c.Release = true, "ROLLBACK_IN_PROGRESS"
	return target, nil
}
