package ecsapi

import (
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/input"
	"berth/shared/wire/shape"
)

// parseCreateService reads a CreateService. The digest of the parameters leaves out the
// clientToken, so that a token used with other parameters is recognized.
func (o *serviceOperations) parseCreateService(in *ecs.CreateServiceInput) (spec operation.CreateService, err error) {
	if spec.Cluster, err = o.ClusterName(in.Cluster); err != nil {
		return spec, err
	}
	if spec.Name = input.Value(in.ServiceName); !input.IsName(spec.Name) {
		return spec, input.Invalid("serviceName must have 1 to 255 letters, digits, hyphens and underscores.")
	}
	if err := checkCreateFeatures(in); err != nil {
		return spec, err
	}
	if spec.Network, err = shape.ParseNetwork(in.NetworkConfiguration); err != nil {
		return spec, err
	}
	if spec.ServiceParameters, err = parseParameters(o.References, commonMembers(in)); err != nil {
		return spec, err
	}
	if in.DeploymentController != nil && in.DeploymentController.Type == types.DeploymentControllerTypeExternal {
		spec.Controller = cluster.ExternalController
	}
	if err := checkStrategy(in, spec.Controller); err != nil {
		return spec, err
	}
	spec.Strategy = cluster.SchedulingStrategy(in.SchedulingStrategy)
	spec.Desired = intOrNil(in.DesiredCount)
	if spec.MinHealthy, spec.MaxPercent, err = parsePercents(in.DeploymentConfiguration); err != nil {
		return spec, err
	}
	if spec.TaskDefinition, err = o.parseDefinition(in, spec.Controller); err != nil {
		return spec, err
	}
	if spec.Role, err = o.parseRole(in); err != nil {
		return spec, err
	}
	if spec.Tags, err = checkTags(in.Tags, ruleTags); err != nil {
		return spec, err
	}
	if spec.Rules, err = parseRules(in.PlacementConstraints, in.PlacementStrategy, spec.Tags); err != nil {
		return spec, err
	}
	if spec.Token, err = checkClientToken(in.ClientToken); err != nil {
		return spec, err
	}
	spec.PropagateTags, spec.Launched = string(in.PropagateTags), in.LaunchType != ""
	spec.Rules.External = in.LaunchType == types.LaunchTypeExternal
	// The token is not part of what it stands for.
	parameters := *in
	parameters.ClientToken = nil
	spec.Params, err = input.DigestParameters(parameters)
	return spec, err
}

// parseDefinition reads the task definition. A service with the deployment controller EXTERNAL has
// none, nor anything else that its task sets say (texts of ECS).
func (o *serviceOperations) parseDefinition(
	in *ecs.CreateServiceInput, controller cluster.DeploymentController,
) (string, error) {
	if controller != cluster.ExternalController {
		if err := input.CheckRequired("taskDefinition", in.TaskDefinition); err != nil {
			return "", err
		}
		return o.TaskDefinitionName(*in.TaskDefinition)
	}
	switch {
	case input.Value(in.TaskDefinition) != "":
		return "", input.Invalid("TaskDefinition must be blank.")
	case in.NetworkConfiguration != nil:
		return "", input.Invalid("NetworkConfiguration must be null.")
	case len(in.LoadBalancers) > 0:
		return "", input.Invalid("LoadBalancers must be empty or null.")
	case len(in.ServiceRegistries) > 0:
		return "", input.Invalid("ServiceRegistries must be empty or null.")
	case len(in.VolumeConfigurations) > 0:
		return "", input.Invalid("VolumeConfigurations must be empty or null.")
	case in.LaunchType != "":
		return "", input.Invalid("LaunchType must be blank.")
	case len(in.CapacityProviderStrategy) > 0:
		return "", input.Invalid("CapacityProviderStrategy must be empty or null.")
	}
	return "", nil
}

// serviceRoles matches the name of a role, with its path.
var serviceRoles = regexp.MustCompile(`^[\x21-\x7e]{1,576}$`)

// parseRole returns the ARN of the role that the caller gives for the calls of load balancers. It
// is kept and shown: Berth registers targets by its own role. Where ECS demands its service-linked
// role, no other may be given (texts of ECS).
func (o *serviceOperations) parseRole(in *ecs.CreateServiceInput) (string, error) {
	role := input.Value(in.Role)
	switch {
	case role == "":
		return "", nil
	case len(in.LoadBalancers) == 0:
		return "", input.Invalid("A role was passed, but no load balancers were present.")
	case len(in.LoadBalancers) > 1 || len(in.ServiceRegistries) > 0 || in.NetworkConfiguration != nil:
		return "", input.Invalid("You cannot specify an IAM role for services that require a service linked role.")
	case volumeRoles.MatchString(role):
		return role, nil
	case strings.HasPrefix(role, "arn:") || !serviceRoles.MatchString(role):
		return "", input.Invalid("role is %.300q, expected the name or ARN of a role.", role)
	}
	before, _, _ := strings.Cut(o.Account.RootARN(), "root")
	return before + "role/" + strings.TrimPrefix(role, "/"), nil
}

