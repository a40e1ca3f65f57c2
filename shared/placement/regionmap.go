package placement

import (
	"fmt"
	"slices"
	"strings"

	"berth/shared/snapshot"
)

// A regionMap divides the instances into regions. Instances of a region have the same values of the
// attributes that tasks are spread over and, under domain rules, the same fault and upgrade domain.
// What is counted by zone or by domain is therefore equal within a region, and an index needs
// to order each region's instances only once. Without domain rules they are of the same class, too:
// a search passes over regions that do not match the tasks, see [instanceClasses].
type regionMap struct {
	key        string
	attributes []string
	byDomain   bool // regions also differ by domains
	// sharedUpgrades: some upgrade domain has two instances. Otherwise upgrade domains set no rule.
	sharedUpgrades bool

	// groupOf has, per level and instance, the group: -1 for none. Levels nest: with spread over
	// zone and rack, level 1 has a group for each pair.
	groupOf     [][]int32
	groupIndex  []map[string]int32
	regionOf    []int32 // per instance, -1 for none
	regions     []region
	allRegions  []int32 // the numbers of all regions
	regionIndex map[regionKey]int32
	revision    int // counts the rebuilds
	// classesRevision is that of the engine's classes when the regions were built.
	classesRevision int
	groupCounts     []*groupCounts
}

// A regionKey tells regions apart. The group of the last level implies those of the levels before
// it.
type regionKey struct {
	group          int32 // of the last level
	class          uint64
	fault, upgrade string
}

// A region is the instances that agree in all groups and domains.
type region struct {
	groups []int32 // per level
	class  uint64
}

// regionMapFor returns the region map by the attributes and, if asked, by domains.
func regionMapFor(e *Engine, attributes []string, domains bool) *regionMap {
	key := fmt.Sprint(domains, strings.Join(attributes, "\x00"))
	m := e.caches.regionMaps[key]
	if m == nil {
		m = &regionMap{key: key, attributes: attributes, byDomain: domains}
		m.rebuildRegions(&e.columns)
		e.caches.regionMaps[key] = m
	}
	return m
}

// followClasses divides the instances again if the classes are others.
func (m *regionMap) followClasses(c *columns) {
	if !m.byDomain && m.classesRevision != c.classes.revision {
		m.rebuildRegions(c)
	}
}

// rebuildRegions divides all instances again.
func (m *regionMap) rebuildRegions(c *columns) {
	n := len(c.views)
	m.groupOf, m.groupIndex = make([][]int32, len(m.attributes)), make([]map[string]int32, len(m.attributes))
	for level := range m.groupOf {
		m.groupOf[level], m.groupIndex[level] = slices.Repeat([]int32{-1}, n), map[string]int32{}
	}
	m.regionOf = slices.Repeat([]int32{-1}, n)
	m.regions, m.allRegions, m.regionIndex = nil, nil, map[regionKey]int32{}
	m.sharedUpgrades = m.byDomain && c.sharesUpgradeDomain()
	for i, v := range c.views {
		if c.inCluster[i] {
			m.regionOf[i] = m.findOrAddRegion(i, v, c)
		}
	}
	m.revision++
	m.classesRevision = c.classes.revision
	for _, groups := range m.groupCounts {
		groups.recountAll()
	}
}

// sharesUpgradeDomain reports whether two instances have the same upgrade domain.
func (c *columns) sharesUpgradeDomain() bool {
	seen := map[string]bool{}
	for i, v := range c.views {
		if !c.inCluster[i] {
			continue
		}
		d := v.UpgradeDomain()
		if seen[d] {
			return true
		}
		seen[d] = true
	}
	return false
}

