package domain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
)

// A layout is a cluster of named instances, each eligible, with their fault and upgrade domains.
type layout struct {
	names          []string
	fault, upgrade []string
	standing       []domain.Standing
}

// grid reads "N1=0,0 N2=1,1": instances with the numbers of fault domain and upgrade domain.
func grid(text string) *layout {
	l := &layout{}
	for _, cell := range strings.Fields(text) {
		name, at, _ := strings.Cut(cell, "=")
		fd, ud, _ := strings.Cut(at, ",")
		l.add(name, "fd:/FD"+fd, "UD"+ud)
	}
	return l
}

func (l *layout) add(name, fault, upgrade string) {
	l.names = append(l.names, name)
	l.fault = append(l.fault, fault)
	l.upgrade = append(l.upgrade, upgrade)
	l.standing = append(l.standing, domain.Eligible)
}

func (l *layout) at(name string) int { return slices.Index(l.names, name) }

// domains returns the domains under the rule, with one task on each of the named instances.
func (l *layout) domains(rule domain.Rule, tasks ...string) *domain.Domains {
	d := domain.NewDomains(l.fault, l.upgrade, l.standing, rule)
	for _, name := range tasks {
		d.AddTasks(l.at(name), 1)
	}
	return d
}

// open returns the instances that could take one more task and have none yet.
func (l *layout) open(d *domain.Domains, tasks ...string) string {
	var out []string
	for i, name := range l.names {
		if d.Admits(i) && !slices.Contains(tasks, name) {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

// complete returns all sets of n instances in which every task was admitted in some order and no
// rule is broken.
func (l *layout) complete(d *domain.Domains, n int) []string {
	found := map[string]bool{}
	var chosen []int
	var grow func()
	grow = func() {
		if len(chosen) == n {
			if fault, upgrade := d.Violated(); !fault && !upgrade {
				found[l.sorted(chosen)] = true
			}
			return
		}
		for i := range l.names {
			if slices.Contains(chosen, i) || !d.Admits(i) {
				continue
			}
			d.AddTasks(i, 1)
			chosen = append(chosen, i)
			grow()
			chosen = chosen[:len(chosen)-1]
			d.AddTasks(i, -1)
		}
	}
	grow()
	out := make([]string, 0, len(found))
	for set := range found {
		out = append(out, set)
	}
	slices.Sort(out)
	return out
}

func (l *layout) sorted(chosen []int) string {
	chosen = slices.Clone(chosen)
	slices.Sort(chosen)
	names := make([]string, len(chosen))
	for i, c := range chosen {
		names[i] = l.names[c]
	}
	return strings.Join(names, " ")
}

func violated(d *domain.Domains) string {
	fault, upgrade := d.Violated()
	return fmt.Sprintf("fault=%v upgrade=%v", fault, upgrade)
}

func rule(policy cluster.DomainPolicy, target int) domain.Rule {
	return domain.Rule{Policy: policy, Target: target}
}

// The worked examples of Service Fabric's document on describing a cluster: five fault domains,
// five upgrade domains.
const (
	sixNodes   = "N1=0,0 N2=1,1 N3=2,2 N4=3,3 N5=4,4 N6=0,1"
	eightNodes = sixNodes + " N7=1,2 N8=2,3"
	tenNodes   = eightNodes + " N9=3,4 N10=4,0"
)

func TestMaximumDifferenceNeverUsesN6(t *testing.T) {
	l := grid(sixNodes)
	d := l.domains(rule(cluster.PolicyDifference, 5))
	expect(t, "the only layout of five", strings.Join(l.complete(d, 5), "; "), "N1 N2 N3 N4 N5")
	for layout, want := range map[string]string{
		"N1 N2 N3 N4 N5": "fault=false upgrade=false",
		"N6 N1 N3 N4 N5": "fault=true upgrade=false", // N6 in place of N2
		"N6 N2 N3 N4 N5": "fault=false upgrade=true", // N6 in place of N1
	} {
		expect(t, layout, violated(l.domains(rule(cluster.PolicyDifference, 5), strings.Fields(layout)...)), want)
	}
}

func TestQuorumSafetyAllowsAllThreeLayouts(t *testing.T) {
	l := grid(sixNodes)
	for _, layout := range []string{"N1 N2 N3 N4 N5", "N6 N1 N3 N4 N5", "N6 N2 N3 N4 N5"} {
		d := l.domains(rule(cluster.PolicyQuorum, 5), strings.Fields(layout)...)
		expect(t, layout, violated(d), "fault=false upgrade=false")
	}
}

// drawn is the layout that the document draws for eight nodes: FD0 and UD2 have two, FD3 and UD3
// none.
var drawn = []string{"N1", "N6", "N7", "N3", "N5"}

func TestEightNodesSwitchToQuorumSafety(t *testing.T) {
	l := grid(eightNodes)
	d := l.domains(rule(cluster.PolicyAdaptive, 5), drawn...)
	expectLogic(t, d, true)
	expect(t, "the layout drawn", violated(d), "fault=false upgrade=false")
	used := map[string]bool{}
	for _, set := range l.complete(l.domains(rule(cluster.PolicyAdaptive, 5)), 5) {
		for _, name := range strings.Fields(set) {
			used[name] = true
		}
	}
	expect(t, "nodes in use by some layout", len(used), 8)
}

func TestTargetOfFourGoesBackToMaximumDifference(t *testing.T) {
	l := grid(eightNodes)
	d := l.domains(rule(cluster.PolicyAdaptive, 5), drawn...)
	d.SetRule(rule(cluster.PolicyAdaptive, 4))
	expectLogic(t, d, false)
	expect(t, "the five", violated(d), "fault=true upgrade=true")
	for _, name := range []string{"N1", "N6", "N7", "N3"} { // those that share a domain with another
		if d.StopRank(l.at(name)) >= d.StopRank(l.at("N5")) {
			t.Errorf("%s should stop before N5", name)
		}
	}
	d.AddTasks(l.at("N6"), -1)
	expect(t, "the four that are left", violated(d), "fault=false upgrade=true")
	expect(t, "moves that repair them", l.repairs(d, "N1", "N7", "N3", "N5"), "N7-N2 N7-N4 N3-N4 N3-N8")
}

// repairs returns the moves of one task that leave no rule broken.
func (l *layout) repairs(d *domain.Domains, tasks ...string) string {
	var out []string
	for _, from := range tasks {
		for i, to := range l.names {
			if slices.Contains(tasks, to) || !d.MayMove(l.at(from), i) {
				continue
			}
			d.AddTasks(l.at(from), -1)
			d.AddTasks(i, 1)
			if violated(d) == "fault=false upgrade=false" {
				out = append(out, from+"-"+to)
			}
			d.AddTasks(i, -1)
			d.AddTasks(l.at(from), 1)
		}
	}
	return strings.Join(out, " ")
}

func TestWithoutN1ItReturnsOnN4(t *testing.T) {
	l := grid(strings.TrimPrefix(eightNodes, "N1=0,0 "))
	d := l.domains(rule(cluster.PolicyAdaptive, 5), drawn[1:]...)
	expect(t, "upgrade domains", d.UpgradeDomainCount(), 4)
	expectLogic(t, d, false)
	expect(t, "where the fifth may go", l.open(d, drawn[1:]...), "N4")
	d.AddTasks(l.at("N4"), 1)
	expect(t, "with it", violated(d), "fault=false upgrade=false")
}

func TestMoreNodesDoNotHelpMaximumDifference(t *testing.T) {
	l := grid(tenNodes)
	d := l.domains(rule(cluster.PolicyDifference, 5), "N1", "N2", "N3", "N4", "N5")
	expect(t, "the five are balanced", violated(d), "fault=false upgrade=false")
	for _, extra := range []string{"N6", "N7", "N8", "N9", "N10"} {
		for _, from := range []string{"N1", "N2", "N3", "N4", "N5"} {
			if d.MayMove(l.at(from), l.at(extra)) {
				t.Errorf("%s may move to %s", from, extra)
			}
		}
	}
}

// The document says that with ten nodes replicas go only to N1 to N5. From there no single task may
// move, but two layouts are balanced. The text of its table does not say in which fault domain the
// ninth is: in the first one, another three nodes of N1 to N5 may stay.
func TestTenNodesHaveTwoBalancedLayouts(t *testing.T) {
	for nodes, want := range map[string]string{
		tenNodes: "N1 N2 N3 N4 N5; N6 N7 N8 N9 N10",
		strings.Replace(tenNodes, "N9=3,4", "N9=0,4", 1): "N1 N2 N3 N4 N5; N2 N3 N4 N9 N10",
	} {
		l := grid(nodes)
		expect(t, nodes, strings.Join(l.complete(l.domains(rule(cluster.PolicyDifference, 5)), 5), "; "), want)
	}
}

func expectLogic(t *testing.T, d *domain.Domains, quorum bool) {
	t.Helper()
	fault, upgrade := d.UsesQuorum()
	expect(t, "quorum safety of fault domains", fault, quorum)
	expect(t, "quorum safety of upgrade domains", upgrade, quorum)
}
