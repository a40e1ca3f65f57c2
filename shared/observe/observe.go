package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// ECS is the part of the ECS API that an observer reads. Errors of the API are *cluster.Error.
type ECS interface {
	// ListTasks returns the ids of all tasks that the filter selects.
	ListTasks(ctx context.Context, f cluster.TaskFilter) ([]string, error)
	// DescribeTasks and DescribeInstances take at most [cluster.DescribeBatch] ids and leave out
	// those that ECS does not know.
	DescribeTasks(ctx context.Context, clusterName string, ids []string) ([]cluster.ECSTask, error)
	DescribeInstances(ctx context.Context, clusterName string, ids []string) ([]*cluster.Instance, error)
}

// An Observer writes what ECS reported into the state: from events, from the sweep, and where
// dispatch had to ask. A report that is older than the row, or says the same, changes nothing.
type Observer struct {
	State    *state.Feed // its maker flushes it when all reports are recorded
	Clock    state.Clock // for the time between attempts; Now is that of the event
	Now      time.Time
	Settings decide.Settings
	Log      *slog.Logger
	// Snap is a snapshot taken before ECS was asked, or nil.
	Snap *snapshot.Snapshot
}

// RecordTask records one report of a task: on its own row, through an alias, or as a foreign task.
// A report of a task on an unknown instance is a *cluster.Drop.
func (o *Observer) RecordTask(ctx context.Context, t cluster.ECSTask) error {
	short, ours := cluster.ParseStartedBy(t.StartedBy)
	if !ours {
		return o.recordForeignTask(ctx, t)
	}
	if t.Last != cluster.TaskRunning && t.Last != cluster.TaskStopped {
		return nil // still starting: the row already says so
	}
	found, err := o.recordOwnTask(ctx, short, t)
	if found || err != nil {
		return err
	}
	if o.wasRecordedStopped(short, t) {
		return o.StopExtraTask(ctx, t)
	}
	// Berth started it, but its row expired long ago. That alone is no reason to stop it.
	return o.recordForeignTask(ctx, t)
}

// recordOwnTask records a report of a task that Berth started. The task's id follows from startedBy
// and the instance; a task that waited in PROVISIONING had another id before, which an alias gives.
// It returns false if there is no row.
func (o *Observer) recordOwnTask(ctx context.Context, owner string, t cluster.ECSTask) (found bool, err error) {
	derived := cluster.TaskID(t.StartedBy, t.Instance)
	row, err := o.RecordReport(ctx, state.TaskKey(t.Cluster, owner, derived), t)
	if err != nil || row != nil {
		return row != nil, err
	}
	alias, err := state.ReadRow[*state.Alias](
		ctx, o.State, state.AliasKey(t.Cluster, derived), "the alias of task "+t.ID)
	if err != nil || alias == nil {
		return false, err
	}
	row, err = o.RecordReport(ctx, state.TaskKey(t.Cluster, alias.Owner, alias.ID), t)
	if err != nil || row == nil {
		return false, err
	}
	return true, o.expireAlias(ctx, alias, row)
}

// wasRecordedStopped reports whether a task without a row once had one, of a service that still
// exists. A row expires only after its task was recorded STOPPED, so this task is a second start,
// or was recorded STOPPED while ECS could not be asked.
func (o *Observer) wasRecordedStopped(short string, t cluster.ECSTask) bool {
	if o.Snap == nil || t.Last == cluster.TaskStopped {
		return false
	}
	version := cluster.BatchVersion(t.StartedBy)
	if version == 0 || version > o.Snap.Meta.Version {
		return false
	}
	for _, s := range o.Snap.Services {
		if s.Short == short {
			return true
		}
	}
	return false
}

// expireAlias lets an alias expire once its task has stopped: nothing more will be reported through
// it. It does nothing when only a second start of the task has stopped.
func (o *Observer) expireAlias(ctx context.Context, a *state.Alias, row *cluster.Task) error {
	if row.Last != cluster.TaskStopped || a.Expires != 0 {
		return nil
	}
	next := *a
	next.Expires = o.Now.Add(o.Settings.KeepStopped).Unix()
	_, err := o.State.Write(ctx, state.Write{Put: &next, Any: true})
	return cluster.Wrap(err, "expiring the alias of task %s", a.ID)
}

