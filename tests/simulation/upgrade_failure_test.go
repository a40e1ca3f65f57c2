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

// Each cause of a failure ends an update with its code and what is to blame, leaves the group as it was or says why not, and
// an update that is run again succeeds.
func TestUpgradeFailures(t *testing.T) {
	pool := Pool{Zones: 2, Nodes: 2, Spare: 1, Least: 1, Config: cluster.UpdateConfig{MaxUnavailable: 1}}
	for name, words := range map[string]string{"Capacity": "not enough capacity", "Limit": "limit is reached", "VCPUs": "VcpuLimitExceeded", "UserData": "user data"} {
		t.Run("NoLaunch"+name, func(t *testing.T) {
			s := newUpgradeStage(t, pool)
			s.runs("web", 6)
			s.failing(map[string]int{"Capacity": 0, "Limit": 1, "VCPUs": 2, "UserData": 3}[name])
			s.start(operation.UpdateNodeGroupVersion{})
			s.failsBy(cluster.NodeCreationFailure, words)
			s.again()
		})
	}
	t.Run("NewNodesNeverHealthy", func(t *testing.T) {
		s := newUpgradeStage(t, pool)
		s.runs("web", 6)
		s.judge.codes["sick"], s.judge.disturbed = true, true
		s.sick = true
		s.start(operation.UpdateNodeGroupVersion{})
		s.failsBy(cluster.NodeCreationFailure, "not Ready")
		s.sick = false
		s.again()
	})
	t.Run("LaunchesFailHalfWay", func(t *testing.T) {
		s := newUpgradeStage(t, pool)
		s.runs("web", 6)
		s.start(operation.UpdateNodeGroupVersion{})
		s.phase(cluster.PhaseUpgrade)
		s.pass(3 * time.Minute)
		s.failing(0)
		s.failsBy(cluster.NodeCreationFailure, "InsufficientInstanceCapacity")
		s.again()
	})
	t.Run("StandaloneTask", func(t *testing.T) {
		s := newUpgradeStage(t, pool)
		s.runs("web", 6)
		s.blockStandalone(Action{Pick: 1, N: 0})
		s.pass(time.Minute)
		s.start(operation.UpdateNodeGroupVersion{})
		s.failsBy(cluster.PodEvictionFailure, "standalone task")
		s.again()
	})
	t.Run("ProtectedTask", func(t *testing.T) {
		s := newUpgradeStage(t, pool)
		s.runs("web", 4)
		s.blockProtected(Action{})
		s.start(operation.UpdateNodeGroupVersion{Force: true})
		s.failsBy(cluster.PodEvictionFailure, "is protected")
		s.again()
	})
	t.Run("Percentages", func(t *testing.T) {
		s := newUpgradeStage(t, pool)
		s.runs("web", 4)
		s.blockPercentages(Action{})
		s.pass(10 * time.Second)
		s.start(operation.UpdateNodeGroupVersion{})
		s.failsBy(cluster.PodEvictionFailure, "the deployment configuration of service web")
		s.again()
	})
	t.Run("ForeignTask", func(t *testing.T) {
		s := newUpgradeStage(t, pool)
		s.blockForeign(Action{})
		s.pass(time.Minute)
		s.start(operation.UpdateNodeGroupVersion{})
		s.failsBy(cluster.PodEvictionFailure, "started by somebody else")
		s.again()
	})
	for _, op := range []string{
		"CreateLaunchTemplateVersion", "UseTemplate", "UpdateAutoScalingGroup", "PutAttributes", "UpdateContainerInstancesState",
		"TerminateInstanceInAutoScalingGroup", "DescribeAutoScalingGroups", "DescribeScalingActivities", "DescribeLaunchTemplateVersions",
	} {
		t.Run("Denied"+op, func(t *testing.T) {
			s := newUpgradeStage(t, pool)
			s.runs("web", 6)
			s.deny[op] = true
			s.start(operation.UpdateNodeGroupVersion{})
			u := s.failsBy(cluster.UpdateAccessDenied, op)
			if u.SizesReason == "" && s.judge.group().Desired != s.judge.sizes.Desired {
				t.Errorf("the group has %+v, and nothing says why", s.judge.group())
			}
			s.again()
		})
	}
	t.Run("GroupGone", func(t *testing.T) {
		for _, phase := range []cluster.UpdatePhase{cluster.PhaseSetup, cluster.PhaseUpgrade, cluster.PhaseScaleDown} {
			s := newUpgradeStage(t, pool)
			s.start(operation.UpdateNodeGroupVersion{})
			s.phase(phase)
			s.remove(url.Values{"Action": {"DeleteAutoScalingGroup"}, "Version": {"2011-01-01"}, "AutoScalingGroupName": {groupName}, "ForceDelete": {"true"}})
			s.failsBy(cluster.OperationNotPermitted, "is not there any more", groupName)
		}
	})
	t.Run("TemplateDeleted", func(t *testing.T) {
		s := newUpgradeStage(t, pool)
		id, _, _ := strings.Cut(s.judge.group().Template, ":")
		s.start(operation.UpdateNodeGroupVersion{})
		s.remove(url.Values{"Action": {"DeleteLaunchTemplate"}, "Version": {"2016-11-15"}, "LaunchTemplateId": {id}})
		s.failsBy(cluster.OperationNotPermitted, "InvalidLaunchTemplateId.NotFound")
		if g := s.judge.group(); g.Desired != s.judge.sizes.Desired || g.Max != s.judge.sizes.Max {
			t.Errorf("the group has %d of %d", g.Desired, g.Max)
		}
	})
	t.Run("TemplateDeletedHalfWay", func(t *testing.T) {
		s := newUpgradeStage(t, pool)
		id, _, _ := strings.Cut(s.judge.group().Template, ":")
		s.start(operation.UpdateNodeGroupVersion{})
		s.phase(cluster.PhaseUpgrade)
		s.remove(url.Values{"Action": {"DeleteLaunchTemplate"}, "Version": {"2016-11-15"}, "LaunchTemplateId": {id}})
		s.judge.codes["template"] = true
		s.failsBy(cluster.NodeCreationFailure, "InvalidLaunchTemplateId.NotFound")
	})
}

