package ecsapi

import (
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/wire/shape"
)

// taskSetShape returns a task set as DescribeTaskSets shows it, without its tags. Its counts are
// those that the last decision left; its desired count follows the service's at once.
func taskSetShape(account cluster.Account, s *cluster.Service, d *cluster.Deployment) types.TaskSet {
	as := s.OfTaskSet(*d)
	out := types.TaskSet{
		Id: new(d.ID), TaskSetArn: new(account.ARN("task-set", s.Cluster, s.Name, d.ID)),
		ServiceArn: new(account.ARN("service", s.Cluster, s.Name)), ClusterArn: new(account.ARN("cluster", s.Cluster)),
		ExternalId: shape.TextOrNil(d.Set.ExternalID), Status: new(taskSetStatus(s, d)),
		TaskDefinition:       new(account.ARN("task-definition", d.TaskDefinition)),
		ComputedDesiredCount: int32(as.Desired), PendingCount: int32(d.Pending), RunningCount: int32(d.Running),
		CreatedAt: shape.TimeOrNil(d.CreatedAt), UpdatedAt: shape.TimeOrNil(d.UpdatedAt),
		NetworkConfiguration: shape.NetworkShape(d.Network), LoadBalancers: loadBalancerShapes(d.LoadBalancers),
		ServiceRegistries: registryShapes(d.Registries),
		Scale:             &types.Scale{Value: d.Set.Scale, Unit: types.ScaleUnitPercent},
		StabilityStatus:   types.StabilityStatusStabilizing, StabilityStatusAt: shape.TimeOrNil(d.Set.StabilityAt),
	}
	if d.Set.Steady {
		out.StabilityStatus = types.StabilityStatusSteadyState
	}
	out.LaunchType, out.CapacityProviderStrategy = launchShape(as, as.Providers)
	return out
}

func taskSetStatus(s *cluster.Service, d *cluster.Deployment) string {
	switch {
	case d.Set.Draining:
		return "DRAINING"
	case d.ID == s.Deployment.ID:
		return "PRIMARY"
	}
	return "ACTIVE"
}

// addTaskSets makes a service's description that of one with the deployment controller EXTERNAL.
// Nothing of rollouts is shown. An INACTIVE service has no task sets.
func addTaskSets(account cluster.Account, out *types.Service, s *cluster.Service) {
	out.DeploymentController.Type = types.DeploymentControllerTypeExternal
	out.DeploymentConfiguration = &types.DeploymentConfiguration{
		MaximumPercent: new(int32(s.MaxPercent)), MinimumHealthyPercent: new(int32(s.MinHealthy)),
	}
	out.TaskSets = []types.TaskSet{}
	if s.Status == cluster.ServiceInactive {
		return
	}
	for _, d := range s.TaskSets() {
		out.TaskSets = append(out.TaskSets, taskSetShape(account, s, &d))
	}
}
