package api

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// TaskLaunches returns, by task id, the capacity provider (S14) or the launch type that
// DescribeTasks shows. A placed task has its instance's provider. An unplaced one has the provider
// that it waits for, if that is certain. Tasks of the launch type EC2 are left out.
func (a *Tasks) TaskLaunches(ctx context.Context, tasks []*cluster.Task) (map[string]operation.TaskLaunch, error) {
	out, instances := map[string]operation.TaskLaunch{}, map[string]string{}
	asked := &launchLookup{store: a.State, known: map[string]*cluster.Service{}}
	for _, t := range tasks {
		of, external, err := asked.findLaunch(ctx, t)
		if err != nil {
			return nil, err
		}
		launch := operation.TaskLaunch{External: external}
		switch {
		case len(of) == 0:
		case t.Instance != "":
			if launch.Provider, err = a.providerOfInstance(ctx, t, instances); err != nil {
				return nil, err
			}
		case t.Service == "" || len(of) == 1:
			launch.Provider = of[0].Provider
		}
		if launch != (operation.TaskLaunch{}) {
			out[t.ID] = launch
		}
	}
	return out, nil
}

// providerOfInstance returns the capacity provider of the task's instance. known caches the answers
// of one call.
func (a *Tasks) providerOfInstance(ctx context.Context, t *cluster.Task, known map[string]string) (string, error) {
	if name, ok := known[t.Instance]; ok {
		return name, nil
	}
	row, err := a.State.Peek(ctx, state.InstanceKey(t.Cluster, t.Instance))
	if err != nil {
		return "", fmt.Errorf("reading instance %s: %w", t.Instance, err)
	}
	if i, ok := row.(*cluster.Instance); ok && i != nil {
		known[t.Instance] = i.CapacityProvider()
	}
	return known[t.Instance], nil
}

// A launchLookup finds what tasks were requested with. It reads each service once.
type launchLookup struct {
	store state.Store
	known map[string]*cluster.Service // by short key; nil for a service that no longer exists
}

// findLaunch returns the capacity provider strategy that a task was requested with, and whether its
// launch type is EXTERNAL. For a task of a service that is what the service says now; nothing if
// the service no longer exists.
func (a *launchLookup) findLaunch(
	ctx context.Context, t *cluster.Task,
) (shares []cluster.ProviderShare, external bool, err error) {
	if t.Service == "" {
		if t.Rules == nil {
			return nil, false, nil
		}
		return t.Rules.Providers, t.Rules.External, nil
	}
	s, known := a.known[t.Owner]
	if !known {
		row, err := a.store.Peek(ctx, state.ServiceKey(t.Cluster, t.Service))
		if err != nil {
			return nil, false, fmt.Errorf("reading service %s: %w", t.Service, err)
		}
		if s, _ = row.(*cluster.Service); s != nil && s.Short != t.Owner {
			s = nil
		}
		a.known[t.Owner] = s
	}
	if s == nil {
		return nil, false, nil
	}
	s = s.OfRevision(t.Revision)
	return s.Providers, s.Rules.External, nil
}