// remove takes away what an update needs.
func (s *upgradeStage) remove(form url.Values) {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 any")
	w := httptest.NewRecorder()
	if s.Server.ServeHTTP(w, r); w.Code != http.StatusOK {
		s.t.Fatalf("%s: %s", form.Get("Action"), w.Body)
	}
	s.lost = true
}

// failing has all launches fail in one of the ways.
func (s *upgradeStage) failing(n int) {
	s.judge.launching(launchFaults[n])
	s.launch = func() autoscaling.LaunchFault { return launchFaults[n] }
}

// Force stops what does not leave, but for protected tasks, which it stops where it says so.
func TestUpgradeByForce(t *testing.T) {
	s := newUpgradeStage(t, Pool{Zones: 2, Nodes: 2, Config: cluster.UpdateConfig{MaxUnavailable: 1}})
	s.runs("web", 4)
	s.blockStandalone(Action{Pick: 1, N: 0})
	s.blockPercentages(Action{})
	s.blockProtected(Action{})
	s.pass(time.Minute)
	var stays []string
	for _, row := range s.checker.rows {
		if p, ok := row.(*cluster.Protection); ok {
			stays = append(stays, p.Task)
		}
	}
	if len(stays) == 0 {
		t.Fatal("no task is protected")
	}
	s.start(operation.UpdateNodeGroupVersion{Force: true, ForceProtected: true})
	s.succeeds()
	got, _, err := s.API.Tasks.DescribeTasks(context.Background(), clusterName, stays)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range got {
		if task.Last != cluster.TaskStopped {
			t.Errorf("protected task %s is %s", task.ID, task.Last)
		}
	}
}
