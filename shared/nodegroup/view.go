package nodegroup

import (
	"cmp"
	"slices"
	"time"

	"berth/shared/cluster"
)

// view is the group as it is now, with its nodes sorted by what they are to an update.
type view struct {
	group Group
	now   time.Time
	nodes []*node // sorted by id
	byID  map[string]*node
	// old are the nodes that are not up to date, including those that are leaving.
	// ready are the up-to-date nodes that are Ready.
	old, ready []*node
}

// node is a member of the group as the update sees it.
type node struct {
	Instance
	// upToDate reports that the node was made by this update, or by an earlier one with the same
	// target (N3).
	upToDate bool
	// isReady reports that it is connected and has the labels of the target.
	isReady bool
}

func newView(u *cluster.Update, g Group, instances []Instance, now time.Time) *view {
	v := &view{group: g, now: now, byID: make(map[string]*node, len(instances))}
	labels := TargetLabels(u)
	for _, i := range instances {
		n := &node{Instance: i}
		labelled := i.hasLabels(labels)
		n.upToDate = labelled ||
			u.Template != "" && i.Template == u.Template && !slices.Contains(u.InitiallyUnready, i.ID)
		n.isReady = labelled && i.isConnected()
		v.nodes = append(v.nodes, n)
		v.byID[i.ID] = n
	}
	slices.SortFunc(v.nodes, func(a, b *node) int { return cmp.Compare(a.ID, b.ID) })
	for _, n := range v.nodes {
		if !n.upToDate {
			v.old = append(v.old, n)
		}
		if n.isReady {
			v.ready = append(v.ready, n)
		}
	}
	return v
}

// isLeaving reports whether the node is on its way out of the group.
func (n *node) isLeaving() bool { return n.Lifecycle == Terminating }

// countPresent counts the nodes that are not leaving.
func (v *view) countPresent() (n int) {
	for _, count := range v.countByZone() {
		n += count
	}
	return n
}

// countByZone counts the nodes that are not leaving, by zone.
func (v *view) countByZone() map[string]int {
	count := map[string]int{}
	for _, n := range v.nodes {
		if !n.isLeaving() {
			count[n.Zone]++
		}
	}
	return count
}

// oldZones returns the zones that have old nodes, in order.
func (v *view) oldZones() (zones []string) {
	for _, n := range v.old {
		if !n.isLeaving() {
			zones = append(zones, n.Zone)
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}

// countInService counts the nodes in service: the old ones that are not leaving, and the new ones
// that are Ready.
func (v *view) countInService() int {
	n := len(v.ready)
	for _, old := range v.old {
		if !old.isLeaving() {
			n++
		}
	}
	return n
}

// hasElapsed reports whether a wait that began at since is over. A wait that has not begun is not.
func (v *view) hasElapsed(since time.Time, wait time.Duration) bool {
	return !since.IsZero() && !v.now.Before(since.Add(wait))
}

// hasNearlyElapsed allows a wait to end a tenth early. Calls come a minute apart, give or take
// seconds: one just before the end of a one-minute wait would make it two.
func (v *view) hasNearlyElapsed(since time.Time, wait time.Duration) bool {
	return v.hasElapsed(since, wait-wait/10)
}

func nodeIDs(nodes []*node) []string {
	ids := make([]string, len(nodes))
	for k, n := range nodes {
		ids[k] = n.ID
	}
	return ids
}
