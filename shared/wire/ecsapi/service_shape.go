package ecsapi

import (
	"cmp"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/shape"
)

// serviceShape returns a service as DescribeServices shows it, without its tags. What describes
// tasks, such as load balancers, is that of the PRIMARY deployment.
//
// A service with the deployment controller EXTERNAL has task sets instead of deployments, and shows
// what its primary one says; nothing of that without a primary one (S15).
//
// An INACTIVE service has no deployments (S10). The grace period is shown only if it has an effect,
// that is, with a load balancer or registry, or if it was set.
func serviceShape(account cluster.Account, d *operation.ServiceDetail) *types.Service {
	r := &d.Service.Deployment.Revision
	out := &types.Service{
		ServiceArn: new(account.ARN("service", d.Service.Cluster, d.Service.Name)), ServiceName: new(d.Service.Name),
		ClusterArn: new(account.ARN("cluster", d.Service.Cluster)), Status: new(string(d.Service.Status)),
		DesiredCount: int32(d.Service.Desired), RunningCount: int32(d.Service.Running),
		PendingCount:            int32(d.Service.Pending),
		DeploymentConfiguration: deploymentConfigurationShape(new(d.Service.DeploymentConfiguration())),
		DeploymentController:    &types.DeploymentController{Type: types.DeploymentControllerTypeEcs},
		Deployments:             []types.Deployment{}, CreatedAt: shape.TimeOrNil(d.Service.CreatedAt),
		CreatedBy: shape.TextOrNil(d.Service.CreatedBy), RoleArn: shape.TextOrNil(d.Service.Role),
		SchedulingStrategy:   types.SchedulingStrategy(d.Service.Strategy),
		PropagateTags:        types.PropagateTags(cmp.Or(d.Service.PropagateTags, string(types.PropagateTagsNone))),
		PlacementConstraints: constraintShapes(d.Service.Rules.Constraints),
		PlacementStrategy:    strategyShapes(d.Service.Rules.Strategies),
		LoadBalancers:        loadBalancerShapes(r.LoadBalancers), ServiceRegistries: registryShapes(r.Registries),
		NetworkConfiguration:        shape.NetworkShape(r.Network),
		AvailabilityZoneRebalancing: types.AvailabilityZoneRebalancingDisabled,
		EnableECSManagedTags:        d.Service.Options.ManagedTags,
		EnableExecuteCommand:        d.Service.Options.ExecuteCommand,
	}
	if d.Service.Grace > 0 || r.RegistersTasks() {
		out.HealthCheckGracePeriodSeconds = new(int32(d.Service.Grace))
	}
	if r.TaskDefinition != "" {
		as := d.Service.OfRevision(r.ID)
		out.TaskDefinition = new(account.ARN("task-definition", r.TaskDefinition))
		out.LaunchType, out.CapacityProviderStrategy = launchShape(as, as.Providers)
	}
	if d.Service.ZoneRebalancing {
		out.AvailabilityZoneRebalancing = types.AvailabilityZoneRebalancingEnabled
	}
	switch {
	case d.Service.HasTaskSets():
		addTaskSets(account, out, d.Service)
	case d.Service.Status != cluster.ServiceInactive:
		addDeployments(account, out, d.Service)
	}
	out.Events = shape.ConvertEach(d.EventLog, func(e *cluster.ServiceEvent) types.ServiceEvent {
		return types.ServiceEvent{Id: new(e.ID), CreatedAt: shape.TimeOrNil(e.CreatedAt), Message: new(e.Message)}
	})
	return out
}

// addDeployments adds the PRIMARY deployment and the ACTIVE ones, the current revisions with their
// counts, and the current service deployment.
func addDeployments(account cluster.Account, out *types.Service, v *cluster.Service) {
	add := func(d *cluster.Deployment, status string, desired int) {
		out.Deployments = append(out.Deployments, deploymentShape(account, v, d, status, desired))
		out.CurrentServiceRevisions = append(out.CurrentServiceRevisions, types.ServiceCurrentRevisionSummary{
			Arn: new(revisionARN(account, v, d.IDDigits())), RequestedTaskCount: int32(desired),
			RunningTaskCount: int32(d.Running), PendingTaskCount: int32(d.Pending),
		})
	}
	add(&v.Deployment, "PRIMARY", v.Desired)
	for n := range v.Older {
		add(&v.Older[n], "ACTIVE", v.Older[n].Desired)
	}
	if v.Release != nil {
		out.CurrentServiceDeployment = new(releaseARN(account, v, v.Release.ID))
	}
}

