package simulation

import (
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

var scaledNodePool = NodePool{Zones: 2, Nodes: 2, AboveDesired: 8, BelowDesired: 4, ManagedScaling: true,
	Config: cluster.UpdateConfig{MaxUnavailable: 1}}

// newBusyScenario returns a scenario in which managed scaling keeps the group's four nodes: each
// holds seven of the tasks.
func newBusyScenario(t *testing.T) *upgradeScenario {
	t.Helper()
	s := newUpgradeScenario(t, scaledNodePool)
	s.createAndAwait("web", 26)
	s.passTime(40 * time.Minute)
	if g := s.nodeChecker.describeGroup(); g.Desired != 4 {
		t.Fatalf("managed scaling has made the group %d", g.Desired)
	}
	return s
}

func (s *upgradeScenario) growService(by int) {
	s.t.Helper()
	web := s.client.services[0]
	n := web.desired + by
	s.client.updateService(web, operation.UpdateService{Desired: &n}, func() { web.desired = n })
}

// TestUpgradeOfAScaledGroup checks that managed scaling and an update share a group. During the
// update managed scaling removes nothing, but adds nodes for waiting tasks. The update removes only
// its own surplus, and not while managed scaling adds (N5, C1).
func TestUpgradeOfAScaledGroup(t *testing.T) {
	t.Run("KeepsItsSizes", func(t *testing.T) {
		s := newBusyScenario(t)
		s.updateToNextImage(operation.UpdateNodeGroupVersion{})
		if u := s.expectSuccess(); *u.FinalSizes != scaledNodePool.sizes() {
			t.Errorf("the group has %+v, had %+v", u.FinalSizes, scaledNodePool.sizes())
		}
		s.passTime(time.Hour)
		if g := s.nodeChecker.describeGroup(); g.Desired != 4 {
			t.Errorf("managed scaling has made the group %d", g.Desired)
		}
	})
	t.Run("GrowsDuringTheUpgrade", func(t *testing.T) {
		s := newBusyScenario(t)
		s.updateToNextImage(operation.UpdateNodeGroupVersion{})
		s.awaitPhase(cluster.PhaseUpgrade)
		s.growService(40)
		u := s.awaitEnd()
		if u.Status != cluster.UpdateSuccessful || u.SizesReason == "" || u.FinalSizes.Desired <= 4 {
			t.Errorf("the update is %s with %+v, stopped %q, errors %+v", u.Status, u.FinalSizes, u.SizesReason,
				u.Errors)
		}
		s.passTime(30 * time.Minute)
		s.nodeChecker.checkUsable()
	})
	t.Run("GrowsDuringScaleDown", func(t *testing.T) {
		s := newBusyScenario(t)
		s.updateToNextImage(operation.UpdateNodeGroupVersion{})
		s.awaitPhase(cluster.PhaseScaleDown)
		s.passTime(3 * time.Minute)
		s.growService(60)
		s.awaitUpdate("managed scaling adds nodes", 5*time.Minute,
			func(*cluster.Update) bool { return !s.nodeChecker.grewAt.IsZero() })
		g := s.nodeChecker.describeGroup()
		u := s.awaitUpdate("the end", 3*time.Minute, (*cluster.Update).HasEnded)
		if u.Status != cluster.UpdateSuccessful || !strings.Contains(u.SizesReason, "Managed scaling") ||
			u.FinalSizes.Desired < g.Desired || u.FinalSizes.Max != g.Max {
			t.Errorf("the update is %s with %+v, stopped %q; managed scaling had made it %d of %d", u.Status,
				u.FinalSizes, u.SizesReason, g.Desired, g.Max)
		}
		s.passTime(30 * time.Minute)
		s.nodeChecker.checkUsable()
		if got := s.nodeChecker.describeGroup(); got.Desired < g.Desired {
			t.Errorf("the group shrank from %d to %d nodes under load", g.Desired, got.Desired)
		}
	})
}

// TestUpgradeKeepsNodesThatManagedScalingAddedSince checks that a surplus node which managed scaling has
// removed is gone: if it enlarges the group to the same size later, the next update keeps its node.
func TestUpgradeKeepsNodesThatManagedScalingAddedSince(t *testing.T) {
	s := newBusyScenario(t)
	s.updateToNextImage(operation.UpdateNodeGroupVersion{})
	s.awaitPhase(cluster.PhaseUpgrade)
	s.deniedOperations["UpdateAutoScalingGroup"] = true
	s.deniedOperations["TerminateInstanceInAutoScalingGroup"] = true
	u := s.awaitEnd()
	left := *u.FinalSizes
	if u.Status != cluster.UpdateFailed || left.Desired <= 4 {
		t.Fatalf("the update is %s and has left %+v", u.Status, left)
	}
	clear(s.deniedOperations)
	awaitDesired := func(n int, change func()) {
		s.t.Helper()
		for end := s.Loop.Now().Add(12 * time.Hour); s.nodeChecker.describeGroup().Desired != n; s.passTime(2 * time.Minute) {
			if change(); s.Loop.Now().After(end) {
				t.Fatalf("managed scaling has made the group %d, expected %d", s.nodeChecker.describeGroup().Desired, n)
			}
		}
	}
	awaitDesired(left.Desired-1, func() {})
	awaitDesired(left.Desired, func() { s.growService(1) })
	s.passTime(10 * time.Minute)
	if g := s.nodeChecker.describeGroup(); g.Max != left.Max {
		t.Fatalf("the maximum is %d, and the update has left %d", g.Max, left.Max)
	}
	s.updateToNextImage(operation.UpdateNodeGroupVersion{})
	if u = s.awaitEnd(); u.Status != cluster.UpdateSuccessful || u.OriginalSizes.Desired != left.Desired {
		t.Errorf("the update is %s, and was to come back to %+v instead of %d nodes: %v", u.Status, u.OriginalSizes,
			left.Desired, u.Errors)
	}
}
