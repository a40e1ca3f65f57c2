package simulation

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
	"berth/tests/simulation/model"
)

// Bugs in the rules of services.
const (
	// CeilForFloor rounds maximumPercent up.
	CeilForFloor Bug = "ceil for floor of maximumPercent"
	// StopEarly takes every RUNNING task for healthy, so that old tasks stop before their
	// replacements are healthy.
	StopEarly Bug = "an old task is stopped before its replacement is healthy"
	// KeepThrottle delays a new revision because of the failures of an earlier one.
	KeepThrottle Bug = "a new task definition does not reset the throttle"
	// NeverResetThrottle counts all failures of a revision, although a task has been RUNNING since.
	NeverResetThrottle Bug = "RUNNING does not reset the throttle"
	// DaemonOnDraining starts daemons on DRAINING instances.
	DaemonOnDraining Bug = "a daemon is started on a draining instance"
	// RollBackToFailed rolls back to a revision that never completed.
	RollBackToFailed Bug = "a rollback to a failed revision"
	// ChooseProtected stops protected tasks.
	ChooseProtected Bug = "a protected task is chosen"
	// IgnoreGrace replaces unhealthy tasks within their grace period.
	IgnoreGrace Bug = "the grace period is ignored"
	// IgnoreMassUnhealthiness replaces unhealthy tasks even if most look unhealthy.
	IgnoreMassUnhealthiness Bug = "mass unhealthiness is believed"
	// IgnoreThrottle restarts tasks as soon as they have failed, IgnoreGap as soon as they have
	// stopped soon after their start.
	IgnoreThrottle Bug = "the throttle is ignored"
	IgnoreGap      Bug = "a task that has just begun and ended is replaced at once"
	// IgnoreScale keeps task sets at the scale that they were created with.
	IgnoreScale Bug = "the scale of a task set is ignored"
	// FloorShare rounds the share of a task set down.
	FloorShare Bug = "the share of a task set is rounded down"
	// ReplaceOthers takes the primary task set for a deployment that replaces the others.
	ReplaceOthers Bug = "the primary task set replaces the others"
	// KeepDeleted keeps the tasks of deleted task sets.
	KeepDeleted Bug = "a deleted task set is kept"
)

// serviceDistortions is how these bugs show rows to placement. The bugs that are settings are not
// in it.
var serviceDistortions = map[Bug]func(*World, []state.Row) []state.Row{
	CeilForFloor: eachRow(func(_ *World, s *cluster.Service) {
		if s.Desired > 0 && s.Desired*s.MaxPercent%100 != 0 {
			s.MaxPercent = ((s.Desired*s.MaxPercent/100+1)*100 + s.Desired - 1) / s.Desired
		}
	}),
	StopEarly: func(w *World, rows []state.Row) []state.Row {
		rows = eachRow(func(w *World, t *cluster.Task) {
			if t.Last == cluster.TaskRunning {
				t.Health, t.Started = cluster.Healthy, cluster.At(w.Loop.Now().Add(-time.Hour))
			}
		})(w, rows)
		return eachRow(func(_ *World, t *cluster.Target) {
			t.Registrations = slices.Clone(t.Registrations)
			for n := range t.Registrations {
				t.Registrations[n].State, t.Registrations[n].Health = cluster.Registered, cluster.Healthy
			}
		})(w, rows)
	},
	KeepThrottle: throttleServices(func(w *World, s *cluster.Service) (int, time.Time) {
		at := w.checker.LastFailedStart(s)
		if at.IsZero() {
			return 0, at
		}
		return 4, at.Add(model.BackoffDelay(4))
	}),
	NeverResetThrottle: throttleServices(func(w *World, s *cluster.Service) (int, time.Time) {
		tries := slices.DeleteFunc(w.checker.StartAttempts(s.Short, s.Deployment.ID, false),
			func(t model.StartAttempt) bool { return t.Ran })
		_, latest := model.NextStartWindow(tries)
		return len(tries), latest
	}),
	DaemonOnDraining: eachRow(func(_ *World, i *cluster.Instance) {
		if i.Status == cluster.InstanceDraining {
			i.Status = cluster.InstanceActive
		}
	}),
	RollBackToFailed: eachRow(func(w *World, s *cluster.Service) {
		if r := w.checker.WrongRollbackTarget(s); r != nil {
			s.Last = r
		}
	}),
	ChooseProtected: func(_ *World, rows []state.Row) []state.Row {
		return slices.DeleteFunc(rows, func(r state.Row) bool { _, is := r.(*cluster.Protection); return is })
	},
	IgnoreGrace: eachRow(func(_ *World, s *cluster.Service) { s.Grace = 0 }),
	IgnoreScale: eachTaskSet(func(w *World, _ *cluster.Service, d *cluster.Deployment) {
		for _, s := range w.client.services {
			for _, set := range s.taskSets {
				if set.id == d.ID {
					d.Set.Scale = set.first
				}
			}
		}
	}),
	FloorShare: eachTaskSet(func(_ *World, s *cluster.Service, d *cluster.Deployment) {
		if s.Desired > 0 {
			d.Set.Scale = math.Floor(float64(s.Desired)*d.Set.Scale/100) * 100 / float64(s.Desired)
		}
	}),
	ReplaceOthers: eachTaskSet(func(_ *World, s *cluster.Service, d *cluster.Deployment) {
		if s.Deployment.ID != "" && s.Deployment.ID != d.ID {
			d.Set.Scale = 0
		}
	}),
	KeepDeleted: eachTaskSet(func(_ *World, _ *cluster.Service, d *cluster.Deployment) { d.Set.Draining = false }),
}

