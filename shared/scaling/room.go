package scaling

import (
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// Room says why the other instances of the cluster have no room for the load of those that leave, by container instance id;
// empty where they have (N7). The load is what their services would start anew, daemons left out; whether each fits is
// judged by placement itself, buffer and overbooking included (P14), with all others placed before it. The snapshot is as before
// afterwards.
func Room(snap *snapshot.Snapshot, movers map[string]placement.Mover, leaving []string) string {
	try := &trial{snap: snap, engine: placement.New(snap)}
	defer try.undo(0)
	var load []*cluster.Task
	for _, id := range leaving {
		v := snap.Instances[id]
		if v == nil || v.Instance == nil {
			continue
		}
		for _, t := range v.Tasks {
			if _, ok := movers[t.Owner]; ok && t.Active() {
				load = append(load, t)
			}
		}
		try.drain(v)
	}
	slices.SortFunc(load, hardest)
	for _, t := range load {
		at, why := try.find(movers[t.Owner])
		if why != nil {
			return fmt.Sprintf("task %s of service %s fits nowhere else: %s", t.ID, t.Service, why)
		}
		try.task(movers[t.Owner].Spec, at, t)
	}
	return ""
}
