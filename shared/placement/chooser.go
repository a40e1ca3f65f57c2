package placement

import (
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
)

// A chooser picks instances for the tasks of one spec, and says which of them should stop. It
// combines the shape of the tasks, which other owners may share, with where their owner has tasks
// already. The engine keeps choosers between requests, because most requests repeat an earlier
// spec.
type chooser struct {
	*shape
	chooserKey
	constraints    []*constraintColumn // those that bind: none if they are relaxed
	affinity       *constraintColumn   // nil for none, and if it is relaxed
	counts         *ownerCounts        // of the tasks that the order compares
	limited        *ownerCounts        // of the tasks that maxPerInstance and the domain rules count
	maxPerInstance int32               // tasks of the owner on one instance, 0 for any number
	strict         bool                // the current request may not use the buffer
	lastUsed       uint64              // in terms of Engine.useCount
	regionMap      *regionMap
	groupCounts    *groupCounts
	index          *sortedIndex     // that was used last
	ownIndex       bool             // index belongs to this owner: it compares the owner's tasks, too
	openLists      [][]int32        // the result of openRegions, reused
	rejections     *rejectionReport // nil until some task found no instance
	chooserDomains
}

// chooserDomains is what a chooser knows with a domain policy: where the domains are, and how many
// tasks the owner has in each.
type chooserDomains struct {
	domainTemplate   *domainTemplate
	templateRevision int
	domainRule       domain.Rule
	domains          *domain.Domains // nil without a policy
	// faultOpen and upgradeOpen say which domains admit one more task, numbered as in
	// [regionDomain]: 0 is "no domain".
	faultOpen, upgradeOpen []bool
}

// A chooserKey tells choosers apart. Specs are compared by pointer: callers reuse them.
type chooserKey struct {
	forSpec *Spec
	relaxed relaxation
}

// chooserForRequest returns the chooser for a request, with all but its index up to date.
func chooserForRequest(e *Engine, r *Request, relaxed relaxation) *chooser {
	key := chooserKey{r.Spec, relaxed}
	e.useCount++
	c := e.caches.choosers[key]
	if c == nil {
		dropOtherDeployments(e, r.Spec)
		c = newChooser(e, key)
		c.lastUsed = e.useCount
		e.caches.choosers[key] = c
		evictChoosers(e)
	}
	c.lastUsed, c.strict = e.useCount, r.Unbuffered
	c.regionMap.followClasses(&e.columns)
	for _, column := range c.constraints {
		column.followChanges(e)
	}
	if c.affinity != nil {
		c.affinity.followChanges(e)
	}
	if c.domainTemplate != nil {
		c.updateDomains(r.Target)
	}
	return c
}

// chooserAt returns the chooser for a request in a step of relaxation.
func (e *Engine) chooserAt(r *Request, step int) *chooser {
	return chooserForRequest(e, r, relaxationAt(&e.snap.Configuration.Priorities, step))
}

// newChooser finds or creates everything that the chooser shares with others.
func newChooser(e *Engine, key chooserKey) *chooser {
	spec := key.forSpec
	most := spec.MaxPerInstance()
	all := ownerKey{owner: spec.Owner, group: spec.Group}
	c := &chooser{chooserKey: key, maxPerInstance: most, limited: ownerCountsFor(e, all, most > 0)}
	c.counts = c.limited
	if spec.Deployment != "" {
		c.counts = ownerCountsFor(e, ownerKey{owner: spec.Owner, deployment: spec.Deployment}, false)
	}
	var constraints []*constraintColumn
	for _, x := range spec.Constraints {
		constraints = append(constraints, constraintFor(e, x))
	}
	if !key.relaxed.includesRule(relaxPlacement) {
		c.constraints = constraints
	}
	binding := c.constraints
	if spec.Affinity != "" && !key.relaxed.includesRule(relaxAffinity) {
		c.affinity = affinityFor(e, spec.Affinity)
		binding = append(slices.Clone(binding), c.affinity)
	}
	c.shape = newTaskShape(e, spec, binding, key.relaxed)
	c.regionMap = regionMapFor(e, c.order.attributes, spec.IsGoverned())
	c.groupCounts = c.counts.groupCountsFor(c.regionMap)
	if spec.IsGoverned() {
		c.domainTemplate = domainTemplateFor(e, matcherFor(e, spec, constraints), c.regionMap)
	}
	return c
}

