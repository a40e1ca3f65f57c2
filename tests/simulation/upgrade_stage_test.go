package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// upgradeStage is a world without faults of chance in which a test has its own update happen. All invariants hold in it too.
type upgradeStage struct {
	*upgrading
	t *testing.T
}

// calmSeed is one of the seeds without faults.
const calmSeed = 7

func newUpgradeStage(t *testing.T, p Pool) *upgradeStage {
	t.Helper()
	if replaying() {
		t.Skip("one seed is being replayed")
	}
	w, err := newWorld(Run{Seed: calmSeed, Upgrade: true, Pool: &p, Actions: []Action{}})
	if err != nil {
		t.Fatal(err)
	}
	s := &upgradeStage{w.upgrades, t}
	t.Cleanup(func() {
		for _, b := range w.checker.broken {
			t.Errorf("broke: %s", b)
		}
		if t.Failed() {
			t.Logf("what happened:\n%s", strings.Join(w.notes, "\n"))
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.upgrades.furnish(); err != nil {
		t.Fatal(err)
	}
	return s
}

// pass lets time go by.
func (s *upgradeStage) pass(d time.Duration) {
	s.t.Helper()
	if s.until(s.Loop.Now().Add(d)); len(s.checker.broken) > 0 {
		s.t.FailNow()
	}
}

// runs waits until a service of its own runs so many small tasks.
func (s *upgradeStage) runs(name string, n int) {
	s.t.Helper()
	s.serve(name, "small:1", n, [2]int{50, 200})
	s.pass(3 * time.Minute)
}

// start asks for the next image.
func (s *upgradeStage) start(change operation.UpdateNodeGroupVersion) {
	s.t.Helper()
	s.images++
	change.ReleaseVersion = image(s.images)
	s.begin(change)
	s.pass(time.Second)
}

// reaches waits until the update is so.
func (s *upgradeStage) reaches(what string, within time.Duration, is func(*cluster.Update) bool) *cluster.Update {
	s.t.Helper()
	for end := s.Loop.Now().Add(within); !is(s.last()); s.pass(10 * time.Second) {
		if s.Loop.Now().After(end) {
			s.t.Fatalf("not within %s: %s; the update is in phase %s, waits for %q, errors %+v", within, what, s.last().Phase, s.last().WaitingFor, s.last().Errors)
		}
	}
	return s.last()
}

func (s *upgradeStage) phase(p cluster.UpdatePhase) {
	s.t.Helper()
	s.reaches("phase "+string(p), 12*time.Hour, func(u *cluster.Update) bool { return u.Phase == p })
}

// over waits for the update's end.
func (s *upgradeStage) over() *cluster.Update {
	s.t.Helper()
	return s.reaches("the end", 48*time.Hour, (*cluster.Update).HasEnded)
}

// failsBy waits for the update's end and checks its first error, and that the group has its sizes again.
func (s *upgradeStage) failsBy(code cluster.UpdateErrorCode, parts ...string) *cluster.Update {
	s.t.Helper()
	u := s.over()
	if u.Status != cluster.UpdateFailed || len(u.Errors) == 0 || u.Errors[0].Code != code {
		s.t.Fatalf("the update is %s, errors %+v; want %s", u.Status, u.Errors, code)
	}
	if s.pass(2 * time.Minute); !s.lost && u.SizesReason == "" {
		s.judge.usable()
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

// again runs the update again, which must succeed.
func (s *upgradeStage) again() {
	s.t.Helper()
	s.unblock()
	s.judge.calm = true
	s.begin(operation.UpdateNodeGroupVersion{ReleaseVersion: image(s.images)})
	s.pass(time.Second)
	s.succeeds()
}

// succeeds waits for the update's end and checks that all is as it was, with new nodes.
func (s *upgradeStage) succeeds() *cluster.Update {
	s.t.Helper()
	u := s.over()
	if u.Status != cluster.UpdateSuccessful || u.SizesReason != "" {
		s.t.Fatalf("the update is %s, errors %+v, stopped %q", u.Status, u.Errors, u.SizesReason)
	}
	s.pass(2 * time.Minute)
	s.judge.atRest()
	for _, n := range s.judge.nodes() {
		if n.old(u) {
			s.t.Errorf("node %s is of %s", n.ID, n.Template)
		}
	}
	return u
}
