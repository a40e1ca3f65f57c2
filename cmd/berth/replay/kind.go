package replay

import (
	"cmp"
	"fmt"
	"slices"

	"berth/cmd/berth/trace"
	"berth/shared/cluster"
	"berth/shared/sim/ec2"
)

// nodeKind is one kind of node: those with the same CPU, memory and GPUs. It has a group of its
// own.
type nodeKind struct {
	name  string
	node  trace.Node // one of them, without its name
	nodes int
	used  resources // by the tasks whose services were created on it
}

// nodeKindsOf returns the kinds of the nodes, the most frequent first. Kinds beyond the capacity
// providers that a cluster may have are left out.
func nodeKindsOf(nodes []trace.Node) (kinds []*nodeKind) {
	byNode := map[trace.Node]*nodeKind{}
	for _, n := range nodes {
		n.Name = ""
		k := byNode[n]
		if k == nil {
			k = &nodeKind{node: n}
			byNode[n] = k
			kinds = append(kinds, k)
		}
		k.nodes++
	}
	slices.SortStableFunc(kinds, func(a, b *nodeKind) int { return cmp.Compare(b.nodes, a.nodes) })
	kinds = kinds[:min(len(kinds), cluster.MaxProviders)]
	for n, k := range kinds {
		k.name = fmt.Sprintf("kind-%d", n+1)
	}
	return kinds
}

// machineOfKind is what the kind's group launches, in any zone.
func (k *nodeKind) machineOfKind() ec2.Machine {
	m := machineOfNode(k.node, 0)
	m.Type, m.Zones = "trace."+k.name, nil
	return m
}

// canHoldTask reports whether an empty node of the kind has room for the task.
func (k *nodeKind) canHoldTask(t trace.Task) bool {
	return t.CPUMilli <= k.node.CPUMilli && t.MemoryMiB <= k.node.MemoryMiB && t.GPUs <= k.node.GPUs &&
		(len(t.Models) == 0 || slices.Contains(t.Models, k.node.Model))
}

// loadWith is how much of the kind would be in use with the task, in thousandths of its scarcest
// resource.
func (k *nodeKind) loadWith(t trace.Task) int64 {
	with := k.used
	with.addTask(t, 1)
	load := max(with.cpu*1000/(k.node.CPUMilli*int64(k.nodes)), with.memory*1000/(k.node.MemoryMiB*int64(k.nodes)))
	if k.node.GPUs > 0 {
		load = max(load, with.gpu/int64(k.node.GPUs*k.nodes))
	}
	return load
}

// maxPreferredLoad is how full a kind may be, in thousandths, before tasks go to kinds that suit
// them less.
const maxPreferredLoad = 800

// chooseKind returns the kind of node for a task: the least loaded of those that can hold it. Kinds
// with GPUs come last for tasks that need none. It returns nil if no kind can hold the task.
func chooseKind(kinds []*nodeKind, t trace.Task) (best *nodeKind) {
	rank := func(k *nodeKind) (int, int64) {
		load := k.loadWith(t)
		if t.GPUs == 0 && k.node.GPUs > 0 || load > maxPreferredLoad {
			return 1, load
		}
		return 0, load
	}
	for _, k := range kinds {
		if !k.canHoldTask(t) {
			continue
		}
		if best == nil {
			best = k
			continue
		}
		rankOf, load := rank(k)
		bestRank, bestLoad := rank(best)
		if cmp.Or(cmp.Compare(rankOf, bestRank), cmp.Compare(load, bestLoad)) < 0 {
			best = k
		}
	}
	return best
}
