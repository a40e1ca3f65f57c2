package api

import (
	"context"
	"sync"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// quotas remembers how many services clusters had when they were last counted, plus those created
// since. Counting anew for each CreateService would read all services of the cluster: creating n
// would cost n² reads.
type quotas struct {
	mu       sync.Mutex
	services map[string]serviceCount
}

type serviceCount struct {
	n  int
	at time.Time
}

// countValidity is how long a count is used. Until then, services that other environments create or
// delete are not counted, so the limit is approximate.
const countValidity = 5 * time.Minute

// reserveService counts one more service, or refuses it if the cluster has as many as it may (5,000
// by default; ECS quota "Services per cluster"). INACTIVE services do not count. A full or old
// count is checked by counting again before anything is refused.
func (a *Services) reserveService(ctx context.Context, clusterName string) error {
	if a.quotas.reserveOne(clusterName, a.Settings.ServiceLimit, a.Clock.Now()) {
		return nil
	}
	services, err := state.ListRows[*cluster.Service](ctx, a.State, state.Prefix(clusterName, state.PrefixService),
		"services")
	if err != nil {
		return err
	}
	c := serviceCount{at: a.Clock.Now()}
	for _, s := range services {
		if s.Status != cluster.ServiceInactive {
			c.n++
		}
	}
	a.quotas.setCount(clusterName, c)
	if !a.quotas.reserveOne(clusterName, a.Settings.ServiceLimit, a.Clock.Now()) {
		return cluster.Errorf(cluster.CodeInvalidParameter, "Cluster %s has %d services, and can have no more.",
			clusterName, c.n)
	}
	return nil
}

// reserveOne counts one more service and reports true, if the count is recent and below the limit.
func (q *quotas) reserveOne(clusterName string, limit int, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	c, known := q.services[clusterName]
	if !known || c.n >= limit || now.Sub(c.at) > countValidity {
		return false
	}
	c.n++
	q.services[clusterName] = c
	return true
}

func (q *quotas) setCount(clusterName string, c serviceCount) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.services == nil {
		q.services = map[string]serviceCount{}
	}
	q.services[clusterName] = c
}
