package problem_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/problem"
	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/handler"
	"berth/shared/service"
)

// onSpot is a world with an instance full of tasks of web, which asks for capacity provider spot.
func onSpot(change ...func(*cluster.CapacityProvider, *cluster.AutoScalingGroup)) *world {
	w := newWorld()
	w.instance(1)
	w.service("web", 6, func(s *cluster.Service) {
		s.Providers = []cluster.ProviderShare{{Provider: "spot", Weight: 1}}
	})
	for k := range 4 {
		w.task("web", k+1, "n-1")
	}
	w.capacity(change...)
	return w
}

// Situations that were found by trying them on a running Berth: each has its cause and a remedy that
// ends it.
func TestSituationsFoundByTrying(t *testing.T) {
	copied := func(from *world) func(*world) { return func(w *world) { *w = *from } }
	full := func(_ *cluster.CapacityProvider, g *cluster.AutoScalingGroup) { g.Max, g.Desired = 2, 2 }
	never := onSpot(full, func(_ *cluster.CapacityProvider, g *cluster.AutoScalingGroup) {
		g.Instances = append(g.Instances, cluster.GroupInstance{ID: "i-2", Zone: "a", Lifecycle: "InService"})
	})
	never.input.Capacity.Histories["spot"] = &cluster.ScalingHistory{Provider: "spot",
		UnregisteredSince: map[string]time.Time{"i-2": noon}}
	quota := onSpot(full)
	quota.input.Capacity.Failures = map[string][]cluster.FailedLaunch{"group": {
		{At: tenPast, Code: "VcpuLimitExceeded", Message: "You have requested more vCPU capacity"}}}
	large := onSpot()
	large.services["web"].Desired = 4
	large.service("huge", 2, func(s *cluster.Service) {
		s.Providers = []cluster.ProviderShare{{Provider: "spot", Weight: 1}}
	})
	large.rows[len(large.rows)-1].(*cluster.TaskDefinition).Needs.Memory = 9000
	large.task("huge", 9, "", func(t *cluster.Task) { t.Last, t.Needs.Memory = "", 9000 })
	gone := onSpot()
	gone.input.Capacity.Providers["two"] = &cluster.CapacityProvider{Name: "two", Group: "other"}
	gone.input.Capacity.Groups = map[string]*cluster.AutoScalingGroup{"other": {Name: "other"}}
	limit := onSpot()
	limit.services["web"].EmittedKeys = map[string]time.Time{decide.ProvisioningLimitKey: noon}
	limit.service("other", 0)
	for k := range 3 {
		limit.task("other", 10+k, "", func(t *cluster.Task) { t.Last = "" })
	}
	for _, c := range []situation{
		{"AGroupAtItsMaximumWhoseInstancesNeverRegister", copied(never), problem.ServiceShort,
			"Service web runs 4 of 6 tasks: no instance can take 2 more.",
			"1 of its 2 instances never registered with cluster prod.",
			"aws ec2 get-console-output --instance-id i-2 --output text"},
		{"AQuotaOfEC2", copied(quota), problem.ServiceShort, "Service web runs 4 of 6 tasks: no instance can take 2 more.",
			"1 launch failed within the last hour: VcpuLimitExceeded",
			"aws service-quotas get-service-quota --service-code ec2 --quota-code L-1216C47A"},
		{"AGroupThatIsGone", copied(gone), problem.ProviderFailed, "Capacity provider spot has no group.",
			"Auto Scaling group group does not exist, or cannot be read.",
			"aws autoscaling describe-auto-scaling-groups --query 'AutoScalingGroups[].AutoScalingGroupName'"},
		{"AGroupThatIsGoneBesideAnother", copied(gone), problem.ProviderFailed, "Capacity provider spot has no group.",
			"Auto Scaling group group does not exist, or cannot be read.",
			"aws ecs update-service --cluster prod --service web --force-new-deployment " +
				"--capacity-provider-strategy capacityProvider=two,weight=1"},
		{"ManagedScalingIsOff", copied(onSpot(func(p *cluster.CapacityProvider, _ *cluster.AutoScalingGroup) {
			p.Scaling.Enabled = false
		})), problem.ServiceShort, "Service web runs 4 of 6 tasks: no instance can take 2 more.",
			"Managed scaling of spot is off, so Auto Scaling group group keeps its desired capacity of 1.",
			"aws ecs update-capacity-provider --name spot --auto-scaling-group-provider 'managedScaling={status=ENABLED}'"},
		{"ATaskLargerThanTheGroupsInstances", copied(large), problem.ServiceShort,
			"Service huge runs 0 of 2 tasks: no instance can take 1 more.",
			"Managed scaling of spot: The group has the right size: 1 of 1 running instances are needed, the target is 100 %; " +
				"1 task of service huge: ignored, because a task does not fit on any of the group's instance types, not even " +
				"the largest: insufficient memory (needs 9000 MiB, best free 2048).",
			"aws autoscaling describe-auto-scaling-groups --auto-scaling-group-names group --query"},
		{"AsManyTasksWaitAsMay", copied(limit), problem.ServiceShort,
			"Service web runs 4 of 6 tasks: no instance can take 2 more.",
			"3 tasks wait for an instance in the cluster, and no more may (parameter ProvisioningLimit): 3 of service other.",
			"aws ecs update-service --cluster prod --service web --desired-count 4"},
		{"TasksThatLeaveAndFindNoRoom", func(w *world) {
			w.instance(1, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
			w.service("web", 2)
			w.task("web", 1, "n-1")
			w.services["web"].Blocked = &cluster.Diagnosis{Evaluated: 1, Unplaced: 1, Rejected: []cluster.Rejection{
				{Filter: cluster.FilterStatus, Count: 1}}}
		}, problem.ServiceShort, "Service web runs 1 of 2 tasks, 1 on a draining instance: no instance can take 1 more.",
			"1 not active", "--status ACTIVE --container-instances n-1"},
		{"TasksThatStart", func(w *world) {
			w.instance(1)
			w.instance(2, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
			w.service("web", 6)
			for k, on := range []string{"n-1", "n-1", "n-1", "n-1", "n-2"} {
				w.task("web", k+1, on, func(t *cluster.Task) { t.Last = cluster.TaskPending })
			}
		}, problem.ServiceShort, "Service web runs 0 of 6 tasks, 5 are starting: no instance can take 1 more.",
			"1 insufficient CPU (needs 256 units, best free 0)", // those on n-1 would stop if the service wanted fewer
			"aws ecs update-service --cluster prod --service web --desired-count 4"},
		{"AnInstanceOutsideEveryProvider", func(w *world) {
			*w = *onSpot(func(p *cluster.CapacityProvider, _ *cluster.AutoScalingGroup) { p.Scaling.Enabled = false })
			w.instance(2)
			w.instance(3)
		}, problem.InstanceUnused, "No service can use 2 instances.",
			"n-2, n-3: They do not meet the requirements of any service: every service asks for a capacity provider.",
			"berth explain instance n-2"},
		{"StartsThatECSRefuses", func(w *world) {
			w.instance(1)
			w.service("web", 2)
			w.task("web", 1, "n-1")
			w.task("web", 2, "n-1", func(t *cluster.Task) {
				t.Revision, t.Last = "ecs-svc/2", cluster.TaskStopped
				t.StopCode, t.Stopped = "TaskFailedToStart", cluster.At(tenPast.Add(-time.Second))
				t.CreatedAt = cluster.At(tenPast.Add(-2 * time.Second))
				t.Reason = "TaskFailedToStart: ClientException: TaskDefinition is inactive"
			})
		}, problem.ServiceThrottled, "Service web runs 1 of 2 tasks: its starts are throttled.",
			"1 attempt failed: 1 task of web:1 never ran.",
			"update-service --cluster prod --service web --task-definition web"},
		{"ProtectedTasksKeepAServiceFromScalingIn", func(w *world) {
			w.instance(1)
			w.service("web", 1)
			for k := range 3 {
				w.task("web", k+1, "n-1")
			}
			for k := range 2 {
				w.rows = append(w.rows, &cluster.Protection{Head: w.head(), Owner: "web-short",
					Task: fmt.Sprintf("t-%d", k+1), Until: noon.Add(time.Duration(k+1) * time.Hour)})
			}
		}, problem.ScaleInWaits, "Service web runs 3 of 1 task: it cannot scale in.",
			"2 tasks are protected, the last until 2026-11-21T14:00:00Z.",
			"aws ecs update-task-protection --cluster prod --no-protection-enabled --tasks t-1 t-2"},
		{"AConstraintWithAList", func(w *world) {
			w.instance(1)
			w.service("web", 1, func(s *cluster.Service) {
				s.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf,
					Expression: "attribute:rak in [r1, r2]"}}
			})
		}, problem.ServiceShort, "Service web runs 0 of 1 task: no instance can take 1 more.",
			`the nearest attribute is "rack".`,
			`--placement-constraints 'type=memberOf,expression="attribute:rack in [r1, r2]"'`},
		{"AGroupThatIsNotBerths", copied(onSpot(func(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup) {
			p.UpdateStatus, p.UpdateReason = cluster.ProviderUpdateFailed, handler.OwnershipProblem(g, "berth")
			p.Untagged = "berth"
		})), problem.ProviderFailed, "Capacity provider spot could not be changed.",
			"The Auto Scaling group group does not have the tag berth:installation=berth, so Berth only reads it.",
			"aws autoscaling create-or-update-tags --tags ResourceId=group,ResourceType=auto-scaling-group," +
				"Key=berth:installation,Value=berth,PropagateAtLaunch=false"},
		{"AGroupThatIsNotBerthsOfAFailedCreation", copied(onSpot(func(p *cluster.CapacityProvider, _ *cluster.AutoScalingGroup) {
			p.UpdateStatus, p.GroupProblem, p.Untagged = cluster.ProviderCreateFailed, "no tag", "berth"
		})), problem.ProviderFailed, "Capacity provider spot cannot scale its group.",
			"The Auto Scaling group group does not have the tag berth:installation=berth, so Berth only reads it.",
			"aws ecs update-capacity-provider --name spot --auto-scaling-group-provider 'managedScaling={status=ENABLED}'"},
		{"ADeploymentWithoutRoom", func(w *world) {
			w.instance(1)
			w.service("web", 4, func(s *cluster.Service) {
				s.Deployment.State, s.Older = cluster.RolloutInProgress, []cluster.Deployment{{Revision: cluster.Revision{
					ID: "ecs-svc/1", TaskDefinition: "web:0"}}}
				s.Blocked = &cluster.Diagnosis{Evaluated: 1, Unplaced: 4, Rejected: []cluster.Rejection{
					{Filter: cluster.FilterMemory, Count: 1, Need: 512}}}
			})
			for k := range 4 {
				w.task("web", k+1, "n-1", func(t *cluster.Task) { t.Revision = "ecs-svc/1" })
			}
		}, problem.ServiceShort, "The deployment of web:1 to service web waits: no instance can take 4 more.",
			"minimumHealthyPercent 100 keeps at least 4 of the service's 4 tasks. 0 of 1 instance can take one: " +
				"1 insufficient CPU",
			"aws ecs update-service --cluster prod --service web --deployment-configuration"},
		{"AStandaloneTaskThatWaitsForAFullProvider", func(w *world) {
			*w = *onSpot(func(_ *cluster.CapacityProvider, g *cluster.AutoScalingGroup) { g.Max, g.Desired = 1, 1 })
			w.instance(2) // of no provider
			w.task("web", 9, "", func(t *cluster.Task) {
				t.Owner, t.Service, t.Group, t.Last = "prod", "", "family:web", ""
				t.Rules = &cluster.Rules{Providers: []cluster.ProviderShare{{Provider: "spot", Weight: 1}}}
			})
		}, problem.TaskUnplaced, "1 standalone task of web:1 has no instance.", "Managed scaling of spot:",
			"aws autoscaling update-auto-scaling-group --auto-scaling-group-name group --max-size"},
		{"ATaintThatNoServiceTolerates", func(w *world) {
			w.instance(1)
			w.instance(2, func(i *cluster.Instance) { i.Attributes[cluster.AttributeTaints] = "dedicated:gpu:NO_SCHEDULE" })
			w.service("web", 1)
			w.task("web", 1, "n-1")
		}, problem.InstanceUnused, "No service can use 1 instance.", "n-2: It does not meet the requirements of any " +
			"service: no service tolerates the taint dedicated=gpu:NO_SCHEDULE.", "berth explain instance n-2"},
		{"NoInstance", func(w *world) { w.service("web", 1) }, problem.ServiceShort,
			"Service web runs 0 of 1 task: no instance can take 1 more.", "The cluster has no instance.",
			"echo ECS_CLUSTER=prod >> /etc/ecs/ecs.config"},
		{"NoNetworkInterface", func(w *world) {
			w.instance(1, func(i *cluster.Instance) { i.Registered.ENIs = new(0) })
			w.service("web", 1)
			w.rows[len(w.rows)-1].(*cluster.TaskDefinition).Needs.ENIs = 1
		}, problem.ServiceShort, "Service web runs 0 of 1 task: no instance can take 1 more.",
			"0 of 1 instance can take one: 1 insufficient network interfaces (needs 1, best free 0).",
			"berth explain service web --cluster prod"},
		{"ASlowStart", func(w *world) {
			w.instance(1)
			w.service("web", 1)
			w.task("web", 1, "n-1", func(t *cluster.Task) { t.Last = cluster.TaskPending })
		}, problem.ServiceShort, "Service web runs 0 of 1 task.",
			"1 task is still starting, the first since 2026-11-21T12:00:00Z on instance n-1.",
			"aws ecs describe-tasks --cluster prod --tasks t-1"},
	} {
		t.Run(c.name, c.check)
	}
	for _, p := range never.find(t) {
		if slices.ContainsFunc(commandsOf(p), func(c string) bool { return strings.Contains(c, "--max-size") }) {
			t.Errorf("a larger group would help nobody: %q", commandsOf(p))
		}
	}
}

