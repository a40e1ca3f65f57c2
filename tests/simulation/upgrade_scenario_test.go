package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// An upgradeScenario is a world without random faults in which a test updates a node group. All
// invariants are checked in it, too.
type upgradeScenario struct {
	*upgradeWorld
	t *testing.T
}

// calmSeed is one of the seeds without faults.
const calmSeed = 7

func newUpgradeScenario(t *testing.T, p NodePool) *upgradeScenario {
	t.Helper()
	return openUpgradeScenario(t, Run{Seed: calmSeed, NodePool: &p})
}

// openUpgradeScenario opens the world of a run without a history, and makes its node group.
func openUpgradeScenario(t *testing.T, r Run) *upgradeScenario {
	t.Helper()
	skipReplay(t)
	r.Upgrade, r.Actions = true, []Action{}
	w, err := newWorld(r)
	if err != nil {
		t.Fatal(err)
	}
	s := &upgradeScenario{w.upgrade, t}
	t.Cleanup(func() {
		for _, b := range w.checker.Broken {
			t.Errorf("broke: %s", b)
		}
		if t.Failed() {
			t.Logf("what happened:\n%s", strings.Join(w.lines, "\n"))
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.upgrade.createNodeGroup(); err != nil {
		t.Fatal(err)
	}
	return s
}

// passTime lets time pass.
func (s *upgradeScenario) passTime(d time.Duration) {
	s.t.Helper()
	if s.runUntil(s.Loop.Now().Add(d)); len(s.checker.Broken) > 0 {
		s.t.FailNow()
	}
}

// createAndAwait creates a service of n small tasks and gives it time to start them.
func (s *upgradeScenario) createAndAwait(name string, n int) {
	s.t.Helper()
	s.createReplicas(name, "small:1", n, [2]int{50, 200})
	s.passTime(3 * time.Minute)
}

// updateToNextImage requests an update to the next image.
func (s *upgradeScenario) updateToNextImage(change operation.UpdateNodeGroupVersion) {
	s.t.Helper()
	s.requestNextImage(change)
	s.passTime(time.Second)
}

// requestNextImage requests an update to the next image, which nothing has acted on yet.
func (s *upgradeScenario) requestNextImage(change operation.UpdateNodeGroupVersion) {
	s.t.Helper()
	s.lastImage++
	change.ReleaseVersion = imageID(s.lastImage)
	s.requestUpdate(change)
}

// awaitUpdate waits until the update fulfils the condition.
func (s *upgradeScenario) awaitUpdate(
	what string, within time.Duration, is func(*cluster.Update) bool,
) *cluster.Update {
	s.t.Helper()
	for end := s.Loop.Now().Add(within); !is(s.lastUpdate()); s.passTime(10 * time.Second) {
		if s.Loop.Now().After(end) {
			s.t.Fatalf("not within %s: %s; the update is in phase %s, waits for %q, errors %+v", within, what,
				s.lastUpdate().Phase, s.lastUpdate().WaitingFor, s.lastUpdate().Errors)
		}
	}
	return s.lastUpdate()
}

func (s *upgradeScenario) awaitPhase(p cluster.UpdatePhase) {
	s.t.Helper()
	s.awaitUpdate("phase "+string(p), 12*time.Hour, func(u *cluster.Update) bool { return u.Phase == p })
}

// awaitEnd waits for the update's end.
func (s *upgradeScenario) awaitEnd() *cluster.Update {
	s.t.Helper()
	return s.awaitUpdate("the end", 48*time.Hour, (*cluster.Update).HasEnded)
}

// expectFailure waits for the update's end and checks its first error, and that the group has its
// sizes again.
func (s *upgradeScenario) expectFailure(code cluster.UpdateErrorCode, parts ...string) *cluster.Update {
	s.t.Helper()
	u := s.awaitEnd()
	if u.Status != cluster.UpdateFailed || len(u.Errors) == 0 || u.Errors[0].Code != code {
		s.t.Fatalf("the update is %s, errors %+v; want %s", u.Status, u.Errors, code)
	}
	if s.passTime(2 * time.Minute); !s.groupLost && u.SizesReason == "" {
		s.nodeChecker.checkUsable()
	}
	for _, part := range parts {
		if !slices.ContainsFunc(u.Errors, func(e cluster.UpdateError) bool {
			return strings.Contains(e.Message, part) || slices.Contains(e.Resources, part)
		}) {
			s.t.Errorf("no error says %q: %+v", part, u.Errors)
		}
	}
	return u
}

// expectRerunSucceeds removes the obstacles and runs the update again, which must succeed.
func (s *upgradeScenario) expectRerunSucceeds() {
	s.t.Helper()
	s.removeBlocks()
	s.nodeChecker.mustSucceed = true
	s.requestUpdate(operation.UpdateNodeGroupVersion{ReleaseVersion: imageID(s.lastImage)})
	s.passTime(time.Second)
	s.expectSuccess()
}

// expectSuccess waits for the update's end and checks that all nodes are new and the group has its
// sizes again.
func (s *upgradeScenario) expectSuccess() *cluster.Update {
	s.t.Helper()
	u := s.awaitEnd()
	if u.Status != cluster.UpdateSuccessful || u.SizesReason != "" {
		s.t.Fatalf("the update is %s, errors %+v, stopped %q", u.Status, u.Errors, u.SizesReason)
	}
	s.passTime(2 * time.Minute)
	s.nodeChecker.checkNodesAtRest()
	for _, n := range s.nodeChecker.listNodes() {
		if n.isOutdated(u) {
			s.t.Errorf("node %s is of %s", n.ID, n.Template)
		}
	}
	return u
}
