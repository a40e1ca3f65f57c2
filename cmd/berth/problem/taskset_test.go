package problem_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/listing"
	"berth/cmd/berth/problem"
	"berth/shared/cluster"
)

// ECS refuses to update the task definition of a service with the deployment controller EXTERNAL, so
// its remedy is another task set with the settings of the one that fails.
func TestRemediesOfTaskSets(t *testing.T) {
	const arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/blue/1"
	set := cluster.Deployment{Revision: cluster.Revision{ID: "ecs-svc/3", TaskDefinition: "web:1",
		Network:       &cluster.Network{Subnets: []string{"subnet-1", "subnet-2"}, SecurityGroups: []string{"sg-1"}},
		LoadBalancers: []cluster.LoadBalancer{{TargetGroup: arn, Container: "app", Port: 80}},
		Registries:    []cluster.Registry{{ARN: "arn:aws:servicediscovery:1", Container: "app", ContainerPort: 80}},
		Providers:     []cluster.ProviderShare{{Provider: "spot", Weight: 2, Base: 1}, {Provider: "other", Weight: 1}},
	}, Set: &cluster.TaskSet{Scale: 12.5}}
	plain := set
	plain.Network, plain.LoadBalancers, plain.Registries, plain.Providers = nil, nil, nil, nil
	plain.Set = &cluster.TaskSet{Scale: 100, External: true}
	classic := plain
	classic.Set = &cluster.TaskSet{Scale: 100}
	classic.LoadBalancers = []cluster.LoadBalancer{{TargetGroup: cluster.ClassicBalancer("front"), Container: "app", Port: 80}}
	const create = "aws ecs create-task-set --cluster prod --service web --task-definition web "
	for name, c := range map[string]struct {
		set  cluster.Deployment
		want string
	}{
		"Plain":   {plain, create + "--scale value=100,unit=PERCENT --launch-type EXTERNAL"},
		"Classic": {classic, create + "--scale value=100,unit=PERCENT --load-balancers loadBalancerName=front,containerName=app,containerPort=80"},
		"WithAllSettings": {set, create + "--scale value=12.5,unit=PERCENT " +
			"--capacity-provider-strategy capacityProvider=spot,weight=2,base=1 capacityProvider=other,weight=1,base=0 " +
			"--network-configuration 'awsvpcConfiguration={subnets=[subnet-1,subnet-2],securityGroups=[sg-1]}' " +
			"--load-balancers targetGroupArn=" + arn + ",containerName=app,containerPort=80 " +
			"--service-registries registryArn=arn:aws:servicediscovery:1,containerName=app,containerPort=80"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.instance(1)
			w.service("web", 1, func(s *cluster.Service) {
				s.Controller = cluster.ExternalController
				s.SetTaskSets([]cluster.Deployment{c.set}, "ecs-svc/3")
			})
			w.rows = append(w.rows, &cluster.Throttle{Head: w.head(), Owner: "web-short", Service: "web",
				Revisions: map[string]cluster.Backoff{"ecs-svc/3": {Step: 4, NextAttemptAt: tenPast.Add(time.Hour)}}})
			all := w.find(t)
			at := slices.IndexFunc(all, func(p problem.Problem) bool { return p.Kind == problem.ServiceThrottled })
			if at < 0 {
				t.Fatalf("no throttled service in %+v", all)
			}
			got := commandsOf(all[at])
			for _, want := range []string{c.want,
				"aws ecs delete-task-set --cluster prod --service web --task-set ecs-svc/3 --force"} {
				if !slices.Contains(got, want) {
					t.Errorf("no %s in\n%s", want, strings.Join(got, "\n"))
				}
			}
			if slices.ContainsFunc(got, func(c string) bool { return strings.Contains(c, "update-service") }) {
				t.Errorf("ECS refuses one of %q", got)
			}
		})
	}
}