// A reason that several tasks have, and what helps against it, is printed once.
func TestDrainThatSeveralTasksBlock(t *testing.T) {
	w := newWorld()
	w.instance(1, func(i *cluster.Instance) {
		i.Status, i.DrainingAt = cluster.InstanceDraining, cluster.At(noon)
	})
	w.service("web", 2)
	w.task("web", 1, "n-1")
	w.task("web", 2, "n-1")
	w.services["web"].Blocked = &cluster.Diagnosis{Evaluated: 1, Unplaced: 2, Rejected: []cluster.Rejection{
		{Filter: cluster.FilterStatus, Count: 1}}}
	for _, p := range w.find(t) {
		if p.Kind != problem.DrainWaits {
			continue
		}
		if strings.Count(p.Why, "service web") != 1 || !strings.Contains(p.Why, "(2 tasks)") || len(p.Help) != 2 {
			t.Errorf("%q, remedies %q", p.Why, p.Help)
		}
		return
	}
	t.Error("no drain is reported")
}

// A throttle lasts since the first failure, not since the last attempt.
func TestSinceWhenStartsFail(t *testing.T) {
	w := newWorld()
	w.instance(1)
	s := w.service("web", 2)
	w.rows = append(w.rows, &cluster.Throttle{Head: w.head(), Service: "web", Owner: s.Short,
		Revisions: map[string]cluster.Backoff{s.Deployment.ID: {Step: 3, Failures: 5, Since: tenPast,
			NextAttemptAt: tenPast.Add(time.Hour)}}})
	s.EmittedKeys = map[string]time.Time{service.ThrottleKeyPrefix + s.Deployment.ID: noon}
	for _, p := range w.find(t) {
		if p.Kind != problem.ServiceThrottled || p.Since == nil || !p.Since.Equal(noon) {
			t.Errorf("%s, since %v", p.What, p.Since)
		}
	}
}

