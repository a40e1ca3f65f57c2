package nodegroup

import (
	"cmp"
	"hash/fnv"
	"slices"

	"berth/shared/cluster"
)

func (w *work) beginUpgrade() {
	w.Nodes = w.inPlace()
	w.enter(cluster.PhaseUpgrade)
}

// upgrade replaces old nodes, as many at a time as may be out of service: what is being taken out, and what was and has
// no Ready node in its place yet (N4, invariant 6). Where nodes have upgrade domains, one domain at a time (N7).
func (w *work) upgrade() {
	w.sweep()
	var stuck []*cluster.NodeWork
	for k := range w.Work {
		if n := &w.Work[k]; !w.step(n) {
			stuck = append(stuck, n)
		}
	}
	w.keepTime()
	switch {
	case len(stuck) > 0:
		w.fail(w.evictionErrors(stuck)...)
		return
	case len(w.late()) > 0:
		w.fail(w.terminationError(w.late()))
		return
	case w.missing() > 0 && w.over(w.Short.Since, w.Waits.Launch):
		w.fail(w.creationErrors()...)
		return
	}
	if w.ByDomain && !w.turn() {
		return
	}
	if w.pick(); w.Phase != cluster.PhaseUpgrade {
		return
	}
	if len(w.old()) == 0 && w.missing() == 0 {
		w.enter(cluster.PhaseScaleDown)
	}
}

// inPlace is how many nodes there are, new ones that are not Ready and those on their way out not included.
func (w *work) inPlace() int {
	old := slices.DeleteFunc(w.old(), func(i *Instance) bool { return i.Lifecycle == Terminating })
	return len(old) + w.readyCount()
}

// missing is how many nodes have gone since the first old one was taken out and have no Ready one in their place; a
// desired capacity that was lowered since is not made up for.
func (w *work) missing() int {
	return max(0, min(w.Nodes, w.group.Desired)-len(w.old())-w.readyCount())
}

// keepTime notes since when nodes have been missing without any getting Ready. Those that come late count from then on.
func (w *work) keepTime() {
	ready := w.readyCount()
	w.Nodes = max(w.Nodes, w.inPlace())
	switch {
	case w.missing() == 0:
		w.Short = cluster.NodeShortage{}
	case w.Short.Since.IsZero() || ready > w.Short.Ready:
		w.Short = cluster.NodeShortage{Since: w.now, Ready: ready}
	}
}

// late are the nodes whose termination takes too long.
func (w *work) late() (out []*cluster.NodeWork) {
	for k := range w.Work {
		if n := &w.Work[k]; n.Step == cluster.StepTerminate && w.over(n.Since, w.Waits.Terminate) {
			out = append(out, n)
		}
	}
	return out
}

// pick takes old nodes at random, once all that are to be unschedulable are.
func (w *work) pick() {
	if w.stalled() || len(w.unmarked()) > 0 {
		return
	}
	free := w.MaxUnavailable - len(w.Work) - w.missing()
	for _, i := range w.order(w.candidates()) {
		if free <= 0 {
			return
		}
		w.take(i, false)
		free--
	}
}

// stalled fails an update that waits in vain: for old nodes to be unschedulable, or for those that somebody else is taking out
// to be gone, as one in Standby never is.
func (w *work) stalled() bool {
	of, wait, why := w.unmarked(), w.Waits.Drain, "Nodes cannot be made unschedulable: "
	if len(of) == 0 && len(w.Work) == 0 && len(w.candidates()) == 0 {
		of, wait, why = w.oldOfTurn(), w.Waits.Terminate, "Instances are neither in service nor gone: "
	}
	switch {
	case len(of) == 0:
		w.Stalled = zero
	case w.Stalled.IsZero():
		w.Stalled = w.now
	case w.over(w.Stalled, wait):
		var ids, whys []string
		for _, i := range of {
			ids, whys = append(ids, i.ID), append(whys, i.ID+w.refusal(i.ID))
		}
		w.fail(cluster.UpdateError{Code: cluster.OperationNotPermitted, Message: why + list(whys), Resources: ids})
		return true
	}
	return false
}

// oldOfTurn are the old nodes, those of the upgrade domain whose turn it is where there are any.
func (w *work) oldOfTurn() []*Instance {
	return slices.DeleteFunc(w.old(), func(i *Instance) bool { return w.ByDomain && i.UpgradeDomain() != w.Domain })
}

// candidates are the old nodes whose turn it is and that nobody has taken.
func (w *work) candidates() []*Instance {
	return slices.DeleteFunc(w.old(), func(i *Instance) bool {
		return i.Lifecycle == Terminating || w.At(i.ID) != nil || w.ByDomain && i.UpgradeDomain() != w.Domain
	})
}

// unmarked are the nodes that are to be unschedulable and are not yet (N3): all old ones, or those of the upgrade domain
// whose turn it is, as the others are to take its tasks. MINIMAL has no new nodes that could take them, so there a node is
// schedulable until it is taken.
func (w *work) unmarked() []*Instance {
	if w.Config.Strategy == cluster.UpdateMinimal {
		return nil
	}
	return slices.DeleteFunc(w.candidates(), func(i *Instance) bool { return len(w.actMark(i)) == 0 })
}

func (w *work) actUpgrade() (out []Action) {
	for _, i := range w.unmarked() {
		out = append(out, w.actMark(i)...)
	}
	for k := range w.Work {
		out = append(out, w.actOn(&w.Work[k])...)
	}
	return out
}

// order is the order by chance in which nodes are taken.
func (w *work) order(of []*Instance) []*Instance {
	slices.SortStableFunc(of, func(a, b *Instance) int {
		return cmp.Or(cmp.Compare(w.chance(a), w.chance(b)), compare(a.ID, b.ID))
	})
	return of
}

// chance is a number that seed and node decide and that looks like any other (the finalizer of SplitMix64).
func (w *work) chance(i *Instance) uint64 {
	sum := fnv.New64a()
	sum.Write([]byte(i.ID))
	h := w.Seed + 0x9e3779b97f4a7c15 ^ sum.Sum64()
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Order is the order in which an update takes the old nodes that are left out of service: by chance, upgrade domain
// after upgrade domain where there are any. What it answers before the update has begun holds if no node comes or goes.
func Order(u *cluster.Update, instances []Instance) []string {
	w := newWork(u, instances)
	by := w.ByDomain
	for _, i := range w.members {
		by = by || w.Original == nil && i.Row != nil && i.Row.Attributes[cluster.AttributeUpgrade] != ""
	}
	old := w.order(w.old())
	if by {
		slices.SortStableFunc(old, func(a, b *Instance) int { return byNumber(a.UpgradeDomain(), b.UpgradeDomain()) })
	}
	ids := make([]string, len(old))
	for k, i := range old {
		ids[k] = i.ID
	}
	return ids
}
