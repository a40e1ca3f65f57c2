package cluster

import (
	"time"
)

// StartCall is one call of ECS's StartTask: the same task definition on up to 10 different
// instances.
type StartCall struct {
	Cluster        string
	TaskDefinition string   // family:revision
	Instances      []string // ids
	StartedBy      string   // see [StartedBy]
	Overrides      *Overrides
	Network        *Network
	Launch         *Launch
}

// MaxStart is how many instances one StartTask may name.
const MaxStart = 10

// ECSTask is a task as ECS reports it, in an answer or in an event.
type ECSTask struct {
	Cluster   string
	ID        string
	Instance  string // id
	StartedBy string
	Group     string
	// TaskDefinition is family:revision.
	TaskDefinition string
	Last           TaskStatus // statuses that Berth does not distinguish count as the one before
	Desired        TaskStatus
	Version        int64
	Health         Health
	Started        time.Time
	Stopped        time.Time
	StopCode       string
	Reason         string
	ExitCode       *int // of the first essential container that has one
	Needs          Resources
	Ports          []Port
	// Bindings are the host ports that lead to its containers. Address is its private IPv4 address
	// if it has a network interface. Answers have them, events do not.
	Bindings []Binding `json:",omitempty"`
	Address  string    `json:",omitempty"`
}

// StartAnswer is the answer to StartTask: the tasks that will start, and the instances on which
// none will, with the reason.
type StartAnswer struct {
	Tasks    []ECSTask
	Failures []Failure // ARN is the instance's
}

// TaskFilter selects tasks of ListTasks. ECS allows StartedBy only alone, and lists by desired
// status RUNNING unless another is named.
type TaskFilter struct {
	Cluster   string
	Instance  string
	StartedBy string
	Desired   TaskStatus
}

// DescribeBatch is how many tasks or instances one Describe call may name.
const DescribeBatch = 100
