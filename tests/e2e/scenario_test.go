package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/go-cmp/cmp"

	"berth/shared/cluster"
)

func TestServiceScenario(t *testing.T) {
	runServiceScenario(t, newVirtual(t))
}

// A scenario is the use of one tier by a test.
type scenario struct {
	t       *testing.T
	tier    Tier
	api     *ecs.Client
	cluster string
}

var zones = []string{"us-east-1a", "us-east-1b", "us-east-1c"}

// runServiceScenario runs the life of a service and a daemon on a cluster of 6 instances in 3
// zones. Of a t3.medium (2 vCPU, 4 GiB) each web task takes 0.5 vCPU and 0.5 GiB, the daemon
// little.
func runServiceScenario(t *testing.T, tier Tier) {
	s := &scenario{t: t, tier: tier, api: tier.Client(), cluster: "shop"}
	for _, step := range []struct {
		name string
		run  func()
	}{
		{"ClusterOfSixInstancesInThreeZones", s.createCluster},
		{"NineReplicasSpreadOverTheZones", s.createReplicas},
		{"OneDaemonPerInstance", s.createDaemon},
		{"AStoppedTaskIsReplaced", s.crashTask},
		{"TheTasksOfALostInstanceAreReplaced", s.loseInstance},
		// as many as fit: the zone of the lost instance has one instance left
		{"ScalesOut", func() { s.scaleTo(15, 3, 6, 6) }},
		{"SaysWhatIsShortWhenTooManyAreWanted", s.scaleBeyondCapacity},
		{"ScalesIn", func() { s.scaleTo(3, 1, 1, 1) }},
		{"DeletedServicesStopTheirTasks", s.deleteAll},
	} {
		t.Run(step.name, func(t *testing.T) {
			s.t = t
			step.run()
		})
		if t.Failed() {
			t.FailNow()
		}
	}
}

func (s *scenario) createCluster() {
	ctx := s.t.Context()
	made := mustSucceed(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &s.cluster}))(s)
	if *made.Cluster.Status != "ACTIVE" {
		s.t.Errorf("the cluster is %s", *made.Cluster.Status)
	}
	if err := s.tier.AddInstances(s.cluster, 6, "t3.medium", zones); err != nil {
		s.t.Fatal(err)
	}
	s.await("six instances", func() bool { return len(s.instances()) == 6 })
	per := map[string]int{}
	for _, i := range s.instances() {
		per[zoneOf(i)]++
	}
	if diff := cmp.Diff(map[string]int{"us-east-1a": 2, "us-east-1b": 2, "us-east-1c": 2}, per); diff != "" {
		s.t.Error(diff)
	}
	s.registerFamily("web", 512, 512)
	s.registerFamily("agent", 64, 64)
}

// mustSucceed returns the answer of a call that must succeed.
func mustSucceed[T any](out T, err error) func(*scenario) T {
	return func(s *scenario) T {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
		return out
	}
}

func (s *scenario) registerFamily(family string, cpu, memory int32) {
	s.t.Helper()
	mustSucceed(s.api.RegisterTaskDefinition(s.t.Context(), &ecs.RegisterTaskDefinitionInput{
		Family: &family, ContainerDefinitions: []types.ContainerDefinition{{
			Name: &family, Image: aws.String("busybox"), Cpu: cpu, Memory: &memory, Essential: aws.Bool(true),
		}},
	}))(s)
}

func (s *scenario) createReplicas() {
	out := mustSucceed(s.api.CreateService(s.t.Context(), &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: aws.String("web"), TaskDefinition: aws.String("web"),
		DesiredCount: aws.Int32(9),
	}))(s)
	if v := out.Service; *v.Status != "ACTIVE" || v.DesiredCount != 9 || v.RunningCount != 0 ||
		len(v.Deployments) != 1 {
		s.t.Errorf("the answer is %+v", v)
	}
	s.awaitSteady("web", 9)
	s.checkSpread(3, 3, 3)
	s.awaitEvent("web", "has reached a steady state")
}

func (s *scenario) createDaemon() {
	mustSucceed(s.api.CreateService(s.t.Context(), &ecs.CreateServiceInput{
		Cluster: &s.cluster, ServiceName: aws.String("agent"), TaskDefinition: aws.String("agent"),
		SchedulingStrategy: types.SchedulingStrategyDaemon,
	}))(s)
	s.awaitSteady("agent", 6)
	on := map[string]int{}
	for _, task := range s.runningTasks("agent") {
		on[*task.ContainerInstanceArn]++
	}
	if len(on) != 6 {
		s.t.Errorf("daemons run on %v", on)
	}
}

