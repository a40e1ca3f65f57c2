package wire

import (
	"cmp"
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

func (s *server) createService(ctx context.Context, in *ecs.CreateServiceInput) (*ecs.CreateServiceOutput, error) {
	spec, err := s.serviceSpec(in)
	if err != nil {
		return nil, err
	}
	d, err := s.scheduler.Created(ctx, spec)
	if err != nil {
		return nil, err
	}
	if d == nil {
		if d, err = s.newService(ctx, spec); err != nil {
			return nil, err
		}
	}
	out := s.service(d)
	out.Tags = Tags(d.Tags)
	return &ecs.CreateServiceOutput{Service: &out}, nil
}

func (s *server) newService(ctx context.Context, spec cluster.ServiceSpec) (d *cluster.ServiceDetail, err error) {
	if spec.TaskDefinition, err = s.usable(ctx, spec.TaskDefinition, nil); err != nil {
		return nil, err
	}
	err = s.checkRevision(ctx, &cluster.Revision{
		TaskDefinition: spec.TaskDefinition, LoadBalancers: value(spec.LoadBalancers), Registries: value(spec.Registries),
	}, spec.Rules.External)
	if err != nil {
		return nil, err
	}
	spec.CreatedBy = Principal(ctx)
	return s.scheduler.CreateService(ctx, spec)
}

func (s *server) serviceSpec(in *ecs.CreateServiceInput) (spec cluster.ServiceSpec, err error) {
	if spec.Cluster, err = s.cluster(in.Cluster); err != nil {
		return spec, err
	}
	if spec.Name = value(in.ServiceName); !names.MatchString(spec.Name) {
		return spec, invalid("serviceName must have 1 to 255 letters, digits, hyphens and underscores.")
	}
	if err := createFeatures(in); err != nil {
		return spec, err
	}
	if spec.ServiceParameters, err = parameters(common(in)); err != nil {
		return spec, err
	}
	if err := checkStrategy(in); err != nil {
		return spec, err
	}
	spec.Strategy = cluster.SchedulingStrategy(in.SchedulingStrategy)
	spec.Desired = integer(in.DesiredCount)
	if spec.MinHealthy, spec.MaxPercent, err = percents(in.DeploymentConfiguration); err != nil {
		return spec, err
	}
	if err := required("taskDefinition", in.TaskDefinition); err != nil {
		return spec, err
	}
	if spec.TaskDefinition, err = s.definition(*in.TaskDefinition); err != nil {
		return spec, err
	}
	if spec.Tags, err = checkTags(in.Tags, ruleTags); err != nil {
		return spec, err
	}
	if spec.Rules, err = placementRules(in.PlacementConstraints, in.PlacementStrategy, spec.Tags); err != nil {
		return spec, err
	}
	if spec.Network, err = network(in.NetworkConfiguration); err != nil {
		return spec, err
	}
	if spec.Token, err = clientToken(in.ClientToken); err != nil {
		return spec, err
	}
	spec.PropagateTags, spec.Launched = string(in.PropagateTags), in.LaunchType != ""
	spec.Rules.External = in.LaunchType == types.LaunchTypeExternal
	parameters := *in
	parameters.ClientToken = nil
	spec.Params, err = digest(parameters)
	return spec, err
}

// checkStrategy holds DAEMON to what it allows (S4), and the rest to ranges.
func checkStrategy(in *ecs.CreateServiceInput) error {
	if err := oneOf("schedulingStrategy", in.SchedulingStrategy, in.SchedulingStrategy.Values()); err != nil {
		return err
	}
	if in.SchedulingStrategy != types.SchedulingStrategyDaemon {
		if in.DesiredCount == nil {
			return invalid("desiredCount must be given for a REPLICA service.")
		}
		return notNegative("desiredCount", in.DesiredCount)
	}
	switch c := in.DeploymentConfiguration; {
	case in.DesiredCount != nil:
		return invalid("The daemon scheduling strategy does not support a desired count. Remove desiredCount and try again.")
	case c != nil && c.MaximumPercent != nil && *c.MaximumPercent != 100:
		return invalid("The daemon scheduling strategy does not support values for maximumPercent other than 100.")
	}
	return nil
}

func notNegative(member string, n *int32) error {
	if value(n) < 0 {
		return invalid("%s is %d, but must not be negative.", member, *n)
	}
	return nil
}

func integer(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// createFeatures refuses what Berth does not do of CreateService alone, and holds DAEMON to what it allows (S4).
func createFeatures(in *ecs.CreateServiceInput) error {
	if err := oneOf("launchType", in.LaunchType, in.LaunchType.Values()); err != nil {
		return err
	}
	daemon := in.SchedulingStrategy == types.SchedulingStrategyDaemon
	controller := types.DeploymentControllerTypeEcs
	if in.DeploymentController != nil {
		controller = in.DeploymentController.Type
	}
	switch {
	case daemon && len(in.PlacementStrategy) > 0:
		return invalid("The daemon scheduling strategy does not support placement strategies. Remove the placement strategies and try again.")
	case daemon && in.LaunchType == types.LaunchTypeFargate:
		return invalid("The daemon scheduling strategy does not support the Fargate launch type.")
	case daemon && controller != types.DeploymentControllerTypeEcs:
		return invalid("The daemon scheduling strategy does not support deployment controllers other than ECS.")
	case in.LaunchType != "" && len(in.CapacityProviderStrategy) > 0:
		return invalid("Specifying both a launch type and capacity provider strategy is not supported. Remove one and try again.")
	}
	if err := launchType(in.LaunchType); err != nil {
		return err
	}
	return refuse(
		unserved{"role", value(in.Role) != ""},
		unserved{"capacityProviderStrategy with the daemon scheduling strategy", daemon && len(in.CapacityProviderStrategy) > 0},
	)
}

// common are the members that CreateService has in common with UpdateService.
func common(in *ecs.CreateServiceInput) *ecs.UpdateServiceInput {
	return &ecs.UpdateServiceInput{
		AvailabilityZoneRebalancing: in.AvailabilityZoneRebalancing, CapacityProviderStrategy: in.CapacityProviderStrategy,
		DeploymentConfiguration: in.DeploymentConfiguration, DeploymentController: in.DeploymentController,
		EnableECSManagedTags: &in.EnableECSManagedTags, EnableExecuteCommand: &in.EnableExecuteCommand,
		GatewayConnectors: in.GatewayConnectors, HealthCheckGracePeriodSeconds: in.HealthCheckGracePeriodSeconds,
		LoadBalancers: in.LoadBalancers, Monitoring: in.Monitoring, PlatformVersion: in.PlatformVersion,
		PropagateTags: in.PropagateTags, ServiceConnectConfiguration: in.ServiceConnectConfiguration,
		ServiceRegistries: in.ServiceRegistries, VolumeConfigurations: in.VolumeConfigurations,
		VpcLatticeConfigurations: in.VpcLatticeConfigurations,
	}
}

func (s *server) updateService(ctx context.Context, in *ecs.UpdateServiceInput) (*ecs.UpdateServiceOutput, error) {
	change, err := s.serviceChange(in)
	if err != nil {
		return nil, err
	}
	if change.TaskDefinition != "" {
		if change.TaskDefinition, err = s.usable(ctx, change.TaskDefinition, nil); err != nil {
			return nil, err
		}
	}
	if err := s.checkChange(ctx, change); err != nil {
		return nil, err
	}
	d, err := s.scheduler.UpdateService(ctx, change)
	if err != nil {
		return nil, err
	}
	out := s.service(d)
	return &ecs.UpdateServiceOutput{Service: &out}, nil
}

// serviceChange reads an UpdateService.
func (s *server) serviceChange(in *ecs.UpdateServiceInput) (change cluster.ServiceChange, err error) {
	change = cluster.ServiceChange{Desired: integer(in.DesiredCount), Force: in.ForceNewDeployment, PropagateTags: string(in.PropagateTags)}
	if change.Cluster, change.Name, err = s.serviceIn(in.Cluster, in.Service); err != nil {
		return change, err
	}
	if change.ServiceParameters, err = parameters(in); err != nil {
		return change, err
	}
	if err = notNegative("desiredCount", in.DesiredCount); err != nil {
		return change, err
	}
	if change.MinHealthy, change.MaxPercent, err = percents(in.DeploymentConfiguration); err != nil {
		return change, err
	}
	rules, err := placementRules(in.PlacementConstraints, in.PlacementStrategy, nil)
	if err != nil {
		return change, err
	}
	// A list that is not given stays as it was, an empty one takes all away.
	if in.PlacementConstraints != nil {
		change.Constraints = &rules.Constraints
	}
	if in.PlacementStrategy != nil {
		change.Strategies = &rules.Strategies
	}
	if in.NetworkConfiguration != nil {
		n, err := network(in.NetworkConfiguration)
		if err != nil {
			return change, err
		}
		if change.Network = n; n == nil {
			change.Network = &cluster.Network{}
		}
	}
	if value(in.TaskDefinition) != "" {
		change.TaskDefinition, err = s.definition(*in.TaskDefinition)
	}
	return change, err
}

// checkChange holds load balancers and registries to the task definition, where one of them changes.
func (s *server) checkChange(ctx context.Context, c cluster.ServiceChange) error {
	if c.TaskDefinition == "" && c.LoadBalancers == nil && c.Registries == nil {
		return nil
	}
	found, _, err := s.scheduler.DescribeServices(ctx, c.Cluster, []string{c.Name})
	if err != nil || len(found) == 0 {
		return err // the scheduler says what is wrong
	}
	now := found[0].Deployment.Revision
	if c.LoadBalancers != nil {
		now.LoadBalancers = *c.LoadBalancers
	}
	if c.Registries != nil {
		now.Registries = *c.Registries
	}
	now.TaskDefinition = cmp.Or(c.TaskDefinition, now.TaskDefinition)
	return s.checkRevision(ctx, &now, found[0].Rules.External)
}

// checkRevision refuses a task definition that the launch type has no place for, and load balancers and registries that name
// a container or a port which the task definition has not; of the launch type EXTERNAL any.
func (s *server) checkRevision(ctx context.Context, r *cluster.Revision, external bool) error {
	d, err := s.described(ctx, r.TaskDefinition)
	if err != nil {
		return err
	}
	if err := compatible(d, external); err != nil {
		return err
	}
	if external && r.Balanced() {
		return invalid("The EXTERNAL launch type does not support loadBalancers and serviceRegistries. Remove them and try again.")
	}
	for _, l := range r.LoadBalancers {
		if err := containerPort(d, l.Container, l.Port); err != nil {
			return err
		}
	}
	for _, g := range r.Registries {
		if err := checkRegistry(d, &g); err != nil {
			return err
		}
	}
	return nil
}

// checkRegistry refuses, in ECS's words, a Cloud Map service for which the container's port is not known, and by name tasks
// without an address of their own: that of their instance is not ECS's to tell.
func checkRegistry(d *types.TaskDefinition, r *cluster.Registry) error {
	own := d.NetworkMode == types.NetworkModeAwsvpc
	if r.Container == "" && !own {
		return invalid("When specifying 'host' or 'bridge' for networkMode, values for 'containerName' and 'containerPort' must be specified from the task definition.")
	}
	if r.Container != "" {
		if err := containerPort(d, r.Container, r.ContainerPort); err != nil {
			return err
		}
	}
	if !own {
		return unsupported("serviceRegistries with networkMode " + string(cmp.Or(d.NetworkMode, types.NetworkModeBridge)))
	}
	return nil
}

func containerPort(d *types.TaskDefinition, name string, number int) error {
	n := slices.IndexFunc(d.ContainerDefinitions, func(c types.ContainerDefinition) bool { return value(c.Name) == name })
	if n < 0 {
		return invalid("The container %.255s does not exist in the task definition.", name)
	}
	if !slices.ContainsFunc(d.ContainerDefinitions[n].PortMappings, func(m types.PortMapping) bool { return int(value(m.ContainerPort)) == number }) {
		return invalid("The container %.255s did not have a container port %d defined.", name, number)
	}
	return nil
}

// serviceIn reads the two members that name a service.
func (s *server) serviceIn(clusterRef, ref *string) (clusterName, name string, err error) {
	if clusterName, err = s.cluster(clusterRef); err != nil {
		return "", "", err
	}
	if err = required("service", ref); err != nil {
		return "", "", err
	}
	name, err = s.in(clusterName, "service", *ref)
	return clusterName, name, err
}

func (s *server) deleteService(ctx context.Context, in *ecs.DeleteServiceInput) (*ecs.DeleteServiceOutput, error) {
	clusterName, name, err := s.serviceIn(in.Cluster, in.Service)
	if err != nil {
		return nil, err
	}
	d, err := s.scheduler.DeleteService(ctx, clusterName, name, value(in.Force))
	if err != nil {
		return nil, err
	}
	out := s.service(d)
	return &ecs.DeleteServiceOutput{Service: &out}, nil
}

// maxServices is how many services DescribeServices takes.
const maxServices = 10

func (s *server) describeServices(ctx context.Context, in *ecs.DescribeServicesInput) (*ecs.DescribeServicesOutput, error) {
	clusterName, err := s.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	if err := count("services", len(in.Services), maxServices); err != nil {
		return nil, err
	}
	wanted := make([]string, len(in.Services))
	for n, ref := range in.Services {
		if wanted[n], err = s.in(clusterName, "service", ref); err != nil {
			return nil, err
		}
	}
	for _, field := range in.Include {
		if err := oneOf("include", field, field.Values()); err != nil {
			return nil, err
		}
	}
	found, missing, err := s.scheduler.DescribeServices(ctx, clusterName, wanted)
	if err != nil {
		return nil, err
	}
	out := &ecs.DescribeServicesOutput{Failures: s.failures(clusterName, "service", missing)}
	for _, d := range found {
		v := s.service(d)
		if slices.Contains(in.Include, types.ServiceFieldTags) {
			v.Tags = Tags(d.Tags)
		}
		out.Services = append(out.Services, v)
	}
	return out, nil
}

// pageServices is ECS's own page of ListServices.
const pageServices = 10

func (s *server) listServices(ctx context.Context, in *ecs.ListServicesInput) (*ecs.ListServicesOutput, error) {
	q := cluster.ServiceQuery{Strategy: cluster.SchedulingStrategy(in.SchedulingStrategy)}
	var err error
	if q.Cluster, err = s.cluster(in.Cluster); err != nil {
		return nil, err
	}
	if q.Limit, err = limit(in.MaxResults, pageServices); err != nil {
		return nil, err
	}
	if err := oneOf("schedulingStrategy", in.SchedulingStrategy, in.SchedulingStrategy.Values()); err != nil {
		return nil, err
	}
	if err := oneOf("launchType", in.LaunchType, in.LaunchType.Values()); err != nil {
		return nil, err
	}
	if err := refuse(unserved{"resourceManagementType", in.ResourceManagementType != ""}); err != nil {
		return nil, err
	}
	var nobody bool
	q.External, nobody = external(in.LaunchType)
	list := "services of " + q.Cluster + string(in.LaunchType)
	if q.After, err = after(list, in.NextToken); err != nil {
		return nil, err
	}
	found, more, err := s.scheduler.ListServices(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &ecs.ListServicesOutput{ServiceArns: []string{}}
	if len(found) == 0 || nobody {
		return out, nil
	}
	for _, name := range found {
		out.ServiceArns = append(out.ServiceArns, s.account.ARN("service", q.Cluster, name))
	}
	if more {
		out.NextToken = token(list, found[len(found)-1])
	}
	return out, nil
}
