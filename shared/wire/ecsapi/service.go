package ecsapi

import (
	"cmp"
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
	"berth/shared/wire/shape"
	"berth/shared/wire/transport"
)

// serviceOperations answers the operations on services, which are Berth's own: ECS does not know
// a service, or it would schedule its tasks too.
type serviceOperations struct {
	input.References
	services    Services
	definitions *taskDefinitions
	networks    *networks
}

func (o *serviceOperations) operations() map[string]awsjson.Operation {
	return map[string]awsjson.Operation{
		"CreateService":    awsjson.TypedOperation(o.createService),
		"UpdateService":    awsjson.TypedOperation(o.updateService),
		"DeleteService":    awsjson.TypedOperation(o.deleteService),
		"DescribeServices": awsjson.TypedOperation(o.describeServices),
		"ListServices":     awsjson.TypedOperation(o.listServices),
	}
}

// createService answers with the service that the same clientToken made before, if any, and else
// creates it.
func (o *serviceOperations) createService(
	ctx context.Context, in *ecs.CreateServiceInput,
) (*ecs.CreateServiceOutput, error) {
	spec, err := o.parseCreateService(in)
	if err != nil {
		return nil, err
	}
	d, err := o.services.FindCreatedService(ctx, spec)
	if err != nil {
		return nil, err
	}
	if d == nil {
		if d, err = o.newService(ctx, spec); err != nil {
			return nil, err
		}
	}
	out := serviceShape(o.Account, d)
	out.Tags = shape.TagShapes(d.Service.Tags)
	return &ecs.CreateServiceOutput{Service: out}, nil
}

// newService checks the task definition and creates the service on behalf of the caller's
// principal.
func (o *serviceOperations) newService(
	ctx context.Context, spec operation.CreateService,
) (d *operation.ServiceDetail, err error) {
	// ECS shows it as createdBy.
	spec.CreatedBy = transport.Principal(ctx)
	if spec.Controller == cluster.ExternalController {
		return o.services.CreateService(ctx, spec)
	}
	if spec.TaskDefinition, err = o.definitions.checkUsable(ctx, spec.TaskDefinition, nil); err != nil {
		return nil, err
	}
	err = o.definitions.checkRevision(ctx, &cluster.Revision{
		TaskDefinition: spec.TaskDefinition, LoadBalancers: input.Value(spec.LoadBalancers),
		Registries: input.Value(spec.Registries), Volumes: input.Value(spec.Volumes),
	}, spec.Rules.External)
	if err != nil {
		return nil, err
	}
	if err := o.networks.check(ctx, spec.Network); err != nil {
		return nil, err
	}
	return o.services.CreateService(ctx, spec)
}

// updateService changes a service. A family without revision means the latest one now.
func (o *serviceOperations) updateService(
	ctx context.Context, in *ecs.UpdateServiceInput,
) (*ecs.UpdateServiceOutput, error) {
	change, err := o.parseUpdateService(in)
	if err != nil {
		return nil, err
	}
	if change.TaskDefinition != "" {
		if change.TaskDefinition, err = o.definitions.checkUsable(ctx, change.TaskDefinition, nil); err != nil {
			return nil, err
		}
	}
	if err := o.checkChange(ctx, change); err != nil {
		return nil, err
	}
	if err := o.networks.check(ctx, change.Network); err != nil {
		return nil, err
	}
	d, err := o.services.UpdateService(ctx, change)
	if err != nil {
		return nil, err
	}
	return &ecs.UpdateServiceOutput{Service: serviceShape(o.Account, d)}, nil
}

// checkChange checks load balancers, registries and volumes against the task definition if one of
// them changes. It assumes for the others what the service has now. So a new definition without the
// container that a load balancer names is refused, although the load balancers were not mentioned.
func (o *serviceOperations) checkChange(ctx context.Context, c operation.UpdateService) error {
	if c.TaskDefinition == "" && c.LoadBalancers == nil && c.Registries == nil && c.Volumes == nil {
		return nil
	}
	found, _, err := o.services.DescribeServices(ctx, c.Cluster, []string{c.Name})
	if err != nil || len(found) == 0 || found[0].Service.HasTaskSets() {
		return err // the scheduler says what is wrong
	}
	// A copy, with the change applied: what the service would have after it.
	now := found[0].Service.Deployment.Revision
	if c.LoadBalancers != nil {
		now.LoadBalancers = *c.LoadBalancers
	}
	if c.Registries != nil {
		now.Registries = *c.Registries
	}
	if c.Volumes != nil {
		now.Volumes = *c.Volumes
	}
	now.TaskDefinition = cmp.Or(c.TaskDefinition, now.TaskDefinition)
	return o.definitions.checkRevision(ctx, &now, found[0].Service.Rules.External)
}

