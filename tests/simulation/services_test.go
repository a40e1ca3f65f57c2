package simulation

import (
	"context"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/ec2"
	"berth/tests/simulation/invariant"
)

var oneZone = ec2.Machine{Type: "sim.small", CPU: 2000, Memory: 2048, Zones: []string{"us-east-1a"}}

// TestServices checks what ECS's documentation says about REPLICA services, on a whole
// installation.
func TestServices(t *testing.T) {
	t.Run("ReplaceWhatStopsOrFails", func(t *testing.T) {
		s := newScenario(t, 4, machine)
		s.createService("web", "small:1", 4)
		s.awaitRunning("web", 4)
		s.passTime(time.Minute)
		gone := s.activeTasks("web")[0]
		if err := s.AWS.Machines.CrashTask(gone.ECSID, 1); err != nil {
			t.Fatal(err)
		}
		s.await("one is gone", time.Minute, func() bool { return s.checker.StoppedIDs[gone.ID] })
		s.awaitRunning("web", 4)
		if err := s.AWS.Machines.KillInstance(s.activeTasks("web")[0].Instance); err != nil {
			t.Fatal(err)
		}
		s.passTime(10 * time.Second)
		s.awaitRunning("web", 4)
	})
	t.Run("ReplaceUnhealthyTasksStartingFirst", func(t *testing.T) {
		s := newScenario(t, 3, machine)
		s.createService("web", "checked:1", 3)
		s.awaitSteady("web")
		bad := s.activeTasks("web")[0]
		if err := s.AWS.Machines.SetHealth(bad.ECSID, false); err != nil {
			t.Fatal(err)
		}
		s.await("a replacement is started", 2*time.Minute, func() bool { return len(s.activeTasks("web")) == 4 })
		s.await("the bad one stops", 3*time.Minute, func() bool { return len(s.activeTasks("web")) == 3 })
		for _, left := range s.activeTasks("web") {
			if left.ID == bad.ID || left.Health != cluster.Healthy {
				t.Errorf("task %s is left, %s", left.ID, left.Health)
			}
		}
		if !s.hasEvent("web", "failed container health checks.") {
			t.Error("no event says so")
		}
	})
	t.Run("ReplaceUnhealthyTasksStoppingFirst", func(t *testing.T) {
		s := newScenario(t, 3, machine)
		s.createService("web", "checked:1", 5, withPercentages(0, 100))
		s.awaitSteady("web")
		for _, bad := range s.activeTasks("web")[:2] {
			if err := s.AWS.Machines.SetHealth(bad.ECSID, false); err != nil {
				t.Fatal(err)
			}
		}
		s.await("both are known to be bad", time.Minute, func() bool {
			return len(s.activeTasks("web", func(t *cluster.Task) bool { return t.Health == cluster.Unhealthy })) > 0
		})
		least := 5
		s.await("both are replaced", 10*time.Minute, func() bool {
			least = min(least, len(s.activeTasks("web", isRunning)))
			well := s.activeTasks("web", func(t *cluster.Task) bool { return t.Health == cluster.Healthy })
			return len(well) == 5
		})
		if least != 4 {
			t.Errorf("down to %d tasks, expected one at a time", least)
		}
	})
	t.Run("SlowDownStartsThatFail", func(t *testing.T) {
		s := newScenario(t, 2, machine)
		s.createService("web", invariant.BrokenFamily+":1", 1)
		s.passTime(2 * time.Hour)
		n := 0
		for _, e := range s.serviceEvents("web") {
			if strings.Contains(e.Message, "has started 1 tasks") {
				n++
			}
		}
		if n < 6 || n > 9 {
			t.Errorf("%d tries in two hours", n)
		}
		if !s.hasEvent("web", "(service web) is unable to consistently start tasks successfully.") {
			t.Error("no event says so")
		}
		s.updateService("web", operation.UpdateService{TaskDefinition: "small:2"})
		s.await("the new revision runs", time.Minute,
			func() bool { return len(s.activeTasks("web", isRunning, ofDefinition("small:2"))) == 1 })
	})
	t.Run("SpreadOverZones", func(t *testing.T) {
		s := newScenario(t, 6, machine)
		s.createService("web", "small:1", 6)
		s.awaitRunning("web", 6)
		zones := map[string]int{}
		for _, task := range s.activeTasks("web") {
			zones[s.checker.InstanceRows[task.Instance].Zone()]++
		}
		for _, n := range zones {
			if n != 2 || len(zones) != 3 {
				t.Errorf("the zones have %v", zones)
			}
		}
		s.updateService("web", operation.UpdateService{Desired: new(3)})
		s.awaitRunning("web", 3)
		zones = map[string]int{}
		for _, task := range s.activeTasks("web") {
			zones[s.checker.InstanceRows[task.Instance].Zone()]++
		}
		if len(zones) != 3 {
			t.Errorf("scaled in, the zones have %v", zones)
		}
	})
	t.Run("WaitForTheDaemonTheyDependOn", func(t *testing.T) {
		s := newScenario(t, 2, machine)
		s.createService("web", "small:1", 2, func(spec *operation.CreateService) {
			spec.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf,
				Expression: "task:group == service:s0"}}
		})
		s.passTime(2 * time.Minute)
		if n := len(s.activeTasks("web", isRunning)); n > 0 {
			t.Fatalf("%d tasks run, and no daemon", n)
		}
		s.createService("s0", "checked:1", 0, asDaemon)
		s.awaitRunning("web", 2)
	})
	t.Run("RollWithinThePercentages", func(t *testing.T) {
		s := newScenario(t, 4, machine)
		s.createService("web", "checked:1", 4, withPercentages(50, 150))
		s.awaitSteady("web")
		s.updateService("web", operation.UpdateService{TaskDefinition: "checked:2"})
		most, least := 0, 9
		s.await("it is rolled out", 30*time.Minute, func() bool {
			most = max(most, len(s.activeTasks("web")))
			least = min(least, len(s.activeTasks("web",
				func(t *cluster.Task) bool { return t.Health == cluster.Healthy })))
			return s.serviceRow("web").Deployment.IsCompleted() &&
				len(s.activeTasks("web", ofDefinition("checked:2"))) == 4
		})
		if most > 6 || least < 2 {
			t.Errorf("between %d healthy tasks and %d in all", least, most)
		}
		if row := s.serviceRow("web"); len(row.Older) > 0 || row.Release.Status != cluster.DeploymentSuccessful {
			t.Errorf("older deployments %v, %+v", row.Older, row.Release)
		}
	})
	t.Run("AreDeletedOnceTheirTasksStop", func(t *testing.T) {
		s := newScenario(t, 2, machine)
		s.createService("web", "small:1", 2)
		s.awaitSteady("web")
		if _, err := s.API.Services.DeleteService(context.Background(), clusterName, "web", true); err != nil {
			t.Fatal(err)
		}
		if status := s.serviceRow("web").Status; status != cluster.ServiceDraining {
			t.Errorf("deleted it is %s", status)
		}
		if names, _, err := s.API.Services.ListServices(context.Background(),
			operation.ListServices{Cluster: clusterName}); len(names) > 0 || err != nil {
			t.Errorf("deleted it is among %v, %v", names, err)
		}
		s.await("it is INACTIVE", time.Minute,
			func() bool { return s.serviceRow("web").Status == cluster.ServiceInactive })
		if found, _, err := s.API.Services.DescribeServices(context.Background(), clusterName,
			[]string{"web"}); len(found) != 1 || err != nil {
			t.Errorf("INACTIVE it is described by %v, %v", found, err)
		}
	})
	t.Run("LeaveDrainingInstances", func(t *testing.T) {
		s := newScenario(t, 3, machine)
		s.createService("web", "checked:1", 3)
		s.awaitSteady("web")
		drained := s.activeTasks("web")[0].Instance
		s.drainInstance(drained)
		least := 3
		s.await("nothing runs there", 5*time.Minute, func() bool {
			least = min(least, len(s.activeTasks("web",
				func(t *cluster.Task) bool { return t.Health == cluster.Healthy })))
			return len(s.activeTasks("web", onInstance(drained))) == 0
		})
		if least < 3 {
			t.Errorf("meanwhile %d tasks were healthy", least)
		}
	})
	t.Run("LeaveLostInstances", func(t *testing.T) {
		s := newScenario(t, 3, machine)
		s.createService("web", "checked:1", 3)
		s.awaitSteady("web")
		lost := s.activeTasks("web")[0]
		if err := s.AWS.Machines.DisconnectAgent(lost.Instance); err != nil {
			t.Fatal(err)
		}
		s.passTime(9 * time.Minute)
		if n := len(s.activeTasks("web")); n != 3 {
			t.Fatalf("after nine minutes there are %d tasks", n)
		}
		s.await("it is replaced", 5*time.Minute, func() bool {
			return len(s.activeTasks("web", isRunning,
				func(t *cluster.Task) bool { return t.Instance != lost.Instance })) == 3
		})
		if err := s.AWS.Machines.ReconnectAgent(lost.Instance); err != nil {
			t.Fatal(err)
		}
		s.await("the old one stops", 5*time.Minute, func() bool { return len(s.activeTasks("web")) == 3 })
	})
}

