package nodegroup_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
)

// checker checks the world of an update without knowing how it decides: invariant 6, and the rules
// N3 to N5.
type checker struct {
	original    cluster.Sizes
	zones       map[string]int
	upToDate    map[string]bool // before the update began
	most        int             // nodes in service while old ones are replaced
	unavailable int
	faulty      bool // nodes are lost, or do not come, by themselves
	breaches    []string
}

// newChecker compares an update with the group as it was, or as it was before an earlier update
// that did not restore it.
func newChecker(w *world, u *cluster.Update) *checker {
	j := &checker{original: w.group.Sizes, zones: w.zones(), upToDate: map[string]bool{}}
	if w.checker != nil {
		j.breaches = w.checker.breaches
		if u.UnrestoredSizes != nil {
			j.original, j.zones = w.checker.original, w.checker.zones
		}
	}
	for id, v := range w.vms {
		j.upToDate[id] = v.Row != nil && v.Row.Attributes[nodegroup.LabelImage] == newImage
	}
	return j
}

func (w *world) zones() map[string]int {
	out := map[string]int{}
	for _, v := range w.vms {
		if v.Lifecycle != nodegroup.Terminating {
			out[v.Zone]++
		}
	}
	return out
}

func (j *checker) fail(format string, args ...any) {
	if j != nil && len(j.breaches) < 5 {
		j.breaches = append(j.breaches, fmt.Sprintf(format, args...))
	}
}

func (j *checker) failed() bool { return j != nil && len(j.breaches) > 0 }

// check fails the test for each violation.
func (w *world) check() {
	w.t.Helper()
	for _, b := range w.checker.breaches {
		w.t.Error(b)
	}
}

// plan checks all actions of a reconciliation together.
func (j *checker) plan(u *cluster.Update, instances []nodegroup.Instance, actions []nodegroup.Action) {
	resized, less := false, false
	for _, a := range actions {
		resized, less = resized || a.Kind == nodegroup.Resize, less || a.Decrement
		if a.Kind == nodegroup.Terminate && slices.ContainsFunc(instances, func(i nodegroup.Instance) bool {
			return i.ID == a.Instance && i.Lifecycle == nodegroup.Terminating
		}) {
			j.fail("%s is terminated once more (%s)", a.Instance, u.Phase)
		}
	}
	if resized && less {
		j.fail("the desired capacity is set and lowered at once: %v", actions)
	}
}

// before checks one action.
func (j *checker) before(w *world, u *cluster.Update, a nodegroup.Action) {
	v := w.vms[a.Instance]
	switch a.Kind {
	case nodegroup.Terminate:
		if v != nil && v.Lifecycle != nodegroup.Terminating && len(v.Tasks) > 0 && !u.Force {
			j.fail("%s is terminated with %d tasks", v.ID, len(v.Tasks))
		}
		if v != nil && v.Lifecycle != nodegroup.Terminating && v.ours && v.Row != nil && !u.Force &&
			w.now.Sub(v.emptyAt) < time.Minute {
			j.fail("%s is terminated %v after its last task left", v.ID, w.now.Sub(v.emptyAt))
		}
		if v != nil && v.Lifecycle == nodegroup.InService && v.Row != nil && v.Row.IsAvailable() {
			j.fail("%s is terminated while it takes tasks", v.ID)
		}
		if v != nil && v.Lifecycle != nodegroup.Terminating && a.Decrement && w.group.Desired <= j.original.Desired {
			j.fail("%s is terminated, and the desired capacity falls below the original", v.ID)
		}
	case nodegroup.Drain:
		if u.Phase == cluster.PhaseUpgrade && u.Config.Strategy != cluster.UpdateMinimal && !u.ByDomain {
			j.unmarked(w, a.Instance)
		}
	}
	if u.Phase == cluster.PhaseUpgrade && v != nil && j.upToDate[v.ID] {
		j.fail("%s: it was up to date before (%v)", v.ID, a)
	}
}

