package handler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/operation"
	"berth/shared/scaling"
	"berth/shared/state"
)

func TestAPI_SubmitTasks(t *testing.T) {
	t.Run("GivesTheAnswerThatComesMeanwhile", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.clock.onSleep = w.pump
		tasks, failures, err := w.api.Tasks.SubmitTasks(ctx, complete(operation.SubmitTasks{Count: 3}))
		if err != nil {
			t.Fatal(err)
		}
		wantCount(t, "tasks", tasks, 3)
		wantCount(t, "failures", failures, 0)
		want(t, "time waited", w.clock.now.Sub(epoch), 50*time.Millisecond)
		want(t, "has an instance", tasks[0].Instance != "", true)
	})
	t.Run("GivesFailuresBesideTasks", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 512, 8192)
		w.clock.onSleep = w.pump
		tasks, failures, err := w.api.Tasks.SubmitTasks(ctx, complete(operation.SubmitTasks{Count: 3}))
		if err != nil {
			t.Fatal(err)
		}
		wantCount(t, "tasks", tasks, 2)
		wantCount(t, "failures", failures, 1)
	})
	t.Run("IsRefusedWithoutInstances", func(t *testing.T) {
		w := newWorld(t)
		w.clock.onSleep = w.pump
		_, _, err := w.api.Tasks.SubmitTasks(ctx, complete(operation.SubmitTasks{}))
		wantCode(t, err, cluster.CodeInvalidParameter, cluster.NoInstances)
	})
	t.Run("IsRefusedBeyondTheProvisioningLimit", func(t *testing.T) {
		w := newWorld(t, func(s *handler.Settings) { s.ProvisioningLimit = 0 })
		w.clock.onSleep = w.pump
		_, _, err := w.api.Tasks.SubmitTasks(ctx, complete(operation.SubmitTasks{Wait: "1m"}))
		wantCode(t, err, cluster.CodeClient, scaling.LimitExceeded)
	})
	t.Run("GivesTheSameAnswerForTheSameToken", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.clock.onSleep = w.pump
		spec := complete(operation.SubmitTasks{Count: 2, Token: "once", Params: "p"})
		first, _, err := w.api.Tasks.SubmitTasks(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		w.advance(time.Hour)
		second, _, err := w.api.Tasks.SubmitTasks(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		for n := range first {
			want(t, "id", second[n].ID, first[n].ID)
		}
		wantCount(t, "tasks", w.tasks(), 2)
		other := spec
		other.Params = "q"
		_, _, err = w.api.Tasks.SubmitTasks(ctx, other)
		wantCode(t, err, cluster.CodeConflict, "clientToken")
		wantConflict(t, err, first)
		started := spec
		started.Kind, started.Instances = cluster.StartTask, []string{"i000"}
		third, _, err := w.api.Tasks.SubmitTasks(ctx, started)
		if err != nil || third[0].ID == first[0].ID {
			t.Fatalf("a token of another operation: %v, %v", third, err)
		}
	})
	t.Run("GivesTheSameProvisionalAnswerForTheSameToken", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		spec := complete(operation.SubmitTasks{Count: 2, Token: "once", Params: "p"})
		first, _, err := w.api.Tasks.SubmitTasks(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		other := spec
		other.Params = "q"
		_, _, err = w.api.Tasks.SubmitTasks(ctx, other)
		wantConflict(t, err, first)
		for range 2 { // before and after it was answered
			second, _, err := w.api.Tasks.SubmitTasks(ctx, spec)
			if err != nil {
				t.Fatal(err)
			}
			want(t, "first id", second[0].ID, first[0].ID)
			want(t, "second id", second[1].ID, first[1].ID)
			w.pump()
		}
		wantCount(t, "tasks", w.tasks(), 2)
	})
	t.Run("KeepsTheIDsThatPlacementWasAboutToGiveOtherwise", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		var ids []string
		spec := complete(operation.SubmitTasks{Count: 2, Token: "once"})
		w.submit(t, spec)
		w.state.beforeCommit = func(state.Commit) error {
			w.state.beforeCommit = nil
			tasks, _, err := w.api.Tasks.SubmitTasks(ctx, spec) // runs out of time now
			for _, task := range tasks {
				ids = append(ids, task.ID)
			}
			return err
		}
		w.pump()
		wantCount(t, "ids", ids, 2)
		for _, id := range ids {
			want(t, "status", w.task(id).Status(), cluster.TaskRunning)
		}
		wantCount(t, "tasks", w.tasks(), 2)
	})
	for _, c := range []struct{ wait, refusal string }{
		{"10m", ""}, {"forever", ""}, {"", ""}, {"soon", "berth:wait"}, {"0s", "berth:wait"}, {"-1m", "berth:wait"},
		{"10", "berth:wait"},
	} {
		t.Run("WaitOf"+c.wait, func(t *testing.T) {
			w := newWorld(t)
			r, err := w.api.Tasks.SubmitRequest(ctx, complete(operation.SubmitTasks{Wait: c.wait}))
			if c.refusal != "" {
				wantCode(t, err, cluster.CodeInvalidParameter, c.refusal)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want(t, "waits", r.Wait, c.wait != "")
			want(t, "for a time", !r.WaitUntil.IsZero(), c.wait == "10m")
			want(t, "expires", r.Expires, epoch.Add(24*time.Hour).Unix())
		})
	}
}

