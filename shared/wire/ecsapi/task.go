package ecsapi

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
	"berth/shared/wire/shape"
)

// taskOperations answers the operations on tasks, which are Berth's own. ECS runs tasks under ids
// of its own, so the same operations of ECS would show something else.
type taskOperations struct {
	input.References
	scheduler   Tasks
	definitions *taskDefinitions
	zones       *zones
	reports     *taskReports
	networks    *networks
}

func (o *taskOperations) operations() map[string]awsjson.Operation {
	return map[string]awsjson.Operation{
		"RunTask":       awsjson.TypedOperation(o.runTask),
		"StartTask":     awsjson.TypedOperation(o.startTask),
		"StopTask":      awsjson.TypedOperation(o.stopTask),
		"DescribeTasks": awsjson.TypedOperation(o.describeTasks),
		"ListTasks":     awsjson.TypedOperation(o.listTasks),
	}
}

// runTask reads RunTask: one task unless count says otherwise. The digest of the parameters leaves
// out the clientToken, so that a token used with other parameters is recognized.
func (o *taskOperations) runTask(ctx context.Context, in *ecs.RunTaskInput) (*ecs.RunTaskOutput, error) {
	if err := checkRunFeatures(in); err != nil {
		return nil, o.networkFault(ctx, in, err)
	}
	spec := operation.SubmitTasks{Kind: cluster.RunTask, Count: 1, Launched: in.LaunchType != "",
		StartedBy: input.Value(in.StartedBy), Group: input.Value(in.Group), ManagedTags: in.EnableECSManagedTags,
		PropagateTags: in.PropagateTags == types.PropagateTagsTaskDefinition}
	spec.Rules.External = in.LaunchType == types.LaunchTypeExternal
	if in.Count != nil {
		spec.Count = int(*in.Count)
	}
	switch {
	case spec.Count < 1 || spec.Count > maxRunTask:
		return nil, input.Invalid("count is %d, but must be between 1 and %d.", spec.Count, maxRunTask)
	case !runStartedBy.MatchString(spec.StartedBy):
		return nil, input.Invalid("startedBy must have at most 128 printable characters.")
	}
	var err error
	if spec.Token, err = checkClientToken(in.ClientToken); err != nil {
		return nil, err
	}
	if spec.Cluster, err = o.ClusterName(in.Cluster); err != nil {
		return nil, err
	}
	// The token is not part of what it stands for.
	parameters := *in
	parameters.ClientToken = nil
	if spec.Params, err = input.DigestParameters(parameters); err != nil {
		return nil, err
	}
	tasks, failures, err := o.submitTasks(ctx, spec, commonInput{
		in.TaskDefinition, in.Overrides, in.Tags, in.NetworkConfiguration, in.PlacementConstraints,
		in.PlacementStrategy, in.CapacityProviderStrategy, in.VolumeConfigurations, in.EnableExecuteCommand,
	})
	return &ecs.RunTaskOutput{Tasks: tasks, Failures: failures}, err
}

// Bounds of the operations on tasks (ECS API reference).
const (
	// maxRunTask is how many tasks one RunTask starts.
	maxRunTask = 10
	// maxTasks is how many tasks DescribeTasks takes.
	maxTasks = 100
	// maxReason is how many characters the reason of StopTask has.
	maxReason = 255
	// maxFailures is how many failures an answer shows.
	maxFailures = 10
)

// Patterns of text members (ECS API reference).
var (
	// runStartedBy matches the startedBy of RunTask. The reference allows letters, digits, hyphens,
	// underscores and slashes only, but ecs-deploy sends "ECS Deploy", and works on AWS.
	runStartedBy = regexp.MustCompile(`^\P{C}{0,128}$`)
	// startStartedBy matches the startedBy of StartTask, which is shorter.
	startStartedBy = regexp.MustCompile(`^\P{C}{0,36}$`)
	// groups matches the name of a task group: printable ASCII without spaces.
	groups = regexp.MustCompile(`^[!-~]{0,255}$`)
)

// checkRunFeatures refuses what Berth does not serve of RunTask. A launch type and a capacity
// provider strategy exclude each other.
func checkRunFeatures(in *ecs.RunTaskInput) error {
	if err := checkPropagateTags(in.PropagateTags); err != nil {
		return err
	}
	if in.LaunchType != "" && len(in.CapacityProviderStrategy) > 0 {
		return input.Invalid("Specifying both a launch type and capacity provider strategy is not supported. Remove " +
			"one and try again.")
	}
	if err := checkLaunchType(in.LaunchType); err != nil {
		return err
	}
	if err := checkPlatformVersion(in.PlatformVersion); err != nil {
		return err
	}
	return refuseUnserved(
		unserved{"referenceId", input.Value(in.ReferenceId) != ""},
	)
}

