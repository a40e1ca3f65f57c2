package managedscaling

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A generation says which changes of a cluster placement has seen and made. While it stays, no instance,
// task, throttle or definition in use has changed in a way that placement had to look at.
type generation struct{ version, batch int64 }

// A reading is what a cluster's instances, and its tasks, task definitions and throttles, were when they
// were read at a generation.
type reading struct {
	generation       generation
	at               time.Time
	instances, tasks []state.Row
}

// maxReadingAge is how long a reading is used without another look. Placement may be down.
const maxReadingAge = 30 * time.Minute

// readPlacement returns the instances, tasks, task definitions and throttles of a cluster. They are read
// only if placement has handled a batch since they were read last: in a cluster in which nothing happens
// its instances and the sixteen partitions of its tasks would be most of what a look costs. A look that a
// wake-up asks for reads the instances in any case, because their change may have woken this function
// before placement.
//
// The rows are copies. The version is that of placement, which the caller has read. The checkpoint may be
// that of a second ago: tasks that begin to wait move the version, too.
func (p *pass) readPlacement(ctx context.Context, clusterName string, version int64) ([]state.Row, error) {
	row, err := p.State.Peek(ctx, state.Key{Cluster: clusterName, Sort: state.PrefixCheckpoint})
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint of cluster %s: %w", clusterName, err)
	}
	now, g := p.Clock.Now(), generation{version: version}
	if checkpoint, ok := row.(*state.Checkpoint); ok && checkpoint != nil {
		g.batch = checkpoint.Batch
	}
	known := p.readings[clusterName]
	isCurrent := known != nil && known.generation == g && now.Sub(known.at) <= maxReadingAge && !now.Before(known.at)
	next := reading{generation: g, at: now}
	if isCurrent {
		next = *known
	}
	if isWoken := p.visited != nil; isWoken || next.instances == nil {
		if next.instances, err = p.State.List(ctx, state.Prefix(clusterName, state.PrefixInstance)); err != nil {
			return nil, fmt.Errorf("reading the instances of cluster %s: %w", clusterName, err)
		}
	}
	if !isCurrent {
		next.tasks, err = p.State.List(ctx,
			state.Range{Cluster: clusterName, From: state.PrefixTask, To: state.PrefixThrottle + "\xff"})
		if err != nil {
			return nil, fmt.Errorf("reading the tasks of cluster %s: %w", clusterName, err)
		}
	}
	if p.readings == nil {
		p.readings = map[string]*reading{}
	}
	p.readings[clusterName] = &next
	return slices.Concat(copyRows(next.instances), copyRows(next.tasks)), nil
}

// copyRows copies the instances and tasks among the rows: a snapshot changes those that it is given.
func copyRows(rows []state.Row) []state.Row {
	out := make([]state.Row, len(rows))
	for i, row := range rows {
		switch of := row.(type) {
		case *cluster.Task:
			row = new(*of)
		case *cluster.Instance:
			row = new(*of)
		}
		out[i] = row
	}
	return out
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
