package managedscaling

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// A reading has a cluster's instances, tasks and task definitions as they were when all were read, with
// the change sets of placement's later batches applied.
type reading struct {
	// createdAt is when the cluster was created: one created since may have the same name.
	createdAt time.Time
	// seen is the batch that placement was at when everything was read: it may not have ended. batch is
	// the last one whose changes the reading has, version the placement version that it has.
	seen, batch, version int64
	readAt               time.Time // when everything was read
	changedAt            time.Time // when the last batch ended whose set was applied; zero for none
	// hasStaleInstances says that managed scaling itself has recorded instances since: placement may not
	// have seen that yet.
	hasStaleInstances bool
	rows              []state.Row
	index             map[state.Key]int // in rows
	// undefined are task definitions that are not in the table, which each look would ask for.
	undefined map[string]bool
}

const (
	// maxReadingAge is how long a reading is used without another look at everything. Placement may be
	// down.
	maxReadingAge = 30 * time.Minute
	// maxLag is how old the last change set may be while placement is at a later batch. The set has the
	// time of placement's clock: one that is wrong costs a read of everything, or a look that is late.
	maxLag = 10 * time.Second
	// maxSets and maxSetsBytes bound the change sets that one look applies, the latter as they are
	// packed. Reading everything then costs about as much.
	maxSets      = 300
	maxSetsBytes = 2 << 20
)

// readPlacement returns the instances, tasks and task definitions of a cluster. In a large cluster
// these would be nearly all that a look costs. So they are read as a whole only if the last reading
// cannot be brought up to date with placement's change sets, which [reading.isCurrent] judges.
//
// A look that a wake-up asks for reads the instances in any case, because their change may have woken
// this function before placement. The rows are copies.
func (p *pass) readPlacement(ctx context.Context, meta *state.Meta) ([]state.Row, error) {
	now := p.Clock.Now()
	// That of a second ago will do: tasks that begin to wait move the version, too.
	row, err := p.State.Peek(ctx, state.Key{Cluster: meta.Cluster, Sort: state.PrefixCheckpoint})
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint of cluster %s: %w", meta.Cluster, err)
	}
	var batch int64
	if checkpoint, ok := row.(*state.Checkpoint); ok && checkpoint != nil {
		batch = checkpoint.Batch
	}
	known := p.readings[meta.Cluster]
	isKnown := known != nil && known.createdAt.Equal(meta.CreatedAt) && !now.Before(known.readAt) &&
		now.Sub(known.readAt) <= maxReadingAge && batch-known.batch <= maxSets
	if isKnown && !known.isComplete(batch, meta.Version) {
		if isKnown, err = p.applyChangeSets(ctx, meta.Cluster, known); err != nil {
			return nil, err
		}
	}
	isWoken := p.visited != nil
	switch {
	case !isKnown || !known.isCurrent(batch, meta.Version, isWoken, now):
		if known, err = p.readWhole(ctx, meta, batch); err != nil {
			return nil, err
		}
		if p.readings == nil {
			p.readings = map[string]*reading{}
		}
		p.readings[meta.Cluster] = known
	case isWoken || known.hasStaleInstances:
		instances, err := p.State.List(ctx, state.Prefix(meta.Cluster, state.PrefixInstance))
		if err != nil {
			return nil, fmt.Errorf("reading the instances of cluster %s: %w", meta.Cluster, err)
		}
		known.replaceInstances(instances)
		known.hasStaleInstances = false
	}
	return known.copyRows(now), nil
}

// isComplete reports whether nothing has changed since that placement would have seen at this batch
// and version.
func (r *reading) isComplete(batch, version int64) bool {
	return batch <= max(r.seen, r.batch) && version <= r.version
}

// isCurrent reports whether the reading will do for a decision. While placement is at a batch, a reading
// does that has the batches up to a few seconds ago, but not if a wake-up asks for what is new. Nor does
// it if the instances have to be read, which would be newer than its tasks: who sees that an instance is
// marked as released must see all tasks that were placed there before (package scaling, "A release takes
// two decisions").
func (r *reading) isCurrent(batch, version int64, isWoken bool, now time.Time) bool {
	return r.isComplete(batch, version) ||
		!isWoken && !r.hasStaleInstances && now.Sub(r.changedAt).Abs() <= maxLag
}

// readWhole reads everything. If placement is at the batch still, its changes are to come.
func (p *pass) readWhole(ctx context.Context, meta *state.Meta, batch int64) (*reading, error) {
	r := &reading{
		createdAt: meta.CreatedAt, seen: batch, batch: batch - 1, version: meta.Version, readAt: p.Clock.Now(),
		index: map[state.Key]int{}, undefined: map[string]bool{},
	}
	ended, err := p.State.Get(ctx, state.ChangeSetKey(meta.Cluster, batch))
	if err != nil {
		return nil, fmt.Errorf("reading the last change set of cluster %s: %w", meta.Cluster, err)
	}
	if set, ok := ended.(*state.ChangeSet); ok && set != nil && set.ClusterCreatedAt.Equal(meta.CreatedAt) {
		r.batch, r.changedAt = set.Batch, set.At
	}
	for _, of := range []state.Range{
		state.Prefix(meta.Cluster, state.PrefixInstance),
		{Cluster: meta.Cluster, From: state.PrefixTask, To: state.PrefixDefinition + "\xff"},
	} {
		rows, err := p.State.List(ctx, of)
		if err != nil {
			return nil, fmt.Errorf("reading the rows of cluster %s from %s on: %w", meta.Cluster, of.From, err)
		}
		for _, row := range rows {
			r.put(row)
		}
	}
	return r, nil
}