// RecordReport writes a report to the row with the key and returns the row after the write, or nil
// if there is no such row.
func (o *Observer) RecordReport(ctx context.Context, key state.Key, t cluster.ECSTask) (*cluster.Task, error) {
	written, err := o.State.Write(ctx, state.Write{Observe: o.NewObservation(key, t)})
	var c *state.Conflict
	if !errors.As(err, &c) {
		row, _ := written.(*cluster.Task)
		return row, cluster.Wrap(err, "recording task %s", t.ID)
	}
	row, _ := c.Row.(*cluster.Task)
	if row != nil && t.Last != cluster.TaskStopped && isExtraTask(row, t) {
		return row, o.StopExtraTask(ctx, t)
	}
	return row, nil
}

// NewObservation returns the write that records what ECS reported of a task.
func (o *Observer) NewObservation(key state.Key, t cluster.ECSTask) *state.Observation {
	obs := &state.Observation{
		Task: key, Version: t.Version, ECSID: t.ID, Last: t.Last, Health: t.Health, Started: t.Started,
		Stopped: t.Stopped, StopCode: t.StopCode, Reason: t.Reason, ExitCode: t.ExitCode,
	}
	if t.Last == cluster.TaskStopped {
		obs.Expires = o.Now.Add(o.Settings.KeepStopped).Unix()
	}
	return obs
}

// isExtraTask reports whether ECS runs a task that the row does not want: a second start of the
// same task, or one that the row says has stopped.
func isExtraTask(row *cluster.Task, t cluster.ECSTask) bool {
	if row.ECSID != "" && row.ECSID != t.ID {
		return true
	}
	return row.Last == cluster.TaskStopped && (row.ECSID == "" || t.Version > row.Version)
}

// StopExtraTask asks dispatch to stop an ECS task that no row wants.
func (o *Observer) StopExtraTask(ctx context.Context, t cluster.ECSTask) error {
	o.Log.Warn("stopping an extra task", "cluster", t.Cluster, "task", t.ID, "startedBy", t.StartedBy)
	out := &state.Outbox{
		Head: cluster.Head{Cluster: t.Cluster}, ID: "extra-" + t.ID, CreatedAt: o.Now,
		Stops: []state.StopItem{{ECSID: t.ID,
			Reason: "Another start of this task was adopted, or it was written off."}},
	}
	_, err := o.State.Write(ctx, state.Write{Put: out, Any: true})
	return cluster.Wrap(err, "asking for extra task %s to be stopped", t.ID)
}

// RecordUnreportedTasks asks ECS which tasks run on an instance that has none in the state, records
// them, and reports whether there are any. A start may take effect late, or its events may be lost;
// an instance must not be terminated with such a task on it.
func (o *Observer) RecordUnreportedTasks(ctx context.Context, ecs ECS, clusterName, instance string) (bool, error) {
	found := false
	err := ForEachTask(ctx, ecs, cluster.TaskFilter{Cluster: clusterName, Instance: instance,
		Desired: cluster.TaskRunning}, func(t cluster.ECSTask) error {
		found = true
		return cluster.IgnoreDrop(o.RecordTask(ctx, t))
	})
	return found, errors.Join(err, o.State.Flush(ctx))
}

