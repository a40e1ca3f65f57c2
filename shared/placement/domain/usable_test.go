package domain_test

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
)

// usedBy tries every way to place n tasks. It returns the instances that some way which keeps the
// rules uses; ok reports whether there is one.
func (l *layout) usedBy(rule domain.Rule, n int) (used []bool, ok bool) {
	used = make([]bool, len(l.names))
	for set := range uint(1) << len(l.names) {
		if bits.OnesCount(set) != n {
			continue
		}
		d, eligible := domain.NewDomains(l.fault, l.upgrade, l.standing, rule), true
		for i := range l.names {
			if set&(1<<i) != 0 {
				d.AddTasks(i, 1)
				eligible = eligible && l.standing[i] == domain.Eligible
			}
		}
		if fault, upgrade := d.Violated(); !eligible || fault || upgrade {
			continue
		}
		ok = true
		for i := range l.names {
			used[i] = used[i] || set&(1<<i) != 0
		}
	}
	return used, ok
}

// UsableInstances is exact if fault domains have one level, and never too narrow if they have more.
func TestUsableInstancesEqualTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range often {
			checkUsable(t)
		}
	})
}

func checkUsable(t *rapid.T) {
	l, deep := &layout{}, rapid.Bool().Draw(t, "deep")
	for i := range rapid.IntRange(1, 8).Draw(t, "instances") {
		fault := fmt.Sprintf("fd:/%d", rapid.IntRange(0, 3).Draw(t, "fault"))
		if deep {
			fault += fmt.Sprintf("/%d", rapid.IntRange(0, 1).Draw(t, "rack"))
		}
		l.add(fmt.Sprint("n", i), fault, fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "upgrade")))
		l.standing[i] = rapid.SampledFrom([]domain.Standing{
			domain.Eligible, domain.Eligible, domain.Eligible, domain.Ineligible, domain.Unavailable,
		}).Draw(t, "standing")
	}
	n := rapid.IntRange(1, len(l.names)).Draw(t, "target")
	policy := rapid.SampledFrom([]cluster.DomainPolicy{
		cluster.PolicyDifference, cluster.PolicyQuorum, cluster.PolicyNonpacking, cluster.PolicyIgnore,
		cluster.PolicyAdaptive,
	}).Draw(t, "policy")
	got := domain.NewDomains(l.fault, l.upgrade, l.standing, rule(policy, n)).UsableInstances(n)
	want, possible := l.usedBy(rule(policy, n), n)
	for i := range l.names {
		wanted := possible && want[i] || !possible && l.standing[i] == domain.Eligible
		if got[i] != wanted && (!deep || wanted) {
			t.Fatalf("%s: usable %v, not %v; %+v, %s, %d tasks", l.names[i], got[i], wanted, l, policy, n)
		}
	}
}

func usable(l *layout, r domain.Rule) string {
	var out []string
	for i, is := range l.domains(r).UsableInstances(r.Target) {
		if is {
			out = append(out, l.names[i])
		}
	}
	return strings.Join(out, " ")
}

func TestUsableInstancesOfExamples(t *testing.T) {
	expect(t, "by maximum difference", usable(grid(sixNodes), rule(cluster.PolicyDifference, 5)), "N1 N2 N3 N4 N5")
	expect(t, "by quorum safety", usable(grid(sixNodes), rule(cluster.PolicyQuorum, 5)), "N1 N2 N3 N4 N5 N6")
	// Each domain takes two of four tasks. Those of fault domain 1 fill upgrade domain 1, which
	// leaves none for E.
	text := "A=0,0 B=0,0 C=0,0 D=1,1 E=0,1 F=1,1 G=1,1"
	expect(t, "of seven", usable(grid(text), rule(cluster.PolicyQuorum, 4)), "A B C D F G")
	// E and F share an upgrade domain. With E, fault domain 0 has two tasks, and G is the one of the other.
	shared := grid("A=0,0 B=0,0 E=0,2 F=1,2 G=1,1")
	expect(t, "of two in one upgrade domain", usable(shared, rule(cluster.PolicyDifference, 3)), "A B E F G")
	l := grid(text)
	for i := range l.fault { // a level with one domain changes nothing
		l.fault[i] = strings.Replace(l.fault[i], "fd:/", "fd:/dc/", 1)
	}
	expect(t, "below one data center", usable(l, rule(cluster.PolicyQuorum, 4)), "A B C D F G")
}
