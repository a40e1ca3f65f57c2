package placement_test

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/state"
)

// usedBy tries every way to place n tasks, and is which instances any that keeps the rules uses; ok where there is one.
func (l *layout) usedBy(rule placement.Rule, n int) (used []bool, ok bool) {
	used = make([]bool, len(l.names))
	for set := range uint(1) << len(l.names) {
		if bits.OnesCount(set) != n {
			continue
		}
		d, eligible := placement.NewDomains(l.fault, l.upgrade, l.standing, rule), true
		for i := range l.names {
			if set&(1<<i) != 0 {
				d.Add(i, 1)
				eligible = eligible && l.standing[i] == placement.Eligible
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

// TestUsableIsAsTryingEverything: exactly where fault domains have one level, and never too little where they have more.
func TestUsableIsAsTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, deep := &layout{}, rapid.Bool().Draw(t, "deep")
		for i := range rapid.IntRange(1, 8).Draw(t, "instances") {
			fault := fmt.Sprintf("fd:/%d", rapid.IntRange(0, 3).Draw(t, "fault"))
			if deep {
				fault += fmt.Sprintf("/%d", rapid.IntRange(0, 1).Draw(t, "rack"))
			}
			l.add(fmt.Sprint("n", i), fault, fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "upgrade")))
			l.standing[i] = rapid.SampledFrom([]placement.Standing{
				placement.Eligible, placement.Eligible, placement.Eligible, placement.Barred, placement.Closed,
			}).Draw(t, "standing")
		}
		n := rapid.IntRange(1, len(l.names)).Draw(t, "target")
		policy := rapid.SampledFrom([]cluster.DomainPolicy{
			cluster.PolicyDifference, cluster.PolicyQuorum, cluster.PolicyNonpacking, cluster.PolicyIgnore, cluster.PolicyAdaptive,
		}).Draw(t, "policy")
		got := placement.NewDomains(l.fault, l.upgrade, l.standing, rule(policy, n)).Usable(n)
		want, possible := l.usedBy(rule(policy, n), n)
		for i := range l.names {
			wanted := possible && want[i] || !possible && l.standing[i] == placement.Eligible
			if got[i] != wanted && (!deep || wanted) {
				t.Fatalf("%s: usable %v, not %v; %+v, %s, %d tasks", l.names[i], got[i], wanted, l, policy, n)
			}
		}
	})
}

func TestUnused(t *testing.T) {
	// The six nodes of Service Fabric's example: five on the diagonal, N6 in the fault domain of N1 and the upgrade domain of N2.
	var rows []state.Row
	for i, at := range [][2]int{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {0, 1}} {
		rows = append(rows, instance(fmt.Sprintf("N%d", i+1),
			attribute(cluster.AttributeFaultDomain, fmt.Sprintf("fd:/FD%d", at[0])), attribute(cluster.AttributeUpgrade, fmt.Sprintf("UD%d", at[1]))))
	}
	five := placement.Mover{Name: "five", Spec: &placement.Spec{Owner: "five", DomainPolicy: cluster.PolicyDifference}, Target: 5}
	picky := placement.Mover{Name: "picky", Spec: &placement.Spec{Owner: "picky", Attributes: []string{"disk=ssd"}}, Target: 1}
	e := placement.New(snapshotOf(rows...))
	unused := func(services ...placement.Mover) (out []string) {
		for _, u := range e.Unused(services) {
			out = append(out, u.Instance+": "+u.Why)
		}
		return out
	}
	for name, c := range map[string]struct {
		services []placement.Mover
		want     []string
	}{
		"MaximumDifferenceNeverUsesN6":          {[]placement.Mover{five}, []string{"N6: the domain rules leave it out for five"}},
		"NorDoesOneWhoseConstraintsHoldNowhere": {[]placement.Mover{five, picky}, []string{"N6: the domain rules leave it out for five"}},
		"AnotherServiceUsesIt":                  {[]placement.Mover{five, {Name: "any", Spec: &placement.Spec{Owner: "any"}, Target: 1}}, nil},
		"QuorumSafetyDoes":                      {[]placement.Mover{{Name: "safe", Spec: &placement.Spec{Owner: "safe", DomainPolicy: cluster.PolicyQuorum}, Target: 5}}, nil},
		"NoService":                             {nil, nil},
	} {
		if got := unused(c.services...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := unused(picky); len(got) != 6 || got[0] != "N1: what the services ask of an instance holds for none of them there" {
		t.Errorf("%q", got)
	}
}
