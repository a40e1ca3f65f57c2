package problem_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/cmd/berth/problem"
	"berth/shared/cluster"
)

// The last remedy of a drain that waits undoes what began it: nothing else lets the instance take
// tasks again for long.
func TestTheRemedyOfADrain(t *testing.T) {
	for name, c := range map[string]struct {
		begun func(w *world)
		want  string
	}{
		"OfAUser": {func(w *world) {}, "aws ecs update-container-instances-state --cluster prod --status ACTIVE"},
		"OfAnUpgrade": {func(w *world) {
			k := w.capacity()
			k.Updates["workers"] = &cluster.Update{NodeGroup: "workers", ID: "u-1", Status: cluster.UpdateInProgress,
				NodeReplacement: cluster.NodeReplacement{Removals: []cluster.NodeRemoval{{Instance: "i-1", Node: "n-1",
					Step: cluster.StepDrain, StepSince: noon, DrainingAt: noon}}}}
		}, "berth upgrade workers --cluster prod"},
		"OfAnUpgradeThatHasEnded": {func(w *world) {
			k := w.capacity()
			k.Updates["workers"] = &cluster.Update{NodeGroup: "workers", ID: "u-1", Status: cluster.UpdateSuccessful,
				NodeReplacement: cluster.NodeReplacement{Removals: []cluster.NodeRemoval{{Instance: "i-1", Node: "n-1"}}}}
		}, "aws ecs update-container-instances-state --cluster prod --status ACTIVE"},
		"OfConsolidation": {func(w *world) {
			h := &cluster.ScalingHistory{Provider: "spot"}
			h.Drains = []cluster.Drain{{Instance: "n-1", At: noon}}
			w.capacity().Histories["spot"] = h
		}, "berth consolidate spot --off --cluster prod"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.instance(1, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
			w.instance(2)
			w.service("web", 1)
			w.task("web", 1, "n-1")
			w.rows = append(w.rows, &cluster.Protection{Head: w.head(), Owner: "web-short", Task: "t-1",
				Until: noon.Add(time.Hour)})
			c.begun(w)
			all := w.find(t)
			at := slices.IndexFunc(all, func(p problem.Problem) bool { return p.Kind == problem.DrainWaits })
			if at < 0 {
				t.Fatalf("no drain waits: %+v", all)
			}
			help := all[at].Help
			if got := help[len(help)-1].Command; !strings.HasPrefix(got, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
			if !strings.Contains(help[0].Command, "--no-protection-enabled --tasks t-1") {
				t.Errorf("%+v, want the end of the protection first", help)
			}
		})
	}
}

// Of what keeps tasks on a draining instance, the remedies by which the least is lost come first: a
// change of the service, then of protections, of which one command ends all, then the end of a standalone task, and
// at last of the drain itself.
func TestTheOrderOfADrainsRemedies(t *testing.T) {
	w := newWorld()
	w.instance(1, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
	w.instance(2)
	w.task("batch", 1, "n-1", func(t *cluster.Task) { t.Service, t.Owner, t.TaskDefinition = "", "", "batch:1" })
	w.service("web", 2)
	w.service("api", 1, func(s *cluster.Service) { s.MaxPercent, s.Running = 100, 1 })
	w.task("api", 4, "n-1")
	for k := 2; k <= 3; k++ {
		w.task("web", k, "n-1")
		w.rows = append(w.rows, &cluster.Protection{Head: w.head(), Owner: "web-short", Task: fmt.Sprintf("t-%d", k),
			Until: noon.Add(time.Hour)})
	}
	all := w.find(t)
	at := slices.IndexFunc(all, func(p problem.Problem) bool { return p.Kind == problem.DrainWaits })
	if at < 0 {
		t.Fatalf("no drain waits: %+v", all)
	}
	var got []string
	for _, h := range all[at].Help {
		got = append(got, h.What+": "+h.Command)
	}
	want := []string{
		"Let service api replace its tasks: aws ecs update-service --cluster prod --service api --deployment-configuration " +
			"minimumHealthyPercent=50,maximumPercent=200",
		"End the protection of 2 tasks: aws ecs update-task-protection --cluster prod --no-protection-enabled --tasks t-2 t-3",
		"Stop standalone task t-1: aws ecs stop-task --cluster prod --task t-1",
		"Let it take tasks again: aws ecs update-container-instances-state --cluster prod --status ACTIVE " +
			"--container-instances n-1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