// deploymentShape returns a deployment as the API shows it. Its state and reason may not have been
// recorded yet; then they follow from its counts.
func deploymentShape(
	account cluster.Account, v *cluster.Service, d *cluster.Deployment, status string, desired int,
) types.Deployment {
	out := types.Deployment{
		Id: new(d.ID), Status: &status, TaskDefinition: new(account.ARN("task-definition", d.TaskDefinition)),
		DesiredCount: int32(desired), RunningCount: int32(d.Running), PendingCount: int32(d.Pending),
		FailedTasks: int32(d.Failed), CreatedAt: shape.TimeOrNil(d.CreatedAt),
		UpdatedAt: shape.TimeOrNil(d.UpdatedAt), NetworkConfiguration: shape.NetworkShape(d.Network),
		RolloutState:       types.DeploymentRolloutState(cmp.Or(d.State, cluster.RolloutInProgress)),
		RolloutStateReason: new(cmp.Or(d.Reason, "ECS deployment "+d.ID+" in progress.")),
	}
	if d.Reason == "" && d.IsCompleted() {
		out.RolloutStateReason = new("ECS deployment " + d.ID + " completed.")
	}
	out.LaunchType, out.CapacityProviderStrategy = launchShape(v, d.Providers)
	out.VolumeConfigurations = shape.ServiceVolumeShapes(d.Volumes)
	return out
}

// launchTypeShape returns the launch type of tasks without a capacity provider.
func launchTypeShape(external bool) types.LaunchType {
	if external {
		return types.LaunchTypeExternal
	}
	return types.LaunchTypeEc2
}

// launchShape returns a capacity provider strategy, or else the launch type: ECS shows one or the
// other.
func launchShape(
	v *cluster.Service, shares []cluster.ProviderShare,
) (types.LaunchType, []types.CapacityProviderStrategyItem) {
	if len(shares) == 0 {
		return launchTypeShape(v.Rules.External), nil
	}
	return "", providerShapes(shares)
}

// providerShapes returns a capacity provider strategy as the API shows it.
func providerShapes(shares []cluster.ProviderShare) []types.CapacityProviderStrategyItem {
	return shape.ConvertEach(shares, func(p cluster.ProviderShare) types.CapacityProviderStrategyItem {
		return types.CapacityProviderStrategyItem{CapacityProvider: new(p.Provider), Base: int32(p.Base),
			Weight: int32(p.Weight)}
	})
}

// loadBalancerShapes returns load balancers as the API shows them.
func loadBalancerShapes(in []cluster.LoadBalancer) []types.LoadBalancer {
	return shape.ConvertEach(in, func(l cluster.LoadBalancer) types.LoadBalancer {
		out := types.LoadBalancer{ContainerName: new(l.Container), ContainerPort: new(int32(l.Port))}
		if name, classic := cluster.ClassicName(l.TargetGroup); classic {
			out.LoadBalancerName = &name
		} else {
			out.TargetGroupArn = new(l.TargetGroup)
		}
		return out
	})
}

// registryShapes returns Cloud Map services as the API shows them.
func registryShapes(in []cluster.Registry) []types.ServiceRegistry {
	return shape.ConvertEach(in, func(r cluster.Registry) types.ServiceRegistry {
		return types.ServiceRegistry{
			RegistryArn: new(r.ARN), ContainerName: shape.TextOrNil(r.Container),
			ContainerPort: portOrNil(r.ContainerPort), Port: portOrNil(r.Port),
		}
	})
}

// portOrNil returns a port, nil for 0.
func portOrNil(n int) *int32 {
	if n == 0 {
		return nil
	}
	return new(int32(n))
}