func (s *scenario) crashTask() {
	victim := s.runningTasks("web")[0]
	if err := s.tier.CrashTask(ecsID(s.t, victim), 137); err != nil {
		s.t.Fatal(err)
	}
	s.await("a replacement", func() bool {
		now := s.runningTasks("web")
		return len(now) == 9 && !slices.ContainsFunc(now,
			func(task types.Task) bool { return *task.TaskArn == *victim.TaskArn })
	})
	s.awaitSteady("web", 9)
	s.checkSpread(3, 3, 3)
	out := mustSucceed(s.api.DescribeTasks(s.t.Context(),
		&ecs.DescribeTasksInput{Cluster: &s.cluster, Tasks: []string{*victim.TaskArn}}))(s)
	got := out.Tasks[0]
	if *got.LastStatus != "STOPPED" || got.StopCode != types.TaskStopCodeEssentialContainerExited ||
		*got.Containers[0].ExitCode != 137 {
		s.t.Errorf("the stopped task is %s, %s, %+v", *got.LastStatus, got.StopCode, got.Containers)
	}
}

func (s *scenario) loseInstance() {
	lost := *s.runningTasks("web")[0].ContainerInstanceArn
	if err := s.tier.KillInstance(cluster.LastPart(lost)); err != nil {
		s.t.Fatal(err)
	}
	s.await("its tasks elsewhere", func() bool {
		web, agents := s.runningTasks("web"), s.runningTasks("agent")
		there := func(task types.Task) bool { return *task.ContainerInstanceArn == lost }
		return len(web) == 9 && len(agents) == 5 && !slices.ContainsFunc(append(web, agents...), there)
	})
	s.awaitSteady("web", 9)
	s.checkSpread(3, 3, 3)
	s.awaitSteady("agent", 5)
}

func (s *scenario) scaleTo(n int32, perZone ...int) {
	mustSucceed(s.api.UpdateService(s.t.Context(), &ecs.UpdateServiceInput{Cluster: &s.cluster,
		Service: aws.String("web"), DesiredCount: &n}))(s)
	s.awaitSteady("web", n)
	s.await("the word that it is steady", func() bool {
		return *s.describeService("web").Events[0].Message == "(service web) has reached a steady state."
	})
	s.checkSpread(perZone...)
	s.awaitSteady("agent", 5)
}

// scaleBeyondCapacity wants 60 tasks. Each of the five instances has room for three besides its
// daemon.
func (s *scenario) scaleBeyondCapacity() {
	mustSucceed(s.api.UpdateService(s.t.Context(), &ecs.UpdateServiceInput{
		Cluster: &s.cluster, Service: aws.String("web"), DesiredCount: aws.Int32(60),
	}))(s)
	s.await("a word on what is short", func() bool {
		return len(s.eventsWith("web",
			"was unable to place a task")) > 0
	})
	said := s.eventsWith("web", "was unable to place a task")[0]
	for _, want := range []string{"(service web)", "insufficient", "CPU", "512"} {
		if !strings.Contains(said, want) {
			s.t.Errorf("%q does not say %q", said, want)
		}
	}
	v := s.describeService("web")
	if v.DesiredCount != 60 || v.RunningCount != 15 || v.Deployments[0].DesiredCount != 60 {
		s.t.Errorf("%d of %d tasks run", v.RunningCount, v.DesiredCount)
	}
	s.isSteadyNow("agent", 5)
}

func (s *scenario) deleteAll() {
	ctx := s.t.Context()
	for _, name := range []string{"web", "agent"} {
		out := mustSucceed(s.api.DeleteService(ctx, &ecs.DeleteServiceInput{Cluster: &s.cluster, Service: &name,
			Force: aws.Bool(true)}))(s)
		if *out.Service.Status != "DRAINING" {
			s.t.Errorf("service %s is %s", name, *out.Service.Status)
		}
	}
	listed := mustSucceed(s.api.ListServices(ctx, &ecs.ListServicesInput{Cluster: &s.cluster}))(s)
	if len(listed.ServiceArns) > 0 {
		s.t.Errorf("still listed: %v", listed.ServiceArns)
	}
	s.await("the end of all", func() bool {
		left := mustSucceed(s.api.ListTasks(ctx, &ecs.ListTasksInput{Cluster: &s.cluster}))(s)
		return len(left.TaskArns) == 0 && *s.describeService("web").Status == "INACTIVE" &&
			*s.describeService("agent").Status == "INACTIVE"
	})
	s.await("empty instances", func() bool {
		return !slices.ContainsFunc(s.instances(),
			func(i types.ContainerInstance) bool { return i.RunningTasksCount+i.PendingTasksCount > 0 })
	})
	for _, i := range s.instances() {
		mustSucceed(s.api.DeregisterContainerInstance(ctx,
			&ecs.DeregisterContainerInstanceInput{Cluster: &s.cluster, ContainerInstance: i.ContainerInstanceArn}))(s)
	}
	// Berth may not know yet that the last tasks have stopped.
	s.await("the cluster's end", func() bool {
		gone, err := s.api.DeleteCluster(ctx, &ecs.DeleteClusterInput{Cluster: &s.cluster})
		var busy *types.ClusterContainsTasksException
		if errors.As(err, &busy) {
			return false
		}
		return *mustSucceed(gone, err)(s).Cluster.Status == "INACTIVE"
	})
}

