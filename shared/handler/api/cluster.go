package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/handler"
	"berth/shared/handler/taskstatechange"
	"berth/shared/observe"
	"berth/shared/operation"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Clusters keeps the state in step with what ECS does with clusters, container instances and task
// definitions: ECS owns those, and the API passes their operations on.
type Clusters struct{ *Dependencies }

// ClusterCreated begins to manage a cluster that was just created at ECS, or that ECS had already.
func (a *Clusters) ClusterCreated(ctx context.Context, name string) error {
	meta, err := a.readMeta(ctx, name)
	if err == nil && meta == nil {
		err = a.adoptCluster(ctx, name)
	}
	if err != nil {
		return err
	}
	// Adopting the cluster may have been cut off before this write.
	return observe.AddToDirectory(ctx, a.State, name)
}

// CheckManaged refuses a cluster that Berth does not manage, with ClusterNotFoundException, even if
// ECS has it.
func (a *Clusters) CheckManaged(ctx context.Context, name string) error {
	_, err := a.findCluster(ctx, name)
	return err
}

// ManagedClusters returns the names of the clusters that Berth manages, sorted.
func (a *Clusters) ManagedClusters(ctx context.Context) ([]string, error) {
	return state.ClusterNames(ctx, a.State)
}

// CheckDeletable refuses to delete a cluster that has ACTIVE services, tasks, or node groups. ECS
// itself knows of no service and no node group, so it would delete the cluster. EKS, too, deletes no
// cluster that has node groups (EKS API reference, DeleteCluster); of ECS's errors the one about
// instances says it best.
func (a *Clusters) CheckDeletable(ctx context.Context, name string) error {
	err := state.VisitRows(ctx, a.State, state.Prefix(name, state.PrefixService), "services",
		func(s *cluster.Service) error {
			if s.Status != cluster.ServiceActive {
				return nil
			}
			return cluster.Errorf(cluster.CodeContainsServices,
				"The Cluster cannot be deleted while Services are active.")
		})
	if err != nil {
		return err
	}
	err = state.VisitRows(ctx, a.State, state.Prefix(name, state.PrefixTask), "tasks", func(t *cluster.Task) error {
		if t.HasEnded() {
			return nil
		}
		return cluster.Errorf(cluster.CodeContainsTasks, "The Cluster cannot be deleted while Tasks are active.")
	})
	if err != nil {
		return err
	}
	return state.VisitRows(ctx, a.State, state.Prefix(name, state.PrefixNodeGroup), "node groups",
		func(g *cluster.NodeGroup) error {
			return cluster.Errorf(cluster.CodeContainsInstances,
				"The Cluster cannot be deleted while it has node groups. Node group %s is %s; delete it first.",
				g.Name, g.Status)
		})
}

// ClusterDeleted removes a cluster that ECS has deleted, with all its rows. Another cluster may get
// its name and must find nothing.
func (a *Clusters) ClusterDeleted(ctx context.Context, name string) error {
	return observe.RemoveCluster(ctx, a.State, name)
}

// ListInstances returns a page of the ids of the container instances that meet the filter; more
// reports whether there is another page. It knows the tasks by Berth's rows: at ECS no task has the
// group of its service. A filter that cannot be read is an InvalidParameterException.
func (a *Clusters) ListInstances(ctx context.Context, q operation.ListInstances) (ids []string, more bool, err error) {
	if _, err := a.findCluster(ctx, q.Cluster); err != nil {
		return nil, false, err
	}
	filter, err := constraint.ParseQuery(q.Filter)
	if err != nil {
		return nil, false, cluster.Errorf(cluster.CodeInvalidParameter, "The filter is not valid: %s", err)
	}
	err = a.reads.View(ctx, a.State, q.Cluster, func(snap *snapshot.Snapshot) error {
		for _, v := range snap.InstancesByIndex() {
			if v == nil || v.Instance == nil || v.ID <= q.After {
				continue
			}
			listed := v.Status == q.Status || q.Status == "" && !v.IsDeregistered()
			if listed && filter.Matches(v.Facts()) {
				ids = append(ids, v.ID)
			}
		}
		return nil
	})
	if errors.As(err, new(*cluster.Drop)) { // deleted since it was found
		err = a.clusterNotFound(ctx, q.Cluster)
	}
	if err != nil {
		return nil, false, err
	}
	slices.Sort(ids)
	return ids[:min(len(ids), q.Limit)], len(ids) > q.Limit, nil
}

