package api

import (
	"context"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/service"
	"berth/shared/state"
)

// ServiceThrottle returns a service and how its starts are slowed down (S7); a nil throttle if
// nothing is.
//
// It computes the backoffs as placement does, from the throttle's row and the tasks. The row alone
// would miss starts that ECS refused: no event reports those, so the throttling function never sees
// them.
func (a *Services) ServiceThrottle(
	ctx context.Context, clusterName, name string,
) (*cluster.Service, *cluster.Throttle, error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, nil, err
	}
	s, err := a.requireService(ctx, clusterName, name)
	if err != nil {
		return nil, nil, err
	}
	old, err := state.ReadRow[*cluster.Throttle](ctx, a.State, state.ThrottleKey(clusterName, s.Short),
		"the throttle of service "+name)
	if err != nil {
		return nil, nil, err
	}
	tasks, err := state.ListRows[*cluster.Task](ctx, a.State, state.Prefix(clusterName, state.PrefixTask+s.Short+"#"),
		"the tasks of service "+name)
	if err != nil {
		return nil, nil, err
	}
	backoffs := service.Backoffs(old, tasks, a.Settings.Limits(), a.Clock.Now())
	maps.DeleteFunc(backoffs, func(id string, _ cluster.Backoff) bool { return !HasDeployment(s, id) })
	if len(backoffs) == 0 {
		return s, nil, nil
	}
	return s, &cluster.Throttle{Head: cluster.Head{Cluster: clusterName}, Owner: s.Short, Service: s.Name,
		Revisions: backoffs}, nil
}

// HasDeployment reports whether the service still has the deployment, as the PRIMARY or an older
// one.
func HasDeployment(s *cluster.Service, id string) bool {
	return id == s.Deployment.ID || slices.ContainsFunc(s.Older, func(d cluster.Deployment) bool { return d.ID == id })
}
