package handler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"berth/shared/cluster"
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
func (a *API) another(ctx context.Context, clusterName string) error {
	a.quotas.mu.Lock()
	defer a.quotas.mu.Unlock()
	c, known := a.quotas.services[clusterName]
	if !known || c.n >= a.Settings.ServiceLimit || a.Clock.Now().Sub(c.at) > countAgain {
		rows, err := a.State.List(ctx, cluster.Prefix(clusterName, cluster.PrefixService))
		if err != nil {
			return fmt.Errorf("counting services: %w", err)
		}
		c = counted{at: a.Clock.Now()}
		for _, row := range rows {
			if s, ok := row.(*cluster.Service); ok && s.Status != cluster.ServiceInactive {
				c.n++
			}
		}
	}
	if a.quotas.services == nil {
		a.quotas.services = map[string]counted{}
	}
	full := c.n >= a.Settings.ServiceLimit
	if !full {
		c.n++
	}
	a.quotas.services[clusterName] = c
	if full {
		return cluster.Errorf(cluster.CodeInvalidParameter, "Cluster %s has %d services, and can have no more.", clusterName, c.n)
	}
	return nil
}