// ForEachTask calls visit for each task that the filter selects, as ECS describes it.
func ForEachTask(ctx context.Context, ecs ECS, f cluster.TaskFilter, visit func(cluster.ECSTask) error) error {
	ids, err := ecs.ListTasks(ctx, f)
	if err != nil {
		return fmt.Errorf("listing tasks: %w", err)
	}
	for batch := range slices.Chunk(ids, cluster.DescribeBatch) {
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

// ForeignOwner is the owner of the rows of tasks that Berth did not start.
const ForeignOwner = "foreign"

// recordForeignTask records a task that somebody else started. It uses capacity of its instance.
func (o *Observer) recordForeignTask(ctx context.Context, t cluster.ECSTask) error {
	key := state.TaskKey(t.Cluster, ForeignOwner, t.ID)
	if t.Last == cluster.TaskStopped {
		_, err := o.State.Write(ctx, state.Write{Observe: o.NewObservation(key, t)})
		return cluster.Wrap(state.IgnoreConflict(err), "recording foreign task %s", t.ID)
	}
	known, err := state.ReadRow[*cluster.Task](ctx, o.State, key, "foreign task "+t.ID)
	switch {
	case err != nil:
		return err
	case known != nil:
		return o.updateForeignTask(ctx, known, t)
	}
	instance, err := o.State.Peek(ctx, state.InstanceKey(t.Cluster, t.Instance))
	if err != nil {
		return fmt.Errorf("reading instance %s: %w", t.Instance, err)
	}
	if instance == nil {
		return &cluster.Drop{Reason: fmt.Sprintf("task %s is on instance %q, which is not known in cluster %q", t.ID,
			t.Instance, t.Cluster)}
	}
	return state.CommitNarrowing(ctx, o.State, o.Clock, t.Cluster, func(stamp int64) (state.Row, error) {
		return newForeignTask(t, o.Now, stamp), nil
	})
}

// updateForeignTask records a report of a foreign task that has a row. Its ports become known only
// when it runs.
func (o *Observer) updateForeignTask(ctx context.Context, known *cluster.Task, t cluster.ECSTask) error {
	obs := o.NewObservation(state.KeyOf(known), t)
	next, newer := state.Write{Observe: obs}.Apply(known)
	if row, ok := next.(*cluster.Task); ok && newer && len(t.Ports) > len(known.Ports) {
		return state.CommitNarrowing(ctx, o.State, o.Clock, t.Cluster, func(stamp int64) (state.Row, error) {
			more := *row
			more.Stamp, more.Ports = stamp, t.Ports
			return &more, nil
		})
	}
	_, err := o.State.Write(ctx, state.Write{Observe: obs})
	return cluster.Wrap(state.IgnoreConflict(err), "recording foreign task %s", t.ID)
}

// newForeignTask returns the row of a task that somebody else started. ECS says how many GPUs it
// has, not which.
func newForeignTask(t cluster.ECSTask, now time.Time, stamp int64) *cluster.Task {
	return &cluster.Task{
		Head: cluster.Head{Cluster: t.Cluster, Rev: 1, Stamp: stamp},
		TaskSpec: cluster.TaskSpec{
			ID: t.ID, Owner: ForeignOwner, Group: t.Group, TaskDefinition: t.TaskDefinition,
			Needs: t.Needs, Ports: t.Ports, StartedByUser: t.StartedBy, CreatedAt: cluster.At(now),
		},
		TaskAssignment: cluster.TaskAssignment{Instance: t.Instance, Desired: cluster.TaskRunning},
		TaskReport: cluster.TaskReport{
			Foreign: true, Last: t.Last, Version: t.Version, ECSID: t.ID, Health: t.Health,
			Started: cluster.At(t.Started),
		},
	}
}

// RecordInstance records one report of an instance. known is its row if the caller has read it,
// else nil.
func (o *Observer) RecordInstance(ctx context.Context, i *cluster.Instance, known *cluster.Instance) error {
	return state.RetryRaces(ctx, o.Clock, "recording instance "+i.ID, func() error {
		if known == nil {
			row, err := o.State.Peek(ctx, state.InstanceKey(i.Cluster, i.ID))
			if err != nil {
				return fmt.Errorf("reading instance %s: %w", i.ID, err)
			}
			known, _ = row.(*cluster.Instance)
		}
		err := o.writeIfNewer(ctx, i, known)
		var c *state.Conflict
		if errors.As(err, &c) {
			known, _ = c.Row.(*cluster.Instance)
		}
		return err
	})
}

// RefreshInstances records instances as ECS describes them now.
func (o *Observer) RefreshInstances(ctx context.Context, ecs ECS, clusterName string, ids []string) error {
	for batch := range slices.Chunk(ids, cluster.DescribeBatch) {
		got, err := ecs.DescribeInstances(ctx, clusterName, batch)
		if err != nil {
			return fmt.Errorf("describing instances: %w", err)
		}
		for _, i := range got {
			if err := cluster.IgnoreDrop(o.RecordInstance(ctx, i, nil)); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeIfNewer writes the reported instance over its old row, which is nil if there is none, unless
// the report is older or changes nothing.
func (o *Observer) writeIfNewer(ctx context.Context, i, old *cluster.Instance) error {
	next := *i
	next.Rev = 1
	if old != nil {
		// A report that changes nothing needs no write, unless the instance is unavailable: an
		// older report that it was available may still arrive and must lose by its version.
		if next.Provider == "" {
			next.Provider = old.Provider // events may omit it
		}
		switch {
		case i.Version <= old.Version && next.Provider != old.Provider:
			next = *old
			next.Provider = i.Provider
		case i.Version <= old.Version || next.SameReport(old) && old.IsAvailable():
			return nil
		}
		next.Rev, next.ReleasedIn = old.Rev+1, old.ReleasedIn
	} else if i.IsDeregistered() {
		return &cluster.Drop{Reason: fmt.Sprintf("instance %s of cluster %q left before it was known", i.ID, i.Cluster)}
	}
	if next.IsDeregistered() {
		next.Expires = o.Now.Add(o.Settings.KeepStopped).Unix()
	}
	next.DisconnectedAt, next.DrainingAt = o.disconnectedSince(&next, old), o.drainingSince(&next, old)
	next.AttributesChangedAt = o.attributesChangedAt(&next, old)
	unavailable := !next.IsAvailable() && !next.IsDeregistered()
	if unavailable && old != nil && old.IsAvailable() {
		// Write the due row first: after a crash in between, the instance would otherwise wait for
		// the sweep. One that was unavailable before already has a due row.
		if err := o.SchedulePoll(ctx, next.Cluster, next.ID, 0); err != nil {
			return err
		}
	}
	if err := o.putInstance(ctx, &next, old); err != nil {
		return err
	}
	if unavailable && old == nil {
		return o.SchedulePoll(ctx, next.Cluster, next.ID, 0)
	}
	return nil
}

// disconnectedSince returns when Berth first saw the instance's agent disconnected, zero while it
// is connected.
func (o *Observer) disconnectedSince(next, old *cluster.Instance) cluster.Instant {
	switch {
	case next.AgentConnected || next.IsDeregistered():
		return 0
	case old != nil && !old.DisconnectedAt.IsZero():
		return old.DisconnectedAt
	}
	return cluster.At(o.Now)
}

// drainingSince returns when Berth first saw the instance DRAINING, zero while it is not.
func (o *Observer) drainingSince(next, old *cluster.Instance) cluster.Instant {
	switch {
	case next.Status != cluster.InstanceDraining:
		return 0
	case old != nil && !old.DrainingAt.IsZero():
		return old.DrainingAt
	}
	return cluster.At(o.Now)
}

// attributesChangedAt returns when Berth saw the instance's attributes change last, zero if they are
// those that it was first seen with.
func (o *Observer) attributesChangedAt(next, old *cluster.Instance) cluster.Instant {
	switch {
	case old == nil:
		return 0
	case maps.Equal(old.Attributes, next.Attributes):
		return old.AttributesChangedAt
	}
	return cluster.At(o.Now)
}

// putInstance writes the instance's row and its alias. A change that narrows what placement may
// decide moves the placement version on.
func (o *Observer) putInstance(ctx context.Context, next, old *cluster.Instance) error {
	alias, err := o.aliasWrites(ctx, next, old)
	if err != nil {
		return err
	}
	if old != nil && !narrowsInstance(old, next) {
		if len(alias) == 0 {
			_, err := o.State.Write(ctx, state.Write{Put: next})
			return cluster.Wrap(err, "recording instance %s", next.ID)
		}
		return o.State.Commit(ctx, state.Commit{Cluster: next.Cluster, Version: state.NoVersion,
			Writes: append(alias, state.Write{Put: next})})
	}
	// A new instance narrows nothing. It is written this way because an unknown cluster is detected
	// here.
	return state.CommitNarrowingAll(ctx, o.State, o.Clock, next.Cluster, func(stamp int64) ([]state.Write, error) {
		row := *next
		row.Stamp = stamp
		return append([]state.Write{{Put: &row}}, alias...), nil
	})
}

// aliasWrites returns the write that lets the instance be found by its EC2 instance id; none if the
// alias exists. When the instance deregisters the alias expires with it, unless the EC2 instance
// has registered again meanwhile.
func (o *Observer) aliasWrites(ctx context.Context, next, old *cluster.Instance) ([]state.Write, error) {
	known := old != nil && old.EC2InstanceID == next.EC2InstanceID
	if next.EC2InstanceID == "" || known && !next.IsDeregistered() {
		return nil, nil
	}
	alias := &state.Alias{Head: cluster.Head{Cluster: next.Cluster, Expires: next.Expires}, Derived: next.EC2InstanceID,
		ID: next.ID}
	if next.IsDeregistered() {
		now, err := state.ReadRow[*state.Alias](ctx, o.State, state.KeyOf(alias), "the alias of instance "+next.ID)
		if err != nil || now == nil || now.ID != next.ID {
			return nil, err
		}
	}
	return []state.Write{{Put: alias, Any: true}}, nil
}

// narrowsInstance reports whether the change takes away something that a decision may have relied
// on: availability, resources or attributes.
func narrowsInstance(old, next *cluster.Instance) bool {
	if old.IsAvailable() && !next.IsAvailable() || next.IsDeregistered() {
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

// RecordDeregistered records an instance that ECS no longer lists as INACTIVE.
func (o *Observer) RecordDeregistered(ctx context.Context, old *cluster.Instance) error {
	next := *old
	next.Head = cluster.Head{Cluster: old.Cluster}
	next.Status, next.AgentConnected, next.Version = cluster.InstanceInactive, false, old.Version+1
	return o.RecordInstance(ctx, &next, old)
}

// firstPoll is how soon ECS is asked for the first time. An agent disconnects and reconnects several times an hour
// as a part of its normal operation (Amazon ECS developer guide, container instance state change events), and the
// event of the reconnection is not asked for while the instance has tasks: it would come with each task that starts
// or stops.
const firstPoll = 10 * time.Second

// SchedulePoll makes dispatch ask ECS about the instance later, because no event may say that it is available
// again. It asks after [firstPoll], then after Settings.RetryInterval, which doubles with each generation up to
// Settings.RetryIntervalMax.
func (o *Observer) SchedulePoll(ctx context.Context, clusterName, id string, generation int) error {
	wait := min(firstPoll, o.Settings.RetryInterval)
	if generation > 0 {
		wait = min(o.Settings.RetryInterval<<min(generation-1, 10), o.Settings.RetryIntervalMax)
	}
	return o.writePoll(ctx, clusterName, id, o.Now.Add(wait), generation)
}

// SchedulePollAt makes dispatch ask ECS about an instance at a given time.
func (o *Observer) SchedulePollAt(ctx context.Context, clusterName, id string, at time.Time) error {
	return o.writePoll(ctx, clusterName, id, at, 0)
}

// writePoll writes a due row that makes dispatch ask ECS about the instance.
func (o *Observer) writePoll(ctx context.Context, clusterName, id string, at time.Time, generation int) error {
	due := state.NewDue(clusterName, state.DueInstance, id, at.Truncate(time.Second), o.Now)
	due.Generation = generation
	_, err := o.State.Write(ctx, state.Write{Put: due, Any: true})
	return cluster.Wrap(err, "scheduling a check of instance %s", id)
}