// networkFault returns ECS's error for a task of Fargate in awsvpc mode without a network, which
// ECS finds first, or else the refusal of its launch type.
func (o *taskOperations) networkFault(ctx context.Context, in *ecs.RunTaskInput, refusal error) error {
	ref, err := o.TaskDefinitionName(input.Value(in.TaskDefinition))
	if err != nil || in.LaunchType != types.LaunchTypeFargate || in.NetworkConfiguration != nil {
		return refusal
	}
	d, err := o.definitions.cachedDefinition(ctx, ref)
	if err != nil || d.NetworkMode != types.NetworkModeAwsvpc {
		return refusal
	}
	return input.Invalid("Network Configuration must be provided when networkMode 'awsvpc' is specified.")
}

// checkPropagateTags refuses to take a standalone task's tags from a service, as ECS does.
func checkPropagateTags(from types.PropagateTags) error {
	if from == types.PropagateTagsService {
		return input.Invalid("propagateTags SERVICE is for tasks of services. Specify TASK_DEFINITION or NONE.")
	}
	return input.CheckOneOf("propagateTags", from)
}

// startTask reads StartTask: a task on each of 1 to 10 instances, each named once.
func (o *taskOperations) startTask(ctx context.Context, in *ecs.StartTaskInput) (*ecs.StartTaskOutput, error) {
	err := errors.Join(checkPropagateTags(in.PropagateTags), refuseUnserved(
		unserved{"referenceId", input.Value(in.ReferenceId) != ""},
	))
	if err != nil {
		return nil, err
	}
	spec := operation.SubmitTasks{Kind: cluster.StartTask, StartedBy: input.Value(in.StartedBy),
		Group: input.Value(in.Group), ManagedTags: in.EnableECSManagedTags,
		PropagateTags: in.PropagateTags == types.PropagateTagsTaskDefinition}
	if !startStartedBy.MatchString(spec.StartedBy) {
		return nil, input.Invalid("startedBy must have at most 36 printable characters.")
	}
	if err := input.CheckCount("containerInstances", len(in.ContainerInstances), cluster.MaxStart); err != nil {
		return nil, err
	}
	if spec.Cluster, err = o.ClusterName(in.Cluster); err != nil {
		return nil, err
	}
	for _, ref := range in.ContainerInstances {
		id, err := o.NameIn(spec.Cluster, "container-instance", ref)
		if err != nil {
			return nil, err
		}
		if slices.Contains(spec.Instances, id) {
			return nil, input.Invalid("Container instance %s is named twice.", id)
		}
		spec.Instances = append(spec.Instances, id)
	}
	tasks, failures, err := o.submitTasks(ctx, spec, commonInput{definition: in.TaskDefinition, overrides: in.Overrides,
		tags: in.Tags, network: in.NetworkConfiguration, volumes: in.VolumeConfigurations,
		exec: in.EnableExecuteCommand})
	return &ecs.StartTaskOutput{Tasks: tasks, Failures: failures}, err
}

// commonInput has the members that RunTask and StartTask share. The SDK gives them types of their
// own.
type commonInput struct {
	definition  *string
	overrides   *types.TaskOverride
	tags        []types.Tag
	network     *types.NetworkConfiguration
	constraints []types.PlacementConstraint // of RunTask, as the two that follow
	strategies  []types.PlacementStrategy
	providers   []types.CapacityProviderStrategyItem

	volumes []types.TaskVolumeConfiguration // of both
	exec    bool                            // enableExecuteCommand
}

// parseOptions reads what ECS itself acts on, nil if there is nothing.
func (a *commonInput) parseOptions() (*cluster.TaskOptions, error) {
	volumes, err := parseTaskVolumes(a.volumes)
	if err != nil || len(volumes) == 0 && !a.exec {
		return nil, err
	}
	return &cluster.TaskOptions{ExecuteCommand: a.exec, Volumes: volumes}, nil
}