// updateDomains brings the domains up to date. Their rule depends on the target: with an adaptive
// policy a service of four tasks may be quorum safe and one of five not (P5).
func (c *chooser) updateDomains(target int) {
	for _, column := range c.domainTemplate.matcher.dynamic {
		column.followChanges(c.engine)
	}
	c.domainTemplate.followChanges()
	rule := domain.NewRule(c.spec.DomainPolicy, target, &c.engine.snap.Configuration)
	rule.NoConstraints = c.relaxed.includesRule(relaxPlacement)
	rule.NoFault, rule.NoUpgrade = c.relaxed.includesRule(relaxFault), c.relaxed.includesRule(relaxUpgrade)
	if c.domains != nil && c.templateRevision == c.domainTemplate.revision && rule == c.domainRule {
		return
	}
	if c.domains == nil || c.templateRevision != c.domainTemplate.revision {
		c.limited.domains = slices.DeleteFunc(c.limited.domains, func(d *domain.Domains) bool { return d == c.domains })
		c.domains = c.domainTemplate.newDomains(rule, c.limited)
		c.limited.domains = append(c.limited.domains, c.domains)
	} else {
		c.domains.SetRule(rule)
	}
	c.domainRule, c.templateRevision = rule, c.domainTemplate.revision
	faults, upgrades := c.domains.DomainCounts()
	c.faultOpen, c.upgradeOpen = make([]bool, 1+faults), make([]bool, 1+upgrades)
}

// reevaluateConstraints evaluates the constraints that depend on the tasks of an instance, after
// this call changed those.
func (c *chooser) reevaluateConstraints(i int) {
	dynamic := c.matcher.dynamic
	if c.domainTemplate != nil {
		dynamic = c.domainTemplate.matcher.dynamic // relaxed ones, too
	}
	for _, column := range dynamic {
		column.evaluateInstance(c.engine, i)
	}
	if t := c.domainTemplate; t != nil && len(t.matcher.dynamic) > 0 && t.standingOf(i) != t.standings[i] {
		t.stale = true
		c.updateDomains(c.domainRule.Target)
	}
}

// acceptsFeasibility reports whether the request may use an instance of that feasibility.
func (c *chooser) acceptsFeasibility(f feasibility) bool {
	return f == unbuffered || f == buffered && !c.strict
}

// domainsAdmit reports whether the domain rules allow one more task on the instance.
func (c *chooser) domainsAdmit(i int) bool {
	return !concernsDomains(c) || passesFaultDomain(c, i) && passesUpgradeDomain(c, i)
}

// ServiceDomains returns the fault and upgrade domains of the request's service with its tasks, or
// nil if no domain policy governs it. The caller must not change them. They are valid until the
// snapshot changes.
func (e *Engine) ServiceDomains(r Request) *domain.Domains {
	e.Sync()
	return e.chooserAt(&r, 0).domains
}

// A relaxation is a set of rules that are not kept.
type relaxation uint8

const (
	relaxPlacement relaxation = 1 << iota
	relaxCapacity
	relaxFault
	relaxUpgrade
	relaxAffinity
)

func (r relaxation) includesRule(rule relaxation) bool { return r&rule != 0 }

// relaxationSteps is the number of priorities that a soft rule can have.
const relaxationSteps = 2

// relaxationAt returns the rules to give up in a step. Step 0 gives up what the configuration
// ignores (a negative priority). Later steps serve tasks that are still unplaced: step 1 also gives
// up rules of priority 2, which is the highest, step 2 those of priority 1. Rules of priority 0
// always bind.
func relaxationAt(p *cluster.Priorities, step int) relaxation {
	out := relaxation(0)
	for bit, priority := range [...]cluster.Priority{p.Placement, p.Capacity, p.FaultDomain, p.UpgradeDomain,
		p.Affinity} {
		if priority < 0 || int(priority) > relaxationSteps-step {
			out |= 1 << bit
		}
	}
	return out
}

// maxMemory is roughly how many bytes of caches the engine keeps. Beyond it, the least recently
// used choosers go.
const maxMemory = 64 << 20

// LimitMemory bounds the engine's caches to roughly so many bytes, checked at each new spec.
func (e *Engine) LimitMemory(bytes int) { e.maxMemory, e.evictEvery = bytes, 1 }

