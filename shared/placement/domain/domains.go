package domain

import "berth/shared/cluster"

// Standing is what an instance is to one service's domains.
type Standing uint8

// The standings. A domain without an Eligible instance is no domain: the tasks there count for no
// other (Service Fabric's PartitionDomainTree).
const (
	// NotInCluster is unknown or gone: it is in no domain.
	NotInCluster Standing = iota
	// Unavailable is in the cluster and takes no task of anybody: DRAINING, unschedulable, its agent
	// disconnected.
	Unavailable
	// Ineligible takes tasks, but none of this service: a constraint, an attribute, [Spec.Avoid].
	Ineligible
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

// NewRule is the rule for a service of that policy and desired count in a cluster so configured.
// Soft dimensions hold; those whose priority is negative do not.
func NewRule(policy cluster.DomainPolicy, target int, c *cluster.Configuration) Rule {
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
	evenlyDivided  bool
	chosen         [2]domainRule // of fault and upgrade domains, before any dimension is left out
}

// NewDomains builds the domains, without tasks: fault[i] is "fd:/dc1/r0" and upgrade[i] a label;
// where one is empty that dimension has no rule for the instance. Fault domains are built only if
// two instances share one at the top; else every instance is a domain of its own, and one task per
// instance is all the rule could ask. Upgrade domains count always, but their rule is dropped where
// none holds two instances.
func NewDomains(fault, upgrade []string, standing []Standing, rule Rule) *Domains {
	d := &Domains{standing: standing}
	d.fault.buildTree(fault, standing, faultPath)
	d.upgrade.buildTree(upgrade, standing, func(label string) []string { return []string{label} })
	if !d.fault.sharesTopDomain() {
		d.fault = domainTree{}
	}
	d.SetRule(rule)
	return d
}

// SetRule puts another rule in place of the one that holds, the tasks staying where they are: the
// desired count changed, or a soft dimension is given up.
func (d *Domains) SetRule(rule Rule) {
	d.rule = rule
	d.evenlyDivided = !rule.NoSwitch && d.dividesEvenly(rule.Target)
	fault, upgrade := d.dimensionRules()
	d.chosen = [2]domainRule{fault, upgrade}
	if rule.NoFault {
		fault = ruleNone
	}
	if rule.NoUpgrade || !d.upgrade.sharedLeaf {
		upgrade = ruleNone
	}
	d.fault.setRule(fault, rule.Target)
	d.upgrade.setRule(upgrade, rule.Target)
}

// dividesEvenly is the adaptive choice (P5): the target divides evenly by fault domains and by upgrade
// domains, counted where the tree first branches, and there are no more eligible instances than
// their product.
func (d *Domains) dividesEvenly(target int) bool {
	faults, upgrades := d.fault.branchCount(), d.upgrade.branchCount()
	if target <= 0 || faults == 0 || upgrades == 0 || target%faults != 0 || target%upgrades != 0 {
		return false
	}
	return max(d.fault.eligibleCount(), d.upgrade.eligibleCount()) <= faults*upgrades
}

// dimensionRules is which rule holds in each dimension. Nonpacking and ignore concern fault domains only.
func (d *Domains) dimensionRules() (fault, upgrade domainRule) {
	switch d.rule.Policy {
	case cluster.PolicyDifference:
		fault, upgrade = ruleDifference, ruleDifference
	case cluster.PolicyQuorum:
		fault, upgrade = ruleQuorum, ruleQuorum
	case cluster.PolicyAdaptive:
		fault, upgrade = d.adaptiveRule(d.rule.QuorumFault), d.adaptiveRule(d.rule.QuorumUpgrade)
	case cluster.PolicyNonpacking:
		fault, upgrade = ruleNonpacking, d.adaptiveRule(d.rule.QuorumUpgrade)
	case cluster.PolicyIgnore:
		upgrade = d.adaptiveRule(d.rule.QuorumUpgrade)
	}
	return fault, upgrade
}

func (d *Domains) adaptiveRule(forced bool) domainRule {
	if forced || d.evenlyDivided {
		return ruleQuorum
	}
	return ruleDifference
}

// UsesQuorum reports whether quorum safety is the choice for fault and for upgrade domains (P5), whether
// or not the dimension has a rule at the time: maximum difference, nonpacking or none is where it
// is not.
func (d *Domains) UsesQuorum() (quorumFault, quorumUpgrade bool) {
	return d.chosen[0] == ruleQuorum, d.chosen[1] == ruleQuorum
}

// FaultDomainCount is how many ids [Domains.Fault] gives, from 0; 0 where fault domains have no rule.
func (d *Domains) FaultDomainCount() int { return d.fault.domainCount() }

// UpgradeDomainCount is how many ids [Domains.Upgrade] gives, from 0; 0 where upgrade domains have no
// rule.
func (d *Domains) UpgradeDomainCount() int { return d.upgrade.domainCount() }

// FaultDomain is the instance's lowest fault domain; -1 where no rule concerns it.
func (d *Domains) FaultDomain(i int) int { return d.fault.ruledLeaf(i) }

// UpgradeDomain is the instance's upgrade domain; -1 where no rule concerns it.
func (d *Domains) UpgradeDomain(i int) int { return d.upgrade.ruledLeaf(i) }

// AddTasks puts n more tasks on the instance; a negative n takes them away.
func (d *Domains) AddTasks(i, n int) {
	d.fault.addTasks(i, n)
	d.upgrade.addTasks(i, n)
}

// AdmitsFault reports whether the fault domain may have one more new task: under maximum difference
// it is at the floor on every level, or below where some are; under quorum safety below the limit;
// under nonpacking empty. True for -1.
func (d *Domains) AdmitsFault(leaf int) bool { return d.fault.admitsTask(leaf, d.rule.NoConstraints) }

// AdmitsUpgrade is the same for an upgrade domain.
func (d *Domains) AdmitsUpgrade(id int) bool { return d.upgrade.admitsTask(id, d.rule.NoConstraints) }

// Excess is how far the tasks are from what each rule allows: tasks too many or too few, summed
// over all levels. 0 is no violation.
func (d *Domains) Excess() (fault, upgrade int) { return int(d.fault.excess), int(d.upgrade.excess) }

// MayMove reports whether moving one task makes nothing worse: a rule that holds still does, one
// that is broken is broken no further, and no domain goes over its limit (soft evaluation: a broken
// rule does not stand in the way of other repairs).
func (d *Domains) MayMove(from, to int) bool {
	return d.fault.worsensNothing(from, to) && d.upgrade.worsensNothing(from, to)
}

// StopRank is what a task on the instance is worth keeping, as far as domains go: where tasks have to
// stop, those of the lowest worth go first. Least worth are those whose end leaves the rules best
// kept: from domains above the base or over their limit, from any where all are equal; between
// equals, those in domains without an eligible instance.
func (d *Domains) StopRank(i int) int {
	d.AddTasks(i, -1)
	fault, upgrade := d.Excess()
	d.AddTasks(i, 1)
	worth := 2 * (fault + upgrade)
	if d.fault.lacksEligible(i) || d.upgrade.lacksEligible(i) {
		return worth
	}
	return worth + 1
}

// WithoutTasks returns the same domains without tasks, under another rule. What never changes is shared
// between the two.
func (d *Domains) WithoutTasks(rule Rule) *Domains {
	out := &Domains{standing: d.standing, fault: d.fault.withoutTasks(), upgrade: d.upgrade.withoutTasks()}
	out.SetRule(rule)
	return out
}

// LowestDomains returns the instance's lowest fault domain and its upgrade domain whether or not a rule
// concerns them; -1 for none. Their numbers are below those of [Domains.Sizes].
func (d *Domains) LowestDomains(i int) (fault, upgrade int32) {
	return d.fault.lowestDomain(i), d.upgrade.lowestDomain(i)
}

// DomainCounts returns how many fault domains without a domain below them there are, and how many upgrade
// domains.
func (d *Domains) DomainCounts() (faults, upgrades int) {
	return len(d.fault.nodeOf), len(d.upgrade.nodeOf)
}

// FaultUnit returns the domain by which the fault rule's limit counts the instance's tasks, -1
// where the rule has no limit for it, and whether that domain has more tasks than the limit.
func (d *Domains) FaultUnit(i int) (unit int32, over bool) { return d.fault.limitUnit(i) }

// UpgradeUnit is [Domains.FaultUnit] for the upgrade rule.
func (d *Domains) UpgradeUnit(i int) (unit int32, over bool) { return d.upgrade.limitUnit(i) }

// NodeCount returns how many domains there are on all levels: what the memory goes by.
func (d *Domains) NodeCount() int { return len(d.fault.nodes) + len(d.upgrade.nodes) }