// applyChangeSets applies the sets of batches that have ended since. It reports false if everything
// must be read: a set is missing, omits its rows or cannot be read, or there are too many.
func (p *pass) applyChangeSets(ctx context.Context, clusterName string, r *reading) (bool, error) {
	sets, err := state.ListRows[*state.ChangeSet](
		ctx, p.State, state.ChangeSetsAfter(clusterName, r.batch, maxSets), "change sets")
	if err != nil {
		return false, err
	}
	size := 0
	for _, set := range sets {
		size += len(set.Packed)
		if set.Batch != r.batch+1 || set.Omitted || !set.ClusterCreatedAt.Equal(r.createdAt) || size > maxSetsBytes {
			return false, nil
		}
		changes, err := set.Unpack()
		if err != nil {
			handler.Logger(p.Log).Warn("a change set is not used", "cluster", clusterName, "error", err)
			return false, nil
		}
		for _, c := range changes {
			if c.Row == nil {
				r.remove(c.Key)
			} else {
				r.put(c.Row)
			}
		}
		r.batch, r.version, r.changedAt = set.Batch, max(r.version, set.Version), set.At
	}
	return true, nil
}

// put stores a row unless the reading has a newer version of it.
func (r *reading) put(row state.Row) {
	key := state.KeyOf(row)
	at, known := r.index[key]
	switch {
	case !known:
		r.index[key] = len(r.rows)
		r.rows = append(r.rows, row)
	case r.rows[at].Header().Rev <= row.Header().Rev:
		r.rows[at] = row
	}
}

func (r *reading) remove(key state.Key) {
	at, known := r.index[key]
	if !known {
		return
	}
	last := len(r.rows) - 1
	r.rows[at] = r.rows[last]
	r.index[state.KeyOf(r.rows[at])] = at
	r.rows = slices.Delete(r.rows, last, last+1)
	delete(r.index, key)
}

// replaceInstances puts the instances as they are now, and removes all others.
func (r *reading) replaceInstances(now []state.Row) {
	is := map[state.Key]bool{}
	for _, row := range now {
		is[state.KeyOf(row)] = true
		r.put(row)
	}
	for _, row := range slices.Clone(r.rows) {
		if i, ok := row.(*cluster.Instance); ok && !is[state.KeyOf(i)] {
			r.remove(state.KeyOf(i))
		}
	}
}

// copyRows returns the rows that have not expired. It copies the instances and tasks among them: a
// snapshot changes those that it is given.
func (r *reading) copyRows(now time.Time) []state.Row {
	out := make([]state.Row, 0, len(r.rows))
	for _, row := range r.rows {
		if e := row.Header().Expires; e > 0 && e <= now.Unix() {
			continue
		}
		switch of := row.(type) {
		case *cluster.Task:
			row = new(*of)
		case *cluster.Instance:
			row = new(*of)
		}
		out = append(out, row)
	}
	return out
}

// loadDefinitions reads the task definitions of services and of Berth's own tasks that the snapshot
// lacks: a reading may be older than they are.
func (r *round) loadDefinitions(ctx context.Context) error {
	known := r.pass.readings[r.of.Cluster]
	var names []string
	for _, s := range r.snap.Services {
		for _, revision := range s.Revisions() {
			names = append(names, revision.TaskDefinition)
		}
	}
	for t := range r.snap.Tasks() {
		if !t.Foreign && !t.HasEnded() && r.snap.Definitions[t.TaskDefinition] == nil {
			names = append(names, t.TaskDefinition)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if r.snap.Definitions[name] != nil || known.undefined[name] {
			continue
		}
		row, err := r.State.Get(ctx, state.TaskDefinitionKey(r.of.Cluster, name))
		if err != nil {
			return fmt.Errorf("reading task definition %s: %w", name, err)
		}
		if row == nil {
			known.undefined[name] = true
			continue
		}
		r.snap.Put(row)
		known.put(row)
	}
	return nil
}

// listRest returns the configuration, the histories and services of a cluster, and what belongs to
// services.
func (h *Handler) listRest(ctx context.Context, clusterName string) (all []state.Row, err error) {
	for _, part := range []state.Range{
		state.Prefix(clusterName, state.PrefixConfiguration),
		{Cluster: clusterName, From: state.PrefixScaling, To: state.PrefixTask},
	} {
		rows, err := h.State.List(ctx, part)
		if err != nil {
			return nil, fmt.Errorf("reading the rows of cluster %s from %s on: %w", clusterName, part.From, err)
		}
		all = append(all, rows...)
	}
	return all, nil
}
