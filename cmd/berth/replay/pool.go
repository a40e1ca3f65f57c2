package replay

import (
	"cmp"
	"fmt"
	"slices"

	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/sim/ec2"
)

// pool is one kind of node, of which there is a group.
type pool struct {
	name  string
	node  trace.Node // one of them
	nodes int
	used  used // by the tasks that were given to it
}

// poolsOf are the kinds of nodes, the most frequent first; of more than a cluster may have capacity
// providers, the rest is left out.
func poolsOf(nodes []trace.Node) []*pool {
	byKind := map[trace.Node]*pool{}
	var out []*pool
	for _, n := range nodes {
		kind := n
		kind.Name = ""
		p := byKind[kind]
		if p == nil {
			p = &pool{node: kind}
			byKind[kind] = p
			out = append(out, p)
		}
		p.nodes++
	}
	slices.SortStableFunc(out, func(a, b *pool) int { return cmp.Compare(b.nodes, a.nodes) })
	out = out[:min(len(out), cluster.MaxProviders)]
	for n, p := range out {
		p.name = fmt.Sprintf("kind-%d", n+1)
	}
	return out
}

func (p *pool) machine() ec2.Machine {
	m := machine(p.node, 0)
	m.Type, m.Zones = "trace."+p.name, nil
	return m
}

func (p *pool) take(pod trace.Task, sign int64) { p.used.add(pod, sign) }

// fits reports whether one node of the kind can hold the task.
func (p *pool) fits(pod trace.Task) bool {
	return pod.CPUMilli <= p.node.CPUMilli && pod.MemoryMiB <= p.node.MemoryMiB && pod.GPUs <= p.node.GPUs &&
		(len(pod.Models) == 0 || slices.Contains(pod.Models, p.node.Model))
}

// load is how much of the kind would be in use with the task, in thousandths of what is scarcest.
func (p *pool) load(pod trace.Task) int64 {
	with := p.used
	with.add(pod, 1)
	most := max(with.cpu*1000/(p.node.CPUMilli*int64(p.nodes)), with.memory*1000/(p.node.MemoryMiB*int64(p.nodes)))
	if p.node.GPUs > 0 {
		most = max(most, with.gpu/int64(p.node.GPUs*p.nodes))
	}
	return most
}

// crowded is how full the kinds without GPUs may be, in thousandths, before tasks that need none go
// to others.
const crowded = 800

// poolFor is the kind of node for a task: of those that can hold it, the one with the most to
// spare; tasks that need no GPU leave those that have some alone as long as they can. Nil where
// there is none.
func poolFor(pools []*pool, pod trace.Task) *pool {
	var best *pool
	rank := func(p *pool) (int, int64) {
		load := p.load(pod)
		if pod.GPUs == 0 && (p.node.GPUs > 0) || load > crowded {
			return 1, load
		}
		return 0, load
	}
	for _, p := range pools {
		if !p.fits(pod) {
			continue
		}
		if best == nil {
			best = p
			continue
		}
		ar, al := rank(p)
		br, bl := rank(best)
		if cmp.Or(cmp.Compare(ar, br), cmp.Compare(al, bl)) < 0 {
			best = p
		}
	}
	return best
}