// submitTasks checks the common members and submits the request, in this order:
//
//  1. The input is checked without any lookup.
//  2. A clientToken that was used before is answered. Its task definition may have been
//     deregistered since, so this comes before the definition is looked up.
//  3. The definition is checked, and the request submitted.
//
// Groups that begin with "service:" are ECS's for the tasks of services.
func (o *taskOperations) submitTasks(
	ctx context.Context, spec operation.SubmitTasks, a commonInput,
) ([]types.Task, []types.Failure, error) {
	switch {
	case strings.HasPrefix(spec.Group, "service:"):
		return nil, nil, input.Invalid("Invalid namespace for group: service: is reserved.")
	case !groups.MatchString(spec.Group):
		return nil, nil, input.Invalid("group must have at most 255 characters and no spaces.")
	}
	if err := input.CheckRequired("taskDefinition", a.definition); err != nil {
		return nil, nil, err
	}
	ref, err := o.TaskDefinitionName(*a.definition)
	if err != nil {
		return nil, nil, err
	}
	if spec.Tags, err = checkTags(a.tags, taskTags); err != nil {
		return nil, nil, err
	}
	if spec.Wait = spec.Tags[TagWait]; spec.Wait != "" && spec.Kind == cluster.StartTask {
		return nil, nil,
			input.Invalid("Tag %s is for RunTask: StartTask starts a task where it is told to, or not at all.", TagWait)
	}
	// parseRules returns rules of its own, which know nothing of the launch type.
	external := spec.Rules.External
	if spec.Rules, err = parseRules(a.constraints, a.strategies, spec.Tags); err != nil {
		return nil, nil, err
	}
	spec.Rules.External = external
	if spec.Rules.Providers, err = parseStrategy(o.References, a.providers); err != nil {
		return nil, nil, err
	}
	if spec.Overrides, err = shape.ParseOverrides(a.overrides); err != nil {
		return nil, nil, err
	}
	if spec.Network, err = shape.ParseNetwork(a.network); err != nil {
		return nil, nil, err
	}
	if spec.Options, err = a.parseOptions(); err != nil {
		return nil, nil, err
	}
	tasks, failed, found, err := o.scheduler.FindSubmittedTasks(ctx, spec)
	if err == nil && !found {
		tasks, failed, err = o.newTasks(ctx, spec, ref)
	}
	if err != nil {
		return nil, nil, withTaskARNs(o.Account, spec.Cluster, err)
	}
	out := o.taskShapes(ctx, spec.Cluster, tasks)
	addTags(out, tasks)
	return out, failureShapes(o.Account, spec.Cluster, "container-instance", failed[:min(len(failed), maxFailures)]),
		nil
}

// withTaskARNs returns an error of the API with the ARNs of the tasks that it names, and any other as it
// is.
func withTaskARNs(account cluster.Account, clusterName string, err error) error {
	var e *cluster.Error
	if !errors.As(err, &e) || len(e.Resources) == 0 {
		return err
	}
	arns := make([]string, len(e.Resources))
	for n, id := range e.Resources {
		arns[n] = account.ARN("task", clusterName, id)
	}
	return &cluster.Error{Code: e.Code, Message: e.Message, Resources: arns}
}

// newTasks submits a request that is not a repetition. The definition must be usable by this caller
// and compatible with the launch type.
func (o *taskOperations) newTasks(
	ctx context.Context, spec operation.SubmitTasks, ref string,
) (_ []*cluster.Task, _ []cluster.Failure, err error) {
	if spec.TaskDefinition, err = o.definitions.checkUsable(ctx, ref, spec.Overrides); err != nil {
		return nil, nil, err
	}
	d, err := o.definitions.cachedDefinition(ctx, spec.TaskDefinition)
	if err != nil {
		return nil, nil, err
	}
	// StartTask names the instance, which may be an external one, so either compatibility will do.
	if err := checkCompatible(d, spec.Rules.External); err != nil &&
		(spec.Kind == cluster.RunTask || checkCompatible(d, true) != nil) {
		return nil, nil, err
	}
	var volumes []cluster.Volume
	if spec.Options != nil {
		volumes = spec.Options.Volumes
	}
	if err := o.definitions.checkVolumes(ctx, spec.TaskDefinition, volumes, spec.Rules.External); err != nil {
		return nil, nil, err
	}
	if err := o.networks.check(ctx, spec.Network); err != nil {
		return nil, nil, err
	}
	return o.scheduler.SubmitTasks(ctx, spec)
}

// stopTask reads StopTask. The reason appears as the task's stoppedReason.
func (o *taskOperations) stopTask(ctx context.Context, in *ecs.StopTaskInput) (*ecs.StopTaskOutput, error) {
	clusterName, err := o.ClusterName(in.Cluster)
	if err != nil {
		return nil, err
	}
	if err := input.CheckRequired("task", in.Task); err != nil {
		return nil, err
	}
	id, err := o.TaskID(clusterName, *in.Task)
	if err != nil {
		return nil, err
	}
	if err := input.CheckLength("reason", input.Value(in.Reason), maxReason); err != nil {
		return nil, err
	}
	t, err := o.scheduler.StopTask(ctx, clusterName, id, input.Value(in.Reason))
	if err != nil {
		return nil, err
	}
	return &ecs.StopTaskOutput{Task: &o.taskShapes(ctx, clusterName, []*cluster.Task{t})[0]}, nil
}

