package simulation

import (
	"slices"
	"strings"

	"berth/shared/cluster"
)

// The domain rules (P1–P6), as plainly as they can be put: every question counts anew, over all instances.

// site is an instance as the domains of one service see it.
type site struct {
	id      string
	fault   []string // "fd:/dc1/r0" is dc1, r0
	upgrade string
	// open takes tasks of somebody, eligible those of the service.
	open, eligible bool
	tasks          int // of the service, that count
}

func faultPath(name string) []string {
	return strings.FieldsFunc(strings.TrimPrefix(name, "fd:"), func(r rune) bool { return r == '/' })
}

// sites are all instances in the cluster with what a service has there.
type sites []site

// plan is what holds in one dimension: nothing, maximum difference at every level, or a limit per domain at one level.
type plan struct {
	difference bool
	limit      int      // 0 is none
	under      []string // the domain whose children the limit is for
}

// dimension is the domain of a site on every level, the topmost first.
type dimension func(site) []string

func faults(s site) []string { return s.fault }

func upgrades(s site) []string { return []string{s.upgrade} }

// within are the sites below the domain.
func (all sites) within(d dimension, under []string) sites {
	return slices.DeleteFunc(slices.Clone(all), func(s site) bool {
		at := d(s)
		return len(at) < len(under) || !slices.Equal(at[:len(under)], under)
	})
}

// children are the domains just below one, those with an eligible instance. A site that ends at the domain itself is in a
// child without a name.
func (all sites) children(d dimension, under []string) []string {
	var out []string
	for _, s := range all.within(d, under) {
		if name := child(d, under, s); s.eligible && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func child(d dimension, under []string, s site) string {
	if at := d(s); len(at) > len(under) {
		return at[len(under)]
	}
	return ""
}

// of are the tasks in a child of the domain.
func (all sites) of(d dimension, under []string, name string) (n int) {
	for _, s := range all.within(d, under) {
		if child(d, under, s) == name {
			n += s.tasks
		}
	}
	return n
}

// branching is the first domain from the top that has several children with eligible instances; false where none has.
func (all sites) branching(d dimension) (under []string, names []string, ok bool) {
	for range all.depth(d) {
		names = all.children(d, under)
		if len(names) != 1 || names[0] == "" {
			return under, names, len(names) > 1
		}
		under = append(slices.Clone(under), names[0])
	}
	return nil, nil, false
}

// count is how many domains there are on the first level that has several, 0 where none has.
func (all sites) count(d dimension) int {
	if _, names, ok := all.branching(d); ok {
		return len(names)
	}
	return 0
}

func (all sites) eligible() sites {
	return slices.DeleteFunc(slices.Clone(all), func(s site) bool { return !s.eligible })
}

// shared reports that fault domains matter: two instances have the same at the top.
func (all sites) shared() bool {
	tops := map[string]bool{}
	for _, s := range all {
		tops[s.fault[0]] = true
	}
	return len(tops) < len(all)
}

// crowded reports that upgrade domains matter: one has two instances that take tasks.
func (all sites) crowded() bool {
	seen := map[string]bool{}
	for _, s := range all {
		if s.open && seen[s.upgrade] {
			return true
		}
		seen[s.upgrade] = seen[s.upgrade] || s.open
	}
	return false
}

// plans are what the policy asks for in both dimensions.
func (all sites) plans(policy cluster.DomainPolicy, target int, c *cluster.Configuration) (fault, upgrade plan) {
	quorum := !c.NoSwitch && all.divides(target)
	adaptive := func(forced bool, d dimension) plan {
		if quorum || forced {
			return all.quorum(d, target)
		}
		return plan{difference: true}
	}
	switch policy {
	case cluster.PolicyDifference:
		fault, upgrade = plan{difference: true}, plan{difference: true}
	case cluster.PolicyQuorum:
		fault, upgrade = all.quorum(faults, target), all.quorum(upgrades, target)
	case cluster.PolicyAdaptive:
		fault, upgrade = adaptive(c.QuorumFault, faults), adaptive(c.QuorumUpgrade, upgrades)
	case cluster.PolicyNonpacking:
		fault, upgrade = plan{limit: 1}, adaptive(c.QuorumUpgrade, upgrades)
	case cluster.PolicyIgnore:
		upgrade = adaptive(c.QuorumUpgrade, upgrades)
	}
	if !all.shared() || c.Priorities.FaultDomain < 0 {
		fault = plan{}
	}
	if !all.crowded() || c.Priorities.UpgradeDomain < 0 {
		upgrade = plan{}
	}
	return fault, upgrade
}

// divides is the choice of adaptive (P5).
func (all sites) divides(target int) bool {
	f, u := all.count(faults), all.count(upgrades)
	return all.shared() && target > 0 && f > 0 && u > 0 && target%f == 0 && target%u == 0 && len(all.eligible()) <= f*u
}

// quorum is P4: a domain may have what is beyond the majority, one at least, and one more where that is too little for all.
func (all sites) quorum(d dimension, target int) plan {
	under, names, ok := all.branching(d)
	if !ok {
		return plan{} // no level has several
	}
	limit := max(target-(target/2+1), 1)
	if len(names)*limit < target {
		limit++
	}
	return plan{limit: limit, under: under}
}

// admits reports whether a new task may go to the site.
func (all sites) admits(p plan, d dimension, at site) bool {
	if p.limit > 0 {
		if len(p.under) > 0 && len(sites{at}.within(d, p.under)) == 0 {
			return true
		}
		return all.of(d, p.under, child(d, p.under, at)) < p.limit
	}
	if !p.difference {
		return true
	}
	path := d(at)
	for depth := range all.depth(d) {
		under := path[:min(depth, len(path))]
		names := all.children(d, under)
		if depth > len(path) || len(names) == 0 {
			return true
		}
		sum, lowest := 0, -1
		for _, name := range names {
			n := all.of(d, under, name)
			sum += n
			if lowest < 0 || n < lowest {
				lowest = n
			}
		}
		base, mine := sum/len(names), all.of(d, under, child(d, under, at))
		if mine > base || mine == base && lowest < base {
			return false
		}
	}
	return true
}

// depth is how many levels there are.
func (all sites) depth(d dimension) (n int) {
	for _, s := range all {
		n = max(n, len(d(s)))
	}
	return n
}

// broken reports whether the tasks where they are break the plan.
func (all sites) broken(p plan, d dimension) bool {
	if p.limit > 0 {
		return all.over(p, d)
	}
	return p.difference && all.uneven(d, nil)
}

func (all sites) over(p plan, d dimension) bool {
	for _, s := range all.within(d, p.under) {
		if s.tasks > 0 && all.of(d, p.under, child(d, p.under, s)) > p.limit {
			return true
		}
	}
	return false
}

func (all sites) uneven(d dimension, under []string) bool {
	names := all.children(d, under)
	sum := 0
	for _, name := range names {
		sum += all.of(d, under, name)
	}
	for _, name := range names {
		base, n := sum/len(names), all.of(d, under, name)
		if n < base || n > base+1 {
			return true
		}
		if name != "" && all.uneven(d, append(slices.Clone(under), name)) {
			return true
		}
	}
	return false
}
