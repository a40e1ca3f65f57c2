package ecsapi

import (
	"context"
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

// taskSetOperations answers the operations on task sets, which are Berth's own (S15).
type taskSetOperations struct {
	input.References
	taskSets    TaskSets
	definitions *taskDefinitions
	networks    *networks
}

func (o *taskSetOperations) operations() map[string]awsjson.Operation {
	return map[string]awsjson.Operation{
		"CreateTaskSet":               awsjson.TypedOperation(o.createTaskSet),
		"UpdateTaskSet":               awsjson.TypedOperation(o.updateTaskSet),
		"DeleteTaskSet":               awsjson.TypedOperation(o.deleteTaskSet),
		"DescribeTaskSets":            awsjson.TypedOperation(o.describeTaskSets),
		"UpdateServicePrimaryTaskSet": awsjson.TypedOperation(o.updatePrimary),
	}
}

// createTaskSet answers with the task set that the same clientToken made before, if any, and else
// creates it.
func (o *taskSetOperations) createTaskSet(
	ctx context.Context, in *ecs.CreateTaskSetInput,
) (*ecs.CreateTaskSetOutput, error) {
	spec, err := o.parseCreateTaskSet(in)
	if err != nil {
		return nil, err
	}
	d, err := o.taskSets.FindCreatedTaskSet(ctx, spec)
	if err == nil && d == nil {
		d, err = o.newTaskSet(ctx, spec)
	}
	if err != nil {
		return nil, err
	}
	out := taskSetShape(o.Account, d.Service, &d.Deployment)
	out.Tags = shape.TagShapes(d.Deployment.Set.Tags)
	return &ecs.CreateTaskSetOutput{TaskSet: &out}, nil
}

// newTaskSet checks the task definition and creates the task set.
func (o *taskSetOperations) newTaskSet(
	ctx context.Context, spec operation.CreateTaskSet,
) (d *operation.TaskSetDetail, err error) {
	if spec.TaskDefinition, err = o.definitions.checkUsable(ctx, spec.TaskDefinition, nil); err != nil {
		return nil, err
	}
	err = o.definitions.checkRevision(ctx, &cluster.Revision{
		TaskDefinition: spec.TaskDefinition, LoadBalancers: spec.LoadBalancers, Registries: spec.Registries,
	}, spec.External)
	if err != nil {
		return nil, err
	}
	if err := o.networks.check(ctx, spec.Network); err != nil {
		return nil, err
	}
	return o.taskSets.CreateTaskSet(ctx, spec)
}

// maxExternalID is how many characters an externalId has. ECS documents no bound.
const maxExternalID = 255

// parseCreateTaskSet reads a CreateTaskSet. As with a service, the digest of the parameters leaves
// out the clientToken.
func (o *taskSetOperations) parseCreateTaskSet(in *ecs.CreateTaskSetInput) (spec operation.CreateTaskSet, err error) {
	if spec.Cluster, spec.Service, err = o.requireService(in.Cluster, in.Service); err != nil {
		return spec, err
	}
	if err := input.CheckRequired("taskDefinition", in.TaskDefinition); err != nil {
		return spec, err
	}
	if spec.TaskDefinition, err = o.TaskDefinitionName(*in.TaskDefinition); err != nil {
		return spec, err
	}
	spec.ExternalID = input.Value(in.ExternalId)
	if err := input.CheckLength("externalId", spec.ExternalID, maxExternalID); err != nil {
		return spec, err
	}
	if err := checkTaskSetLaunch(in); err != nil {
		return spec, err
	}
	spec.Launched, spec.External = in.LaunchType != "", in.LaunchType == types.LaunchTypeExternal
	if spec.Network, err = shape.ParseNetwork(in.NetworkConfiguration); err != nil {
		return spec, err
	}
	if slices.ContainsFunc(in.LoadBalancers,
		func(l types.LoadBalancer) bool { return input.Value(l.LoadBalancerName) != "" }) {
		return spec, input.Unsupported("loadBalancers.loadBalancerName")
	}
	if spec.LoadBalancers, err = parseLoadBalancers(in.LoadBalancers); err != nil {
		return spec, err
	}
	if spec.Registries, err = parseRegistries(in.ServiceRegistries); err != nil {
		return spec, err
	}
	if spec.Providers, err = parseStrategy(o.References, in.CapacityProviderStrategy); err != nil {
		return spec, err
	}
	if in.Scale != nil {
		if spec.Scale, err = parseScale(in.Scale); err != nil {
			return spec, err
		}
	}
	if spec.Tags, err = checkTags(in.Tags, nil); err != nil {
		return spec, err
	}
	if spec.Token, err = checkClientToken(in.ClientToken); err != nil {
		return spec, err
	}
	parameters := *in
	parameters.ClientToken = nil
	spec.Params, err = input.DigestParameters(parameters)
	return spec, err
}

// checkTaskSetLaunch refuses what Berth does not serve, and a launch type beside a strategy.
func checkTaskSetLaunch(in *ecs.CreateTaskSetInput) error {
	if in.LaunchType != "" && len(in.CapacityProviderStrategy) > 0 {
		return input.Invalid("Specifying both a launch type and capacity provider strategy is not supported. Remove " +
			"one and try again.")
	}
	if err := checkLaunchType(in.LaunchType); err != nil {
		return err
	}
	return checkPlatformVersion(in.PlatformVersion)
}

// parseScale reads a percentage of the service's desired count.
func parseScale(s *types.Scale) (float64, error) {
	if err := input.CheckOneOf("scale.unit", s.Unit); err != nil {
		return 0, err
	}
	if !(s.Value >= 0 && s.Value <= 100) {
		return 0, input.Invalid("scale.value is %g, but must be between 0 and 100.", s.Value)
	}
	return s.Value, nil
}

// updateTaskSet scales a task set.
func (o *taskSetOperations) updateTaskSet(
	ctx context.Context, in *ecs.UpdateTaskSetInput,
) (*ecs.UpdateTaskSetOutput, error) {
	ref, err := o.readRef(in.Cluster, in.Service, "taskSet", in.TaskSet)
	if err != nil {
		return nil, err
	}
	if in.Scale == nil {
		return nil, input.Invalid("scale must not be empty.")
	}
	scale, err := parseScale(in.Scale)
	if err != nil {
		return nil, err
	}
	d, err := o.taskSets.UpdateTaskSet(ctx, ref, scale)
	if err != nil {
		return nil, err
	}
	return &ecs.UpdateTaskSetOutput{TaskSet: new(taskSetShape(o.Account, d.Service, &d.Deployment))}, nil
}

// deleteTaskSet answers with the task set, which is DRAINING until its tasks have stopped.
func (o *taskSetOperations) deleteTaskSet(
	ctx context.Context, in *ecs.DeleteTaskSetInput,
) (*ecs.DeleteTaskSetOutput, error) {
	ref, err := o.readRef(in.Cluster, in.Service, "taskSet", in.TaskSet)
	if err != nil {
		return nil, err
	}
	d, err := o.taskSets.DeleteTaskSet(ctx, ref, input.Value(in.Force))
	if err != nil {
		return nil, err
	}
	return &ecs.DeleteTaskSetOutput{TaskSet: new(taskSetShape(o.Account, d.Service, &d.Deployment))}, nil
}

// updatePrimary makes a task set the primary one.
func (o *taskSetOperations) updatePrimary(
	ctx context.Context, in *ecs.UpdateServicePrimaryTaskSetInput,
) (*ecs.UpdateServicePrimaryTaskSetOutput, error) {
	ref, err := o.readRef(in.Cluster, in.Service, "primaryTaskSet", in.PrimaryTaskSet)
	if err != nil {
		return nil, err
	}
	d, err := o.taskSets.MakePrimary(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &ecs.UpdateServicePrimaryTaskSetOutput{
		TaskSet: new(taskSetShape(o.Account, d.Service, &d.Deployment)),
	}, nil
}

// maxDescribedSets is how many task sets DescribeTaskSets may name. ECS documents no bound.
const maxDescribedSets = 100

// describeTaskSets answers with the task sets named, or all of the service, their tags only if
// asked for.
func (o *taskSetOperations) describeTaskSets(
	ctx context.Context, in *ecs.DescribeTaskSetsInput,
) (*ecs.DescribeTaskSetsOutput, error) {
	clusterName, service, err := o.requireService(in.Cluster, in.Service)
	if err != nil {
		return nil, err
	}
	if len(in.TaskSets) > maxDescribedSets {
		return nil, input.Invalid("taskSets cannot have more than %d items.", maxDescribedSets)
	}
	ids, err := input.ReadEach(in.TaskSets, func(ref string) (string, error) {
		return o.readTaskSet(clusterName, service, ref)
	})
	if err != nil {
		return nil, err
	}
	for _, field := range in.Include {
		if err := input.CheckOneOf("include", field); err != nil {
			return nil, err
		}
	}
	found, missing, err := o.taskSets.DescribeTaskSets(ctx, clusterName, service, ids)
	if err != nil {
		return nil, err
	}
	out := &ecs.DescribeTaskSetsOutput{
		TaskSets: []types.TaskSet{}, Failures: failureShapes(o.Account, clusterName, "task-set", missing),
	}
	for _, d := range found {
		v := taskSetShape(o.Account, d.Service, &d.Deployment)
		if slices.Contains(in.Include, types.TaskSetFieldTags) {
			v.Tags = shape.TagShapes(d.Deployment.Set.Tags)
		}
		out.TaskSets = append(out.TaskSets, v)
	}
	return out, nil
}

// requireService reads the members that name a service. Here the cluster has no default.
func (o *taskSetOperations) requireService(clusterRef, ref *string) (clusterName, name string, err error) {
	if err := input.CheckRequired("cluster", clusterRef); err != nil {
		return "", "", err
	}
	return o.ReadService(clusterRef, ref)
}

// readRef reads the members that name a task set. member is the name of the last one.
func (o *taskSetOperations) readRef(
	clusterRef, serviceRef *string, member string, ref *string,
) (out operation.TaskSetRef, err error) {
	if out.Cluster, out.Service, err = o.requireService(clusterRef, serviceRef); err != nil {
		return out, err
	}
	if err := input.CheckRequired(member, ref); err != nil {
		return out, err
	}
	out.ID, err = readTaskSet(o.References, out.Cluster, out.Service, *ref)
	return out, err
}

func (o *taskSetOperations) readTaskSet(clusterName, service, ref string) (string, error) {
	return readTaskSet(o.References, clusterName, service, ref)
}

// taskSetIDs are the ids of task sets: those of the deployments that they are.
var taskSetIDs = regexp.MustCompile(`^ecs-svc/[0-9]{1,20}$`)

// readTaskSet returns the id of a task set, given by id or ARN. An ARN must be of the cluster and
// of the service, if one is given. The text is ECS's.
func readTaskSet(refs input.References, clusterName, service, ref string) (string, error) {
	id := ref
	if strings.HasPrefix(ref, "arn:") {
		arn, err := refs.ReadARN(ref)
		if err != nil {
			return "", err
		}
		of, rest, _ := strings.Cut(arn.Name, "/")
		if arn.Kind != "task-set" || arn.Cluster != clusterName || service != "" && of != service ||
			!input.IsName(of) || !input.IsName(arn.Cluster) {
			return "", input.Invalid("Task Set Identifier is invalid")
		}
		id = rest
	}
	if !taskSetIDs.MatchString(id) {
		return "", input.Invalid("Task Set Identifier is invalid")
	}
	return id, nil
}
