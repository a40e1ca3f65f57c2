package taskstatechange

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Sweep compares one cluster's rows with ECS and writes what lost events would have written. Where
// placement has something to do that it should have done already, it writes a due row. If nothing
// was lost, it writes nothing. Rows that an earlier version wrote are moved first.
func (h *Handler) Sweep(ctx context.Context, clusterName string) error {
	if m, ok := h.State.(state.Mover); ok {
		if err := m.MoveRows(ctx, clusterName); err != nil {
			return err
		}
	}
	s, err := h.RecordDifferences(ctx, clusterName)
	if err != nil {
		return err
	}
	if err := s.wakePlacement(ctx); err != nil {
		return err
	}
	return s.noteUnusedDefinitions(ctx)
}

// RecordDifferences is the part of a sweep that records what ECS has. The API runs it alone when it
// adopts a cluster: what it records reaches placement through the stream.
func (h *Handler) RecordDifferences(ctx context.Context, clusterName string) (*sweep, error) {
	snap, err := snapshot.Load(ctx, h.State, clusterName)
	if err != nil {
		return nil, err
	}
	s := h.newSweep(snap)
	if err := s.sweepInstances(ctx); err != nil {
		return nil, err
	}
	if err := s.sweepTasks(ctx); err != nil {
		return nil, err
	}
	if err := s.requeueRegistrations(ctx); err != nil {
		return nil, err
	}
	if err := s.State.Flush(ctx); err != nil {
		return nil, err
	}
	return s, s.expireServiceEvents(ctx)
}

// A sweep compares one cluster's rows, as Snap holds them, with ECS.
type sweep struct {
	*observe.Observer
	ecs       handler.ECS
	cluster   string
	settings  handler.Settings
	telemetry *handler.Telemetry
	announced bool // a due row tells placement that tasks are recorded
}

// newSweep returns a sweep of the snapshot's cluster. The snapshot must be older than every call of
// ECS that the sweep makes: a task that it lacks but ECS lists was then started earlier than ECS
// was asked.
func (h *Handler) newSweep(snap *snapshot.Snapshot) *sweep {
	s := &sweep{
		Observer: h.newObserver(), ecs: h.ECS, cluster: snap.Meta.Cluster, settings: h.Settings, telemetry: h.Telemetry,
	}
	s.Snap = snap
	return s
}

// sweepInstances records the instances that ECS has, and those that it no longer has as
// deregistered.
func (s *sweep) sweepInstances(ctx context.Context) error {
	ids, err := s.ecs.ListInstances(ctx, s.cluster)
	if err != nil {
		return fmt.Errorf("listing instances: %w", err)
	}
	listed := map[string]bool{}
	for batch := range slices.Chunk(ids, cluster.DescribeBatch) {
		got, err := s.ecs.DescribeInstances(ctx, s.cluster, batch)
		if err != nil {
			return fmt.Errorf("describing instances: %w", err)
		}
		for _, i := range got {
			listed[i.ID] = true
			var known *cluster.Instance
			if v := s.Snap.Instances[i.ID]; v != nil {
				known = v.Instance
			}
			if err := cluster.IgnoreDrop(s.RecordInstance(ctx, i, known)); err != nil {
				return err
			}
		}
	}
	for _, v := range s.sortedViews() {
		// An instance that has just registered may be missing in ECS's list, which is only
		// eventually consistent.
		if v.Instance != nil && !v.IsDeregistered() && !listed[v.ID] &&
			s.Now.Sub(v.RegisteredAt.Time()) > s.settings.Settle {
			if err := s.RecordDeregistered(ctx, v.Instance); err != nil {
				return err
			}
		}
	}
	return nil
}

// sortedViews returns the instances sorted by id, so that two sweeps of the same state write in
// the same order.
func (s *sweep) sortedViews() []*snapshot.InstanceView {
	views := make([]*snapshot.InstanceView, 0, len(s.Snap.Instances))
	for _, v := range s.Snap.Instances {
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b *snapshot.InstanceView) int { return cmp.Compare(a.ID, b.ID) })
	return views
}