// describeTasks answers with tasks in the order in which they were named, their tags only if asked
// for.
func (o *taskOperations) describeTasks(
	ctx context.Context, in *ecs.DescribeTasksInput,
) (*ecs.DescribeTasksOutput, error) {
	clusterName, err := o.ClusterName(in.Cluster)
	if err != nil {
		return nil, err
	}
	if err := input.CheckCount("tasks", len(in.Tasks), maxTasks); err != nil {
		return nil, err
	}
	for _, field := range in.Include {
		if err := input.CheckOneOf("include", field); err != nil {
			return nil, err
		}
	}
	ids, err := input.ReadEach(in.Tasks, func(ref string) (string, error) { return o.TaskID(clusterName, ref) })
	if err != nil {
		return nil, err
	}
	found, missing, err := o.scheduler.DescribeTasks(ctx, clusterName, ids)
	if err != nil {
		return nil, err
	}
	out := &ecs.DescribeTasksOutput{Tasks: o.taskShapes(ctx, clusterName, found),
		Failures: failureShapes(o.Account, clusterName, "task", missing)}
	if slices.Contains(in.Include, types.TaskFieldTags) {
		addTags(out.Tasks, found)
	}
	return out, nil
}

// pageTasks is how many tasks a page has unless the caller says otherwise.
const pageTasks = 100

// listTasks answers with the ARNs of tasks. A page token is good only for the same list, so every
// filter is part of the list's name.
func (o *taskOperations) listTasks(ctx context.Context, in *ecs.ListTasksInput) (*ecs.ListTasksOutput, error) {
	q, err := o.parseListTasks(in)
	if err != nil {
		return nil, err
	}
	// No value of a filter can contain a zero byte, so different filters never have the same name.
	list := strings.Join([]string{"tasks by service of", q.Cluster, q.Service, q.Family, q.Instance, q.StartedBy,
		string(q.Desired), string(in.LaunchType)}, "\x00")
	if q.After, err = input.PageStart(list, input.Value(in.NextToken)); err != nil {
		return nil, err
	}
	page, err := o.scheduler.ListTasks(ctx, q)
	if err != nil {
		return nil, err
	}
	// An empty list is shown as one, for clients that iterate over it.
	out := &ecs.ListTasksOutput{TaskArns: []string{}}
	// ECS never sets a desired status of PENDING, and no task here has a launch type that Berth
	// refuses.
	if _, isRefused := parseExternal(in.LaunchType); len(page.IDs) == 0 || isRefused ||
		in.DesiredStatus == types.DesiredStatusPending {
		return out, nil
	}
	for _, id := range page.IDs {
		out.TaskArns = append(out.TaskArns, o.Account.ARN("task", q.Cluster, id))
	}
	if page.Next != "" {
		out.NextToken = new(input.PageToken(list, page.Next))
	}
	return out, nil
}

// parseListTasks reads the filters. startedBy must be the only one, as with ECS.
func (o *taskOperations) parseListTasks(in *ecs.ListTasksInput) (q operation.ListTasks, err error) {
	q = operation.ListTasks{Family: input.Value(in.Family), StartedBy: input.Value(in.StartedBy),
		Desired: cluster.TaskStatus(in.DesiredStatus)}
	if q.Cluster, err = o.ClusterName(in.Cluster); err != nil {
		return q, err
	}
	q.External, _ = parseExternal(in.LaunchType)
	if q.Limit, err = input.PageSize(in.MaxResults, pageTasks); err != nil {
		return q, err
	}
	if input.Value(in.ServiceName) != "" {
		if q.Service, err = o.NameIn(q.Cluster, "service", *in.ServiceName); err != nil {
			return q, err
		}
	}
	if input.Value(in.ContainerInstance) != "" {
		if q.Instance, err = o.NameIn(q.Cluster, "container-instance", *in.ContainerInstance); err != nil {
			return q, err
		}
	}
	if err := input.CheckOneOf("desiredStatus", in.DesiredStatus); err != nil {
		return q, err
	}
	if err := input.CheckOneOf("launchType", in.LaunchType); err != nil {
		return q, err
	}
	switch {
	case q.Family != "" && !input.IsName(q.Family):
		return q, input.Invalid("family must have at most 255 letters, digits, hyphens and underscores.")
	// ECS API reference, ListTasks.
	case q.StartedBy != "" && q.Family+q.Service+q.Instance+string(in.LaunchType) != "":
		return q, input.Invalid("startedBy must be the only filter.")
	}
	return q, refuseUnserved(unserved{"daemonName", input.Value(in.DaemonName) != ""})
}
