package simulation

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// A crash after any write, or any call that changes something, costs an update time and nothing else: there is one crash per
// run, at each place in turn.
func TestUpgradeResumesAfterEveryWrite(t *testing.T) {
	if isReplaying() {
		t.Skip("one seed is being replayed")
	}
	for name, run := range map[string]struct {
		pool NodePool
		fail bool // for lack of capacity half way
	}{
		"Default":  {NodePool{Zones: 2, Nodes: 1, Config: cluster.UpdateConfig{MaxUnavailable: 2}}, false},
		"Minimal":  {NodePool{Zones: 2, Nodes: 1, OtherInstances: 1, Config: cluster.UpdateConfig{MaxUnavailable: 1, Strategy: cluster.UpdateMinimal}}, false},
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
					t.Fatalf("having died after call %d of %d", n, all)
				}
			}
			if all < 20 {
				t.Errorf("only %d calls change something", all)
			}
			t.Logf("%d places to die at", all)
		})
	}
}
