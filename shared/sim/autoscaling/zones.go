package autoscaling

import (
	"cmp"
	"slices"
)

// isCounted reports whether the instance counts towards the desired capacity.
func (m *member) isCounted() bool { return m.Lifecycle == pending || m.Lifecycle == inService }

// countByZone returns how many instances that count towards the capacity are in each zone.
func (g *group) countByZone() map[string]int {
	count := map[string]int{}
	for k := range g.Members {
		if g.Members[k].isCounted() {
			count[g.Members[k].Zone]++
		}
	}
	return count
}

// zonesByNeed returns the group's zones, those with the fewest instances first. Equal ones keep the
// group's order.
func (e *scaler) zonesByNeed(g *group) []string {
	count := g.countByZone()
	zones := slices.Clone(g.Machine.ZonesIn(e.kernel.Account.Region))
	slices.SortStableFunc(zones, func(a, b string) int { return count[a] - count[b] })
	return zones
}

// chooseScaleInMember returns the instance that scale-in terminates: in the zone with the most
// instances one of an outdated launch template version, and of these the oldest. It returns nil if
// all are protected (Auto Scaling, default termination policy). Example: with a, a, b in use and
// one of zone a protected, the other one of zone a goes, even if that of zone b is older.
func (e *scaler) chooseScaleInMember(g *group) (best *member) {
	count := g.countByZone()
	current := ""
	if plan, err := e.planLaunch(g, g.Template); err == nil {
		current = plan.template
	}
	newer := func(m *member) int {
		if m.Template == current {
			return 1
		}
		return 0
	}
	for k := range g.Members {
		m := &g.Members[k]
		if !m.isCounted() || m.Protected {
			continue
		}
		if best == nil || cmp.Or(count[best.Zone]-count[m.Zone], newer(m)-newer(best),
			m.LaunchedAt.Compare(best.LaunchedAt)) < 0 {
			best = m
		}
	}
	return best
}
