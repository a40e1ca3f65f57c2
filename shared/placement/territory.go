package placement

import "berth/shared/placement/domain"

// territory is the domains of the instances that meet a mask and constraints, given up or not,
// without tasks: all classes that ask for the same share it. Its layout has the regions by domain.
type territory struct {
	engine    *Engine
	members   *members
	standings []domain.Standing
	empty     *domain.Domains
	layout    *layout
	layoutRev int
	places    []place // of the layout's regions
	// byFault and byUpgrade are the regions in each domain, by [place].
	byFault, byUpgrade [][]int32
	at                 uint64 // of the log
	stale              bool   // to be made anew
	rev                int    // counts the times it was made
}

// place is a region's fault domain and upgrade domain after 1; 0 for none.
type place struct{ fault, upgrade int32 }

func territoryFor(e *Engine, m *members, l *layout) *territory {
	key := m.key + "\x02" + l.key
	t := e.kept.territories[key]
	if t == nil {
		t = &territory{engine: e, members: m, layout: l, stale: true}
		e.kept.territories[key] = t
	}
	return t
}

// follow brings the territory up to date: it is made anew where an instance's standing is another
// now.
func (t *territory) follow() {
	n := len(t.engine.views)
	if !t.stale && t.layoutRev == t.layout.rev && len(t.standings) == n && t.engine.log.since(t.at, n) {
		for ; t.at < t.engine.log.end; t.at++ {
			if i, last := t.engine.log.get(t.at); last && len(t.members.dynamic) > 0 &&
				t.standing(int(i)) != t.standings[i] {
				t.stale = true
			}
		}
		if !t.stale {
			return
		}
	}
	t.make()
}

func (t *territory) make() {
	n := len(t.engine.views)
	fault, upgrade := make([]string, n), make([]string, n)
	t.standings = make([]domain.Standing, n)
	for i, v := range t.engine.views {
		if t.standings[i] = t.standing(i); t.engine.listed[i] {
			fault[i], upgrade[i] = v.FaultDomain(), v.UpgradeDomain()
		}
	}
	t.empty = domain.NewDomains(fault, upgrade, t.standings, domain.Rule{})
	t.places = make([]place, len(t.layout.regions))
	for i := range t.engine.views {
		if r := t.layout.region[i]; r >= 0 && t.engine.listed[i] {
			fault, upgrade := t.empty.Leaf(i)
			t.places[r] = place{1 + fault, 1 + upgrade}
		}
	}
	faults, upgrades := t.empty.Sizes()
	t.byFault, t.byUpgrade = make([][]int32, 1+faults), make([][]int32, 1+upgrades)
	for r, at := range t.places {
		t.byFault[at.fault] = append(t.byFault[at.fault], int32(r))
		t.byUpgrade[at.upgrade] = append(t.byUpgrade[at.upgrade], int32(r))
	}
	t.at, t.stale, t.layoutRev = t.engine.log.end, false, t.layout.rev
	t.rev++
}

// standing is what the instance is to the domains.
func (t *territory) standing(i int) domain.Standing {
	switch {
	case !t.engine.listed[i]:
		return domain.Away
	case !t.engine.open[i]:
		return domain.Closed
	case !t.members.has(i):
		return domain.Barred
	}
	return domain.Eligible
}

// domains are the territory's under a rule, with the tasks of the tally.
func (t *territory) domains(rule domain.Rule, tasks *tally) *domain.Domains {
	d := t.empty.Empty(rule)
	for i, n := range tasks.active {
		d.Add(int(i), int(n))
	}
	return d
}
