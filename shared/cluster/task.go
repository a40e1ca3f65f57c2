package cluster

// TaskStatus is a lastStatus or desiredStatus of the ECS API.
type TaskStatus string

// The task statuses that Berth tells apart; ECS has more on the way, which count as the one they follow.
const (
	TaskProvisioning TaskStatus = "PROVISIONING" // no instance yet
	TaskPending      TaskStatus = "PENDING"
	TaskRunning      TaskStatus = "RUNNING"
	TaskStopping     TaskStatus = "STOPPING"
	TaskStopped      TaskStatus = "STOPPED"
)

// The stopCodes of the ECS API that Berth writes itself or acts on.
const (
	StopFailedToStart   = "TaskFailedToStart"
	StopContainerExited = "EssentialContainerExited"
	StopUserInitiated   = "UserInitiated"
	StopByScheduler     = "ServiceSchedulerInitiated"
	StopInfrastructure  = "InfrastructureHealth"
	StopTermination     = "TerminationNotice" // of its instance
	StopSpot            = "SpotInterruption"
	// StopRefused is Berth's own: ECS refused to start the task on its instance, and it never was ECS's. Users see
	// [StopFailedToStart].
	StopRefused = "StartRefused"
)

// Task is one task: what was decided (written by placement alone), who started it (dispatch alone) and what ECS
// reported (task state changes alone).
type Task struct {
	Head
	ID string `json:"id"`
	// Owner is the short key of the service, or of the cluster's standalone tasks; with the id it is the row's key.
	Owner    string `json:"o"`
	Service  string `json:"sv,omitempty"` // name; empty for a standalone task
	Group    string `json:"gr,omitempty"` // family:NAME by default, service:NAME for a service's task
	Revision string `json:"re,omitempty"` // deployment id of the service
	// Request is the id of the RunTask or StartTask that asked for it.
	Request string `json:"rq,omitempty"`

	TaskDefinition string    `json:"td"` // family:revision
	Needs          Resources `json:"n"`
	Ports          []Port    `json:"p,omitempty"`
	// Rules are those of a standalone task; a service's are in its row.
	Rules *Rules `json:"ru,omitempty"`
	// Network is a standalone task's; a service's is in its row.
	Network *Network `json:"nw,omitempty"`
	// Reported are the loads that the task itself reported, per metric (P10); for others the default holds.
	Reported map[string]int64 `json:"ld,omitempty"`
	// Replaces is the id of the task of the same service that this one was started for, to take its place on another
	// instance (P8, P10): once this one is healthy, that one stops.
	Replaces  string     `json:"rp,omitempty"`
	Overrides *Overrides `json:"ov,omitempty"`
	// StartedByUser is what the caller of RunTask gave and sees; Batch is what ECS gets (see [StartedBy]).
	StartedByUser string            `json:"su,omitempty"`
	Tags          map[string]string `json:"tg,omitempty"`

	// Instance is empty while the task waits in PROVISIONING.
	Instance string `json:"in,omitempty"`
	GPUs     []int  `json:"gd,omitempty"` // positions of the devices it was given
	Batch    string `json:"ba,omitempty"` // startedBy at ECS, see [StartedBy]
	// WaitUntil ends the wait in PROVISIONING; zero waits for ever.
	WaitUntil Instant    `json:"wu,omitzero"`
	Desired   TaskStatus `json:"de"` // RUNNING or STOPPED
	CreatedAt Instant    `json:"ca"`

	// Foreign marks a task that somebody else started on a known instance: it holds capacity and nothing else.
	Foreign bool   `json:"fo,omitempty"`
	Health  Health `json:"he,omitempty"` // as ECS reported it
	// Counted marks a failure that its deployment's circuit breaker has counted.
	Counted bool `json:"cd,omitempty"`

	// Claim says which attempt to start it is under way or done; written by dispatch.
	Attempt   int32   `json:"at,omitempty"`
	ClaimedAt Instant `json:"cl,omitzero"`

	// What ECS reported. Last is empty until the first report that is kept (PENDING is not).
	Last     TaskStatus `json:"la,omitempty"`
	Version  int64      `json:"ve,omitempty"` // of the event that last changed it
	ECSID    string     `json:"ei,omitempty"` // ECS's own task id
	Started  Instant    `json:"sa,omitzero"`
	Stopped  Instant    `json:"so,omitzero"`
	StopCode string     `json:"sc,omitempty"`
	Reason   string     `json:"rs,omitempty"`
	ExitCode *int       `json:"ex,omitempty"`
}

