package domain_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
)

// racks returns a cluster with the given fault domains and one upgrade domain per instance, which
// sets no rule.
func racks(fault ...string) *layout {
	l := &layout{}
	for i, f := range fault {
		l.add(fmt.Sprintf("n%d", i), f, fmt.Sprintf("ud%d", i))
	}
	return l
}

func TestQuorumLimits(t *testing.T) {
	for target, limit := range map[int]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 2, 6: 2, 7: 3, 8: 3, 9: 4} {
		l := &layout{}
		for fd := range 10 { // more than enough domains to hold them all
			for n := range 5 {
				l.add(fmt.Sprint(fd, n), fmt.Sprintf("fd:/%d", fd), "")
			}
		}
		d := l.domains(rule(cluster.PolicyQuorum, target))
		admitted := 0
		for i := 0; d.Admits(i); i++ {
			d.AddTasks(i, 1)
			admitted++
		}
		expect(t, fmt.Sprintf("of %d tasks in one domain", target), admitted, limit)
	}
}

func TestQuorumLimitIsOneMoreIfDomainsAreTooFew(t *testing.T) {
	for name, c := range map[string]struct{ target, domains, limit int }{
		"ThreeOnTwo":  {3, 2, 2},
		"FourOnThree": {4, 3, 2},
		"FiveOnTwo":   {5, 2, 3},
		"FourOnFour":  {4, 4, 1},
	} {
		l := &layout{}
		for fd := range c.domains {
			for n := range 5 {
				l.add(fmt.Sprint(fd, n), fmt.Sprintf("fd:/%d", fd), "")
			}
		}
		d := l.domains(rule(cluster.PolicyQuorum, c.target))
		admitted := 0
		for i := 0; d.Admits(i); i++ {
			d.AddTasks(i, 1)
			admitted++
		}
		expect(t, name, admitted, c.limit)
	}
}

func TestDomainsOfOneInstanceEachHaveNoRule(t *testing.T) {
	l := racks("fd:/a/x", "fd:/b/x", "fd:/c/x")
	d := l.domains(rule(cluster.PolicyDifference, 2), "n0")
	expect(t, "leaves", d.FaultDomainCount(), 0)
	expect(t, "upgrade domains", d.UpgradeDomainCount(), 0)
	d.AddTasks(0, 3)
	expect(t, "four on one instance", violated(d), "fault=false upgrade=false")
}

func TestUpgradeDomainsWithoutRuleCountForTheAdaptiveChoice(t *testing.T) {
	l := racks("fd:/a", "fd:/a", "fd:/b", "fd:/b")
	d := l.domains(rule(cluster.PolicyAdaptive, 4))
	expectLogic(t, d, true)
	expect(t, "upgrade domains with a rule", d.UpgradeDomainCount(), 0)
	l.upgrade[0] = l.upgrade[1] // three now
	expectLogic(t, l.domains(rule(cluster.PolicyAdaptive, 4)), false)
}

func TestSingleChildLevelsAreTransparent(t *testing.T) {
	for _, policy := range []cluster.DomainPolicy{cluster.PolicyDifference, cluster.PolicyQuorum} {
		l := racks("fd:/r/s/a", "fd:/r/s/a", "fd:/r/s/b", "fd:/r/s/b")
		d := l.domains(rule(policy, 4), "n0", "n1")
		expect(t, string(policy)+" after two in a", d.AdmitsFault(d.FaultDomain(0)), false)
		expect(t, string(policy)+" b", d.AdmitsFault(d.FaultDomain(2)), true)
	}
}

func TestBranchesMayHaveDifferentDepth(t *testing.T) {
	l := racks("fd:/a/r/c0", "fd:/a/r/c1", "fd:/a/s/c0", "fd:/b", "fd:/b")
	d := l.domains(rule(cluster.PolicyDifference, 5), "n0", "n3")
	for i, want := range []bool{false, false, true, true, true} {
		expect(t, l.names[i], d.Admits(i), want)
	}
}

func TestDomainWithoutEligibleInstanceIsNone(t *testing.T) {
	l := racks("fd:/a", "fd:/a", "fd:/b", "fd:/b", "fd:/c", "fd:/c")
	for _, standing := range []domain.Standing{domain.Unavailable, domain.Ineligible} {
		l.standing[4], l.standing[5] = standing, standing
		d := l.domains(rule(cluster.PolicyDifference, 5), "n0", "n2", "n4", "n5")
		expect(t, "two in c", violated(d), "fault=false upgrade=false")
		expect(t, "a admits", d.Admits(0), true)
		expect(t, "c admits", d.AdmitsFault(d.FaultDomain(4)), false)
		expect(t, "c is left first", d.StopRank(4) < d.StopRank(0), true)
	}
}

