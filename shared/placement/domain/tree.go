package domain

import (
	"slices"
	"strings"
)

// domainRule is what holds for the domains of one dimension.
type domainRule uint8

const (
	ruleNone domainRule = iota
	ruleDifference
	ruleQuorum
	ruleNonpacking
)

// domainTree is one dimension: a tree of domains whose leaves are all equally deep. The root is
// node 0, and a parent comes before its children.
type domainTree struct {
	leafOf []int32 // per instance, -1 none
	nodeOf []int32 // per leaf
	nodes  []domain
	// crowded: some leaf holds two instances that take tasks.
	sharedLeaf bool

	rule  domainRule
	limit int32 // quorum, nonpacking: tasks per unit
	// unitOf is per leaf the node that the limit is for; -1 none.
	unitOf []int32
	excess int32
}

// domain is a node with what its live children, those with eligible instances, have.
type domain struct {
	parent       int32
	eligible     int32 // eligible instances
	tasks        int32
	liveChildren int32 // live children
	lastLive     int32 // one of them

	// Under maximum difference: base is the floor of tasks per live child, by is how many of these
	// have how many tasks; below of them have less than base, under too few in all; above have more
	// than base+1, over too many.
	childTasks   int32
	base         int32
	childrenWith []int32
	below, under int32
	above, over  int32
}

// faultPath splits "fd:/dc1/r0".
func faultPath(name string) []string {
	return strings.FieldsFunc(strings.TrimPrefix(name, "fd:"), func(r rune) bool { return r == '/' })
}

// buildTree makes the tree of those that have a name and are not away. A branch that is less deep than
// others goes on with domains without a name, one child each.
func (t *domainTree) buildTree(names []string, standing []Standing, path func(string) []string) {
	t.leafOf = make([]int32, len(names))
	index := map[string]int32{}
	var paths [][]string
	depth := 0
	for i, name := range names {
		t.leafOf[i] = -1
		if name == "" || standing[i] == NotInCluster {
			continue
		}
		at, ok := index[name]
		if !ok {
			at = int32(len(paths))
			index[name] = at
			paths = append(paths, path(name))
			depth = max(depth, len(paths[at]))
		}
		t.leafOf[i] = at
	}
	leaves := t.growNodes(paths, depth)
	for i, at := range t.leafOf {
		if at >= 0 {
			t.leafOf[i] = leaves[at]
		}
	}
	t.countInstances(standing)
}

// growNodes makes the nodes of all paths, and is the leaf of each: several names may mean the same.
func (t *domainTree) growNodes(paths [][]string, depth int) []int32 {
	t.nodes = []domain{{parent: -1}}
	children := map[edge]int32{}
	leafAt := map[int32]int32{}
	leaves := make([]int32, len(paths))
	for i, path := range paths {
		node := t.findOrAddNode(children, path, depth)
		leaf, ok := leafAt[node]
		if !ok {
			leaf = int32(len(t.nodeOf))
			leafAt[node] = leaf
			t.nodeOf = append(t.nodeOf, node)
		}
		leaves[i] = leaf
	}
	return leaves
}

type edge struct {
	parent int32
	name   string
}

// findOrAddNode is the node at the end of the path, made where it was not there yet.
func (t *domainTree) findOrAddNode(children map[edge]int32, path []string, depth int) int32 {
	node := int32(0)
	for level := range depth {
		step := edge{parent: node}
		if level < len(path) {
			step.name = path[level]
		}
		next, ok := children[step]
		if !ok {
			next = int32(len(t.nodes))
			t.nodes = append(t.nodes, domain{parent: node})
			children[step] = next
		}
		node = next
	}
	return node
}

// countInstances counts the eligible instances.
func (t *domainTree) countInstances(standing []Standing) {
	open := make([]int32, len(t.nodeOf))
	for i, leaf := range t.leafOf {
		if leaf < 0 {
			continue
		}
		if standing[i] >= Ineligible {
			open[leaf]++
			t.sharedLeaf = t.sharedLeaf || open[leaf] > 1
		}
		if standing[i] == Eligible {
			t.nodes[t.nodeOf[leaf]].eligible++
		}
	}
	for v := len(t.nodes) - 1; v > 0; v-- {
		if n := &t.nodes[v]; n.eligible > 0 {
			p := &t.nodes[n.parent]
			p.eligible += n.eligible
			p.liveChildren++
			p.lastLive = int32(v)
		}
	}
}

// sharesTopDomain reports whether two instances have the same domain at the top.
func (t *domainTree) sharesTopDomain() bool {
	instances, tops := 0, 0
	for _, leaf := range t.leafOf {
		if leaf >= 0 {
			instances++
		}
	}
	for v := 1; v < len(t.nodes); v++ {
		if t.nodes[v].parent == 0 {
			tops++
		}
	}
	return tops < instances
}

// branchNode is the first node with more than one live child, -1 if there is none.
func (t *domainTree) branchNode() int32 {
	if len(t.nodes) == 0 {
		return -1
	}
	v := int32(0)
	for t.nodes[v].liveChildren == 1 {
		v = t.nodes[v].lastLive
	}
	if t.nodes[v].liveChildren == 0 {
		return -1
	}
	return v
}

// branchCount is how many domains there are on the first level that has several; 0 where none has.
func (t *domainTree) branchCount() int {
	if v := t.branchNode(); v >= 0 {
		return int(t.nodes[v].liveChildren)
	}
	return 0
}

// eligibleCount is how many eligible instances there are.
func (t *domainTree) eligibleCount() int {
	if len(t.nodes) == 0 {
		return 0
	}
	return int(t.nodes[0].eligible)
}

func (t *domainTree) domainCount() int {
	if t.rule == ruleNone {
		return 0
	}
	return len(t.nodeOf)
}

func (t *domainTree) ruledLeaf(i int) int {
	if t.rule == ruleNone || len(t.leafOf) == 0 {
		return -1
	}
	return int(t.leafOf[i])
}

// lacksEligible reports whether the instance's domain has no eligible instance.
func (t *domainTree) lacksEligible(i int) bool {
	leaf := t.ruledLeaf(i)
	return leaf >= 0 && t.nodes[t.nodeOf[leaf]].eligible == 0
}

// withoutTasks returns the tree without its tasks.
func (t *domainTree) withoutTasks() domainTree {
	out := *t
	out.nodes = slices.Clone(t.nodes)
	for v := range out.nodes {
		out.nodes[v].tasks, out.nodes[v].childrenWith = 0, nil
	}
	return out
}

// lowestDomain returns the lowest domain of the instance, -1 for none.
func (t *domainTree) lowestDomain(i int) int32 {
	if len(t.leafOf) == 0 {
		return -1
	}
	return t.leafOf[i]
}

// limitUnit returns the domain that the limit counts the instance's tasks by, -1 for none, and whether
// it is over the limit.
func (t *domainTree) limitUnit(i int) (unit int32, over bool) {
	leaf := t.ruledLeaf(i)
	if leaf < 0 || t.unitOf == nil || t.unitOf[leaf] < 0 {
		return -1, false
	}
	unit = t.unitOf[leaf]
	return unit, t.nodes[unit].tasks > t.limit
}
