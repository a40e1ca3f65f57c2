package domain

import "slices"

// Usable says of each instance whether the rules leave a way to place the target's tasks, at most
// one on an instance, with one on it. Where they leave no way at all it is true of all eligible
// ones. In trees of several levels it may be true where it is not.
//
// The tasks are a flow from the root of the fault domains down to their leaves, through the
// instances, and up from the leaves of the upgrade domains to their root. A rule is how much may go
// through a domain, and how much must.
func (d *Domains) Usable(target int) []bool {
	out := make([]bool, len(d.standing))
	f := newDomainFlow(d, target)
	feasible := f.fill()
	reached := map[int32][]bool{}
	for i, standing := range d.standing {
		if standing != Eligible {
			continue
		}
		from, to := f.ends(d, i)
		cell := f.cells[[2]int32{from, to}]
		out[i] = !feasible || f.edges[cell^1].room > 0
		if !out[i] {
			if reached[to] == nil {
				reached[to] = f.reach(to)
			}
			out[i] = reached[to][from] // what goes another way may go here
		}
	}
	return out
}

// domainFlow is a network of domains.
type domainFlow struct {
	edges  []flowEdge
	out    [][]int32 // per node, the edges that leave it
	cells  map[[2]int32]int32
	roots  [2]int32 // of the fault and upgrade domains
	source int32
	sink   int32
	must   int32 // what has to come from the source
}

// flowEdge is an edge with the room it has left; the one after an even one leads back.
type flowEdge struct{ to, room int32 }

func newDomainFlow(d *Domains, target int) *domainFlow {
	faults := max(1, len(d.fault.nodes))
	n := faults + max(1, len(d.upgrade.nodes))
	f := &domainFlow{
		out: make([][]int32, n+2), cells: map[[2]int32]int32{}, roots: [2]int32{0, int32(faults)}, source: int32(n),
		sink: int32(n + 1),
	}
	f.tree(&d.fault, f.roots[0], int32(target), true)
	f.tree(&d.upgrade, f.roots[1], int32(target), false)
	f.edge(f.roots[1], f.roots[0], int32(target), int32(target))
	for i, standing := range d.standing {
		if standing != Eligible {
			continue
		}
		from, to := f.ends(d, i)
		key := [2]int32{from, to}
		if cell, ok := f.cells[key]; ok {
			f.edges[cell].room++
			continue
		}
		f.cells[key] = int32(len(f.edges))
		f.edge(from, to, 0, 1)
	}
	return f
}

// ends are the nodes of the instance's fault and upgrade domain, the root where no rule concerns
// it.
func (f *domainFlow) ends(d *Domains, i int) (from, to int32) {
	from, to = f.roots[0], f.roots[1]
	if leaf := d.fault.id(i); leaf >= 0 {
		from += d.fault.nodeOf[leaf]
	}
	if leaf := d.upgrade.id(i); leaf >= 0 {
		to += d.upgrade.nodeOf[leaf]
	}
	return from, to
}

// tree adds the edges between domains and their parents.
func (f *domainFlow) tree(t *domainTree, root, target int32, down bool) {
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
		switch kids := t.nodes[p].kids; {
		case t.rule == ruleDifference && n.hosts == 0:
		case t.rule == ruleDifference:
			least[v], most[v] = least[p]/kids, (most[p]+kids-1)/kids
		case units[v]:
			most[v] = t.limit
		default:
			most[v] = target
		}
		if down {
			f.edge(root+p, root+v, least[v], most[v])
		} else {
			f.edge(root+v, root+p, least[v], most[v])
		}
	}
}

// edge adds one through which so much must and may go: what must comes from the source, and goes to
// the sink.
func (f *domainFlow) edge(from, to, least, most int32) {
	f.plain(from, to, most-least)
	if least > 0 {
		f.plain(f.source, to, least)
		f.plain(from, f.sink, least)
		f.must += least
	}
}

func (f *domainFlow) plain(from, to, room int32) {
	n := int32(len(f.edges))
	f.edges = append(f.edges, flowEdge{to, room}, flowEdge{from, 0})
	f.out[from], f.out[to] = append(f.out[from], n), append(f.out[to], n+1)
}

// fill sends as much as it can from the source to the sink, and reports whether that is all that
// must.
func (f *domainFlow) fill() bool {
	for f.must > 0 {
		through := f.search(f.source)
		if through[f.sink] < 0 {
			return false
		}
		least := f.must
		for v := f.sink; v != f.source; v = f.edges[through[v]^1].to {
			least = min(least, f.edges[through[v]].room)
		}
		for v := f.sink; v != f.source; v = f.edges[through[v]^1].to {
			f.edges[through[v]].room -= least
			f.edges[through[v]^1].room += least
		}
		f.must -= least
	}
	return true
}

// search is for each node the edge by which a way with room leads there from the given one; -1
// where none does.
func (f *domainFlow) search(from int32) []int32 {
	through := slices.Repeat([]int32{-1}, len(f.out))
	queue := []int32{from}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for _, n := range f.out[v] {
			if e := f.edges[n]; e.room > 0 && through[e.to] < 0 && e.to != from {
				through[e.to] = n
				queue = append(queue, e.to)
			}
		}
	}
	return through
}

// reach are the nodes to which a way with room leads.
func (f *domainFlow) reach(from int32) []bool {
	out := make([]bool, len(f.out))
	for v, n := range f.search(from) {
		out[v] = n >= 0 || int32(v) == from
	}
	return out
}