// If constraints are ignored or relaxed, a domain in which no instance meets them may have as many
// tasks as the others.
func TestDomainWithoutEligibleInstanceIfConstraintsAreRelaxed(t *testing.T) {
	l := racks("fd:/a", "fd:/a", "fd:/b", "fd:/b", "fd:/c", "fd:/c")
	l.standing[4], l.standing[5] = domain.Ineligible, domain.Ineligible
	for policy, want := range map[cluster.DomainPolicy]string{
		cluster.PolicyDifference: "true true false", cluster.PolicyQuorum: "true true false",
		cluster.PolicyNonpacking: "true false false",
	} {
		r := rule(policy, 4)
		r.NoConstraints = true
		d := l.domains(r)
		d.AddTasks(0, 1)
		d.AddTasks(2, 1)
		var got []string
		for range 3 {
			got = append(got, fmt.Sprint(d.AdmitsFault(d.FaultDomain(4))))
			d.AddTasks(4, 1)
		}
		expect(t, string(policy), strings.Join(got, " "), want)
		expect(t, string(policy)+", to others c is none", d.AdmitsFault(d.FaultDomain(0)),
			policy != cluster.PolicyNonpacking)
	}
}

func TestStopsComeFromAboveTheBase(t *testing.T) {
	l := racks("fd:/a", "fd:/a", "fd:/b", "fd:/b", "fd:/c", "fd:/c")
	d := l.domains(rule(cluster.PolicyDifference, 4), "n0", "n1", "n2", "n3", "n4")
	expect(t, "the fifth is worth more", d.StopRank(4) > d.StopRank(0), true)
	d = l.domains(rule(cluster.PolicyQuorum, 5), "n0", "n1", "n2", "n3", "n4")
	expect(t, "under quorum safety none is", d.StopRank(4), d.StopRank(0))
}

func TestNonpackingIsForTopLevelFaultDomains(t *testing.T) {
	l := racks("fd:/a/r", "fd:/a/s", "fd:/b/r")
	l.upgrade = []string{"u", "u", "v"}
	d := l.domains(domain.Rule{Policy: cluster.PolicyNonpacking, Target: 3, NoSwitch: true}, "n0")
	expect(t, "the other rack of a", d.AdmitsFault(d.FaultDomain(1)), false)
	expect(t, "b", d.Admits(2), true)
	d.AddTasks(1, 1)
	expect(t, "two in a, and upgrade domains 2 and 0", violated(d), "fault=true upgrade=true")
}

func TestDimensionsCanBeSwitchedOff(t *testing.T) {
	l := grid(sixNodes)
	r := rule(cluster.PolicyDifference, 5)
	r.NoUpgrade = true
	d := l.domains(r, "N6", "N2", "N3", "N4", "N5")
	expect(t, "upgrade rule given up", violated(d), "fault=false upgrade=false")
	d.SetRule(rule(cluster.PolicyDifference, 5))
	expect(t, "and back", violated(d), "fault=false upgrade=true")
}

func TestRepairInsideItsBranch(t *testing.T) {
	l := racks("fd:/dc/left/r0", "fd:/dc/left/r1", "fd:/dc/left/r2", "fd:/dc/right/r3", "fd:/dc/right/r4",
		"fd:/dc/right/r4", "fd:/dc/right/r4")
	d := l.domains(rule(cluster.PolicyDifference, 5), "n0", "n1", "n4", "n5", "n6")
	expect(t, "repairs", l.repairs(d, "n0", "n1", "n4", "n5", "n6"), "n4-n3 n5-n3 n6-n3")
}

func TestAdaptiveIsQuorumSafeWithAsManyNodesAsTheProduct(t *testing.T) {
	l := grid("A=0,0 B=0,1 C=1,0 D=1,1")
	expectLogic(t, l.domains(rule(cluster.PolicyAdaptive, 2)), true)
	l = grid("A=0,0 B=0,1 C=1,0 D=1,1 E=1,1")
	expectLogic(t, l.domains(rule(cluster.PolicyAdaptive, 2)), false)
	l.standing[4] = domain.Ineligible
	expectLogic(t, l.domains(rule(cluster.PolicyAdaptive, 2)), true)
}

func TestQuorumSafetyCountsDomainsWithoutEligibleInstances(t *testing.T) {
	l := racks("fd:/a", "fd:/a", "fd:/a", "fd:/b", "fd:/b", "fd:/c", "fd:/c")
	l.standing[0], l.standing[1], l.standing[2] = domain.Unavailable, domain.Unavailable, domain.Unavailable
	d := l.domains(rule(cluster.PolicyQuorum, 4), "n0", "n1", "n2", "n3")
	expect(t, "three of four in a", violated(d), "fault=true upgrade=false")
	r := rule(cluster.PolicyNonpacking, 4)
	expect(t, "nonpacking leaves it to others", violated(l.domains(r, "n0", "n1", "n2", "n3")),
		"fault=false upgrade=false")
}

func TestMovesIntoAFullDomainOnlyFromWithin(t *testing.T) {
	l := racks("fd:/a/r", "fd:/a/r", "fd:/a/r", "fd:/a/r", "fd:/a/s", "fd:/b", "fd:/b", "fd:/b", "fd:/c", "fd:/c")
	d := l.domains(rule(cluster.PolicyQuorum, 5), "n0", "n1", "n2", "n3", "n5", "n6") // at most two: a has four, b two
	expect(t, "to the other rack of a", d.MayMove(0, 4), true)
	expect(t, "from a to b", d.MayMove(0, 7), false)
	expect(t, "from a to c", d.MayMove(0, 8), true)
}

