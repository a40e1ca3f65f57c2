package domain

import "berth/shared/cluster"

// Standing is what an instance is to one service's domains.
type Standing uint8

// The standings. A domain without an Eligible instance is no domain: the tasks there count for no
// other (Service Fabric's PartitionDomainTree).
const (
	// Away is unknown or gone: it is in no domain.
	Away Standing = iota
	// Closed is in the cluster and takes no task of anybody: DRAINING, unschedulable, its agent
	// disconnected.
	Closed
	// Barred takes tasks, but none of this service: a constraint, an attribute, [Spec.Avoid].
	Barred
	// Eligible takes tasks of this service where there is room.
	Eligible
)

// Rule is which domain rules hold for a service. The zero value is none.
type Rule struct {
	Policy cluster.DomainPolicy
	Target int // desired count: quorum safety and the adaptive choice go by it, whatever runs (P4, P5)
	// QuorumFault, QuorumUpgrade and NoSwitch are [cluster.Configuration]'s.
	QuorumFault, QuorumUpgrade, NoSwitch bool
	// NoFault and NoUpgrade leave a dimension out: its priority is negative, or it is soft and
	// given up. NoConstraints lets domains without an [Eligible] instance have as many tasks as the
	// others may, for the same reasons.
	NoFault, NoUpgrade, NoConstraints bool
}

// RuleOf is the rule for a service of that policy and desired count in a cluster so configured.
// Soft dimensions hold; those whose priority is negative do not.
func RuleOf(policy cluster.DomainPolicy, target int, c *cluster.Configuration) Rule {
	if policy == "" {
		policy = c.DomainPolicy
	}
	return Rule{
		Policy: policy, Target: target,
		QuorumFault: c.QuorumFault, QuorumUpgrade: c.QuorumUpgrade, NoSwitch: c.NoSwitch,
		NoFault: c.Priorities.FaultDomain < 0, NoUpgrade: c.Priorities.UpgradeDomain < 0,
		NoConstraints: c.Priorities.Placement < 0,
	}
}

// Governs reports whether the policy is one of Service Fabric's: domain rules bind, and no two
// tasks of the service share an instance.
func (r Rule) Governs() bool { return r.Policy != "" && r.Policy != cluster.PolicyNone }

// Domains are the fault and upgrade domains of one service with the tasks that it has in them
// (P1–P6). Instances go by their dense index. Nothing but creation allocates in the steady state.
type Domains struct {
	standing       []Standing
	fault, upgrade domainTree
	rule           Rule
	auto           bool
	chosen         [2]domainRule // of fault and upgrade domains, before any dimension is left out
}

// NewDomains builds the domains, without tasks: fault[i] is "fd:/dc1/r0" and upgrade[i] a label;
// where one is empty that dimension has no rule for the instance. Fault domains are built only if
// two instances share one at the top; else every instance is a domain of its own, and one task per
// instance is all the rule could ask. Upgrade domains count always, but their rule is dropped where
// none holds two instances.
func NewDomains(fault, upgrade []string, standing []Standing, rule Rule) *Domains {
	d := &Domains{standing: standing}
	d.fault.build(fault, standing, faultPath)
	d.upgrade.build(upgrade, standing, func(label string) []string { return []string{label} })
	if !d.fault.shared() {
		d.fault = domainTree{}
	}
	d.SetRule(rule)
	return d
}

// SetRule puts another rule in place of the one that holds, the tasks staying where they are: the
// desired count changed, or a soft dimension is given up.
func (d *Domains) SetRule(rule Rule) {
	d.rule = rule
	d.auto = !rule.NoSwitch && d.divides(rule.Target)
	fault, upgrade := d.kinds()
	d.chosen = [2]domainRule{fault, upgrade}
	if rule.NoFault {
		fault = ruleNone
	}
	if rule.NoUpgrade || !d.upgrade.crowded {
		upgrade = ruleNone
	}
	d.fault.settle(fault, rule.Target)
	d.upgrade.settle(upgrade, rule.Target)
}

// divides is the adaptive choice (P5): the target divides evenly by fault domains and by upgrade
// domains, counted where the tree first branches, and there are no more eligible instances than
// their product.
func (d *Domains) divides(target int) bool {
	faults, upgrades := d.fault.branches(), d.upgrade.branches()
	if target <= 0 || faults == 0 || upgrades == 0 || target%faults != 0 || target%upgrades != 0 {
		return false
	}
	return max(d.fault.hosts(), d.upgrade.hosts()) <= faults*upgrades
}

// kinds is which rule holds in each dimension. Nonpacking and ignore concern fault domains only.
func (d *Domains) kinds() (fault, upgrade domainRule) {
	switch d.rule.Policy {
	case cluster.PolicyDifference:
		fault, upgrade = ruleDifference, ruleDifference
	case cluster.PolicyQuorum:
		fault, upgrade = ruleQuorum, ruleQuorum
	case cluster.PolicyAdaptive:
		fault, upgrade = d.adaptive(d.rule.QuorumFault), d.adaptive(d.rule.QuorumUpgrade)
	case cluster.PolicyNonpacking:
		fault, upgrade = ruleNonpacking, d.adaptive(d.rule.QuorumUpgrade)
	case cluster.PolicyIgnore:
		upgrade = d.adaptive(d.rule.QuorumUpgrade)
	}
	return fault, upgrade
}

