package nodegroup

import (
	"fmt"
	"slices"

	"berth/shared/cluster"
)

// waiting says what the update waits for; empty where it waits only for what it does itself to take effect.
func (w *work) waiting() string {
	var of []string
	switch w.Phase {
	case cluster.PhaseSetup:
		return "the launch template version"
	case cluster.PhaseScaleUp:
		return w.waitingForNew()
	case cluster.PhaseUpgrade:
		of = w.waitingForTurn()
	}
	for k := range w.Work {
		of = append(of, w.waitingFor(&w.Work[k]))
	}
	return list(of)
}

func (w *work) waitingForNew() string {
	if want := w.enlarged(); w.group.Desired < want.Desired {
		return "the Auto Scaling group to be enlarged"
	}
	names := w.unproven()
	if n := w.group.Desired - w.count(); n > 0 {
		names = slices.Insert(names, 0, fmt.Sprintf("%d not launched", n))
		names = append(names, w.launchCauses()...)
	}
	return "new nodes to be Ready: " + list(names)
}

func (w *work) waitingForTurn() (of []string) {
	if n := w.missing(); n > 0 {
		of = append(of, fmt.Sprintf("%d new nodes to be Ready", n))
	}
	if len(w.unmarked()) > 0 {
		of = append(of, fmt.Sprintf("%d old nodes to be unschedulable", len(w.unmarked())))
	}
	switch next := w.nextDomain(); {
	case !w.ByDomain:
	case w.Domain != "" && !w.DomainDone.IsZero() && len(w.sickened()) > 0:
		of = append(of, "what is unhealthy after upgrade domain "+w.Domain+": "+list(w.sickened()))
	case w.Domain != "" && !w.DomainDone.IsZero() && w.Since.IsZero():
		of = append(of, "upgrade domain "+w.Domain+" to settle")
	case !w.Since.IsZero():
		of = append(of, "room for the load of upgrade domain "+next+": "+w.full(next))
	}
	return of
}

func (w *work) waitingFor(n *cluster.NodeWork) string {
	left := len(w.byID[n.Instance].held())
	switch n.Step {
	case cluster.StepDrain:
		if left == 0 || n.DrainingAt.IsZero() {
			return n.Instance + " to be DRAINING"
		}
		return fmt.Sprintf("tasks to leave %s: %s", n.Instance, w.blocks(n))
	case cluster.StepStop:
		return fmt.Sprintf("%d tasks stopped on %s", left, n.Instance)
	case cluster.StepCordon:
		return n.Instance + " to be cordoned for long enough"
	case cluster.StepTerminate:
		return n.Instance + " to be terminated"
	}
	return n.Instance + " to be back in service"
}
