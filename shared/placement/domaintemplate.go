package placement

import (
	"slices"

	"berth/shared/placement/domain"
)

// A domainTemplate has the domains of the instances that match a spec, without tasks. Choosers that
// match the same instances share it: each copies it and adds its own tasks. Constraints count even
// if a request relaxes them: the service's domains remain those of the instances that satisfy them.
type domainTemplate struct {
	engine          *Engine
	matcher         *matcher
	standings       []domain.Standing
	empty           *domain.Domains
	regionMap       *regionMap
	regionsRevision int
	regionDomains   []regionDomain // of the region map's regions
	// regionsByFault and regionsByUpgrade list the regions in each domain, numbered as in
	// [regionDomain].
	regionsByFault, regionsByUpgrade [][]int32
	logPosition                      uint64 // in the change log
	stale                            bool   // must be rebuilt
	revision                         int    // counts the rebuilds
}

// A regionDomain has 1 + the numbers of a region's fault domain and upgrade domain; 0 for none.
type regionDomain struct{ fault, upgrade int32 }

func domainTemplateFor(e *Engine, m *matcher, regions *regionMap) *domainTemplate {
	key := m.key + "\x02" + regions.key
	t := e.caches.templates[key]
	if t == nil {
		t = &domainTemplate{engine: e, matcher: m, regionMap: regions, stale: true}
		e.caches.templates[key] = t
	}
	return t
}

// followChanges rebuilds the template if the standing of an instance has changed. A change of a row
// has changed the revision of the regions: those by domain are rebuilt each time. An instance that
// came and went since the last call has no row any more, but a place among the others.
func (t *domainTemplate) followChanges() {
	n := len(t.engine.views)
	if !t.stale && t.regionsRevision == t.regionMap.revision && len(t.standings) == n &&
		t.engine.changes.coversChangesSince(t.logPosition, n) {
		for ; t.logPosition < t.engine.changes.end; t.logPosition++ {
			if i, last := t.engine.changes.changedInstanceAt(t.logPosition); last && len(t.matcher.dynamic) > 0 &&
				t.standingOf(int(i)) != t.standings[i] {
				t.stale = true
			}
		}
		if !t.stale {
			return
		}
	}
	t.rebuildDomains()
}

func (t *domainTemplate) rebuildDomains() {
	t.standings = make([]domain.Standing, len(t.engine.views))
	for i := range t.engine.views {
		t.standings[i] = t.standingOf(i)
	}
	t.empty = t.buildDomains(t.standings)
	t.regionDomains = make([]regionDomain, len(t.regionMap.regions))
	for i := range t.engine.views {
		if r := t.regionMap.regionOf[i]; r >= 0 && t.engine.inCluster[i] {
			fault, upgrade := t.empty.LowestDomains(i)
			t.regionDomains[r] = regionDomain{1 + fault, 1 + upgrade}
		}
	}
	faults, upgrades := t.empty.DomainCounts()
	t.regionsByFault, t.regionsByUpgrade = make([][]int32, 1+faults), make([][]int32, 1+upgrades)
	for r, at := range t.regionDomains {
		t.regionsByFault[at.fault] = append(t.regionsByFault[at.fault], int32(r))
		t.regionsByUpgrade[at.upgrade] = append(t.regionsByUpgrade[at.upgrade], int32(r))
	}
	t.logPosition, t.stale, t.regionsRevision = t.engine.changes.end, false, t.regionMap.revision
	t.revision++
}

// buildDomains returns the domains of instances with these standings, without rule and tasks.
func (t *domainTemplate) buildDomains(standings []domain.Standing) *domain.Domains {
	n := len(t.engine.views)
	fault, upgrade := make([]string, n), make([]string, n)
	for i, v := range t.engine.views {
		if t.engine.inCluster[i] {
			fault[i], upgrade[i] = v.FaultDomain(), v.UpgradeDomain()
		}
	}
	return domain.NewDomains(fault, upgrade, standings, domain.Rule{})
}

// standingOf returns what the instance is to the domains.
func (t *domainTemplate) standingOf(i int) domain.Standing {
	switch {
	case !t.engine.inCluster[i]:
		return domain.NotInCluster
	case !t.engine.usages[i].takesTasks:
		return domain.Unavailable
	case !t.matcher.matchesInstance(i):
		return domain.Ineligible
	}
	return domain.Eligible
}

// newDomains returns a copy of the domains under a rule, with the owner's tasks.
func (t *domainTemplate) newDomains(rule domain.Rule, tasks *ownerCounts) *domain.Domains {
	return withTasks(t.empty.WithoutTasks(rule), tasks)
}

// newDomainsWithClosed is newDomains with the instances marked in closed ineligible.
func (t *domainTemplate) newDomainsWithClosed(closed []bool, rule domain.Rule, tasks *ownerCounts) *domain.Domains {
	standings := slices.Clone(t.standings)
	for i := range min(len(standings), len(closed)) {
		if closed[i] && standings[i] == domain.Eligible {
			standings[i] = domain.Ineligible
		}
	}
	return withTasks(t.buildDomains(standings).WithoutTasks(rule), tasks)
}

// withTasks adds the owner's tasks to domains without tasks.
func withTasks(d *domain.Domains, tasks *ownerCounts) *domain.Domains {
	for i, n := range tasks.active.All() {
		d.AddTasks(int(i), int(n))
	}
	return d
}
