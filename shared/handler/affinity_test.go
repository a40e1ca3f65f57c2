package handler_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// apart returns how many wanted tasks of the service side have no wanted task of web beside them.
func (w *world) apart() (n int) {
	on := map[string]bool{}
	for _, task := range w.wanted() {
		on[task.Service+" "+task.Instance] = true
	}
	for _, task := range w.wanted() {
		if task.Service == "side" && !on["web "+task.Instance] {
			n++
		}
	}
	return n
}

// besideWeb creates the service side, whose tasks are to be beside those of web.
func (w *world) besideWeb(n int) *cluster.Service {
	return w.createAs(operation.CreateService{Cluster: prod, Name: "side", TaskDefinition: "web", Desired: &n,
		Rules: cluster.Rules{Affinity: "web"}})
}

func TestPlacement_Affinity(t *testing.T) {
	begin := func(t *testing.T, rules cluster.Rules) (*world, []string) {
		w := newWorld(t)
		ids := w.instances("i", 4, 4096, 8192)
		for n, id := range ids {
			w.attribute(id, "berth.property.Disk", []string{"hdd", "hdd", "ssd", "ssd"}[n])
		}
		_, err := w.ruled(2, rules)
		want(t, "error", err, nil)
		w.besideWeb(2)
		w.advance(5 * time.Minute)
		wantCount(t, "tasks running at first", w.with(cluster.TaskRunning), 4)
		want(t, "tasks apart at first", w.apart(), 0)
		return w, ids
	}
	t.Run("WaitsForTheParent", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 4, 4096, 8192)
		w.create("web", "web", 0)
		w.besideWeb(2)
		w.advance(time.Minute)
		want(t, "instances with tasks before the parent has one", len(placed(w.tasks())), 0)
		blocked := w.service("side").Service.Blocked
		want(t, "why", blocked != nil && blocked.Rejected[0].Filter == cluster.FilterAffinity, true)
		w.scale("web", 1)
		w.advance(5 * time.Minute)
		wantCount(t, "tasks with a parent", w.with(cluster.TaskRunning), 3)
		want(t, "tasks apart", w.apart(), 0)
	})
	t.Run("FollowsAConstraintOfTheParent", func(t *testing.T) {
		w, ids := begin(t, cluster.Rules{NodeConstraint: "Disk == hdd"})
		least := w.watch()
		_, err := w.api.Services.UpdateRules(ctx, prod, "web", map[string]string{"berth:constraint": "Disk == ssd"})
		want(t, "error", err, nil)
		on := w.rest(4)
		want(t, "tasks where the parent may be", on[ids[2]]+on[ids[3]], 4)
		want(t, "tasks apart", w.apart(), 0)
		want(t, "fewest running", least(), 4)
		wantEvent(t, w.events("side"), "is to be beside a task of service web")
	})
	t.Run("FollowsWhenTheParentIsDrained", func(t *testing.T) {
		w, ids := begin(t, cluster.Rules{})
		for _, id := range ids[:3] {
			w.drain(id)
		}
		w.advance(10 * time.Minute)
		want(t, "tasks on the instance that is left", placed(w.wanted())[ids[3]], 4)
		want(t, "tasks apart", w.apart(), 0)
	})
	t.Run("FollowsWhenTheParentIsScaledIn", func(t *testing.T) {
		w, _ := begin(t, cluster.Rules{})
		w.scale("web", 1)
		w.rest(3)
		want(t, "tasks apart", w.apart(), 0)
	})
	t.Run("IsRepairedWhenItIsSet", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 4, 4096, 8192)
		w.create("web", "web", 2)
		w.create("side", "web", 4)
		w.advance(5 * time.Minute)
		want(t, "tasks apart at first", w.apart(), 2)
		_, err := w.api.Services.UpdateRules(ctx, prod, "side", map[string]string{cluster.TagAffinity: "web"})
		want(t, "error", err, nil)
		w.rest(6)
		want(t, "tasks apart", w.apart(), 0)
	})
	// With priority 1 the child would rather be placed apart than wait, and comes back later.
	t.Run("SoftPriority", func(t *testing.T) {
		w := newWorld(t)
		want(t, "error", w.api.Configurations.PutConfiguration(ctx, &cluster.Configuration{
			Head: cluster.Head{Cluster: prod}, Priorities: cluster.Priorities{Affinity: 1}}), nil)
		w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 0)
		w.besideWeb(1)
		w.advance(time.Minute)
		wantCount(t, "tasks without a parent", w.with(cluster.TaskRunning), 1)
		w.scale("web", 1)
		w.advance(10 * time.Minute)
		want(t, "tasks apart", w.apart(), 0)
	})
	t.Run("EndsWithTheParent", func(t *testing.T) {
		w, _ := begin(t, cluster.Rules{})
		_, err := w.api.Services.DeleteService(ctx, prod, "web", true)
		want(t, "error", err, nil)
		w.advance(5 * time.Minute)
		w.scale("side", 3)
		w.advance(5 * time.Minute)
		want(t, "running", w.service("side").Service.Running, 3)
	})
}

func TestAPI_Affinity(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 4096, 8192)
	w.create("web", "web", 1)
	w.besideWeb(1)
	for name, c := range map[string]struct {
		service, parent, has string
	}{
		"Itself":        {"web", "web", "names the service itself"},
		"Unknown":       {"side", "nothing", "expected an ACTIVE service of the cluster."},
		"Misspelt":      {"side", "wbe", `names "wbe", expected an ACTIVE service of the cluster; did you mean "web"?`},
		"Chain":         {"other", "side", "has an affinity to service web itself"},
		"ParentOfOther": {"web", "other", "service side has one to it"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.service == "other" || c.parent == "other" {
				w.create("other", "web", 1)
				defer func() {
					_, err := w.api.Services.DeleteService(ctx, prod, "other", true)
					want(t, "error", err, nil)
					w.advance(5 * time.Minute)
				}()
			}
			before := w.service(c.service).Service.Rules
			_, err := w.api.Services.UpdateRules(ctx, prod, c.service, map[string]string{cluster.TagAffinity: c.parent})
			wantCode(t, err, cluster.CodeInvalidParameter, c.has)
			want(t, "affinity", w.service(c.service).Service.Rules.Affinity, before.Affinity)
		})
	}
	_, err := w.api.Services.CreateService(ctx, operation.CreateService{Cluster: prod, Name: "agent",
		TaskDefinition: "web", Strategy: cluster.Daemon, Rules: cluster.Rules{Affinity: "web"}})
	wantCode(t, err, cluster.CodeInvalidParameter, "does not support the tag berth:affinity")
}
