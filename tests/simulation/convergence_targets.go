package simulation

import (
	"context"
	"time"

	"berth/shared/cluster"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/model"
)

// checkDrained checks that a task that the scheduler stops has left its target groups, and that its
// connections are drained (S9).
func (w *World) checkDrained(ecsID string) {
	key, ok := w.checker.ByECSID[ecsID]
	t, is := w.checker.Rows[key].(*cluster.Task)
	if !ok || !is || t.StopCode != cluster.StopByScheduler || t.Last != cluster.TaskRunning {
		return
	}
	row := w.checker.TargetOf(t)
	if row == nil {
		return
	}
	for _, r := range row.Registrations {
		switch {
		case r.State == cluster.Registered &&
			w.Loop.Now().Sub(w.checker.Changes[key].At)+w.checker.ClockSkew > maxDrainWait:
			// it could not be deregistered, or that could not be recorded
		case r.State == cluster.Registered:
			w.checker.Fail("invariant 3: task %s is stopped while it is registered with %s", t.ID, r.ARN)
		case r.State == cluster.Deregistered && r.DrainedAt.Sub(w.Loop.Now()) > max(time.Minute, w.checker.ClockSkew):
			w.checker.Fail("invariant 3: task %s is stopped while connections to it are drained until %s", t.ID,
				r.DrainedAt)
		case r.State == cluster.Deregistered:
			w.cover(coverage.Drained)
		}
	}
}

// checkRegistrations checks that at rest exactly those tasks are in the target groups and in Cloud
// Map that should be.
func (w *World) checkRegistrations() {
	for _, arn := range []string{w.instanceTargets, w.addressTargets} {
		got, err := w.AWS.TargetGroups.TargetHealth(context.Background(), arn)
		if err != nil {
			w.checker.Fail("reading %s: %v", arn, err)
			continue
		}
		want := w.expectedTargets(arn)
		for at, id := range want {
			if _, ok := got[at]; !ok {
				w.checker.Fail("invariant 8: task %s at %v is not registered with %s", id, at, arn)
			}
		}
		for at, h := range got {
			if want[at] == "" {
				w.checker.Fail("invariant 8: %v is registered with %s (%v), and no task should be there", at, arn, h)
			}
		}
	}
	found, err := w.AWS.Registries.InstancesHealth(context.Background(), w.registry)
	if err != nil {
		w.checker.Fail("reading %s: %v", w.registry, err)
	}
	if want := w.expectedTargets(w.registry); len(found) != len(want) {
		w.checker.Fail("invariant 8: %d tasks are entered in Cloud Map (%v), and %d should be (%v)", len(found), found,
			len(want), want)
	}
}

// expectedTargets returns the tasks that should be registered with the resource, by address.
func (w *World) expectedTargets(arn string) map[cluster.Address]string {
	out := map[cluster.Address]string{}
	for _, s := range w.checker.ActiveServices() {
		for _, t := range w.checker.ByOwner[s.Short] {
			if row := w.checker.TargetOf(t); t.IsActive() && t.Last == cluster.TaskRunning && row != nil {
				for _, r := range row.Registrations {
					if r.ARN == arn && r.State == cluster.Registered {
						out[cluster.Address{Host: r.Address, Port: r.Port}] = t.ID
					}
				}
			} else if b := w.checker.RevisionOf(s, t.Revision); row == nil && t.IsActive() &&
				t.Last == cluster.TaskRunning && b.RegistersTasks() &&
				w.checker.ModelTask(s, t).Container != model.Unhealthy {
				w.checker.Fail("invariant 8: task %s of %s should be registered, and no row records where", t.ID,
					s.Name)
			}
		}
	}
	return out
}