// findOrAddRegion records the groups of the instance and returns its region.
func (m *regionMap) findOrAddRegion(i int, v *snapshot.InstanceView, c *columns) int32 {
	key := regionKey{group: -1, class: anyClass}
	path := ""
	for level, name := range m.attributes {
		value, ok := v.Attributes[name]
		if !ok {
			value = "\x01" // no attribute has this value: instances without it form a group
		}
		path += value + "\x00"
		g, known := m.groupIndex[level][path]
		if !known {
			g = int32(len(m.groupIndex[level]))
			m.groupIndex[level][path] = g
		}
		m.groupOf[level][i], key.group = g, g
	}
	if m.byDomain {
		if key.fault = v.FaultDomain(); m.sharedUpgrades {
			key.upgrade = v.UpgradeDomain()
		}
	} else {
		key.class = c.classes.of[i]
	}
	r, known := m.regionIndex[key]
	if !known {
		r = int32(len(m.regions))
		m.regionIndex[key] = r
		m.regions, m.allRegions = append(m.regions, region{class: key.class}), append(m.allRegions, r)
		for level := range m.groupOf {
			m.regions[r].groups = append(m.regions[r].groups, m.groupOf[level][i])
		}
	}
	return r
}

// updateInstance applies a change of the instance's row. An instance that leaves keeps its region.
// If one belongs to another region, or to a new one, all regions are rebuilt.
func (m *regionMap) updateInstance(i int, c *columns) {
	m.growRegions(len(c.views))
	for _, groups := range m.groupCounts {
		groups.addTasksOn(i, -int64(groups.owner.active.Of(int32(i))))
	}
	for level := range m.groupOf {
		m.groupOf[level][i] = -1
	}
	if m.byDomain || c.inCluster[i] && !m.assignExisting(i, c) {
		m.rebuildRegions(c)
		return
	}
	for _, groups := range m.groupCounts {
		groups.addTasksOn(i, int64(groups.owner.active.Of(int32(i))))
	}
}

// assignExisting reports whether the instance is still in its region, or joined an existing one.
func (m *regionMap) assignExisting(i int, c *columns) bool {
	known := len(m.regions)
	at := m.findOrAddRegion(i, c.views[i], c)
	if old := m.regionOf[i]; old >= 0 {
		return at == old
	}
	if len(m.regions) > known {
		return false
	}
	m.regionOf[i] = at
	return true
}

func (m *regionMap) growRegions(n int) {
	for len(m.regionOf) < n {
		m.regionOf = append(m.regionOf, -1)
		for level := range m.groupOf {
			m.groupOf[level] = append(m.groupOf[level], -1)
		}
	}
}

// instanceClasses tell instances apart by which static masks they pass. Where a mask leaves out many
// instances, these would stand in the way of a search: they often have the most room, as the tasks
// with that mask cannot use it. So regions differ by class, and a search passes over those whose
// class the mask rules out.
type instanceClasses struct {
	of       []uint64 // per instance, a bit for each mask that it passes; see [staticMask.classBit]
	used     uint64   // bits that some mask has
	revision int      // changes with the meaning of the bits
}

const (
	// anyClass has the bits of all masks.
	anyClass = ^uint64(0)
	// maxClasses is the most classes to which a new mask may lead. A search compares the first
	// instances of all regions, and there are up to as many regions as classes in each zone.
	maxClasses = 16
	// excludedShare is the least part (1 in excludedShare) of the instances that a mask must leave out
	// to get a bit.
	excludedShare = 8
)

// addMask gives the mask a bit if that is of use.
func (c *instanceClasses) addMask(m *staticMask) {
	bit := (c.used + 1) &^ c.used
	if bit == 0 { // all are taken
		return
	}
	classes, excluded := map[uint64]bool{}, 0
	for i, passes := range m.passes {
		class := c.of[i]
		if passes {
			class |= bit
		} else {
			excluded++
		}
		if classes[class] = true; len(classes) > maxClasses {
			return
		}
	}
	if excluded*excludedShare < len(m.passes) {
		return
	}
	m.classBit, c.used = bit, c.used|bit
	for i := range m.passes {
		c.updateInstance(m, i)
	}
	c.revision++
}

// updateInstance sets the class of an instance by whether it passes the mask.
func (c *instanceClasses) updateInstance(m *staticMask, i int) {
	if m.passes[i] {
		c.of[i] |= m.classBit
	} else {
		c.of[i] &^= m.classBit
	}
}

// keepMasks takes the bits of all other masks back.
func (c *instanceClasses) keepMasks(masks map[string]*staticMask) {
	kept := uint64(0)
	for _, m := range masks {
		kept |= m.classBit
	}
	if kept == c.used {
		return
	}
	for i := range c.of {
		c.of[i] &= kept
	}
	c.used = kept
	c.revision++
}