// eachTaskSet changes a copy of every task set.
func eachTaskSet(
	change func(*World, *cluster.Service, *cluster.Deployment),
) func(*World, []state.Row) []state.Row {
	return eachRow(func(w *World, s *cluster.Service) {
		s.Older = slices.Clone(s.Older)
		for _, d := range taskSetsOf(s) {
			d.Set = new(*d.Set)
			change(w, s, d)
		}
	})
}

// taskSetsOf returns the deployments in a service's row that are task sets.
func taskSetsOf(s *cluster.Service) (sets []*cluster.Deployment) {
	if s.Deployment.Set != nil {
		sets = append(sets, &s.Deployment)
	}
	for n := range s.Older {
		if s.Older[n].Set != nil {
			sets = append(sets, &s.Older[n])
		}
	}
	return sets
}

// distortion returns how the bug shows rows to placement, or nil.
func (b Bug) distortion() func(*World, []state.Row) []state.Row {
	if show := serviceDistortions[b]; show != nil {
		return show
	}
	return placementDistortions[b]
}

// expectedFailures is by which failure each bug must be found. Other failures do not count.
var expectedFailures = map[Bug]string{
	LimitEachPlan:  "moves began in the window",
	BalanceUnasked: "and balancing is off",
	CeilForFloor:   "active tasks, at most", StopEarly: "healthy tasks, at least",
	KeepThrottle: "was given a new revision", NeverResetThrottle: "and its throttle lets it start one",
	DaemonOnDraining: "which is DRAINING", RollBackToFailed: "took its place; it should be",
	ChooseProtected: "is protected and was stopped",
	IgnoreGrace:     "within its grace period", IgnoreMassUnhealthiness: "most of the cluster's look unhealthy",
	IgnoreThrottle: "before the throttle of", IgnoreGap: "had just begun and ended",
	IgnoreScale: "task set ", FloorShare: "task set ", ReplaceOthers: "leaves task set ",
	KeepDeleted: "was deleted and is there",
}

// matchingFailures returns the violated invariants that show the bug.
func (b Bug) matchingFailures(broken []string) (out []string) {
	for _, why := range broken {
		if strings.Contains(why, expectedFailures[b]+UpgradeBugs[b]) {
			out = append(out, why)
		}
	}
	return out
}

// adjustSettings plants the bug in the settings of an installation.
func (b Bug) adjustSettings(s *handler.Settings) {
	switch b {
	case IgnoreMassUnhealthiness:
		s.MaxUnhealthyPercent = 100
	case IgnoreThrottle:
		s.BackoffLadder = nil
	case IgnoreGap:
		s.RestartGap = 0
	}
}

// throttleServices shows the PRIMARY revisions of services as throttled, at a step and until a
// time.
func throttleServices(
	how func(*World, *cluster.Service) (steps int, until time.Time),
) func(*World, []state.Row) []state.Row {
	return func(w *World, rows []state.Row) []state.Row {
		throttled := map[string]*cluster.Throttle{}
		for _, row := range rows {
			s, ok := row.(*cluster.Service)
			if !ok {
				continue
			}
			if steps, until := how(w, s); steps > 0 {
				b := cluster.Backoff{Step: steps, Failures: steps, Since: w.Loop.Now().Add(time.Hour),
					NextAttemptAt: until}
				throttled[s.Short] = &cluster.Throttle{
					Head: cluster.Head{Cluster: s.Cluster, Rev: 1 << 40}, Owner: s.Short, Service: s.Name,
					Revisions: map[string]cluster.Backoff{s.Deployment.ID: b},
				}
			}
		}
		rows = slices.DeleteFunc(rows, func(r state.Row) bool {
			t,
				is := r.(*cluster.Throttle)
			return is && throttled[t.Owner] != nil
		})
		for _, short := range slices.Sorted(maps.Keys(throttled)) {
			rows = append(rows, throttled[short])
		}
		return rows
	}
}

// restoreService puts the true values back into a service's row that is about to be written.
func restoreService(was, next *cluster.Service, w *World) {
	next.MaxPercent, next.Grace = was.MaxPercent, was.Grace
	if r := w.checker.WrongRollbackTarget(was); w.PlantedBug == RollBackToFailed && r != nil && next.Last != nil &&
		next.Last.ID == r.ID {
		next.Last = was.Last
	}
	next.Older = slices.Clone(next.Older)
	for _, d := range taskSetsOf(next) {
		for _, before := range taskSetsOf(was) {
			if before.ID == d.ID {
				d.Set = new(*d.Set)
				d.Set.Scale, d.Set.Draining = before.Set.Scale, before.Set.Draining
			}
		}
	}
}
