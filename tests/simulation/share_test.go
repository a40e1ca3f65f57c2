package simulation

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/ec2"
)

// startDuringMassStop stops 600 tasks, which takes 13 s at the rate that ECS allows, and meanwhile
// starts one of another service. It returns how long that one has waited for its start.
func startDuringMassStop(t *testing.T, bug Bug) time.Duration {
	s := newBuggyScenario(t, bug, 20, ec2.Machine{Type: "m5.4xlarge"})
	s.createService("mass", "small", 600)
	s.awaitRunning("mass", 600)
	s.passTime(5 * time.Second)
	s.updateService("mass", operation.UpdateService{Desired: new(int)})
	s.passTime(2 * time.Second)
	begin := s.Loop.Now()
	s.createService("other", "small", 1)
	isStarted := func(task *cluster.Task) bool { return task.Attempt > 0 }
	s.await("the start of other", time.Minute, func() bool { return len(s.activeTasks("other", isStarted)) == 1 })
	return s.Loop.Now().Sub(begin)
}

// Starts have a share of the calls of which stops never use up the last. The bug must show.
func TestStartsKeepTheirShare(t *testing.T) {
	t.Parallel()
	if took := startDuringMassStop(t, NoBug); took > 5*time.Second {
		t.Errorf("the start took %s", took)
	}
	t.Run(string(IgnoreStartsShare), func(t *testing.T) {
		if took := startDuringMassStop(t, IgnoreStartsShare); took <= 5*time.Second {
			t.Errorf("the start took %s", took)
		}
	})
}
