package problem_test

import (
	"slices"
	"strings"
	"testing"
	"time"

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
