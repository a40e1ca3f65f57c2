package cluster

import (
	"time"
)

// StartCall is one StartTask of ECS: the same task definition on up to 10 instances, no instance
// twice.
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
	Last           TaskStatus // the statuses that ECS has on the way count as the one they follow
	Desired        TaskStatus
	Version        int64
	Health         Health
	Started        time.Time
	Stopped        time.Time
	StopCode       string
	Reason         string
	ExitCode       *int // the first essential container's, where it has one
	Needs          Resources
	Ports          []Port
	// Bindings are the host ports that lead to its containers, Address its own private IPv4 address
	// where it has a network interface. Only answers have them.
	Bindings []Binding `json:",omitempty"`
	Address  string    `json:",omitempty"`
}

// StartAnswer is what StartTask answers: the tasks that will start, and per instance why not.
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
