package placement

import (
	"fmt"
	"slices"
	"strings"

	"berth/shared/snapshot"
)

// layout divides the instances into regions: those of one region have the same values of the
// attributes that tasks are spread over, and where domain rules hold the same fault and upgrade
// domain, so that whatever is counted by group is the same for all of them.
type layout struct {
	key        string
	attributes []string
	byDomain   bool
	crowded    bool // some upgrade domain holds two instances: else they set no rule

	groups  [][]int32 // per level and instance: the group, -1 for none
	names   []map[string]int32
	region  []int32 // per instance, -1 for none
	regions []region
	all     []int32 // the numbers of all regions
	index   map[regionKey]int32
	rev     int // counts the times it was made
	spreads []*spread
}

type regionKey struct {
	group          int32 // of the last level
	fault, upgrade string
}

// region is the instances that agree in all groups and domains of a layout.
type region struct {
	groups []int32 // per level
}

// layoutFor is the layout by the attributes and, where asked, by fault and upgrade domain, made
// where there is none yet.
func layoutFor(e *Engine, attributes []string, domains bool) *layout {
	key := fmt.Sprint(domains, strings.Join(attributes, "\x00"))
	l := e.kept.layouts[key]
	if l == nil {
		l = &layout{key: key, attributes: attributes, byDomain: domains}
		l.make(&e.columns)
		e.kept.layouts[key] = l
	}
	return l
}

// make divides all instances anew.
func (l *layout) make(c *columns) {
	n := len(c.views)
	l.groups, l.names = make([][]int32, len(l.attributes)), make([]map[string]int32, len(l.attributes))
	for level := range l.groups {
		l.groups[level], l.names[level] = slices.Repeat([]int32{-1}, n), map[string]int32{}
	}
	l.region, l.regions, l.all, l.index = slices.Repeat([]int32{-1}, n), nil, nil, map[regionKey]int32{}
	l.grow(n)
	l.crowded = l.byDomain && c.sharesUpgradeDomain()
	for i, v := range c.views {
		if c.listed[i] {
			l.region[i] = l.join(i, v)
		}
	}
	l.rev++
	for _, s := range l.spreads {
		s.recount()
	}
}

// sharesUpgradeDomain reports whether any two instances have the same upgrade domain.
func (c *columns) sharesUpgradeDomain() bool {
	seen := map[string]bool{}
	for i, v := range c.views {
		if !c.listed[i] {
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

// join finds the groups of the instance and its region, a new one if need be.
func (l *layout) join(i int, v *snapshot.InstanceView) int32 {
	key := regionKey{group: -1}
	path := ""
	for level, name := range l.attributes {
		value, ok := v.Attributes[name]
		if !ok {
			value = "\x01" // no value is this: those without the attribute are a group of their own
		}
		path += value + "\x00"
		g, known := l.names[level][path]
		if !known {
			g = int32(len(l.names[level]))
			l.names[level][path] = g
		}
		l.groups[level][i], key.group = g, g
	}
	if l.byDomain {
		if key.fault = v.FaultDomain(); l.crowded {
			key.upgrade = v.UpgradeDomain()
		}
	}
	r, known := l.index[key]
	if !known {
		r = int32(len(l.regions))
		l.index[key] = r
		l.regions, l.all = append(l.regions, region{}), append(l.all, r)
		for level := range l.groups {
			l.regions[r].groups = append(l.regions[r].groups, l.groups[level][i])
		}
	}
	return r
}

// follow takes in that the instance's row changed. An instance that leaves keeps its region. One
// that now belongs elsewhere, or to a new region, has the layout made anew.
func (l *layout) follow(i int, c *columns) {
	l.grow(len(c.views))
	for _, s := range l.spreads {
		s.add(i, -int64(s.tally.active[int32(i)]))
	}
	for level := range l.groups {
		l.groups[level][i] = -1
	}
	if l.byDomain || c.listed[i] && !l.admit(i, c.views[i]) {
		l.make(c)
		return
	}
	for _, s := range l.spreads {
		s.add(i, int64(s.tally.active[int32(i)]))
	}
}

func (l *layout) admit(i int, v *snapshot.InstanceView) bool {
	known := len(l.regions)
	at := l.join(i, v)
	if old := l.region[i]; old >= 0 {
		return at == old
	}
	if len(l.regions) > known {
		return false
	}
	l.region[i] = at
	return true
}

func (l *layout) grow(n int) {
	for len(l.region) < n {
		l.region = append(l.region, -1)
		for level := range l.groups {
			l.groups[level] = append(l.groups[level], -1)
		}
	}
}
