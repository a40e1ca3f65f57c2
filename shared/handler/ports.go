package handler

import (
	"context"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// ECS is the part of the ECS API that acts on tasks and describes instances. Errors of the API are
// *cluster.Error. A call that may or may not have taken effect returns an error that is
// cluster.ErrAmbiguous.
type ECS interface {
	StartTask(ctx context.Context, call cluster.StartCall) (cluster.StartAnswer, error)
	StopTask(ctx context.Context, clusterName, ecsID, reason string) error
	ListTasks(ctx context.Context, f cluster.TaskFilter) ([]string, error)
	DescribeTasks(ctx context.Context, clusterName string, ids []string) ([]cluster.ECSTask, error)
	ListInstances(ctx context.Context, clusterName string) ([]string, error)
	DescribeInstances(ctx context.Context, clusterName string, ids []string) ([]*cluster.Instance, error)
	// DrainInstance makes an ACTIVE instance DRAINING; one that is DRAINING already stays so.
	DrainInstance(ctx context.Context, clusterName, id string) error
	// DescribeTaskDefinition takes family, family:revision or ARN.
	DescribeTaskDefinition(ctx context.Context, name string) (*cluster.TaskDefinition, error)
	// ListFamilies returns families of task definitions with an ACTIVE revision, 500 at most.
	ListFamilies(ctx context.Context) ([]string, error)
	// DeregisterTaskDefinition makes a revision (family:revision) INACTIVE, if it is not.
	DeregisterTaskDefinition(ctx context.Context, name string) error
	// DeleteTaskDefinition deletes an INACTIVE revision; one that is being deleted stays so.
	DeleteTaskDefinition(ctx context.Context, name string) error
	// ClusterActive reports whether ECS has the cluster and it is ACTIVE.
	ClusterActive(ctx context.Context, name string) (bool, error)
}

// Queue sends a message to be delivered after a delay of at most 900 s.
type Queue interface {
	Send(ctx context.Context, body []byte, delay time.Duration) error
}

// LoadBalancers is the part of Elastic Load Balancing that registers tasks with target groups,
// which are named by ARN, and their instances with Classic Load Balancers, which are named by
// [cluster.ClassicBalancer] and take addresses without ports. Errors of the API are *cluster.Error.
// Registering what is registered, and deregistering what is not, succeeds.
type LoadBalancers interface {
	RegisterTargets(ctx context.Context, targetGroup string, targets []cluster.Address) error
	DeregisterTargets(ctx context.Context, targetGroup string, targets []cluster.Address) error
	// TargetHealth returns the health of every registered target.
	TargetHealth(ctx context.Context, targetGroup string) (map[cluster.Address]cluster.TargetHealth, error)
	// DeregistrationDelay returns how long the connections of a deregistered target drain.
	DeregistrationDelay(ctx context.Context, targetGroup string) (time.Duration, error)
}

// Registries is the part of Cloud Map that registers tasks with its services, which are named by
// ARN. Errors of the API are *cluster.Error. Registering an instance again replaces it;
// deregistering an unknown one is InstanceNotFound.
type Registries interface {
	RegisterInstance(ctx context.Context, registry, id string, at cluster.Address) error
	DeregisterInstance(ctx context.Context, registry, id string) error
	// InstancesHealth returns the health of every registered instance, by id. Where a service
	// checks no health they are healthy.
	InstancesHealth(ctx context.Context, registry string) (map[string]cluster.TargetHealth, error)
}

// Alarms is the part of CloudWatch that describes alarms. Unknown ones are left out.
type Alarms interface {
	DescribeAlarms(ctx context.Context, names []string) ([]cluster.Alarm, error)
}

// Hosts is the part of the ECS API that changes container instances. Errors of the API are
// *cluster.Error; an instance that does not exist is no error.
type Hosts interface {
	// ActivateInstance makes a DRAINING instance ACTIVE; one that is ACTIVE already stays so.
	ActivateInstance(ctx context.Context, clusterName, id string) error
	// PutAttribute sets a custom attribute; RemoveAttribute removes it, regardless of its value.
	PutAttribute(ctx context.Context, clusterName, id, name, value string) error
	RemoveAttribute(ctx context.Context, clusterName, id, name string) error
}

// AutoScaling is the part of Amazon EC2 Auto Scaling that sizes groups, which have names. Errors of
// the API are *cluster.Error. DescribeGroups leaves out groups that do not exist; elsewhere they
// are a ValidationError.
type AutoScaling interface {
	DescribeGroups(ctx context.Context, names []string) ([]*cluster.AutoScalingGroup, error)
	SetDesired(ctx context.Context, group string, n int) error
	// SetInstanceProtection takes any number of EC2 ids; the adapter sends at most 50 at once (C6).
	SetInstanceProtection(ctx context.Context, group string, ids []string, protected bool) error
	// TerminateInstance terminates an instance of a group; lower reduces the desired capacity by
	// one as well.
	TerminateInstance(ctx context.Context, id string, lower bool) error
	// TagGroup sets a tag on the group alone; its instances do not inherit it.
	TagGroup(ctx context.Context, group, key, value string) error
	// PutLifecycleHook makes a group's terminations wait for the hook. DeleteLifecycleHook of an
	// unknown one succeeds.
	PutLifecycleHook(ctx context.Context, hook cluster.LifecycleHook) error
	DeleteLifecycleHook(ctx context.Context, group, name string) error
	// CompleteLifecycleAction lets the termination of an instance continue; RecordHeartbeat makes
	// it wait longer.
	CompleteLifecycleAction(ctx context.Context, group, hook, id string) error
	RecordHeartbeat(ctx context.Context, group, hook, id string) error
	PutTrackingPolicy(ctx context.Context, policy cluster.TrackingPolicy) error
	// DeletePolicy of an unknown policy succeeds.
	DeletePolicy(ctx context.Context, group, name string) error
}

// GroupUpdates is the part of Amazon EC2 Auto Scaling that node groups need beyond [AutoScaling],
// with the same errors.
type GroupUpdates interface {
	// SetSizes sets those of minimum, maximum and desired capacity that are given, in one call.
	SetSizes(ctx context.Context, group string, s cluster.SizesChange) error
	// UseTemplate makes the group launch from a launch template version, ID:VERSION.
	UseTemplate(ctx context.Context, group, template string) error
	// FailedLaunches returns those that began at since or later, newest first.
	FailedLaunches(ctx context.Context, group string, since time.Time) ([]cluster.FailedLaunch, error)
}

// LaunchTemplates is the part of Amazon EC2 that keeps launch templates. Errors of the API are
// *cluster.Error; an unknown template or version is an InvalidLaunchTemplate... error.
type LaunchTemplates interface {
	// LaunchTemplate returns one version: $Default if the reference names none.
	LaunchTemplate(ctx context.Context, ref cluster.TemplateRef) (*cluster.LaunchTemplate, error)
	// FindVersion returns the newest version of a template (by id) that has the description, nil if
	// there is none.
	FindVersion(ctx context.Context, template, description string) (*cluster.LaunchTemplate, error)
	// CreateVersion creates a version of a template.
	CreateVersion(ctx context.Context, version cluster.NewTemplateVersion) (*cluster.LaunchTemplate, error)
}

// GroupMaker makes and deletes the parts of node groups that Berth makes. Everything may be
// repeated: what exists already is not made again, and deleting what is not there succeeds. Errors
// of the APIs are *cluster.Error.
type GroupMaker interface {
	// EnsureProfile makes an instance profile with its role. An unknown role is NoSuchEntity.
	EnsureProfile(ctx context.Context, p cluster.NewProfile) error
	DeleteProfile(ctx context.Context, name string) error
	// EnsureTemplate makes a launch template with one version, and returns that version.
	EnsureTemplate(ctx context.Context, t cluster.NewTemplate) (*cluster.LaunchTemplate, error)
	DeleteTemplate(ctx context.Context, name string) error
	EnsureGroup(ctx context.Context, g cluster.NewAutoScalingGroup) error
	// DeleteGroup terminates the instances of a group, then deletes it. It reports whether the
	// group is gone: that may take minutes.
	DeleteGroup(ctx context.Context, name string) (gone bool, err error)
}

// Parameters is the part of Systems Manager that reads parameters. Unknown ones are left out.
// Errors of the API are *cluster.Error.
type Parameters interface {
	ReadParameters(ctx context.Context, names []string) (map[string]string, error)
}

// InstanceTypes is the part of Amazon EC2 that says what a group launches, and how large that is.
// Errors of the API are *cluster.Error.
type InstanceTypes interface {
	// LaunchTemplate is that of [LaunchTemplates].
	LaunchTemplate(ctx context.Context, ref cluster.TemplateRef) (*cluster.LaunchTemplate, error)
	// DescribeTypes returns the types named, in any order. An unknown one is an
	// InvalidInstanceType error.
	DescribeTypes(ctx context.Context, names []string) ([]cluster.InstanceType, error)
	// MatchTypes returns the names of all types that an attribute-based selection matches. It is
	// JSON, as launch templates and groups have it.
	MatchTypes(ctx context.Context, requirements string) ([]string, error)
}

// Metrics is the part of CloudWatch that managed scaling publishes to (C1). Deleting alarms that do
// not exist succeeds.
type Metrics interface {
	// PutScalingMetrics publishes both metrics of each capacity provider.
	PutScalingMetrics(ctx context.Context, points []cluster.Datapoint) error
	PutMetricAlarm(ctx context.Context, alarm cluster.MetricAlarm) error
	DeleteAlarms(ctx context.Context, names []string) error
}

// EventBus takes events as EventBridge delivers them. It returns those to send again. Events that
// are finally refused are only in the error.
type EventBus interface {
	PutEvents(ctx context.Context, events [][]byte) (left [][]byte, err error)
}

// Clock tells the time. Sleep is for operations whose caller waits, and for the short time between two
// attempts of a write that loses races; no event handler sleeps otherwise.
type Clock = state.Clock
