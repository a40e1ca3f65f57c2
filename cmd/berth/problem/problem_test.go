package problem_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/problem"
	"berth/shared/cluster"
	"berth/shared/operation"
)

// situation is a cluster in which one thing is wrong.
type situation struct {
	name    string
	prepare func(w *world)
	kind    problem.Kind
	what    string
	why     string // a part of it
	command string // a part of one of the commands
}

// Each situation has one problem, whose sentence, cause and remedy are these.
var situations = []situation{
	{"NoRoomByOneResource", func(w *world) {
		w.instance(1, func(i *cluster.Instance) { i.Registered.Memory = 700 })
		w.service("web", 3)
		w.task("web", 1, "n-1")
	}, problem.ServiceShort, "Service web runs 1 of 3 tasks: no instance can take 2 more.",
		"0 of 1 instance can take one: 1 insufficient memory (needs 512 MiB, best free 188).",
		"aws ecs update-service --cluster prod --service web --desired-count 1"},
	{"NoRoomForAPort", func(w *world) {
		w.instance(1)
		w.service("web", 2)
		port := []cluster.Port{{Number: 80, Protocol: "tcp"}}
		w.rows[2].(*cluster.TaskDefinition).Ports = port
		w.task("web", 1, "n-1", func(t *cluster.Task) { t.Ports = port })
	}, problem.ServiceShort, "Service web runs 1 of 2 tasks: no instance can take 1 more.",
		"0 of 1 instance can take one: 1 port in use (80/tcp).",
		"aws ecs update-service --cluster prod --service web --desired-count 1"},
	{"AnApplicationOnItsMaximumOfNodes", func(w *world) {
		w.instance(1)
		w.instance(2)
		w.application("web", 5, cluster.Application{MaximumNodes: 1})
		for k := range 4 {
			w.task("web", k+1, "n-1")
		}
	}, problem.ServiceShort, "Service web runs 4 of 5 tasks: no instance can take 1 more.",
		"1 application on its maximum number of nodes (shop: 1 of 1), 1 insufficient CPU (needs 256 units, best free 0). " +
			"Application shop has reached its maximumNodes.",
		"aws ecs update-service --cluster prod --service web --desired-count 4"},
	{"AnApplicationWithItsCapacityOnTheNode", func(w *world) {
		w.instance(1)
		w.application("web", 2, cluster.Application{
			Metrics: map[string]cluster.ApplicationMetric{"connections": {NodeCapacity: 15}}})
		w.task("web", 1, "n-1")
	}, problem.ServiceShort, "Service web runs 1 of 2 tasks: no instance can take 1 more.",
		"1 insufficient application capacity on the node (shop, connections: needs 10, best free 5). " +
			"Application shop has reached its maximumNodeCapacity.",
		"aws ecs update-service --cluster prod --service web --desired-count 1"},
	{"AnApplicationWithItsCapacityInAll", func(w *world) {
		w.instance(1)
		w.application("web", 3, cluster.Application{
			Metrics: map[string]cluster.ApplicationMetric{"connections": {TotalCapacity: 25}}})
		w.task("web", 1, "n-1")
		w.task("web", 2, "n-1")
	}, problem.ServiceShort, "Service web runs 2 of 3 tasks: no instance can take 1 more.",
		"1 insufficient application capacity in all (shop, connections: needs 10, best free 5). " +
			"Application shop has reached its totalApplicationCapacity.",
		"berth explain service web --cluster prod"},
	{"AConstraintWithATypo", func(w *world) {
		w.instance(1)
		w.service("web", 1, func(s *cluster.Service) {
			s.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf,
				Expression: "attribute:rak == r1"}}
		})
		w.service("other", 0)
	}, problem.ServiceShort, "Service web runs 0 of 1 task: no instance can take 1 more.",
		`No instance has the attribute "rak"; the nearest attribute is "rack".`,
		"aws ecs update-service --cluster prod --service web --placement-constraints " +
			"'type=memberOf,expression=attribute:rack == r1'"},
	{"AFullFaultDomain", func(w *world) {
		for k, domain := range []string{"fd:/a", "fd:/a", "fd:/b"} {
			w.instance(k+1, withAttributes(map[string]string{cluster.AttributeFaultDomain: domain}))
		}
		w.service("web", 3, func(s *cluster.Service) { s.Rules.DomainPolicy = cluster.PolicyNonpacking })
		w.service("other", 0)
		w.task("web", 1, "n-1")
		w.task("web", 2, "n-3")
	}, problem.ServiceShort, "Service web runs 2 of 3 tasks: no instance can take 1 more.", "fault domain full",
		"berth whatif --service web --domain-policy none --cluster prod"},
	{"AThrottledService", func(w *world) {
		w.instance(1)
		w.service("web", 3)
		w.task("web", 1, "n-1")
		w.rows = append(w.rows, &cluster.Throttle{Head: w.head(), Owner: "web-short", Service: "web",
			Revisions: map[string]cluster.Backoff{"ecs-svc/2": {Step: 4, Failures: 7, Since: noon,
				NextAttemptAt: noon.Add(20 * time.Minute), Reason: "CannotPullContainerError: no such image"}}})
	}, problem.ServiceThrottled, "Service web runs 1 of 3 tasks: its starts are throttled.",
		"4 attempts failed, one after the other: 7 tasks of web:1 never ran. The next attempt is at 2026-11-21T12:20:00Z. " +
			"Last failure: CannotPullContainerError: no such image.",
		"aws ecs list-tasks --cluster prod --service-name web --desired-status STOPPED"},
	{"ABreakerThatRolledBack", func(w *world) {
		w.instance(1)
		w.service("web", 1, func(s *cluster.Service) {
			s.Release = &cluster.Release{Status: cluster.DeploymentRollbackSuccessful, Target: "ecs-svc/3",
				ReleaseResult: cluster.ReleaseResult{Failures: 3, Threshold: 3, Tripped: true, RollbackTo: "ecs-svc/2",
					RollbackAt: noon}}
		})
		w.task("web", 1, "n-1")
	}, problem.DeploymentFailed, "The deployment of ECS deployment ecs-svc/3 to service web was rolled back to web:1.",
		"The circuit breaker counted 3 failed tasks, and its threshold is 3.", "berth events --service web"},
	{"ADrainBlockedByAProtectedTask", func(w *world) {
		w.instance(1, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
		w.instance(2)
		w.service("web", 1)
		w.task("web", 1, "n-1")
		w.rows = append(w.rows, &cluster.Protection{Head: w.head(), Owner: "web-short", Task: "t-1",
			Until: noon.Add(time.Hour)})
	}, problem.DrainWaits, "The drain of instance n-1 waits for 1 task.",
		"Task t-1 of service web is protected until 2026-11-21T13:00:00Z.",
		"aws ecs update-task-protection --cluster prod --no-protection-enabled --tasks t-1"},
	{"AnInstanceNotScaledIn", func(w *world) {
		for k := range 3 {
			w.instance(k + 1)
		}
		w.service("web", 1)
		w.task("web", 1, "n-1")
		k := w.capacity(func(_ *cluster.CapacityProvider, g *cluster.AutoScalingGroup) {
			g.Instances[1].Protected, g.Instances[2].Protected = true, true
		})
		k.Histories["spot"] = &cluster.ScalingHistory{Provider: "spot", LowMinutes: 20,
			LastLowMinute: tenPast.Add(-time.Minute)}
	}, problem.NoScaleIn, "Auto Scaling group group does not scale in.",
		"1 of its 3 instances are needed for a target of 100 %. ",
		"aws autoscaling set-instance-protection --no-protected-from-scale-in --auto-scaling-group-name group"},
	{"AnUpgradeBlocked", func(w *world) {
		w.instance(1, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
		w.instance(2)
		w.service("web", 1)
		w.task("", 1, "n-1", func(t *cluster.Task) { t.Service, t.TaskDefinition = "", "batch:1" })
		w.task("web", 2, "n-2")
		k := w.capacity()
		k.Providers = map[string]*cluster.CapacityProvider{}
		k.NodeGroups["workers"] = &cluster.NodeGroup{Name: "workers", AutoScalingGroup: "group", Update: "u-1",
			Status: cluster.NodeGroupUpdating}
		k.Updates["workers"] = &cluster.Update{NodeGroup: "workers", ID: "u-1", Status: cluster.UpdateInProgress,
			UpdateProgress: cluster.UpdateProgress{Phase: cluster.PhaseUpgrade, WaitingFor: "tasks to leave node i-1",
				WaitingSince: noon},
			NodeReplacement: cluster.NodeReplacement{Removals: []cluster.NodeRemoval{{Instance: "i-1", Node: "n-1",
				Step: cluster.StepDrain, StepSince: noon, DrainingAt: noon}}}}
	}, problem.UpgradeWaits, `The upgrade of node group workers waits in its phase "upgrade".`,
		"It waits for tasks to leave node i-1. Standalone task t-1 (batch:1) belongs to no service, so nothing replaces it.",
		"aws ecs stop-task --cluster prod --task t-1"},
	{"ATargetGroupThatRefuses", func(w *world) {
		w.instance(1)
		w.service("web", 1)
		w.task("web", 1, "n-1")
		w.rows = append(w.rows, &cluster.Target{Head: w.head(), Task: "t-1", Owner: "web-short", Service: "web",
			Registrations: []cluster.Registration{{
				ARN:   "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/blue/1",
				State: cluster.RegistrationFailed, Reason: "the target group does not exist"}}})
	}, problem.TargetRefused, "Target group blue refuses 1 task of service web.", "The target group does not exist.",
		"aws elbv2 describe-target-groups --target-group-arns arn:aws:elasticloadbalancing"},
	{"AClassicLoadBalancerThatRefuses", func(w *world) {
		w.instance(1)
		w.service("web", 1)
		w.task("web", 1, "n-1")
		w.rows = append(w.rows, classicTarget(w, cluster.Registration{
			State: cluster.RegistrationFailed, Reason: "there is no ACTIVE Load Balancer named 'front'"}))
	}, problem.TargetRefused, "Load balancer front refuses 1 task of service web.",
		"There is no ACTIVE Load Balancer named 'front'.",
		"aws elb describe-load-balancers --load-balancer-names front"},
	{"AnInstanceOfAClassicLoadBalancerThatFails", func(w *world) {
		w.instance(1)
		w.service("web", 1)
		w.task("web", 1, "n-1")
		w.rows = append(w.rows, classicTarget(w, cluster.Registration{
			State: cluster.Registered, Health: cluster.Unhealthy, Reason: "Instance has failed its checks"}))
	}, problem.TasksUnhealthy, "Service web has 1 unhealthy of 1 RUNNING task.",
		"Load balancer front says: Instance has failed its checks.", "events --service web"},
}

// classicTarget returns the row of the first task of web with a Classic Load Balancer.
func classicTarget(w *world, r cluster.Registration) *cluster.Target {
	r.ARN = cluster.ClassicBalancer("front")
	return &cluster.Target{Head: w.head(), Task: "t-1", Owner: "web-short", Service: "web",
		Registrations: []cluster.Registration{r}}
}

func TestSituations(t *testing.T) {
	for _, c := range situations {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.prepare(w)
			all := w.find(t)
			at := slices.IndexFunc(all, func(p problem.Problem) bool { return p.Kind == c.kind })
			if at < 0 {
				t.Fatalf("no %q in %+v", c.kind, all)
			}
			p := all[at]
			if p.What != c.what {
				t.Errorf("what: %s, want %s", p.What, c.what)
			}
			if !strings.Contains(p.Why, c.why) {
				t.Errorf("why: %s, want %s", p.Why, c.why)
			}
			if !slices.ContainsFunc(p.Help, func(h problem.Help) bool {
				return strings.Contains(h.Command,
					c.command)
			}) {
				t.Errorf("no command has %q: %+v", c.command, p.Help)
			}
			// A drain is reported with the upgrade that waits for it.
			allowed := 1
			if c.kind == problem.UpgradeWaits {
				allowed = 2
			}
			if len(all) > allowed {
				t.Errorf("more problems than were prepared: %+v", all)
			}
			r := problem.NewReport(w.input)
			if out := text(t, r); !strings.Contains(out, c.what) || !strings.Contains(out, p.Help[0].Command) {
				t.Errorf("not in the report:\n%s", out)
			}
		})
	}
}

