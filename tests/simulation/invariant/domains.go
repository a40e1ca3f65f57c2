package invariant

import (
	"slices"
	"strings"

	"berth/shared/cluster"
)

// The domain rules (P1 to P6), as plainly as possible: every question counts all instances again.

// A domainInstance is an instance as the domain rules of one service see it.
type domainInstance struct {
	id      string
	fault   []string // "fd:/dc1/r0" is dc1, r0
	upgrade string
	// acceptsTasks means that the instance accepts tasks at all, eligible that it accepts the
	// service's.
	acceptsTasks, eligible bool
	tasks                  int // tasks of the service that count
}

func FaultPath(name string) []string {
	return strings.FieldsFunc(strings.TrimPrefix(name, "fd:"), func(r rune) bool { return r == '/' })
}

// domainInstances are all instances of a cluster, with a service's tasks.
type domainInstances []domainInstance

// A domainRule is the rule in one dimension: none, maximum difference at every level, or a limit
// per domain at one level.
type domainRule struct {
	difference bool
	limit      int      // 0 for none
	under      []string // the domain whose children have the limit
}

// A dimension returns an instance's domain on every level, the topmost first.
type dimension func(domainInstance) []string

func byFaultDomain(i domainInstance) []string { return i.fault }

func byUpgradeDomain(i domainInstance) []string { return []string{i.upgrade} }

// below returns the instances in the domain.
func (all domainInstances) below(d dimension, under []string) domainInstances {
	return slices.DeleteFunc(slices.Clone(all), func(i domainInstance) bool {
		at := d(i)
		return len(at) < len(under) || !slices.Equal(at[:len(under)], under)
	})
}

