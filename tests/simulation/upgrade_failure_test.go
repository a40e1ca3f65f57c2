package simulation

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/autoscaling"
)

// TestUpgradeFailures checks for each cause of a failure that the update ends with its code and
// names the cause, that the group is as it was or the update says why not, and that the update
// succeeds when it is run again.
func TestUpgradeFailures(t *testing.T) {
	pool := NodePool{Zones: 2, Nodes: 2, AboveDesired: 1, BelowDesired: 1,
		Config: cluster.UpdateConfig{MaxUnavailable: 1}}
	for name, words := range map[string]string{"Capacity": "not enough capacity", "Limit": "limit is reached",
		"VCPUs": "VcpuLimitExceeded", "UserData": "user data"} {
		t.Run("NoLaunch"+name, func(t *testing.T) {
			s := newUpgradeScenario(t, pool)
			s.createAndAwait("web", 6)
			s.failEveryLaunch(map[string]int{"Capacity": 0, "Limit": 1, "VCPUs": 2, "UserData": 3}[name])
			s.updateToNextImage(operation.UpdateNodeGroupVersion{})
			s.expectFailure(cluster.NodeCreationFailure, words)
			s.expectRerunSucceeds()
		})
	}
	t.Run("NewNodesNeverHealthy", func(t *testing.T) {
		s := newUpgradeScenario(t, pool)
		s.createAndAwait("web", 6)
		s.nodeChecker.launchFailures["sick"], s.nodeChecker.disturbed = true, true
		s.agentsLeave = true
		s.updateToNextImage(operation.UpdateNodeGroupVersion{})
		s.expectFailure(cluster.NodeCreationFailure, "not Ready")
		s.agentsLeave = false
		s.expectRerunSucceeds()
	})
	t.Run("LaunchesFailHalfWay", func(t *testing.T) {
		s := newUpgradeScenario(t, pool)
		s.createAndAwait("web", 6)
		s.updateToNextImage(operation.UpdateNodeGroupVersion{})
		s.awaitPhase(cluster.PhaseUpgrade)
		s.passTime(3 * time.Minute)
		s.failEveryLaunch(0)
		s.expectFailure(cluster.NodeCreationFailure, "InsufficientInstanceCapacity")
		s.expectRerunSucceeds()
	})
	for name, c := range map[string]struct {
		tasks int // of a service that runs on the nodes
		block func(*upgradeScenario)
		wait  time.Duration // until the block is in effect
		force bool
		want  string
	}{
		"StandaloneTask": {6, func(s *upgradeScenario) { s.blockStandalone(Action{Pick: 1}) }, time.Minute, false,
			"standalone task"},
		"ProtectedTask": {4, func(s *upgradeScenario) { s.blockProtected(Action{}) }, 0, true, "is protected"},
		"Percentages": {4, func(s *upgradeScenario) { s.blockPercentages(Action{}) }, 10 * time.Second, false,
			"the deployment configuration of service web"},
		"ForeignTask": {0, func(s *upgradeScenario) { s.blockForeign(Action{}) }, time.Minute, false,
			"was not started by Berth"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUpgradeScenario(t, pool)
			if c.tasks > 0 {
				s.createAndAwait("web", c.tasks)
			}
			c.block(s)
			s.passTime(c.wait)
			s.updateToNextImage(operation.UpdateNodeGroupVersion{Force: c.force})
			s.expectFailure(cluster.PodEvictionFailure, c.want)
			s.expectRerunSucceeds()
		})
	}
	for _, op := range []string{
		"CreateLaunchTemplateVersion", "UseTemplate", "UpdateAutoScalingGroup", "PutAttributes",
		"UpdateContainerInstancesState",
		"TerminateInstanceInAutoScalingGroup", "DescribeAutoScalingGroups", "DescribeScalingActivities",
		"DescribeLaunchTemplateVersions",
	} {
		t.Run("Denied"+op, func(t *testing.T) {
			s := newUpgradeScenario(t, pool)
			s.createAndAwait("web", 6)
			s.deniedOperations[op] = true
			s.updateToNextImage(operation.UpdateNodeGroupVersion{})
			u := s.expectFailure(cluster.UpdateAccessDenied, op)
			if u.SizesReason == "" && s.nodeChecker.describeGroup().Desired != s.nodeChecker.originalSizes.Desired {
				t.Errorf("the group has %+v, and nothing says why", s.nodeChecker.describeGroup())
			}
			s.expectRerunSucceeds()
		})
	}
	t.Run("GroupGone", func(t *testing.T) {
		for _, phase := range []cluster.UpdatePhase{cluster.PhaseSetup, cluster.PhaseUpgrade, cluster.PhaseScaleDown} {
			s := newUpgradeScenario(t, pool)
			s.requestNextImage(operation.UpdateNodeGroupVersion{})
			s.awaitPhase(phase)
			s.deleteResource(url.Values{"Action": {"DeleteAutoScalingGroup"}, "Version": {"2011-01-01"},
				"AutoScalingGroupName": {groupName}, "ForceDelete": {"true"}})
			s.expectFailure(cluster.OperationNotPermitted, "no longer exists", groupName)
		}
	})
	t.Run("TemplateDeleted", func(t *testing.T) {
		s := newUpgradeScenario(t, pool)
		id, _, _ := strings.Cut(s.nodeChecker.describeGroup().Template, ":")
		s.requestNextImage(operation.UpdateNodeGroupVersion{})
		s.deleteResource(url.Values{"Action": {"DeleteLaunchTemplate"}, "Version": {"2016-11-15"},
			"LaunchTemplateId": {id}})
		s.expectFailure(cluster.OperationNotPermitted, "InvalidLaunchTemplateId.NotFound")
		if g := s.nodeChecker.describeGroup(); g.Desired != s.nodeChecker.originalSizes.Desired ||
			g.Max != s.nodeChecker.originalSizes.Max {
			t.Errorf("the group has %d of %d", g.Desired, g.Max)
		}
	})
	t.Run("TemplateDeletedHalfWay", func(t *testing.T) {
		s := newUpgradeScenario(t, pool)
		id, _, _ := strings.Cut(s.nodeChecker.describeGroup().Template, ":")
		s.updateToNextImage(operation.UpdateNodeGroupVersion{})
		s.awaitPhase(cluster.PhaseUpgrade)
		s.deleteResource(url.Values{"Action": {"DeleteLaunchTemplate"}, "Version": {"2016-11-15"},
			"LaunchTemplateId": {id}})
		s.nodeChecker.launchFailures["template"] = true
		s.expectFailure(cluster.NodeCreationFailure, "InvalidLaunchTemplateId.NotFound")
	})
}

