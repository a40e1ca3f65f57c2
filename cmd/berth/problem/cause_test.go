package problem_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/problem"
	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/state"
)

// The cause names what stands in the way, not only what was found, and no remedy is one that the
// API refuses.
func TestCausesBehindTheCause(t *testing.T) {
	port := []cluster.Port{{Number: 8080, Protocol: "tcp"}}
	withPort := func(t *cluster.Task) { t.Ports = port }
	definitionOf := func(w *world, name string) *cluster.TaskDefinition {
		at := slices.IndexFunc(w.rows, func(r state.Row) bool {
			d, ok := r.(*cluster.TaskDefinition)
			return ok && d.Family == name
		})
		return w.rows[at].(*cluster.TaskDefinition)
	}
	for _, c := range []situation{
		{"APortThatOtherServicesHold", func(w *world) {
			w.instance(1)
			w.instance(2)
			w.service("web", 1)
			w.service("front", 2)
			definitionOf(w, "web").Ports = port
			w.task("front", 1, "n-1", withPort)
			w.task("front", 2, "n-2", withPort)
			w.task("batch", 3, "n-1", withPort, func(t *cluster.Task) { t.Service, t.Owner = "", "" })
		}, problem.ServiceShort, "Service web runs 0 of 1 task: no instance can take 1 more.",
			"2 port in use (8080/tcp). Tasks of service front hold the port on 2 instances. " +
				"Standalone tasks hold the port on 1 instance.", "berth explain service web --cluster prod"},
		{"ATypoInATaskDefinition", func(w *world) {
			w.instance(1)
			w.service("web", 1)
			definitionOf(w, "web").Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf,
				Expression: "attribute:rak == r1"}}
		}, problem.ServiceShort, "Service web runs 0 of 1 task: no instance can take 1 more.",
			`No instance has the attribute "rak"; the nearest attribute is "rack".`,
			"aws ecs update-service --cluster prod --service web --task-definition web"},
		{"ATaskThatStartsOnADeadInstance", func(w *world) {
			w.instance(1, func(i *cluster.Instance) { i.AgentConnected, i.DisconnectedAt = false, cluster.At(noon) })
			w.service("web", 1)
			w.task("web", 1, "n-1", func(t *cluster.Task) { t.Last = cluster.TaskPending })
		}, problem.ServiceShort, "Service web runs 0 of 1 task.",
			"1 task is still starting, the first since 2026-11-21T12:00:00Z on instance n-1. The agent is not connected on the instance " +
				"of 1: n-1.", "aws ecs describe-tasks --cluster prod --tasks t-1"},
		{"ATargetGroupThatIsGone", func(w *world) {
			w.instance(1)
			arn := "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/blue/1"
			w.service("web", 1, func(s *cluster.Service) {
				s.Deployment.LoadBalancers = []cluster.LoadBalancer{{TargetGroup: arn}}
			})
			w.task("web", 1, "n-1")
			w.rows = append(w.rows, &cluster.Target{Head: w.head(), Task: "t-1", Owner: "web-short", Service: "web",
				Registrations: []cluster.Registration{{ARN: arn, State: cluster.RegistrationFailed,
					Reason: "TargetGroupNotFound: Target groups '" + arn + "' not found"}}})
		}, problem.TargetRefused, "Target group blue refuses 1 task of service web.", "not found.",
			"aws ecs update-service --cluster prod --service web --load-balancers '[]'"},
		{"AProviderThatNoClusterCanHave", func(w *world) {
			w.instance(1)
			rows := []state.Row{&cluster.CapacityProvider{Name: "spot", Group: "gone",
				GroupProblem: "The specified Auto Scaling group gone does not exist."}}
			w.input.Capacity, _ = whatif.NewCapacity(rows)
		}, problem.ProviderFailed, "Capacity provider spot could not be created, and no cluster has it.",
			"The specified Auto Scaling group gone does not exist.",
			"aws ecs delete-capacity-provider --capacity-provider spot"},
		{"ANodeGroupThatCannotBeCreated", func(w *world) {
			w.instance(1)
			k := w.capacity()
			k.Providers = map[string]*cluster.CapacityProvider{}
			k.NodeGroups["workers"] = &cluster.NodeGroup{Name: "workers", Status: cluster.NodeGroupCreateFailed,
				Issues: []cluster.NodeGroupIssue{{Code: "AmiIdNotFound", Message: "release version 1 is not published"}}}
		}, problem.UpgradeFailed, "Node group workers is CREATE_FAILED.", "AmiIdNotFound: release version 1 is not published.",
			"aws eks delete-nodegroup --cluster-name prod --nodegroup-name workers"},
	} {
		t.Run(c.name, c.check)
	}
}

// The API refuses a desired count and more than 100 percent for a DAEMON service, so no remedy has
// them.
func TestRemediesOfADaemonService(t *testing.T) {
	for name, prepare := range map[string]func(*cluster.Service){
		"NoRoom": func(s *cluster.Service) { s.Desired = 2 },
		"Stuck": func(s *cluster.Service) {
			s.Deployment.State = cluster.RolloutInProgress
			s.EmittedKeys = map[string]time.Time{"stuck": noon}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.instance(1, func(i *cluster.Instance) { i.Registered.Memory = webNeeds.Memory }) // no room for a second
			w.service("log", 1, func(s *cluster.Service) {
				s.Strategy, s.MaxPercent = cluster.Daemon, 100
				prepare(s)
			})
			w.task("log", 1, "n-1")
			found := w.find(t)
			if len(found) == 0 || len(found[0].Help) == 0 {
				t.Fatalf("no problem with a remedy: %+v", found)
			}
			for _, h := range found[0].Help {
				if strings.Contains(h.Command, "--desired-count") || strings.Contains(h.Command, "maximumPercent=200") {
					t.Errorf("the API refuses %q", h.Command)
				}
			}
		})
	}
}

// A value that no instance has may be right, and its instances gone: the nearest one is an offer. A
// name that no instance has is a mistake.
func TestNearestValueIsAnOffer(t *testing.T) {
	for expression, want := range map[string]string{
		"attribute:rack == r2": "Use the nearest value instead, if that is right",
		"attribute:rak == r1":  "Correct the constraint",
	} {
		w := newWorld()
		w.instance(1)
		w.service("web", 1, func(s *cluster.Service) {
			s.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: expression}}
		})
		found := w.find(t)
		if len(found) == 0 || len(found[0].Help) == 0 || found[0].Help[0].What != want ||
			!strings.Contains(found[0].Help[0].Command, "attribute:rack == r1") {
			t.Errorf("%s: got %+v, want the remedy %q", expression, found, want)
		}
	}
}