// checkRevision refuses a task definition that is not compatible with the launch type, and load
// balancers or registries that name a container or port which the definition lacks. With the launch
// type EXTERNAL there can be none: external instances have no address that AWS could reach.
func (o *taskDefinitions) checkRevision(ctx context.Context, r *cluster.Revision, external bool) error {
	d, err := o.cachedDefinition(ctx, r.TaskDefinition)
	if err != nil {
		return err
	}
	if err := checkCompatible(d, external); err != nil {
		return err
	}
	if external && r.RegistersTasks() {
		return input.Invalid("The EXTERNAL launch type does not support loadBalancers and serviceRegistries. Remove " +
			"them and try again.")
	}
	for _, l := range r.LoadBalancers {
		if err := containerPort(d, l.Container, l.Port); err != nil {
			return err
		}
		if err := checkFixedPort(d, &l); err != nil {
			return err
		}
	}
	for _, g := range r.Registries {
		if err := checkRegistry(d, &g); err != nil {
			return err
		}
	}
	return o.checkVolumes(ctx, r.TaskDefinition, r.Volumes, external)
}

// checkFixedPort refuses a Classic Load Balancer for a container port that has no fixed port on the
// instance: its listeners lead to the same port of every instance (service load balancing, ECS
// developer guide).
func checkFixedPort(d *types.TaskDefinition, l *cluster.LoadBalancer) error {
	switch name, classic := cluster.ClassicName(l.TargetGroup); {
	case !classic || d.NetworkMode == types.NetworkModeHost:
		return nil
	case d.NetworkMode == types.NetworkModeAwsvpc:
		return input.Invalid("Classic Load Balancers are not supported with the awsvpc network mode: %s takes "+
			"instances. Use a target group with the target type ip.", name)
	}
	for _, c := range d.ContainerDefinitions {
		for _, m := range c.PortMappings {
			if input.Value(c.Name) == l.Container && int(input.Value(m.ContainerPort)) == l.Port &&
				input.Value(m.HostPort) != 0 {
				return nil
			}
		}
	}
	return input.Invalid("The container port %d of container %.255s has no hostPort. A Classic Load Balancer needs a "+
		"fixed one, because its listeners lead to the same port of every instance.", l.Port, l.Container)
}

// deleteService answers with the service, which is DRAINING until its tasks have stopped.
func (o *serviceOperations) deleteService(
	ctx context.Context, in *ecs.DeleteServiceInput,
) (*ecs.DeleteServiceOutput, error) {
	clusterName, name, err := o.ReadService(in.Cluster, in.Service)
	if err != nil {
		return nil, err
	}
	d, err := o.services.DeleteService(ctx, clusterName, name, input.Value(in.Force))
	if err != nil {
		return nil, err
	}
	return &ecs.DeleteServiceOutput{Service: serviceShape(o.Account, d)}, nil
}

// checkRegistry refuses a Cloud Map service for tasks that have no address of their own. In host
// and bridge mode ECS registers the instance's address, which its API does not report, so Berth
// cannot (S9). What ECS refuses is refused in its words first.
func checkRegistry(d *types.TaskDefinition, r *cluster.Registry) error {
	own := d.NetworkMode == types.NetworkModeAwsvpc
	if r.Container == "" && !own {
		return input.Invalid("When specifying 'host' or 'bridge' for networkMode, values for 'containerName' and " +
			"'containerPort' must be specified from the task definition.")
	}
	if r.Container != "" {
		if err := containerPort(d, r.Container, r.ContainerPort); err != nil {
			return err
		}
	}
	if !own {
		return input.Unsupported("serviceRegistries with networkMode " + string(cmp.Or(d.NetworkMode,
			types.NetworkModeBridge)))
	}
	return nil
}

