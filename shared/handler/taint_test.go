package handler_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// taint gives an instance taints, as ECS reports it.
func (w *world) taint(id, taints string) {
	w.ecs.change(id, func(i *cluster.Instance) {
		i.Attributes = map[string]string{cluster.AttributeTaints: taints}
	})
	w.advance(5 * time.Minute)
}

func tolerating(text string) cluster.Rules {
	tolerations, err := cluster.ReadTolerations(text)
	if err != nil {
		panic(err)
	}
	return cluster.Rules{Tolerations: tolerations}
}

// A taint keeps new tasks away. NO_SCHEDULE leaves those that run, also of DAEMON services;
// NO_EXECUTE moves a service's tasks elsewhere, and leaves standalone ones,
// as on a DRAINING instance. Tasks that tolerate the taint stay and come.
func TestPlacement_Taints(t *testing.T) {
	begin := func(t *testing.T) (*world, string) {
		w := newWorld(t)
		ids := w.instances("i", 2, 4096, 8192)
		w.create("web", "web", 4)
		w.createAs(operation.CreateService{Cluster: prod, Name: "agent", TaskDefinition: "web",
			Strategy: cluster.Daemon})
		w.advance(time.Minute)
		return w, ids[0]
	}
	on := func(w *world, service, instance string) (n int) {
		for _, task := range w.with(cluster.TaskRunning) {
			if task.Service == service && task.Instance == instance {
				n++
			}
		}
		return n
	}
	t.Run("NoSchedule", func(t *testing.T) {
		w, id := begin(t)
		w.taint(id, "a:b:NO_SCHEDULE")
		want(t, "tasks there", on(w, "web", id), 2)
		want(t, "daemons there", on(w, "agent", id), 1)
		w.create("more", "web", 4)
		w.createAs(operation.CreateService{Cluster: prod, Name: "tolerant", TaskDefinition: "web", Desired: new(2),
			Rules: tolerating("a")})
		w.advance(time.Minute)
		want(t, "new tasks there", on(w, "more", id), 0)
		want(t, "new tasks that tolerate it there", on(w, "tolerant", id), 1)
	})
	t.Run("NoExecute", func(t *testing.T) {
		w, id := begin(t)
		w.createAs(operation.CreateService{Cluster: prod, Name: "tolerant", TaskDefinition: "web", Desired: new(2),
			Rules: tolerating("a=b:NO_EXECUTE")})
		w.run(t, operation.SubmitTasks{Count: 2})
		w.advance(time.Minute)
		alone := on(w, "", id)
		w.taint(id, "a:b:NO_EXECUTE")
		want(t, "tasks there", on(w, "web", id), 0)
		want(t, "daemons there", on(w, "agent", id), 0)
		want(t, "standalone tasks there", on(w, "", id), alone)
		want(t, "tasks that tolerate it there", on(w, "tolerant", id), 1)
		want(t, "running", w.service("web").Service.Running, 4)
		w.taint(id, "")
		want(t, "daemons once it is removed", on(w, "agent", id), 1)
	})
}
