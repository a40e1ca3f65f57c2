package nodegroup

import (
	"cmp"
	"fmt"
	"slices"

	"berth/shared/cluster"
)

// scaleDownPhase removes the surplus, one node at a time, until the group has its original sizes
// (N5).
//
// The Auto Scaling group does not choose the node: its choice would take tasks with it. Instead one
// node is emptied first, in a zone that has more nodes than before. A failed update goes the same
// way, and undoes more on it (restore.go).
type scaleDownPhase struct{}

func (scaleDownPhase) advance(u *cluster.Update, v *view) transition {
	if u.OriginalSizes == nil {
		return transition{end: finalStatus(u, v)}
	}
	u.Removals = pendingRemovals(u, v)
	recordFloor(u, v)
	if u.SizesReason == "" {
		yieldToGrowth(u, v)
	}
	u.ObservedDesired = v.group.Desired
	u.Removals = releaseUnneeded(u, v)
	advanceOrRetain(u, v)
	retainTimedOut(u, v)
	u.Removals = releaseExcess(u, v)
	if u.SizesReason == "" {
		if u.Phase == cluster.PhaseRestore {
			u.Removals = append(u.Removals, brokenRemovals(u, v)...)
		}
		u.Removals = append(u.Removals, surplusRemoval(u, v)...)
	}
	if abandonRefused(u, v) {
		return noTransition // what waited for them continues
	}
	if len(u.Removals) == 0 && len(scaleDownActions(u, v)) == 0 {
		recordRemainingSurplus(u, v)
		return transition{end: finalStatus(u, v)}
	}
	return noTransition
}

func (scaleDownPhase) actions(u *cluster.Update, v *view) []Action { return scaleDownActions(u, v) }

func (scaleDownPhase) waitingFor(u *cluster.Update, v *view) string {
	return listFirst(removalsWaitingFor(u, v))
}

func scaleDownActions(u *cluster.Update, v *view) []Action {
	actions := undoActions(u, v)
	want := nextSizes(u, v)
	if want != v.group.Sizes {
		actions = append(actions, Action{Kind: Resize, Max: want.Max, Desired: want.Desired})
	}
	// A termination lowers the desired capacity, too, so the two must not happen together.
	return append(actions, removalActions(u, v, want == v.group.Sizes)...)
}

// recordFloor records the desired capacity to restore: the original, and what others have added
// since. A minimum that was raised meanwhile holds.
func recordFloor(u *cluster.Update, v *view) {
	if u.DesiredFloor == nil {
		before := u.OriginalSizes.Desired + u.AddedByOthers
		u.DesiredFloor, u.ScaleDownSince = new(before+max(0, v.group.Desired-before-u.Surge)), v.now
	}
	u.DesiredFloor = new(max(*u.DesiredFloor, v.group.Min))
}

// yieldToGrowth leaves the sizes as somebody else has enlarged them, because the nodes are needed.
func yieldToGrowth(u *cluster.Update, v *view) {
	why := ""
	switch {
	case v.group.IsGrowing:
		why = "Managed scaling is growing the group"
	// a target tracking policy, or its owner
	case u.ObservedDesired > 0 && v.group.Desired > max(u.ObservedDesired, *u.DesiredFloor):
		why = "The group was enlarged by someone else"
	default:
		return
	}
	u.DesiredFloor = new(v.group.Desired)
	u.SizesReason = fmt.Sprintf("%s: it stays at maximum %d and desired %d, originally %d and %d",
		why, v.group.Max, v.group.Desired, u.OriginalSizes.Max, u.OriginalSizes.Desired)
}

// recordUserMaximum records a maximum that somebody else has set since the update began.
func recordUserMaximum(u *cluster.Update, maximum int) {
	if u.OriginalSizes != nil && !slices.Contains(u.KnownMaxima, maximum) {
		u.KnownMaxima, u.UserMax = append(u.KnownMaxima, maximum), new(maximum)
	}
}

