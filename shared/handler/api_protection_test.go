package handler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// failures returns the reasons of failures by what they are about.
func failures(failed []cluster.Failure) string {
	out := map[string]string{}
	for _, f := range failed {
		out[f.ARN] = f.Reason
	}
	return fmt.Sprint(out)
}

func TestAPI_TaskProtection(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 8192, 16384)
	w.create("web", "web", 3)
	w.pump()
	ran := w.run(t, operation.SubmitTasks{})
	var ids []string
	for _, x := range w.tasks() {
		if x.Service == "web" {
			ids = append(ids, x.ID)
		}
	}
	store := func(id string) time.Time {
		t.Helper()
		got, failed, err := w.api.TaskProtections.DescribeTaskProtections(ctx, prod, []string{id})
		if err != nil || len(failed) > 0 {
			t.Fatal(failed, err)
		}
		return got[0].Until
	}
	t.Run("HoldsForItsTimeAndMovesTheVersion", func(t *testing.T) {
		version := w.version()
		got, failed, err := w.api.TaskProtections.ProtectTasks(ctx, prod, ids[:1], time.Hour)
		want(t, "error", err, nil)
		wantCount(t, "failures", failed, 0)
		want(t, "until", got[0].Until, w.clock.now.Add(time.Hour))
		row := rows[*cluster.Protection](w, state.PrefixProtection)[0]
		want(t, "row", fmt.Sprint(row.Task, row.Stamp), fmt.Sprint(ids[0], version+1))
		if row.Expires <= row.Until.Unix() {
			t.Error("the row goes before the protection does")
		}
		want(t, "state", store(ids[0]), w.clock.now.Add(time.Hour))
		want(t, "state of another", store(ids[1]), time.Time{})
		w.clock.now = w.clock.now.Add(time.Hour)
		want(t, "state afterwards", store(ids[0]), time.Time{})
	})
	t.Run("OfATaskThatIsNamedTwice", func(t *testing.T) {
		got, failed, err := w.api.TaskProtections.ProtectTasks(ctx, prod, []string{ids[0], w.task(ids[0]).ECSID},
			time.Minute)
		want(t, "error", err, nil)
		wantCount(t, "failures", failed, 0)
		wantCount(t, "protected", got, 2)
		want(t, "state", store(ids[0]), w.clock.now.Add(time.Minute))
	})
	t.Run("IsSetAgainAndRemoved", func(t *testing.T) {
		_, _, err := w.api.TaskProtections.ProtectTasks(ctx, prod, ids, time.Minute)
		want(t, "error", err, nil)
		_, _, err = w.api.TaskProtections.ProtectTasks(ctx, prod, ids, time.Hour)
		want(t, "error", err, nil)
		want(t, "state", store(ids[0]), w.clock.now.Add(time.Hour))
		version := w.version()
		got, _, err := w.api.TaskProtections.ProtectTasks(ctx, prod, ids, 0)
		want(t, "error", err, nil)
		wantCount(t, "tasks", got, 3)
		want(t, "state", store(ids[0]), time.Time{})
		want(t, "version", w.version(), version+1)
	})
	t.Run("IsForTasksOfServices", func(t *testing.T) {
		nobody := cluster.Digest("nobody")
		if _, err := w.api.Tasks.StopTask(ctx, prod, ids[2], ""); err != nil {
			t.Fatal(err)
		}
		version := w.version()
		_, failed, err := w.api.TaskProtections.ProtectTasks(ctx, prod, []string{nobody, ran.Tasks[0], ids[2]}, time.Hour)
		want(t, "error", err, nil)
		want(t, "failures", failures(failed), fmt.Sprint(map[string]string{nobody: "MISSING", ran.Tasks[0]: "TASK_NOT_VALID", ids[2]: "TASK_NOT_VALID"}))
		want(t, "version", w.version(), version)
	})
	t.Run("SeesWhatWasDecidedMeanwhile", func(t *testing.T) {
		spy, done := &spyState{Store: w.store}, false
		spy.beforeCommit = func(state.Commit) error {
			if !done {
				done = true
				w.decided("web", func(*cluster.Service) {}) // nothing that matters
				if _, err := w.store.Write(ctx, state.Write{Stop: &state.Stop{Task: state.KeyOf(w.task(ids[1])), Code: cluster.StopByScheduler}}); err != nil {
					return err
				}
				w.bump()
			}
			return nil
		}
		api := another(w.api.Dependencies)
		api.State = spy
		_, failed, err := api.TaskProtections.ProtectTasks(ctx, prod, ids[1:2], time.Hour)
		want(t, "error", err, nil)
		want(t, "failures", failures(failed), fmt.Sprint(map[string]string{ids[1]: "TASK_NOT_VALID"}))
	})
}

// A rollout waits for protected tasks, but not for a number of them that keeps growing.
func TestAPI_ProtectionDuringADeployment(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 8192, 16384)
	w.create("web", "web", 3)
	w.pump()
	var ids []string
	for _, x := range w.tasks() {
		ids = append(ids, x.ID)
	}
	slices.Sort(ids)
	w.decided("web", func(s *cluster.Service) { s.Deployment.State, s.Deployment.Running = cluster.RolloutCompleted, 3 })
	w.placementAsleep = true
	if _, err := w.update(operation.UpdateService{Name: "web", Force: true}); err != nil {
		t.Fatal(err)
	}
	protect := func(id string) string {
		t.Helper()
		_, failed, err := w.api.TaskProtections.ProtectTasks(ctx, prod, []string{id}, time.Hour)
		want(t, "error", err, nil)
		if len(failed) == 0 {
			return ""
		}
		return failed[0].Reason
	}
	want(t, "the first", protect(ids[0]), "")
	want(t, "the first, longer", protect(ids[0]), "")
	want(t, "another", protect(ids[1]), "DEPLOYMENT_BLOCKED")
	w.clock.now = w.clock.now.Add(time.Hour)
	want(t, "another, when the first is over", protect(ids[1]), "")
}

func TestAPI_ServiceThrottle(t *testing.T) {
	w := newWorld(t)
	s := w.create("web", "web", 1)
	_, none, err := w.api.Services.ServiceThrottle(ctx, prod, "web")
	if err != nil || none != nil {
		t.Fatal(none, err)
	}
	row := &cluster.Throttle{Head: cluster.Head{Cluster: prod, Rev: 1}, Owner: s.Short, Service: "web", Revisions: map[string]cluster.Backoff{
		s.Deployment.ID: {Step: 2, Failures: 3, Since: epoch, NextAttemptAt: epoch.Add(3 * time.Minute), Reason: "CannotPullContainerError"},
	}}
	if _, err := w.store.Write(ctx, state.Write{Put: row}); err != nil {
		t.Fatal(err)
	}
	_, got, err := w.api.Services.ServiceThrottle(ctx, prod, "web")
	want(t, "error", err, nil)
	want(t, "step", got.Revisions[s.Deployment.ID].Step, 2)
	_, _, err = w.api.Services.ServiceThrottle(ctx, prod, "none")
	wantCode(t, err, cluster.CodeServiceNotFound, "Service not found.")
}
