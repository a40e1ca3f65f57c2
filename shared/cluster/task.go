package cluster

// TaskStatus is a lastStatus or desiredStatus of the ECS API.
type TaskStatus string

// The task statuses that Berth distinguishes. ECS has more in between; each counts as the one
// before it.
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
	// StopRefused is Berth's own: ECS refused to start the task on its instance and never had it.
	// Users see [StopFailedToStart].
	StopRefused = "StartRefused"
)

// Task is the row of one task. Each of its parts has one writer: placement decides, dispatch
// starts, and what ECS reports is recorded by taskstatechange.
type Task struct {
	Head
	TaskSpec
	TaskAssignment
	TaskReport
}

// TaskSpec says what a task is and what it needs. Placement writes it.
type TaskSpec struct {
	ID string `json:"id"`
	// Owner is the short key of the service, or of the cluster's standalone tasks. With the id it
	// is the row's key.
	Owner    string `json:"o"`
	Service  string `json:"sv,omitempty"` // name; empty for a standalone task
	Group    string `json:"gr,omitempty"` // family:NAME by default, service:NAME for a service's task
	Revision string `json:"re,omitempty"` // deployment id of the service
	// Request is the id of the RunTask or StartTask that asked for it.
	Request string `json:"rq,omitempty"`

	TaskDefinition string    `json:"td"` // family:revision
	Needs          Resources `json:"n"`
	Ports          []Port    `json:"p,omitempty"`
	// Rules and Network are set for a standalone task. A service's tasks have those of the service.
	Rules   *Rules   `json:"ru,omitempty"`
	Network *Network `json:"nw,omitempty"`
	// Replaces is the id of the task of the same service that this one was started to replace on
	// another instance (P8, P10). Once this one is healthy, that one stops.
	Replaces  string     `json:"rp,omitempty"`
	Overrides *Overrides `json:"ov,omitempty"`
	// StartedByUser is the startedBy that the caller of RunTask gave and sees. ECS gets
	// [TaskAssignment.Batch].
	StartedByUser string            `json:"su,omitempty"`
	Tags          map[string]string `json:"tg,omitempty"`
	CreatedAt     Instant           `json:"ca"`
	// WaitUntil ends the wait in PROVISIONING; zero waits for ever.
	WaitUntil Instant `json:"wu,omitzero"`
}

// TaskAssignment says where a task runs and whether it should. Placement writes it, except for the
// claim, which dispatch writes when it starts the task.
type TaskAssignment struct {
	Desired TaskStatus `json:"de"` // RUNNING or STOPPED
	// Instance is empty while the task waits in PROVISIONING.
	Instance string `json:"in,omitempty"`
	GPUs     []int  `json:"gd,omitempty"` // positions of the devices it was given
	Batch    string `json:"ba,omitempty"` // startedBy at ECS, see [StartedBy]

	// ClaimedAt is when dispatch claimed the task to start it, see [TaskReport.Attempt].
	ClaimedAt Instant `json:"cl,omitzero"`
}

// TaskReport is how the task goes: what ECS, or the task itself, last reported, and dispatch's last
// attempt to start it.
type TaskReport struct {
	// Last is the lastStatus. It is empty until the first report that is kept; PENDING is not kept.
	Last    TaskStatus `json:"la,omitempty"`
	Version int64      `json:"ve,omitempty"` // of the event that last changed it
	ECSID   string     `json:"ei,omitempty"` // ECS's own task id
	// Health, Foreign, Counted, Balances and Attempt are adjacent so that they share one word of
	// memory.
	Health Health `json:"he,omitempty"`
	// Foreign marks a task that somebody else started on a known instance. It holds capacity and
	// nothing else.
	Foreign bool `json:"fo,omitempty"`
	// Counted marks a failed start that its deployment's circuit breaker has counted.
	Counted bool `json:"cd,omitempty"`
	// Balances marks a replacement that was started to balance the cluster (P15).
	Balances bool `json:"bl,omitempty"`
	// Attempt is the attempt to start the task that dispatch has claimed last, from 1.
	Attempt  int32   `json:"at,omitempty"`
	Started  Instant `json:"sa,omitzero"`
	Stopped  Instant `json:"so,omitzero"`
	StopCode string  `json:"sc,omitempty"`
	Reason   string  `json:"rs,omitempty"`
	ExitCode *int    `json:"ex,omitempty"`
	// Reported are the loads that the task itself reported, per metric (P10). For other metrics its
	// default load holds.
	Reported map[string]int64 `json:"ld,omitempty"`
}

