package placement

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"berth/shared/placement/domain"
)

// CheckKept compares everything that the engine keeps between requests with what it would compute
// anew, and returns what differs.
func (e *Engine) CheckKept() error {
	e.Sync()
	fresh := New(e.snap)
	for _, check := range []func(*Engine, *Engine) error{
		checkColumns, checkIDLabels, checkOverlay, checkCounts, checkRegions, checkMatching, checkKeptDomains,
		checkIndexes,
	} {
		if err := check(e, fresh); err != nil {
			return err
		}
	}
	return nil
}

// checkColumns compares the columns with those of a new engine.
func checkColumns(e, fresh *Engine) error {
	metrics := len(e.metrics)
	row := func(c *columns, i int) string {
		text := fmt.Sprint(c.staticRevision[i], c.inCluster[i], c.usages[i].takesTasks, c.active[i], c.agentConnected[i],
			c.cordoned[i])
		if c.views[i] == nil {
			return text
		}
		text += fmt.Sprint(" ", c.idHash[i], c.usages[i])
		for m := range c.metrics[:metrics] {
			text += fmt.Sprint(" ", c.metrics[m][i])
		}
		return text
	}
	for _, m := range e.caches.masks {
		for i, passes := range m.passes {
			if m.classBit != 0 && passes != (e.classes.of[i]&m.classBit != 0) {
				return fmt.Errorf("instance %d is of class %b, and passes the mask of bit %b: %v", i, e.classes.of[i],
					m.classBit, passes)
			}
		}
	}
	for i, v := range e.views {
		if kept, want := row(&e.columns, i), row(&fresh.columns, i); v != fresh.views[i] || kept != want {
			return fmt.Errorf("columns of instance %d are %s, expected %s", i, kept, want)
		}
	}
	return nil
}

// checkIDLabels checks that labels are in the order of ids.
func checkIDLabels(e, _ *Engine) error {
	labelled := map[int32]bool{}
	for n, i := range e.byID {
		labelled[i] = true
		if n > 0 && (e.views[e.byID[n-1]].ID >= e.views[i].ID || e.idLabel[e.byID[n-1]] >= e.idLabel[i]) {
			return fmt.Errorf("instance %s has label %d, after %s with %d", e.views[i].ID, e.idLabel[i],
				e.views[e.byID[n-1]].ID, e.idLabel[e.byID[n-1]])
		}
	}
	for i, v := range e.views {
		if labelled[int32(i)] != (v != nil) {
			return fmt.Errorf("instance %d: whether it has a label is %v", i, labelled[int32(i)])
		}
	}
	return nil
}

// checkOverlay checks that nothing is left of the last call.
func checkOverlay(e, _ *Engine) error {
	o := &e.overlay
	for i := range o.views {
		if o.views[i] != nil || o.counts[i] != 0 {
			return fmt.Errorf("%d tasks are left on instance %d", o.counts[i], i)
		}
	}
	if n := len(o.touched) + len(o.indexes) + len(o.choosers) + len(e.heldBack) + len(e.changedRows); n > 0 {
		return fmt.Errorf("%d entries are left of a call", n)
	}
	return nil
}

// checkCounts compares the counts of owners' tasks with the snapshot's.
func checkCounts(e, _ *Engine) error {
	for key, counts := range e.caches.counts {
		spread, total := e.snap.SpreadOf(key.owner, key.group), int64(0)
		for i, v := range e.views {
			active, occupying := int32(0), int32(0)
			switch {
			case v != nil && key.deployment != "":
				active = int32(e.snap.Owner(key.owner).DeploymentTasksOn(v, key.deployment))
			case v != nil:
				active = int32(spread.TasksOn(v))
				occupying = active + int32(spread.EndingOn(v))
			}
			total += int64(active)
			if kept := counts.active.Of(int32(i)); kept != active || counts.dense != nil && counts.dense[i] != int64(active) {
				return fmt.Errorf("%v has %d tasks on instance %d, expected %d", key, kept, i, active)
			}
			if kept := counts.occupying.Of(int32(i)); counts.countsOccupying && kept != occupying {
				return fmt.Errorf("%v occupies instance %d with %d tasks, expected %d", key, i, kept, occupying)
			}
		}
		if counts.total != total {
			return fmt.Errorf("%v has %d tasks, expected %d", key, counts.total, total)
		}
		for _, groups := range counts.groupCounts {
			kept := fmt.Sprint(groups.counts)
			if groups.recountAll(); kept != fmt.Sprint(groups.counts) {
				return fmt.Errorf("%v by groups is %s, expected %v", key, kept, groups.counts)
			}
		}
	}
	return nil
}