// Since when is told where something in the cluster says so.
func TestSinceWhen(t *testing.T) {
	w := newWorld()
	w.instance(1)
	arn := "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/blue/1"
	w.service("refused", 1)
	w.task("refused", 1, "n-1", func(t *cluster.Task) { t.Started = cluster.At(noon) })
	w.rows = append(w.rows, &cluster.Target{Head: w.head(), Task: "t-1", Owner: "refused-short", Service: "refused",
		Registrations: []cluster.Registration{{ARN: arn, State: cluster.RegistrationFailed, Reason: "no"}}})
	w.service("broken", 1, func(s *cluster.Service) {
		s.Unrepaired, s.EmittedKeys = "it breaks a rule", map[string]time.Time{decide.UnrepairedKey: noon}
	})
	w.task("broken", 2, "n-1")
	w.service("typo", 1, func(s *cluster.Service) {
		s.Rules.Strategies = []cluster.PlacementStrategy{{Type: "spread", Field: "attribute:rak"}}
		s.EmittedKeys = map[string]time.Time{decide.NamesKeyPrefix + "rak": noon}
	})
	w.task("typo", 3, "n-1")
	found := w.find(t)
	if len(found) != 3 {
		t.Errorf("%d problems: %+v", len(found), found)
	}
	for _, p := range found {
		if p.Since == nil || !p.Since.Equal(noon) {
			t.Errorf("%s: since %v", p.What, p.Since)
		}
	}
}

