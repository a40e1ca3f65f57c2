package invariant

import (
	"slices"
	"strings"

	"berth/shared/cluster"
)

// The domain rules (P1–P6), as plainly as they can be put: every question counts anew, over all instances.

// domainInstance is an instance as the domains of one service see it.
type domainInstance struct {
	id      string
	fault   []string // "fd:/dc1/r0" is dc1, r0
	upgrade string
	// acceptsTasks takes tasks of somebody, eligible those of the service.
	acceptsTasks, eligible bool
	tasks                  int // of the service, that count
}

func FaultPath(name string) []string {
	return strings.FieldsFunc(strings.TrimPrefix(name, "fd:"), func(r rune) bool { return r == '/' })
}

// domainInstances are all instances in the cluster with what a service has there.
type domainInstances []domainInstance

// domainRule is what holds in one dimension: nothing, maximum difference at every level, or a limit per domain at one level.
type domainRule struct {
	difference bool
	limit      int      // 0 is none
	under      []string // the domain whose children the limit is for
}

// dimension is the domain of a site on every level, the topmost first.
type dimension func(domainInstance) []string

func byFaultDomain(s domainInstance) []string { return s.fault }

func byUpgradeDomain(s domainInstance) []string { return []string{s.upgrade} }

// below are the sites below the domain.
func (all domainInstances) below(d dimension, under []string) domainInstances {
	return slices.DeleteFunc(slices.Clone(all), func(s domainInstance) bool {
		at := d(s)
		return len(at) < len(under) || !slices.Equal(at[:len(under)], under)
	})
}

// children are the domains just below one, those with an eligible instance. A site that ends at the domain itself is in a
// child without a name.
func (all domainInstances) children(d dimension, under []string) []string {
	var out []string
	for _, s := range all.below(d, under) {
		if name := childDomain(d, under, s); s.eligible && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func childDomain(d dimension, under []string, s domainInstance) string {
	if at := d(s); len(at) > len(under) {
		return at[len(under)]
	}
	return ""
}

// countTasks are the tasks in a child of the domain.
func (all domainInstances) countTasks(d dimension, under []string, name string) (n int) {
	for _, s := range all.below(d, under) {
		if childDomain(d, under, s) == name {
			n += s.tasks
		}
	}
	return n
}

// firstBranching is the first domain from the top that has several children with eligible instances; false where none has.
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

// countDomains is how many domains there are on the first level that has several, 0 where none has.
func (all domainInstances) countDomains(d dimension) int {
	if _, names, ok := all.firstBranching(d); ok {
		return len(names)
	}
	return 0
}

func (all domainInstances) onlyEligible() domainInstances {
	return slices.DeleteFunc(slices.Clone(all), func(s domainInstance) bool { return !s.eligible })
}

// shareFaultDomains reports that fault domains matter: two instances have the same at the top.
func (all domainInstances) shareFaultDomains() bool {
	tops := map[string]bool{}
	for _, s := range all {
		tops[s.fault[0]] = true
	}
	return len(tops) < len(all)
}

// shareUpgradeDomains reports that upgrade domains matter: one has two instances that take tasks.
func (all domainInstances) shareUpgradeDomains() bool {
	seen := map[string]bool{}
	for _, s := range all {
		if s.acceptsTasks && seen[s.upgrade] {
			return true
		}
		seen[s.upgrade] = seen[s.upgrade] || s.acceptsTasks
	}
	return false
}

// rulesOf are what the policy asks for in both dimensions.
func (all domainInstances) rulesOf(policy cluster.DomainPolicy, target int, c *cluster.Configuration) (fault, upgrade domainRule) {
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

// targetDivides is the choice of adaptive (P5).
func (all domainInstances) targetDivides(target int) bool {
	f, u := all.countDomains(byFaultDomain), all.countDomains(byUpgradeDomain)
	return all.shareFaultDomains() && target > 0 && f > 0 && u > 0 && target%f == 0 && target%u == 0 && len(all.onlyEligible()) <= f*u
}

// quorumRule is P4: a domain may have what is beyond the majority, one at least, and one more where that is too little for all.
func (all domainInstances) quorumRule(d dimension, target int) domainRule {
	under, names, ok := all.firstBranching(d)
	if !ok {
		return domainRule{} // no level has several
	}
	limit := max(target-(target/2+1), 1)
	if len(names)*limit < target {
		limit++
	}
	return domainRule{limit: limit, under: under}
}

// admitsTask reports whether a new task may go to the site.
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

// countLevels is how many levels there are.
func (all domainInstances) countLevels(d dimension) (n int) {
	for _, s := range all {
		n = max(n, len(d(s)))
	}
	return n
}

// breaksRule reports whether the tasks where they are break the plan.
func (all domainInstances) breaksRule(p domainRule, d dimension) bool {
	if p.limit > 0 {
		return all.exceedsLimit(p, d)
	}
	return p.difference && all.isUneven(d, nil)
}

func (all domainInstances) exceedsLimit(p domainRule, d dimension) bool {
	for _, s := range all.below(d, p.under) {
		if s.tasks > 0 && all.countTasks(d, p.under, childDomain(d, p.under, s)) > p.limit {
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