// checkRegions checks that two instances share a region if and only if they agree in attributes and
// domains, or class.
func checkRegions(e, _ *Engine) error {
	for _, m := range e.caches.regionMaps {
		regions, names := map[string]int32{}, map[int32]string{}
		for i, v := range e.views {
			if !e.inCluster[i] {
				continue
			}
			text := ""
			for _, name := range m.attributes {
				value, has := v.Attributes[name]
				text += fmt.Sprintf("%q %v ", value, has)
			}
			if !m.byDomain && m.classesRevision == e.classes.revision { // others are divided again when they are used
				text += fmt.Sprint(" ", e.classes.of[i])
			} else if !m.byDomain {
				text += fmt.Sprint(" ", m.regions[m.regionOf[i]].class)
			}
			if m.byDomain {
				if text += v.FaultDomain(); m.sharedUpgrades {
					text += " " + v.UpgradeDomain()
				}
			}
			r := m.regionOf[i]
			if at, known := regions[text]; known && at != r || r < 0 || names[r] != "" && names[r] != text {
				return fmt.Errorf("instance %s with %s is in region %d of %s", v.ID, text, r, names[r])
			}
			regions[text], names[r] = r, text
			for level := range m.groupOf {
				if m.groupOf[level][i] != m.regions[r].groups[level] {
					return fmt.Errorf("instance %s is in group %d, its region in %d", v.ID, m.groupOf[level][i],
						m.regions[r].groups[level])
				}
			}
		}
		if m.sharedUpgrades != (m.byDomain && e.columns.sharesUpgradeDomain()) || len(m.allRegions) != len(m.regions) {
			return fmt.Errorf("%d of %d regions; upgrade domains are shared: %v", len(m.allRegions), len(m.regions),
				m.sharedUpgrades)
		}
	}
	return nil
}

// checkMatching evaluates constraints and masks again.
func checkMatching(e, _ *Engine) error {
	for text, column := range e.caches.constraints {
		column.followChanges(e)
		kept := slices.Clone(column.matches)
		if column.evaluateAll(e); !slices.Equal(kept, column.matches) {
			return fmt.Errorf("%q matches %v, expected %v", text, kept, column.matches)
		}
	}
	for key, m := range e.caches.masks {
		kept := slices.Clone(m.passes)
		for i := range e.views {
			m.updateInstance(e, i)
		}
		if !slices.Equal(kept, m.passes) {
			return fmt.Errorf("%q passes %v, expected %v", key, kept, m.passes)
		}
	}
	return nil
}

// checkKeptDomains compares the domains of choosers with new ones.
func checkKeptDomains(e, _ *Engine) error {
	for key, c := range e.caches.choosers {
		if c.domainTemplate == nil || c.domains == nil {
			continue
		}
		c.updateDomains(c.domainRule.Target)
		rebuilt := *c.domainTemplate
		rebuilt.rebuildDomains()
		if !slices.Equal(rebuilt.standings, c.domainTemplate.standings) {
			return fmt.Errorf("standings are %v, expected %v", c.domainTemplate.standings, rebuilt.standings)
		}
		if got, want := describeDomains(c.domains, len(e.views)),
			describeDomains(rebuilt.newDomains(c.domainRule, c.limited), len(e.views)); got != want {
			return fmt.Errorf("domains of %v are %s, expected %s", key.forSpec.Owner, got, want)
		}
		for r, at := range c.domainTemplate.regionDomains {
			if !slices.Contains(c.domainTemplate.regionsByFault[at.fault], int32(r)) ||
				!slices.Contains(c.domainTemplate.regionsByUpgrade[at.upgrade], int32(r)) {
				return fmt.Errorf("region %d is not in the lists of its domains", r)
			}
		}
	}
	return nil
}

func describeDomains(d *domain.Domains, instances int) string {
	var text strings.Builder
	fmt.Fprint(&text, d.FaultDomainCount(), " ", d.UpgradeDomainCount(), " ")
	fault, upgrade := d.Excess()
	fmt.Fprintln(&text, fault, upgrade)
	for i := range instances {
		fmt.Fprint(&text, d.AdmitsFault(d.FaultDomain(i)), d.AdmitsUpgrade(d.UpgradeDomain(i)), " ")
	}
	return text.String()
}

