package nodegroup_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// restoreUnder fails an update that has a surplus of 8 nodes, and lets AWS deny what isDenied says
// while the group is restored. It returns the update once it has ended, and when something was
// first denied and when the sizes were given up; zero if never.
func restoreUnder(
	t *testing.T, isDenied func(now time.Time, a nodegroup.Action) bool,
) (u *cluster.Update, first, gaveUp time.Time) {
	t.Helper()
	w := newWorld(t, 4, 3, cluster.UpdateConfig{MaxUnavailable: 8})
	w.begin()
	u = w.until(func(u *cluster.Update) bool { return u.Phase == cluster.PhaseUpgrade })
	w.store(nodegroup.Fail(u, cluster.UpdateError{Code: cluster.UpdateAccessDenied, Message: "no",
		Resources: []string{groupName}}))
	for !w.update().HasEnded() {
		var denied []nodegroup.Action
		w.look(func(actions []nodegroup.Action) (done []nodegroup.Action) {
			for _, a := range actions {
				if isDenied(w.now, a) {
					denied = append(denied, a)
				} else {
					done = append(done, a)
				}
			}
			return done
		})
		if u = w.update(); len(denied) > 0 && !u.HasEnded() {
			if first.IsZero() {
				first = w.now
			}
			w.store(nodegroup.GiveUp(nodegroup.RecordDenied(u, denied, w.now), "denied", &w.group, w.now))
		}
		if u = w.update(); gaveUp.IsZero() && strings.Contains(u.SizesReason, "denied") {
			gaveUp = w.now
		}
		w.tick()
		if w.now.Sub(noon) > 10*time.Hour {
			t.Fatalf("the update has not ended: waits for %s", u.WaitingFor)
		}
	}
	return u, first, gaveUp
}

// Denials that pass end nothing: the group gets its sizes back, however long that takes and however
// often something is denied meanwhile.
func TestDenialsThatPassAreNotFinal(t *testing.T) {
	for name, hold := range map[string]time.Duration{"Once": 1, "ForMinutes": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			since := map[string]time.Time{} // when each change was first denied
			var last time.Time
			u, first, gaveUp := restoreUnder(t, func(now time.Time, a nodegroup.Action) bool {
				key := string(a.Kind) + a.Instance
				if since[key].IsZero() {
					since[key] = now
				}
				denied := now.Sub(since[key]) < hold
				if denied {
					last = now
				}
				return denied
			})
			if took := last.Sub(first); took < 20*time.Minute {
				t.Fatalf("denials within %s show nothing", took)
			}
			if !gaveUp.IsZero() || *u.FinalSizes != *u.OriginalSizes {
				t.Errorf("sizes %+v of %+v: %s", u.FinalSizes, u.OriginalSizes, u.SizesReason)
			}
		})
	}
}

// A denial that lasts ends the attempt to restore the sizes after the time that tasks have to leave
// a node, whatever else is allowed, and the update says so.
func TestDenialsThatLastAreFinal(t *testing.T) {
	for _, kind := range []nodegroup.ActionKind{nodegroup.Terminate, nodegroup.Drain} {
		t.Run(string(kind), func(t *testing.T) {
			u, first, gaveUp := restoreUnder(t,
				func(_ time.Time, a nodegroup.Action) bool { return a.Kind == kind })
			if took := gaveUp.Sub(first); gaveUp.IsZero() || took < u.Timeouts.Drain ||
				took > u.Timeouts.Drain+3*time.Minute {
				t.Errorf("the sizes were given up %s after the first denial: %q", took, u.SizesReason)
			}
			if u.Status != cluster.UpdateFailed || u.FinalSizes.Desired <= u.OriginalSizes.Desired {
				t.Errorf("%s with %+v of %+v", u.Status, u.FinalSizes, u.OriginalSizes)
			}
		})
	}
}

// A group that can be read again ends the wait that began when it could not, although nothing is to
// be done just then.
func TestReadingAgainEndsTheWait(t *testing.T) {
	u := begunAt(cluster.PhaseRestore, func(u *cluster.Update) {
		u.Removals = []cluster.NodeRemoval{{Instance: "i-1", Step: cluster.StepTerminate, StepSince: noon,
			Surplus: true}}
	})
	u = nodegroup.GiveUp(u, "denied", nil, noon)
	nodes := []nodegroup.Instance{node("i-1", true, leaving), node("i-2", true), node("i-3", true)}
	next, actions := nodegroup.Next(u, groupOf(2), nodes, noon.Add(time.Minute))
	if !next.WaitingSince.IsZero() || slices.ContainsFunc(actions,
		func(a nodegroup.Action) bool { return a.Kind == nodegroup.Terminate }) {
		t.Errorf("it waits since %s, and asks for %v", next.WaitingSince, actions)
	}
	if u = nodegroup.GiveUp(next, "denied", nil, noon.Add(time.Hour)); u.HasEnded() || u.SizesReason != "" {
		t.Errorf("a second denial an hour later is final: %s", u.SizesReason)
	}
}

// Only a failed update that restores its group remembers what was denied, each change once.
func TestOnlyRestoresRememberDenials(t *testing.T) {
	do := []nodegroup.Action{{Kind: nodegroup.Terminate, Instance: "i-1"}}
	for name, u := range map[string]*cluster.Update{
		"Forward": begunAt(cluster.PhaseScaleDown, func(*cluster.Update) {}),
		"Ended":   begunAt(cluster.PhaseRestore, func(u *cluster.Update) { u.Status = cluster.UpdateFailed }),
	} {
		if nodegroup.RecordDenied(u, do, noon) != u {
			t.Errorf("%s: it changed", name)
		}
	}
	u := begunAt(cluster.PhaseRestore, func(*cluster.Update) {})
	if nodegroup.RecordDenied(u, nil, noon) != u {
		t.Error("nothing was denied, and it changed")
	}
	next := nodegroup.RecordDenied(nodegroup.RecordDenied(u, do, noon), do, noon.Add(time.Minute))
	if len(next.Denied) != 1 || len(u.Denied) != 0 {
		t.Errorf("%v, and the row that was given has %v", next.Denied, u.Denied)
	}
}
