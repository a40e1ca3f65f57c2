package handler_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// metered creates a service of n RUNNING tasks with the metric connections.
func (w *world) metered(n int, load int64) []*cluster.Task {
	w.t.Helper()
	w.createAs(operation.CreateService{
		Cluster: prod, Name: "web", TaskDefinition: "web", Desired: &n,
		Rules: cluster.Rules{Metrics: []cluster.Metric{{Name: "connections", Load: load}}},
	})
	w.advance(time.Minute)
	return w.with(cluster.TaskRunning)
}

func (w *world) report(task string, load int64) error {
	_, err := w.api.Loads.ReportLoads(ctx, prod, []cluster.LoadReport{{Task: task,
		Loads: map[string]int64{"connections": load}}})
	return err
}

func TestLoads(t *testing.T) {
	t.Run("CountWhenTheirWindowEnds", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		task := w.metered(1, 10)[0]
		before := w.version()
		for _, load := range []int64{20, 30} { // the last of a window counts
			want(t, "error", w.report(task.ID, load), nil)
		}
		want(t, "reported at once", len(w.task(task.ID).Reported), 0)
		w.advance(2 * cluster.LoadWindow)
		want(t, "reported", w.task(task.ID).Reported["connections"], 30)
		want(t, "placement versions", w.version()-before, 1)
		want(t, "pending", len(rows[*state.PendingLoad](w, state.PrefixLoad)), 0)
	})
	t.Run("MetricByMetric", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		_, err := w.ruled(1, cluster.Rules{Metrics: []cluster.Metric{{Name: "io", Load: 1}, {Name: "mem", Load: 1}}})
		want(t, "error", err, nil)
		w.advance(time.Minute)
		id := w.with(cluster.TaskRunning)[0].ID
		for _, loads := range []map[string]int64{{"io": 90}, {"mem": 55}, {"io": 80}} {
			_, err := w.api.Loads.ReportLoads(ctx, prod, []cluster.LoadReport{{Task: id, Loads: loads}})
			want(t, "error", err, nil)
		}
		w.advance(2 * cluster.LoadWindow)
		want(t, "reported", fmt.Sprint(w.task(id).Reported), "map[io:80 mem:55]")
	})
	t.Run("ManyTasksInOneWindow", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 4, 40960, 81920)
		tasks := w.metered(120, 1)
		for n, task := range tasks {
			want(t, "error", w.report(task.ID, int64(100+n)), nil)
		}
		w.advance(2 * cluster.LoadWindow)
		for n, task := range tasks {
			want(t, "load of "+task.ID, w.task(task.ID).Reported["connections"], int64(100+n))
		}
	})
	t.Run("TheSameLoadWritesNothing", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		task := w.metered(1, 10)[0]
		want(t, "error", w.report(task.ID, 20), nil)
		w.advance(2 * cluster.LoadWindow)
		rev := w.task(task.ID).Rev
		want(t, "error", w.report(task.ID, 20), nil)
		w.advance(2 * cluster.LoadWindow)
		want(t, "revision", w.task(task.ID).Rev, rev)
	})
	t.Run("SurviveAFailure", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		task := w.metered(1, 10)[0]
		want(t, "error", w.report(task.ID, 20), nil)
		failures := 2
		w.state.beforeCommit = func(state.Commit) error {
			if failures > 0 {
				failures--
				return errors.New("down")
			}
			return nil
		}
		w.advance(3 * time.Minute)
		w.minute()
		want(t, "reported", w.task(task.ID).Reported["connections"], 20)
	})
	t.Run("OfATaskThatHasStoppedAreDropped", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		task := w.metered(1, 10)[0]
		want(t, "error", w.report(task.ID, 20), nil)
		w.ecs.exit(w.ecs.live()[0], 1)
		w.pump()
		w.advance(2 * cluster.LoadWindow)
		want(t, "reported", len(w.task(task.ID).Reported), 0)
		missing, err := w.api.Loads.ReportLoads(ctx, prod,
			[]cluster.LoadReport{{Task: task.ID, Loads: map[string]int64{"connections": 1}}})
		want(t, "error", err, nil)
		want(t, "missing", fmt.Sprint(missing), fmt.Sprint([]cluster.Failure{{ARN: task.ID, Reason: "MISSING"}}))
	})
	t.Run("ByEvent", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		task := w.metered(1, 10)[0]
		other := bytes.Replace(loadEvent(w.clock.Now(), task.ID, 5), []byte("connections"), []byte("nothing"), 1)
		w.observe(loadEvent(w.clock.Now(), task.ID, 77), loadEvent(w.clock.Now(), "f00d", 5), other)
		w.observe(loadEvent(w.clock.Now(), task.ID, 77))
		w.advance(2 * cluster.LoadWindow)
		want(t, "reported", fmt.Sprint(w.task(task.ID).Reported), "map[connections:77]")
	})
	t.Run("AnOlderOrRepeatedReportChangesNothing", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		task := w.metered(1, 10)[0]
		reported := func(what string, load int64, events ...[]byte) {
			t.Helper()
			w.observe(events...)
			w.advance(2 * cluster.LoadWindow)
			want(t, what, w.task(task.ID).Reported["connections"], load)
		}
		first := loadEvent(w.clock.Now(), task.ID, 77)
		reported("the first", 77, first)
		second := loadEvent(w.clock.Now(), task.ID, 88)
		reported("the second, then the first again", 88, second, first)
		reported("the first again, a window later", 88, first)
		reported("both once more", 88, second, first)
		reported("one from the future counts as of now", 99, loadEvent(w.clock.Now().Add(time.Hour), task.ID, 99))
		reported("and does not hide the next", 66, loadEvent(w.clock.Now(), task.ID, 66))
		w.advance(2 * cluster.MaxReportAge)
		reported("one that nobody remembers is too old", 66, second)
	})
	t.Run("Refused", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		task := w.metered(1, 10)[0]
		wantCode(t, w.report(task.ID, -1), cluster.CodeInvalidParameter, "between 0")
		_, err := w.api.Loads.ReportLoads(ctx, prod, []cluster.LoadReport{{Task: task.ID,
			Loads: map[string]int64{"sessions": 1}}})
		wantCode(t, err, cluster.CodeInvalidParameter, "has no metric \"sessions\", only: connections")
		want(t, "pending", len(rows[*state.PendingLoad](w, state.PrefixLoad)), 0)
	})
}

