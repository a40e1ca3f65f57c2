package domain

import "slices"

// UsableInstances says of each eligible instance whether the target's tasks, one per instance, can
// be placed so that the rules hold and one is on it. If the rules allow no placement at all, every
// eligible instance is usable. In trees of several levels the answer may be true although it should
// be false.
//
// The tasks are a flow: from the root of the fault domains down to the leaves, through the
// instances, and up from the leaves of the upgrade domains to their root. A rule says how much may
// and must flow through a domain. An instance is usable if some feasible flow goes through it.
func (d *Domains) UsableInstances(target int) []bool {
	out := make([]bool, len(d.standing))
	net := newFlowNetwork(d, target)
	feasible := net.sendRequired()
	paths := map[int32][]int32{} // from an upgrade domain
	for i, standing := range d.standing {
		if standing != Eligible {
			continue
		}
		from, to := net.endNodesOf(d, i)
		cell := net.pairEdges[[2]int32{from, to}]
		out[i] = !feasible || net.edges[cell^1].room > 0
		if !out[i] {
			if paths[to] == nil {
				paths[to] = net.searchPathsFrom(to)
			}
			out[i] = paths[to][from] >= 0 // the flow can be redirected through i
		}
	}
	return out
}

// A flowNetwork is a network of domains with capacities.
type flowNetwork struct {
	edges     []flowEdge         // the one after each even one leads back
	out       [][]int32          // per node, the edges that leave it
	pairEdges map[[2]int32]int32 // edge by its fault and upgrade domain
	roots     [2]int32           // of the fault and upgrade domains
	source    int32
	sink      int32
	required  int32 // what still has to flow from the source
}

// A flowEdge is an edge with its remaining capacity.
type flowEdge struct{ to, room int32 }

func newFlowNetwork(d *Domains, target int) *flowNetwork {
	faults := max(1, len(d.fault.nodes))
	n := faults + max(1, len(d.upgrade.nodes))
	net := &flowNetwork{
		out: make([][]int32, n+2), pairEdges: map[[2]int32]int32{}, roots: [2]int32{0, int32(faults)}, source: int32(n),
		sink: int32(n + 1),
	}
	net.addDomainTree(&d.fault, net.roots[0], int32(target), true)
	net.addDomainTree(&d.upgrade, net.roots[1], int32(target), false)
	net.addBoundedEdge(net.roots[1], net.roots[0], int32(target), int32(target))
	for i, standing := range d.standing {
		if standing != Eligible {
			continue
		}
		from, to := net.endNodesOf(d, i)
		key := [2]int32{from, to}
		if cell, ok := net.pairEdges[key]; ok {
			net.edges[cell].room++
			continue
		}
		net.pairEdges[key] = int32(len(net.edges))
		net.addFlowEdge(from, to, 1)
	}
	return net
}

// endNodesOf returns the nodes of the instance's fault and upgrade domain: the root if no rule
// applies to it.
func (net *flowNetwork) endNodesOf(d *Domains, i int) (from, to int32) {
	from, to = net.roots[0], net.roots[1]
	if leaf := d.fault.leafUnderRule(i); leaf >= 0 {
		from += d.fault.nodeOf[leaf]
	}
	if leaf := d.upgrade.leafUnderRule(i); leaf >= 0 {
		to += d.upgrade.nodeOf[leaf]
	}
	return from, to
}

// addDomainTree adds the edges between domains and their parents.
func (net *flowNetwork) addDomainTree(t *domainTree, root, target int32, down bool) {
	least, most := make([]int32, len(t.nodes)), make([]int32, len(t.nodes))
	units := map[int32]bool{}
	for _, unit := range t.unitOf {
		units[unit] = true
	}
	for v := range int32(len(t.nodes)) {
		if v == 0 {
			least[v], most[v] = target, target
			continue
		}
		n := &t.nodes[v]
		p := n.parent
		switch kids := t.nodes[p].liveChildren; {
		case t.rule == ruleDifference && n.eligible == 0:
		case t.rule == ruleDifference:
			least[v], most[v] = least[p]/kids, (most[p]+kids-1)/kids
		case units[v]:
			most[v] = t.limit
		default:
			most[v] = target
		}
		if down {
			net.addBoundedEdge(root+p, root+v, least[v], most[v])
		} else {
			net.addBoundedEdge(root+v, root+p, least[v], most[v])
		}
	}
}

// addBoundedEdge adds an edge with a least and a greatest flow. The least flow is sent by way of
// source and sink.
func (net *flowNetwork) addBoundedEdge(from, to, least, most int32) {
	net.addFlowEdge(from, to, most-least)
	net.addFlowEdge(net.source, to, least)
	net.addFlowEdge(from, net.sink, least)
	net.required += least
}

func (net *flowNetwork) addFlowEdge(from, to, room int32) {
	n := int32(len(net.edges))
	net.edges = append(net.edges, flowEdge{to, room}, flowEdge{from, 0})
	net.out[from], net.out[to] = append(net.out[from], n), append(net.out[to], n+1)
}

// sendRequired sends what it can from the source to the sink, and reports whether that is all that
// must flow.
func (net *flowNetwork) sendRequired() bool {
	for net.required > 0 {
		through := net.searchPathsFrom(net.source)
		if through[net.sink] < 0 {
			return false
		}
		least := net.required
		for v := net.sink; v != net.source; v = net.edges[through[v]^1].to {
			least = min(least, net.edges[through[v]].room)
		}
		for v := net.sink; v != net.source; v = net.edges[through[v]^1].to {
			net.edges[through[v]].room -= least
			net.edges[through[v]^1].room += least
		}
		net.required -= least
	}
	return true
}

// searchPathsFrom returns for each node the last edge of a path with remaining capacity from the
// given node, -1 if there is none.
func (net *flowNetwork) searchPathsFrom(from int32) []int32 {
	through := slices.Repeat([]int32{-1}, len(net.out))
	queue := []int32{from}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for _, n := range net.out[v] {
			if e := net.edges[n]; e.room > 0 && through[e.to] < 0 && e.to != from {
				through[e.to] = n
				queue = append(queue, e.to)
			}
		}
	}
	return through
}
