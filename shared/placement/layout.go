package placement

import (
	"fmt"
	"strings"

	"berth/shared/snapshot"
)

// blockSize is how many instances are looked at one by one to find the best of a block; above the blocks there is a
// tree.
const blockSize = 16

// layout divides the instances into regions: those of one region have the same values of the attributes that tasks are
// spread over, and where domain rules hold the same fault and upgrade domain, so that whatever is counted by group is
// the same for all of them. In a region each instance has a slot, the slots lie in blocks.
type layout struct {
	key        string
	attributes []string
	byDomain   bool
	crowded    bool // some upgrade domain holds two instances: else they set no rule

	groups  [][]int32 // per level and instance: the group, -1 for none
	names   []map[string]int32
	region  []int32 // per instance, -1 for none
	seats   []seat  // per instance
	members []int32 // per slot, -1 for a free one
	regions []region
	roots   []int32 // of the regions' trees
	index   map[regionKey]int32
	nodes   int // of the trees of all regions
	rev     int // counts the times it was made
	spreads []*spread
}

// seat is where an instance is: its slot, -1 for none, and the node of its block in the tree of its region.
type seat struct{ slot, tree, node int32 }

type regionKey struct {
	group          int32 // of the last level
	fault, upgrade string
}

// region is a part of the slots, and of the nodes of a class's tree.
type region struct {
	groups []int32 // per level
	from   int32   // first slot
	used   int32   // slots
	blocks int32
	width  int32 // of the tree's lowest row: blocks, rounded up to a power of two
	tree   int32 // first node; the root is the one after it
}

func (r *region) root() int32 { return r.tree + 1 }

// node is the node of the block that a slot of the region lies in.
func (r *region) node(slot int32) int32 { return r.width + (slot-r.from)/blockSize }

// layoutOf is the layout by the attributes and, where asked, by fault and upgrade domain, made where there is none yet.
func (e *Engine) layoutOf(attributes []string, domains bool) *layout {
	key := fmt.Sprint(domains, strings.Join(attributes, "\x00"))
	l := e.layouts[key]
	if l == nil {
		l = &layout{key: key, attributes: attributes, byDomain: domains}
		l.make(&e.columns)
		e.layouts[key] = l
	}
	return l
}

// make divides all instances anew.
func (l *layout) make(c *columns) {
	n := len(c.views)
	l.groups, l.names = make([][]int32, len(l.attributes)), make([]map[string]int32, len(l.attributes))
	for level := range l.groups {
		l.groups[level], l.names[level] = filled(n), map[string]int32{}
	}
	l.region, l.seats, l.regions, l.index = filled(n), l.seats[:0], nil, map[regionKey]int32{}
	l.grow(n)
	l.crowded = l.byDomain && c.sharesUpgradeDomain()
	for i, v := range c.views {
		if c.listed[i] {
			l.region[i] = l.join(i, v)
			l.regions[l.region[i]].used++
		}
	}
	l.lay()
	for i, r := range l.region {
		if r >= 0 {
			l.settle(i)
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
		l.regions = append(l.regions, region{})
		for level := range l.groups {
			l.regions[r].groups = append(l.regions[r].groups, l.groups[level][i])
		}
	}
	return r
}

// lay gives each region its slots, a quarter more than it needs, and its nodes.
func (l *layout) lay() {
	slots, nodes := int32(0), int32(0)
	l.roots = l.roots[:0]
	for at := range l.regions {
		r := &l.regions[at]
		r.blocks = (r.used + r.used/4 + blockSize) / blockSize
		for r.width = 1; r.width < r.blocks; r.width *= 2 {
		}
		r.from, r.tree, r.used = slots, nodes, 0
		slots += r.blocks * blockSize
		nodes += 2 * r.width
		l.roots = append(l.roots, r.root())
	}
	l.members, l.nodes = filled(int(slots)), int(nodes)
}

// settle gives the instance the next slot of its region.
func (l *layout) settle(i int) {
	r := &l.regions[l.region[i]]
	slot := r.from + r.used
	l.seats[i] = seat{slot, r.tree, r.node(slot)}
	l.members[slot] = int32(i)
	r.used++
}

// follow takes in that the instance's row changed. An instance that leaves keeps its slot, where trees still have it. One
// that now belongs elsewhere, or to a region that is full or new, has the layout made anew.
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
	r := &l.regions[at]
	if len(l.regions) > known || r.used == r.blocks*blockSize {
		return false
	}
	l.region[i] = at
	l.settle(i)
	return true
}

func (l *layout) grow(n int) {
	for len(l.region) < n {
		l.region = append(l.region, -1)
		for level := range l.groups {
			l.groups[level] = append(l.groups[level], -1)
		}
	}
	for len(l.seats) < n {
		l.seats = append(l.seats, seat{slot: -1})
	}
}

// filled is n times -1.
func filled(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = -1
	}
	return out
}
