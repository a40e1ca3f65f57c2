package problem_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/problem"
	"berth/shared/cluster"
	"berth/shared/operation"
)

// ended makes a task of web's PRIMARY deployment one that ran for 3 seconds and ended at noon plus
// at.
func ended(code, reason string, at time.Duration) func(*cluster.Task) {
	return func(t *cluster.Task) {
		t.Revision, t.Last, t.StopCode, t.Reason = "ecs-svc/2", cluster.TaskStopped, code, reason
		t.Started, t.Stopped = cluster.At(noon.Add(at-3*time.Second)), cluster.At(noon.Add(at))
		if code == cluster.StopContainerExited {
			t.ExitCode = new(137)
		}
	}
}

// endedTasks is a service whose tasks have ended one after another, n of them.
func endedTasks(n int, code, reason string, change ...func(*cluster.Task)) func(w *world) {
	return func(w *world) {
		w.instance(1)
		w.service("web", 1)
		for k := range n {
			at := time.Duration(k) * time.Minute
			w.task("web", k+1, "n-1", append([]func(*cluster.Task){ended(code, reason, at)}, change...)...)
		}
		w.task("web", n+1, "n-1")
	}
}

// unstarted is a change of a task that never ran.
func unstarted(t *cluster.Task) { t.Started = 0 }