// checkStrategy checks the desired count and the percentages against the scheduling strategy.
// DAEMON has no desired count and a maximumPercent of 100 (S4); REPLICA must have a desired count,
// unless the deployment controller is EXTERNAL.
func checkStrategy(in *ecs.CreateServiceInput, controller cluster.DeploymentController) error {
	if err := input.CheckOneOf("schedulingStrategy", in.SchedulingStrategy); err != nil {
		return err
	}
	if in.SchedulingStrategy != types.SchedulingStrategyDaemon {
		if in.DesiredCount == nil && controller != cluster.ExternalController {
			return input.Invalid("desiredCount must be given for a REPLICA service.")
		}
		return checkNotNegative("desiredCount", in.DesiredCount)
	}
	switch c := in.DeploymentConfiguration; {
	case in.DesiredCount != nil:
		return input.Invalid(cluster.DaemonDesiredCount)
	case c != nil && input.Value(c.MaximumPercent) > 100:
		return input.Invalid(cluster.DaemonMaximum)
	case c != nil && c.MaximumPercent != nil && *c.MaximumPercent != 100:
		return input.Invalid("The daemon scheduling strategy does not support values for maximumPercent other than " +
			"100.")
	}
	return nil
}

// checkCreateFeatures refuses what Berth does not serve of CreateService alone, and what DAEMON
// excludes (S4), in ECS's words.
func checkCreateFeatures(in *ecs.CreateServiceInput) error {
	if !slices.Contains(append(in.LaunchType.Values(), ""), in.LaunchType) {
		// ECS's own words, though it takes EXTERNAL too.
		return cluster.Errorf(cluster.CodeClient, "launch type should be one of [EC2,FARGATE]")
	}
	daemon := in.SchedulingStrategy == types.SchedulingStrategyDaemon
	controller := types.DeploymentControllerTypeEcs
	if in.DeploymentController != nil {
		controller = in.DeploymentController.Type
	}
	switch {
	case daemon && len(in.PlacementStrategy) > 0:
		return input.Invalid("The daemon scheduling strategy does not support placement strategies. Remove the " +
			"placement strategies and try again.")
	case daemon && in.LaunchType == types.LaunchTypeFargate:
		return input.Invalid("The daemon scheduling strategy does not support the Fargate launch type.")
	case daemon && controller != types.DeploymentControllerTypeEcs:
		return input.Invalid("The daemon scheduling strategy does not support deployment controllers other than ECS.")
	case in.LaunchType != "" && len(in.CapacityProviderStrategy) > 0:
		return input.Invalid("Specifying both a launch type and capacity provider strategy is not supported. Remove " +
			"one and try again.")
	}
	if err := checkLaunchType(in.LaunchType); err != nil {
		return err
	}
	return refuseUnserved(
		unserved{"capacityProviderStrategy with the daemon scheduling strategy",
			daemon && len(in.CapacityProviderStrategy) > 0},
	)
}

// commonMembers returns the members of a CreateService that UpdateService has too, so that one
// function checks them for both.
func commonMembers(in *ecs.CreateServiceInput) *ecs.UpdateServiceInput {
	return &ecs.UpdateServiceInput{
		AvailabilityZoneRebalancing: in.AvailabilityZoneRebalancing,
		CapacityProviderStrategy:    in.CapacityProviderStrategy, DeploymentConfiguration: in.DeploymentConfiguration,
		DeploymentController: in.DeploymentController, EnableECSManagedTags: &in.EnableECSManagedTags,
		EnableExecuteCommand: &in.EnableExecuteCommand, GatewayConnectors: in.GatewayConnectors,
		HealthCheckGracePeriodSeconds: in.HealthCheckGracePeriodSeconds, LoadBalancers: in.LoadBalancers,
		Monitoring: in.Monitoring, PlatformVersion: in.PlatformVersion, PropagateTags: in.PropagateTags,
		ServiceConnectConfiguration: in.ServiceConnectConfiguration, ServiceRegistries: in.ServiceRegistries,
		VolumeConfigurations: in.VolumeConfigurations, VpcLatticeConfigurations: in.VpcLatticeConfigurations,
	}
}

// parseUpdateService reads an UpdateService. What is not given is nil, and stays as it was.
func (o *serviceOperations) parseUpdateService(in *ecs.UpdateServiceInput) (change operation.UpdateService, err error) {
	change = operation.UpdateService{Desired: intOrNil(in.DesiredCount), Force: in.ForceNewDeployment,
		PropagateTags: string(in.PropagateTags)}
	if change.Cluster, change.Name, err = o.ReadService(in.Cluster, in.Service); err != nil {
		return change, err
	}
	if change.ServiceParameters, err = parseParameters(o.References, in); err != nil {
		return change, err
	}
	if c := in.DeploymentController; c != nil {
		change.Controller = new(cluster.DeploymentController)
		if c.Type == types.DeploymentControllerTypeExternal {
			*change.Controller = cluster.ExternalController
		}
	}
	if err = checkNotNegative("desiredCount", in.DesiredCount); err != nil {
		return change, err
	}
	if change.MinHealthy, change.MaxPercent, err = parsePercents(in.DeploymentConfiguration); err != nil {
		return change, err
	}
	// Without tags: UpdateService has none, and the rules that tags stand for stay.
	rules, err := parseRules(in.PlacementConstraints, in.PlacementStrategy, nil)
	if err != nil {
		return change, err
	}
	// An empty list is given, and removes what was there. Tags are not part of UpdateService.
	if in.PlacementConstraints != nil {
		change.Constraints = &rules.Constraints
	}
	if in.PlacementStrategy != nil {
		change.Strategies = &rules.Strategies
	}
	if in.NetworkConfiguration != nil {
		n, err := shape.ParseNetwork(in.NetworkConfiguration)
		if err != nil {
			return change, err
		}
		// A configuration without awsvpcConfiguration removes the network.
		if change.Network = n; n == nil {
			change.Network = &cluster.Network{}
		}
	}
	if input.Value(in.TaskDefinition) != "" {
		change.TaskDefinition, err = o.TaskDefinitionName(*in.TaskDefinition)
	}
	return change, err
}