// children returns the domains just below one that have an eligible instance. An instance that is
// directly in the domain is in a child without a name.
func (all domainInstances) children(d dimension, under []string) []string {
	var out []string
	for _, i := range all.below(d, under) {
		if name := childDomain(d, under, i); i.eligible && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func childDomain(d dimension, under []string, i domainInstance) string {
	if at := d(i); len(at) > len(under) {
		return at[len(under)]
	}
	return ""
}

// countTasks counts the tasks in a child of the domain.
func (all domainInstances) countTasks(d dimension, under []string, name string) (n int) {
	for _, i := range all.below(d, under) {
		if childDomain(d, under, i) == name {
			n += i.tasks
		}
	}
	return n
}

// firstBranching returns the topmost domain that has several children with eligible instances.
func (all domainInstances) firstBranching(d dimension) (under []string, names []string, ok bool) {
	for range all.countLevels(d) {
		names = all.children(d, under)
		if len(names) != 1 || names[0] == "" {
			return under, names, len(names) > 1
		}
		under = append(slices.Clone(under), names[0])
	}
	return nil, nil, false
}

// countDomains returns how many domains there are on the first level that has several, or 0.
func (all domainInstances) countDomains(d dimension) int {
	if _, names, ok := all.firstBranching(d); ok {
		return len(names)
	}
	return 0
}

func (all domainInstances) onlyEligible() domainInstances {
	return slices.DeleteFunc(slices.Clone(all), func(i domainInstance) bool { return !i.eligible })
}

// shareFaultDomains reports whether two instances share a topmost fault domain. Otherwise fault
// domains do not matter.
func (all domainInstances) shareFaultDomains() bool {
	tops := map[string]bool{}
	for _, i := range all {
		tops[i.fault[0]] = true
	}
	return len(tops) < len(all)
}

// shareUpgradeDomains reports whether two instances that accept tasks share an upgrade domain.
func (all domainInstances) shareUpgradeDomains() bool {
	seen := map[string]bool{}
	for _, i := range all {
		if i.acceptsTasks && seen[i.upgrade] {
			return true
		}
		seen[i.upgrade] = seen[i.upgrade] || i.acceptsTasks
	}
	return false
}

// rulesOf returns the rules of a policy in both dimensions.
func (all domainInstances) rulesOf(
	policy cluster.DomainPolicy, target int, c *cluster.Configuration,
) (fault, upgrade domainRule) {
	quorum := !c.NoSwitch && all.targetDivides(target)
	adaptive := func(forced bool, d dimension) domainRule {
		if quorum || forced {
			return all.quorumRule(d, target)
		}
		return domainRule{difference: true}
	}
	switch policy {
	case cluster.PolicyDifference:
		fault, upgrade = domainRule{difference: true}, domainRule{difference: true}
	case cluster.PolicyQuorum:
		fault, upgrade = all.quorumRule(byFaultDomain, target), all.quorumRule(byUpgradeDomain, target)
	case cluster.PolicyAdaptive:
		fault, upgrade = adaptive(c.QuorumFault, byFaultDomain), adaptive(c.QuorumUpgrade, byUpgradeDomain)
	case cluster.PolicyNonpacking:
		fault, upgrade = domainRule{limit: 1}, adaptive(c.QuorumUpgrade, byUpgradeDomain)
	case cluster.PolicyIgnore:
		upgrade = adaptive(c.QuorumUpgrade, byUpgradeDomain)
	}
	if !all.shareFaultDomains() || c.Priorities.FaultDomain < 0 {
		fault = domainRule{}
	}
	if !all.shareUpgradeDomains() || c.Priorities.UpgradeDomain < 0 {
		upgrade = domainRule{}
	}
	return fault, upgrade
}

// targetDivides decides between the two rules of the adaptive policy (P5).
func (all domainInstances) targetDivides(target int) bool {
	f, u := all.countDomains(byFaultDomain), all.countDomains(byUpgradeDomain)
	return all.shareFaultDomains() && target > 0 && f > 0 && u > 0 && target%f == 0 && target%u == 0 &&
		len(all.onlyEligible()) <= f*u
}

// quorumRule is P4: a domain may have as many tasks as may fail without losing the majority, at
// least one, and one more if the domains could not hold all tasks otherwise.
func (all domainInstances) quorumRule(d dimension, target int) domainRule {
	under, names, ok := all.firstBranching(d)
	if !ok {
		return domainRule{} // no level has several domains
	}
	limit := max(target-(target/2+1), 1)
	if len(names)*limit < target {
		limit++
	}
	return domainRule{limit: limit, under: under}
}

// admitsTask reports whether a new task may be placed on the instance.
func (all domainInstances) admitsTask(p domainRule, d dimension, at domainInstance) bool {
	if p.limit > 0 {
		if len(p.under) > 0 && len(domainInstances{at}.below(d, p.under)) == 0 {
			return true
		}
		return all.countTasks(d, p.under, childDomain(d, p.under, at)) < p.limit
	}
	if !p.difference {
		return true
	}
	path := d(at)
	for depth := range all.countLevels(d) {
		under := path[:min(depth, len(path))]
		names := all.children(d, under)
		if depth > len(path) || len(names) == 0 {
			return true
		}
		sum, lowest := 0, -1
		for _, name := range names {
			n := all.countTasks(d, under, name)
			sum += n
			if lowest < 0 || n < lowest {
				lowest = n
			}
		}
		base, mine := sum/len(names), all.countTasks(d, under, childDomain(d, under, at))
		if mine > base || mine == base && lowest < base {
			return false
		}
	}
	return true
}

// countLevels returns the number of levels.
func (all domainInstances) countLevels(d dimension) (n int) {
	for _, i := range all {
		n = max(n, len(d(i)))
	}
	return n
}

// breaksRule reports whether the tasks break the rule where they are.
func (all domainInstances) breaksRule(p domainRule, d dimension) bool {
	if p.limit > 0 {
		return all.exceedsLimit(p, d)
	}
	return p.difference && all.isUneven(d, nil)
}

func (all domainInstances) exceedsLimit(p domainRule, d dimension) bool {
	for _, i := range all.below(d, p.under) {
		if i.tasks > 0 && all.countTasks(d, p.under, childDomain(d, p.under, i)) > p.limit {
			return true
		}
	}
	return false
}

func (all domainInstances) isUneven(d dimension, under []string) bool {
	names := all.children(d, under)
	sum := 0
	for _, name := range names {
		sum += all.countTasks(d, under, name)
	}
	for _, name := range names {
		base, n := sum/len(names), all.countTasks(d, under, name)
		if n < base || n > base+1 {
			return true
		}
		if name != "" && all.isUneven(d, append(slices.Clone(under), name)) {
			return true
		}
	}
	return false
}