// deleteResource deletes something that an update needs.
func (s *upgradeScenario) deleteResource(form url.Values) {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 any")
	w := httptest.NewRecorder()
	if s.Server.ServeHTTP(w, r); w.Code != http.StatusOK {
		s.t.Fatalf("%s: %s", form.Get("Action"), w.Body)
	}
	s.groupLost = true
}

// failEveryLaunch lets all launches fail in one of the ways.
func (s *upgradeScenario) failEveryLaunch(n int) {
	s.nodeChecker.recordLaunchFault(launchFaults[n])
	s.launchOverride = func() autoscaling.LaunchFault { return launchFaults[n] }
}

// TestUpgradeByForce checks that force stops tasks that do not leave, protected ones only if that
// was requested, too.
func TestUpgradeByForce(t *testing.T) {
	s := newUpgradeScenario(t, NodePool{Zones: 2, Nodes: 2, Config: cluster.UpdateConfig{MaxUnavailable: 1}})
	s.createAndAwait("web", 4)
	s.blockStandalone(Action{Pick: 1, N: 0})
	s.blockPercentages(Action{})
	s.blockProtected(Action{})
	s.passTime(time.Minute)
	var protected []string
	for _, row := range s.checker.Rows {
		if p, ok := row.(*cluster.Protection); ok {
			protected = append(protected, p.Task)
		}
	}
	if len(protected) == 0 {
		t.Fatal("no task is protected")
	}
	s.updateToNextImage(operation.UpdateNodeGroupVersion{Force: true, ForceProtected: true})
	s.expectSuccess()
	got, _, err := s.API.Tasks.DescribeTasks(context.Background(), clusterName, protected)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range got {
		if task.Last != cluster.TaskStopped {
			t.Errorf("protected task %s is %s", task.ID, task.Last)
		}
	}
}
