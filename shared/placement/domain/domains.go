package domain

import "berth/shared/cluster"

// A Standing is what an instance is to the domains of one service.
type Standing uint8

// The standings. A domain without an Eligible instance is no domain: the tasks there count for no
// other (Service Fabric's PartitionDomainTree).
const (
	// NotInCluster is unknown or deregistered. It is in no domain.
	NotInCluster Standing = iota
	// Unavailable is in the cluster and takes no task of anybody: DRAINING, cordoned or
	// disconnected.
	Unavailable
	// Ineligible takes tasks, but none of this service, because of a constraint, an attribute or
	// the list to avoid.
	Ineligible
	// Eligible takes tasks of this service if it has room.
	Eligible
)

// A Rule says which domain rules apply to a service. The zero value is none.
type Rule struct {
	Policy cluster.DomainPolicy
	// Target is the desired count. Quorum safety and the adaptive choice depend on it, not on what
	// runs (P4, P5).
	Target int
	// QuorumFault, QuorumUpgrade and NoSwitch are those of [cluster.Configuration].
	QuorumFault, QuorumUpgrade, NoSwitch bool
	// NoFault and NoUpgrade switch a dimension off, because its priority is negative or it is soft
	// and relaxed. NoConstraints, for the same reasons, lets domains without an [Eligible] instance
	// have as many tasks as the others.
	NoFault, NoUpgrade, NoConstraints bool
}

// NewRule returns the rule for a service with the policy and desired count. An empty policy means
// the cluster's. Dimensions with a negative priority are off.
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

// Governs reports whether the policy is one of Service Fabric's: domain rules apply, and no two
// tasks of the service share an instance.
func (r Rule) Governs() bool { return r.Policy != "" && r.Policy != cluster.PolicyNone }

// Domains are the fault and upgrade domains of one service, with its tasks in each (P1 to P6).
// Instances are numbered by the caller.
type Domains struct {
	standing       []Standing
	fault, upgrade domainTree
	rule           Rule
	evenlyDivided  bool // the adaptive policy chooses quorum safety
	// chosen has the rules of fault and upgrade domains before any dimension is switched off.
	chosen [2]domainRule
}

// NewDomains returns the domains without tasks. fault[i] is a path such as "fd:/dc1/r0", upgrade[i]
// a label; if one is empty, that dimension has no rule for instance i.
//
// Fault domains have a rule only if two instances share a top-level domain. Otherwise every
// instance is a domain of its own, and the rule could ask no more than one task per instance.
// Upgrade domains always count for the adaptive choice, but have no rule if none has two instances.
func NewDomains(fault, upgrade []string, standing []Standing, rule Rule) *Domains {
	d := &Domains{standing: standing}
	d.fault.buildDomainTree(fault, standing, splitFaultPath)
	d.upgrade.buildDomainTree(upgrade, standing, func(label string) []string { return []string{label} })
	if !d.fault.sharesTopDomain() {
		d.fault = domainTree{}
	}
	d.SetRule(rule)
	return d
}

// SetRule changes the rule and keeps the tasks where they are: the desired count has changed, or a
// soft dimension is relaxed.
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
	d.fault.setDimensionRule(fault, rule.Target)
	d.upgrade.setDimensionRule(upgrade, rule.Target)
}

// dividesEvenly is the adaptive choice (P5): the target is a multiple of the numbers of fault
// domains and of upgrade domains, counted where the tree first branches, and there are no more
// eligible instances than their product. Four tasks on a 2 × 2 grid of four instances are quorum
// safe; five are spread by maximum difference.
func (d *Domains) dividesEvenly(target int) bool {
	faults, upgrades := d.fault.firstBranchCount(), d.upgrade.firstBranchCount()
	if target <= 0 || faults == 0 || upgrades == 0 || target%faults != 0 || target%upgrades != 0 {
		return false
	}
	return max(d.fault.eligibleInstanceCount(), d.upgrade.eligibleInstanceCount()) <= faults*upgrades
}

// dimensionRules returns the rule of each dimension. Nonpacking and ignore concern fault domains
// only.
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

// UsesQuorum reports whether quorum safety is chosen for fault and for upgrade domains (P5), even
// if the dimension has no rule at present.
func (d *Domains) UsesQuorum() (quorumFault, quorumUpgrade bool) {
	return d.chosen[0] == ruleQuorum, d.chosen[1] == ruleQuorum
}

