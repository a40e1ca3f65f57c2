package domain_test

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
)

// holds reports whether one task on each instance of the set keeps the rules.
func (l *layout) holds(r domain.Rule, set uint) bool {
	d := l.domains(r)
	for i := range l.names {
		if set&(1<<i) != 0 {
			d.AddTasks(i, 1)
		}
	}
	fault, upgrade := d.Violated()
	return !fault && !upgrade
}

// If no free instance admits one more task, swaps are found if and only if the rules allow one more
// task at all. What they lead to keeps the rules, and the domains are as before the search.
func TestSwapsEqualTryingEverything(t *testing.T) {
	found, none := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		for range 5 * often {
			at := checkSwaps(t)
			if at > 0 {
				found++
			} else if at < 0 {
				none++
			}
		}
	})
	if found < 50 || none < 50 {
		t.Errorf("swaps are found %d times, and %d times none, expected more", found, none)
	}
}

// checkSwaps returns 1 if it expected swaps, -1 if it expected none, and 0 if there is no question.
func checkSwaps(t *rapid.T) int {
	l, deep := &layout{}, rapid.IntRange(0, 3).Draw(t, "deep") == 0
	gaps := rapid.IntRange(0, 3).Draw(t, "gaps") == 0 // instances without a domain
	side := rapid.IntRange(2, 4).Draw(t, "side")
	for i := range rapid.IntRange(3, 10).Draw(t, "instances") {
		fault := fmt.Sprintf("fd:/%d", rapid.IntRange(0, side-1).Draw(t, "fault"))
		if deep {
			fault += fmt.Sprintf("/%d", rapid.IntRange(0, 1).Draw(t, "rack"))
		}
		upgrade := fmt.Sprint(rapid.IntRange(0, side-1).Draw(t, "upgrade"))
		if gaps && rapid.IntRange(0, 3).Draw(t, "no fault domain") == 0 {
			fault = ""
		}
		if gaps && rapid.IntRange(0, 3).Draw(t, "no upgrade domain") == 0 {
			upgrade = ""
		}
		l.add(fmt.Sprint("n", i), fault, upgrade)
	}
	r := rule(rapid.SampledFrom([]cluster.DomainPolicy{cluster.PolicyDifference, cluster.PolicyQuorum}).Draw(t,
		"policy"), len(l.names)/2)
	d := l.domains(r)
	order := rapid.Permutation(slices.Collect(func(yield func(int32) bool) {
		for i := range l.names {
			if !yield(int32(i)) {
				return
			}
		}
	})).Draw(t, "order")
	var own, free []int32
	set := uint(0)
	for _, i := range order { // tasks come one after the other, until none is admitted
		if d.Admits(int(i)) {
			d.AddTasks(int(i), 1)
			own, set = append(own, i), set|1<<i
		} else {
			free = append(free, i)
		}
	}
	free = slices.DeleteFunc(free, func(i int32) bool { return slices.Contains(own, i) })
	admitted := func(i int32) bool { return d.Admits(int(i)) }
	if slices.ContainsFunc(free, admitted) {
		return 0
	}
	twoRules := d.FaultDomainCount() > 0 && d.UpgradeDomainCount() > 0
	possible := false
	for more := range uint(1) << len(l.names) {
		possible = possible || bits.OnesCount(more) == len(own)+1 && l.holds(r, more)
	}
	fault, upgrade := d.Excess()
	at, swaps := d.FindSwaps(free, own)
	if now, then := fmt.Sprint(d.Excess()), fmt.Sprint(fault, upgrade); now != then {
		t.Fatalf("the search leaves an excess of %s, not %s", now, then)
	}
	if at < 0 {
		if possible && !deep && !gaps && twoRules {
			t.Fatalf("no swaps for %v on %v", own, l)
		}
		return -1
	}
	if !twoRules {
		t.Fatalf("with one rule only there is a place after %v", swaps)
	}
	for _, w := range swaps {
		if set&(1<<w.From) == 0 || set&(1<<w.To) != 0 || !slices.Contains(free, w.To) {
			t.Fatalf("%v: a swap from %d to %d", own, w.From, w.To)
		}
		set = set&^(1<<w.From) | 1<<w.To
		free = append(free, w.From)
	}
	if set&(1<<at) != 0 || !l.holds(r, set|1<<at) {
		t.Fatalf("after the swaps %v a task on %d breaks a rule; tasks are on %v of %v", swaps, at, own, l)
	}
	return 1
}

