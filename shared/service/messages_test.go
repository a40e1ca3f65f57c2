package service

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"berth/shared/cluster"
)

// The golden texts are ECS's own, as captured from production services; tools match on them.
func TestMessagesAreThoseOfECS(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	short := &cluster.Diagnosis{Evaluated: 12, Closest: id, ClosestFilter: cluster.FilterMemory,
		Rejected: []cluster.Rejection{
			{Filter: cluster.FilterStatus, Count: 3, Detail: "DRAINING"},
			{Filter: cluster.FilterMemory, Count: 9, Need: 1024, Best: 812}}}
	unable := func(f cluster.Filter) string {
		return UnableToPlaceMessage("web", &cluster.Diagnosis{Evaluated: 1, Closest: "i", ClosestFilter: f})
	}
	const (
		head = "(service web) was unable to place a task because no container instance met all of its requirements."
		tail = " For more information, see the Troubleshooting section of the Amazon ECS Developer Guide."
	)
	for _, c := range []struct{ name, got, want string }{
		{"SteadyState", SteadyStateMessage("web"), "(service web) has reached a steady state."},
		{"Started", TasksStartedMessage("web", []string{id, "b"}, 0),
			"(service web) has started 2 tasks: (task " + id + ") (task b)."},
		{"OneTasks", TasksStartedMessage("web", []string{id}, 0),
			"(service web) has started 1 tasks: (task " + id + ")."},
		{"Replaced", TasksStartedMessage("web", []string{id}, 1),
			"(service web) has started 1 tasks: (task " + id + "). Amazon ECS replaced 1 tasks due to an unhealthy status."},
		{"DeploymentFailed", DeploymentFailedMessage("web", "ecs-svc/7", alarmDetected),
			"(service web) (deployment ecs-svc/7) deployment failed: alarm detected."},
		{"RollingBack", RollingBackMessage("web", "ecs-svc/6"), "(service web) rolling back to deployment ecs-svc/6."},
		{"Impaired", StartsImpairedMessage("web"), "(service web) is unable to consistently start tasks successfully."},
		{"Registered", TargetsRegisteredMessage("web", 1, "arn:tg"),
			"(service web) registered 1 targets in (target-group arn:tg)"},
		{"Deregistered", TargetsDeregisteredMessage("web", 1, "arn:tg"),
			"(service web) deregistered 1 targets in (target-group arn:tg)"},
		{"ClassicRegistered", TargetsRegisteredMessage("web", 1, cluster.ClassicBalancer("front")),
			"(service web) registered 1 instances in (elb front)"},
		{"ClassicDeregistered", TargetsDeregisteredMessage("web", 1, cluster.ClassicBalancer("front")),
			"(service web) deregistered 1 instances in (elb front)"},
		{"ClassicUnhealthy", UnhealthyTargetMessage("web", id, &cluster.Registration{
			ARN: cluster.ClassicBalancer("front"), Address: "i-1", Port: 8080, Reason: "Instance has failed"}),
			"(service web) (instance i-1) is unhealthy in (elb front) due to (reason Instance has failed)."},
		{"ClassicRefused", RegistrationFailedMessage("web", cluster.ClassicBalancer("front"), "InvalidInstance"),
			"(service web) failed to register instances in (elb front) with (error InvalidInstance)"},
		{"Draining", ConnectionsDrainingMessage("web", 1), "(service web) has begun draining connections on 1 tasks."},
		{"UnhealthyContainer", UnhealthyContainerMessage("web", id),
			"(service web) (task " + id + ") failed container health checks."},
		{"UnhealthyTarget", UnhealthyTargetMessage("web", id,
			&cluster.Registration{ARN: "arn:tg", Port: 8080, Reason: "Request timed out"}),
			"(service web) (task " + id + ") (port 8080) is unhealthy in (target-group arn:tg) due to (reason Request timed out)."},
		{"Protected", TasksProtectedMessage("web", "ecs-svc/7", 2),
			"(service web) was unable to reach steady state because (taskSet ecs-svc/7) was unable to scale in due to (reason 2 tasks under protection)"},
		{"ProvisioningLimit", ProvisioningLimitMessage("web"),
			"(service web) was unable to place tasks in your cluster because the tasks provisioning capacity limit was exceeded."},
		{"Stopped", TasksStoppedMessage("web", []string{id}),
			"(service web) has stopped 1 running tasks: (task " + id + ")."},
		{"StoppedPending", PendingTasksStoppedMessage("web", 2), "(service web) stopped 2 pending tasks."},
		{"DeploymentCompleted", DeploymentCompletedMessage("web", "ecs-svc/7"),
			"(service web) (deployment ecs-svc/7) deployment completed."},
		{"NoInstances", UnableToPlaceMessage("web", &cluster.Diagnosis{}),
			head + " Reason: No Container Instances were found in your cluster." + tail},
		{"Memory", UnableToPlaceMessage("web", short), head + " The closest matching (container-instance " + id +
			") has insufficient memory available." + tail + " 0/12: 9 insufficient memory (needs 1024 MiB, best free 812), 3 not active (DRAINING)"},
		{"CPU", unable(cluster.FilterCPU),
			head + " The closest matching (container-instance i) has insufficient CPU units available." + tail + " 0/1"},
		{"Port", unable(cluster.FilterPort),
			head + " The closest matching (container-instance i) is already using a port required by your task." + tail + " 0/1"},
		{"Attribute", unable(cluster.FilterAttribute),
			head + " The closest matching (container-instance i) is missing an attribute required by your task." + tail + " 0/1"},
		{"Agent", unable(cluster.FilterAgent),
			head + ` The closest matching (container-instance i) encountered error "AGENT".` + tail + " 0/1"},
		{"Constraint", unable(cluster.FilterConstraint),
			head + ` The closest matching (container-instance i) encountered error "MemberOf placement constraint unsatisfied.".` + tail + " 0/1"},
		{"Distinct", unable(cluster.FilterOccupied),
			head + ` The closest matching (container-instance i) encountered error "DistinctInstance placement constraint unsatisfied.".` + tail + " 0/1"},
		{"ENI", unable(cluster.FilterENI),
			head + ` The closest matching (container-instance i) encountered error "RESOURCE:ENI".` + tail + " 0/1"},
		{"EmptyProvider", UnableToPlaceMessage("web",
			&cluster.Diagnosis{Evaluated: 1, Empty: "spot", Closest: "i", ClosestFilter: cluster.FilterAttribute}),
			head + " Reason: No Container Instances were found in your capacity provider." + tail + " 0/1"},
		{"GPU", unable(cluster.FilterGPU),
			head + ` The closest matching (container-instance i) encountered error "RESOURCE:GPU".` + tail + " 0/1"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, "message", c.got, c.want) })
	}
}

