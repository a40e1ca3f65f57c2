package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/taskstatechange"
	"berth/shared/observe"
	"berth/shared/state"
)

// Clusters follows what ECS does with clusters, container instances and task definitions.
type Clusters struct{ *Dependencies }

// ClusterCreated takes in a cluster that was just created at ECS, or was there.
func (a *Clusters) ClusterCreated(ctx context.Context, name string) error {
	if _, err := a.findCluster(ctx, name); err != nil {
		return err
	}
	return observe.AddToDirectory(ctx, a.State, name) // where adopting it was interrupted before
}

// CheckDeletable refuses to have a cluster deleted that still has services or tasks.
func (a *Clusters) CheckDeletable(ctx context.Context, name string) error {
	n, err := a.ServiceCount(ctx, name)
	if err != nil {
		return err
	}
	if n > 0 {
		return cluster.Errorf(cluster.CodeContainsServices, "The Cluster cannot be deleted while Services are active.")
	}
	tasks, err := listRows[*cluster.Task](ctx, a.State, state.Prefix(name, state.PrefixTask), "tasks")
	if slices.ContainsFunc(tasks, func(t *cluster.Task) bool { return !t.HasEnded() }) {
		return cluster.Errorf(cluster.CodeContainsTasks, "The Cluster cannot be deleted while Tasks are active.")
	}
	return err
}

// ClusterDeleted forgets a cluster that ECS has deleted, with all its rows: another may get its
// name.
func (a *Clusters) ClusterDeleted(ctx context.Context, name string) error {
	return observe.RemoveCluster(ctx, a.State, name)
}

// ServiceCount is how many services of the cluster are ACTIVE.
func (a *Clusters) ServiceCount(ctx context.Context, name string) (active int, err error) {
	services, err := listRows[*cluster.Service](ctx, a.State, state.Prefix(name, state.PrefixService), "services")
	for _, s := range services {
		if s.Status == cluster.ServiceActive {
			active++
		}
	}
	return active, err
}

// InstancesChanged takes in instances that were changed through the API, without waiting for ECS's
// event.
func (a *Clusters) InstancesChanged(ctx context.Context, clusterName string, ids []string) error {
	o := &observe.Observer{State: a.State, Now: a.Clock.Now(), Settings: a.Settings.Settings,
		Log: handler.Logger(a.Log)}
	return o.RefreshInstances(ctx, a.ECS, clusterName, ids)
}

// TaskDefinitionChanged takes in that a revision was deregistered or deleted, in every cluster that
// uses it.
func (a *Clusters) TaskDefinitionChanged(ctx context.Context, name string) error {
	return state.ForEachCluster(ctx, a.State, func(clusterName string) error {
		d, err := findRow[*cluster.TaskDefinition](ctx, a.State, state.TaskDefinitionKey(clusterName, name),
			"task definition "+name)
		if err != nil || d == nil || d.Inactive {
			return err
		}
		next := *d
		next.Inactive = true
		_, err = a.State.Write(ctx, state.Write{Put: &next, Any: true})
		return cluster.Wrap(err, "marking task definition %s", name)
	})
}

// findCluster makes sure that Berth knows the cluster, and takes it in if only ECS does.
func (a *Dependencies) findCluster(ctx context.Context, name string) (*state.Meta, error) {
	meta, err := findRow[*state.Meta](ctx, a.State, state.Key{Cluster: name, Sort: state.PrefixMeta}, "cluster "+name)
	if err != nil || meta != nil {
		return meta, err
	}
	active, err := a.ECS.ClusterActive(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("looking up cluster %s: %w", name, err)
	}
	if !active {
		return nil, cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found.")
	}
	return a.adoptCluster(ctx, name)
}

// adoptCluster starts to keep a cluster that ECS has, with the instances that it has already.
func (a *Dependencies) adoptCluster(ctx context.Context, name string) (*state.Meta, error) {
	now := a.Clock.Now()
	meta := &state.Meta{
		Head: cluster.Head{Cluster: name, Rev: 1}, CreatedAt: now, Short: cluster.ShortKey(name, "", now),
	}
	row, err := a.State.Write(ctx, state.Write{Put: meta})
	var c *state.Conflict
	if errors.As(err, &c) {
		row, err = c.Row, nil
	}
	if err != nil {
		return nil, fmt.Errorf("keeping cluster %s: %w", name, err)
	}
	// After its own row: a sweep takes what is listed and has none for one that was deleted.
	if err := observe.AddToDirectory(ctx, a.State, name); err != nil {
		return nil, err
	}
	got, ok := row.(*state.Meta)
	if !ok || got == nil {
		return nil, fmt.Errorf("keeping cluster %s: its row has gone", name)
	}
	_, err = a.newSweeper().RecordDifferences(ctx, name)
	return got, err
}

// newSweeper compares a cluster with ECS at once.
func (a *Dependencies) newSweeper() *taskstatechange.Handler {
	return &taskstatechange.Handler{State: a.State, ECS: a.ECS, Clock: a.Clock, Settings: a.Settings, Log: a.Log}
}
