package simulation

import (
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

var scaledPool = Pool{Zones: 2, Nodes: 2, Spare: 8, Least: 4, Scaled: true, Config: cluster.UpdateConfig{MaxUnavailable: 1}}

// busy has managed scaling run the group with as many nodes as it began with: each takes seven of these tasks.
func busy(t *testing.T) *upgradeStage {
	t.Helper()
	s := newUpgradeStage(t, scaledPool)
	s.runs("web", 26)
	s.pass(40 * time.Minute)
	if g := s.judge.group(); g.Desired != 4 {
		t.Fatalf("managed scaling has made the group %d", g.Desired)
	}
	return s
}

func (s *upgradeStage) grow(by int) {
	s.t.Helper()
	web := s.client.services[0]
	n := web.desired + by
	s.client.change(web, operation.UpdateService{Desired: &n}, func() { web.desired = n })
}

// Managed scaling and an update share a group: the one takes nothing while the other is at work, and adds what tasks wait for;
// the other takes its own surplus back alone, and not while the first adds (N5, C1).
func TestUpgradeOfAScaledGroup(t *testing.T) {
	t.Run("KeepsItsSizes", func(t *testing.T) {
		s := busy(t)
		s.start(operation.UpdateNodeGroupVersion{})
		if u := s.succeeds(); *u.FinalSizes != scaledPool.sizes() {
			t.Errorf("the group has %+v, had %+v", u.FinalSizes, scaledPool.sizes())
		}
		s.pass(time.Hour)
		if g := s.judge.group(); g.Desired != 4 {
			t.Errorf("managed scaling has made the group %d", g.Desired)
		}
	})
	t.Run("GrowsDuringTheUpgrade", func(t *testing.T) {
		s := busy(t)
		s.start(operation.UpdateNodeGroupVersion{})
		s.phase(cluster.PhaseUpgrade)
		s.grow(40)
		u := s.over()
		if u.Status != cluster.UpdateSuccessful || u.SizesReason == "" || u.FinalSizes.Desired <= 4 {
			t.Errorf("the update is %s with %+v, stopped %q, errors %+v", u.Status, u.FinalSizes, u.SizesReason, u.Errors)
		}
		s.pass(30 * time.Minute)
		s.judge.usable()
	})
	t.Run("GrowsDuringScaleDown", func(t *testing.T) {
		s := busy(t)
		s.start(operation.UpdateNodeGroupVersion{})
		s.phase(cluster.PhaseScaleDown)
		s.pass(3 * time.Minute)
		s.grow(60)
		s.reaches("managed scaling adds nodes", 5*time.Minute, func(*cluster.Update) bool { return !s.judge.grewAt.IsZero() })
		g := s.judge.group()
		u := s.reaches("the end", 3*time.Minute, (*cluster.Update).HasEnded)
		if u.Status != cluster.UpdateSuccessful || !strings.Contains(u.SizesReason, "Managed scaling") || u.FinalSizes.Desired < g.Desired || u.FinalSizes.Max != g.Max {
			t.Errorf("the update is %s with %+v, stopped %q; managed scaling had made it %d of %d", u.Status, u.FinalSizes, u.SizesReason, g.Desired, g.Max)
		}
		s.pass(30 * time.Minute)
		s.judge.usable()
		if got := s.judge.group(); got.Desired < g.Desired {
			t.Errorf("the group shrank from %d to %d nodes under load", g.Desired, got.Desired)
		}
	})
}
