package api

import (
	"context"
	"sync"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// quotas are how many services clusters had when they were last counted, those made since included:
// to count them all for each that is made would cost more than the rest.
type quotas struct {
	mu       sync.Mutex
	services map[string]serviceCount
}

type serviceCount struct {
	n  int
	at time.Time
}

// countValidity is how long a count is believed: services that others make or delete meanwhile do
// not show.
const countValidity = 5 * time.Minute

// reserveService refuses a service beyond what a cluster may have, INACTIVE ones not counted.
func (a *Services) reserveService(ctx context.Context, clusterName string) error {
	if a.quotas.reserveOne(clusterName, a.Settings.ServiceLimit, a.Clock.Now()) {
		return nil
	}
	services, err := listRows[*cluster.Service](ctx, a.State, state.Prefix(clusterName, state.PrefixService),
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

// reserveOne counts one more service where it is known that there may be another.
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