// sweepTasks records the tasks that ECS has, running and stopped, and those that it no longer has
// as STOPPED. ECS lists stopped tasks for about an hour, so a sweep each hour sees most.
func (s *sweep) sweepTasks(ctx context.Context) error {
	rows := s.tasksByDerivedID()
	seen := map[*cluster.Task]bool{}
	for _, desired := range []cluster.TaskStatus{cluster.TaskRunning, cluster.TaskStopped} {
		err := observe.ForEachTask(ctx, s.ecs, cluster.TaskFilter{Cluster: s.cluster, Desired: desired},
			func(t cluster.ECSTask) error {
				row := rows[derivedID(t)]
				if row == nil {
					row = rows[t.ID] // Berth started it, and recorded it as foreign after its row had expired
				}
				seen[row] = true
				return s.recordTask(ctx, row, t)
			})
		if err != nil {
			return err
		}
	}
	return s.recordLostTasks(ctx, seen)
}

// recordTask records what ECS says of a task unless its row says so already. row is nil if the task
// has none. A task that was recorded as STOPPED and still runs is stopped.
func (s *sweep) recordTask(ctx context.Context, row *cluster.Task, t cluster.ECSTask) error {
	settled := row == nil || row.Last == cluster.TaskStopped || row.ECSID != "" && row.ECSID != t.ID
	if t.Last == cluster.TaskStopped && settled {
		return nil
	}
	differs := row == nil || row.ECSID != t.ID ||
		s.NewObservation(state.KeyOf(row), t).IsNews(row.Version, row.Health)
	// a task without a row is recorded only on an instance that is known
	if differs && (row != nil || s.Snap.Instances[t.Instance] != nil) {
		if err := s.announceTasks(ctx); err != nil {
			return err
		}
	}
	if differs || row.Foreign && derivedID(t) != t.ID {
		return cluster.IgnoreDrop(s.RecordTask(ctx, t))
	}
	if row.Last == cluster.TaskStopped && t.Desired == cluster.TaskRunning && !row.Foreign {
		return s.StopExtraTask(ctx, t) // it was recorded as STOPPED but still runs
	}
	return nil
}

// sweepEnds is by when a sweep has ended, by itself or because its invocation's time was up
// (Timeout in template.yaml).
const sweepEnds = 2 * time.Minute

// announceTasks writes a due row before the first task is recorded. A sweep that is cut off between
// a task's row and the inbox row leaves a row that says what ECS says: the next sweep finds nothing
// to record, and a warm snapshot of placement would lack the change until it is loaded anew.
func (s *sweep) announceTasks(ctx context.Context) error {
	if s.announced {
		return nil
	}
	due := state.NewDue(s.cluster, state.DueSweep, "", s.Now.Add(sweepEnds).Truncate(time.Second), s.Now)
	due.Generation = decide.SweepGeneration
	if _, err := s.State.Write(ctx, state.Write{Put: due, Any: true}); err != nil {
		return fmt.Errorf("announcing to placement that tasks are recorded: %w", err)
	}
	s.announced = true
	return nil
}

// derivedID returns the id that leads from an ECS task to its row, or to the alias of its row.
func derivedID(t cluster.ECSTask) string {
	if _, ours := cluster.ParseStartedBy(t.StartedBy); ours {
		return cluster.TaskID(t.StartedBy, t.Instance)
	}
	return t.ID
}

// tasksByDerivedID returns the rows of tasks by the id that ECS's report leads to. Tasks that were
// never started have none.
func (s *sweep) tasksByDerivedID() map[string]*cluster.Task {
	rows := make(map[string]*cluster.Task, s.Snap.TaskCount())
	for t := range s.Snap.Tasks() {
		switch {
		case t.Foreign:
			rows[t.ID] = t
		case t.Batch != "":
			rows[cluster.TaskID(t.Batch, t.Instance)] = t
		}
	}
	return rows
}

// recordLostTasks records started tasks as STOPPED that ECS lists neither as running nor as
// stopped.
func (s *sweep) recordLostTasks(ctx context.Context, seen map[*cluster.Task]bool) error {
	for _, t := range s.sortedTasks() {
		if !t.HoldsCapacity() || seen[t] || !s.isSettled(t) {
			continue
		}
		if err := s.announceTasks(ctx); err != nil {
			return err
		}
		obs := &state.Observation{
			Task: state.KeyOf(t), Version: t.Version + 1, Last: cluster.TaskStopped, Stopped: s.Now,
			StopCode: cluster.StopInfrastructure, Reason: "ECS no longer has this task.",
			Expires: s.Now.Add(s.Settings.KeepStopped).Unix(),
		}
		if _, err := s.State.Write(ctx, state.Write{Observe: obs}); state.IgnoreConflict(err) != nil {
			return fmt.Errorf("recording task %s as lost: %w", t.ID, err)
		}
	}
	return nil
}

