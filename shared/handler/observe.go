package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// observer writes what ECS reported into the state: from events, from the sweep, and where dispatch had to ask. A
// report that is older than what is there, or says the same, changes nothing.
type observer struct {
	state    state.State
	now      time.Time
	settings Settings
	log      *slog.Logger
	// snap is of a time before what is reported was asked for; nil where there is none.
	snap *snapshot.Snapshot
}

// task takes in one report of a task. Reports of tasks on unknown instances are a *cluster.Drop.
func (o *observer) task(ctx context.Context, t cluster.ECSTask) error {
	short, ours := cluster.ParseStartedBy(t.StartedBy)
	if !ours {
		return o.foreign(ctx, t)
	}
	if t.Last != cluster.TaskRunning && t.Last != cluster.TaskStopped {
		return nil // on the way: the row says as much already
	}
	derived := cluster.TaskID(t.StartedBy, t.Instance)
	row, err := o.report(ctx, state.TaskKey(t.Cluster, short, derived), t)
	if err != nil || row != nil {
		return err
	}
	alias, err := o.state.Get(ctx, state.AliasKey(t.Cluster, derived))
	if err != nil {
		return fmt.Errorf("looking up the alias of task %s: %w", t.ID, err)
	}
	if a, ok := alias.(*state.Alias); ok && a != nil {
		row, err = o.report(ctx, state.TaskKey(t.Cluster, a.Owner, a.ID), t)
		if err != nil {
			return err
		}
		if row != nil {
			return o.retire(ctx, a, row)
		}
	}
	if o.writtenOff(short, t) {
		return o.stopExtra(ctx, t)
	}
	// Started by Berth, but its row is long gone: it is not ours to stop only because it was forgotten.
	return o.foreign(ctx, t)
}

// writtenOff reports whether a task without a row had one, of a service that is there: rows go only once their task has STOPPED,
// so that this one is a second start, or was written off while ECS could not be asked.
func (o *observer) writtenOff(short string, t cluster.ECSTask) bool {
	if o.snap == nil || t.Last == cluster.TaskStopped {
		return false
	}
	version := cluster.BatchVersion(t.StartedBy)
	if version == 0 || version > o.snap.Meta.Version {
		return false
	}
	for _, s := range o.snap.Services {
		if s.Short == short {
			return true
		}
	}
	return false
}

// retire lets an alias expire once its task has ended: by then nothing more will be reported by it. That a second start of
// the task has ended says nothing of it.
func (o *observer) retire(ctx context.Context, a *state.Alias, row *cluster.Task) error {
	if row.Last != cluster.TaskStopped || a.Expires != 0 {
		return nil
	}
	next := *a
	next.Expires = o.now.Add(o.settings.KeepStopped).Unix()
	_, err := o.state.Write(ctx, state.Write{Put: &next, Any: true})
	return wrap(err, "retiring the alias of task %s", a.ID)
}

// report writes the report on the row with the key and returns the row as it is then; nil means that there is none.
func (o *observer) report(ctx context.Context, key state.Key, t cluster.ECSTask) (*cluster.Task, error) {
	written, err := o.state.Write(ctx, state.Write{Observe: o.observation(key, t)})
	var c *state.Conflict
	if !errors.As(err, &c) {
		row, _ := written.(*cluster.Task)
		return row, wrap(err, "recording task %s", t.ID)
	}
	row, _ := c.Row.(*cluster.Task)
	if row != nil && t.Last != cluster.TaskStopped && extra(row, t) {
		return row, o.stopExtra(ctx, t)
	}
	return row, nil
}

func (o *observer) observation(key state.Key, t cluster.ECSTask) *state.Observation {
	obs := &state.Observation{
		Task: key, Version: t.Version, ECSID: t.ID, Last: t.Last, Health: t.Health, Started: t.Started,
		Stopped: t.Stopped, StopCode: t.StopCode, Reason: t.Reason, ExitCode: t.ExitCode,
	}
	if t.Last == cluster.TaskStopped {
		obs.Expires = o.now.Add(o.settings.KeepStopped).Unix()
	}
	return obs
}

// extra reports whether ECS runs a task that the row does not want: a second start of the same task, or one that was
// written off.
func extra(row *cluster.Task, t cluster.ECSTask) bool {
	if row.ECSID != "" && row.ECSID != t.ID {
		return true
	}
	return row.Last == cluster.TaskStopped && (row.ECSID == "" || t.Version > row.Version)
}