func TestAPI_StopTask(t *testing.T) {
	stop := func(t *testing.T, w *world, id string) *cluster.Task {
		t.Helper()
		task, err := w.api.Tasks.StopTask(ctx, prod, id, "")
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	t.Run("AWaitingTaskIsStoppedAtOnce", func(t *testing.T) {
		w := newWorld(t)
		r := w.run(t, operation.SubmitTasks{Wait: "1h"})
		task := stop(t, w, r.Tasks[0])
		want(t, "status", task.Status(), cluster.TaskStopped)
		want(t, "code", task.StopCode, cluster.StopUserInitiated)
		w.pump()
		w.instances("i", 1, 4096, 8192)
		wantCount(t, "StartTask calls", w.ecs.starts, 0)
		want(t, "expires", w.task(r.Tasks[0]).Expires, epoch.Add(time.Hour).Unix())
	})
	t.Run("ThatIsAboutToStartFromWaiting", func(t *testing.T) {
		w := newWorld(t)
		r := w.run(t, operation.SubmitTasks{Wait: "1h"})
		w.state.beforeCommit = func(state.Commit) error {
			w.state.beforeCommit = nil
			_, err := w.api.Tasks.StopTask(ctx, prod, r.Tasks[0], "")
			return err
		}
		w.instances("i", 1, 4096, 8192)
		want(t, "status", w.task(r.Tasks[0]).Status(), cluster.TaskStopped)
		w.agree(t, 0)
	})
	t.Run("ThatRuns", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		r := w.run(t, operation.SubmitTasks{})
		task := stop(t, w, r.Tasks[0])
		want(t, "status", task.Status(), cluster.TaskStopping)
		want(t, "reason", task.Reason, "Task stopped by user")
		want(t, "status in the store", w.task(r.Tasks[0]).Status(), cluster.TaskStopping)
		w.pump()
		want(t, "status", w.task(r.Tasks[0]).Status(), cluster.TaskStopped)
		w.agree(t, 0)
	})
	t.Run("TwiceChangesNothing", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		r := w.run(t, operation.SubmitTasks{})
		stop(t, w, r.Tasks[0])
		before := w.units()
		want(t, "status", stop(t, w, r.Tasks[0]).Status(), cluster.TaskStopping)
		want(t, "write units", w.units(), before)
		w.pump()
		before = w.units()
		want(t, "status", stop(t, w, r.Tasks[0]).Status(), cluster.TaskStopped)
		want(t, "write units", w.units(), before)
		wantCount(t, "StopTask calls", w.ecs.stops, 1)
	})
	t.Run("ThatStopsByItselfMeanwhile", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		r := w.run(t, operation.SubmitTasks{})
		spy := &spyState{Store: w.store}
		spy.beforeCommit = func(state.Commit) error {
			spy.beforeCommit = nil
			w.ecs.exit(w.ecs.live()[0], 0)
			w.pump()
			return nil
		}
		w.api.State = spy
		task := stop(t, w, r.Tasks[0])
		want(t, "status", task.Status(), cluster.TaskStopped)
		want(t, "code", task.StopCode, cluster.StopContainerExited)
		wantCount(t, "outbox rows", w.outbox(), 0)
	})
	t.Run("ByECSsID", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		r := w.run(t, operation.SubmitTasks{})
		want(t, "id", stop(t, w, w.task(r.Tasks[0]).ECSID).ID, r.Tasks[0])
	})
	t.Run("OfForeignTasks", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		e := w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "i000", TaskDefinition: "other:1"})
		w.pump()
		stop(t, w, e.ID)
		w.pump()
		want(t, "status", w.task(e.ID).Status(), cluster.TaskStopped)
	})
	t.Run("UnknownIsRefused", func(t *testing.T) {
		w := newWorld(t)
		for _, id := range []string{"", "x", "0123456789abcdef0123456789abcdef"} {
			_, err := w.api.Tasks.StopTask(ctx, prod, id, "")
			wantCode(t, err, cluster.CodeInvalidParameter, "The referenced task was not found.")
		}
	})
}

