package autoscaling

import (
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/cloudwatch"
	"berth/shared/sim/ec2"
	"berth/shared/sim/kernel"
)

const bucket = "groups"

// Machines is where groups launch their instances: ECS. Its methods belong in a step.
type Machines interface {
	// CheckCluster returns the error of a call that names a cluster which is not there.
	CheckCluster(name string) error
	// Launch registers a machine with a cluster and returns its container instance id.
	Launch(cluster string, m ec2.Machine, l ec2.Launch) (id string, err error)
	// IsRegistered reports whether the container instance is in its cluster.
	IsRegistered(id string) bool
	// Terminate terminates the machine of a container instance.
	Terminate(id string, now time.Time)
	// DisconnectAgent cuts the agent of a container instance off from ECS.
	DisconnectAgent(id string, now time.Time)
}

// Options configure the groups.
type Options struct {
	Machines  Machines
	Templates *ec2.Templates
	Alarms    *cloudwatch.Service
	// EventSource is the source of the events of groups.
	EventSource string
	// LaunchAfter is how long a launch takes until the instance is in service.
	// A launch that failed is repeated after half as long again.
	LaunchAfter time.Duration
}

// scaler keeps every group at its desired capacity. Its methods belong in a step; those of [Groups]
// are calls.
type scaler struct {
	kernel      *kernel.Kernel
	machines    Machines
	templates   *ec2.Templates
	alarms      *cloudwatch.Service
	eventSource string
	launchAfter time.Duration
	byName      map[string]*group // the rows of the table
	faults      func(group string, n int64) LaunchFault
}

// Groups are the Auto Scaling groups.
type Groups struct {
	*scaler
	kernel.Table[*group]
}

// NewGroups returns no groups yet.
func NewGroups(k *kernel.Kernel, o Options) *Groups {
	table := kernel.NewTable[*group](bucket)
	s := &scaler{
		kernel: k, machines: o.Machines, templates: o.Templates, alarms: o.Alarms, eventSource: o.EventSource,
		launchAfter: o.LaunchAfter, byName: table.Rows,
	}
	o.Alarms.ObserveMetrics(s.applyPolicies)
	return &Groups{s, table}
}

// Resume implements [kernel.Tables].
func (e *Groups) Resume(time.Time) { e.resumeTimers() }

// MachineTerminated makes the group of a terminated machine replace it. It belongs in a step.
func (e *Groups) MachineTerminated(ec2 string) {
	for _, g := range e.byName {
		if g.findMember(ec2) != nil {
			e.reconcileLater(g)
		}
	}
}

func (e *scaler) groupARN(name string) string {
	return e.kernel.ResourceARN("autoscaling", "autoScalingGroup:"+kernel.FormatUUID(cluster.Digest("group",
		name))+":autoScalingGroupName/"+name)
}
