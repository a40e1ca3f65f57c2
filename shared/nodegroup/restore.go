package nodegroup

import (
	"fmt"
	"slices"
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

// abandon no longer waits for nodes that ECS refuses to put back into service, once nothing else is under way, and reports
// whether there are any.
func (w *work) abandon() bool {
	var refused []string
	busy := w.sizes() != w.group.Sizes
	for k := range w.Work {
		n := &w.Work[k]
		busy = busy || n.Step != cluster.StepRelease
		refused = append(refused, n.Instance)
	}
	for _, a := range w.actRestore() {
		if busy = busy || a.Kind != Clear; a.Kind == Clear {
			refused = append(refused, a.Instance)
		}
	}
	refused = slices.DeleteFunc(refused, func(id string) bool { return w.Refused[id] == "" })
	if busy || len(refused) == 0 {
		w.Undoing = zero
		return false
	}
	if w.Undoing.IsZero() {
		w.Undoing = w.now
	}
	if !w.over(w.Undoing, w.Waits.Drain) {
		return false
	}
	for _, id := range refused {
		w.Abandoned = append(w.Abandoned, id)
		w.Errors = append(w.Errors, cluster.UpdateError{
			Code: cluster.OperationNotPermitted, Resources: []string{id},
			Message: fmt.Sprintf("Node %s is not put back into service: ECS refuses it%s", id, w.refusal(id)),
		})
	}
	w.sweep()
	return true
}

// actRestore has the group launch from its original template again, where that is to be, and takes away the marks that
// the update has made on nodes that it is not working on.
func (w *work) actRestore() (out []Action) {
	if w.Revert && w.group.Template != w.OriginalTemplate {
		out = append(out, Action{Kind: UseTemplate, Template: w.OriginalTemplate})
	}
	for i := range w.members {
		if m := &w.members[i]; w.At(m.ID) == nil && !slices.Contains(w.Abandoned, m.ID) {
			out = append(out, w.actClear(m)...)
		}
	}
	return out
}
