package placement

import (
	"slices"

	"berth/shared/placement/eligibility"
)

// A Rule names a rule that moves can repair.
type Rule string

// The rules. [cluster.Priorities] gives each a priority, except for RuleOccupied and for CPU,
// memory and interfaces, which always bind.
const (
	// RuleCapacity: an instance has more load of a metric than it takes without buffer and
	// overbooking (P10, P12, P13), or uses more CPU, memory or network interfaces than it has.
	RuleCapacity Rule = "capacity"
	// RulePlacement: an instance no longer satisfies the attributes and constraints of a task on it
	// (P8).
	RulePlacement Rule = "placement constraint"
	// RuleOccupied: an instance has more tasks of an owner than may share one.
	RuleOccupied Rule = "instance shared"
	// RuleFault and RuleUpgrade: the tasks of an owner are not spread as its domain policy asks (P3
	// to P5).
	RuleFault   Rule = "fault domain"
	RuleUpgrade Rule = "upgrade domain"
	// RuleAffinity: a task is on an instance without a task of the service that it is to be beside.
	RuleAffinity Rule = "affinity"
	// RuleApplication: an application has tasks on more instances than it may have (P20).
	RuleApplication Rule = "application"
	// RuleRoom: a task finds no instance (P11).
	RuleRoom Rule = "no room"
)

// ViolatesRules reports whether a task of the spec's owner is on an instance that it should not be
// on, or the domain rules do not allow the spread of the tasks. target is the owner's desired
// count. Instances marked in closed, by index, are ineligible for domains; nil marks none. With it, the call
// takes time in proportion to the cluster.
func (e *Engine) ViolatesRules(spec *Spec, target int, closed []bool) bool {
	c := chooserForRequest(e, &Request{Spec: spec, Target: target}, 0)
	if domains := c.domains; domains != nil {
		if closed != nil {
			domains = c.domainTemplate.newDomainsWithClosed(closed, c.domainRule, c.limited)
		}
		if fault, upgrade := domains.Excess(); fault+upgrade > 0 {
			return true
		}
	}
	if spec.Affinity == "" && c.maxPerInstance == 0 &&
		len(c.matcher.static.attributes)+len(c.matcher.static.constraints) == 0 {
		return false // its tasks may run anywhere
	}
	for _, t := range e.snap.TasksOf(spec.Owner) {
		v := e.snap.Instances[t.Instance]
		if !t.IsActive() || !t.HoldsCapacity() || v == nil || !eligibility.InCluster(v) || !v.IsAvailable() {
			continue
		}
		if !c.matcher.static.meetsRequirements(e, v.Index) && !slices.Contains(spec.Avoid, v.ID) ||
			c.maxPerInstance > 0 && c.limited.active.Of(int32(v.Index)) > c.maxPerInstance ||
			spec.Affinity != "" && !hasTaskOf(e, spec.Affinity, v.Index) {
			return true
		}
	}
	return false
}
