package simulation

import (
	"maps"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// launchTime is how long launches take in the runs that measure an update's time.
const launchTime = 90 * time.Second

// TestUpgradeTakesItsParts measures how long an update takes, and adds up what it must wait for: a
// launch of the surplus; for each old node its tasks to leave, the minute without tasks, and the
// launch of the node in its place; for each node of the surplus its tasks to leave and that minute.
// The update may take 5 % longer than that.
func TestUpgradeTakesItsParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		pool  NodePool
		tasks int
		surge int
	}{
		{"ThreeNodesInTwoZones", NodePool{Zones: 2, Nodes: 2, Fewer: 1, AboveDesired: 3}, 6, 4},
		{"FiveZonesOfTwentyOneAtATime", NodePool{Zones: 5, Nodes: 20, AboveDesired: 3}, 150, 10},
		{"FiveZonesOfTwentyTwentyAtATime", NodePool{Zones: 5, Nodes: 20, AboveDesired: 3,
			Config: cluster.UpdateConfig{MaxUnavailable: 20}}, 150, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openUpgradeScenario(t, Run{Seed: calmSeed, NodePool: &c.pool, LaunchAfter: launchTime})
			s.createAndAwait("web", c.tasks)
			s.passTime(2 * time.Minute)
			began := s.Loop.Now()
			s.updateToNextImage(operation.UpdateNodeGroupVersion{})
			d := s.observeDrains()
			u := s.lastUpdate()
			took := u.EndedAt.Sub(began)
			parts := d.sumOfParts(u, c.pool.maxUnavailable(c.pool.count()))
			t.Logf("%d nodes replaced and %d removed: it took %s; launches, drains and waits are %s; %.1f %% more. Drains took %s on average",
				len(d.replaced), len(d.surplus), took, parts, 100*(float64(took)/float64(parts)-1), d.average())
			if len(d.replaced) != c.pool.count() || len(d.surplus) != c.surge {
				t.Errorf("%d nodes were replaced and %d removed, want %d and %d", len(d.replaced), len(d.surplus),
					c.pool.count(), c.surge)
			}
			if most := parts + parts/20; took > most {
				t.Errorf("it took %s, more than %s", took, most)
			}
		})
	}
}

// drainTimes has how long the tasks of each node took to leave it, in the order in which the nodes
// became DRAINING: of the old nodes, and of the surplus.
type drainTimes struct{ replaced, surplus []time.Duration }

// observeDrains looks at the nodes each second until the update has ended.
func (s *upgradeScenario) observeDrains() *drainTimes {
	s.t.Helper()
	type drain struct {
		began, empty time.Time
		surplus      bool
	}
	drains := map[string]*drain{}
	for limit := s.Loop.Now().Add(48 * time.Hour); !s.lastUpdate().HasEnded(); s.passTime(time.Second) {
		if s.Loop.Now().After(limit) {
			s.t.Fatalf("the update waits for %s", s.lastUpdate().WaitingFor)
		}
		for _, n := range s.nodeChecker.listNodes() {
			if d := drains[n.ID]; d == nil && n.isDraining() {
				drains[n.ID] = &drain{began: s.Loop.Now(), surplus: s.lastUpdate().Phase == cluster.PhaseScaleDown}
			}
			if d := drains[n.ID]; d != nil && d.empty.IsZero() && len(n.tasks) == 0 {
				d.empty = s.Loop.Now()
			}
		}
	}
	out := &drainTimes{}
	for _, d := range slices.SortedFunc(maps.Values(drains),
		func(a, b *drain) int { return a.began.Compare(b.began) }) {
		if d.surplus {
			out.surplus = append(out.surplus, d.empty.Sub(d.began))
		} else {
			out.replaced = append(out.replaced, d.empty.Sub(d.began))
		}
	}
	return out
}

// sumOfParts returns how long the update takes if it waits only for launches, drains and the minute
// without tasks, and replaces parallel nodes at a time.
func (d *drainTimes) sumOfParts(u *cluster.Update, parallel int) time.Duration {
	free := make([]time.Duration, parallel) // when each place is free for the next node
	for _, drained := range d.replaced {
		slices.Sort(free)
		free[0] += drained + u.Timeouts.Cordon + launchTime
	}
	sum := launchTime + slices.Max(free)
	for _, drained := range d.surplus {
		sum += drained + u.Timeouts.Cordon
	}
	return sum
}

func (d *drainTimes) average() (of time.Duration) {
	all := slices.Concat(d.replaced, d.surplus)
	for _, t := range all {
		of += t
	}
	return of / time.Duration(max(1, len(all)))
}
