package placement

import (
	"slices"

	"berth/shared/placement/eligibility"
)

// IsMisplaced reports whether a task of the spec's owner is on an instance where it should not be,
// or the tasks are spread as the domain rules do not allow. target is the owner's desired count.
func (e *Engine) IsMisplaced(spec *Spec, target int) bool {
	c := classFor(e, &Request{Spec: spec, Target: target}, 0)
	if c.domains != nil {
		if fault, upgrade := c.domains.Excess(); fault+upgrade > 0 {
			return true
		}
	}
	if c.most == 0 && len(c.members.mask.attributes)+len(c.members.mask.rules) == 0 {
		return false // they may be anywhere
	}
	for _, t := range e.snap.TasksOf(spec.Owner) {
		v := e.snap.Instances[t.Instance]
		if !t.IsActive() || !t.HoldsCapacity() || v == nil || !eligibility.InCluster(v) || !v.IsAvailable() {
			continue
		}
		if !c.members.mask.passes[v.Index] && !slices.Contains(spec.Avoid, v.ID) || c.most > 0 &&
			c.tally.active[int32(v.Index)] > c.most {
			return true
		}
	}
	return false
}
