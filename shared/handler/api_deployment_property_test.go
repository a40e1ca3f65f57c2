package handler_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// history is what has happened to a service, as its users and the scheduler know it.
type history struct {
	*world
	releases  []string        // ids, oldest first
	completed map[string]bool // deployments that once were
}

func (h *history) now() *cluster.Service { return h.service("web").Service }

// updates forces a deployment, or changes something that starts none.
func (h *history) updates(rt *rapid.T) {
	before := h.now()
	c := operation.UpdateService{Cluster: prod, Name: "web"}
	switch rapid.IntRange(0, 3).Draw(rt, "change") {
	case 0:
		c.Force = true
	case 1:
		c.TaskDefinition = rapid.SampledFrom([]string{"web", "big"}).Draw(rt, "definition")
	case 2:
		c.Desired = new(rapid.IntRange(0, 9).Draw(rt, "desired"))
	case 3:
		c.Grace = new(rapid.IntRange(0, 9).Draw(rt, "grace"))
	}
	d, err := h.api.Services.UpdateService(ctx, c)
	deploys := c.Force || c.TaskDefinition != "" && c.TaskDefinition+":1" != before.Deployment.TaskDefinition
	switch {
	case err != nil && deploys && len(before.Older) == cluster.MaxOlder && cluster.ErrorCode(err) == cluster.CodeClient:
	case err != nil:
		rt.Fatal(err)
	case deploys != (d.Service.Deployment.ID != before.Deployment.ID):
		rt.Fatalf("%+v: deployment %s after %s", c, d.Service.Deployment.ID, before.Deployment.ID)
	case deploys:
		h.releases = append(h.releases, d.Service.Release.ID)
	}
}

// decides changes the row as placement might.
func (h *history) decides(rt *rapid.T) {
	h.decided("web", func(s *cluster.Service) {
		r := *s.Release
		s.Release = &r
		switch rapid.IntRange(0, 2).Draw(rt, "decision") {
		case 0:
			s.Deployment.State, s.Deployment.Running, s.Older, s.Last = cluster.RolloutCompleted, s.Desired, nil, nil
			r.Status = cluster.DeploymentSuccessful
			h.completed[s.Deployment.ID] = true
		case 1:
			s.Deployment.Running = rapid.IntRange(0, s.Desired).Draw(rt, "running")
		case 2:
			if n := len(s.Older); n > 0 {
				s.Older = slices.Clone(s.Older[:n-1])
			}
		}
	})
}

func (h *history) stops(rt *rapid.T) {
	before := *h.now().Release
	way := h.now().Last != nil
	how := rapid.SampledFrom([]cluster.StopType{cluster.StopAbort, cluster.StopRollback}).Draw(rt, "how")
	id := rapid.SampledFrom(h.releases).Draw(rt, "release")
	err := h.api.Deployments.StopServiceDeployment(ctx, operation.RecordRef{Cluster: prod, Service: "web", ID: id}, how)
	after := h.now().Release
	fine := id == before.ID && !before.Status.HasEnded() && (before.Stop == "" || before.Stop == how) && (how == cluster.StopAbort || way)
	if fine != (err == nil) {
		rt.Fatalf("%s of %s, which is %s: %v", how, id, before.Status, err)
	}
	switch {
	case fine && (after.Stop != how || after.ID != id || after.Status.HasEnded() || after.Status == before.Status && before.Stop == ""):
		rt.Fatalf("%s: %s, to stop by %q, after %s", how, after.Status, after.Stop, before.Status)
	case !fine && (after.Stop != before.Stop || after.Status != before.Status):
		rt.Fatalf("%s was refused, and changed %s, to stop by %q, to %s, to stop by %q", how, before.Status, before.Stop, after.Status, after.Stop)
	}
}

// holds checks what must be true after any history.
func (h *history) holds(rt *rapid.T) {
	s := h.now()
	ids := map[string]bool{s.Deployment.ID: true}
	for _, d := range s.Older {
		if ids[d.ID] || d.Desired < 0 {
			rt.Fatalf("deployment %s twice, or with %d tasks", d.ID, d.Desired)
		}
		ids[d.ID] = true
	}
	if len(s.Older) > cluster.MaxOlder {
		rt.Fatalf("%d older deployments", len(s.Older))
	}
	if s.Last != nil && (!h.completed[s.Last.ID] || s.Last.ID == s.Deployment.ID) {
		rt.Fatalf("the way back %s never was completed, or is where the service is", s.Last.ID)
	}
	all, more, err := h.api.Deployments.ListServiceDeployments(ctx, operation.ListServiceDeployments{Cluster: prod, Service: "web", Limit: 1000})
	if err != nil || more || len(all) != len(h.releases) {
		rt.Fatalf("%d service deployments of %d, %v", len(all), len(h.releases), err)
	}
	for n, d := range all {
		if want := h.releases[len(h.releases)-1-n]; d.ID != want {
			rt.Fatalf("service deployment %d is %s, want %s", n, d.ID, want)
		}
		if n > 0 && !d.Status.HasEnded() {
			rt.Fatalf("service deployment %s is %s, though another came after it", d.ID, d.Status)
		}
		digits := (&cluster.Revision{ID: d.Target}).IDDigits()
		found, _, err := h.api.Deployments.DescribeServiceRevisions(ctx, []operation.RecordRef{{Cluster: prod, Service: "web", ID: digits}})
		if err != nil || len(found) != 1 || found[0].ID != d.Target {
			rt.Fatalf("revision %s is not there: %v", d.Target, err)
		}
	}
}

// Whatever happens to a service, its deployments have different ids, each is in the history once,
// newest first, and the revision to roll back to was completed.
func TestAPI_DeploymentHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{world: newWorld(t), completed: map[string]bool{}}
		h.releases = []string{h.create("web", "web", 3).Release.ID}
		rt.Repeat(map[string]func(*rapid.T){
			"Update": h.updates, "Decide": h.decides, "Stop": h.stops, "": h.holds,
			"Wait": func(rt *rapid.T) {
				h.clock.now = h.clock.now.Add(time.Duration(rapid.IntRange(1, 1000).Draw(rt, "milliseconds")) * time.Millisecond)
			},
		})
	})
}