// ClusterCounts counts the services and tasks of a cluster. It visits every task, so that the
// counts agree with ListTasks, and copies none.
func (a *Clusters) ClusterCounts(ctx context.Context, name string) (out operation.ClusterCounts, err error) {
	of := func(external bool) *operation.LaunchTypeCounts {
		if external {
			return &out.External
		}
		return &out.EC2
	}
	services, err := state.ListRows[*cluster.Service](ctx, a.State, state.Prefix(name, state.PrefixService), "services")
	if err != nil {
		return out, err
	}
	owners := map[string]*cluster.Service{} // of tasks
	for _, s := range services {
		owners[s.Short] = s
		external := s.OfRevision(s.Deployment.ID).Rules.External
		switch s.Status {
		case cluster.ServiceActive:
			of(external).ActiveServices++
		case cluster.ServiceDraining:
			of(external).DrainingServices++
		}
	}
	err = state.VisitRows(ctx, a.State, state.Prefix(name, state.PrefixTask), "tasks", func(t *cluster.Task) error {
		s := owners[t.Owner]
		n := of(s != nil && s.OfRevision(t.Revision).Rules.External || t.Rules != nil && t.Rules.External)
		switch t.Status() {
		case cluster.TaskRunning:
			n.Running++
		case cluster.TaskProvisioning, cluster.TaskPending:
			n.Pending++
		}
		return nil
	})
	return out, err
}

// InstancesChanged reads instances anew from ECS after a change through the API. So a caller who
// lists them next, and placement, need not wait for ECS's event.
func (a *Clusters) InstancesChanged(ctx context.Context, clusterName string, ids []string) error {
	return a.turns.runNext(ctx, a.Clock, clusterName, a.Clock.Now().Add(raceTimeout), func() error {
		o := &observe.Observer{State: state.NewFeed(a.State, a.Clock), Clock: a.Clock, Now: a.Clock.Now(),
			Settings: a.Settings.Settings, Log: handler.Logger(a.Log)}
		return o.RefreshInstances(ctx, a.ECS, clusterName, ids)
	})
}

// SuggestFamily adds the nearest family to a refusal of the task definition, if its family does not
// exist.
func (a *Clusters) SuggestFamily(ctx context.Context, name string, refused error) error {
	return suggestFamily(ctx, a.ECS, name, refused)
}

// findCluster returns the meta row of a cluster that Berth manages. Any other is a
// ClusterNotFoundException, even if ECS has it: who may only read must not make Berth manage it.
func (a *Dependencies) findCluster(ctx context.Context, name string) (*state.Meta, error) {
	meta, err := a.readMeta(ctx, name)
	if err == nil && meta == nil {
		err = a.clusterNotFound(ctx, name)
	}
	return meta, err
}

// clusterNotFound returns ECS's words for a cluster that does not exist, and what to do about one
// that only ECS has.
func (a *Dependencies) clusterNotFound(ctx context.Context, name string) error {
	if active, err := a.ECS.ClusterActive(ctx, name); err == nil && active {
		return cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found. Berth does not manage cluster %s; "+
			"CreateCluster makes it manage a cluster of ECS.", name)
	}
	return cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found.")
}

// readMeta returns the meta row of a cluster, nil if Berth does not manage it.
func (a *Dependencies) readMeta(ctx context.Context, name string) (*state.Meta, error) {
	return state.ReadRow[*state.Meta](ctx, a.State, state.Key{Cluster: name, Sort: state.PrefixMeta}, "cluster "+name)
}

// adoptCluster begins to manage a cluster that ECS has. Its instances and their tasks are recorded
// at once, so that the first placement finds them.
func (a *Dependencies) adoptCluster(ctx context.Context, name string) error {
	active, err := a.ECS.ClusterActive(ctx, name)
	switch {
	case err != nil:
		return fmt.Errorf("looking up cluster %s: %w", name, err)
	case !active:
		return cluster.Errorf(cluster.CodeClusterNotFound, "Cluster not found.")
	}
	now := a.Clock.Now()
	meta := &state.Meta{
		Head: cluster.Head{Cluster: name, Rev: 1}, CreatedAt: now, Short: cluster.ShortKey(name, "", now),
	}
	_, err = a.State.Write(ctx, state.Write{Put: meta})
	var c *state.Conflict
	if err != nil && !errors.As(err, &c) { // another call may adopt it at the same time
		return fmt.Errorf("adopting cluster %s: %w", name, err)
	}
	// Listed after its own row is written: a sweep treats a cluster that is listed and has no row
	// as deleted.
	if err := observe.AddToDirectory(ctx, a.State, name); err != nil {
		return err
	}
	_, err = a.newSweeper().RecordDifferences(ctx, name)
	return err
}

// newSweeper returns the part of the task-state-change function that compares a cluster with ECS.
func (a *Dependencies) newSweeper() *taskstatechange.Handler {
	return &taskstatechange.Handler{State: a.State, ECS: a.ECS, Clock: a.Clock, Settings: a.Settings, Log: a.Log}
}
