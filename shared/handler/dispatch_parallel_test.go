package handler_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/dispatch"
)

// lockedECS lets several goroutines call a fakeECS. It counts how many calls go on at the same time.
type lockedECS struct {
	handler.ECS
	mu            sync.Mutex
	calling, most int
	everyNth      int // of the StartTask calls is throttled; 0 for none
	starts        int
}

// call makes a call after others have had the time to begin, too.
func (e *lockedECS) call(f func()) {
	e.mu.Lock()
	e.calling++
	e.most = max(e.most, e.calling)
	e.mu.Unlock()
	for range 1000 {
		runtime.Gosched()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calling--
	f()
}

func (e *lockedECS) StartTask(ctx context.Context, c cluster.StartCall) (answer cluster.StartAnswer, err error) {
	e.call(func() {
		if e.starts++; e.everyNth > 0 && e.starts%e.everyNth == 0 {
			err = throttled
			return
		}
		answer, err = e.ECS.StartTask(ctx, c)
	})
	return answer, err
}

func (e *lockedECS) StopTask(ctx context.Context, clusterName, ecsID, reason string) (err error) {
	e.call(func() { err = e.ECS.StopTask(ctx, clusterName, ecsID, reason) })
	return err
}

func (e *lockedECS) ListTasks(ctx context.Context, f cluster.TaskFilter) (ids []string, err error) {
	e.call(func() { ids, err = e.ECS.ListTasks(ctx, f) })
	return ids, err
}

func (e *lockedECS) DescribeTasks(
	ctx context.Context, clusterName string, ids []string,
) (tasks []cluster.ECSTask, err error) {
	e.call(func() { tasks, err = e.ECS.DescribeTasks(ctx, clusterName, ids) })
	return tasks, err
}

// dispatch makes the calls of an outbox row in several goroutines, as the function on AWS does. Run
// with -race, this test shows what they share.
func TestDispatch_InParallel(t *testing.T) {
	for name, everyNth := range map[string]int{"Starts": 0, "ThrottledStarts": 3} {
		t.Run(name, func(t *testing.T) {
			const tasks = 60
			w := newWorld(t)
			ecs := &lockedECS{ECS: w.ecs, everyNth: everyNth}
			w.dispatch = &dispatch.Handler{State: w.store, ECS: ecs, Clock: w.clock, Settings: w.dispatch.Settings,
				Telemetry: &handler.Telemetry{}, Parallel: handler.InParallel(10)}
			w.instances("i", tasks, 256, 512)
			w.create("web", "web", tasks)
			w.pump()
			w.advance(5 * time.Minute)
			w.agree(t, tasks)
			if ecs.most < 2 || ecs.most > 10 {
				t.Errorf("%d calls went on at the same time, want 2 to 10", ecs.most)
			}
			ecs.most = 0
			w.scale("web", 0)
			w.pump()
			w.advance(5 * time.Minute)
			w.agree(t, 0)
			if ecs.most < 2 || ecs.most > 10 {
				t.Errorf("%d stops went on at the same time, want 2 to 10", ecs.most)
			}
		})
	}
}
