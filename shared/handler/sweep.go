package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// describeBatch is how many tasks or instances one Describe call may name.
const describeBatch = 100

// Sweep compares one cluster's rows with ECS itself and writes what lost events would have written; a service whose
// counts differ gets a due row that has placement look again. A cluster in which nothing was lost gets no write.
func (h *TaskStateChange) Sweep(ctx context.Context, clusterName string) error {
	s, err := h.compare(ctx, clusterName)
	if err != nil {
		return err
	}
	return s.lookAgain(ctx)
}

// compare is the part of a sweep that takes in what ECS has, and asks nothing of placement's decisions: the API carries no more.
func (h *TaskStateChange) compare(ctx context.Context, clusterName string) (*sweep, error) {
	snap, err := loadSnapshot(ctx, h.State, clusterName)
	if err != nil {
		return nil, err
	}
	s := &sweep{observer: h.observer(), ecs: h.ECS, cluster: clusterName, figures: h.Figures}
	s.snap = snap
	if err := s.instances(ctx); err != nil {
		return nil, err
	}
	if err := s.tasks(ctx); err != nil {
		return nil, err
	}
	if err := s.targets(ctx); err != nil {
		return nil, err
	}
	return s, s.retireEvents(ctx)
}

type sweep struct {
	*observer
	ecs     ECS
	cluster string
	figures *Figures
}

func (s *sweep) instances(ctx context.Context) error {
	ids, err := s.ecs.ListInstances(ctx, s.cluster)
	if err != nil {
		return fmt.Errorf("listing instances: %w", err)
	}
	listed := map[string]bool{}
	for batch := range slices.Chunk(ids, describeBatch) {
		got, err := s.ecs.DescribeInstances(ctx, s.cluster, batch)
		if err != nil {
			return fmt.Errorf("describing instances: %w", err)
		}
		for _, i := range got {
			listed[i.ID] = true
			var known *cluster.Instance
			if v := s.snap.Instances[i.ID]; v != nil {
				known = v.Instance
			}
			if err := ignoreDrop(s.instance(ctx, i, known)); err != nil {
				return err
			}
		}
	}
	for _, v := range s.sortedViews() {
		// One that has just registered may not be listed yet.
		if v.Instance != nil && !v.Gone() && !listed[v.ID] && s.now.Sub(v.RegisteredAt.Time()) > s.settings.Settle {
			if err := s.gone(ctx, v.Instance); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sweep) sortedViews() []*snapshot.InstanceView {
	views := make([]*snapshot.InstanceView, 0, len(s.snap.Instances))
	for _, v := range s.snap.Instances {
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b *snapshot.InstanceView) int { return cmp.Compare(a.ID, b.ID) })
	return views
}

func (s *sweep) tasks(ctx context.Context) error {
	rows := s.byDerivedID()
	seen := map[*cluster.Task]bool{}
	for _, desired := range []cluster.TaskStatus{cluster.TaskRunning, cluster.TaskStopped} {
		err := eachTask(ctx, s.ecs, cluster.TaskFilter{Cluster: s.cluster, Desired: desired}, func(t cluster.ECSTask) error {
			row := rows[derivedID(t)]
			if row == nil {
				row = rows[t.ID] // started by Berth, and foreign since its row has gone
			}
			seen[row] = true
			return s.compare(ctx, row, t)
		})
		if err != nil {
			return err
		}
	}
	return s.lost(ctx, seen)
}

// compare writes what ECS says of a task, unless its row (nil for none) says so already or can learn nothing from it.
func (s *sweep) compare(ctx context.Context, row *cluster.Task, t cluster.ECSTask) error {
	settled := row == nil || row.Last == cluster.TaskStopped || row.ECSID != "" && row.ECSID != t.ID
	if t.Last == cluster.TaskStopped && settled {
		return nil
	}
	if row == nil || row.ECSID != t.ID || row.Version < t.Version || row.Foreign && derivedID(t) != t.ID {
		return ignoreDrop(s.task(ctx, t))
	}
	if row.Last == cluster.TaskStopped && t.Desired == cluster.TaskRunning && !row.Foreign {
		return s.stopExtra(ctx, t) // it was written off, and is there after all
	}
	return nil
}

// derivedID is the id that leads from an ECS task to its row, or to the alias of its row.
func derivedID(t cluster.ECSTask) string {
	if _, ours := cluster.ParseStartedBy(t.StartedBy); ours {
		return cluster.TaskID(t.StartedBy, t.Instance)
	}
	return t.ID
}

func (s *sweep) byDerivedID() map[string]*cluster.Task {
	rows := make(map[string]*cluster.Task, s.snap.TaskCount())
	for t := range s.snap.Tasks() {
		switch {
		case t.Foreign:
			rows[t.ID] = t
		case t.Batch != "":
			rows[cluster.TaskID(t.Batch, t.Instance)] = t
		}
	}
	return rows
}

// lost writes off tasks that rows say were started and that ECS does not list, stopped ones included.
func (s *sweep) lost(ctx context.Context, seen map[*cluster.Task]bool) error {
	for _, t := range s.sortedTasks() {
		if !t.Holds() || seen[t] || !s.settled(t) {
			continue
		}
		obs := &state.Observation{
			Task: state.KeyOf(t), Version: t.Version + 1, Last: cluster.TaskStopped, Stopped: s.now,
			StopCode: cluster.StopInfrastructure, Reason: "ECS no longer has this task.",
			Expires: s.now.Add(s.settings.KeepStopped).Unix(),
		}
		if _, err := s.state.Write(ctx, state.Write{Observe: obs}); ignoreConflict(err) != nil {
			return fmt.Errorf("writing off task %s: %w", t.ID, err)
		}
	}
	return nil
}

// settled reports whether ECS's lists can be expected to have the task: it was seen, or its start is long enough ago.
// A task that nobody has claimed yet is dispatch's to start.
func (s *sweep) settled(t *cluster.Task) bool {
	switch {
	case t.Foreign:
		return s.now.Sub(t.CreatedAt.Time()) > s.settings.Settle
	case t.ECSID != "":
		return s.now.Sub(t.ClaimedAt.Time()) > s.settings.Settle
	}
	return t.Attempt > 0 && s.now.Sub(t.ClaimedAt.Time()) > 10*s.settings.Settle
}

func (s *sweep) sortedTasks() []*cluster.Task {
	tasks := slices.Collect(s.snap.Tasks())
	slices.SortFunc(tasks, func(a, b *cluster.Task) int { return cmp.Compare(state.KeyOf(a).Sort, state.KeyOf(b).Sort) })
	return tasks
}

// targets has registrations looked at that should have been made, or wound up as their task has ended.
func (s *sweep) targets(ctx context.Context) error {
	for t := range s.snap.AllTargets() {
		if task := s.snap.Task(t.Owner, t.Task); task != nil && !task.Ended() && !open(t) {
			continue
		}
		out := &state.Outbox{
			Head: cluster.Head{Cluster: s.cluster}, ID: state.OutboxFirst + "target-" + t.Task, CreatedAt: s.now,
			Targets: []state.TargetItem{{Owner: t.Owner, ID: t.Task}},
		}
		if _, err := s.state.Write(ctx, state.Write{Put: out, Any: true}); err != nil {
			return fmt.Errorf("having the registrations of task %s looked at: %w", t.Task, err)
		}
	}
	return nil
}

// open reports whether a registration has yet to be made.
func open(t *cluster.Target) bool {
	return slices.ContainsFunc(t.Registrations, func(r cluster.Registration) bool { return r.State == "" })
}

// retireEvents lets the events of services that are INACTIVE expire with them, and what was seen of their alarms.
func (s *sweep) retireEvents(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(s.snap.Services)) {
		svc := s.snap.Services[name]
		if svc.Status != cluster.ServiceInactive {
			continue
		}
		rows, err := s.state.List(ctx, state.Prefix(s.cluster, state.PrefixEvent+svc.Short+"#"))
		if err != nil {
			return fmt.Errorf("listing the events of service %s: %w", svc.Name, err)
		}
		if watch := s.snap.AlarmWatch(svc.Short); watch != nil && watch.Expires == 0 {
			next := *watch
			next.Expires = svc.Expires
			if _, err := s.state.Write(ctx, state.Write{Put: &next, Any: true}); err != nil {
				return fmt.Errorf("retiring what was seen of the alarms of service %s: %w", svc.Name, err)
			}
		}
		for _, row := range rows {
			e, ok := row.(*cluster.ServiceEvent)
			if !ok || e.Expires != 0 {
				continue
			}
			next := *e
			next.Expires = svc.Expires
			if _, err := s.state.Write(ctx, state.Write{Put: &next, Any: true}); err != nil {
				return fmt.Errorf("retiring an event of service %s: %w", svc.Name, err)
			}
		}
	}
	return nil
}

