package nodegroupupgrade

import (
	"context"
	"slices"
	"strings"

	"berth/shared/decide"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/snapshot"
)

// room answers whether the rest of the cluster has room for nodes' load (N7). It reads the cluster when first asked: only
// updates of nodes with upgrade domains ask. What cannot be read is an answer, too: the update waits.
func (n *Handler) room(ctx context.Context, clusterName string) func(leaving []string) string {
	var snap *snapshot.Snapshot
	var movers map[string]placement.Mover
	said := map[string]string{}
	return func(leaving []string) string {
		key := strings.Join(slices.Sorted(slices.Values(leaving)), " ")
		if why, known := said[key]; known {
			return why
		}
		if snap == nil {
			loaded, err := snapshot.Load(ctx, n.State, clusterName)
			if err != nil {
				return "the cluster could not be read: " + err.Error()
			}
			snap, movers = loaded, decide.MoversOf(loaded, decide.NewSpecs(loaded), "", nil)
		}
		said[key] = scaling.Room(snap, movers, leaving)
		return said[key]
	}
}
