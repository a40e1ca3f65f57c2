package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"berth/shared/cluster"
)

// Applications: their limits, and the services that belong to them (P20).

// applicationKinds are actions of an eighth of the runs. Like [extraKinds] they have a source of
// their own.
var applicationKinds = []string{"limit-applications", "join-application", "join-application", "join-application"}

// applicationLimits are what configurations say of the application shop.
var applicationLimits = []cluster.Application{
	{MaximumNodes: 1},
	{MaximumNodes: 2, Metrics: limitsOf("conns", cluster.ApplicationMetric{NodeCapacity: 40})},
	{Metrics: limitsOf("conns", cluster.ApplicationMetric{TotalCapacity: 70})},
	{MinimumNodes: 1, MaximumNodes: 3, Metrics: limitsOf("conns", cluster.ApplicationMetric{Reservation: 35})},
	{Metrics: limitsOf("conns", cluster.ApplicationMetric{NodeCapacity: 25, TotalCapacity: 60, Reservation: 25})},
	{Metrics: limitsOf("io", cluster.ApplicationMetric{NodeCapacity: 6, Reservation: 5})},
}

func limitsOf(metric string, m cluster.ApplicationMetric) map[string]cluster.ApplicationMetric {
	return map[string]cluster.ApplicationMetric{metric: m}
}

// drawApplications draws the actions on applications that a seed has in addition to its history.
func drawApplications(seed uint64, span time.Duration) []Action {
	rng := rand.New(rand.NewPCG(seed, 0x6170706c69636174))
	if rng.IntN(8) > 0 {
		return nil
	}
	out := []Action{{0, "limit-applications", rng.Uint64(), 0}}
	for range 6 + rng.IntN(8) {
		at := time.Duration(rng.Int64N(int64(span))).Truncate(time.Millisecond)
		out = append(out, Action{at, applicationKinds[rng.IntN(len(applicationKinds))], rng.Uint64(), rng.IntN(8)})
	}
	return out
}

// limitApplications changes the limits of applications, and nothing else of the configuration.
func (c *apiClient) limitApplications(a Action) {
	next := cluster.Configuration{Head: cluster.Head{Cluster: clusterName}}
	if c.configuration != nil {
		next = *c.configuration
	}
	next.Applications = map[string]cluster.Application{
		"shop": applicationLimits[a.Pick/7%uint64(len(applicationLimits))],
	}
	c.configure(&next)
}

// joinApplication makes a REPLICA service belong to the application shop, or one time in six to none.
func (c *apiClient) joinApplication(a Action) {
	s := c.pickService(a)
	if s == nil || s.daemon || s.external || s.hasProviders {
		return
	}
	name := "shop"
	if a.Pick/7%6 == 0 {
		name = ""
	}
	c.world.logf("application of %s: %q", s.name, name)
	c.changeService(s, func(ctx context.Context) error {
		return c.world.API.Tags.TagResource(ctx, cluster.ResourceARN{Kind: "service", Cluster: clusterName, Name: s.name},
			map[string]string{cluster.TagApplication: name}, nil)
	}, func() {
		if s.rules != nil {
			was := *s.rules
			was.Application = name
			s.rules = &was
		}
	})
}
