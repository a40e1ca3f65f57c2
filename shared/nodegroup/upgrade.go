package nodegroup

import (
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
)

// upgradePhase replaces the old nodes, as many at a time as may be out of service: those being
// taken out, and those that are gone and have no Ready node in their place yet (N4). Nodes in
// upgrade domains go one domain at a time (N7).
type upgradePhase struct{}

func (upgradePhase) advance(u *cluster.Update, v *view) transition {
	removals, stuck := advanceRemovals(u, v)
	u.Removals = removals
	recordShortage(u, v)
	switch late := timedOutTerminations(u, v); {
	case len(stuck) > 0:
		return failWith(evictionErrors(u, v, stuck)...)
	case len(late) > 0:
		return failWith(terminationError(late))
	case countMissing(u, v) > 0 && v.hasElapsed(u.Shortage.Since, u.Timeouts.Launch):
		return failWith(creationErrors(u, v)...)
	}
	if u.ByDomain {
		if mayTake, failed := advanceDomain(u, v); failed != nil || !mayTake {
			return failWith(failed...)
		}
	}
	if e := checkStalled(u, v); e != nil {
		return failWith(*e)
	}
	u.Removals = append(u.Removals, nextRemovals(u, v)...)
	if len(v.old) == 0 && countMissing(u, v) == 0 {
		return enterOnly(cluster.PhaseScaleDown)
	}
	return noTransition
}

func (upgradePhase) actions(u *cluster.Update, v *view) []Action {
	actions := templateActions(u, v)
	for _, n := range uncordonedNodes(u, v) {
		actions = append(actions, cordonActions(n)...)
	}
	return append(actions, removalActions(u, v, true)...)
}

// countNodes returns "1 new node", "2 new nodes".
func countNodes(n int, kind string) string {
	if n == 1 {
		return "1 " + kind + " node"
	}
	return fmt.Sprintf("%d %s nodes", n, kind)
}

func (upgradePhase) waitingFor(u *cluster.Update, v *view) string {
	var of []string
	if n := countMissing(u, v); n > 0 {
		of = append(of, countNodes(n, "new")+" to be Ready")
	}
	if n := len(uncordonedNodes(u, v)); n > 0 {
		of = append(of, countNodes(n, "old")+" to be unschedulable")
	}
	of = append(of, domainWaitingFor(u, v)...)
	return listFirst(append(of, removalsWaitingFor(u, v)...))
}

// recordShortage records since when nodes have been missing and no further one has become Ready.
func recordShortage(u *cluster.Update, v *view) {
	ready := len(v.ready)
	u.RequiredNodes = max(u.RequiredNodes, v.countInService())
	switch {
	case countMissing(u, v) == 0:
		u.Shortage = cluster.NodeShortage{}
	case u.Shortage.Since.IsZero() || ready > u.Shortage.Ready:
		u.Shortage = cluster.NodeShortage{Since: v.now, Ready: ready}
	}
}

// nextRemovals begins to take out old nodes in random order, once all nodes that must be
// unschedulable are.
func nextRemovals(u *cluster.Update, v *view) (begun []cluster.NodeRemoval) {
	if len(uncordonedNodes(u, v)) > 0 {
		return nil
	}
	free := u.MaxUnavailable - len(u.Removals) - countMissing(u, v)
	for _, n := range inRandomOrder(removableNodes(u, v), u.Seed) {
		if len(begun) >= free {
			break
		}
		begun = append(begun, beginRemoval(n, false))
	}
	return begun
}

// checkStalled returns the error of an update that can take no further node for too long: old nodes
// do not become unschedulable, or those that somebody else is taking out never go, such as one in
// Standby.
func checkStalled(u *cluster.Update, v *view) *cluster.UpdateError {
	stalled, timeout, why := uncordonedNodes(u, v), u.Timeouts.Drain, "Nodes cannot be made unschedulable: "
	if len(stalled) == 0 && len(u.Removals) == 0 && len(removableNodes(u, v)) == 0 {
		stalled, timeout = currentNodes(u, v.old), u.Timeouts.Terminate
		why = "Instances are neither in service nor terminated: "
	}
	switch {
	case len(stalled) == 0:
		u.StalledSince = time.Time{}
	case u.StalledSince.IsZero():
		u.StalledSince = v.now
	case v.hasElapsed(u.StalledSince, timeout):
		ids := nodeIDs(stalled)
		whys := make([]string, len(ids))
		for k, id := range ids {
			whys[k] = id + refusalOf(u, id)
		}
		return &cluster.UpdateError{Code: cluster.OperationNotPermitted, Message: why + listFirst(whys), Resources: ids}
	}
	return nil
}

// currentNodes returns the nodes that may be replaced now: all, or those of the current upgrade
// domain.
func currentNodes(u *cluster.Update, nodes []*node) []*node {
	return slices.DeleteFunc(slices.Clone(nodes),
		func(n *node) bool { return u.ByDomain && n.UpgradeDomain() != u.CurrentDomain })
}

// removableNodes returns the old nodes that may be replaced now and are not being removed yet.
func removableNodes(u *cluster.Update, v *view) []*node {
	return slices.DeleteFunc(currentNodes(u, v.old),
		func(n *node) bool { return n.isLeaving() || u.RemovalOf(n.ID) != nil })
}

// uncordonedNodes returns the nodes that must become unschedulable and are not yet (N3): all old
// ones, or those of the current upgrade domain, because the others take its tasks. MINIMAL has no
// new nodes that could take tasks, so there a node stays schedulable until it is taken out.
func uncordonedNodes(u *cluster.Update, v *view) []*node {
	if u.Config.Strategy == cluster.UpdateMinimal {
		return nil
	}
	return slices.DeleteFunc(removableNodes(u, v), func(n *node) bool { return len(cordonActions(n)) == 0 })
}