func TestMessagesAreBounded(t *testing.T) {
	const most = 4096
	t.Run("NamesTheFirstAndCountsTheRest", func(t *testing.T) {
		var ids []string
		for n := range 5000 {
			ids = append(ids, fmt.Sprintf("%032x", n))
		}
		got := TasksStartedMessage("web", ids, 0)
		named := strings.Count(got, "(task ")
		if len(got) > most || named < 90 || !strings.HasSuffix(got, fmt.Sprintf(") and %d more.", 5000-named)) {
			t.Errorf("%d bytes, %d named: …%s", len(got), named, got[len(got)-80:])
		}
	})
	t.Run("NamesAllThatFit", func(t *testing.T) {
		got := TasksStoppedMessage("web", strings.Split(strings.Repeat("x ", 99)+"x", " "))
		expect(t, "named", strings.Count(got, "(task x)"), 100)
		expect(t, "end", strings.HasSuffix(got, "(task x)."), true)
	})
	t.Run("CutsBetweenCharacters", func(t *testing.T) {
		for n := range 4 {
			d := &cluster.Diagnosis{Evaluated: 1, Rejected: []cluster.Rejection{
				{Filter: cluster.FilterAttribute, Count: 1,
					Detail: strings.Repeat("x", n) + strings.Repeat("é", 3000)}}}
			got := UnableToPlaceMessage("web", d)
			if len(got) > most || !utf8.ValidString(got) || !strings.HasSuffix(got, "é…") {
				t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
			}
		}
	})
}
