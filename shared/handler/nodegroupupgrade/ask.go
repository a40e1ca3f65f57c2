package nodegroupupgrade

import (
	"iter"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// NodesOf are the instances of an Auto Scaling group with what is on them, as the rows of their cluster say.
func NodesOf(g *cluster.AutoScalingGroup, rows iter.Seq[state.Row], now time.Time) (out []nodegroup.Instance) {
	w := newNodeWorld()
	for row := range rows {
		w.add(row, now)
	}
	for k := range g.Instances {
		out = append(out, w.member(&g.Instances[k]))
	}
	return out
}