func (d *Domains) adaptive(forced bool) domainRule {
	if forced || d.auto {
		return ruleQuorum
	}
	return ruleDifference
}

// Logic reports whether quorum safety is the choice for fault and for upgrade domains (P5), whether
// or not the dimension has a rule at the time: maximum difference, nonpacking or none is where it
// is not.
func (d *Domains) Logic() (quorumFault, quorumUpgrade bool) {
	return d.chosen[0] == ruleQuorum, d.chosen[1] == ruleQuorum
}

// Leaves is how many ids [Domains.Fault] gives, from 0; 0 where fault domains have no rule.
func (d *Domains) Leaves() int { return d.fault.ids() }

// UpgradeDomains is how many ids [Domains.Upgrade] gives, from 0; 0 where upgrade domains have no
// rule.
func (d *Domains) UpgradeDomains() int { return d.upgrade.ids() }

// Fault is the instance's lowest fault domain; -1 where no rule concerns it.
func (d *Domains) Fault(i int) int { return d.fault.id(i) }

// Upgrade is the instance's upgrade domain; -1 where no rule concerns it.
func (d *Domains) Upgrade(i int) int { return d.upgrade.id(i) }

// Add puts n more tasks on the instance; a negative n takes them away.
func (d *Domains) Add(i, n int) {
	d.fault.add(i, n)
	d.upgrade.add(i, n)
}

// AdmitsFault reports whether the fault domain may have one more new task: under maximum difference
// it is at the floor on every level, or below where some are; under quorum safety below the limit;
// under nonpacking empty. True for -1.
func (d *Domains) AdmitsFault(leaf int) bool { return d.fault.admits(leaf, d.rule.NoConstraints) }

// AdmitsUpgrade is the same for an upgrade domain.
func (d *Domains) AdmitsUpgrade(id int) bool { return d.upgrade.admits(id, d.rule.NoConstraints) }

// Excess is how far the tasks are from what each rule allows: tasks too many or too few, summed
// over all levels. 0 is no violation.
func (d *Domains) Excess() (fault, upgrade int) { return int(d.fault.excess), int(d.upgrade.excess) }

// MayMove reports whether moving one task makes nothing worse: a rule that holds still does, one
// that is broken is broken no further, and no domain goes over its limit (soft evaluation: a broken
// rule does not stand in the way of other repairs).
func (d *Domains) MayMove(from, to int) bool {
	return d.fault.neutral(from, to) && d.upgrade.neutral(from, to)
}

// Worth is what a task on the instance is worth keeping, as far as domains go: where tasks have to
// stop, those of the lowest worth go first. Least worth are those whose end leaves the rules best
// kept: from domains above the base or over their limit, from any where all are equal; between
// equals, those in domains without an eligible instance.
func (d *Domains) Worth(i int) int {
	d.Add(i, -1)
	fault, upgrade := d.Excess()
	d.Add(i, 1)
	worth := 2 * (fault + upgrade)
	if d.fault.dead(i) || d.upgrade.dead(i) {
		return worth
	}
	return worth + 1
}

// Empty returns the same domains without tasks, under another rule. What never changes is shared
// between the two.
func (d *Domains) Empty(rule Rule) *Domains {
	out := &Domains{standing: d.standing, fault: d.fault.empty(), upgrade: d.upgrade.empty()}
	out.SetRule(rule)
	return out
}

// Leaf returns the instance's lowest fault domain and its upgrade domain whether or not a rule
// concerns them; -1 for none. Their numbers are below those of [Domains.Sizes].
func (d *Domains) Leaf(i int) (fault, upgrade int32) { return d.fault.leaf(i), d.upgrade.leaf(i) }

// Sizes returns how many fault domains without a domain below them there are, and how many upgrade
// domains.
func (d *Domains) Sizes() (faults, upgrades int) { return len(d.fault.nodeOf), len(d.upgrade.nodeOf) }

// FaultUnit returns the domain by which the fault rule's limit counts the instance's tasks, -1
// where the rule has no limit for it, and whether that domain has more tasks than the limit.
func (d *Domains) FaultUnit(i int) (unit int32, over bool) { return d.fault.unit(i) }

// UpgradeUnit is [Domains.FaultUnit] for the upgrade rule.
func (d *Domains) UpgradeUnit(i int) (unit int32, over bool) { return d.upgrade.unit(i) }

// Nodes returns how many domains there are on all levels: what the memory goes by.
func (d *Domains) Nodes() int { return len(d.fault.nodes) + len(d.upgrade.nodes) }