// unmarked fails for an old node that accepts tasks while others are drained (N3).
func (j *checker) unmarked(w *world, drained string) {
	for _, v := range w.sorted() {
		if v.image == newImage || v.Row == nil || v.Lifecycle != nodegroup.InService {
			continue
		}
		if _, marked := v.Row.Attributes[cluster.AttributeUnschedulable]; !marked {
			j.fail("%s is drained while %s takes new tasks", drained, v.ID)
		}
	}
}

// after checks the world once all actions of a reconciliation are done.
func (j *checker) after(w *world, u *cluster.Update) {
	if w.group.Min != j.original.Min {
		j.fail("the minimum is %d, was %d", w.group.Min, j.original.Min)
	}
	out, serving := 0, 0
	for _, v := range w.vms {
		if w.stopNodes[v.ID] {
			continue
		}
		live := v.Row != nil && v.Row.AgentConnected && v.Lifecycle != nodegroup.Terminating
		if live && v.Row.Status == cluster.InstanceActive {
			serving++
		}
		if v.ours && (v.Lifecycle == nodegroup.Terminating || live && v.Row.Status == cluster.InstanceDraining) &&
			v.Row != nil && v.Row.AgentConnected {
			out++
		}
		if v.ours && live && v.Row.Status == cluster.InstanceDraining && !u.Force && len(v.Tasks) > 0 {
			// After 15 minutes the update puts the node back, and tries again a minute after a lost call.
			if v.drained < 15*time.Minute || w.now.Sub(w.lostAt) >= time.Minute {
				v.drained += step // while somebody is awake
			}
			if v.drained > 18*time.Minute { // 15, and what the last steps take
				j.fail("%s is DRAINING for %v", v.ID, v.drained)
			}
		} else {
			v.drained = 0
		}
	}
	if j.unavailable == 0 {
		j.unavailable = u.MaxUnavailable // as the update noted it first
	}
	if most := max(j.unavailable, 1); out > most {
		j.fail("%d nodes are out of service at once, at most %d may be (%s)", out, most, u.Phase)
	}
	if u.Phase == cluster.PhaseUpgrade {
		j.most = max(j.most, serving)
		if !j.faulty && w.failing == nil && serving < j.most-j.unavailable {
			j.fail("%d nodes are in service, of %d at most %d may be missing", serving, j.most, j.unavailable)
		}
	}
	for _, n := range u.Removals {
		if u.Phase == cluster.PhaseRestore && !n.Surplus && n.Step != cluster.StepTerminate &&
			n.Step != cluster.StepRelease {
			j.fail("%s is in step %s of an update that has failed", n.Instance, n.Step)
		}
	}
	if u.HasEnded() {
		j.end(w, u)
	}
}

// end checks what an update leaves behind.
func (j *checker) end(w *world, u *cluster.Update) {
	explained := u.SizesReason != ""
	for _, e := range u.Errors {
		explained = explained || len(u.RetainedNodes) > 0 && e.Code == cluster.PodEvictionFailure
	}
	if w.group.Sizes != j.original && !explained {
		j.fail("the sizes are %+v, were %+v, and nothing says why (%s)", w.group.Sizes, j.original, u.Status)
	}
	if *u.FinalSizes != w.group.Sizes {
		j.fail("the sizes are %+v, the update says %+v", w.group.Sizes, *u.FinalSizes)
	}
	for _, v := range w.sorted() {
		if v.Row == nil || v.Lifecycle != nodegroup.InService {
			continue
		}
		if mark, marked := v.Row.Attributes[cluster.AttributeUnschedulable]; marked && mark == u.ID {
			j.fail("%s is left unschedulable", v.ID)
		}
		if v.ours && v.Row.Status != cluster.InstanceActive {
			j.fail("%s is left %s", v.ID, v.Row.Status)
		}
	}
	if u.Status != cluster.UpdateSuccessful {
		return
	}
	for _, v := range w.sorted() {
		if v.image != newImage && v.Lifecycle != nodegroup.Terminating {
			j.fail("%s is not up to date", v.ID)
		}
	}
	if zones := w.zones(); !j.faulty && u.SizesReason == "" && !maps.Equal(zones, j.zones) {
		j.fail("the zones have %v, had %v", zones, j.zones)
	}
}