func (o *observer) stopExtra(ctx context.Context, t cluster.ECSTask) error {
	o.log.Warn("stopping an extra task", "cluster", t.Cluster, "task", t.ID, "startedBy", t.StartedBy)
	out := &state.Outbox{
		Head: cluster.Head{Cluster: t.Cluster}, ID: "extra-" + t.ID, CreatedAt: o.now,
		Stops: []state.StopItem{{ECSID: t.ID, Reason: "Another start of this task was adopted, or it was written off."}},
	}
	_, err := o.state.Write(ctx, state.Write{Put: out, Any: true})
	return wrap(err, "asking for extra task %s to be stopped", t.ID)
}

// unheard reports whether ECS runs tasks on an instance that has none by the state, and takes them in: a start may take effect
// late, or its events be lost, and whoever lets the instance go must not take the task along.
func (o *observer) unheard(ctx context.Context, ecs ECS, clusterName, instance string) (bool, error) {
	any := false
	err := eachTask(ctx, ecs, cluster.TaskFilter{Cluster: clusterName, Instance: instance, Desired: cluster.TaskRunning}, func(t cluster.ECSTask) error {
		any = true
		return ignoreDrop(o.task(ctx, t))
	})
	return any, err
}

// eachTask has the tasks that a filter selects looked at, as ECS describes them.
func eachTask(ctx context.Context, ecs ECS, f cluster.TaskFilter, visit func(cluster.ECSTask) error) error {
	ids, err := ecs.ListTasks(ctx, f)
	if err != nil {
		return fmt.Errorf("listing tasks: %w", err)
	}
	for batch := range slices.Chunk(ids, describeBatch) {
		got, err := ecs.DescribeTasks(ctx, f.Cluster, batch)
		if err != nil {
			return fmt.Errorf("describing tasks: %w", err)
		}
		for _, t := range got {
			if err := visit(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// foreignOwner is the owner of the rows of tasks that Berth did not start.
const foreignOwner = "foreign"

// foreign records a task that somebody else started: it counts against its instance's capacity.
func (o *observer) foreign(ctx context.Context, t cluster.ECSTask) error {
	key := state.TaskKey(t.Cluster, foreignOwner, t.ID)
	if t.Last == cluster.TaskStopped {
		_, err := o.state.Write(ctx, state.Write{Observe: o.observation(key, t)})
		return wrap(ignoreConflict(err), "recording foreign task %s", t.ID)
	}
	old, err := o.state.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("reading foreign task %s: %w", t.ID, err)
	}
	if known, ok := old.(*cluster.Task); ok && known != nil {
		return o.foreignAgain(ctx, known, t)
	}
	instance, err := o.state.Peek(ctx, state.InstanceKey(t.Cluster, t.Instance))
	if err != nil {
		return fmt.Errorf("reading instance %s: %w", t.Instance, err)
	}
	if instance == nil {
		return &cluster.Drop{Reason: fmt.Sprintf("task %s is on instance %q, which is not known in cluster %q", t.ID, t.Instance, t.Cluster)}
	}
	return o.narrow(ctx, t.Cluster, func(stamp int64) (state.Row, error) {
		return foreignTask(t, o.now, stamp), nil
	})
}

// foreignAgain records a foreign task that has a row. Its ports are known only once it runs.
func (o *observer) foreignAgain(ctx context.Context, known *cluster.Task, t cluster.ECSTask) error {
	obs := o.observation(state.KeyOf(known), t)
	next, newer := state.Write{Observe: obs}.Apply(known)
	if row, ok := next.(*cluster.Task); ok && newer && len(t.Ports) > len(known.Ports) {
		return o.narrow(ctx, t.Cluster, func(stamp int64) (state.Row, error) {
			more := *row
			more.Stamp, more.Ports = stamp, t.Ports
			return &more, nil
		})
	}
	_, err := o.state.Write(ctx, state.Write{Observe: obs})
	return wrap(ignoreConflict(err), "recording foreign task %s", t.ID)
}

// foreignTask is the row of a task that somebody else started. Which GPUs ECS gave it is not known, only how many.
func foreignTask(t cluster.ECSTask, now time.Time, stamp int64) *cluster.Task {
	return &cluster.Task{
		Head: cluster.Head{Cluster: t.Cluster, Rev: 1, Stamp: stamp}, ID: t.ID, Owner: foreignOwner, Foreign: true,
		Group: t.Group, TaskDefinition: t.TaskDefinition, Needs: t.Needs, Ports: t.Ports, Instance: t.Instance,
		StartedByUser: t.StartedBy, Desired: cluster.TaskRunning, CreatedAt: cluster.At(now), Last: t.Last, Version: t.Version,
		ECSID: t.ID, Health: t.Health, Started: cluster.At(t.Started),
	}
}

// instance takes in one report of an instance; known is the row that the caller has read, or nil to have it read.
func (o *observer) instance(ctx context.Context, i *cluster.Instance, known *cluster.Instance) error {
	for range maxRaces {
		if known == nil {
			row, err := o.state.Peek(ctx, state.InstanceKey(i.Cluster, i.ID))
			if err != nil {
				return fmt.Errorf("reading instance %s: %w", i.ID, err)
			}
			known, _ = row.(*cluster.Instance)
		}
		err := o.writeInstance(ctx, i, known)
		var c *state.Conflict
		if !errors.As(err, &c) {
			return err
		}
		known, _ = c.Row.(*cluster.Instance)
	}
	return fmt.Errorf("recording instance %s: lost %d races", i.ID, maxRaces)
}

// instances takes in instances as ECS has them now.
func (o *observer) instances(ctx context.Context, ecs ECS, clusterName string, ids []string) error {
	for batch := range slices.Chunk(ids, describeBatch) {
		got, err := ecs.DescribeInstances(ctx, clusterName, batch)
		if err != nil {
			return fmt.Errorf("describing instances: %w", err)
		}
		for _, i := range got {
			if err := ignoreDrop(o.instance(ctx, i, nil)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *observer) writeInstance(ctx context.Context, i, old *cluster.Instance) error {
	next := *i
	next.Rev = 1
	if old != nil {
		// What changes nothing needs no write, but for an instance that is away: an older report that it was there may
		// still come, and must be told by its version.
		if next.Provider == "" {
			next.Provider = old.Provider // events may not say
		}
		switch {
		case i.Version <= old.Version && next.Provider != old.Provider:
			next = *old
			next.Provider = i.Provider
		case i.Version <= old.Version || next.Same(old) && old.Available():
			return nil
		}
		next.Rev, next.ReleasedIn = old.Rev+1, old.ReleasedIn
	} else if i.Gone() {
		return &cluster.Drop{Reason: fmt.Sprintf("instance %s of cluster %q left before it was known", i.ID, i.Cluster)}
	}
	if next.Gone() {
		next.Expires = o.now.Add(o.settings.KeepStopped).Unix()
	}
	next.DisconnectedAt = o.disconnectedAt(&next, old)
	away := !next.Available() && !next.Gone()
	if away && old != nil && old.Available() {
		// First, so that a crash in between does not leave the instance to the sweep. One that was away before has a
		// due row already.
		if err := o.recheck(ctx, next.Cluster, next.ID, 0); err != nil {
			return err
		}
	}
	if err := o.putInstance(ctx, &next, old); err != nil {
		return err
	}
	if away && old == nil {
		return o.recheck(ctx, next.Cluster, next.ID, 0)
	}
	return nil
}

// disconnectedAt is when Berth first saw the instance's agent disconnected; zero while it is connected.
func (o *observer) disconnectedAt(next, old *cluster.Instance) cluster.Instant {
	switch {
	case next.AgentConnected || next.Gone():
		return 0
	case old != nil && !old.DisconnectedAt.IsZero():
		return old.DisconnectedAt
	}
	return cluster.At(o.now)
}

func (o *observer) putInstance(ctx context.Context, next, old *cluster.Instance) error {
	alias, err := o.aliasOf(ctx, next, old)
	if err != nil {
		return err
	}
	if old != nil && !narrows(old, next) {
		if len(alias) == 0 {
			_, err := o.state.Write(ctx, state.Write{Put: next})
			return wrap(err, "recording instance %s", next.ID)
		}
		return o.state.Commit(ctx, state.Commit{Cluster: next.Cluster, Version: state.NoVersion, Writes: append(alias, state.Write{Put: next})})
	}
	// A new instance narrows nothing, but this is where an unknown cluster shows.
	return narrowAll(ctx, o.state, next.Cluster, func(stamp int64) ([]state.Write, error) {
		row := *next
		row.Stamp = stamp
		return append([]state.Write{{Put: &row}}, alias...), nil
	})
}

// aliasOf is what to write for the instance to be found by the EC2 instance that it is on: nothing where that is known. With
// the instance the alias goes, unless the EC2 instance has registered anew meanwhile.
func (o *observer) aliasOf(ctx context.Context, next, old *cluster.Instance) ([]state.Write, error) {
	known := old != nil && old.EC2InstanceID == next.EC2InstanceID
	if next.EC2InstanceID == "" || known && !next.Gone() {
		return nil, nil
	}
	alias := &state.Alias{Head: cluster.Head{Cluster: next.Cluster, Expires: next.Expires}, Derived: next.EC2InstanceID, ID: next.ID}
	if next.Gone() {
		row, err := o.state.Get(ctx, state.KeyOf(alias))
		if err != nil {
			return nil, fmt.Errorf("reading the alias of instance %s: %w", next.ID, err)
		}
		if now, ok := row.(*state.Alias); !ok || now == nil || now.ID != next.ID {
			return nil, nil
		}
	}
	return []state.Write{{Put: alias, Any: true}}, nil
}

// narrows reports whether less may be done on the instance than before.
func narrows(old, next *cluster.Instance) bool {
	if old.Available() && !next.Available() || next.Gone() {
		return true
	}
	if !old.Registered.Equal(next.Registered) {
		return true
	}
	if len(old.Attributes) != len(next.Attributes) {
		return true
	}
	for name, value := range old.Attributes {
		if v, ok := next.Attributes[name]; !ok || v != value {
			return true
		}
	}
	return false
}

// gone writes off an instance that ECS no longer lists.
func (o *observer) gone(ctx context.Context, old *cluster.Instance) error {
	next := *old
	next.Head = cluster.Head{Cluster: old.Cluster}
	next.Status, next.AgentConnected, next.Version = cluster.InstanceInactive, false, old.Version+1
	return o.instance(ctx, &next, old)
}

// recheck has dispatch ask ECS about the instance later: the event that it is back may never come.
func (o *observer) recheck(ctx context.Context, clusterName, id string, generation int) error {
	wait := min(o.settings.Recheck<<min(generation, 10), o.settings.RecheckMax)
	return o.recheckDue(ctx, &state.Due{
		Head: cluster.Head{Cluster: clusterName}, At: o.now.Add(wait).Truncate(time.Second), Subject: id, Generation: generation,
	})
}

// recheckAt has dispatch ask ECS about an instance that it refused a task on.
func (o *observer) recheckAt(ctx context.Context, clusterName, id string, at time.Time) error {
	return o.recheckDue(ctx, &state.Due{Head: cluster.Head{Cluster: clusterName}, At: at.Truncate(time.Second), Subject: id})
}

func (o *observer) recheckDue(ctx context.Context, due *state.Due) error {
	due.Kind = state.DueInstance
	_, err := o.state.Write(ctx, state.Write{Put: due, Any: true})
	return wrap(err, "putting off instance %s", due.Subject)
}

// narrow writes one row that narrows what is allowed, and moves the placement version on with it. row builds it with
// the version that the write will make. A conflict on the row itself is returned.
func (o *observer) narrow(ctx context.Context, clusterName string, row func(stamp int64) (state.Row, error)) error {
	return narrow(ctx, o.state, clusterName, row)
}

func narrow(ctx context.Context, store state.State, clusterName string, row func(stamp int64) (state.Row, error)) error {
	return narrowAll(ctx, store, clusterName, func(stamp int64) ([]state.Write, error) {
		r, err := row(stamp)
		return []state.Write{{Put: r}}, err
	})
}

// narrowAll is [narrow] for several writes that go together.
func narrowAll(ctx context.Context, store state.State, clusterName string, writes func(stamp int64) ([]state.Write, error)) error {
	key := state.Key{Cluster: clusterName, Sort: state.PrefixMeta}
	for range maxRaces {
		got, err := store.Get(ctx, key)
		if err != nil {
			return fmt.Errorf("reading cluster %s: %w", clusterName, err)
		}
		meta, ok := got.(*state.Meta)
		if !ok || meta == nil {
			return &cluster.Drop{Reason: fmt.Sprintf("cluster %q is not known", clusterName)}
		}
		w, err := writes(meta.Version + 1)
		if err != nil || len(w) == 0 {
			return err
		}
		err = store.Commit(ctx, state.Commit{Cluster: clusterName, Version: meta.Version, Writes: w})
		var c *state.Conflict
		if errors.As(err, &c) && c.Version {
			continue
		}
		return err
	}
	return fmt.Errorf("narrowing cluster %s: lost %d races", clusterName, maxRaces)
}

func ignoreConflict(err error) error {
	var c *state.Conflict
	if errors.As(err, &c) {
		return nil
	}
	return err
}

// wrap is fmt.Errorf for an error that may be nil.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