func text(t *testing.T, r *problem.Report) string {
	t.Helper()
	var out strings.Builder
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A cluster in which all is well has no problem, whatever its parts.
func TestHealthy(t *testing.T) {
	w := newWorld()
	w.instance(1)
	w.instance(2)
	w.service("web", 2)
	w.task("web", 1, "n-1")
	w.task("web", 2, "n-2")
	w.capacity()
	w.input.DeadLetters = []operation.DeadLetters{{Queue: "dead"}}
	if got := w.find(t); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	r := problem.NewReport(w.input)
	if got, want := text(t, r), "Nothing is wrong in cluster prod (2 instances, 1 service, 2 tasks).\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Further situations, each with its sentence.
func TestFurtherSituations(t *testing.T) {
	for _, c := range []situation{
		{"AFailedDeployment", func(w *world) {
			w.instance(1)
			w.service("web", 2, func(s *cluster.Service) {
				s.Deployment.State, s.Deployment.Reason = cluster.RolloutFailed, "tasks failed to start"
			})
			w.task("web", 1, "n-1")
			w.task("web", 2, "n-1", func(t *cluster.Task) {
				t.Last, t.Reason, t.Stopped = cluster.TaskStopped, "exit code 1", cluster.At(noon)
			})
		}, problem.DeploymentFailed, "The deployment of web:1 to service web failed, and starts no more tasks.",
			"Tasks failed to start. Last failure: Exit code 1.",
			"aws ecs update-service --cluster prod --service web --task-definition web"},
		{"AStuckDeployment", func(w *world) {
			w.instance(1)
			w.service("web", 1, func(s *cluster.Service) {
				s.MaxPercent, s.Deployment.State = 100, cluster.RolloutInProgress
				s.EmittedKeys = map[string]time.Time{"stuck": noon}
			})
			w.task("web", 1, "n-1")
		}, problem.DeploymentStuck, "The deployment of web:1 to service web is stuck: its percentages allow no step.",
			"minimumHealthyPercent 100 keeps at least 1 of its 1 task, and maximumPercent 100 allows at most 1. " +
				"It has 1 RUNNING task.",
			"minimumHealthyPercent=50,maximumPercent=200"},
		{"AStandaloneTaskThatWaits", func(w *world) {
			w.instance(1)
			w.task("batch", 1, "", func(t *cluster.Task) {
				t.Service, t.Last, t.Needs = "", "", cluster.Resources{CPU: 4096 * cluster.CPUUnit}
			})
		}, problem.TaskUnplaced, "1 standalone task of batch:1 has no instance.", "insufficient CPU",
			"aws ecs stop-task --cluster prod --task t-1"},
		{"ADisconnectedInstance", func(w *world) {
			w.instance(1, func(i *cluster.Instance) { i.AgentConnected, i.DisconnectedAt = false, cluster.At(noon) })
			w.service("web", 0)
		}, problem.InstanceLost, "The agent of 1 instance is not connected.", "n-1: no new tasks start there, and none run there.",
			"berth explain instance n-1 --cluster prod"},
		{"AUsersDrain", func(w *world) {
			w.instance(1, func(i *cluster.Instance) {
				i.Status, i.DrainingAt = cluster.InstanceDraining, cluster.At(noon.Add(-time.Hour))
			})
			w.task("batch", 1, "n-1", func(t *cluster.Task) { t.Service, t.Owner = "", "" })
		}, problem.DrainWaits, "The drain of instance n-1 waits for 1 task.", "belongs to no service, so nothing replaces it",
			"aws ecs stop-task --cluster prod --task t-1"},
		{"AnUnusedInstance", func(w *world) {
			w.instance(1)
			w.instance(2, withAttributes(map[string]string{"rack": "r2"}))
			w.service("web", 1, func(s *cluster.Service) {
				s.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf,
					Expression: "attribute:rack == r1"}}
			})
			w.task("web", 1, "n-1")
		}, problem.InstanceUnused, "No service can use 1 instance.",
			"n-2: It does not meet the requirements of any service.", "berth explain instance n-2"},
		{"DeadLetters", func(w *world) {
			w.input.DeadLetters = []operation.DeadLetters{{Queue: "PlacementLetters", Messages: 3,
				URL: "https://sqs/placement-dead"}}
		},
			problem.DeadLetters, "Dead-letter queue PlacementLetters has 3 messages.", "A function failed on each",
			"aws sqs receive-message --queue-url https://sqs/placement-dead"},
		{"AFailedUpgrade", func(w *world) {
			k := w.capacity()
			k.Providers = map[string]*cluster.CapacityProvider{}
			k.NodeGroups["workers"] = &cluster.NodeGroup{Name: "workers", Update: "u-1"}
			k.Updates["workers"] = &cluster.Update{NodeGroup: "workers", ID: "u-1", Status: cluster.UpdateFailed,
				UpdateSpec: cluster.UpdateSpec{Target: cluster.UpdateTarget{Image: "ami-2", ReleaseVersion: "ami-2"}},
				Errors: []cluster.UpdateError{{Code: cluster.PodEvictionFailure,
					Message: "tasks did not leave node i-1"}}}
		}, problem.UpgradeFailed, "Update u-1 of node group workers failed.",
			"PodEvictionFailure: tasks did not leave node i-1.", "berth upgrade workers --release-version ami-2 --dry-run --cluster prod"},
		{"AFailedUpdateOfSizes", func(w *world) {
			k := w.capacity()
			k.Providers = map[string]*cluster.CapacityProvider{}
			k.NodeGroups["workers"] = &cluster.NodeGroup{Name: "workers"}
			k.FailedConfigs = map[string]*cluster.Update{"workers": {NodeGroup: "workers", ID: "u-2",
				Type: cluster.UpdateConfiguration, Status: cluster.UpdateFailed,
				Errors: []cluster.UpdateError{{Code: "InvalidParameter", Message: "sizes contradict"}}}}
		}, problem.UpgradeFailed, "Update u-2 of node group workers failed.",
			"InvalidParameter: sizes contradict.", "--nodegroup-name workers --update-id u-2"},
		{"AGroupAtItsMaximum", func(w *world) {
			w.instance(1)
			w.service("web", 6, func(s *cluster.Service) {
				s.Providers = []cluster.ProviderShare{{Provider: "spot",
					Weight: 1}}
			})
			for k := range 4 {
				w.task("web", k+1, "n-1")
			}
			w.task("web", 5, "", func(t *cluster.Task) { t.Last = "" })
			w.capacity(func(_ *cluster.CapacityProvider, g *cluster.AutoScalingGroup) { g.Max = 1 })
		}, problem.ServiceShort, "Service web runs 4 of 6 tasks: no instance can take 1 more.",
			"but the group is at its maximum of 1.",
			"aws autoscaling update-auto-scaling-group --auto-scaling-group-name group --max-size 2"},
	} {
		t.Run(c.name, c.check)
	}
}

