package api

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/operation"
	"berth/shared/state"
)

// findService reads a service; nil if it does not exist.
func (a *Dependencies) findService(ctx context.Context, clusterName, name string) (*cluster.Service, error) {
	return state.ReadRow[*cluster.Service](ctx, a.State, state.ServiceKey(clusterName, name), "service "+name)
}

// requireService reads a service. One that does not exist is a ServiceNotFoundException.
func (a *Dependencies) requireService(ctx context.Context, clusterName, name string) (*cluster.Service, error) {
	s, err := a.findService(ctx, clusterName, name)
	if err == nil && s == nil {
		err = cluster.Errorf(cluster.CodeServiceNotFound, "Service not found.")
	}
	return s, err
}

// editService applies f to a copy of the service and commits the result. If another writer comes
// first, f is applied again to what that one wrote, so f must have no effect but on its argument. If f
// returns [errUnchanged], nothing is written and the service is returned as it was.
func (a *Dependencies) editService(
	ctx context.Context, clusterName, name string, f func(*cluster.Service) error,
) (*operation.ServiceDetail, error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, err
	}
	var next cluster.Service
	err := a.retryNarrowing(ctx, clusterName, "changing service "+name, func() error {
		old, err := a.requireService(ctx, clusterName, name)
		if err != nil {
			return err
		}
		next = *old
		next.Rev++
		switch err := f(&next); {
		case errors.Is(err, errUnchanged):
			next = *old
			return nil
		case err != nil:
			return err
		}
		return a.commitService(ctx, old, &next)
	})
	if err != nil {
		return nil, err
	}
	return a.serviceDetail(ctx, &next)
}

// editServiceRules is editService for changes that may concern placement rules, of a service that
// is not INACTIVE. The result is checked like a new service: rules, network, tags of volumes, zone
// rebalancing, and whether the cluster can satisfy them.
func (a *Dependencies) editServiceRules(
	ctx context.Context, clusterName, name string, f func(*cluster.Service) error,
) (*operation.ServiceDetail, error) {
	return a.editService(ctx, clusterName, name, func(s *cluster.Service) error {
		if s.Status == cluster.ServiceInactive {
			return cluster.Errorf(cluster.CodeServiceNotActive, "Service was not ACTIVE.")
		}
		before := *s
		if err := f(s); err != nil {
			return err
		}
		// The definition's own constraints count too, and its network mode decides about the
		// network.
		if s.HasTaskSets() {
			if err := a.checkTaskSetRules(ctx, s); err != nil {
				return err
			}
			return a.checkFeasible(ctx, s, &before)
		}
		def, err := a.cachedDefinition(ctx, clusterName, s.Deployment.TaskDefinition)
		if err != nil {
			return err
		}
		if err := errors.Join(checkRules(&s.Rules, def, s.Strategy),
			checkNetwork(def, s.Deployment.Network)); err != nil {
			return err
		}
		// Only of a new deployment: a service that has too many tags already can still be scaled.
		if s.Deployment.ID != before.Deployment.ID {
			if err := checkVolumeTags(s.Deployment.Volumes, s.Tags, def.Tags); err != nil {
				return err
			}
		}
		if err := keepRebalancing(s, &before, def); err != nil {
			return err
		}
		return a.checkFeasible(ctx, s, &before)
	})
}

// commitService writes a service and its history in one commit that moves the placement version. A
// decision that was made about the service as it was then fails to commit.
func (a *Dependencies) commitService(ctx context.Context, old, s *cluster.Service) error {
	changes, err := changesEligibility(ctx, a.State, old, s)
	if err != nil {
		return err
	}
	if changes {
		s.RulesChangedAt = a.Clock.Now()
	}
	return state.TryNarrowing(ctx, a.State, s.Cluster, a.Clock.Now(), func(stamp int64) ([]state.Write, error) {
		row := *s
		row.Stamp = stamp
		return append([]state.Write{{Put: &row}}, a.historyWrites(old, s)...), nil
	})
}

// changesEligibility reports whether a change of a service concerns which instances it may use.
// Users are told since when no service can use an instance.
func changesEligibility(ctx context.Context, store state.Store, old, s *cluster.Service) (bool, error) {
	switch {
	case old == nil:
		return false, nil
	case old.Status != s.Status, !reflect.DeepEqual(old.Rules, s.Rules), !slices.Equal(old.Providers, s.Providers):
		return true, nil
	case old.Deployment.TaskDefinition == s.Deployment.TaskDefinition:
		return false, nil
	}
	var definitions [2]cluster.TaskDefinition // without a row, as for a service of task sets, an empty one
	for n, name := range []string{old.Deployment.TaskDefinition, s.Deployment.TaskDefinition} {
		row, err := state.ReadRow[*cluster.TaskDefinition](ctx, store, state.TaskDefinitionKey(s.Cluster, name),
			"task definition "+name)
		if err != nil {
			return false, err
		}
		if row != nil {
			definitions[n] = *row
		}
	}
	return !slices.Equal(definitions[0].Attributes, definitions[1].Attributes) ||
		!slices.Equal(definitions[0].Constraints, definitions[1].Constraints), nil
}

// historyWrites returns the writes of service deployments and revisions that belong to a change of
// a service; none if its deployment stays. The current deployment is described by the service's
// row. When it is replaced or the service ends, its final state is written here.
func (a *Dependencies) historyWrites(old, next *cluster.Service) (writes []state.Write) {
	revision := func(s *cluster.Service, r cluster.Revision) {
		writes = append(writes, state.Write{Any: true, Put: &cluster.ServiceRevision{
			Head: cluster.Head{Cluster: s.Cluster, Expires: a.expiresAfter(decide.KeepHistory)}, Service: s.Name,
			Short: s.Short, Revision: r,
		}})
	}
	release := func(s *cluster.Service, r *cluster.Release) {
		if r != nil {
			writes = append(writes, state.Write{Any: true, Put: &cluster.ServiceDeployment{
				Head: cluster.Head{Cluster: s.Cluster, Expires: a.expiresAfter(decide.KeepHistory)}, Service: s.Name,
				Short: s.Short, Release: *r, Configuration: s.DeploymentConfiguration(),
			}})
		}
	}
	// A service that was created again under its name has another short key.
	same := old != nil && old.Short == next.Short
	// The row of one that has ended stays as of its end.
	hasEnded := same && old.Release != nil && old.Release.Status.HasEnded()
	switch {
	case next.HasTaskSets(): // task sets are described as long as they exist
	case !same:
		revision(next, next.Deployment.Revision)
		release(next, next.Release)
	case next.Status != old.Status:
		if !hasEnded {
			release(next, next.Release)
		}
	case next.Deployment.ID != old.Deployment.ID:
		revision(old, old.Deployment.Revision)
		if !hasEnded {
			stopped := stoppedRelease(old.Release, next.Deployment.CreatedAt, "A new service deployment was started.")
			release(old, stopped)
		}
		revision(next, next.Deployment.Revision)
		release(next, next.Release)
	}
	return writes
}

// serviceDetail adds a service's events, newest first. They are ordered by number, because several
// may have the same time.
func (a *Dependencies) serviceDetail(ctx context.Context, s *cluster.Service) (*operation.ServiceDetail, error) {
	events, err := state.ListRows[*cluster.ServiceEvent](ctx, a.State,
		state.Prefix(s.Cluster, state.PrefixEvent+s.Short+"#"),
		"the events of service "+s.Name)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(events, func(x, y *cluster.ServiceEvent) int { return cmp.Compare(y.Number, x.Number) })
	return &operation.ServiceDetail{Service: s, EventLog: events}, nil
}
