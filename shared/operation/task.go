package operation

import (
	"time"

	"berth/shared/cluster"
)

// ProtectedTask is a task and until when it is not stopped by the scheduler; zero: it may be.
type ProtectedTask struct {
	Task  string // id
	Until time.Time
}

// SubmitTasks runs tasks where placement decides (RunTask), or starts them on the instances named
// (StartTask).
type SubmitTasks struct {
	Kind           cluster.RequestKind
	Cluster        string
	TaskDefinition string
	Count          int
	Instances      []string // ids, of StartTask
	Group          string
	StartedBy      string
	Overrides      *cluster.Overrides
	Rules          cluster.Rules
	Network        *cluster.Network
	// Wait is the value of the tag berth:wait: a duration, or "forever"; empty fails what fits
	// nowhere.
	Wait   string
	Tags   map[string]string
	Token  string
	Params string
	// Launched reports that the caller named a launch type: then the cluster's default strategy
	// does not hold.
	Launched bool
}

// TaskLaunch is what a task was asked for with beside its definition: a capacity provider (S14), or
// the launch type EXTERNAL.
type TaskLaunch struct {
	Provider string
	External bool
}

// ListTasks lists tasks in order of id. Desired is RUNNING where empty.
type ListTasks struct {
	Cluster   string
	Service   string
	Family    string
	Instance  string
	StartedBy string
	Desired   cluster.TaskStatus
	External  *bool  // of the launch type EXTERNAL, or not; nil: any
	After     string // task id
	Limit     int
}
