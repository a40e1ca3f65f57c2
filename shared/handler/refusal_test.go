package handler_test

import (
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// hidden makes ECS run a task that Berth has not heard of on an instance, which then has no room
// for more.
func (w *world) hidden(instance string, cpu, memory int64) {
	w.ecs.mute = true
	t := w.ecs.add(cluster.ECSTask{
		Cluster: prod, Instance: instance, TaskDefinition: "other:1", Needs: cluster.Resources{CPU: cpu * cluster.CPUUnit, Memory: memory},
	})
	w.ecs.tasks[t.ID].Last = cluster.TaskRunning
	w.ecs.mute = false
}

// asked returns the times since start at which ECS was asked to start a task on the instance.
func (w *world) asked(instance string) *[]time.Duration {
	at, start := &[]time.Duration{}, w.clock.now
	w.ecs.onStart = func(_ int, c cluster.StartCall) fault {
		if slices.Contains(c.Instances, instance) {
			if len(*at) > 100 {
				w.t.Fatal("it is tried again and again")
			}
			*at = append(*at, w.clock.now.Sub(start).Round(time.Minute))
		}
		return fault{}
	}
	return at
}

func TestPlacement_RefusedStarts(t *testing.T) {
	t.Run("GoElsewhereAtOnceWithoutABackoff", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.hidden("i000", 4096, 8192)
		w.asked("i000")
		w.create("web", "web", 2)
		w.advance(5 * time.Second)
		wantCount(t, "running on the other", w.with(cluster.TaskRunning), 2)
		for _, task := range w.with(cluster.TaskRunning) {
			want(t, "instance", task.Instance, "i001")
		}
		want(t, "failed", w.service("web").Service.Deployment.Failed, 0)
	})
	t.Run("TryTheInstanceLessAndLessOften", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.hidden("i000", 4096, 8192)
		at := w.asked("i000")
		w.create("web", "web", 3)
		w.advance(time.Hour)
		var minutes []int
		for _, d := range *at {
			minutes = append(minutes, int(d.Minutes()))
		}
		// Each refusal of three tasks is one attempt. The rows of the first are gone after an hour.
		if got := slices.Compact(minutes); !slices.Equal(got, []int{0, 1, 3, 7, 15, 25, 35, 45, 55}) {
			t.Fatalf("asked at minutes %v", got)
		}
		wantEvent(t, w.events("web"), "(service web) was unable to place a task because no container instance met all of its requirements. "+
			`The closest matching (container-instance i000) has insufficient CPU units available. `+
			"For more information, see the Troubleshooting section of the Amazon ECS Developer Guide. 0/1: 1 refused by ECS a while ago")
	})
	t.Run("AreMadeWhereTheReasonIsOver", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.hidden("i000", 4096, 8192)
		w.create("web", "web", 3)
		w.advance(30 * time.Second)
		clear(w.ecs.tasks)
		w.ecs.order = nil
		w.advance(31 * time.Second)
		wantCount(t, "running", w.with(cluster.TaskRunning), 3)
	})
	t.Run("OfADaemonAreDelayedToo", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.hidden("i000", 4096, 8192)
		at := w.asked("i000")
		w.createAs(operation.CreateService{Cluster: prod, Name: "log", TaskDefinition: "web:1", Strategy: cluster.Daemon})
		w.advance(150 * time.Second)
		if !slices.Equal(*at, []time.Duration{0, time.Minute}) {
			t.Fatalf("asked at %v", *at)
		}
		wantCount(t, "running on the other", w.with(cluster.TaskRunning), 1)
		want(t, "desired", w.service("log").Service.Desired, 2)
	})
}

// A task that never became RUNNING and that a sweep records as lost was lost by ECS: it is no
// failed start of its revision (S7).
func TestPlacement_LostStartsSlowNothingDown(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	w.ecs.frozen = true
	w.create("web", "web", 1)
	w.advance(time.Minute)
	lost := w.tasks()[0]
	clear(w.ecs.tasks)
	w.ecs.order = nil
	w.advance(15 * time.Minute)
	w.ecs.frozen = false
	w.sweep()
	w.advance(5 * time.Second)
	want(t, "code", w.task(lost.ID).StopCode, cluster.StopInfrastructure)
	want(t, "failed", w.service("web").Service.Deployment.Failed, 0)
	w.agree(t, 1)
}