// A provider whose group is gone can be taken out of the cluster and deleted, after what uses it.
func TestCommandsThatRemoveAProvider(t *testing.T) {
	const (
		groups = "aws autoscaling describe-auto-scaling-groups --query 'AutoScalingGroups[].AutoScalingGroupName'"
		remove = "aws ecs delete-capacity-provider --capacity-provider spot"
		see    = "aws ecs describe-capacity-providers --capacity-providers spot"
		put    = "aws ecs put-cluster-capacity-providers --cluster prod --capacity-providers "
		take   = put + "two FARGATE --default-capacity-provider-strategy capacityProvider=two,weight=1,base=2"
	)
	share := func(name string, base int) cluster.ProviderShare {
		return cluster.ProviderShare{Provider: name, Weight: 1, Base: base}
	}
	for name, c := range map[string]struct {
		change func(w *world)
		want   []string
	}{
		"Unused": {func(w *world) { w.services["web"].Providers = nil }, []string{groups, take, remove, see}},
		"TheLastOne": {func(w *world) {
			w.services["web"].Providers = nil
			delete(w.input.Capacity.Providers, "two")
			w.input.Capacity.Attached = &cluster.ClusterProviders{Providers: []string{"spot"}}
		}, []string{groups, put + "'[]' --default-capacity-provider-strategy '[]'", remove, see}},
		"UsedByAService": {func(*world) {}, []string{groups, "aws ecs update-service --cluster prod --service web " +
			"--force-new-deployment --capacity-provider-strategy capacityProvider=two,weight=1", take, remove, see}},
		"UsedByAServiceThatHasNoOther": {func(w *world) { w.input.Capacity.Groups = nil },
			[]string{groups, "aws ecs update-service --cluster prod --service web " +
				"--force-new-deployment --capacity-provider-strategy '[]'", take, remove, see}},
		"UsedByATaskSet": {func(w *world) { w.services["web"].Controller = cluster.ExternalController },
			[]string{groups, see}},
		"UsedByAStandaloneTask": {func(w *world) {
			w.services["web"].Providers = nil
			w.task("web", 9, "", func(t *cluster.Task) {
				t.Owner, t.Service, t.Last = "prod", "", ""
				t.Rules = &cluster.Rules{Providers: []cluster.ProviderShare{share("spot", 0)}}
			})
		}, []string{groups, "aws ecs stop-task --cluster prod --task t-9", take, remove, see}},
		"OfAnOlderBerth": {func(w *world) {
			w.services["web"].Providers, w.input.Capacity.Attached = nil, nil
		}, []string{groups, see}},
		"DeletedWhileTheClusterHasIt": {func(w *world) {
			w.services["web"].Providers = nil
			w.input.Capacity.Providers["spot"].UpdateStatus = cluster.ProviderDeleteFailed
		}, []string{take, remove, see}},
	} {
		w := onSpot()
		w.input.Capacity.Providers["two"] = &cluster.CapacityProvider{Name: "two", Group: "other"}
		w.input.Capacity.Groups = map[string]*cluster.AutoScalingGroup{"other": {Name: "other"}}
		w.input.Capacity.Attached = &cluster.ClusterProviders{Providers: []string{"spot", "two", "FARGATE"},
			Default: []cluster.ProviderShare{share("spot", 0), share("two", 2)}}
		c.change(w)
		all := w.find(t)
		at := slices.IndexFunc(all, func(p problem.Problem) bool { return p.Kind == problem.ProviderFailed })
		if at < 0 || !slices.Equal(commandsOf(all[at]), c.want) {
			t.Errorf("%s: %+v, want the commands\n%s", name, all, strings.Join(c.want, "\n"))
		}
	}
}
