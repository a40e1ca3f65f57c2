package nodegroup

import (
	"slices"

	"berth/shared/cluster"
)

// A node is taken out of service in steps: DRAINING until its tasks have left, or have been stopped by force; a while
// without any, so that nothing is sent there any more; terminated through the group (N4).

// step takes a node one step further, and reports false where its tasks do not leave in time.
func (w *work) step(n *cluster.NodeWork) bool {
	i := w.byID[n.Instance]
	if i.Lifecycle == Terminating && n.Step != cluster.StepTerminate {
		w.to(n, cluster.StepTerminate)
	}
	switch n.Step {
	case cluster.StepDrain:
		return w.drain(n, i)
	case cluster.StepStop:
		if blocking(i, w.mayStop) > 0 {
			return false
		}
		if len(i.held()) == 0 || w.over(n.Since, w.Waits.Stop) {
			w.to(n, cluster.StepCordon)
		}
	case cluster.StepCordon, cluster.StepTerminate:
		switch {
		case i.Lifecycle == Terminating:
		case !w.empty(n, i):
			n.Step, n.Since, n.Forced = cluster.StepDrain, n.DrainingAt, false
		case n.Step == cluster.StepCordon && w.nearlyOver(n.Since, w.Waits.Cordon): // whoever terminates it asks ECS for the rest
			w.to(n, cluster.StepTerminate)
		}
	}
	return true
}

// empty reports whether a node has no task left, or by force none that counts.
func (w *work) empty(n *cluster.NodeWork, i *Instance) bool {
	return len(i.held()) == 0 || n.Forced && blocking(i, w.mayStop) == 0
}

func (w *work) to(n *cluster.NodeWork, s cluster.NodeStep) { n.Step, n.Since = s, w.now }

func (w *work) drain(n *cluster.NodeWork, i *Instance) bool {
	if i.node() == "" {
		w.to(n, cluster.StepCordon)
		return true
	}
	if !i.draining() {
		if n.Since.IsZero() {
			n.Since = w.now
		}
		return !w.over(n.Since, w.Waits.Terminate)
	}
	if n.DrainingAt.IsZero() {
		n.DrainingAt, n.Since = w.now, w.now
	}
	if len(i.held()) == 0 {
		w.to(n, cluster.StepCordon)
		return true
	}
	if !w.over(n.Since, w.Waits.Drain) {
		return true
	}
	if !w.Force {
		return false
	}
	n.Forced = true
	w.to(n, cluster.StepStop)
	return true
}

// mayStop reports whether force may stop a task.
func (w *work) mayStop(t Task) bool { return !t.Protected || w.ForceProtected || stopping(t) }

func blocking(i *Instance, may func(Task) bool) int {
	return len(slices.DeleteFunc(i.held(), may))
}

func stopping(t Task) bool {
	return t.Desired == cluster.TaskStopped || t.Last == cluster.TaskStopping
}

// actOn is what the work on a node wants done.
func (w *work) actOn(n *cluster.NodeWork) (out []Action) {
	i := w.byID[n.Instance]
	if n.Step == cluster.StepRelease {
		return w.actRelease(n, i)
	}
	if n.Step == cluster.StepTerminate {
		if i.Lifecycle != Terminating && (!n.Surplus || w.mayTerminate()) {
			a := Action{Kind: Terminate, Instance: i.ID, Decrement: n.Surplus}
			if len(i.held()) == 0 {
				a.Node = i.node()
			}
			out = append(out, a)
		}
		return out
	}
	if i.node() == "" {
		return nil
	}
	out = w.actMark(i)
	if !i.draining() {
		out = append(out, Action{Kind: Drain, Instance: i.ID, Node: i.node()})
	}
	if n.Forced {
		var ids []string
		for _, t := range i.held() {
			if !stopping(t) && w.mayStop(t) {
				ids = append(ids, t.ID)
			}
		}
		if len(ids) > 0 {
			out = append(out, Action{Kind: StopTasks, Instance: i.ID, Node: i.node(), Tasks: ids})
		}
	}
	return out
}

func (w *work) actMark(i *Instance) []Action {
	if _, marked := i.mark(); marked || i.node() == "" {
		return nil
	}
	return []Action{{Kind: Mark, Instance: i.ID, Node: i.node()}}
}

// actRelease puts a node back into service; nothing is left to do where it is, see [work.released].
func (w *work) actRelease(n *cluster.NodeWork, i *Instance) (out []Action) {
	if i.draining() && !n.Foreign {
		out = append(out, Action{Kind: Activate, Instance: i.ID, Node: i.node()})
	}
	return append(out, w.actClear(i)...)
}

// actClear takes the update's own mark from a node.
func (w *work) actClear(i *Instance) []Action {
	if value, _ := i.mark(); value != w.ID {
		return nil
	}
	return []Action{{Kind: Clear, Instance: i.ID, Node: i.node()}}
}

func (w *work) released(n *cluster.NodeWork) bool {
	return n.Step == cluster.StepRelease && len(w.actRelease(n, w.byID[n.Instance])) == 0
}

// sweep forgets the nodes that are gone, and those that are back in service.
func (w *work) sweep() {
	w.Work = slices.DeleteFunc(w.Work, func(n cluster.NodeWork) bool {
		return w.byID[n.Instance] == nil || w.released(&n) || n.Step == cluster.StepRelease && slices.Contains(w.Abandoned, n.Instance)
	})
	if len(w.Work) == 0 {
		w.Work = nil
	}
}

// take begins to take a node out of service.
func (w *work) take(i *Instance, surplus bool) *cluster.NodeWork {
	w.Work = append(w.Work, cluster.NodeWork{
		Instance: i.ID, Node: i.node(), Step: cluster.StepDrain, Foreign: i.draining(), Surplus: surplus,
	})
	return &w.Work[len(w.Work)-1]
}

// release has the work on a node undone; one that is being terminated already is beyond that.
func (w *work) release(n *cluster.NodeWork) {
	if n.Step != cluster.StepTerminate && n.Step != cluster.StepRelease {
		w.to(n, cluster.StepRelease)
	}
}
