package simulation

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// TestUpgradeResumesAfterEveryWrite lets node-group-upgrade die after each of its changing calls,
// one death per run. That delays an update and has no other effect.
func TestUpgradeResumesAfterEveryWrite(t *testing.T) {
	t.Parallel()
	skipReplay(t)
	for name, run := range map[string]struct {
		pool NodePool
		fail bool // because launches fail half-way
	}{
		"Default": {NodePool{Zones: 2, Nodes: 1, Config: cluster.UpdateConfig{MaxUnavailable: 2}}, false},
		"Minimal": {NodePool{Zones: 2, Nodes: 1, OtherInstances: 1,
			Config: cluster.UpdateConfig{MaxUnavailable: 1, Strategy: cluster.UpdateMinimal}}, false},
		"Restored": {NodePool{Zones: 2, Nodes: 1, Config: cluster.UpdateConfig{MaxUnavailable: 1}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			all := 1
			for n := 0; n <= all; n++ {
				s := newUpgradeScenario(t, run.pool)
				s.createAndAwait("web", 3)
				if run.fail {
					s.failEveryLaunch(0)
				}
				s.changeCalls, s.dieAfter = 0, n
				s.updateToNextImage(operation.UpdateNodeGroupVersion{})
				if run.fail {
					s.expectFailure(cluster.NodeCreationFailure)
					s.passTime(2 * time.Minute)
					s.nodeChecker.checkUsable()
				} else {
					s.expectSuccess()
				}
				if n == 0 {
					all = s.changeCalls
				} else if s.changeCalls < n {
					t.Fatalf("it did not die after call %d of %d", n, all)
				}
				if t.Failed() {
					t.Fatalf("after a death at call %d of %d", n, all)
				}
			}
			if all < 20 {
				t.Errorf("only %d calls change something", all)
			}
			t.Logf("%d places to die at", all)
		})
	}
}
