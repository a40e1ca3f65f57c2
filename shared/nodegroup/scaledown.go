package nodegroup

import (
	"cmp"
	"fmt"
	"slices"

	"berth/shared/cluster"
)

// shrink takes the surplus back, one node at a time, until the group has its original sizes (N5). Which node goes is not
// left to the Auto Scaling group, whose own choice takes tasks with it: one is emptied first, in a zone that has more
// than it had. An update that failed comes here, too, see restore.go.
func (w *work) shrink() {
	if w.Original == nil {
		w.end(w.outcome())
		return
	}
	w.sweep()
	w.setFloor()
	switch enlarged := w.SeenDesired > 0 && w.group.Desired > max(w.SeenDesired, *w.Floor); {
	case w.Stopped != "":
	case w.group.Growing:
		w.yield("Managed scaling is growing the group")
	case enlarged: // a target tracking policy, or its owner
		w.yield("Somebody else has enlarged the group")
	}
	w.SeenDesired = w.group.Desired
	if w.Stopped != "" {
		w.releaseAll()
	}
	w.mend()
	for k := range w.Work {
		if n := &w.Work[k]; !w.step(n) {
			w.keep(n, w.blocks(n))
		}
	}
	w.forget()
	w.spare()
	if w.Stopped == "" {
		if w.Phase == cluster.PhaseRestore {
			w.takeBroken()
		}
		w.takeSurplus()
	}
	if w.abandon() {
		return // what waited for them goes on
	}
	if len(w.Work) == 0 && len(w.actShrink()) == 0 {
		w.explain()
		w.end(w.outcome())
	}
}

// keep puts back a node that cannot be taken.
func (w *work) keep(n *cluster.NodeWork, why string) {
	w.Kept, w.Blocked = append(w.Kept, n.Instance), append(w.Blocked, n.Instance+": "+why)
	w.to(n, cluster.StepRelease)
}

// forget leaves alone what takes too long to be gone: the sizes do not wait for it.
func (w *work) forget() {
	for _, n := range w.late() {
		if w.byID[n.Instance].Lifecycle != Terminating {
			w.keep(n, "it was terminated and stays")
		}
	}
	w.Work = slices.DeleteFunc(w.Work, func(n cluster.NodeWork) bool {
		return n.Step == cluster.StepTerminate && w.over(n.Since, w.Waits.Terminate)
	})
}

// setFloor notes the desired capacity to come back to: the original, and what somebody else has added since. A minimum that was
// raised meanwhile holds.
func (w *work) setFloor() {
	if w.Floor == nil {
		before := w.Original.Desired + w.Added
		w.Floor, w.FloorAt = new(before+max(0, w.group.Desired-before-w.Surge)), w.now
	}
	if *w.Floor < w.group.Min {
		w.Floor = new(w.group.Min)
	}
}

// watchMax notes a maximum that neither was there nor was set by the update: somebody else's.
func (w *work) watchMax() {
	if w.Original != nil && !slices.Contains(w.Maxima, w.group.Max) {
		w.Maxima, w.UserMax = append(w.Maxima, w.group.Max), new(w.group.Max)
	}
}

// noteMax notes the maximum that the group is given.
func (w *work) noteMax(actions []Action) {
	for _, a := range actions {
		if a.Kind == Resize && !slices.Contains(w.Maxima, a.Max) {
			w.Maxima = append(w.Maxima, a.Max)
		}
	}
}

// yield leaves the sizes to whoever has enlarged the group, at once: its nodes are wanted.
func (w *work) yield(why string) {
	w.Floor = new(w.group.Desired)
	w.Stopped = fmt.Sprintf(why+": it stays at maximum %d and desired %d, originally %d and %d",
		w.group.Max, w.group.Desired, w.Original.Max, w.Original.Desired)
}

// releaseAll puts back into service what is not being terminated yet.
func (w *work) releaseAll() {
	for k := range w.Work {
		if n := &w.Work[k]; n.Step != cluster.StepRelease && w.byID[n.Instance].Lifecycle != Terminating {
			w.to(n, cluster.StepRelease)
		}
	}
}

// surplus is how many nodes too many there are.
func (w *work) surplus() int { return max(0, w.group.Desired-*w.Floor) }

// leaving is how many nodes of the surplus are being taken out.
func (w *work) leaving() (n int) {
	for _, x := range w.Work {
		if x.Surplus && x.Step != cluster.StepRelease && w.byID[x.Instance].Lifecycle != Terminating {
			n++
		}
	}
	return n
}