// Tasks that end, or never run, count for the task set that they belong to, also if it is not the
// PRIMARY one, and the problem names it.
func TestTasksOfATaskSetThatEnd(t *testing.T) {
	external := func(change func(w *world)) func(w *world) {
		return func(w *world) {
			w.instance(1)
			w.service("web", 2, func(s *cluster.Service) {
				s.Controller = cluster.ExternalController
				set := func(id string) cluster.Deployment {
					return cluster.Deployment{Revision: cluster.Revision{ID: id, TaskDefinition: "web:1", CreatedAt: noon},
						Set: &cluster.TaskSet{Scale: 50}}
				}
				s.SetTaskSets([]cluster.Deployment{set("ecs-svc/2"), set("ecs-svc/3")}, "ecs-svc/2")
			})
			for k, set := range []string{"ecs-svc/2", "ecs-svc/3"} {
				w.task("web", k+1, "n-1", func(t *cluster.Task) { t.Revision = set })
			}
			change(w)
		}
	}
	endOf := func(set, code, reason string, n int) func(w *world) {
		return func(w *world) {
			for k := range n {
				w.task("web", 10+k, "n-1", ended(code, reason, time.Duration(k)*time.Minute),
					func(t *cluster.Task) { t.Revision = set })
			}
		}
	}
	const replace = "aws ecs delete-task-set --cluster prod --service web --task-set ecs-svc/3 --force"
	for _, c := range []situation{
		{"Exits", external(endOf("ecs-svc/3", cluster.StopContainerExited, "exited", 3)), problem.TasksExit,
			"Tasks of task set ecs-svc/3 of service web keep exiting.",
			"3 tasks of web:1 exited by themselves within the last 10 minutes, and 1 of 1 run now.", replace},
		{"Refused", external(endOf("ecs-svc/3", cluster.StopRefused, "no role", 3)), problem.StartsRefused,
			"ECS refuses to start tasks of task set ecs-svc/3 of service web.",
			"It refused 3 starts within the last 10 minutes, and 1 of 1 run now. No role.",
			"aws ecs describe-task-definition --task-definition web:1"},
		{"Unhealthy", external(endOf("ecs-svc/3", cluster.StopByScheduler, "failed container health checks", 3)),
			problem.TasksUnhealthy, "Tasks of task set ecs-svc/3 of service web keep failing their health checks.",
			"3 tasks were replaced for that within the last 10 minutes, and 1 of 1 run now.", replace},
		{"Throttled", external(func(w *world) {
			last := w.rows[len(w.rows)-1].(*cluster.Task) // of ecs-svc/3
			last.Last, last.StopCode, last.Reason = cluster.TaskStopped, cluster.StopFailedToStart, "no image"
			last.Stopped = cluster.At(noon)
			w.rows = append(w.rows, &cluster.Throttle{Head: w.head(), Owner: "web-short", Service: "web",
				Revisions: map[string]cluster.Backoff{"ecs-svc/3": {Step: 4, Failures: 1, NextAttemptAt: tenPast.Add(time.Hour)}}})
		}), problem.ServiceThrottled, "Task set ecs-svc/3 of service web runs 0 of 1 task: its starts are throttled.",
			"4 attempts failed, one after the other", "aws ecs describe-tasks --cluster prod --tasks t-2"},
	} {
		t.Run(c.name, c.check)
	}
	// Ends of different task sets are not added up.
	w := newWorld()
	external(func(w *world) {
		endOf("ecs-svc/2", cluster.StopContainerExited, "exited", 2)(w)
		w.task("web", 20, "n-1", ended(cluster.StopContainerExited, "exited", 0),
			func(t *cluster.Task) { t.Revision = "ecs-svc/3" })
	})(w)
	if all := w.find(t); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// A service is crashing in lists while the tasks of one of its task sets keep exiting.
func TestAServiceWithACrashingTaskSetIsNotSteady(t *testing.T) {
	w := newWorld()
	w.instance(1)
	w.service("web", 1, func(s *cluster.Service) {
		s.Controller = cluster.ExternalController
		s.SetTaskSets([]cluster.Deployment{{Revision: cluster.Revision{ID: "ecs-svc/3", TaskDefinition: "web:1"},
			Set: &cluster.TaskSet{Scale: 100}}}, "")
	})
	for k := range 3 {
		w.task("web", k+2, "n-1", ended(cluster.StopContainerExited, "exited", 0),
			func(t *cluster.Task) { t.Revision = "ecs-svc/3" })
	}
	snap := w.snapshot(t)
	if got := listing.NewService(snap, snap.Services["web"], w.input.Now).State; got != "crashing" {
		t.Error(got)
	}
}