// loadEvent is a report that the task made at that time, as the bus delivers it.
func loadEvent(at time.Time, task string, load int64) []byte {
	return []byte(fmt.Sprintf(`{"source":"berth.load","detail-type":"Task Load Report","time":%q,"detail":{"clusterArn":"arn:aws:ecs:eu-west-1:123456789012:cluster/%s",`+
		`"taskArn":"arn:aws:ecs:eu-west-1:123456789012:task/%s/%s","loads":{"connections":%d}}}`,
		at.UTC().Format(time.RFC3339), prod, prod, task, load))
}

// An instance that ECS refuses although its row looks fine is checked at once, so that it is not
// chosen again and again.
func TestDispatch_RechecksAnInstanceThatRefuses(t *testing.T) {
	w := newWorld(t)
	ids := w.instances("i", 2, 4096, 8192)
	w.ecs.mute = true // nobody tells of it
	w.ecs.change(ids[0], func(i *cluster.Instance) { i.AgentConnected = false })
	w.ecs.mute = false
	w.create("web", "web", 4)
	w.advance(5 * time.Minute)
	want(t, "instance available", w.instance(ids[0]).IsAvailable(), false)
	want(t, "tasks on the other", placed(w.with(cluster.TaskRunning))[ids[1]], 4)
	if n := len(w.ecs.starts); n > 4 { // twice on both, and twice more on the one that is left
		t.Errorf("%d StartTask calls, at most 4 are needed", n)
	}
}
