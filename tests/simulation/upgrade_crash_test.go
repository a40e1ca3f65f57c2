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
	if replaying() {
		t.Skip("one seed is being replayed")
	}
	for name, run := range map[string]struct {
		pool Pool
		fail bool // for lack of capacity half way
	}{
		"Default":  {Pool{Zones: 2, Nodes: 1, Config: cluster.UpdateConfig{MaxUnavailable: 2}}, false},
		"Minimal":  {Pool{Zones: 2, Nodes: 1, Outside: 1, Config: cluster.UpdateConfig{MaxUnavailable: 1, Strategy: cluster.UpdateMinimal}}, false},
		"Restored": {Pool{Zones: 2, Nodes: 1, Config: cluster.UpdateConfig{MaxUnavailable: 1}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			all := 1
			for n := 0; n <= all; n++ {
				s := newUpgradeStage(t, run.pool)
				s.runs("web", 3)
				if run.fail {
					s.failing(0)
				}
				s.strikes, s.dieAfter = 0, n
				s.start(operation.UpdateNodeGroupVersion{})
				if run.fail {
					s.failsBy(cluster.NodeCreationFailure)
					s.pass(2 * time.Minute)
					s.judge.usable()
				} else {
					s.succeeds()
				}
				if n == 0 {
					all = s.strikes
				} else if s.strikes < n {
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