// FaultDomainCount returns how many numbers [Domains.FaultDomain] uses, from 0; 0 if fault domains
// have no rule.
func (d *Domains) FaultDomainCount() int { return d.fault.ruledDomainCount() }

// UpgradeDomainCount returns how many numbers [Domains.UpgradeDomain] uses, from 0; 0 if upgrade
// domains have no rule.
func (d *Domains) UpgradeDomainCount() int { return d.upgrade.ruledDomainCount() }

// FaultDomain returns the instance's lowest fault domain, -1 if no rule applies to it.
func (d *Domains) FaultDomain(i int) int { return d.fault.leafUnderRule(i) }

// UpgradeDomain returns the instance's upgrade domain, -1 if no rule applies to it.
func (d *Domains) UpgradeDomain(i int) int { return d.upgrade.leafUnderRule(i) }

// AddTasks counts n more tasks on the instance; n may be negative.
func (d *Domains) AddTasks(i, n int) {
	d.fault.addTasksOn(i, n)
	d.upgrade.addTasksOn(i, n)
}

// AdmitsFault reports whether the fault domain may have one more new task. Under maximum
// difference, it must on every level be below the base, or at the base with no sibling below; under
// quorum safety, below the limit; under nonpacking, empty. -1 always admits.
func (d *Domains) AdmitsFault(leaf int) bool {
	return d.fault.admitsOneMore(leaf, d.rule.NoConstraints)
}

// AdmitsUpgrade is [Domains.AdmitsFault] for an upgrade domain.
func (d *Domains) AdmitsUpgrade(id int) bool {
	return d.upgrade.admitsOneMore(id, d.rule.NoConstraints)
}

// Excess returns how far the tasks are from what each rule allows: tasks too many or too few,
// summed over all levels. 0 is no violation.
func (d *Domains) Excess() (fault, upgrade int) { return int(d.fault.excess), int(d.upgrade.excess) }

// MayMove reports whether moving one task makes nothing worse: a rule that holds still does, a
// broken one is not broken further, and no domain goes over its limit. This is Service Fabric's
// soft evaluation: a broken rule does not block other repairs.
func (d *Domains) MayMove(from, to int) bool {
	return d.fault.worsensNothing(from, to) && d.upgrade.worsensNothing(from, to)
}

// StopRank says which task the domain rules can best spare: the one on the instance of the lowest
// rank. Lowest are instances whose loss leaves the smallest [Domains.Excess], which are in domains
// above the base or over their limit; among equals, those in domains without an eligible instance.
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

// WithoutTasks returns the same domains under another rule and without tasks. The two share what
// never changes.
func (d *Domains) WithoutTasks(rule Rule) *Domains {
	out := &Domains{standing: d.standing, fault: d.fault.copyWithoutTasks(), upgrade: d.upgrade.copyWithoutTasks()}
	out.SetRule(rule)
	return out
}

// LowestDomains returns the instance's lowest fault domain and its upgrade domain, whether or not a
// rule applies; -1 for none. Their numbers are below those of [Domains.DomainCounts].
func (d *Domains) LowestDomains(i int) (fault, upgrade int32) {
	return d.fault.lowestDomainOf(i), d.upgrade.lowestDomainOf(i)
}

// DomainCounts returns the numbers of lowest fault domains and of upgrade domains.
func (d *Domains) DomainCounts() (faults, upgrades int) {
	return len(d.fault.nodeOf), len(d.upgrade.nodeOf)
}

// FaultUnit returns the domain in which the fault rule's limit counts the instance's tasks, -1 if
// there is no such limit, and whether the domain is over the limit.
func (d *Domains) FaultUnit(i int) (unit int32, over bool) { return d.fault.limitUnitOf(i) }

// UpgradeUnit is [Domains.FaultUnit] for the upgrade rule.
func (d *Domains) UpgradeUnit(i int) (unit int32, over bool) { return d.upgrade.limitUnitOf(i) }

// NodeCount returns the number of domains on all levels, which memory use depends on.
func (d *Domains) NodeCount() int { return len(d.fault.nodes) + len(d.upgrade.nodes) }
