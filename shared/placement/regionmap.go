package placement

import (
	"fmt"
	"slices"
	"strings"

	"berth/shared/snapshot"
)

// regionMap divides the instances into regions: those of one region have the same values of the
// attributes that tasks are spread over, and where domain rules hold the same fault and upgrade
// domain, so that whatever is counted by group is the same for all of them.
type regionMap struct {
	key            string
	attributes     []string
	byDomain       bool
	sharedUpgrades bool // some upgrade domain holds two instances: else they set no rule

	groupOf     [][]int32 // per level and instance: the group, -1 for none
	groupIndex  []map[string]int32
	regionOf    []int32 // per instance, -1 for none
	regions     []region
	allRegions  []int32 // the numbers of all regions
	regionIndex map[regionKey]int32
	revision    int // counts the times it was made
	groupCounts []*groupCounts
}

type regionKey struct {
	group          int32 // of the last level
	fault, upgrade string
}

// region is the instances that agree in all groups and domains of a layout.
type region struct {
	groups []int32 // per level
}

// regionMapFor is the layout by the attributes and, where asked, by fault and upgrade domain, made
// where there is none yet.
func regionMapFor(e *Engine, attributes []string, domains bool) *regionMap {
	key := fmt.Sprint(domains, strings.Join(attributes, "\x00"))
	regions := e.caches.regionMaps[key]
	if regions == nil {
		regions = &regionMap{key: key, attributes: attributes, byDomain: domains}
		regions.rebuildRegions(&e.columns)
		e.caches.regionMaps[key] = regions
	}
	return regions
}

// rebuildRegions divides all instances anew.
func (regions *regionMap) rebuildRegions(c *columns) {
	n := len(c.views)
	regions.groupOf, regions.groupIndex = make([][]int32, len(regions.attributes)),
		make([]map[string]int32, len(regions.attributes))
	for level := range regions.groupOf {
		regions.groupOf[level], regions.groupIndex[level] = slices.Repeat([]int32{-1}, n), map[string]int32{}
	}
	regions.regionOf, regions.regions, regions.allRegions, regions.regionIndex = slices.Repeat([]int32{-1}, n), nil,
		nil, map[regionKey]int32{}
	regions.growTo(n)
	regions.sharedUpgrades = regions.byDomain && c.sharesUpgradeDomain()
	for i, v := range c.views {
		if c.inCluster[i] {
			regions.regionOf[i] = regions.findOrAddRegion(i, v)
		}
	}
	regions.revision++
	for _, groups := range regions.groupCounts {
		groups.recountAll()
	}
}

// sharesUpgradeDomain reports whether any two instances have the same upgrade domain.
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

// findOrAddRegion finds the groups of the instance and its region, a new one if need be.
func (regions *regionMap) findOrAddRegion(i int, v *snapshot.InstanceView) int32 {
	key := regionKey{group: -1}
	path := ""
	for level, name := range regions.attributes {
		value, ok := v.Attributes[name]
		if !ok {
			value = "\x01" // no value is this: those without the attribute are a group of their own
		}
		path += value + "\x00"
		g, known := regions.groupIndex[level][path]
		if !known {
			g = int32(len(regions.groupIndex[level]))
			regions.groupIndex[level][path] = g
		}
		regions.groupOf[level][i], key.group = g, g
	}
	if regions.byDomain {
		if key.fault = v.FaultDomain(); regions.sharedUpgrades {
			key.upgrade = v.UpgradeDomain()
		}
	}
	r, known := regions.regionIndex[key]
	if !known {
		r = int32(len(regions.regions))
		regions.regionIndex[key] = r
		regions.regions, regions.allRegions = append(regions.regions, region{}), append(regions.allRegions, r)
		for level := range regions.groupOf {
			regions.regions[r].groups = append(regions.regions[r].groups, regions.groupOf[level][i])
		}
	}
	return r
}

// updateInstance takes in that the instance's row changed. An instance that leaves keeps its region. One
// that now belongs elsewhere, or to a new region, has the layout made anew.
func (regions *regionMap) updateInstance(i int, c *columns) {
	regions.growTo(len(c.views))
	for _, groups := range regions.groupCounts {
		groups.addTasks(i, -int64(groups.owner.active[int32(i)]))
	}
	for level := range regions.groupOf {
		regions.groupOf[level][i] = -1
	}
	if regions.byDomain || c.inCluster[i] && !regions.assignExisting(i, c.views[i]) {
		regions.rebuildRegions(c)
		return
	}
	for _, groups := range regions.groupCounts {
		groups.addTasks(i, int64(groups.owner.active[int32(i)]))
	}
}

func (regions *regionMap) assignExisting(i int, v *snapshot.InstanceView) bool {
	known := len(regions.regions)
	at := regions.findOrAddRegion(i, v)
	if old := regions.regionOf[i]; old >= 0 {
		return at == old
	}
	if len(regions.regions) > known {
		return false
	}
	regions.regionOf[i] = at
	return true
}

func (regions *regionMap) growTo(n int) {
	for len(regions.regionOf) < n {
		regions.regionOf = append(regions.regionOf, -1)
		for level := range regions.groupOf {
			regions.groupOf[level] = append(regions.groupOf[level], -1)
		}
	}
}
