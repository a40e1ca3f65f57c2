package nodegroup

import (
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
)

// A node leaves service in steps (N4):
//
//	drain      DRAINING until its tasks have left
//	stop       only if the update is forced: the tasks that did not leave in time are stopped
//	cordon     no task for a while, so that nothing that was sent there before can still arrive
//	terminate  through the group
//
// A node that must stay after all is released: put back into service.

// beginRemoval begins to take a node out of service. The group's desired capacity falls with a
// surplus node.
func beginRemoval(n *node, surplus bool) cluster.NodeRemoval {
	return cluster.NodeRemoval{
		Instance: n.ID, Node: n.nodeID(), Step: cluster.StepDrain, Foreign: n.isDraining(), Surplus: surplus,
	}
}

// advanceRemovals takes each removal one step further, without those that are complete.
// Stuck are the removals whose tasks do not leave in time.
func advanceRemovals(u *cluster.Update, v *view) (removals, stuck []cluster.NodeRemoval) {
	for _, w := range pendingRemovals(u, v) {
		next, ok := advanceRemoval(u, v, w)
		removals = append(removals, next)
		if !ok {
			stuck = append(stuck, next)
		}
	}
	return removals, stuck
}

// pendingRemovals returns the removals of nodes that are still there and not back in service.
func pendingRemovals(u *cluster.Update, v *view) (pending []cluster.NodeRemoval) {
	for _, w := range u.Removals {
		n := v.byID[w.Instance]
		isOver := n == nil || w.Step == cluster.StepRelease &&
			(slices.Contains(u.AbandonedNodes, w.Instance) || len(releaseActions(u, w, n)) == 0)
		if !isOver {
			pending = append(pending, w)
		}
	}
	return pending
}

// EndsRelease reports whether next no longer removes a node that u removes and that is still there: by its
// row it is back in service.
func EndsRelease(u, next *cluster.Update, instances []Instance) bool {
	return slices.ContainsFunc(u.Removals, func(w cluster.NodeRemoval) bool {
		return next.RemovalOf(w.Instance) == nil &&
			slices.ContainsFunc(instances, func(i Instance) bool { return i.ID == w.Instance })
	})
}

// advanceRemoval takes one node a step further, and reports false if its tasks do not leave in
// time.
func advanceRemoval(u *cluster.Update, v *view, w cluster.NodeRemoval) (next cluster.NodeRemoval, ok bool) {
	n := v.byID[w.Instance]
	if n.isLeaving() && w.Step != cluster.StepTerminate {
		w = toStep(w, cluster.StepTerminate, v.now)
	}
	switch w.Step {
	case cluster.StepDrain:
		return advanceDrain(u, v, w)
	case cluster.StepStop:
		if countImmovable(u, n) > 0 {
			return w, false
		}
		if len(n.remainingTasks()) == 0 || v.hasElapsed(w.StepSince, u.Timeouts.Stop) {
			w = toStep(w, cluster.StepCordon, v.now)
		}
	case cluster.StepCordon, cluster.StepTerminate:
		switch {
		case n.isLeaving():
		case len(n.remainingTasks()) > 0 && !(w.Forced && countImmovable(u, n) == 0):
			w.Step, w.StepSince, w.Forced = cluster.StepDrain, w.DrainingAt, false // a task has arrived after all
		// the caller asks ECS for the rest
		case w.Step == cluster.StepCordon && v.hasNearlyElapsed(w.StepSince, u.Timeouts.Cordon):
			w = toStep(w, cluster.StepTerminate, v.now)
		}
	}
	return w, true
}

// advanceDrain handles a node that is to become DRAINING, or is until its tasks have left.
func advanceDrain(u *cluster.Update, v *view, w cluster.NodeRemoval) (next cluster.NodeRemoval, ok bool) {
	n := v.byID[w.Instance]
	if n.nodeID() == "" {
		return toStep(w, cluster.StepCordon, v.now), true
	}
	if !n.isDraining() {
		if w.StepSince.IsZero() {
			w.StepSince = v.now
		}
		return w, !v.hasElapsed(w.StepSince, u.Timeouts.Terminate)
	}
	if w.DrainingAt.IsZero() {
		w.DrainingAt, w.StepSince = v.now, v.now
	}
	switch {
	case len(n.remainingTasks()) == 0:
		return toStep(w, cluster.StepCordon, v.now), true
	case !v.hasElapsed(w.StepSince, u.Timeouts.Drain):
		return w, true
	case !u.Force:
		return w, false
	}
	w.Forced = true
	return toStep(w, cluster.StepStop, v.now), true
}

// toStep returns the removal at another step, whose wait begins now.
func toStep(w cluster.NodeRemoval, s cluster.NodeStep, now time.Time) cluster.NodeRemoval {
	w.Step, w.StepSince = s, now
	return w
}

// mayStop reports whether a forced update may stop the task.
func mayStop(u *cluster.Update, t Task) bool {
	return !t.Protected || u.ForceProtected || t.isStopping()
}

// countImmovable counts the tasks that even a forced update must not stop.
func countImmovable(u *cluster.Update, n *node) int {
	return n.countTasks(func(t Task) bool { return !mayStop(u, t) })
}

