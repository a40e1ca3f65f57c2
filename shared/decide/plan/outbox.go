package plan

import (
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/state"
)

// MaxTargets is the most tasks of which one outbox row asks dispatch to reconcile the
// registrations.
const MaxTargets = 500

// AddStart gives the task its batch and id, and writes it with the outbox row that makes dispatch
// start it: at most [RowsPerStart] rows. A task that has an id already, because it was
// provisioning, also gets the alias by which ECS's reports find it.
func (b *Builder) AddStart(t *cluster.Task) {
	slot := t.Owner + "/" + t.Instance
	t.Cluster, t.Desired = b.snap.Meta.Cluster, cluster.TaskRunning
	t.Batch = cluster.StartedBy(t.Owner, b.version, b.open.batches[slot])
	b.open.batches[slot]++
	item := state.StartItem{Instance: t.Instance, Alone: !t.Overrides.IsEmpty()}
	if v := b.snap.Instances[t.Instance]; v != nil && v.Instance != nil && v.ReleasedIn != "" {
		item.ReleasedIn, item.EC2InstanceID = v.ReleasedIn, v.EC2InstanceID
	}
	if derived := cluster.TaskID(t.Batch, t.Instance); t.ID == "" {
		t.ID = derived
	} else {
		item.ID = t.ID
		b.AddWrite(state.Write{Any: true, Put: &state.Alias{
			Head: cluster.Head{Cluster: t.Cluster}, Derived: derived, Owner: t.Owner, ID: t.ID,
		}})
	}
	t.Rev++
	b.PutRow(t)
	o := b.startsOf(t)
	o.Starts = append(o.Starts, item)
}

// startsOf returns the open commit's outbox row for the starts of the task's batch.
func (b *Builder) startsOf(t *cluster.Task) *state.Outbox {
	network, s := t.Network, b.snap.Services[t.Service]
	var revision *cluster.Revision
	if s != nil && t.Service != "" {
		if revision = s.Revision(t.Revision); revision != nil {
			network = revision.Network
		}
	}
	var launch *cluster.Launch
	switch {
	case t.Service == "":
		launch = t.LaunchSettings()
	case s != nil && s.Short == t.Owner:
		launch = s.LaunchSettings(revision)
	}
	return b.outboxFor(state.Outbox{Owner: t.Owner, TaskDefinition: t.TaskDefinition, Batch: t.Batch, Network: network,
		Launch: launch})
}

// AddStop writes that a task on an instance is to be stopped, after its registrations have been
// drained: at most 2 rows.
func (b *Builder) AddStop(t *cluster.Task, code, reason string) {
	b.AddWrite(state.Write{Stop: &state.Stop{Task: state.KeyOf(t), Code: code, Reason: reason}})
	b.open.versioned = true
	next := *t
	next.Rev++
	next.Desired, next.StopCode, next.Reason = cluster.TaskStopped, code, reason
	b.snap.Put(&next)
	o := b.outboxFor(state.Outbox{})
	o.Stops = append(o.Stops, state.StopItem{
		Owner: t.Owner, ID: t.ID, ECSID: t.ECSID, Reason: reason,
		Drain: b.snap.Target(t.Owner, t.ID) != nil,
	})
}

// outboxFor returns the open commit's outbox row for starts that have in common what wanted has, or
// for its stops. The commit rests on the placement version, so no other commit makes a row with the
// same id.
func (b *Builder) outboxFor(wanted state.Outbox) *state.Outbox {
	i := slices.IndexFunc(b.open.outbox, func(o *state.Outbox) bool {
		return o.Owner == wanted.Owner && o.TaskDefinition == wanted.TaskDefinition && o.Batch == wanted.Batch &&
			o.Network.Equal(wanted.Network) && o.Launch.Equal(wanted.Launch)
	})
	if i >= 0 {
		return b.open.outbox[i]
	}
	wanted.Head = cluster.Head{Cluster: b.snap.Meta.Cluster, Rev: 1}
	wanted.ID, wanted.CreatedAt = fmt.Sprintf("%013d-%02d", b.version, len(b.open.outbox)), b.now
	if wanted.Batch == "" {
		wanted.ID = state.OutboxStops + "s-" + wanted.ID // behind those of callers of StopTask
	}
	b.open.outbox = append(b.open.outbox, &wanted)
	return &wanted
}

// RequestRegistration asks dispatch to reconcile the task's registrations with its [cluster.Target]
// row: at most 1 row.
func (b *Builder) RequestRegistration(owner, id string) {
	o := b.noticeRow()
	o.Targets = append(o.Targets, state.TargetItem{Owner: owner, ID: id})
}

// RequestDeregistration asks dispatch, once, to deregister a task that has ended. Dispatch deletes
// the [cluster.Target] row afterwards.
func (b *Builder) RequestDeregistration(owner, id string) {
	key := state.TargetKey(b.snap.Meta.Cluster, owner, id)
	if b.requested.Deregistrations[key] {
		return
	}
	b.requested.Deregistrations[key] = true
	b.KeepTogether(1)
	if o := b.open.notices; o != nil && len(o.Targets) >= MaxTargets {
		b.CloseCommit()
	}
	b.RequestRegistration(owner, id)
}

// PublishEvents puts events on the event bus: at most 1 row.
func (b *Builder) PublishEvents(events ...state.PublishedEvent) {
	o := b.noticeRow()
	o.Publish = append(o.Publish, events...)
}

// noticeRow returns the open commit's outbox row for registrations and events. They take no token
// of the account's quotas, so they do not wait behind starts, which do.
func (b *Builder) noticeRow() *state.Outbox {
	if b.open.notices == nil {
		b.open.notices = &state.Outbox{Head: cluster.Head{Cluster: b.snap.Meta.Cluster}, CreatedAt: b.now}
	}
	return b.open.notices
}
