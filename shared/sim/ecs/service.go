package ecs

import (
	"time"

	"berth/shared/sim/ec2"
	"berth/shared/sim/kernel"
)

// Options configure the service and its agents.
type Options struct {
	EventSource string
	// MinStart and MaxStart bound the time from StartTask to RUNNING.
	MinStart, MaxStart time.Duration
	// KeepStopped is how long stopped tasks and gone instances stay visible.
	KeepStopped time.Duration
}

// Service is ECS as Berth's functions call it. Its fields are the operations of the ECS API.
type Service struct {
	kernel *kernel.Kernel
	agents *agents
	definitionCalls
	// Machines is what happens to machines and tasks without a call of ECS.
	Machines *Machines

	Clusters    *Clusters
	Definitions *Definitions
	Instances   *Instances
	Attributes  *Attributes
	Tags        *Tags
	Tasks       *Tasks
}

// The operations of the ECS API, by what they are about. They are apart so that a type has a face
// that one can read; all of them work on the same tables. The method of an operation is named like
// it, takes and returns the SDK's types, and is one step of the kernel.
type (
	// Clusters are the operations on clusters.
	Clusters struct{ *tables }
	// Definitions are the operations on task definitions.
	Definitions struct{ *tables }
	// Attributes are the operations on the attributes of container instances.
	Attributes struct{ *tables }
	// Tags are the operations on tags.
	Tags struct{ *tables }
	// Instances are the operations on container instances.
	Instances struct {
		kernel *kernel.Kernel
		agents *agents
	}
	// Tasks are the operations on tasks.
	Tasks struct {
		kernel *kernel.Kernel
		agents *agents
	}
	// Machines is what happens to machines and tasks without a call of ECS.
	Machines struct {
		kernel *kernel.Kernel
		agents *agents
	}
)

// New returns a service without clusters.
func New(k *kernel.Kernel, o Options) *Service {
	t := &tables{
		kernel: k, options: o, clusters: map[string]*ecsCluster{}, families: map[string]*family{},
		instances: map[string]*instance{}, tasks: map[string]*task{},
	}
	a := &agents{tables: t}
	definitions := &Definitions{t}
	return &Service{
		kernel: k, agents: a, definitionCalls: definitionCalls{definitions}, Machines: &Machines{k, a},
		Clusters: &Clusters{t}, Definitions: definitions, Instances: &Instances{k, a},
		Attributes: &Attributes{t}, Tags: &Tags{t}, Tasks: &Tasks{k, a},
	}
}

// agents run on the machines: they start, stop and report tasks. They share the tables with ECS;
// what happens on a machine reaches ECS's view of a task through applyReport alone.
type agents struct {
	*tables
	behaviour  func(StartInfo) Behaviour
	terminated func(ec2 string)
}

// CheckCluster implements [autoscaling.Machines].
func (e *Service) CheckCluster(name string) error {
	_, err := e.agents.findCluster(name)
	return err
}

// Launch implements [autoscaling.Machines].
func (e *Service) Launch(cluster string, m ec2.Machine, l ec2.Launch) (id string, err error) {
	c, err := e.agents.findCluster(cluster)
	if err != nil {
		return "", err
	}
	i, err := e.agents.registerMachine(c, m, l)
	if err != nil {
		return "", err
	}
	return i.ID, nil
}

// CheckMachine implements [autoscaling.Machines].
func (e *Service) CheckMachine(id string) (registered, stopped bool) {
	i, err := e.agents.findRegistered(id)
	if err != nil {
		return false, false
	}
	return true, i.machineFaults.Stopped
}

// Terminate implements [autoscaling.Machines].
func (e *Service) Terminate(id string, now time.Time) {
	e.agents.terminateMachine(e.agents.instances[id], now)
}

// DisconnectAgent implements [autoscaling.Machines].
func (e *Service) DisconnectAgent(id string, now time.Time) {
	e.agents.disconnectAgent(e.agents.instances[id], now)
}
