package autoscaling

import (
	"maps"
	"slices"
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
	// CheckMachine reports whether the container instance is in its cluster, and whether EC2 has
	// stopped its machine.
	CheckMachine(id string) (registered, stopped bool)
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
	// HasProfile reports whether an instance profile exists. It belongs in a step.
	HasProfile func(name string) bool
	// HasRoom reports whether the account's quotas allow one more machine of a type. It belongs in
	// a step.
	HasRoom func(machine string) bool
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
	hasProfile  func(name string) bool
	hasRoom     func(machine string) bool
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
		kernel: k, machines: o.Machines, templates: o.Templates, alarms: o.Alarms, hasProfile: o.HasProfile,
		hasRoom:     o.HasRoom,
		eventSource: o.EventSource, launchAfter: o.LaunchAfter, byName: table.Rows,
	}
	o.Alarms.ObserveMetrics(s.applyPolicies)
	return &Groups{s, table}
}

// Resume implements [kernel.Tables].
func (e *Groups) Resume(time.Time) { e.resumeTimers() }

// MachineTerminated makes the group of a terminated or stopped machine replace it. It belongs in a
// step.
func (e *Groups) MachineTerminated(ec2 string) {
	for _, g := range e.byName {
		if g.findMember(ec2) != nil {
			e.reconcileLater(g)
		}
	}
}

// Hosts returns the members of groups, by group and in order of launch, and which of them have
// registered with a cluster. It belongs in a step.
func (e *Groups) Hosts() (hosts []ec2.Host, registered map[string]bool) {
	registered = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(e.byName)) {
		for _, m := range e.byName[name].Members {
			if m.Lifecycle == "" {
				continue
			}
			registered[m.EC2] = m.Instance != ""
			state := ec2.HostRunning
			if m.Lifecycle == pending {
				state = ec2.HostPending
			}
			plan, _ := e.planLaunch(e.byName[name], m.Template) // without its template, the image is not known
			hosts = append(hosts, ec2.Host{ID: m.EC2, Zone: m.Zone, Type: m.Type, Image: plan.image, State: state,
				LaunchedAt: m.LaunchedAt, Group: name, Interfaces: 1})
		}
	}
	return hosts, registered
}

// TerminateUnregistered terminates a member that has not registered with a cluster, and reports
// whether there is one. Its group replaces it. It belongs in a step.
func (e *Groups) TerminateUnregistered(id string, now time.Time) bool {
	for _, g := range e.byName {
		if m := g.findMember(id); m != nil && m.Instance == "" && m.Lifecycle != "" {
			g.completeActivity(m.Activity, now)
			m.Lifecycle = ""
			e.kernel.SaveRow(g)
			e.reconcileLater(g)
			return true
		}
	}
	return false
}

func (e *scaler) groupARN(name string) string {
	return e.kernel.ResourceARN("autoscaling", "autoScalingGroup:"+kernel.FormatUUID(cluster.Digest("group",
		name))+":autoScalingGroupName/"+name)
}
