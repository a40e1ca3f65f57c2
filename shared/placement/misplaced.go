package placement

import (
	"slices"

	"berth/shared/placement/eligibility"
)

// ViolatesRules reports whether a task of the spec's owner is on an instance where it should not be,
// or the tasks are spread as the domain rules do not allow. target is the owner's desired count.
func (e *Engine) ViolatesRules(spec *Spec, target int) bool {
	c := chooserFor(e, &Request{Spec: spec, Target: target}, 0)
	if c.domains != nil {
		if fault, upgrade := c.domains.Excess(); fault+upgrade > 0 {
			return true
		}
	}
	if c.maxPerInstance == 0 && len(c.matcher.static.attributes)+len(c.matcher.static.constraints) == 0 {
		return false // they may be anywhere
	}
	for _, t := range e.snap.TasksOf(spec.Owner) {
		v := e.snap.Instances[t.Instance]
		if !t.IsActive() || !t.HoldsCapacity() || v == nil || !eligibility.InCluster(v) || !v.IsAvailable() {
			continue
		}
		if !c.matcher.static.passes[v.Index] && !slices.Contains(spec.Avoid, v.ID) || c.maxPerInstance > 0 &&
			c.counts.active[int32(v.Index)] > c.maxPerInstance {
			return true
		}
	}
	return false
}