// await waits for a condition and fails the test if it does not come true.
func (s *scenario) await(what string, done func() bool) {
	s.t.Helper()
	if !s.tier.Await(done) {
		s.t.Fatalf("waited too long for %s", what)
	}
}

func (s *scenario) describeService(name string) types.Service {
	s.t.Helper()
	out := mustSucceed(s.api.DescribeServices(s.t.Context(),
		&ecs.DescribeServicesInput{Cluster: &s.cluster, Services: []string{name}}))(s)
	if len(out.Services) != 1 {
		s.t.Fatalf("service %s: %+v", name, out.Failures)
	}
	return out.Services[0]
}

// awaitSteady waits as `aws ecs wait services-stable` does.
func (s *scenario) awaitSteady(name string, n int32) {
	s.t.Helper()
	s.await("service "+name+" to be stable", func() bool {
		v := s.describeService(name)
		return len(v.Deployments) == 1 && v.DesiredCount == n && v.RunningCount == n &&
			len(s.runningTasks(name)) == int(n)
	})
}

// isSteadyNow reports whether awaitSteady would return now.
func (s *scenario) isSteadyNow(name string, n int32) {
	s.t.Helper()
	if v := s.describeService(name); v.RunningCount != n || v.PendingCount != 0 {
		s.t.Errorf("service %s runs %d tasks and has %d pending, want %d", name, v.RunningCount, v.PendingCount, n)
	}
}

// eventsWith returns the service's events that contain the text, newest first.
func (s *scenario) eventsWith(name, text string) (found []string) {
	s.t.Helper()
	for _, e := range s.describeService(name).Events {
		if strings.Contains(*e.Message, text) {
			found = append(found, *e.Message)
		}
	}
	return found
}

func (s *scenario) awaitEvent(name, text string) {
	s.t.Helper()
	s.await("an event with "+text, func() bool { return len(s.eventsWith(name, text)) > 0 })
}

// runningTasks returns the service's running tasks.
func (s *scenario) runningTasks(service string) (running []types.Task) {
	s.t.Helper()
	ctx := s.t.Context()
	listed := mustSucceed(s.api.ListTasks(ctx, &ecs.ListTasksInput{Cluster: &s.cluster, ServiceName: &service}))(s)
	if len(listed.TaskArns) == 0 {
		return nil
	}
	out := mustSucceed(s.api.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &s.cluster,
		Tasks: listed.TaskArns}))(s)
	if len(out.Failures) > 0 {
		s.t.Errorf("listed and not there: %+v", out.Failures)
	}
	for _, task := range out.Tasks {
		if *task.LastStatus == "RUNNING" && *task.DesiredStatus == "RUNNING" {
			running = append(running, task)
		}
	}
	return running
}

// checkSpread checks how many tasks of web run in each zone, in ascending order.
func (s *scenario) checkSpread(want ...int) {
	s.t.Helper()
	got := make([]int, len(zones))
	for _, task := range s.runningTasks("web") {
		got[slices.Index(zones, *task.AvailabilityZone)]++
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Error(diff)
	}
}

func (s *scenario) instances() []types.ContainerInstance {
	s.t.Helper()
	ctx := s.t.Context()
	listed := mustSucceed(s.api.ListContainerInstances(ctx, &ecs.ListContainerInstancesInput{Cluster: &s.cluster}))(s)
	if len(listed.ContainerInstanceArns) == 0 {
		return nil
	}
	out := mustSucceed(s.api.DescribeContainerInstances(ctx, &ecs.DescribeContainerInstancesInput{
		Cluster: &s.cluster, ContainerInstances: listed.ContainerInstanceArns,
	}))(s)
	return out.ContainerInstances
}

func zoneOf(i types.ContainerInstance) string {
	for _, a := range i.Attributes {
		if *a.Name == "ecs.availability-zone" {
			return *a.Value
		}
	}
	return ""
}

// ecsID returns the id by which ECS itself knows a task of Berth's.
func ecsID(t *testing.T, task types.Task) string {
	t.Helper()
	for _, a := range task.Attributes {
		if *a.Name == "berth.ecs-task-arn" {
			return cluster.LastPart(*a.Value)
		}
	}
	t.Fatalf("task %s does not say what ECS calls it", *task.TaskArn)
	return ""
}
