package nodegroup

import "berth/shared/cluster"

// Stays are the tasks of a node that would not leave it once it is DRAINING, each with why not (N4): protected ones, those that
// no service replaces, and those that their service's percentages hold. force has what remains if the update may stop them: with
// protected, nothing. Daemons leave last, and of themselves.
func Stays(i Instance, force, protected bool) []string {
	var out []string
	w := &work{Update: &cluster.Update{UpdateSpec: cluster.UpdateSpec{ForceProtected: protected}}}
	for _, t := range i.held() {
		rests := t.Protected || t.Foreign || t.Service == "" || t.Why != ""
		if !rests || t.Daemon || stopping(t) || force && w.mayStop(t) {
			continue
		}
		out = append(out, w.block(&cluster.NodeWork{}, t))
	}
	return once(out)
}