// With a rule in one dimension only there are no swaps.
func TestSwapsNeedTwoRules(t *testing.T) {
	l := &layout{}
	for i := range 4 {
		l.add(fmt.Sprint("n", i), fmt.Sprintf("fd:/%d", i/2), fmt.Sprint(i))
	}
	d := l.domains(rule(cluster.PolicyDifference, 2))
	d.AddTasks(0, 1)
	if at, swaps := d.FindSwaps([]int32{1, 2, 3}, []int32{0}); at >= 0 || swaps != nil {
		t.Errorf("a place on %d after %v", at, swaps)
	}
}

// If no swap within the lowest fault domains helps, a task goes to another rack of its data center:
// that leaves the rule of data centers as it was, and the racks differ by one task at most.
func TestSwapsBetweenRacks(t *testing.T) {
	for name, c := range map[string]struct {
		at    string // rack and upgrade domain of each instance
		own   []int32
		place int32
		swaps map[domain.Swap]bool
	}{
		// Data center 1 must have the next task. Its instance shares upgrade domain 0 with the task
		// on instance 0, which only the other rack of data center 0 can take.
		"One": {"0/1,0 0/1,0 1/0,0 0/0,1", []int32{0}, 2, map[domain.Swap]bool{{From: 0, To: 3}: true}},
		// The same with a third upgrade domain: two tasks in one and none in another would be too many.
		"OneOfThree": {"0/1,0 0/1,0 1/0,0 0/0,1 0/0,2", []int32{0}, 2, map[domain.Swap]bool{{From: 0, To: 3}: true}},
		// Data center 2 must have the next task, in upgrade domain 1: the task there goes to
		// upgrade domain 0, and the task there to upgrade domain 2, each to the other rack.
		"Two": {"1/0,0 1/1,1 0/1,0 2/1,1 0/0,2", []int32{2, 1}, 3,
			map[domain.Swap]bool{{From: 2, To: 4}: true, {From: 1, To: 0}: true}},
	} {
		t.Run(name, func(t *testing.T) {
			l, free := &layout{}, []int32(nil)
			for i, text := range strings.Fields(c.at) {
				rack, upgrade, _ := strings.Cut(text, ",")
				l.add(fmt.Sprint("n", i), "fd:/"+rack, upgrade)
				if !slices.Contains(c.own, int32(i)) {
					free = append(free, int32(i))
				}
			}
			d := l.domains(rule(cluster.PolicyDifference, len(c.own)+1))
			for _, i := range c.own {
				d.AddTasks(int(i), 1)
			}
			admits := func() (out string) {
				for i := range l.names {
					out += fmt.Sprint(d.AdmitsFault(d.FaultDomain(i)), d.AdmitsUpgrade(d.UpgradeDomain(i)), " ")
				}
				fault, upgrade := d.Excess()
				return fmt.Sprint(out, fault, upgrade)
			}
			before := admits()
			place, swaps := d.FindSwaps(free, c.own)
			if place != c.place || len(swaps) != len(c.swaps) ||
				slices.ContainsFunc(swaps, func(s domain.Swap) bool { return !c.swaps[s] }) {
				t.Errorf("a place on %d after %v, expected %d after %v", place, swaps, c.place, c.swaps)
			}
			if now := admits(); now != before {
				t.Errorf("the search leaves the domains as %s, not %s", now, before)
			}
		})
	}
}