// estimateMemory estimates the bytes that the engine's caches take.
func estimateMemory(e *Engine) int {
	n, out := len(e.views), 0
	for _, x := range e.caches.indexes {
		out += x.estimateMemory()
	}
	out += 16 * n * len(e.caches.rejections)
	for _, counts := range e.caches.counts {
		out += 512 + counts.active.Size() + counts.occupying.Size() + 8*len(counts.dense)
	}
	for _, c := range e.caches.choosers {
		if out += 1024; c.ownIndex {
			out += c.index.estimateMemory()
		}
		if c.rejections != nil && c.maxPerInstance > 0 {
			out += 16 * n
		}
		if c.domains != nil {
			out += 128 * c.domains.NodeCount()
		}
	}
	return out
}

// evictChoosers drops the half of the choosers that was used least recently, and what only they
// used, if the caches take too much memory.
func evictChoosers(e *Engine) {
	if len(e.caches.choosers) < e.evictAt {
		return
	}
	e.evictAt = len(e.caches.choosers) + max(e.evictEvery, len(e.caches.choosers)/evictShare)
	if estimateMemory(e) <= e.maxMemory {
		return
	}
	uses := make([]uint64, 0, len(e.caches.choosers))
	for _, c := range e.caches.choosers {
		uses = append(uses, c.lastUsed)
	}
	slices.Sort(uses)
	for key, c := range e.caches.choosers {
		if c.lastUsed < uses[len(uses)/2] {
			delete(e.caches.choosers, key)
		}
	}
	dropUnusedCaches(e)
	e.evictAt = len(e.caches.choosers) + e.evictEvery
}

// maxDeployments is how many other deployments of a service have counts of their tasks at a time.
const maxDeployments = 4

// dropOtherDeployments drops what is kept for other deployments of the spec's owner, if these are many.
// Most have ended, and each change of one of the owner's tasks is counted for each of them.
func dropOtherDeployments(e *Engine, spec *Spec) {
	isOther := func(owner, deployment string) bool {
		return owner == spec.Owner && deployment != "" && deployment != spec.Deployment
	}
	n := 0
	for _, counts := range e.caches.countsByOwner[spec.Owner] {
		if isOther(counts.owner, counts.deployment) {
			n++
		}
	}
	if n < maxDeployments {
		return
	}
	maps.DeleteFunc(e.caches.choosers, func(key chooserKey, _ *chooser) bool {
		return isOther(key.forSpec.Owner, key.forSpec.Deployment)
	})
	dropUnusedCaches(e)
}

const (
	// The size is estimated again after evictEvery more choosers, or a part (1 in evictShare) of
	// those there are: estimating it takes time in proportion to their number.
	evictEvery = 16
	evictShare = 8
)

// findReferenced returns the set of pointers to everything that the choosers refer to.
func findReferenced(e *Engine) map[any]bool {
	used := map[any]bool{}
	addMatcher := func(m *matcher) {
		used[m.static] = true
		for _, column := range slices.Concat(m.dynamic, m.static.constraints) {
			used[column] = true
		}
	}
	for _, c := range e.caches.choosers {
		for _, x := range []any{c.counts, c.limited, c.groupCounts, c.domains, c.regionMap, c.index, c.rejections,
			c.domainTemplate} {
			used[x] = true
		}
		addMatcher(c.matcher)
		if c.domainTemplate != nil {
			addMatcher(c.domainTemplate.matcher)
		}
	}
	return used
}

// dropUnusedCaches deletes what no chooser refers to any more.
func dropUnusedCaches(e *Engine) {
	used := findReferenced(e)
	deleteUnused(e.caches.counts, used)
	deleteUnused(e.caches.regionMaps, used)
	deleteUnused(e.caches.constraints, used)
	deleteUnused(e.caches.masks, used)
	e.classes.keepMasks(e.caches.masks)
	deleteUnused(e.caches.indexes, used)
	deleteUnused(e.caches.templates, used)
	deleteUnused(e.caches.rejections, used)
	clear(e.caches.countsByOwner)
	clear(e.caches.numberedCounts)
	isUnused := func(g *groupCounts) bool { return !used[g] }
	for _, counts := range e.caches.counts {
		e.caches.countsByOwner[counts.owner] = append(e.caches.countsByOwner[counts.owner], counts)
		counts.groupCounts = slices.DeleteFunc(counts.groupCounts, isUnused)
		counts.domains = slices.DeleteFunc(counts.domains, func(d *domain.Domains) bool { return !used[d] })
	}
	for _, regions := range e.caches.regionMaps {
		regions.groupCounts = slices.DeleteFunc(regions.groupCounts, isUnused)
	}
}

func deleteUnused[K comparable, V any](cache map[K]V, used map[any]bool) {
	maps.DeleteFunc(cache, func(_ K, v V) bool { return !used[v] })
}