func TestAPI_DescribeTasks(t *testing.T) {
	w := newWorld(t)
	waited := w.run(t, operation.SubmitTasks{Wait: "1h"})
	w.instances("i", 1, 4096, 8192)
	r := w.run(t, operation.SubmitTasks{})
	foreign := w.ecs.add(cluster.ECSTask{Cluster: prod, Instance: "i000", StartedBy: "me", TaskDefinition: "other:1"})
	stray := w.ecs.add(cluster.ECSTask{
		Cluster: prod, Instance: "i000", StartedBy: cluster.StartedBy(cluster.ShortKey(prod, "old", epoch), 7, 0),
		TaskDefinition: "web:1",
	})
	w.pump()
	own, alias := w.task(r.Tasks[0]), w.task(waited.Tasks[0])
	for _, c := range []struct{ name, by, id string }{
		{"ByItsID", own.ID, own.ID}, {"ByECSsID", own.ECSID, own.ID}, {"ByItsIDWhereItWaited", alias.ID, alias.ID},
		{"ByECSsIDWhereItWaited", alias.ECSID, alias.ID}, {"OfSomebodyElse", foreign.ID, foreign.ID},
		{"OfBerthWithoutARow", stray.ID, stray.ID},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, missing, err := w.api.Tasks.DescribeTasks(ctx, prod, []string{c.by})
			if err != nil || len(missing) > 0 || got[0].ID != c.id {
				t.Fatalf("got %v, %v, %v", show(got), missing, err)
			}
		})
	}
	t.Run("NamesWhatIsMissing", func(t *testing.T) {
		got, missing, err := w.api.Tasks.DescribeTasks(ctx, prod,
			[]string{"x", own.ID, "0123456789abcdef0123456789abcdef"})
		if err != nil {
			t.Fatal(err)
		}
		wantCount(t, "tasks", got, 1)
		wantCount(t, "missing", missing, 2)
	})
}

func TestAPI_ListTasks(t *testing.T) {
	w := newWorld(t)
	w.ecs.define(definition("job", 3, 128, 128))
	w.instances("i", 2, 4096, 8192)
	w.create("web", "web", 4)
	w.pump()
	jobs := w.run(t, operation.SubmitTasks{TaskDefinition: "job", Count: 2, StartedBy: "me"})
	waits := w.run(t, operation.SubmitTasks{TaskDefinition: "big", Wait: "1h"})
	w.ecs.exit(w.task(jobs.Tasks[1]).ECSID, 0)
	w.pump()
	ids := func(keep func(*cluster.Task) bool) (out []string) {
		for _, task := range w.tasks() {
			if keep(task) {
				out = append(out, task.ID)
			}
		}
		slices.Sort(out)
		return out
	}
	web := ids(func(t *cluster.Task) bool { return t.Service == "web" })
	live := ids(func(t *cluster.Task) bool { return !t.HasEnded() })
	wantCount(t, "live tasks", live, 6)
	for _, c := range []struct {
		name  string
		query operation.ListTasks
		want  []string
	}{
		{"All", operation.ListTasks{}, live},
		{"OfAService", operation.ListTasks{Service: "web"}, web},
		{"OfAFamily", operation.ListTasks{Family: "job"}, jobs.Tasks[:1]},
		{"OfNoFamily", operation.ListTasks{Family: "jo"}, nil},
		{"ByStarter", operation.ListTasks{StartedBy: "me"}, jobs.Tasks[:1]},
		{"ByDeployment", operation.ListTasks{StartedBy: w.service("web").Service.Deployment.ID}, web},
		{"Stopped", operation.ListTasks{Desired: cluster.TaskStopped}, jobs.Tasks[1:]},
		{"OnAnInstance", operation.ListTasks{Instance: "i001"},
			ids(func(t *cluster.Task) bool { return t.HoldsCapacity() && t.Instance == "i001" })},
		{"ThatWait", operation.ListTasks{Family: "big"}, waits.Tasks},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.query.Cluster = prod
			for _, c.query.Limit = range []int{0, 1, 3, len(c.want), len(c.want) + 1} {
				wantPages(t, w.api.Tasks, c.query, c.want)
			}
		})
	}
	t.Run("OfAnUnknownServiceIsRefused", func(t *testing.T) {
		_, err := w.api.Tasks.ListTasks(ctx, operation.ListTasks{Cluster: prod, Service: "none"})
		wantCode(t, err, cluster.CodeServiceNotFound, "Service not found.")
	})
}

