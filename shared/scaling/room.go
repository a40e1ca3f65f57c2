package scaling

import (
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
)

// WhyNoRoom says why the rest of the cluster has no room for the load of the instances that leave,
// given by container instance id; empty if it has (N7).
//
// The load is what their services would start again, without daemons. Placement itself decides
// whether each task fits, including the node buffer and overbooking (P14), with all others placed
// before it. The snapshot is unchanged afterwards.
func WhyNoRoom(snap *snapshot.Snapshot, movers map[string]moves.Owner, leaving []string) string {
	try := &simulation{snap: snap, engine: placement.New(snap)}
	defer try.undoSteps(0)
	var load []*cluster.Task
	for _, id := range leaving {
		node := snap.Instances[id]
		if node == nil || node.Instance == nil {
			continue
		}
		for _, t := range node.Tasks {
			if _, ok := movers[t.Owner]; ok && t.IsActive() {
				load = append(load, t)
			}
		}
		try.drainInstance(node)
	}
	slices.SortFunc(load, compareHardToPlace)
	for _, t := range load {
		at, why := try.findPlacement(movers[t.Owner], t)
		if why != nil {
			return fmt.Sprintf("task %s of service %s fits nowhere else: %s", t.ID, t.Service, why)
		}
		try.addTask(movers[t.Owner].Spec, at, t)
	}
	return ""
}
