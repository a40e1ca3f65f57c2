package api

import (
	"context"
	"sync"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// quotas are how many services clusters had when they were last counted, those made since included: to count them all for
// each that is made would cost more than the rest.
type quotas struct {
	mu       sync.Mutex
	services map[string]counted
}

type counted struct {
	n  int
	at time.Time
}

// countAgain is how long a count is believed: services that others make or delete meanwhile do not show.
const countAgain = 5 * time.Minute

// another refuses a service beyond what a cluster may have, INACTIVE ones not counted.
func (a *Services) another(ctx context.Context, clusterName string) error {
	if a.quotas.take(clusterName, a.Settings.ServiceLimit, a.Clock.Now()) {
		return nil
	}
	services, err := list[*cluster.Service](ctx, a.State, state.Prefix(clusterName, state.PrefixService), "services")
	if err != nil {
		return err
	}
	c := counted{at: a.Clock.Now()}
	for _, s := range services {
		if s.Status != cluster.ServiceInactive {
			c.n++
		}
	}
	a.quotas.put(clusterName, c)
	if !a.quotas.take(clusterName, a.Settings.ServiceLimit, a.Clock.Now()) {
		return cluster.Errorf(cluster.CodeInvalidParameter, "Cluster %s has %d services, and can have no more.", clusterName, c.n)
	}
	return nil
}

// take counts one more service where it is known that there may be another.
func (q *quotas) take(clusterName string, limit int, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	c, known := q.services[clusterName]
	if !known || c.n >= limit || now.Sub(c.at) > countAgain {
		return false
	}
	c.n++
	q.services[clusterName] = c
	return true
}

func (q *quotas) put(clusterName string, c counted) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.services == nil {
		q.services = map[string]counted{}
	}
	q.services[clusterName] = c
}
