package wire_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// taskSets keeps task sets with the services of a scheduler.
type taskSets struct{ *scheduler }

func (s *taskSets) FindCreatedTaskSet(
	_ context.Context, spec operation.CreateTaskSet,
) (*operation.TaskSetDetail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.service(spec.Cluster, spec.Service)
	if err != nil {
		return nil, err
	}
	for _, set := range d.Service.TaskSets() {
		if spec.Token != "" && set.Set.Token == spec.Token && set.Set.Params == spec.Params {
			return &operation.TaskSetDetail{Deployment: set, Service: d.Service}, nil
		}
	}
	return nil, nil
}

func (s *taskSets) CreateTaskSet(_ context.Context, spec operation.CreateTaskSet) (*operation.TaskSetDetail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.service(spec.Cluster, spec.Service)
	if err != nil {
		return nil, err
	}
	sets := d.Service.TaskSets()
	made := cluster.Deployment{
		Revision: cluster.Revision{
			ID: fmt.Sprint("ecs-svc/", len(sets)+1), CreatedAt: noon.Add(time.Duration(len(sets)) * time.Second),
			TaskDefinition: spec.TaskDefinition, Network: spec.Network, LoadBalancers: spec.LoadBalancers,
			Registries: spec.Registries, Providers: spec.Providers,
		},
		UpdatedAt: noon,
		Set: &cluster.TaskSet{Scale: spec.Scale, ExternalID: spec.ExternalID, External: spec.External, Tags: spec.Tags,
			Token: spec.Token, Params: spec.Params, StabilityAt: noon},
	}
	d.Service.SetTaskSets(append(sets, made), d.Service.Deployment.ID)
	return &operation.TaskSetDetail{Deployment: made, Service: d.Service}, nil
}

func (s *taskSets) change(
	ref operation.TaskSetRef, f func(*cluster.Deployment), primary bool,
) (*operation.TaskSetDetail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.service(ref.Cluster, ref.Service)
	if err != nil {
		return nil, err
	}
	sets := d.Service.TaskSets()
	i := slices.IndexFunc(sets, func(d cluster.Deployment) bool { return d.ID == ref.ID })
	if i < 0 {
		return nil, cluster.Errorf(cluster.CodeTaskSetNotFound, "The specified task set was not found.")
	}
	f(&sets[i])
	made := d.Service.Deployment.ID
	if primary {
		made = ref.ID
	}
	d.Service.SetTaskSets(sets, made)
	return &operation.TaskSetDetail{Deployment: sets[i], Service: d.Service}, nil
}

func (s *taskSets) UpdateTaskSet(
	_ context.Context, ref operation.TaskSetRef, scale float64,
) (*operation.TaskSetDetail, error) {
	return s.change(ref, func(d *cluster.Deployment) { d.Set.Scale = scale }, false)
}

func (s *taskSets) DeleteTaskSet(
	_ context.Context, ref operation.TaskSetRef, force bool,
) (*operation.TaskSetDetail, error) {
	return s.change(ref, func(d *cluster.Deployment) { d.Set.Draining = force }, false)
}

func (s *taskSets) MakePrimary(_ context.Context, ref operation.TaskSetRef) (*operation.TaskSetDetail, error) {
	return s.change(ref, func(*cluster.Deployment) {}, true)
}

