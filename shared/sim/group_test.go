package sim_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim"
	"berth/shared/sim/autoscaling"
	"berth/shared/sim/ec2"
)

// launch is how long a launch takes, retry after how long a failed one is repeated.
const launch, retry = 40 * time.Second, time.Minute

// groupWorld is a fleet in memory with a group of n machines.
type groupWorld struct {
	t     *testing.T
	clock *clock
	*sim.AWS
}

func newGroupWorld(t *testing.T, n int, fault func(string, int64) autoscaling.LaunchFault) *groupWorld {
	t.Helper()
	c := newClock()
	f, err := sim.Open(sim.Options{Clock: c, Account: cluster.Account{ID: "123456789012", Region: "eu-west-1"}})
	if err != nil {
		t.Fatal(err)
	}
	if status, answer := f.ECS.Endpoint().ServeOperation(t.Context(), "CreateCluster",
		[]byte(`{"clusterName":"c"}`)); status != 200 {
		t.Fatalf("%s", answer)
	}
	f.Groups.SetLaunchFaults(fault)
	if _, err := f.Groups.AddGroup(autoscaling.GroupSpec{Name: "g", Cluster: "c",
		Machine: ec2.Machine{Type: "m5.large"}, Max: 9, Desired: n, Protects: true}); err != nil {
		t.Fatal(err)
	}
	return &groupWorld{t, c, f}
}

func (w *groupWorld) group() *cluster.AutoScalingGroup {
	w.t.Helper()
	got, err := w.Groups.DescribeGroups(w.t.Context(), []string{"g", "none"})
	if err != nil || len(got) != 1 {
		w.t.Fatalf("groups %v, %v", got, err)
	}
	return got[0]
}

func (w *groupWorld) registered() (n int) {
	w.t.Helper()
	ids, err := w.ECS.ListInstances(w.t.Context(), "c")
	if err != nil {
		w.t.Fatal(err)
	}
	return len(ids)
}

func (w *groupWorld) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *groupWorld) want(what string, got, want int) {
	w.t.Helper()
	if got != want {
		w.t.Fatalf("%s: %d, want %d", what, got, want)
	}
}

func TestGroup(t *testing.T) {
	t.Run("LaunchesOverAllZones", func(t *testing.T) {
		w := newGroupWorld(t, 6, nil)
		w.want("registered at once", w.registered(), 0)
		w.clock.advance(launch)
		w.want("registered", w.registered(), 6)
		zones := map[string]int{}
		for _, i := range w.group().Instances {
			zones[i.Zone]++
		}
		w.want("zones", len(zones), 3)
		w.want("in each zone", zones["eu-west-1b"], 2)
	})
	t.Run("TerminatesOnlyUnprotectedInstances", func(t *testing.T) {
		w := newGroupWorld(t, 3, nil)
		w.clock.advance(launch)
		w.do(w.Groups.SetDesired(t.Context(), "g", 1))
		w.want("registered while all are protected", w.registered(), 3)
		w.do(w.Groups.SetInstanceProtection(t.Context(), "g", []string{w.group().Instances[1].ID}, false))
		w.want("registered", w.registered(), 2)
	})
	t.Run("HookHoldsUpATermination", func(t *testing.T) {
		w := newGroupWorld(t, 2, nil)
		w.clock.advance(launch)
		w.do(w.Groups.PutLifecycleHook(t.Context(), cluster.LifecycleHook{Group: "g", Name: "h", Heartbeat: time.Hour}))
		ids := []string{w.group().Instances[0].ID, w.group().Instances[1].ID}
		for _, id := range ids {
			w.do(w.Groups.TerminateInstance(t.Context(), id, true))
		}
		w.want("desired", w.group().Desired, 0)
		w.want("registered", w.registered(), 2)
		w.do(w.Groups.CompleteLifecycleAction(t.Context(), "g", "h", ids[0]))
		w.want("registered after one is complete", w.registered(), 1)
		w.clock.advance(50 * time.Minute)
		w.do(w.Groups.RecordHeartbeat(t.Context(), "g", "h", ids[1]))
		w.clock.advance(50 * time.Minute)
		w.want("registered after a heartbeat", w.registered(), 1)
		w.clock.advance(10 * time.Minute)
		w.want("registered when the heartbeat is over", w.registered(), 0)
	})
	t.Run("LaunchesFailAsTold", func(t *testing.T) {
		w := newGroupWorld(t, 3, func(_ string, n int64) autoscaling.LaunchFault {
			return map[int64]autoscaling.LaunchFault{
				1: {Silent: true}, 2: {Slow: 30 * time.Second, Zone: "eu-west-1z"},
				3: {Reason: "InsufficientInstanceCapacity"},
			}[n]
		})
		w.clock.advance(launch)
		w.want("registered", w.registered(), 0)
		w.clock.advance(30 * time.Second)
		w.want("registered after the slow one", w.registered(), 1)
		w.clock.advance(30 * time.Second)
		w.want("registered after the launch that failed was made again", w.registered(), 2)
		w.want("in service", len(w.group().Instances), 3)
	})
	t.Run("RegistersLate", func(t *testing.T) {
		w := newGroupWorld(t, 1, func(string,
			int64) autoscaling.LaunchFault {
			return autoscaling.LaunchFault{Late: 10 * time.Minute}
		})
		w.clock.advance(launch + 10*time.Minute - time.Second)
		w.want("registered", w.registered(), 0)
		w.want("in service", len(w.group().Instances), 1)
		w.clock.advance(time.Second)
		w.want("registered late", w.registered(), 1)
	})
	t.Run("ReplacesATerminatedMachine", func(t *testing.T) {
		w := newGroupWorld(t, 1, nil)
		w.clock.advance(launch)
		ids, err := w.ECS.ListInstances(t.Context(), "c")
		w.do(err)
		w.do(w.Machines.KillInstance(ids[0]))
		w.clock.advance(retry + launch)
		w.want("registered", w.registered(), 1)
	})
	t.Run("RefusesSizesOutOfBounds", func(t *testing.T) {
		w := newGroupWorld(t, 0, nil)
		for _, err := range []error{w.Groups.SetDesired(t.Context(), "g", 10),
			w.Groups.SetDesired(t.Context(), "none", 1), w.Groups.TerminateInstance(t.Context(), "i-none", true)} {
			if cluster.ErrorCode(err) != "ValidationError" {
				t.Errorf("got %v", err)
			}
		}
	})
}