// check finds the problem with its sentence, cause and remedy among those of the situation.
func (c *situation) check(t *testing.T) {
	w := newWorld()
	c.prepare(w)
	all := w.find(t)
	at := slices.IndexFunc(all, func(p problem.Problem) bool { return p.Kind == c.kind && p.What == c.what })
	if at < 0 {
		t.Fatalf("no %q in %+v", c.what, all)
	}
	if c.kind == problem.DrainWaits && !all[at].Since.Equal(noon.Add(-time.Hour)) {
		t.Errorf("since %s", all[at].Since)
	}
	if !strings.Contains(all[at].Why, c.why) {
		t.Errorf("why: %s, want %s", all[at].Why, c.why)
	}
	if !slices.ContainsFunc(all[at].Help, func(h problem.Help) bool { return strings.Contains(h.Command, c.command) }) {
		t.Errorf("no command has %q: %+v", c.command, all[at].Help)
	}
}

// Problems come in the order of their kinds, and within a kind the largest first.
func TestRanking(t *testing.T) {
	w := newWorld()
	w.instance(1, func(i *cluster.Instance) { i.AgentConnected = false })
	w.service("one", 1)
	w.service("two", 2)
	w.input.DeadLetters = []operation.DeadLetters{{Queue: "dead", Messages: 1}}
	var got []string
	for _, p := range w.find(t) {
		got = append(got, string(p.Kind)+" "+p.Name)
	}
	want := []string{"service below desired count two", "service below desired count one", "instance disconnected n-1",
		"dead letters dead"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Nothing is changed by looking.
func TestFindChangesNothing(t *testing.T) {
	for _, c := range situations {
		w := newWorld()
		c.prepare(w)
		w.input.Snapshot = w.snapshot(t)
		first := text(t, problem.NewReport(w.input))
		if second := text(t, problem.NewReport(w.input)); first != second {
			t.Errorf("%s: %s, then %s", c.name, first, second)
		}
	}
}