// Tasks that end again and again are a problem although the next one runs.
func TestTasksThatKeepEnding(t *testing.T) {
	const tasks = "aws ecs describe-tasks --cluster prod --tasks t-3 --query " +
		"'tasks[].[stoppedReason,containers[].[name,exitCode,reason]]'"
	for _, c := range []situation{
		{"Exits", endedTasks(3, cluster.StopContainerExited, "Essential container in task exited"), problem.TasksExit,
			"Tasks of service web keep exiting.", "3 tasks of web:1 exited by themselves within the last 10 minutes, and " +
				"1 of 1 run now. The last one ran for 3s and exited with code 137 (killed: often it had no memory left). " +
				"Essential container in task exited.", tasks},
		{"Refused", endedTasks(3, cluster.StopRefused, "ECS was unable to assume the role", unstarted),
			problem.StartsRefused, "ECS refuses to start tasks of service web.",
			"It refused 3 starts within the last 10 minutes, and 1 of 1 run now. ECS was unable to assume the role.",
			"aws ecs describe-task-definition --task-definition web:1"},
		{"RefusedForASecret", endedTasks(3, cluster.StopRefused, "ResourceInitializationError: unable to pull secrets", unstarted),
			problem.StartsRefused, "ECS refuses to start tasks of service web.", "unable to pull secrets.",
			"'taskDefinition.[executionRoleArn,containerDefinitions[].[name,secrets,logConfiguration.secretOptions]]'"},
		{"ExitsAtOnce", endedTasks(3, cluster.StopContainerExited, "exited", func(t *cluster.Task) { t.Started = t.Stopped }),
			problem.TasksExit, "Tasks of service web keep exiting.", "The last one ran for less than a second", tasks},
		{"Unhealthy", endedTasks(3, cluster.StopByScheduler, "Task failed container health checks"),
			problem.TasksUnhealthy, "Tasks of service web keep failing their health checks.",
			"3 tasks were replaced for that within the last 10 minutes, and 1 of 1 run now.", tasks},
	} {
		t.Run(c.name, c.check)
	}
	for name, prepare := range map[string]func(*world){
		"Twice": endedTasks(2, cluster.StopContainerExited, "exited"),
		"LongAgo": endedTasks(5, cluster.StopContainerExited, "exited", func(t *cluster.Task) {
			t.Stopped = cluster.At(noon.Add(-time.Minute))
		}),
		"OfAnEarlierRevision": endedTasks(5, cluster.StopContainerExited, "exited", func(t *cluster.Task) {
			t.Revision = "ecs-svc/1"
		}),
		"StoppedByAUser": endedTasks(5, cluster.StopUserInitiated, "done"),
		"ScaledIn":       endedTasks(5, cluster.StopByScheduler, "Scaling activity initiated by deployment"),
	} {
		w := newWorld()
		prepare(w)
		if got := w.find(t); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What a group cannot launch, and what it has launched in vain.
func TestGroupsWithoutInstances(t *testing.T) {
	blocked := func(w *world) {
		w.instance(1)
		w.service("web", 5, func(s *cluster.Service) {
			s.Providers = []cluster.ProviderShare{{Provider: "spot", Weight: 1}}
		})
		for k := range 4 {
			w.task("web", k+1, "n-1")
		}
	}
	failing := func(w *world) {
		blocked(w)
		k := w.capacity(func(_ *cluster.CapacityProvider, g *cluster.AutoScalingGroup) { g.Desired = 3 })
		k.Failures = map[string][]cluster.FailedLaunch{"group": {
			{At: tenPast, Zone: "a", Code: "InsufficientInstanceCapacity", Message: "no m5.large"}, {At: noon}}}
	}
	const cause = "2 launches failed within the last hour, the last in a: InsufficientInstanceCapacity (no m5.large)."
	for _, c := range []situation{
		{"LaunchesFail", failing, problem.LaunchesFail,
			"Auto Scaling group group has 1 of 3 instances: its launches fail.", cause,
			"aws autoscaling describe-scaling-activities --auto-scaling-group-name group"},
		{"AServiceThatWaitsForThem", failing, problem.ServiceShort,
			"Service web runs 4 of 5 tasks: no instance can take 1 more.", cause,
			"aws ecs update-service --cluster prod --service web --desired-count 4"},
		{"NeverRegistered", func(w *world) {
			blocked(w)
			k := w.capacity(func(_ *cluster.CapacityProvider, g *cluster.AutoScalingGroup) {
				g.Desired = 2
				g.Instances = append(g.Instances, cluster.GroupInstance{ID: "i-2", Zone: "a", Lifecycle: "InService"})
			})
			k.Histories["spot"] = &cluster.ScalingHistory{Provider: "spot",
				UnregisteredSince: map[string]time.Time{"i-2": noon}}
		}, problem.InstanceUnregistered, "1 instance of Auto Scaling group group never registered with cluster prod.",
			"i-2: an agent registers if it runs", "--no-should-decrement-desired-capacity --instance-id i-2"},
	} {
		t.Run(c.name, c.check)
	}
}

// Neither moves, nor instances that take tasks again, nor fewer tasks help a task that is larger than
// every instance.
func TestTaskLargerThanInstances(t *testing.T) {
	for n, needs := range []cluster.Resources{
		{CPU: 4096 * cluster.CPUUnit, Memory: 1}, {CPU: 1, Memory: 4096}, {CPU: 1, Memory: 1, GPUs: 1},
	} {
		c := situation{"", func(w *world) {
			w.instance(1)
			w.service("web", 1)
			w.rows[2].(*cluster.TaskDefinition).Needs = needs
			w.instance(2, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
			w.instance(3, func(i *cluster.Instance) { i.AgentConnected = false })
			w.instance(4, withAttributes(map[string]string{cluster.AttributeUnschedulable: ""}))
		}, problem.ServiceShort, "Service web runs 0 of 1 task: no instance can take 1 more.",
			[]string{"A task needs 4096 CPU units, more than the largest instance has (1024).",
				"A task needs 4096 MiB of memory, more than the largest instance has (2048).",
				"A task needs 1 GPU, more than any instance has (0)."}[n],
			"aws ecs update-service --cluster prod --service web --task-definition web"}
		t.Run(fmt.Sprint(n), c.check)
		w := newWorld()
		c.prepare(w)
		found := w.find(t)
		at := slices.IndexFunc(found, func(p problem.Problem) bool { return p.Kind == problem.ServiceShort })
		want := []problem.Help{{What: "Register a revision that needs at most " +
			[]string{"1024 CPU units", "2048 MiB of memory", "0 GPUs"}[n] + " and deploy it, or add larger instances",
			Command: c.command}, {What: "See what the instances have", Command: "berth instance --output wide --cluster prod"}}
		if got := found[at].Help; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A deployment that has failed starts nothing, so its throttle is no second problem. One that was
// rolled back is named after its task definition, which the next deployment needs.
func TestFailedDeployments(t *testing.T) {
	w := newWorld()
	w.instance(1)
	w.service("web", 2, func(s *cluster.Service) { s.Deployment.State = cluster.RolloutFailed })
	w.rows = append(w.rows, &cluster.Throttle{Head: w.head(), Owner: "web-short", Service: "web",
		Revisions: map[string]cluster.Backoff{"ecs-svc/2": {Step: 4, NextAttemptAt: tenPast.Add(time.Hour)}}})
	if all := w.find(t); len(all) != 1 || all[0].Kind != problem.DeploymentFailed {
		t.Errorf("%+v", all)
	}
	c := situation{"RolledBack", func(w *world) {
		w.instance(1)
		w.service("web", 1, func(s *cluster.Service) {
			s.Release = &cluster.Release{Status: cluster.DeploymentRollbackSuccessful, Target: "ecs-svc/3",
				ReleaseResult: cluster.ReleaseResult{Tripped: true, RollbackTo: "ecs-svc/2", RollbackAt: noon}}
		})
		w.task("web", 1, "n-1")
		w.task("web", 2, "n-1", ended(cluster.StopFailedToStart, "no image", 0), func(t *cluster.Task) {
			t.Revision, t.TaskDefinition, t.Started = "ecs-svc/3", "next:7", 0
		})
	}, problem.DeploymentFailed, "The deployment of next:7 to service web was rolled back to web:1.", "No image.",
		"aws ecs update-service --cluster prod --service web --task-definition next"}
	t.Run(c.name, c.check)
}

// Commands say which Berth is meant if the environment does not.
func TestCallers(t *testing.T) {
	w := newWorld()
	w.instance(1, func(i *cluster.Instance) { i.Registered.Memory = 700 })
	w.service("web", 3)
	w.input.DeadLetters = []operation.DeadLetters{{Queue: "dead", Messages: 1, URL: "dead"}}
	w.input.Callers = problem.Callers{Berth: " --stack s", Proxy: "berth proxy --stack s --", Others: " --profile p"}
	all := w.find(t)
	got := []string{all[0].Help[0].Command, all[0].Help[1].Command, all[1].Help[0].Command}
	want := []string{"berth explain service web --cluster prod --stack s",
		"berth proxy --stack s -- aws ecs update-service --cluster prod --service web --desired-count 0",
		"aws sqs receive-message --queue-url dead --profile p"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
}

// A DAEMON service that no instance may run is a problem, although nothing is missing.
func TestDaemonWithoutInstances(t *testing.T) {
	c := situation{"", func(w *world) {
		w.instance(1)
		w.service("agent", 0, func(s *cluster.Service) {
			s.Strategy = cluster.Daemon
			s.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf,
				Expression: "attribute:role == db"}}
		})
	}, problem.NameUnknown, "DAEMON service agent runs on no instance: a rule names what none has.",
		`No instance has the attribute "role".`, "berth instance --output wide --cluster prod"}
	c.check(t)
}

// A service whose tasks keep exiting is crashing in lists, although as many as desired run now.
func TestACrashingServiceIsNotSteady(t *testing.T) {
	w := newWorld()
	w.instance(1)
	w.service("web", 1)
	w.task("web", 1, "n-1")
	state := func() string {
		snap := w.snapshot(t)
		return listing.NewService(snap, snap.Services["web"], w.input.Now).State
	}
	for k := range 3 {
		if got := state(); got != "steady" {
			t.Errorf("%s after %d exits", got, k)
		}
		w.task("web", k+2, "n-1", func(t *cluster.Task) {
			t.Revision, t.Last, t.StopCode = "ecs-svc/2", cluster.TaskStopped, cluster.StopContainerExited
			t.Started, t.Stopped = cluster.At(noon), cluster.At(noon.Add(5*time.Minute))
		})
	}
	if got := state(); got != "crashing" {
		t.Errorf("%s after 3 exits", got)
	}
	if all := w.find(t); len(all) != 1 || all[0].Kind != problem.TasksExit {
		t.Errorf("%+v", all)
	}
	w.input.Now = w.input.Now.Add(time.Hour)
	if got := state(); got != "steady" {
		t.Errorf("%s an hour later", got)
	}
}

// A service whose deployment is stuck is stuck in lists, until that ends.
func TestAStuckDeploymentIsTheStateOfItsService(t *testing.T) {
	w := newWorld()
	w.instance(1)
	w.service("web", 1, func(s *cluster.Service) {
		s.MaxPercent, s.Deployment.State = 100, cluster.RolloutInProgress
		s.EmittedKeys = map[string]time.Time{"stuck": noon}
	})
	w.task("web", 1, "n-1")
	snap := w.snapshot(t)
	got := listing.NewService(snap, snap.Services["web"], noon).State
	if got != "stuck" || listing.StateTone(got) != listing.Wrong {
		t.Errorf("%s", got)
	}
	snap.Services["web"].Deployment.State = cluster.RolloutCompleted
	if got := listing.NewService(snap, snap.Services["web"], noon).State; got != "steady" {
		t.Errorf("%s after the deployment", got)
	}
}

// A deployment that was rolled back is a problem until the next one, in the same words also when the
// rows of its tasks are deleted.
func TestARolledBackDeploymentStaysAProblem(t *testing.T) {
	w := newWorld()
	w.instance(1)
	w.service("web", 1, func(s *cluster.Service) {
		s.Release = &cluster.Release{Status: cluster.DeploymentRollbackSuccessful, Target: "ecs-svc/3",
			ReleaseResult: cluster.ReleaseResult{Failures: 3, Threshold: 3, Tripped: true, RollbackTo: "ecs-svc/2",
				RollbackAt: noon, TargetDefinition: "next:7", LastFailure: "CannotPullContainerError: no such image"}}
	})
	w.task("web", 1, "n-1")
	for _, at := range []time.Duration{time.Minute, time.Hour, 30 * 24 * time.Hour} {
		w.input.Now = noon.Add(at)
		all := w.find(t)
		if len(all) != 1 || all[0].What != "The deployment of next:7 to service web was rolled back to web:1." ||
			all[0].Why != "The circuit breaker counted 3 failed tasks, and its threshold is 3. "+
				"Last failure: CannotPullContainerError: no such image." || !all[0].Since.Equal(noon) ||
			!strings.HasSuffix(all[0].Help[len(all[0].Help)-1].Command, "--service web --task-definition next") {
			t.Errorf("after %s: %+v", at, all)
		}
	}
	s := w.services["web"]
	s.Release = &cluster.Release{Status: cluster.DeploymentSuccessful, Target: "ecs-svc/4"}
	if all := w.find(t); len(all) > 0 {
		t.Errorf("after the next deployment: %+v", all)
	}
}

// A deployment that alarms ended names them, since when they were in ALARM, and what shows them now.
func TestDeploymentsThatAlarmsEnd(t *testing.T) {
	const see = "aws cloudwatch describe-alarms --alarm-types MetricAlarm CompositeAlarm --alarm-names "
	ended := func(change func(s *cluster.Service, r *cluster.Release)) func(w *world) {
		return func(w *world) {
			w.instance(1)
			w.service("web", 1, func(s *cluster.Service) {
				s.Release = &cluster.Release{Target: "ecs-svc/3", ReleaseResult: cluster.ReleaseResult{
					Triggered: []string{"errors"}, TriggeredSince: noon, TargetDefinition: "web:2"}}
				change(s, s.Release)
			})
			w.task("web", 1, "n-1")
		}
	}
	rolledBack := func(_ *cluster.Service, r *cluster.Release) {
		r.Status, r.RollbackTo, r.RollbackAt = cluster.DeploymentRollbackSuccessful, "ecs-svc/2", noon.Add(time.Minute)
	}
	const what = "The deployment of web:2 to service web was rolled back to web:1."
	for _, c := range []situation{
		{"RolledBack", ended(rolledBack), problem.DeploymentFailed, what,
			"CloudWatch alarm errors was in ALARM, since 2026-11-21T12:00:00Z.", see + "errors --query"},
		{"DeployAgain", ended(rolledBack), problem.DeploymentFailed, what, "",
			"aws ecs update-service --cluster prod --service web --task-definition web"},
		{"TwoAlarms", ended(func(s *cluster.Service, r *cluster.Release) {
			rolledBack(s, r)
			r.Triggered = []string{"5xx rate", "errors"}
		}), problem.DeploymentFailed, what,
			"CloudWatch alarms 5xx rate, errors were in ALARM, the first since 2026-11-21T12:00:00Z.",
			see + "'5xx rate' errors --query"},
		{"OfAnOlderBerth", ended(func(s *cluster.Service, r *cluster.Release) {
			rolledBack(s, r)
			r.TriggeredSince = time.Time{}
		}), problem.DeploymentFailed, what, "CloudWatch alarm errors was in ALARM.", see + "errors --query"},
		{"WithoutRollback", ended(func(s *cluster.Service, r *cluster.Release) {
			s.Deployment.State, s.Deployment.Reason = cluster.RolloutFailed, "ECS deployment alarms: alarm detected."
			r.Status = cluster.DeploymentStopped
		}), problem.DeploymentFailed, "The deployment of web:1 to service web failed, and starts no more tasks.",
			"CloudWatch alarm errors was in ALARM, since 2026-11-21T12:00:00Z.", see + "errors --query"},
	} {
		t.Run(c.name, c.check)
	}
}

// What ECS says of a task that cannot start has a cause in words, and a command that shows it or ends it.
func TestCausesOfFailedStarts(t *testing.T) {
	const (
		definition = "aws ecs describe-task-definition --task-definition web:1 --query "
		fetch      = "ResourceInitializationError: unable to pull secrets or registry auth: execution resource " +
			"retrieval failed: unable to retrieve secret from asm: service call has been retried 1 time(s): failed to " +
			"fetch secret "
		arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:db-AbCdEf"
	)
	for name, c := range map[string]struct{ reason, cause, command string }{
		"NoLogGroup": {"ResourceInitializationError: failed to validate logger args: create stream has been retried 1 " +
			"times: failed to create Cloudwatch log stream: ResourceNotFoundException: The specified log group does not exist",
			"The log group that a container's logConfiguration names does not exist.",
			`--output text); do aws logs create-log-group --log-group-name "$group"; done`},
		"NoLogGroupByDocker": {"CannotStartContainerError: Error response from daemon: failed to initialize logging " +
			"driver: failed to create Cloudwatch log stream: ResourceNotFoundException: The specified log group does not exist.",
			"The log group that a container's logConfiguration names does not exist.", "aws logs create-log-group"},
		"LoggerArguments": {"ResourceInitializationError: failed to validate logger args: AccessDeniedException",
			"needs logs:CreateLogStream.", definition + "'taskDefinition.[executionRoleArn,containerDefinitions[].[name,logConf"},
		"EFS": {"ResourceInitializationError: failed to invoke EFS utils commands to set up EFS volumes: stderr: " +
			`Failed to resolve "fs-01234567.efs.us-east-1.amazonaws.com"`, "The instance cannot mount the EFS file system:",
			"aws efs describe-mount-targets --file-system-id fs-01234567 "},
		"EFSWithoutId": {"mount.nfs4: access denied by server", "The instance cannot mount the EFS file system:",
			definition + "'taskDefinition.[taskRoleArn,volumes]'"},
		"Volume": {"CannotCreateVolumeError: Error response from daemon: create data: VolumeDriver.Create: no such file",
			"Docker or its volume plugin on the instance cannot create or mount a volume.",
			definition + "'taskDefinition.[volumes,containerDefinitions[].[name,mountPoints]]'"},
		"SecretDenied": {fetch + arn + " from secrets manager: AccessDeniedException: not authorized",
			"The execution role may not read the secret or parameter, or not decrypt it with its key.",
			"aws iam simulate-principal-policy --action-names secretsmanager:GetSecretValue --resource-arns " + arn +
				` --policy-source-arn "$(aws ecs describe-task-definition --task-definition web:1 `},
		"NoSecret": {fetch + arn + ": ResourceNotFoundException: Secrets Manager can't find the specified secret",
			"The secret or parameter does not exist in this Region.", "secretsmanager describe-secret --secret-id " + arn},
		"NoParameter": {"ResourceInitializationError: unable to pull secrets or registry auth: unable to retrieve secrets " +
			"from ssm: invalid parameters: /shop/db", "The secret or parameter does not exist in this Region.",
			"aws ssm get-parameters --names /shop/db "},
		"SecretNotReached": {fetch + arn + ": RequestCanceled: request context canceled caused by: context deadline exceeded",
			"The instance does not reach Secrets Manager or Systems Manager:", definition +
				"'taskDefinition.[executionRoleArn,containerDefinitions[].[name,secrets"},
		"Deregistered": {"ClientException: TaskDefinition is inactive", "Register it again,",
			definition + "'taskDefinition.[status]"},
		"Image": {"CannotPullContainerError: not found", "CannotPullContainerError: not found.", definition},
	} {
		throttled := func(w *world) {
			w.instance(1)
			w.service("web", 1)
			w.task("web", 1, "n-1", ended(cluster.StopFailedToStart, c.reason, 0), unstarted)
			w.rows = append(w.rows, &cluster.Throttle{Head: w.head(), Owner: "web-short", Service: "web",
				Revisions: map[string]cluster.Backoff{"ecs-svc/2": {Step: 3, Failures: 3, Since: noon,
					NextAttemptAt: tenPast.Add(time.Minute), Reason: c.reason}}})
		}
		t.Run(name, (&situation{"", throttled, problem.ServiceThrottled,
			"Service web runs 0 of 1 task: its starts are throttled.", c.cause, c.command}).check)
		failed := func(w *world) {
			throttled(w)
			s := w.services["web"]
			s.Deployment.State, s.Release = cluster.RolloutFailed, &cluster.Release{Target: "ecs-svc/2",
				ReleaseResult: cluster.ReleaseResult{Tripped: true, Failures: 3, Threshold: 3}}
		}
		t.Run(name+"WithABreaker", (&situation{"", failed, problem.DeploymentFailed,
			"The deployment of web:1 to service web failed, and starts no more tasks.", c.cause, c.command}).check)
	}
}