// checkIndexes brings all indexes up to date and checks their order and what they know of blocks.
func checkIndexes(e, _ *Engine) error {
	all := map[*sortedIndex]bool{}
	for _, x := range e.caches.indexes {
		all[x] = true
	}
	for _, c := range e.caches.choosers {
		if c.index != nil {
			all[c.index] = true
		}
	}
	for _, x := range slices.Collect(maps.Keys(all)) {
		if x.built {
			if x.followChanges(); len(x.dirty) > 0 {
				return fmt.Errorf("%d instances are to be checked again", len(x.dirty))
			}
			if err := x.checkOrder(); err != nil {
				return err
			}
		}
	}
	return nil
}

// orLimitless returns the maximum with the metrics that another one calls limitless. A limitless
// instance that leaves a block does not lower its maximum: the search then examines the block, no more.
func (m blockMaximum) orLimitless(known *blockMaximum) blockMaximum {
	for at, free := range known.metrics {
		if free == math.MaxInt32 {
			m.metrics[at] = math.MaxInt32
		}
	}
	return m
}

// checkOrder checks the runs of an index.
func (x *sortedIndex) checkOrder() error {
	listed := 0
	for region := range x.runs {
		r := &x.runs[region]
		last := int32(-1)
		top := leastMaximum
		for at, b := range r.blocks {
			if b.position != at || b.count == 0 || b.count > maxBlock {
				return fmt.Errorf("block %d of %d has %d instances", b.position, at, b.count)
			}
			most := leastMaximum
			for n, i := range b.instances[:b.count] {
				listed++
				if x.blocks[i] != b || x.regionMap.regionOf[i] != int32(region) || !x.engine.usages[i].takesTasks ||
					b.free[n] != x.freeResourcesOf(i) || b.ranks[n] != x.rankOf(i) || b.ports[n] != x.engine.usages[i].portBits ||
					last >= 0 && !x.ranksBefore(last, i) {
					return fmt.Errorf("instance %d is out of order after %d", i, last)
				}
				last = i
				most.raise(&b.free[n])
			}
			if r.firsts[at] != b.ranks[0] {
				return fmt.Errorf("a block begins with %v, expected %v", r.firsts[at], b.ranks[0])
			}
			if known := r.maxima[at]; !known.stale && known != most.orLimitless(&known) {
				return fmt.Errorf("a block has at most %+v, expected %+v", known, most)
			}
			if known := *r.maximumOf(at); known != most.orLimitless(&known) {
				return fmt.Errorf("a block has at most %+v, expected %+v", known, most)
			}
			kept := most.orLimitless(&r.maxima[at])
			if top.raise(&kept.freeResources); (at+1)%topSize == 0 || at+1 == len(r.blocks) {
				if known := r.tops[at/topSize]; !known.stale && known != top.orLimitless(&known) {
					return fmt.Errorf("blocks up to %d have at most %+v, expected %+v", at, known, top)
				}
				if known := *r.topOf(at / topSize); known != top.orLimitless(&known) {
					return fmt.Errorf("blocks up to %d have at most %+v, expected %+v", at, known, top)
				}
				top = leastMaximum
			}
			if at > 0 && r.blocks[at-1].count+b.count <= maxBlock/4 {
				return fmt.Errorf("neighbouring blocks have %d and %d instances", r.blocks[at-1].count, b.count)
			}
		}
		if len(r.firsts) != len(r.blocks) || len(r.maxima) != len(r.blocks) ||
			len(r.tops) != (len(r.blocks)+topSize-1)/topSize {
			return fmt.Errorf("%d blocks have %d ranks, %d and %d maxima", len(r.blocks), len(r.firsts), len(r.maxima),
				len(r.tops))
		}
		if x.heads[region] != r.firstInstance() {
			return fmt.Errorf("region %d begins with %v, expected %v", region, x.heads[region], r.firstInstance())
		}
	}
	qualified := 0
	for i := range x.engine.views {
		if x.qualifiesForIndex(i) {
			qualified++
		}
	}
	if listed != qualified {
		return fmt.Errorf("%d instances are listed, expected %d", listed, qualified)
	}
	return nil
}