// TestDaemonServices checks what the documentation says about DAEMON services.
func TestDaemonServices(t *testing.T) {
	t.Run("HaveOneTaskOnEachActiveInstance", func(t *testing.T) {
		s := newScenario(t, 3, machine)
		s.createService("agent", "checked:1", 0, asDaemon)
		s.awaitRunning("agent", 3)
		s.drainInstance(s.instanceIDs()[0])
		s.await("the draining one has none", 5*time.Minute,
			func() bool { return len(s.activeTasks("agent", onInstance(s.instanceIDs()[0]))) == 0 })
		if _, err := s.AWS.Machines.AddInstances(clusterName, 1, machine); err != nil {
			t.Fatal(err)
		}
		s.awaitRunning("agent", 3)
	})
	t.Run("AreReservedForBeforeReplicas", func(t *testing.T) {
		s := newScenario(t, 1, oneZone)
		s.createService("agent", "big:1", 0, asDaemon)
		s.createService("web", "big:1", 3) // two fit on an instance
		s.awaitRunning("agent", 1)
		s.await("the daemon and one replica run", 2*time.Minute,
			func() bool { return len(s.activeTasks("web", isRunning)) == 1 })
		if err := s.AWS.Machines.CrashTask(s.activeTasks("agent")[0].ECSID, 1); err != nil {
			t.Fatal(err)
		}
		s.passTime(2 * time.Minute)
		if a, w := len(s.activeTasks("agent", isRunning)), len(s.activeTasks("web", isRunning)); a != 1 || w != 1 {
			t.Errorf("once the daemon had crashed, %d daemons and %d replicas run", a, w)
		}
	})
	t.Run("StopLastOnADrainingInstance", func(t *testing.T) {
		s := newScenario(t, 2, machine)
		s.createService("agent", "checked:1", 0, asDaemon)
		s.createService("web", "checked:1", 2)
		s.awaitSteady("web")
		s.awaitSteady("agent")
		drained := s.activeTasks("web")[0].Instance
		s.drainInstance(drained)
		s.await("the replica has gone", 5*time.Minute, func() bool {
			if len(s.activeTasks("agent", onInstance(drained))) == 0 &&
				len(s.activeTasks("web", onInstance(drained))) > 0 {
				t.Fatal("the daemon went first")
			}
			return len(s.activeTasks("web", onInstance(drained))) == 0
		})
		s.await("the daemon has gone", 5*time.Minute,
			func() bool { return len(s.activeTasks("agent", onInstance(drained))) == 0 })
	})
	t.Run("WaitForRoomAndSaySo", func(t *testing.T) {
		s := newScenario(t, 1, oneZone)
		s.createService("web", "big:1", 2)
		s.awaitRunning("web", 2)
		s.createService("agent", "big:1", 0, asDaemon)
		s.await("an event says so", 2*time.Minute, func() bool {
			return s.hasEvent("agent",
				"was unable to place a task")
		})
		s.updateService("web", operation.UpdateService{Desired: new(1)})
		s.awaitRunning("agent", 1)
	})
	t.Run("TakeANewSizeByADeployment", func(t *testing.T) {
		s := newScenario(t, 2, machine)
		s.createService("agent", "checked:1", 0, asDaemon)
		s.awaitSteady("agent")
		s.updateService("agent", operation.UpdateService{TaskDefinition: "big:1"})
		s.await("both are replaced", 5*time.Minute, func() bool {
			return len(s.activeTasks("agent", isRunning,
				ofDefinition("big:1"))) == 2
		})
		s.awaitSteady("agent")
	})
	t.Run("TakeNewConstraintsByAForcedDeployment", func(t *testing.T) {
		s := newScenario(t, 2, machine)
		s.createService("agent", "checked:1", 0, asDaemon)
		s.awaitSteady("agent")
		s.updateService("agent", operation.UpdateService{Constraints: &[]cluster.PlacementConstraint{
			{Type: cluster.MemberOf, Expression: "attribute:ecs.availability-zone in [us-east-1a, us-east-1c]"},
		}})
		s.passTime(5 * time.Minute)
		if n := len(s.activeTasks("agent", isRunning)); n != 2 {
			t.Fatalf("without a deployment %d tasks run", n)
		}
		s.updateService("agent", operation.UpdateService{Force: true})
		s.awaitRunning("agent", 1)
		if zone := s.checker.InstanceRows[s.activeTasks("agent")[0].Instance].Zone(); zone != "us-east-1a" {
			t.Errorf("it runs in %s", zone)
		}
	})
	t.Run("StopWhereConstraintsNoLongerHold", func(t *testing.T) {
		s := newScenario(t, 2, diskMachine)
		s.createService("agent", "disk:1", 0, asDaemon)
		s.awaitRunning("agent", 2)
		changed := s.instanceIDs()[0]
		s.callECS("DeleteAttributes",
			`{"cluster":"sim","attributes":[{"name":"disk","value":"ssd","targetId":"`+changed+`","targetType":"container-instance"}]}`)
		s.await("it has stopped", 90*time.Minute, func() bool {
			return len(s.activeTasks("agent",
				onInstance(changed))) == 0
		})
	})
}
