package nodegroup_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

func genWorld(t *rapid.T) *world {
	c := cluster.UpdateConfig{MaxUnavailable: rapid.IntRange(1, 5).Draw(t, "maxUnavailable")}
	if rapid.Bool().Draw(t, "minimal") {
		c.Strategy = cluster.UpdateMinimal
	}
	w := newWorldOf(t, rapid.IntRange(1, 3).Draw(t, "zones"), rapid.IntRange(1, 4).Draw(t, "nodes"),
		rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "domains"), c)
	w.stopsFirst = c.Strategy == cluster.UpdateMinimal
	w.slow = time.Duration(rapid.IntRange(0, 300).Draw(t, "slow")) * time.Second
	return w
}

// trouble has the faults of the world and of what acts in it.
type trouble struct {
	drop, repeat, crash, sleep, vanish, block, fail bool
	until                                           time.Time
}

func genTrouble(t *rapid.T) trouble {
	on := func(name string) bool { return rapid.Bool().Draw(t, name) }
	return trouble{
		drop: on("drop"), repeat: on("repeat"), crash: on("crash"), sleep: on("sleep"), vanish: on("vanish"),
		block: on("block"), fail: on("fail"),
		until: noon.Add(2 * time.Hour),
	}
}

// once reports, one time in n, that a fault which is turned on happens.
func once(t *rapid.T, on bool, n int, what string) bool {
	return on && rapid.IntRange(1, n).Draw(t, what) == 1
}

// hands carry out some of the actions, in any order, some of them twice, or stop in the middle.
func (x trouble) hands(t *rapid.T, w *world) func([]nodegroup.Action) []nodegroup.Action {
	return func(all []nodegroup.Action) (out []nodegroup.Action) {
		if len(all) == 0 || w.now.After(x.until) {
			return all
		}
		for _, a := range rapid.Permutation(all).Draw(t, "order") {
			if once(t, x.crash, 4, "crash") {
				return out
			}
			if once(t, x.drop, 4, "drop") {
				continue
			}
			out = append(out, a)
			if once(t, x.repeat, 4, "repeat") {
				out = append(out, a)
			}
		}
		return out
	}
}

// happen changes the world during the update.
func (x trouble) happen(t *rapid.T, w *world) {
	if w.now.After(x.until) {
		w.blocked["web"], w.failing = false, nil
		return
	}
	if once(t, x.block, 30, "block") {
		w.blocked["web"] = !w.blocked["web"]
	}
	if once(t, x.fail, 30, "fail") {
		w.failing = rapid.SampledFrom([]*failure{nil, {code: "InsufficientInstanceCapacity"}, {state: "absent"},
			{state: "disconnected"}, {state: "unlabelled"}}).Draw(t, "failing")
	}
	if all := w.sorted(); len(all) > 0 && once(t, x.vanish, 60, "vanish") {
		v := rapid.SampledFrom(all).Draw(t, "vanished")
		v.Tasks, v.Lifecycle, v.goneAt, v.ours = nil, nodegroup.Terminating, w.now, false
	}
	if once(t, x.sleep, 60, "sleep") {
		for range rapid.IntRange(1, 200).Draw(t, "asleep") {
			w.tick()
		}
	}
}

// Whatever is lost, repeated or cut short, and whatever happens to the group meanwhile, an update
// ends, keeps invariant 6 all the time, leaves the group usable, and can be run again until it
// succeeds.
func TestUpdatesSucceedUnderFaults(t *testing.T) {
	seen := map[cluster.UpdateStatus]int{}
	rapid.Check(t, func(t *rapid.T) {
		w, x := genWorld(t), genTrouble(t)
		w.begin(func(r *nodegroup.Request) { r.Seed = rapid.Uint64().Draw(t, "seed") })
		w.checker.faulty = x.vanish || x.fail
		for n := 0; ; n++ {
			if n > 5_000 {
				u := w.update()
				t.Fatalf("the update has not ended: %s, waits for %s, errors %+v\n%v", u.Phase, u.WaitingFor, u.Errors,
					w.log[max(0, len(w.log)-100):])
			}
			x.happen(t, w)
			if u := w.look(x.hands(t, w)); u.HasEnded() {
				seen[u.Status]++
				if u.Status == cluster.UpdateSuccessful {
					break
				}
				w.now = w.now.Add(time.Minute)
				w.begin()
				w.checker.faulty = x.vanish || x.fail
			}
			w.tick()
		}
		if w.checker.failed() {
			t.Fatalf("%v\n%v", w.checker.breaches, w.log[max(0, len(w.log)-100):])
		}
	})
	if seen[cluster.UpdateFailed] == 0 || seen[cluster.UpdateSuccessful] == 0 {
		t.Errorf("only %v", seen)
	}
}

