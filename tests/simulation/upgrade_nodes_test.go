package simulation

import (
	"maps"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// TestUpgradeFiveZonesOfTwenty is the example of the EKS user guide: five zones of 20 nodes, of
// which one or 20 are replaced at a time. The checker watches that no more are out of service.
func TestUpgradeFiveZonesOfTwenty(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		parallel int
		surge    int
		longest  time.Duration
	}{
		{"OneAtATime", 1, 10, 6 * time.Hour},
		{"TwentyAtATime", 20, 20, 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newUpgradeScenario(t, NodePool{Zones: 5, Nodes: 20, AboveDesired: 3, BelowDesired: 10,
				Config: cluster.UpdateConfig{MaxUnavailable: c.parallel}})
			s.createAndAwait("web", 150)
			s.client.createPlainService("log", "", 0, true)
			s.passTime(2 * time.Minute)
			before := map[string]bool{}
			for _, n := range s.nodeChecker.listNodes() {
				before[n.ID] = true
			}
			zones := s.nodeChecker.countByZone()
			s.updateToNextImage(operation.UpdateNodeGroupVersion{})
			began := s.Loop.Now()
			s.awaitPhase(cluster.PhaseUpgrade)
			if g := s.nodeChecker.describeGroup(); g.Max != 103+c.surge || g.Desired != 100+c.surge || g.Min != 90 {
				t.Errorf("the group is enlarged to %d of %d to %d, want %d of 90 to %d", g.Desired, g.Min, g.Max,
					100+c.surge, 103+c.surge)
			}
			u := s.expectSuccess()
			took := s.Loop.Now().Sub(began)
			t.Logf("it took %s, %s of it the upgrade", took,
				s.nodeChecker.phaseEnteredAt[cluster.PhaseScaleDown].Sub(s.nodeChecker.phaseEnteredAt[cluster.PhaseUpgrade]))
			if took > c.longest {
				t.Errorf("it took %s", took)
			}
			if now := s.nodeChecker.countByZone(); !maps.Equal(zones, now) {
				t.Errorf("zones have %v, had %v", now, zones)
			}
			for _, n := range s.nodeChecker.listNodes() {
				if before[n.ID] || n.Template != u.Template {
					t.Errorf("node %s of %s is still there", n.ID, n.Template)
				}
			}
			if u.MaxUnavailable != c.parallel || u.Surge != c.surge {
				t.Errorf("%d at a time, %d more", u.MaxUnavailable, u.Surge)
			}
		})
	}
}

// TestUpgradeTouchesOnlyOldNodes checks that nodes that are up to date stay: an update to the same
// image ends at once, and one that failed half-way continues with the remaining nodes (N3).
func TestUpgradeTouchesOnlyOldNodes(t *testing.T) {
	s := newUpgradeScenario(t, NodePool{Zones: 2, Nodes: 3, Config: cluster.UpdateConfig{MaxUnavailable: 1}})
	s.createAndAwait("web", 6)
	s.updateToNextImage(operation.UpdateNodeGroupVersion{})
	s.awaitPhase(cluster.PhaseUpgrade)
	s.passTime(8 * time.Minute)
	s.blockPercentages(Action{})
	s.expectFailure(cluster.PodEvictionFailure, "web")
	done := map[string]bool{}
	for _, n := range s.nodeChecker.listNodes() {
		if !n.isOutdated(s.lastUpdate()) {
			done[n.ID] = true
		}
	}
	if len(done) == 0 || len(done) == 6 {
		t.Fatalf("%d of 6 nodes are up to date after the failure", len(done))
	}
	s.expectRerunSucceeds() // the checker sees which nodes are drained
	left := s.nodeChecker.listNodes()
	s.expectRerunSucceeds()
	for k, n := range s.nodeChecker.listNodes() {
		if n.ID != left[k].ID {
			t.Errorf("node %s replaced %s although all were up to date", n.ID, left[k].ID)
		}
	}
}