// lookAgain writes a due row for each service on which placement would act, for waiting tasks that would now fit, and
// for requests that were never answered. It judges the rows as they were before the sweep: what the sweep itself wrote
// reaches placement by the stream.
func (s *sweep) lookAgain(ctx context.Context) error {
	found := differences(s.snap, s.now, s.settings)
	s.figures.Add(LeftUndone, len(found))
	for _, d := range found {
		due := &state.Due{Head: cluster.Head{Cluster: s.cluster}, At: s.now, Kind: d.kind, Subject: d.subject, Generation: sweepGeneration}
		if _, err := s.state.Write(ctx, state.Write{Put: due, Any: true}); err != nil {
			return fmt.Errorf("having %s %s looked at again: %w", d.kind, d.subject, err)
		}
	}
	return nil
}

type difference struct {
	kind    state.DueKind
	subject string
}

// differences is what placement would act on if it looked.
func differences(snap *snapshot.Snapshot, now time.Time, settings Settings) []difference {
	var out []difference
	d := newDecider(newWarmSnapshot(snap), now, settings.DecisionSettings)
	d.reserveAll(newWork())
	for _, svc := range d.sortedServices() {
		if d.differs(svc) {
			out = append(out, difference{state.DueService, svc.Name})
		}
	}
	for _, name := range d.unmoved() {
		out = append(out, difference{state.DueService, name})
	}
	if d.waitingDiffers() {
		out = append(out, difference{kind: state.DueWaiting})
	}
	for _, r := range d.sortedRequests() {
		if now.Sub(r.CreatedAt) > settings.RequestWait {
			out = append(out, difference{state.DueRequest, r.ID})
		}
	}
	return out
}

func ignoreDrop(err error) error {
	var drop *cluster.Drop
	if errors.As(err, &drop) {
		return nil
	}
	return err
}
