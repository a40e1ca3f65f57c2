package handler

import (
	"context"
	"fmt"

	"berth/shared/cluster"
)

// TaskProviders are the capacity providers of those tasks that were asked for with a strategy (S14), by id: that of their
// instance, before they have one that which they wait for, where it is known.
func (a *API) TaskProviders(ctx context.Context, tasks []*cluster.Task) (map[string]string, error) {
	out, shares, instances := map[string]string{}, map[string][]cluster.ProviderShare{}, map[string]string{}
	for _, t := range tasks {
		of, err := a.sharesOf(ctx, t, shares)
		switch {
		case err != nil:
			return nil, err
		case len(of) == 0:
			continue
		case t.Instance == "":
			if t.Service == "" || len(of) == 1 {
				out[t.ID] = of[0].Provider
			}
			continue
		}
		name, known := instances[t.Instance]
		if !known {
			row, err := a.State.Peek(ctx, cluster.InstanceKey(t.Cluster, t.Instance))
			if err != nil {
				return nil, fmt.Errorf("reading instance %s: %w", t.Instance, err)
			}
			if i, ok := row.(*cluster.Instance); ok && i != nil {
				name = i.CapacityProvider()
			}
			instances[t.Instance] = name
		}
		if name != "" {
			out[t.ID] = name
		}
	}
	return out, nil
}

// sharesOf is the strategy that the task was asked for with; a service is read once.
func (a *API) sharesOf(ctx context.Context, t *cluster.Task, known map[string][]cluster.ProviderShare) ([]cluster.ProviderShare, error) {
	if t.Service == "" {
		if t.Rules == nil {
			return nil, nil
		}
		return t.Rules.Providers, nil
	}
	if of, ok := known[t.Owner]; ok {
		return of, nil
	}
	row, err := a.State.Peek(ctx, cluster.ServiceKey(t.Cluster, t.Service))
	if err != nil {
		return nil, fmt.Errorf("reading service %s: %w", t.Service, err)
	}
	if s, ok := row.(*cluster.Service); ok && s != nil && s.Short == t.Owner {
		known[t.Owner] = s.Providers
	}
	return known[t.Owner], nil
}
