package nodegroup

import (
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
)

// Fail makes an update fail because of an error that no retry can help, such as a refused call. The
// update first restores what it has changed, and then has the status Failed. An update that has
// ended stays as it is.
func Fail(u *cluster.Update, e cluster.UpdateError) *cluster.Update {
	if u.HasEnded() {
		return u
	}
	next := cloneUpdate(u)
	failUpdate(next, newView(next, Group{}, nil, time.Time{}), e)
	return next
}

// failUpdate makes the update restore everything that it has changed. A launch template version
// from which no node has become Ready is dropped; one with Ready nodes stays, and the update can be
// repeated from there.
func failUpdate(u *cluster.Update, v *view, errors ...cluster.UpdateError) {
	for _, e := range errors {
		addError(u, e)
	}
	if u.Phase == cluster.PhaseRestore {
		return
	}
	unproven := u.Phase == cluster.PhaseSetup || u.Phase == cluster.PhaseScaleUp ||
		len(v.nodes) > 0 && len(v.ready) == 0
	u.RevertTemplate = unproven && u.OriginalTemplate != "" && u.OriginalTemplate != u.Template
	u.Shortage, u.StalledSince, u.UnhealthyBefore, u.CurrentDomain, u.DomainReplacedAt = cluster.NodeShortage{},
		time.Time{}, nil, "", time.Time{}
	enterPhase(u, cluster.PhaseRestore)
	for k, w := range u.Removals {
		if w.Step != cluster.StepTerminate && w.Step != cluster.StepRelease { // a termination cannot be undone
			u.Removals[k] = toStep(w, cluster.StepRelease, v.now)
		}
	}
}

// addError adds an error to an update, unless the update has it already.
func addError(u *cluster.Update, e cluster.UpdateError) {
	isSame := func(known cluster.UpdateError) bool {
		return known.Code == e.Code && known.Message == e.Message && slices.Equal(known.Resources, e.Resources)
	}
	if !slices.ContainsFunc(u.Errors, isSame) {
		u.Errors = append(u.Errors, e)
	}
}

// EndWithoutGroup ends an update whose Auto Scaling group was deleted: no size, template or node is
// left to restore. It has no final sizes, so that a later group of the same name keeps its own. An
// update that has ended stays as it is.
func EndWithoutGroup(u *cluster.Update, group string, now time.Time) *cluster.Update {
	if u.HasEnded() {
		return u
	}
	next := Fail(u, GroupGoneError(group))
	next.WaitingFor = ""
	endUpdate(next, nil, nil, cluster.UpdateFailed, now)
	return next
}

// GiveUp is called if something that a failed update must restore is finally refused, or the group
// cannot be read.
//
// After as long as tasks have to leave a node, the update leaves the sizes as they are and only
// puts nodes back into service. After as long again it ends, and says what it leaves behind. Seen is
// the group as it was read; nil if it was not, and then the sizes that the update set last are
// taken.
//
// What is refused for a while and then allowed ends nothing: see [forgetPassedDenials].
func GiveUp(u *cluster.Update, why string, seen *Group, now time.Time) *cluster.Update {
	if u.HasEnded() {
		return u
	}
	next := cloneUpdate(u)
	beginAgain(next, now)
	v := newView(next, Group{}, nil, now)
	pauseWaits(&next.UpdateProgress, &next.NodeReplacement, now)
	next.WaitingFor = "permission to revert the changes: " + why
	switch {
	case next.WaitingSince.IsZero():
		next.WaitingSince = now
	case !v.hasElapsed(next.WaitingSince, next.Timeouts.Drain):
	case next.SizesReason == "":
		next.WaitingSince, next.SizesReason = time.Time{}, "The changes could not be reverted: "+why
		next.Denied = nil
	default:
		next.SizesReason += nodesLeftBehind(next)
		next.WaitingFor = ""
		final, scaleOuts := lastSeen(next, seen)
		endUpdate(next, &final, scaleOuts, cluster.UpdateFailed, now)
	}
	return next
}

// RecordDenied records which changes AWS has denied to a failed update that restores the group, for
// GiveUp. An update that has ended, or restores nothing, stays as it is.
func RecordDenied(u *cluster.Update, actions []Action, now time.Time) *cluster.Update {
	if u.HasEnded() || u.Phase != cluster.PhaseRestore || len(actions) == 0 {
		return u
	}
	next := cloneUpdate(u)
	for _, a := range actions {
		c := askFor(a, now)
		if !slices.ContainsFunc(next.Denied, func(d cluster.AskedChange) bool { return isSame(d, c) }) {
			next.Denied = append(next.Denied, c)
		}
	}
	return next
}

// forgetPassedDenials ends the wait for permission to restore the group once AWS allows again what
// it had denied: the group can be read, and each change that was denied shows or is not wanted any
// more. A termination is wanted until it shows, because a node that is not terminated in time is
// kept.
func forgetPassedDenials(u *cluster.Update, v *view, actions []Action) {
	if u.Phase != cluster.PhaseRestore || u.HasEnded() {
		return
	}
	u.Denied = slices.DeleteFunc(u.Denied, func(d cluster.AskedChange) bool {
		isWanted := d.Kind == string(Terminate) || slices.ContainsFunc(actions, func(a Action) bool {
			return string(a.Kind) == d.Kind && a.Instance == d.Instance
		})
		return !isWanted || isSeen(u, v, d)
	})
	if len(u.Denied) == 0 {
		u.WaitingSince, u.Denied = time.Time{}, nil
	}
}

// lastSeen returns the group's sizes, as far as they are known, and how often managed scaling had
// enlarged it then; nil if that is unknown.
func lastSeen(u *cluster.Update, seen *Group) (cluster.Sizes, *int) {
	switch {
	case seen != nil:
		return seen.Sizes, new(seen.ScaleOuts)
	case u.OriginalSizes == nil:
		return cluster.Sizes{}, nil
	}
	return enlargedSizes(u), nil
}

// nodesLeftBehind names the nodes that an update leaves out of service.
func nodesLeftBehind(u *cluster.Update) string {
	if len(u.Removals) == 0 {
		return ""
	}
	return "; these nodes may still be out of service: " + listFirst(instancesOf(u.Removals))
}

// RecordRefusals records why ECS has refused changes of single nodes, by EC2 instance id. An update
// that waits for them in vain says so. The result is the same pointer if it is all known already,
// or the update has ended.
func RecordRefusals(u *cluster.Update, why map[string]string) *cluster.Update {
	next := cloneUpdate(u)
	for id, said := range why {
		if next.Refusals == nil {
			next.Refusals = map[string]string{}
		}
		next.Refusals[id] = said
	}
	if u.HasEnded() || maps.Equal(next.Refusals, u.Refusals) {
		return u
	}
	return next
}

// BlockingTasks returns the tasks that would not leave a node once it is DRAINING, each with the
// reason (N4): protected tasks, tasks that no service replaces, and tasks that their service must
// keep.
//
// With force, only the tasks that even a forced update would not stop are returned; with
// forceProtected, none. Daemon tasks are left out: they leave last, and by themselves.
func BlockingTasks(i Instance, force, forceProtected bool) []string {
	var reasons []string
	u := &cluster.Update{UpdateSpec: cluster.UpdateSpec{ForceProtected: forceProtected}}
	for _, t := range i.remainingTasks() {
		stays := t.Protected || t.Task.Foreign || t.Task.Service == "" || t.BlockedReason != ""
		if stays && !t.Daemon && !t.isStopping() && !(force && mayStop(u, t)) {
			reasons = append(reasons, blockedReason(t, time.Time{}))
		}
	}
	return countRepeats(reasons)
}