// Status is the lastStatus that the ECS API shows.
func (t *Task) Status() TaskStatus {
	switch {
	case t.Last == TaskStopped:
		return TaskStopped
	case t.Instance == "" && t.Desired == TaskStopped:
		return TaskStopped
	case t.Instance == "":
		return TaskProvisioning
	case t.Last == "":
		return TaskPending
	case t.Desired == TaskStopped:
		return TaskStopping
	}
	return t.Last
}

// Ended reports whether the task holds nothing any more and never will.
func (t *Task) Ended() bool { return t.Status() == TaskStopped }

// Waiting reports whether the task still looks for an instance.
func (t *Task) Waiting() bool {
	return t.Instance == "" && t.Desired == TaskRunning && t.Last != TaskStopped
}

// Active reports whether the task counts for its service: not ended and not being stopped, be it that ECS stops it
// by itself.
func (t *Task) Active() bool {
	return t.Desired == TaskRunning && t.Last != TaskStopping && !t.Ended()
}

// Holds reports whether the task holds capacity on its instance: from the commit that put it there until ECS has
// reported it STOPPED, stopping included.
func (t *Task) Holds() bool { return t.Instance != "" && t.Last != TaskStopped }

// NeverRan reports whether the task ended without ever having been RUNNING, by its own fault: Berth did not want it to, ECS
// did not refuse it, and its instance was not lost (S7).
func (t *Task) NeverRan() bool {
	return t.Last == TaskStopped && t.Started.IsZero() && t.Desired == TaskRunning && !t.Refused() && !t.lostInstance()
}

// lostInstance reports whether the task ended with its instance (stopCode of the ECS API reference's Task).
func (t *Task) lostInstance() bool {
	switch t.StopCode {
	case StopInfrastructure, StopTermination, StopSpot:
		return true
	}
	return false
}

// Refused reports whether ECS refused to start the task on its instance (S7): that says nothing of the task.
func (t *Task) Refused() bool { return t.StopCode == StopRefused }

// Overrides change a task definition for one task; Berth keeps and passes them, and reads only what counts for
// placement into [Task.Needs].
type Overrides struct {
	TaskRole      string              `json:"tr,omitempty"`
	ExecutionRole string              `json:"er,omitempty"`
	CPU           string              `json:"c,omitempty"`
	Memory        string              `json:"m,omitempty"`
	Containers    []ContainerOverride `json:"co,omitempty"`
}

// ContainerOverride changes one container of a task.
type ContainerOverride struct {
	Name        string     `json:"n"`
	Command     []string   `json:"cm,omitempty"`
	Environment []Variable `json:"en,omitempty"`
	CPU         *int32     `json:"c,omitempty"`
	Memory      *int32     `json:"m,omitempty"`
	Reservation *int32     `json:"mr,omitempty"`
}

// Variable is one environment variable of a container.
type Variable struct {
	Name  string `json:"n"`
	Value string `json:"v"`
}

// OwnMetrics are the default loads of a standalone task; of a service's task the service has them.
func (t *Task) OwnMetrics() []Metric {
	if t.Service != "" || t.Rules == nil {
		return nil
	}
	return t.Rules.Metrics
}

// StartFailed begins the stoppedReason of a task that was not started, as with ECS.
const StartFailed = "TaskFailedToStart: "