// containerPort refuses a container or container port that the task definition does not have, in
// ECS's words.
func containerPort(d *types.TaskDefinition, name string, number int) error {
	n := slices.IndexFunc(d.ContainerDefinitions,
		func(c types.ContainerDefinition) bool { return input.Value(c.Name) == name })
	if n < 0 {
		return input.Invalid("The container %.255s does not exist in the task definition.", name)
	}
	if !slices.ContainsFunc(d.ContainerDefinitions[n].PortMappings,
		func(m types.PortMapping) bool { return int(input.Value(m.ContainerPort)) == number }) {
		return input.Invalid("The container %.255s did not have a container port %d defined.", name, number)
	}
	return nil
}

// maxServices is how many services DescribeServices takes (ECS API reference).
const maxServices = 10

// describeServices answers with services in the order in which they were named, their tags only if
// asked for.
func (o *serviceOperations) describeServices(
	ctx context.Context, in *ecs.DescribeServicesInput,
) (*ecs.DescribeServicesOutput, error) {
	clusterName, err := o.ClusterName(in.Cluster)
	if err != nil {
		return nil, err
	}
	if err := input.CheckCount("services", len(in.Services), maxServices); err != nil {
		return nil, err
	}
	wanted, err := input.ReadEach(in.Services, func(ref string) (string, error) {
		return o.NameIn(clusterName, "service", ref)
	})
	if err != nil {
		return nil, err
	}
	for _, field := range in.Include {
		if err := input.CheckOneOf("include", field); err != nil {
			return nil, err
		}
	}
	found, missing, err := o.services.DescribeServices(ctx, clusterName, wanted)
	if err != nil {
		return nil, err
	}
	out := &ecs.DescribeServicesOutput{Failures: failureShapes(o.Account, clusterName, "service", missing)}
	for _, d := range found {
		v := serviceShape(o.Account, d)
		if slices.Contains(in.Include, types.ServiceFieldTags) {
			v.Tags = shape.TagShapes(d.Service.Tags)
		}
		out.Services = append(out.Services, *v)
	}
	return out, nil
}

// pageServices is how many services a page has unless the caller says otherwise.
const pageServices = 10

// listServices answers with the ARNs of ACTIVE services, by name.
func (o *serviceOperations) listServices(
	ctx context.Context, in *ecs.ListServicesInput,
) (*ecs.ListServicesOutput, error) {
	q := operation.ListServices{Strategy: cluster.SchedulingStrategy(in.SchedulingStrategy)}
	var err error
	if q.Cluster, err = o.ClusterName(in.Cluster); err != nil {
		return nil, err
	}
	if q.Limit, err = input.PageSize(in.MaxResults, pageServices); err != nil {
		return nil, err
	}
	if err := input.CheckOneOf("schedulingStrategy", in.SchedulingStrategy); err != nil {
		return nil, err
	}
	if err := input.CheckOneOf("launchType", in.LaunchType); err != nil {
		return nil, err
	}
	if err := input.CheckOneOf("resourceManagementType", in.ResourceManagementType); err != nil {
		return nil, err
	}
	var isRefused bool
	q.External, isRefused = parseExternal(in.LaunchType)
	// The filter is part of the list's name, so a token is good only for the same filter.
	list := "services of " + q.Cluster + string(in.LaunchType) + string(in.ResourceManagementType)
	if q.After, err = input.PageStart(list, input.Value(in.NextToken)); err != nil {
		return nil, err
	}
	found, more, err := o.services.ListServices(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &ecs.ListServicesOutput{ServiceArns: []string{}}
	// ECS manages no service here: all are their callers' own.
	if len(found) == 0 || isRefused || in.ResourceManagementType == types.ResourceManagementTypeEcs {
		return out, nil
	}
	for _, name := range found {
		out.ServiceArns = append(out.ServiceArns, o.Account.ARN("service", q.Cluster, name))
	}
	if more {
		out.NextToken = new(input.PageToken(list, found[len(found)-1]))
	}
	return out, nil
}
