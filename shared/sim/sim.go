package sim

import (
	"cmp"
	"io"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/balancing"
	"berth/shared/sim/cloudwatch"
	"berth/shared/sim/ec2"
	"berth/shared/sim/ecs"
	"berth/shared/sim/iam"
	"berth/shared/sim/kernel"
	"berth/shared/sim/servicequotas"
)

// Options configure the simulated AWS.
type Options struct {
	Clock kernel.Clock
	// Emit receives every event in order, as EventBridge would deliver it. It runs outside of the
	// lock and may call the services.
	Emit    func(event []byte)
	Seed    uint64
	Account cluster.Account
	Path    string // of the file; where empty everything lives in memory only
	// Unwritable is called with the error when writing the file fails, and with nil when it
	// succeeds again. It may be nil, and must not call the services.
	Unwritable func(err error)

	// Source, AlarmSource and ScalingSource are the sources of the events of ECS, alarms and Auto
	// Scaling groups: aws.ecs, aws.cloudwatch and aws.autoscaling where empty.
	Source, AlarmSource, ScalingSource string
	// MinStart and MaxStart bound the time from StartTask to RUNNING: 1 to 3 s where both are zero.
	MinStart, MaxStart time.Duration
	// HealthyAfter is how long a target group looks at a target before it is healthy: 10 s where
	// zero.
	HealthyAfter time.Duration
	// LaunchAfter is how long a group's launch takes until the instance is in service: 40 s where
	// zero. A launch that failed is repeated after half as long again.
	LaunchAfter time.Duration
	// KeepStopped is how long stopped tasks and gone instances stay visible: an hour where zero.
	KeepStopped time.Duration
}

// AWS is the simulated AWS. Its services are ports of package handler in process; their protocols
// are served by [AWS.ServeProtocols] and ECS.Endpoint. Their methods may be called from any
// goroutine.
type AWS struct {
	kernel *kernel.Kernel
	ECS    *ecs.Service
	// Machines is what happens to machines and tasks without a call of ECS.
	Machines     *ecs.Machines
	TargetGroups *balancing.TargetGroups
	Classic      *balancing.ClassicBalancers
	Registries   *balancing.Registries
	CloudWatch   *cloudwatch.Service
	Templates    *ec2.Templates
	Profiles     *iam.Profiles
	Roles        *iam.Roles
	Groups       *autoscaling.Groups
	Quotas       *servicequotas.Service
}

// Open starts the simulated AWS, empty or as its file says.
// It is an error if another process has the file open.
func Open(o Options) (*AWS, error) {
	if o.MinStart == 0 && o.MaxStart == 0 {
		o.MinStart, o.MaxStart = time.Second, 3*time.Second
	}
	k := kernel.New(kernel.Options{
		Clock: o.Clock, Emit: o.Emit, Seed: o.Seed, Account: o.Account, Unwritable: o.Unwritable,
	})
	a := &AWS{kernel: k}
	a.ECS = ecs.New(k, ecs.Options{
		EventSource: cmp.Or(o.Source, "aws.ecs"), MinStart: o.MinStart, MaxStart: max(o.MinStart, o.MaxStart),
		KeepStopped: cmp.Or(o.KeepStopped, time.Hour),
	})
	a.Machines = a.ECS.Machines
	a.TargetGroups = balancing.NewTargetGroups(k, a.ECS, cmp.Or(o.HealthyAfter, 10*time.Second))
	a.Classic = balancing.NewClassicBalancers(k, a.ECS, cmp.Or(o.HealthyAfter, 10*time.Second))
	a.Registries = balancing.NewRegistries(k)
	a.CloudWatch = cloudwatch.NewService(k, cmp.Or(o.AlarmSource, "aws.cloudwatch"))
	a.Templates = ec2.NewTemplates(k)
	a.Profiles = iam.NewProfiles(k)
	a.Roles = iam.NewRoles(k, a.Profiles)
	a.Quotas = servicequotas.NewService(k, a.runningVCPUs)
	a.CloudWatch.ServeUsage(a.Quotas.Usage)
	a.Groups = autoscaling.NewGroups(k, autoscaling.Options{
		Machines: a.ECS, Templates: a.Templates, Alarms: a.CloudWatch, HasProfile: a.Profiles.Exists,
		HasRoom:     a.Quotas.HasRoom,
		EventSource: cmp.Or(o.ScalingSource, "aws.autoscaling"),
		LaunchAfter: cmp.Or(o.LaunchAfter, 40*time.Second),
	})
	a.ECS.Machines.OnTerminate(a.Groups.MachineTerminated)
	if o.Path == "" {
		return a, nil
	}
	if err := k.Open(o.Path, a.ECS, a.TargetGroups, a.Classic, a.Registries, a.CloudWatch, a.Templates, a.Profiles,
		a.Roles, a.Quotas, a.Groups); err != nil {
		return nil, err
	}
	return a, nil
}

// LoadBalancers returns the target groups and Classic Load Balancers as one port.
func (a *AWS) LoadBalancers() balancing.LoadBalancers {
	return balancing.LoadBalancers{Groups: a.TargetGroups, Classic: a.Classic}
}

// Close writes what is not yet written and closes the file. Tasks of a stored fleet go on in their
// own time.
func (a *AWS) Close() error { return a.kernel.Close() }

// WriteBackup writes a copy of the file to w, with every change so far. It is an error if there is
// no file.
func (a *AWS) WriteBackup(w io.Writer) error { return a.kernel.WriteBackup(w) }

// SetCallFaults replaces the faults that calls of the services meet. The zero value ends them.
func (a *AWS) SetCallFaults(f kernel.CallFaults) { a.kernel.SetCallFaults(f) }
