package operation

import (
	"time"

	"berth/shared/cluster"
)

// ProtectedTask says until when the scheduler does not stop a task; the zero time if it may.
type ProtectedTask struct {
	Task  string // id
	Until time.Time
}

// SubmitTasks runs tasks where placement decides (RunTask) or on the instances named (StartTask).
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
	Options        *cluster.TaskOptions // nil for none
	// Wait is the value of the tag berth:wait: a duration, or "forever". If it is empty, a task
	// that finds no instance fails.
	Wait   string
	Tags   map[string]string
	Token  string
	Params string
	// PropagateTags gives the tasks their definition's tags, ManagedTags those of ECS's own.
	PropagateTags, ManagedTags bool
	// Launched reports that the caller named a launch type, so that the cluster's default strategy
	// does not apply (S14).
	Launched bool
}

// TaskLaunch is what a task was requested with besides its definition: a capacity provider (S14),
// or the launch type EXTERNAL.
type TaskLaunch struct {
	Provider string
	External bool
}

// ListTasks asks for a page of tasks. An empty Desired means RUNNING.
type ListTasks struct {
	Cluster   string
	Service   string
	Family    string
	Instance  string
	StartedBy string
	Desired   cluster.TaskStatus
	External  *bool  // of the launch type EXTERNAL, or not; nil: any
	After     string // Next of the page before; "" for the first page
	Limit     int    // 0: all in one page
}

// A TaskPage is a page of a list of tasks, sorted by id. The tasks of a service are on one page or
// on neighbouring ones; those that Berth did not start are on the last pages.
type TaskPage struct {
	IDs []string
	// Next is where the next page begins; "" after the last one.
	Next string
}