// wantPages lists tasks page by page. The pages together have the tasks wanted; every page but the
// last is full; and the last one, which alone says that nothing follows, is empty only if no task
// matches.
func wantPages(t *testing.T, tasks *api.Tasks, q operation.ListTasks, wanted []string) {
	t.Helper()
	var all []string
	for {
		page, err := tasks.ListTasks(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.IDs...)
		isFull := len(page.IDs) == q.Limit
		if page.Next != "" && !isFull || page.Next == "" && len(page.IDs) == 0 && len(wanted) > 0 {
			t.Errorf("limit %d: a page of %d tasks is followed by another: %t", q.Limit, len(page.IDs), page.Next != "")
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	slices.Sort(all)
	if !slices.Equal(all, wanted) {
		t.Errorf("limit %d: got %v, want %v", q.Limit, all, wanted)
	}
}

// A countingStore counts the rows that lists return.
type countingStore struct {
	state.Store
	rows int
}

func (s *countingStore) List(ctx context.Context, r state.Range) ([]state.Row, error) {
	rows, err := s.Store.List(ctx, r)
	s.rows += len(rows)
	return rows, err
}

// A page costs as many rows as it has tasks, and one more, wherever it begins and whatever selects
// its tasks.
func TestAPI_ListTasksReadsWhatAPageNeeds(t *testing.T) {
	w := newWorld(t)
	const count = 2500
	for n := range count {
		owner := cluster.ShortKey(prod, strconv.Itoa(n%7), epoch)
		row := &cluster.Task{
			Head: cluster.Head{Cluster: prod},
			TaskSpec: cluster.TaskSpec{ID: cluster.RequestedTaskID(owner, "r", n), Owner: owner,
				TaskDefinition: fmt.Sprintf("web%d:1", n%5)},
			TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning, Instance: fmt.Sprint("i", n%4)},
		}
		if n%3 == 0 {
			row.Last = cluster.TaskStopped
		}
		if _, err := w.store.Write(ctx, state.Write{Put: row, Any: true}); err != nil {
			t.Fatal(err)
		}
	}
	counted := &countingStore{Store: w.store}
	tasks := &api.Tasks{Dependencies: &api.Dependencies{State: counted, Clock: w.clock}}
	for _, c := range []struct {
		name string
		q    operation.ListTasks
		want int
	}{
		{"Running", operation.ListTasks{}, 1666},
		{"Stopped", operation.ListTasks{Desired: cluster.TaskStopped}, 834},
		{"OnAnInstance", operation.ListTasks{Instance: "i1"}, 417},
		{"OfAFamily", operation.ListTasks{Family: "web3"}, 333},
		{"StoppedOfAFamily", operation.ListTasks{Family: "web3", Desired: cluster.TaskStopped}, 167},
		{"OfNoFamily", operation.ListTasks{Family: "web"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := map[string]bool{}
			for c.q.Cluster, c.q.Limit = prod, 100; ; {
				counted.rows = 0
				page, err := tasks.ListTasks(ctx, c.q)
				if err != nil || counted.rows > 101 {
					t.Fatalf("a page of 100 tasks reads %d rows, %v", counted.rows, err)
				}
				for _, id := range page.IDs {
					seen[id] = true
				}
				if c.q.After = page.Next; c.q.After == "" {
					break
				}
			}
			want(t, "tasks on all pages", len(seen), c.want)
		})
	}
}

func TestAPI_TaskTags(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	r := w.run(t, operation.SubmitTasks{Tags: map[string]string{"a": "1"}})
	version := w.task(r.Tasks[0]).Version
	spy := &spyState{Store: w.store}
	spy.beforeWrite = func(state.Write) error {
		spy.beforeWrite = nil
		w.ecs.report(w.ecs.live()[0], func(*cluster.ECSTask) {})
		w.pump()
		return nil
	}
	w.api.State = spy
	if err := w.api.Tags.TagResource(ctx, resource("task", r.Tasks[0]), map[string]string{"b": "2"},
		[]string{"a"}); err != nil {
		t.Fatal(err)
	}
	got, err := w.api.Tags.ResourceTags(ctx, resource("task", r.Tasks[0]))
	if err != nil || len(got) != 1 || got["b"] != "2" {
		t.Fatalf("tags %v, %v", got, err)
	}
	want(t, "version reported meanwhile", w.task(r.Tasks[0]).Version, version+1)
	wantCode(t, w.api.Tags.TagResource(ctx, resource("task", "none"), nil, nil), cluster.CodeInvalidParameter,
		"not found")
}

// wantConflict fails the test unless an error names the tasks.
func wantConflict(t *testing.T, err error, tasks []*cluster.Task) {
	t.Helper()
	var conflict *cluster.Error
	if !errors.As(err, &conflict) {
		t.Fatalf("error %v", err)
	}
	var ids []string
	for _, task := range tasks {
		ids = append(ids, task.ID)
	}
	want(t, "tasks of the conflict", fmt.Sprint(conflict.Resources), fmt.Sprint(ids))
}

// describing counts the calls of ECS's DescribeTasks, and answers them with err if it is set.
type describing struct {
	handler.ECS
	calls int
	err   error
}

func (d *describing) DescribeTasks(ctx context.Context, of string, ids []string) ([]cluster.ECSTask, error) {
	if d.calls++; d.err != nil {
		return nil, d.err
	}
	return d.ECS.DescribeTasks(ctx, of, ids)
}

// ECS is asked once about all tasks that Berth does not know, and not at all if it knows each. While ECS
// does not answer, nothing unknown is called MISSING.
func TestAPI_AsksECSOnceAboutUnknownTasks(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	task := w.metered(1, 10)[0]
	unknown := []string{task.ECSID, task.ECSID} // given twice, it is asked about once
	for n := range 97 {
		unknown = append(unknown, fmt.Sprintf("%032x", n))
	}
	spy := &describing{ECS: w.ecs}
	w.api.ECS = spy
	for name, call := range map[string]func(ids []string) (found, missing int, err error){
		"DescribeTasks": func(ids []string) (int, int, error) {
			found, missing, err := w.api.Tasks.DescribeTasks(ctx, prod, ids)
			return len(found), len(missing), err
		},
		"GetTaskProtection": func(ids []string) (int, int, error) {
			found, missing, err := w.api.TaskProtections.DescribeTaskProtections(ctx, prod, ids)
			return len(found), len(missing), err
		},
		"UpdateTaskProtection": func(ids []string) (int, int, error) {
			found, missing, err := w.api.TaskProtections.ProtectTasks(ctx, prod, ids, time.Hour)
			return len(found), len(missing), err
		},
		"ReportLoad": func(ids []string) (int, int, error) {
			var reports []cluster.LoadReport
			for _, id := range ids {
				reports = append(reports, cluster.LoadReport{Task: id, Loads: map[string]int64{"connections": 1}})
			}
			missing, err := w.api.Loads.ReportLoads(ctx, prod, reports)
			return len(ids) - len(missing), len(missing), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(ids []string, calls, found, missing int) {
				t.Helper()
				spy.calls = 0
				gotFound, gotMissing, err := call(ids)
				want(t, "error", err, nil)
				want(t, "calls to ECS", spy.calls, calls)
				want(t, "found and missing", fmt.Sprint(gotFound, gotMissing), fmt.Sprint(found, missing))
			}
			check(append([]string{task.ID}, unknown...), 1, 3, 97)
			spy.err = throttled
			defer func() { spy.err = nil }()
			check([]string{task.ID}, 0, 1, 0)
			_, _, err := call(append([]string{task.ID}, unknown...))
			wantCode(t, err, cluster.CodeThrottling, "Rate exceeded")
		})
	}
}
