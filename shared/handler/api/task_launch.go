package api

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// TaskLaunches say what tasks were asked for with, by id: of those with a strategy the capacity
// provider (S14), that of their instance, before they have one that which they wait for, where it
// is known.
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

// providerOfInstance is the capacity provider of the task's instance; one that is known is not read
// again.
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

// launchLookup knows what tasks were asked for with. Each service is read once.
type launchLookup struct {
	store state.Store
	known map[string]*cluster.Service // by short key; nil for one that is gone
}

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
	return s.Providers, s.Rules.External, nil
}
