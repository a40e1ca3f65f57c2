package nodegroup

import (
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
)

// A failed update leaves a group that works (N6): it launches from a template that works, every
// node that was taken out of service and is not being terminated is back, and no node is
// unschedulable because of the update. The surplus is removed as after an update that succeeded,
// nodes that never came into service first.

// brokenRemovals begins to terminate new nodes that are not connected and have no task: first the
// surplus. The others are replaced, once the group launches from its original template again.
func brokenRemovals(u *cluster.Update, v *view) (begun []cluster.NodeRemoval) {
	surplus := countSurplus(u, v) - countSurplusLeaving(u, v)
	hasReverted := u.RevertTemplate && v.group.Template == u.OriginalTemplate
	for _, n := range v.nodes {
		if n.isLeaving() || !n.upToDate || !isBroken(n) || u.RemovalOf(n.ID) != nil || surplus <= 0 && !hasReverted {
			continue
		}
		w := toStep(beginRemoval(n, surplus > 0), cluster.StepTerminate, v.now)
		w.NeverInService = true
		begun = append(begun, w)
		surplus--
	}
	return begun
}

// isBroken reports whether a new node can be terminated without anything being lost: it is not
// connected and has no task. One that only lacks its labels takes tasks, so it is emptied first.
func isBroken(n *node) bool { return !n.isConnected() && len(n.remainingTasks()) == 0 }

// abandonRefused gives up nodes that ECS refuses to put back into service, once they have been all
// that the update waits for as long as it waits for a drain. It reports whether it gave up any.
func abandonRefused(u *cluster.Update, v *view) bool {
	refused, busy := refusedReleases(u, v)
	if busy || len(refused) == 0 {
		u.ReleasingSince = time.Time{}
		return false
	}
	if u.ReleasingSince.IsZero() {
		u.ReleasingSince = v.now
	}
	if !v.hasElapsed(u.ReleasingSince, u.Timeouts.Drain) {
		return false
	}
	for _, id := range refused {
		u.AbandonedNodes = append(u.AbandonedNodes, id)
		addError(u, cluster.UpdateError{
			Code: cluster.OperationNotPermitted, Resources: []string{id},
			Message: fmt.Sprintf("Node %s cannot be put back into service: ECS refuses%s", id, refusalOf(u, id)),
		})
	}
	u.Removals = pendingRemovals(u, v)
	return true
}

// refusedReleases returns the nodes that ECS refuses to put back into service, and whether anything
// else is under way.
func refusedReleases(u *cluster.Update, v *view) (refused []string, busy bool) {
	busy = nextSizes(u, v) != v.group.Sizes
	var releasing []string
	for _, w := range u.Removals {
		busy = busy || w.Step != cluster.StepRelease
		releasing = append(releasing, w.Instance)
	}
	for _, a := range undoActions(u, v) {
		if a.Kind == Uncordon {
			releasing = append(releasing, a.Instance)
		} else {
			busy = true
		}
	}
	return slices.DeleteFunc(releasing, func(id string) bool { return u.Refusals[id] == "" }), busy
}

// LeftTemplate returns the launch template version that an update that has ended has left the group
// with; empty if it has set none, or may have given up restoring the one from before.
func LeftTemplate(u *cluster.Update) string {
	switch {
	case u.OriginalTemplate == "" || u.RevertTemplate && u.SizesReason != "":
		return ""
	case u.RevertTemplate:
		return u.OriginalTemplate
	}
	return u.Template
}

// undoActions returns what a failed update must undo: the group launches from its original template
// again, and nodes that the update is not working on lose its mark.
func undoActions(u *cluster.Update, v *view) (actions []Action) {
	if u.RevertTemplate && v.group.Template != u.OriginalTemplate {
		actions = append(actions, Action{Kind: UseTemplate, Template: u.OriginalTemplate})
	}
	for _, n := range v.nodes {
		if u.RemovalOf(n.ID) == nil && !slices.Contains(u.AbandonedNodes, n.ID) {
			actions = append(actions, uncordonActions(u, n)...)
		}
	}
	return actions
}

// IsDrainedBy reports whether the node is DRAINING because an update that has ended has drained it.
func IsDrainedBy(u *cluster.Update, node *cluster.Instance) bool {
	return node.Status == cluster.InstanceDraining && slices.Contains(u.DrainedNodes, node.EC2InstanceID)
}

// HasStaleMark reports whether the node still has the mark of an update that has ended, and ECS has not
// refused to remove it.
func HasStaleMark(u *cluster.Update, node *cluster.Instance) bool {
	return u.HasEnded() && node.Attributes[cluster.AttributeUnschedulable] == u.ID &&
		!slices.Contains(u.AbandonedNodes, node.EC2InstanceID)
}