// spare puts back what is not surplus any more.
func (w *work) spare() {
	over := w.leaving() - w.surplus()
	for k := len(w.Work) - 1; k >= 0 && over > 0; k-- {
		n := &w.Work[k]
		if n.Surplus && n.Step != cluster.StepRelease && w.byID[n.Instance].Lifecycle != Terminating {
			w.to(n, cluster.StepRelease)
			over--
		}
	}
}

// takeSurplus begins with the next node once the last is gone.
func (w *work) takeSurplus() {
	broken := func(n cluster.NodeWork) bool { return n.Broken }
	if w.surplus() <= w.leaving() || w.count() < w.group.Desired || !all(w.Work, broken) {
		return
	}
	if i := w.victim(); i != nil {
		w.take(i, true)
	}
}

func all[T any](of []T, is func(T) bool) bool {
	return !slices.ContainsFunc(of, func(x T) bool { return !is(x) })
}

// attempts is how many nodes of the surplus may turn out not to get empty before the rest of it is left: each takes as
// long as tasks have to leave a node.
const attempts = 5

// victim is the node that is missed least: in the zone with most nodes more than it had, not in service, with the fewest
// tasks that would not leave and the fewest at all, not up to date; nil where none is left to try, or enough were tried.
func (w *work) victim() *Instance {
	count := map[string]int{}
	var of []*Instance
	for i := range w.members {
		m := &w.members[i]
		if m.Lifecycle == Terminating {
			continue
		}
		count[m.Zone]++
		if w.At(m.ID) == nil && !slices.Contains(w.Kept, m.ID) {
			of = append(of, m)
		}
	}
	if len(of) == 0 || len(w.Kept) >= attempts {
		return nil
	}
	return slices.MinFunc(of, func(a, b *Instance) int {
		return cmp.Or(
			cmp.Compare(count[b.Zone]-w.Zones[b.Zone], count[a.Zone]-w.Zones[a.Zone]),
			first(!a.connected(), !b.connected()),
			cmp.Compare(blocking(a, leaves), blocking(b, leaves)),
			cmp.Compare(blocking(a, isDaemon), blocking(b, isDaemon)),
			first(!w.updated(a), !w.updated(b)),
			cmp.Compare(w.chance(a), w.chance(b)),
		)
	})
}

func leaves(t Task) bool   { return t.Service != "" && !t.Protected && !t.Foreign || stopping(t) }
func isDaemon(t Task) bool { return t.Daemon }

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// sizes are what the group is to have next: without the launches that have not come yet, and with a maximum that is as
// far above the original as the desired capacity is above where it goes, or that somebody else has set.
func (w *work) sizes() cluster.Sizes {
	want := w.group.Sizes
	if w.Stopped != "" {
		return want
	}
	if count := w.count(); want.Desired > *w.Floor && count < want.Desired {
		want.Desired = count
	}
	want.Desired = max(want.Desired, *w.Floor)
	most := w.Original.Max + want.Desired - *w.Floor
	if w.UserMax != nil {
		most = *w.UserMax
	}
	want.Max = max(min(most, w.group.Max), want.Desired)
	return want
}

// mayTerminate reports whether a node of the surplus may be terminated: not together with a change of the sizes, as both
// set the desired capacity.
func (w *work) mayTerminate() bool { return w.sizes() == w.group.Sizes }

func (w *work) actShrink() (out []Action) {
	out = w.actRestore()
	if want := w.sizes(); want != w.group.Sizes {
		out = append(out, Action{Kind: Resize, Max: want.Max, Desired: want.Desired})
	}
	for k := range w.Work {
		out = append(out, w.actOn(&w.Work[k])...)
	}
	return out
}

// explain says why nodes are left that should have been taken back.
func (w *work) explain() {
	if w.Stopped != "" || w.surplus() == 0 {
		return
	}
	w.Errors = append(w.Errors, cluster.UpdateError{
		Code: cluster.PodEvictionFailure, Resources: slices.Clone(w.Kept), Message: fmt.Sprintf(
			"The group keeps %d nodes more than the %d it had, as those tried could not be emptied: %s", w.surplus(), *w.Floor, list(w.Blocked)),
	})
}

// outcome is the status that the update ends with. Sizes that are not the original ones are explained.
func (w *work) outcome() cluster.UpdateStatus {
	if w.Original != nil && w.Stopped == "" && w.surplus() == 0 && w.group.Sizes != *w.Original {
		w.Stopped = fmt.Sprintf("Somebody else has changed the group: it stays at minimum %d, maximum %d and desired %d, originally %d, %d and %d",
			w.group.Min, w.group.Max, w.group.Desired, w.Original.Min, w.Original.Max, w.Original.Desired)
	}
	if len(w.Errors) > 0 {
		return cluster.UpdateFailed
	}
	return cluster.UpdateSuccessful
}