// isSettled reports whether ECS's lists must have the task by now: ECS reported it before, or it
// was started long enough ago. A task that was never claimed is still dispatch's to start. One
// whose start has an unknown outcome gets ten times as long, because dispatch resolves it first.
func (s *sweep) isSettled(t *cluster.Task) bool {
	began, wait := t.ClaimedAt.Time(), s.settings.Settle
	switch {
	case t.Foreign:
		began = t.CreatedAt.Time()
	case t.ECSID == "":
		wait *= 10
	}
	return (t.Foreign || t.ECSID != "" || t.Attempt > 0) && cluster.RemainingWait(began.Add(wait), s.Now, wait) == 0
}

// sortedTasks returns the tasks sorted by their keys.
func (s *sweep) sortedTasks() []*cluster.Task {
	tasks := slices.Collect(s.Snap.Tasks())
	slices.SortFunc(tasks, func(a, b *cluster.Task) int {
		return cmp.Compare(state.KeyOf(a).Sort, state.KeyOf(b).Sort)
	})
	return tasks
}

// requeueRegistrations writes outbox entries for registrations that should have been made, and for
// those of stopped tasks that should have ended. Dispatch finds out what is to be done from the
// rows.
func (s *sweep) requeueRegistrations(ctx context.Context) error {
	for t := range s.Snap.AllTargets() {
		if task := s.Snap.Task(t.Owner, t.Task); task != nil && !task.HasEnded() && !hasPendingRegistration(t) {
			continue
		}
		out := &state.Outbox{
			Head: cluster.Head{Cluster: s.cluster}, ID: state.OutboxFirst + "target-" + t.Task, CreatedAt: s.Now,
			Targets: []state.TargetItem{{Owner: t.Owner, ID: t.Task}},
		}
		if _, err := s.State.Write(ctx, state.Write{Put: out, Any: true}); err != nil {
			return fmt.Errorf("requeuing the registrations of task %s: %w", t.Task, err)
		}
	}
	return nil
}

// hasPendingRegistration reports whether one of the registrations has not been made yet.
func hasPendingRegistration(t *cluster.Target) bool {
	return slices.ContainsFunc(t.Registrations, func(r cluster.Registration) bool { return r.State == "" })
}

// expireServiceEvents lets the events and alarm watches of INACTIVE services expire when the
// services do.
func (s *sweep) expireServiceEvents(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(s.Snap.Services)) {
		svc := s.Snap.Services[name]
		if svc.Status != cluster.ServiceInactive {
			continue
		}
		rows, err := s.State.List(ctx, state.Prefix(s.cluster, state.PrefixEvent+svc.Short+"#"))
		if err != nil {
			return fmt.Errorf("listing the events of service %s: %w", svc.Name, err)
		}
		if watch := s.Snap.AlarmWatch(svc.Short); watch != nil && watch.Expires == 0 {
			next := *watch
			next.Expires = svc.Expires
			if _, err := s.State.Write(ctx, state.Write{Put: &next, Any: true}); err != nil {
				return fmt.Errorf("expiring the alarm watch of service %s: %w", svc.Name, err)
			}
		}
		for _, row := range rows {
			e, ok := row.(*cluster.ServiceEvent)
			if !ok || e.Expires != 0 {
				continue
			}
			next := *e
			next.Expires = svc.Expires
			if _, err := s.State.Write(ctx, state.Write{Put: &next, Any: true}); err != nil {
				return fmt.Errorf("expiring an event of service %s: %w", svc.Name, err)
			}
		}
	}
	return nil
}

// wakePlacement writes due rows for services that placement would change, for provisioning tasks
// that would now fit, and for requests that were never answered. It decides on the rows as they
// were before the sweep: what the sweep itself has written reaches placement through the stream.
func (s *sweep) wakePlacement(ctx context.Context) error {
	found := decide.Differences(s.Snap, s.Now, s.Settings)
	for _, r := range decide.SortedRequests(s.Snap) {
		if cluster.RemainingWait(r.CreatedAt.Add(s.settings.RequestWait), s.Now, s.settings.RequestWait) == 0 {
			found = append(found, decide.Difference{Kind: state.DueRequest, Subject: r.ID})
		}
	}
	s.telemetry.AddCount(handler.LeftUndone, len(found))
	for _, d := range found {
		due := state.NewDue(s.cluster, d.Kind, d.Subject, s.Now, s.Now)
		due.Generation = decide.SweepGeneration
		if _, err := s.State.Write(ctx, state.Write{Put: due, Any: true}); err != nil {
			return fmt.Errorf("writing a due row for %s %s: %w", d.Kind, d.Subject, err)
		}
	}
	return nil
}