// TestPauseLongerThanTheDrainTimeout replays a run in which nobody reconciles the update for
// minutes at a time, and tasks of the service web cannot move for a while. Two nodes then stay
// DRAINING for longer than a drain may take, which is not the update's fault.
func TestPauseLongerThanTheDrainTimeout(t *testing.T) {
	w := newWorldOf(t, 3, 4, 0, cluster.UpdateConfig{MaxUnavailable: 2})
	w.slow = 8 * time.Second
	w.begin(func(r *nodegroup.Request) { r.Seed = 0x104 })
	blockedOrFreedAt := []int{10, 42, 43, 60}
	stepsAsleepBefore := map[int]int{5: 155, 13: 55, 29: 16, 32: 22, 34: 14, 35: 27, 55: 1, 64: 44}
	drainingSince, longest := map[string]time.Time{}, time.Duration(0)
	var u *cluster.Update
	for look := 0; u == nil || !u.HasEnded(); look++ {
		if look > 5_000 {
			t.Fatalf("the update has not ended: %v", w.log)
		}
		if slices.Contains(blockedOrFreedAt, look) {
			w.blocked["web"] = !w.blocked["web"]
		}
		for range stepsAsleepBefore[look] {
			w.tick()
		}
		for id, since := range drainingSince {
			if v := w.vms[id]; v != nil && v.Row.Status == cluster.InstanceDraining &&
				v.Lifecycle == nodegroup.InService {
				longest = max(longest, w.now.Sub(since))
			}
		}
		u = w.look(everything)
		for _, v := range w.sorted() {
			if _, seen := drainingSince[v.ID]; !seen && v.Row != nil && v.Row.Status == cluster.InstanceDraining {
				drainingSince[v.ID] = w.now
			}
		}
		w.tick()
	}
	if w.check(); longest <= 18*time.Minute {
		t.Errorf("no node was DRAINING for longer than %v: the run is not the one that it was", longest)
	}
	if u.Status != cluster.UpdateSuccessful {
		t.Errorf("the update ended %s: %+v", u.Status, u.Errors)
	}
}

// A node whose tasks do not leave is put back into service after 15 minutes. A call for that which
// is lost is made again after a minute, as often as it takes: the node stays DRAINING so much longer.
func TestPuttingBackIsTriedUntilItIsDone(t *testing.T) {
	w := newWorld(t, 2, 3, cluster.UpdateConfig{MaxUnavailable: 1})
	w.blocked["web"] = true
	w.begin()
	var triedAt []time.Time
	for u := w.update(); !u.HasEnded(); w.tick() {
		u = w.look(func(all []nodegroup.Action) []nodegroup.Action {
			if k := slices.IndexFunc(all, func(a nodegroup.Action) bool { return a.Kind == nodegroup.Activate }); k >= 0 {
				if triedAt = append(triedAt, w.now); len(triedAt) <= 5 {
					return slices.Delete(slices.Clone(all), k, k+1)
				}
			}
			return all
		})
	}
	w.check()
	if len(triedAt) < 6 {
		t.Fatalf("tried %d times to put a node back, want 6 times at least", len(triedAt))
	}
	for k, at := range triedAt[1:6] {
		if wait := at.Sub(triedAt[k]); wait != time.Minute {
			t.Errorf("tried again %v after a lost call, want a minute", wait)
		}
	}
}

// The same inputs give the same answer in any order of the instances. The returned state
// gives it once more, so that a crash between writing and acting does no harm. No input is changed.
func TestNextIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, x := genWorld(t), genTrouble(t)
		w.begin()
		w.checker.faulty = true
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			x.happen(t, w)
			if u := w.look(x.hands(t, w)); u.HasEnded() {
				break
			}
			w.tick()
		}
		u, before := w.update(), w.update()
		g, instances := w.see(u)
		next, actions := nodegroup.Next(u, g, instances, w.now)
		if diff := cmp.Diff(before, u); diff != "" {
			t.Fatalf("the row that was given has changed:\n%s", diff)
		}
		again, repeated := nodegroup.Next(next, g, instances, w.now)
		if again != next || !slices.Equal(text(actions), text(repeated)) {
			t.Fatalf("then\n%v\nbecomes\n%v\n%s", actions, repeated, cmp.Diff(next, again))
		}
		mixed, reordered := nodegroup.Next(u, g, rapid.Permutation(instances).Draw(t, "order"), w.now)
		if diff := cmp.Diff(next, mixed) + cmp.Diff(actions, reordered); diff != "" {
			t.Fatalf("in another order:\n%s", diff)
		}
	})
}

func text(of []nodegroup.Action) (out []string) {
	for _, a := range of {
		out = append(out, fmt.Sprint(a))
	}
	return out
}
