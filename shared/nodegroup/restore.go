package nodegroup

import (
	"time"

	"berth/shared/cluster"
)

var zero time.Time

// An update that failed leaves a group that can be used (N6): it launches from a template that works, every node that was
// taken out of service and is not being terminated is back, no node is unschedulable by its doing, and the surplus is
// taken back as after an update that succeeded, what never came into service first.

// takeBroken terminates new nodes that never came into service and have no task. What is not surplus is replaced, from the template
// that the group had before.
func (w *work) takeBroken() {
	free := w.surplus() - w.leaving()
	reverted := w.Revert && w.group.Template == w.OriginalTemplate
	for i := range w.members {
		m := &w.members[i]
		if m.Lifecycle == Terminating || !w.updated(m) || !w.broken(m) || w.At(m.ID) != nil {
			continue
		}
		if free <= 0 && !reverted {
			continue
		}
		n := w.take(m, free > 0)
		n.Broken = true
		w.to(n, cluster.StepTerminate)
		free--
	}
}

// broken reports whether nothing is lost with a new node. One that only lacks its labels takes tasks: it is emptied first.
func (w *work) broken(i *Instance) bool { return !i.connected() && len(i.held()) == 0 }

// mend leaves alone a node that has come into service after all.
func (w *work) mend() {
	for k := range w.Work {
		if n := &w.Work[k]; n.Broken && w.byID[n.Instance].Lifecycle != Terminating && !w.broken(w.byID[n.Instance]) {
			w.to(n, cluster.StepRelease)
		}
	}
}

// actRestore has the group launch from its original template again, where that is to be, and takes away the marks that
// the update has made on nodes that it is not working on.
func (w *work) actRestore() (out []Action) {
	if w.Revert && w.group.Template != w.OriginalTemplate {
		out = append(out, Action{Kind: UseTemplate, Template: w.OriginalTemplate})
	}
	for i := range w.members {
		if m := &w.members[i]; w.At(m.ID) == nil {
			out = append(out, w.actClear(m)...)
		}
	}
	return out
}
