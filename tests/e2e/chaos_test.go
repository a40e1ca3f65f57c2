package e2e

import (
	"net/http"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/cmd/berth/chaos"
	"berth/shared/cluster"
)

// A breakable tier has a simulated AWS that `berth chaos` can break.
type breakable interface {
	Tier
	Chaos() *chaos.Client
}

func (v *virtual) Chaos() *chaos.Client {
	return &chaos.Client{HTTP: inlineClient{v.Server}, URL: "http://127.0.0.1"}
}

func (l *local) Chaos() *chaos.Client {
	return &chaos.Client{HTTP: http.DefaultClient, URL: l.SimulatedAWS}
}

func TestChaosScenario(t *testing.T) { runChaosScenario(t, newVirtual(t)) }

// storm is a cluster of 9 instances in 3 zones with a service of 6 tasks, which have a health
// check, and a daemon.
type storm struct {
	*scenario
	fleet *chaos.Client
}

// runChaosScenario breaks something in every way that `berth chaos` knows, one after the other.
// Each time every service must return to its desired count.
func runChaosScenario(t *testing.T, tier breakable) {
	s := &storm{&scenario{t: t, tier: tier, api: tier.Client(), cluster: "storm"}, tier.Chaos()}
	steps := map[string]func(kind string){
		chaos.Kill: s.loseMachines, chaos.ZoneOut: s.loseMachines,
		chaos.Exit: s.loseTask, chaos.Unhealthy: s.loseTask,
		chaos.Disconnect: s.healMachine, chaos.Crash: s.healMachine,
		chaos.Slow: s.startSlowly, chaos.Heal: s.healNothing,
	}
	s.createServices()
	for _, kind := range chaos.Kinds {
		step := steps[kind.Name]
		if step == nil {
			t.Fatalf("no step for %s", kind.Name)
		}
		t.Run(kind.Name, func(t *testing.T) {
			s.t = t
			step(kind.Name)
			s.awaitAll()
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	s.t = t
	s.deleteAll()
}

func (s *storm) createServices() {
	ctx := s.t.Context()
	mustSucceed(s.api.CreateCluster(ctx, &ecs.CreateClusterInput{ClusterName: &s.cluster}))(s.scenario)
	if err := s.tier.AddInstances(s.cluster, 9, "t3.medium", zones); err != nil {
		s.t.Fatal(err)
	}
	s.await("nine instances", func() bool { return len(s.instances()) == 9 })
	s.registerFamily("storm-agent", 64, 64)
	mustSucceed(s.api.RegisterTaskDefinition(ctx, &ecs.RegisterTaskDefinitionInput{
		Family: aws.String("storm-web"), ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("web"), Image: aws.String("busybox"), Cpu: 256, Memory: aws.Int32(256),
			HealthCheck: &types.HealthCheck{Command: []string{"CMD", "true"}, Interval: aws.Int32(5)},
		}},
	}))(s.scenario)
	mustSucceed(s.api.CreateService(ctx, &ecs.CreateServiceInput{Cluster: &s.cluster, ServiceName: aws.String("web"),
		TaskDefinition: aws.String("storm-web"), DesiredCount: aws.Int32(6)}))(s.scenario)
	mustSucceed(s.api.CreateService(ctx, &ecs.CreateServiceInput{Cluster: &s.cluster,
		ServiceName: aws.String("agent"), TaskDefinition: aws.String("storm-agent"),
		SchedulingStrategy: types.SchedulingStrategyDaemon}))(s.scenario)
	s.awaitAll()
}

// awaitAll waits until both services are at their desired counts, on machines that work.
func (s *storm) awaitAll() {
	s.t.Helper()
	n := 0
	for _, i := range s.instances() {
		if i.AgentConnected {
			n++
		}
	}
	s.awaitSteady("web", 6)
	s.awaitSteady("agent", int32(n)) //nolint:gosec // 9 at most
	s.await("healthy tasks", func() bool {
		return !slices.ContainsFunc(s.runningTasks("web"),
			func(task types.Task) bool { return task.HealthStatus != types.HealthStatusHealthy })
	})
}

// breaks breaks something of a kind, and returns what. kinds of tasks take one of web.
func (s *storm) breaks(kind, target string) *chaos.Result {
	s.t.Helper()
	k, _ := chaos.FindKind(kind)
	r := chaos.Request{Kind: k, Cluster: s.cluster, Target: target, ExitCode: 137, Seconds: 4}
	if k.Subject == chaos.TaskSubject {
		for _, task := range s.runningTasks("web") {
			r.Among = append(r.Among, *task.TaskArn)
		}
	}
	out, err := s.fleet.Break(s.t.Context(), r)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// loseMachines terminates machines. The services run on the others.
func (s *storm) loseMachines(kind string) {
	before := len(s.instances())
	// One that has tasks of web, and its zone.
	on := cluster.LastPart(*s.runningTasks("web")[0].ContainerInstanceArn)
	target := on
	if kind == chaos.ZoneOut {
		target = *s.runningTasks("web")[0].AvailabilityZone
	}
	gone := s.breaks(kind, target).Instances
	s.await("the end of its instances", func() bool { return len(s.instances()) == before-len(gone) })
	s.await("all tasks elsewhere", func() bool {
		return len(s.runningTasks("web")) == 6 && !slices.ContainsFunc(s.runningTasks("web"), func(t types.Task) bool {
			return cluster.LastPart(*t.ContainerInstanceArn) == on
		})
	})
}

// loseTask makes a task exit or fail its health check. Another replaces it.
func (s *storm) loseTask(kind string) {
	lost := s.breaks(kind, "").Tasks[0].ID
	s.await("a replacement", func() bool {
		now := s.runningTasks("web")
		return len(now) == 6 && !slices.ContainsFunc(now,
			func(t types.Task) bool { return cluster.LastPart(*t.TaskArn) == lost })
	})
}

// healMachine takes a machine away from ECS until it is healed. The tasks of one that has crashed
// are replaced, those of one that was disconnected go on.
func (s *storm) healMachine(kind string) {
	before := s.runningTasks("web")
	on := cluster.LastPart(*before[0].ContainerInstanceArn)
	s.breaks(kind, on)
	isConnected := func() bool {
		return !slices.ContainsFunc(s.instances(), func(i types.ContainerInstance) bool { return !i.AgentConnected })
	}
	s.await("a disconnected agent", func() bool { return !isConnected() })
	s.breaks(chaos.Heal, on)
	s.await("its agent", isConnected)
	if kind == chaos.Disconnect {
		return
	}
	s.await("a replacement", func() bool {
		return len(s.runningTasks("web")) == 6 && !slices.ContainsFunc(s.runningTasks("web"),
			func(t types.Task) bool { return *t.TaskArn == *before[0].TaskArn })
	})
}

// startSlowly makes every machine slow. A task that exits then is replaced all the same.
func (s *storm) startSlowly(kind string) {
	for _, i := range s.instances() {
		s.breaks(kind, *i.ContainerInstanceArn)
	}
	s.loseTask(chaos.Exit)
	if healed := len(s.breaks(chaos.Heal, "").Instances); healed != len(s.instances()) {
		s.t.Errorf("%d machines were slow of %d", healed, len(s.instances()))
	}
}

func (s *storm) healNothing(kind string) {
	if out := s.breaks(kind, ""); len(out.Instances)+len(out.Tasks) > 0 {
		s.t.Errorf("it healed %+v, and all is well", out)
	}
}
