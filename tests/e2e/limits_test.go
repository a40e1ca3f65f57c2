package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
)

// newLimitsScenario creates a cluster with instances and a target group whose targets drain for five
// minutes.
func newLimitsScenario(t *testing.T, instances int) *rolloutScenario {
	s := newRolloutScenario(t, newVirtual(t))
	mustSucceed(s.api.CreateCluster(t.Context(), &ecs.CreateClusterInput{ClusterName: &s.cluster}))(&s.scenario)
	if err := s.tier.AddInstances(s.cluster, instances, "t3.medium", zones); err != nil {
		t.Fatal(err)
	}
	s.await("the instances", func() bool { return len(s.instances()) == instances })
	s.createTargetGroup("300")
	s.registerRevision()
	return s
}

// createLimited creates a service behind the target group.
func (s *rolloutScenario) createLimited(name string, tasks int32, change func(*ecs.CreateServiceInput)) error {
	in := &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: &name, TaskDefinition: &s.name, DesiredCount: &tasks,
		LoadBalancers: []types.LoadBalancer{{TargetGroupArn: &s.group, ContainerName: &s.name,
			ContainerPort: aws.Int32(80)}},
	}
	change(in)
	_, err := s.api.CreateService(s.t.Context(), in)
	return err
}

// Where maximumPercent is 100, unhealthy tasks stop one at a time. The next one waits for the
// replacement of the last one to be healthy, but not for the connections of that one to drain.
func TestUnhealthyTargetsAtTheMaximumDoNotWaitForConnections(t *testing.T) {
	s := newLimitsScenario(t, 4)
	mustSucceed(0, s.createLimited(s.name, 4, func(in *ecs.CreateServiceInput) {
		in.DeploymentConfiguration = deploymentLimits(100, 50)
	}))(&s.scenario)
	s.awaitStable()
	s.awaitWatched("four healthy tasks", func(at observation) bool { return len(at.healthy) == 4 })
	victims := map[string]bool{}
	for _, task := range s.runningTasks(s.name)[:2] {
		victims[*task.TaskArn] = true
		if err := s.tier.FailTarget(ecsID(t, task), "it does not answer"); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitWatched("both replacements", func(at observation) bool {
		active := 0
		for _, task := range at.tasks {
			if *task.DesiredStatus == string(cluster.TaskRunning) {
				active++
			}
		}
		if active > 4 {
			t.Fatalf("%d tasks are active, at most 4 may be\n%s", active, at)
		}
		return len(at.healthy) == 4
	})
	draining := 0
	for _, task := range s.takeObservation().tasks {
		if victims[*task.TaskArn] {
			draining++
		}
	}
	if draining != 2 {
		t.Errorf("%d of the unhealthy tasks still drain their connections, want both: the second waited for the first",
			draining)
	}
}

// Three services have a load of 50 each, where there is room for 250. While tasks of two of them
// move, which have a replacement by then, there is still room for 100 more, and not for 150.
func TestAdmissionCountsMovingTasksOnce(t *testing.T) {
	s := newLimitsScenario(t, 5)
	mustSucceed(s.tier.CallBerth(t.Context(), "PutClusterConfiguration", `{"cluster": "harbour",
		"configuration": {"nodeTypes": {"small": {"capacities": {"connections": 50}}}}}`))(&s.scenario)
	put := func(instance *string, name, value string) {
		mustSucceed(s.api.PutAttributes(t.Context(), &ecs.PutAttributesInput{Cluster: &s.cluster,
			Attributes: []types.Attribute{{Name: &name, Value: &value, TargetId: instance}}}))(&s.scenario)
	}
	for _, i := range s.instances() {
		put(i.ContainerInstanceArn, "berth.node-type", "small")
	}
	create := func(name string, tasks int32) error {
		return s.createLimited(name, tasks, func(in *ecs.CreateServiceInput) {
			in.Tags = []types.Tag{{Key: aws.String("berth:metrics"), Value: aws.String("connections=50")}}
		})
	}
	used := map[string]bool{}
	names := []string{"a", "b", "c"}
	for _, name := range names {
		mustSucceed(0, create(name, 1))(&s.scenario)
		s.awaitSteady(name, 1)
		used[*s.runningTasks(name)[0].ContainerInstanceArn] = true
	}
	for _, i := range s.instances() {
		if !used[*i.ContainerInstanceArn] {
			put(i.ContainerInstanceArn, "berth.property.Side", "new")
		}
	}
	moving := names[:2]
	for _, name := range moving {
		mustSucceed(s.api.TagResource(t.Context(), &ecs.TagResourceInput{
			ResourceArn: s.describeService(name).ServiceArn,
			Tags:        []types.Tag{{Key: aws.String("berth:constraint"), Value: aws.String("Side == new")}},
		}))(&s.scenario)
	}
	tasksOf := func(name string) int {
		return len(mustSucceed(s.api.ListTasks(t.Context(), &ecs.ListTasksInput{Cluster: &s.cluster,
			ServiceName: &name}))(&s.scenario).TaskArns)
	}
	s.await("two tasks to move", func() bool {
		return !slices.ContainsFunc(moving, func(name string) bool { return tasksOf(name) != 2 })
	})
	err := create("much", 3)
	if err == nil || !strings.Contains(err.Error(), "150 more required, 100 available (capacity 250") ||
		!strings.Contains(err.Error(), "load 150)") {
		t.Errorf("150 more: %v, want that 100 are available", err)
	}
	if err := create("just", 2); err != nil {
		t.Errorf("100 more: %v", err)
	}
	s.awaitSteady("just", 2)
	for _, name := range names {
		s.awaitSteady(name, 1)
	}
}