// removalActions returns what the removals need done.
// Nodes of the surplus are terminated only if mayLowerDesired: that sets the desired capacity.
func removalActions(u *cluster.Update, v *view, mayLowerDesired bool) (actions []Action) {
	for _, w := range u.Removals {
		n := v.byID[w.Instance]
		switch {
		case w.Step == cluster.StepRelease:
			actions = append(actions, releaseActions(u, w, n)...)
		case w.Step != cluster.StepTerminate:
			actions = append(actions, drainActions(u, w, n)...)
		case !n.isLeaving() && (!w.Surplus || mayLowerDesired):
			a := Action{Kind: Terminate, Instance: n.ID, Decrement: w.Surplus}
			if len(n.remainingTasks()) == 0 {
				a.Node = n.nodeID()
			}
			actions = append(actions, a)
		}
	}
	return actions
}

// drainActions marks and drains a node, and stops its tasks if it was forced.
func drainActions(u *cluster.Update, w cluster.NodeRemoval, n *node) []Action {
	if n.nodeID() == "" {
		return nil
	}
	actions := cordonActions(n)
	if !n.isDraining() {
		actions = append(actions, Action{Kind: Drain, Instance: n.ID, Node: n.nodeID()})
	}
	var ids []string
	for _, t := range n.remainingTasks() {
		if w.Forced && !t.isStopping() && mayStop(u, t) {
			ids = append(ids, t.Task.ID)
		}
	}
	if len(ids) > 0 {
		actions = append(actions, Action{Kind: StopTasks, Instance: n.ID, Node: n.nodeID(), Tasks: ids})
	}
	return actions
}

// recordDrained records the nodes that the update drains, and forgets those that are gone. A row of an
// earlier version has only the removals.
func recordDrained(u *cluster.Update, v *view, actions []Action) {
	drained := slices.DeleteFunc(slices.Clone(u.DrainedNodes), func(id string) bool { return v.byID[id] == nil })
	add := func(id string) {
		if !slices.Contains(drained, id) {
			drained = append(drained, id)
		}
	}
	for _, w := range u.Removals {
		if !w.Foreign && !w.DrainingAt.IsZero() && v.byID[w.Instance] != nil {
			add(w.Instance)
		}
	}
	for _, a := range actions {
		if a.Kind == Drain {
			add(a.Instance)
		}
	}
	if u.DrainedNodes = drained; len(drained) == 0 {
		u.DrainedNodes = nil
	}
}

// releaseActions puts a node back into service. Once it is there, nothing is left to do.
func releaseActions(u *cluster.Update, w cluster.NodeRemoval, n *node) (actions []Action) {
	if n.isDraining() && !w.Foreign {
		actions = append(actions, Action{Kind: Activate, Instance: n.ID, Node: n.nodeID()})
	}
	return append(actions, uncordonActions(u, n)...)
}

// cordonActions marks a node unschedulable unless it is.
func cordonActions(n *node) []Action {
	if _, marked := n.cordonMark(); marked || n.nodeID() == "" {
		return nil
	}
	return []Action{{Kind: Cordon, Instance: n.ID, Node: n.nodeID()}}
}

// uncordonActions removes the update's own mark from a node. A mark of somebody else stays.
func uncordonActions(u *cluster.Update, n *node) []Action {
	if value, _ := n.cordonMark(); value != u.ID {
		return nil
	}
	return []Action{{Kind: Uncordon, Instance: n.ID, Node: n.nodeID()}}
}

// timedOutTerminations returns the removals whose termination takes too long.
func timedOutTerminations(u *cluster.Update, v *view) (late []cluster.NodeRemoval) {
	for _, w := range u.Removals {
		if hasTerminationTimedOut(u, v, w) {
			late = append(late, w)
		}
	}
	return late
}

// hasTerminationTimedOut reports whether a termination has taken longer than the update waits.
func hasTerminationTimedOut(u *cluster.Update, v *view, w cluster.NodeRemoval) bool {
	return w.Step == cluster.StepTerminate && v.hasElapsed(w.StepSince, u.Timeouts.Terminate)
}

// removalsWaitingFor says for each removal what it waits for.
func removalsWaitingFor(u *cluster.Update, v *view) (of []string) {
	for _, w := range u.Removals {
		left := len(v.byID[w.Instance].remainingTasks())
		switch w.Step {
		case cluster.StepDrain:
			if left == 0 || w.DrainingAt.IsZero() {
				of = append(of, w.Instance+" to be DRAINING")
			} else {
				of = append(of, fmt.Sprintf("tasks to leave %s: %s", w.Instance,
					describeBlockingTasks(w, v.byID[w.Instance])))
			}
		case cluster.StepStop:
			of = append(of, fmt.Sprintf("%d tasks stopped on %s", left, w.Instance))
		case cluster.StepCordon:
			of = append(of, fmt.Sprintf("%s to have had no task for %.0f s", w.Instance, u.Timeouts.Cordon.Seconds()))
		case cluster.StepTerminate:
			of = append(of, w.Instance+" to be terminated")
		default:
			of = append(of, w.Instance+" to be back in service")
		}
	}
	return of
}
