package invariant

import (
	"fmt"
	"testing"

	"berth/shared/cluster"
)

// grid returns instances at places in a square of five fault domains and five upgrade domains. A
// place is a fault domain, an upgrade domain and a number of tasks.
func grid(places [][3]int) domainInstances {
	var out domainInstances
	for n, p := range places {
		out = append(out, domainInstance{
			id: fmt.Sprintf("N%d", n+1), fault: []string{fmt.Sprint("fd", p[0])}, upgrade: fmt.Sprint("ud", p[1]),
			acceptsTasks: true, eligible: true, tasks: p[2],
		})
	}
	return out
}

// TestCheckerKnowsTheDomainRules compares the checker's domain rules with their worked examples
// (P6).
func TestCheckerKnowsTheDomainRules(t *testing.T) {
	nine := [][3]int{{0, 0, 1}, {1, 1, 1}, {2, 2, 1}, {3, 3, 1}, {4, 4, 0}, {0, 1, 0}, {1, 0, 0}, {0, 2, 0}, {2, 0, 0}}
	none := &cluster.Configuration{}
	broken := func(all domainInstances, policy cluster.DomainPolicy, target int) bool {
		f, u := all.rulesOf(policy, target, none)
		return all.breaksRule(f, byFaultDomain) || all.breaksRule(u, byUpgradeDomain)
	}
	t.Run("FifthTaskGoesToTheEmptyDomains", func(t *testing.T) {
		all := grid(nine)
		f, u := all.rulesOf(cluster.PolicyDifference, 5, none)
		for n, at := range all {
			if got := all.admitsTask(f, byFaultDomain, at) && all.admitsTask(u, byUpgradeDomain, at); got != (n == 4) {
				t.Errorf("N%d takes one: %t", n+1, got)
			}
		}
	})
	t.Run("QuorumSafetyAllowsTwo", func(t *testing.T) {
		places := append([][3]int{}, nine...)
		places[5][2] = 1
		if all := grid(places); broken(all, cluster.PolicyQuorum, 5) || !broken(all, cluster.PolicyDifference, 5) {
			t.Error("two of five in fd0 and in ud1 are quorum safe, and no maximum difference")
		}
		places[7][2] = 1
		if !broken(grid(places), cluster.PolicyQuorum, 5) {
			t.Error("three of five in fd0 are quorum safe")
		}
	})
	t.Run("AdaptiveDependsOnTheDesiredCount", func(t *testing.T) {
		all := grid(nine)
		if f, _ := all.rulesOf(cluster.PolicyAdaptive, 5, none); f.limit != 2 {
			t.Errorf("for 5 it is %+v", f)
		}
		if f, _ := all.rulesOf(cluster.PolicyAdaptive, 4, none); !f.difference {
			t.Errorf("for 4 it is %+v", f)
		}
	})
	t.Run("EveryLevelIsBalanced", func(t *testing.T) {
		all := domainInstances{
			{id: "a", fault: []string{"dc0", "r0"}, upgrade: "a", acceptsTasks: true, eligible: true, tasks: 1},
			{id: "b", fault: []string{"dc0", "r0"}, upgrade: "b", acceptsTasks: true, eligible: true, tasks: 1},
			{id: "c", fault: []string{"dc0", "r1"}, upgrade: "c", acceptsTasks: true, eligible: true},
			{id: "d", fault: []string{"dc1"}, upgrade: "d", acceptsTasks: true, eligible: true, tasks: 1},
		}
		if !broken(all, cluster.PolicyDifference, 3) {
			t.Error("two in a rack beside an empty one are balanced")
		}
		all[1].eligible, all[2].eligible = false, false
		if broken(all, cluster.PolicyDifference, 3) {
			t.Error("a rack in which nothing can run counts")
		}
	})
}