// recordOwnMaxima records the maxima that the update sets.
func recordOwnMaxima(u *cluster.Update, actions []Action) {
	for _, a := range actions {
		if a.Kind == Resize && !slices.Contains(u.KnownMaxima, a.Max) {
			u.KnownMaxima = append(u.KnownMaxima, a.Max)
		}
	}
}

// releaseUnneeded releases the nodes that must not be removed any more: all if the sizes are left
// to others, and otherwise those that seemed broken and came into service after all.
func releaseUnneeded(u *cluster.Update, v *view) []cluster.NodeRemoval {
	return releaseWhere(u, v, func(w cluster.NodeRemoval, n *node) bool {
		if u.SizesReason != "" && w.Step != cluster.StepRelease {
			return true
		}
		return w.NeverInService && !isBroken(n)
	})
}

// releaseWhere puts the nodes back into service that are not leaving yet and for which release
// returns true.
func releaseWhere(u *cluster.Update, v *view, release func(cluster.NodeRemoval, *node) bool) []cluster.NodeRemoval {
	removals := slices.Clone(u.Removals)
	for k, w := range removals {
		if n := v.byID[w.Instance]; !n.isLeaving() && release(w, n) {
			removals[k] = toStep(w, cluster.StepRelease, v.now)
		}
	}
	return removals
}

// advanceOrRetain takes each removal a step further, and keeps the nodes whose tasks do not leave.
func advanceOrRetain(u *cluster.Update, v *view) {
	for k, w := range u.Removals {
		next, ok := advanceRemoval(u, v, w)
		if u.Removals[k] = next; !ok {
			retainNode(u, v, k, describeBlockingTasks(next, v.byID[w.Instance]))
		}
	}
}

// retainNode puts a node back that cannot be removed.
func retainNode(u *cluster.Update, v *view, k int, why string) {
	w := u.Removals[k]
	u.RetainedNodes = append(u.RetainedNodes, w.Instance)
	u.RetainedReasons = append(u.RetainedReasons, w.Instance+": "+why)
	u.Removals[k] = toStep(w, cluster.StepRelease, v.now)
}

// retainTimedOut stops waiting for removals whose termination takes too long, so that the sizes are
// restored without them.
func retainTimedOut(u *cluster.Update, v *view) {
	for k, w := range u.Removals {
		if hasTerminationTimedOut(u, v, w) && !v.byID[w.Instance].isLeaving() {
			retainNode(u, v, k, "it was terminated but still exists")
		}
	}
	u.Removals = slices.DeleteFunc(u.Removals,
		func(w cluster.NodeRemoval) bool { return hasTerminationTimedOut(u, v, w) })
}

// countSurplus returns how many nodes too many there are.
func countSurplus(u *cluster.Update, v *view) int { return max(0, v.group.Desired-*u.DesiredFloor) }

// isSurplusLeaving reports whether the removal will lower the desired capacity and has not yet.
func isSurplusLeaving(w cluster.NodeRemoval, n *node) bool {
	return w.Surplus && w.Step != cluster.StepRelease && !n.isLeaving()
}

// countSurplusLeaving returns how many nodes of the surplus are being removed.
func countSurplusLeaving(u *cluster.Update, v *view) (count int) {
	for _, w := range u.Removals {
		if isSurplusLeaving(w, v.byID[w.Instance]) {
			count++
		}
	}
	return count
}

// releaseExcess releases the nodes that are no surplus any more, those taken last first.
func releaseExcess(u *cluster.Update, v *view) []cluster.NodeRemoval {
	excess := countSurplusLeaving(u, v) - countSurplus(u, v)
	removals := slices.Clone(u.Removals)
	for k := len(removals) - 1; k >= 0 && excess > 0; k-- {
		if isSurplusLeaving(removals[k], v.byID[removals[k].Instance]) {
			removals[k] = toStep(removals[k], cluster.StepRelease, v.now)
			excess--
		}
	}
	return removals
}