func (s *taskSets) DescribeTaskSets(
	_ context.Context, clusterName, name string, ids []string,
) (found []*operation.TaskSetDetail, missing []cluster.Failure, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.service(clusterName, name)
	if err != nil {
		return nil, nil, err
	}
	for _, set := range d.Service.TaskSets() {
		if len(ids) == 0 || slices.Contains(ids, set.ID) {
			found = append(found, &operation.TaskSetDetail{Deployment: set, Service: d.Service})
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(found, func(d *operation.TaskSetDetail) bool { return d.Deployment.ID == id }) {
			missing = append(missing, cluster.Failure{ARN: name + "/" + id, Reason: "MISSING"})
		}
	}
	return found, missing, nil
}

// external creates a service sets of four tasks with the deployment controller EXTERNAL.
func (b *berth) external(t *testing.T) {
	t.Helper()
	must(b.CreateService(t.Context(), &ecs.CreateServiceInput{
		Cluster: new("prod"), ServiceName: new("sets"), DesiredCount: new(int32(4)),
		DeploymentController: &types.DeploymentController{Type: types.DeploymentControllerTypeExternal},
	}))(t)
}

const taskSetARN = "arn:aws:ecs:eu-west-1:123456789012:task-set/prod/sets/"

// Task sets are shown in ECS's shapes.
func TestTaskSetShapes(t *testing.T) {
	b := newBerth(t)
	b.external(t)
	made := must(b.CreateTaskSet(t.Context(), &ecs.CreateTaskSetInput{
		Cluster: new("prod"), Service: new("sets"), TaskDefinition: new("shop"), ExternalId: new("release-1"),
		LoadBalancers: []types.LoadBalancer{{TargetGroupArn: new(targetGroup), ContainerName: new("app"),
			ContainerPort: new(int32(80))}},
		Scale: &types.Scale{Value: 30, Unit: types.ScaleUnitPercent},
		Tags:  []types.Tag{{Key: new("a"), Value: new("b")}},
	}))(t).TaskSet
	wanted := &types.TaskSet{
		Id: new("ecs-svc/1"), TaskSetArn: new(taskSetARN + "ecs-svc/1"), ExternalId: new("release-1"),
		ServiceArn:     new("arn:aws:ecs:eu-west-1:123456789012:service/prod/sets"),
		ClusterArn:     new("arn:aws:ecs:eu-west-1:123456789012:cluster/prod"),
		TaskDefinition: new("arn:aws:ecs:eu-west-1:123456789012:task-definition/shop:3"),
		Status:         new("ACTIVE"), ComputedDesiredCount: 2, CreatedAt: &noon, UpdatedAt: &noon,
		LaunchType: types.LaunchTypeEc2, LoadBalancers: []types.LoadBalancer{{TargetGroupArn: new(targetGroup),
			ContainerName: new("app"), ContainerPort: new(int32(80))}},
		ServiceRegistries: []types.ServiceRegistry{}, Scale: &types.Scale{Value: 30, Unit: types.ScaleUnitPercent},
		StabilityStatus: types.StabilityStatusStabilizing, StabilityStatusAt: &noon,
		Tags: []types.Tag{{Key: new("a"), Value: new("b")}},
	}
	wanted.TaskDefinition = made.TaskDefinition
	expect(t, "task set", made, wanted)
	in := &ecs.DescribeTaskSetsInput{Cluster: new("prod"), Service: new("sets"),
		TaskSets: []string{taskSetARN + "ecs-svc/1", "ecs-svc/9"}}
	wanted.Tags = nil
	out := must(b.DescribeTaskSets(t.Context(), in))(t)
	expect(t, "described", out.TaskSets, []types.TaskSet{*wanted})
	expect(t, "failures", out.Failures, []types.Failure{{Arn: new(taskSetARN + "ecs-svc/9"), Reason: new("MISSING")}})
	in.Include, in.TaskSets = []types.TaskSetField{types.TaskSetFieldTags}, nil
	expect(t, "tags", must(b.DescribeTaskSets(t.Context(), in))(t).TaskSets[0].Tags, made.Tags)
}

// A task set starts with a scale of 0, and shows what becomes of it; the service shows what its
// primary one says.
func TestTaskSetLife(t *testing.T) {
	b := newBerth(t)
	b.external(t)
	service := func() types.Service {
		t.Helper()
		return must(b.DescribeServices(t.Context(), &ecs.DescribeServicesInput{Cluster: new("prod"),
			Services: []string{"sets"}}))(t).Services[0]
	}
	v := service()
	expect(t, "controller", v.DeploymentController.Type, types.DeploymentControllerTypeExternal)
	expect(t, "without task sets", []any{v.TaskDefinition, v.LaunchType, len(v.Deployments), v.TaskSets,
		v.CurrentServiceDeployment}, []any{(*string)(nil), types.LaunchType(""), 0, []types.TaskSet{}, (*string)(nil)})
	ids := []string{}
	for _, external := range []types.LaunchType{types.LaunchTypeEc2, types.LaunchTypeExternal} {
		definition := map[types.LaunchType]string{types.LaunchTypeEc2: "shop",
			types.LaunchTypeExternal: "anywhere"}[external]
		set := must(b.CreateTaskSet(t.Context(), &ecs.CreateTaskSetInput{Cluster: new("prod"), Service: new("sets"),
			TaskDefinition: &definition, LaunchType: external}))(t).TaskSet
		expect(t, "scale", set.Scale, &types.Scale{Unit: types.ScaleUnitPercent})
		expect(t, "launch type", set.LaunchType, external)
		ids = append(ids, *set.Id)
	}
	set := must(b.UpdateTaskSet(t.Context(), &ecs.UpdateTaskSetInput{Cluster: new("prod"), Service: new("sets"),
		TaskSet: &ids[1], Scale: &types.Scale{Value: 100}}))(t).TaskSet
	expect(t, "computed", set.ComputedDesiredCount, int32(4))
	set = must(b.UpdateServicePrimaryTaskSet(t.Context(), &ecs.UpdateServicePrimaryTaskSetInput{Cluster: new("prod"),
		Service: new("sets"), PrimaryTaskSet: &ids[1]}))(t).TaskSet
	expect(t, "status", *set.Status, "PRIMARY")
	b.scheduler.services["prod/sets"].Service.Deployment.Set.Steady = true
	v = service()
	expect(t, "statuses", []string{*v.TaskSets[0].Status, *v.TaskSets[1].Status}, []string{"ACTIVE", "PRIMARY"})
	expect(t, "stability", v.TaskSets[1].StabilityStatus, types.StabilityStatusSteadyState)
	expect(t, "task definition", *v.TaskDefinition, *v.TaskSets[1].TaskDefinition)
	expect(t, "launch type", v.LaunchType, types.LaunchTypeExternal)
	set = must(b.DeleteTaskSet(t.Context(), &ecs.DeleteTaskSetInput{Cluster: new("prod"), Service: new("sets"),
		TaskSet: &ids[1], Force: new(true)}))(t).TaskSet
	expect(t, "deleted", []any{*set.Status, set.ComputedDesiredCount}, []any{"DRAINING", int32(0)})
	_, err := b.DeleteTaskSet(t.Context(), &ecs.DeleteTaskSetInput{Cluster: new("prod"), Service: new("sets"),
		TaskSet: new("ecs-svc/9")})
	refused(t, err, "TaskSetNotFoundException", "")
}

// The same clientToken finds its task set before anything is checked: its task definition may be
// gone by then.
func TestTaskSetToken(t *testing.T) {
	b := newBerth(t)
	b.external(t)
	in := &ecs.CreateTaskSetInput{Cluster: new("prod"), Service: new("sets"), TaskDefinition: new("shop"),
		ClientToken: new("t")}
	first := must(b.CreateTaskSet(t.Context(), in))(t).TaskSet
	b.scheduler.services["prod/sets"].Service.Deployment.UpdatedAt = noon
	in.TaskDefinition = new("shop")
	expect(t, "the same", must(b.CreateTaskSet(t.Context(), in))(t).TaskSet, first)
	in.ClientToken, in.LoadBalancers = nil, []types.LoadBalancer{{TargetGroupArn: new(targetGroup),
		ContainerName: new("no"), ContainerPort: new(int32(80))}}
	_, err := b.CreateTaskSet(t.Context(), in)
	refused(t, err, invalidParameter, "The container no does not exist in the task definition.")
	body, _ := json.Marshal(map[string]any{"cluster": "prod", "service": "sets", "taskDefinition": "unknown"})
	if status, code, _ := b.answered(t, "CreateTaskSet", string(body)); status != 400 || code == "" {
		t.Errorf("an unknown task definition: %d %s", status, code)
	}
}