// Status returns the lastStatus that the ECS API shows.
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

// HasEnded reports whether the task holds no capacity and never will again.
func (t *Task) HasEnded() bool { return t.Status() == TaskStopped }

// IsProvisioning reports whether the task waits for an instance.
func (t *Task) IsProvisioning() bool {
	return t.Instance == "" && t.Desired == TaskRunning && t.Last != TaskStopped
}

// IsActive reports whether the task counts for its service: it has not ended and is not being
// stopped, by Berth or by ECS.
func (t *Task) IsActive() bool {
	return t.Desired == TaskRunning && t.Last != TaskStopping && !t.HasEnded()
}

// HoldsCapacity reports whether the task holds capacity on its instance: from the commit that
// placed it until ECS reports it STOPPED. A task that is being stopped still holds it.
func (t *Task) HoldsCapacity() bool { return t.Instance != "" && t.Last != TaskStopped }

// NeverRan reports whether the task is a failed start: it ended without having been RUNNING,
// through its own fault. Berth did not stop it, ECS did not refuse it, and it did not end with its
// instance (S7).
func (t *Task) NeverRan() bool {
	return t.Last == TaskStopped && t.Started.IsZero() && t.Desired == TaskRunning && !t.WasRefused() &&
		!t.lostInstance()
}

// lostInstance reports whether the task ended with its instance (stopCode of the ECS API
// reference's Task).
func (t *Task) lostInstance() bool {
	switch t.StopCode {
	case StopInfrastructure, StopTermination, StopSpot:
		return true
	}
	return false
}

// WasRefused reports whether ECS refused to start the task on its instance (S7). The task itself
// may be fine.
func (t *Task) WasRefused() bool { return t.StopCode == StopRefused }

// Overrides change a task definition for one task. Berth passes them on to ECS; what placement
// needs of them is in [TaskSpec.Needs].
type Overrides struct {
	TaskRole      string              `json:"tr,omitempty"`
	ExecutionRole string              `json:"er,omitempty"`
	CPU           string              `json:"c,omitempty"`
	Memory        string              `json:"m,omitempty"`
	Containers    []ContainerOverride `json:"co,omitempty"`
	// Options are beside what changes the task definition; nil for none.
	Options *TaskOptions `json:"op,omitempty"`
}

// IsEmpty reports whether the overrides change nothing of the task definition.
func (o *Overrides) IsEmpty() bool {
	return o == nil || o.TaskRole+o.ExecutionRole+o.CPU+o.Memory == "" && len(o.Containers) == 0
}

// WithOptions returns the overrides with these options, which may be nil, as may the overrides.
func (o *Overrides) WithOptions(options *TaskOptions) *Overrides {
	if options == nil {
		return o
	}
	next := Overrides{}
	if o != nil {
		next = *o
	}
	next.Options = options
	return &next
}

// ContainerOverride changes one container of a task.
type ContainerOverride struct {
	Name        string     `json:"n"`
	Command     []string   `json:"cm,omitempty"`
	Environment []Variable `json:"en,omitempty"`
	// EnvironmentFiles are ARNs of objects in S3, each a file of variables.
	EnvironmentFiles []string `json:"ef,omitempty"`
	CPU              *int32   `json:"c,omitempty"`
	Memory           *int32   `json:"m,omitempty"`
	Reservation      *int32   `json:"mr,omitempty"`
}

// Variable is one environment variable of a container.
type Variable struct {
	Name  string `json:"n"`
	Value string `json:"v"`
}

// OwnMetrics returns the default loads of a standalone task. Those of a service's task are in the
// service's row.
func (t *Task) OwnMetrics() []Metric {
	if t.Service != "" || t.Rules == nil {
		return nil
	}
	return t.Rules.Metrics
}

// StartFailed begins the stoppedReason of a task that was not started, as with ECS.
const StartFailed = "TaskFailedToStart: "
