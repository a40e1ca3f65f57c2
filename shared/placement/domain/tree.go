package domain

import (
	"slices"
	"strings"
)

// A domainRule is the rule of one dimension.
type domainRule uint8

const (
	ruleNone domainRule = iota
	ruleDifference
	ruleQuorum
	ruleNonpacking
)

// A domainTree is one dimension: a tree of domains whose leaves are all equally deep. The root is
// node 0, and a parent comes before its children. Upgrade domains are a tree of one level.
type domainTree struct {
	leafOf     []int32 // per instance, -1 for none
	nodeOf     []int32 // per leaf
	nodes      []domain
	sharedLeaf bool // some leaf has two instances that take tasks

	rule   domainRule
	limit  int32   // quorum and nonpacking: tasks per unit
	unitOf []int32 // per leaf, the node that the limit applies to; 0 for none
	excess int32   // tasks beyond the rule, summed over the tree
}

// A domain is a node of the tree. A child is live if it has an eligible instance; others are no
// domains.
type domain struct {
	parent       int32
	eligible     int32 // eligible instances below it
	tasks        int32
	liveChildren int32
	// lastLive is one of the live children.
	lastLive int32

	// Under maximum difference. base is the floor of childTasks per live child. childrenWith[n] is
	// how many live children have n tasks. Of them, below have less than the base, lacking under
	// tasks in all; above have more than base+1, with over tasks too many in all.
	childTasks   int32
	base         int32
	childrenWith []int32
	below, under int32
	above, over  int32
}

// splitFaultPath splits "fd:/dc1/r0" into "dc1" and "r0".
func splitFaultPath(name string) []string {
	return strings.FieldsFunc(strings.TrimPrefix(name, "fd:"), func(r rune) bool { return r == '/' })
}

// buildDomainTree creates the tree of the named domains of instances in the cluster. A branch less
// deep than others continues with unnamed domains, one child each, so that all leaves are on one
// level.
func (t *domainTree) buildDomainTree(names []string, standing []Standing, path func(string) []string) {
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
	leaves := t.growTreeNodes(paths, depth)
	for i, at := range t.leafOf {
		if at >= 0 {
			t.leafOf[i] = leaves[at]
		}
	}
	t.countInstances(standing)
}

// growTreeNodes creates the nodes of all paths and returns the leaf of each. Several names may mean
// the same leaf.
func (t *domainTree) growTreeNodes(paths [][]string, depth int) []int32 {
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

// findOrAddNode returns the node at the end of the path.
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

// countInstances counts the eligible instances of every domain.
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

// sharesTopDomain reports whether two instances have the same top-level domain.
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

// firstBranchNode returns the first node with more than one live child, or -1. Levels with a single
// domain, such as the one data center of all racks, change nothing.
func (t *domainTree) firstBranchNode() int32 {
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

// firstBranchCount returns the number of domains on the first level that has several, 0 if none
// has.
func (t *domainTree) firstBranchCount() int {
	if v := t.firstBranchNode(); v >= 0 {
		return int(t.nodes[v].liveChildren)
	}
	return 0
}

// eligibleInstanceCount returns the number of eligible instances. The tree has nodes.
func (t *domainTree) eligibleInstanceCount() int { return int(t.nodes[0].eligible) }

// ruledDomainCount returns the number of leaves, 0 if the dimension has no rule.
func (t *domainTree) ruledDomainCount() int {
	if t.rule == ruleNone {
		return 0
	}
	return len(t.nodeOf)
}

// leafUnderRule returns the instance's leaf, -1 if it has none or the dimension has no rule.
func (t *domainTree) leafUnderRule(i int) int {
	if t.rule == ruleNone || len(t.leafOf) == 0 {
		return -1
	}
	return int(t.leafOf[i])
}

// lacksEligible reports whether no instance in this one's domain is eligible.
func (t *domainTree) lacksEligible(i int) bool {
	leaf := t.leafUnderRule(i)
	return leaf >= 0 && t.nodes[t.nodeOf[leaf]].eligible == 0
}

// copyWithoutTasks returns a copy of the tree without its tasks.
func (t *domainTree) copyWithoutTasks() domainTree {
	out := *t
	out.nodes = slices.Clone(t.nodes)
	for v := range out.nodes {
		out.nodes[v].tasks, out.nodes[v].childrenWith = 0, nil
	}
	return out
}

// lowestDomainOf returns the leaf of the instance, -1 for none, whether or not there is a rule.
func (t *domainTree) lowestDomainOf(i int) int32 {
	if len(t.leafOf) == 0 {
		return -1
	}
	return t.leafOf[i]
}

// limitUnitOf returns the domain in which the limit counts the instance's tasks, -1 for none, and
// whether it is over the limit.
func (t *domainTree) limitUnitOf(i int) (unit int32, over bool) {
	leaf := t.leafUnderRule(i)
	if leaf < 0 || t.unitOf == nil || t.unitOf[leaf] == 0 {
		return -1, false
	}
	unit = t.unitOf[leaf]
	return unit, t.nodes[unit].tasks > t.limit
}