// A domain without an eligible instance, and without a task, takes none all the same. It may be the
// first of all.
func TestNoTaskGoesWhereNoneIsEligible(t *testing.T) {
	for _, policy := range []cluster.DomainPolicy{cluster.PolicyDifference, cluster.PolicyQuorum} {
		l := racks("fd:/dead", "fd:/dead", "fd:/a", "fd:/a", "fd:/b", "fd:/b")
		l.standing[0], l.standing[1] = domain.Unavailable, domain.Ineligible
		d := l.domains(rule(policy, 4), "n2", "n3", "n4")
		expect(t, string(policy)+": a task is admitted", d.AdmitsFault(d.FaultDomain(0)), false)
		expect(t, string(policy)+": a task may come from a", d.MayMove(2, 0), false)
		expect(t, string(policy)+": a task may go from a to b", d.MayMove(2, 5), true)
	}
}

// An instance without a domain of one kind is an eligible one all the same: there are more of them
// than the product.
func TestAdaptiveCountsInstancesWithoutDomains(t *testing.T) {
	l := grid("A=0,0 B=0,1 C=1,0 D=1,1")
	l.add("E", "fd:/FD0", "")
	expectLogic(t, l.domains(rule(cluster.PolicyAdaptive, 2)), false)
	l.fault[4], l.upgrade[4] = "", "UD0"
	expectLogic(t, l.domains(rule(cluster.PolicyAdaptive, 2)), false)
}

// The rule of a service has its own policy, or else the cluster's, and is off where the cluster's
// priority is negative.
func TestNewRule(t *testing.T) {
	c := &cluster.Configuration{DomainPolicy: cluster.PolicyIgnore, QuorumFault: true, QuorumUpgrade: true,
		NoSwitch: true}
	want := domain.Rule{Policy: cluster.PolicyIgnore, Target: 7, QuorumFault: true, QuorumUpgrade: true, NoSwitch: true}
	expect(t, "the cluster's policy", domain.NewRule("", 7, c), want)
	want.Policy = cluster.PolicyQuorum
	expect(t, "its own policy", domain.NewRule(cluster.PolicyQuorum, 7, c), want)
	for n := range 3 {
		p := [3]cluster.Priority{0, 0, 0}
		p[n] = -1
		c = &cluster.Configuration{Priorities: cluster.Priorities{FaultDomain: p[0], UpgradeDomain: p[1],
			Placement: p[2]}}
		expect(t, fmt.Sprint("what is off with priorities ", p), domain.NewRule("", 0, c),
			domain.Rule{NoFault: n == 0, NoUpgrade: n == 1, NoConstraints: n == 2})
	}
}

// Several paths mean one domain, and an instance may be in any place of the list.
func TestPathsOfOneDomain(t *testing.T) {
	l := racks("fd:/a", "fd:/b", "/a/", "fd:/a/", "b", "")
	d := l.domains(rule(cluster.PolicyQuorum, 4), "n0", "n2")
	for i, want := range []int{0, 1, 0, 0, 1} {
		expect(t, "fault domain of "+l.names[i], d.FaultDomain(i), want)
		expect(t, "is admitted "+l.names[i], d.Admits(i), want == 1)
	}
	expect(t, "fault domain of "+l.names[5], d.FaultDomain(5), -1)
	expect(t, "fault domains", d.FaultDomainCount(), 2)
	faults, upgrades := d.DomainCounts()
	expect(t, "fault domains in all", faults, 2)
	expect(t, "upgrade domains in all", upgrades, 6)
	fault, upgrade := d.LowestDomains(4)
	expect(t, "lowest domains", [2]int32{fault, upgrade}, [2]int32{1, 4})
	fault, _ = d.LowestDomains(5)
	expect(t, "lowest fault domain", fault, -1)
	expect(t, "domains with the two roots", d.NodeCount(), 2+6+2)
	each := racks("fd:/a", "fd:/b").domains(rule(cluster.PolicyQuorum, 4)) // each instance is its own
	fault, _ = each.LowestDomains(1)
	expect(t, "lowest fault domain without a rule", fault, -1)
}

// Domains that are copied without their tasks count tasks of their own.
func TestCopiesCountApart(t *testing.T) {
	l := racks("fd:/a", "fd:/a", "fd:/b", "fd:/b")
	d := l.domains(rule(cluster.PolicyDifference, 4), "n0")
	for _, other := range []*domain.Domains{d.WithoutTasks(rule(cluster.PolicyDifference, 4)),
		d.WithoutTasks(rule(cluster.PolicyQuorum, 2))} {
		expect(t, "a admits in the copy", other.Admits(1), true)
		other.AddTasks(2, 1)
		other.AddTasks(3, 1)
		expect(t, "b admits", d.Admits(2), true)
		expect(t, "a admits", d.Admits(1), false)
		expect(t, "two in b of the copy", violated(other), "fault=true upgrade=false")
	}
	expect(t, "one in a", violated(d), "fault=false upgrade=false")
}