// surplusRemoval begins to remove the next node of the surplus once the last one is gone.
func surplusRemoval(u *cluster.Update, v *view) []cluster.NodeRemoval {
	onlyBroken := allOf(u.Removals, func(w cluster.NodeRemoval) bool { return w.NeverInService })
	if countSurplus(u, v) <= countSurplusLeaving(u, v) || v.countPresent() < v.group.Desired || !onlyBroken {
		return nil
	}
	if n := cheapestSurplus(u, v); n != nil {
		return []cluster.NodeRemoval{beginRemoval(n, true)}
	}
	return nil
}

// maxRetained is how many nodes of the surplus may turn out not to get empty before the rest is
// left. Each takes as long as tasks have to leave a node.
const maxRetained = 5

// cheapestSurplus returns the node whose removal costs least; nil if none is left to try, or enough
// were tried.
//
// It is in the zone that has most nodes more than before; then one that is not connected, has the
// fewest tasks that would not leave, has the fewest tasks, is not up to date.
func cheapestSurplus(u *cluster.Update, v *view) *node {
	if len(u.RetainedNodes) >= maxRetained {
		return nil
	}
	var candidates []*node
	for _, n := range v.nodes {
		if !n.isLeaving() && u.RemovalOf(n.ID) == nil && !slices.Contains(u.RetainedNodes, n.ID) {
			candidates = append(candidates, n)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	count := v.countByZone()
	stays := func(t Task) bool { return !t.isStopping() && (t.Task.Service == "" || t.Protected || t.Task.Foreign) }
	isLoad := func(t Task) bool { return !t.Daemon }
	return slices.MinFunc(candidates, func(a, b *node) int {
		return cmp.Or(cmp.Compare(count[b.Zone]-u.Zones[b.Zone], count[a.Zone]-u.Zones[a.Zone]),
			trueFirst(!a.isConnected(), !b.isConnected()), cmp.Compare(a.countTasks(stays), b.countTasks(stays)),
			cmp.Compare(a.countTasks(isLoad), b.countTasks(isLoad)), trueFirst(!a.upToDate, !b.upToDate),
			cmp.Compare(randomRank(u.Seed, a.ID), randomRank(u.Seed, b.ID)))
	})
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// nextSizes returns the sizes that the group must have next. Launches that have not come yet are
// cancelled. The maximum is as far above the original as the desired capacity is above its floor,
// unless somebody else has set it.
func nextSizes(u *cluster.Update, v *view) cluster.Sizes {
	want := v.group.Sizes
	if u.SizesReason != "" {
		return want
	}
	want.Desired = max(min(want.Desired, v.countPresent()), *u.DesiredFloor)
	most := u.OriginalSizes.Max + want.Desired - *u.DesiredFloor
	if u.UserMax != nil {
		most = *u.UserMax
	}
	want.Max = max(min(most, v.group.Max), want.Desired)
	return want
}

// recordRemainingSurplus adds an error that says why nodes are left that should have been removed.
func recordRemainingSurplus(u *cluster.Update, v *view) {
	surplus := countSurplus(u, v)
	if u.SizesReason != "" || surplus == 0 {
		return
	}
	addError(u, cluster.UpdateError{
		Code: cluster.PodEvictionFailure, Resources: slices.Clone(u.RetainedNodes), Message: fmt.Sprintf(
			"The group keeps %d more nodes than the %d it had, because no more could be drained: %s", surplus,
			*u.DesiredFloor, listFirst(u.RetainedReasons)),
	})
}

// finalStatus returns the status that the update ends with. Sizes other than the original ones get
// an explanation.
func finalStatus(u *cluster.Update, v *view) cluster.UpdateStatus {
	if u.OriginalSizes != nil && u.SizesReason == "" && countSurplus(u, v) == 0 && v.group.Sizes != *u.OriginalSizes {
		u.SizesReason = fmt.Sprintf("The group was changed by someone else: it stays at minimum %d, maximum %d "+
			"and desired %d, originally %d, %d and %d", v.group.Min, v.group.Max, v.group.Desired,
			u.OriginalSizes.Min, u.OriginalSizes.Max, u.OriginalSizes.Desired)
	}
	if len(u.Errors) > 0 {
		return cluster.UpdateFailed
	}
	return cluster.UpdateSuccessful
}
