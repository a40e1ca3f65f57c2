package placement

import (
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
)

// chooser is what the engine keeps for the tasks of one spec: their shape, and where the owner has
// tasks already.
type chooser struct {
	*shape
	chooserKey
	constraints    []*constraintColumn // the constraints, as far as they bind
	counts         *ownerCounts
	maxPerInstance int32  // of the owner's tasks on one instance, 0 for any number
	strict         bool   // this request may not use the buffer
	lastUsed       uint64 // when it was used last
	regionMap      *regionMap
	groupCounts    *groupCounts
	index          *sortedIndex     // that was used last
	ownIndex       bool             // it compares the owner's tasks, too
	openLists      [][]int32        // regions that may be open, see [class.openRegions]
	rejections     *rejectionReport // why instances cannot take the tasks, once some were refused

	// With a domain policy: where the domains are, and how many tasks the owner has in each.
	domainTemplate   *domainTemplate
	templateRevision int
	domainRule       domain.Rule
	domains          *domain.Domains // nil without a policy
	// faultOpen and upgrades say which domains admit one more task, by [place]: the first is none.
	faultOpen, upgradeOpen []bool
}

type chooserKey struct {
	forSpec *Spec
	relaxed relaxation // the rules that were given up
}

// chooserFor is the class for a request, as up to date as the engine. Its index follows when it is
// asked for.
func chooserFor(e *Engine, r *Request, relaxed relaxation) *chooser {
	key := chooserKey{r.Spec, relaxed}
	e.useCount++
	c := e.caches.choosers[key]
	if c == nil {
		c = newChooser(e, key)
		c.lastUsed = e.useCount
		e.caches.choosers[key] = c
		evictChoosers(e)
	}
	c.lastUsed, c.strict = e.useCount, r.Unbuffered
	for _, column := range c.constraints {
		column.catchUp(e)
	}
	if c.domainTemplate != nil {
		c.updateDomains(r.Target)
	}
	return c
}

func newChooser(e *Engine, key chooserKey) *chooser {
	spec := key.forSpec
	c := &chooser{chooserKey: key, counts: ownerCountsFor(e, spec.Owner, spec.Group, spec.MaxPerInstance() > 0),
		maxPerInstance: spec.MaxPerInstance()}
	var constraints []*constraintColumn
	for _, x := range spec.Constraints {
		constraints = append(constraints, constraintFor(e, x))
	}
	if !key.relaxed.includes(relaxPlacement) {
		c.constraints = constraints
	}
	c.shape = newShape(e, spec, c.constraints, key.relaxed)
	c.regionMap = regionMapFor(e, c.order.attributes, spec.IsGoverned())
	c.groupCounts = c.counts.groupCountsFor(c.regionMap)
	if spec.IsGoverned() {
		c.domainTemplate = domainTemplateFor(e, matcherFor(e, spec, constraints), c.regionMap)
	}
	return c
}

// updateDomains brings the domains up to date: their rule goes by the target.
func (c *chooser) updateDomains(target int) {
	for _, column := range c.domainTemplate.matcher.dynamic {
		column.catchUp(c.engine)
	}
	c.domainTemplate.catchUp()
	rule := domain.NewRule(c.spec.DomainPolicy, target, &c.engine.snap.Configuration)
	rule.NoConstraints, rule.NoFault, rule.NoUpgrade = c.relaxed.includes(relaxPlacement),
		c.relaxed.includes(relaxFault),
		c.relaxed.includes(relaxUpgrade)
	if c.domains != nil && c.templateRevision == c.domainTemplate.revision && rule == c.domainRule {
		return
	}
	if c.domains == nil || c.templateRevision != c.domainTemplate.revision {
		c.counts.domains = slices.DeleteFunc(c.counts.domains, func(d *domain.Domains) bool { return d == c.domains })
		c.domains = c.domainTemplate.newDomains(rule, c.counts)
		c.counts.domains = append(c.counts.domains, c.domains)
	} else {
		c.domains.SetRule(rule)
	}
	c.domainRule, c.templateRevision = rule, c.domainTemplate.revision
	faults, upgrades := c.domains.DomainCounts()
	c.faultOpen, c.upgradeOpen = make([]bool, 1+faults), make([]bool, 1+upgrades)
}

// reevaluateConstraints evaluates the constraints that look at an instance's tasks, once this call has changed
// those.
func (c *chooser) reevaluateConstraints(i int) {
	dynamic := c.matcher.dynamic
	if c.domainTemplate != nil {
		dynamic = c.domainTemplate.matcher.dynamic // those, too, that were given up
	}
	for _, column := range dynamic {
		column.evaluateOn(c.engine, i)
	}
	if t := c.domainTemplate; t != nil && len(t.matcher.dynamic) > 0 && t.standingOf(i) != t.standings[i] {
		t.stale = true
		c.updateDomains(c.domainRule.Target)
	}
}

// accepts reports whether the request may use an instance of that fitness.
func (c *chooser) accepts(f feasibility) bool { return f == unbuffered || f == buffered && !c.strict }

// domainsAdmit reports whether the domain rules let the instance have a task.
func (c *chooser) domainsAdmit(i int) bool {
	return !concernsDomains(c) || passesFaultDomain(c, i) && passesUpgradeDomain(c, i)
}

// relaxation is a set of rules that were given up.
type relaxation uint8

const (
	relaxPlacement relaxation = 1 << iota
	relaxCapacity
	relaxFault
	relaxUpgrade
)

func (r relaxation) includes(rule relaxation) bool { return r&rule != 0 }

// relaxationSteps is how many priorities a soft rule can have.
const relaxationSteps = 2

// relaxationAt is what is given up at a time: at first what the configuration ignores, then, for what is
// still unplaced, the soft rules too, those of the highest number first.
func relaxationAt(p *cluster.Priorities, step int) relaxation {
	out := relaxation(0)
	for bit, priority := range [...]cluster.Priority{p.Placement, p.Capacity, p.FaultDomain, p.UpgradeDomain} {
		if priority < 0 || step > 0 && int(priority) > relaxationSteps-step {
			out |= 1 << bit
		}
	}
	return out
}

// maxMemory bounds what the engine keeps, in bytes, roughly: the classes used least recently are
// given up beyond it.
const maxMemory = 64 << 20

// LimitMemory bounds what the engine keeps to so many bytes, roughly, and has it look at that
// whenever it keeps more.
func (e *Engine) LimitMemory(bytes int) { e.maxMemory, e.evictEvery = bytes, 1 }

// memorySize is roughly how many bytes the engine keeps.
func memorySize(e *Engine) int {
	n, out := len(e.views), 0
	for _, x := range e.caches.indexes {
		out += x.memorySize()
	}
	out += 16 * n * len(e.caches.rejections)
	for _, counts := range e.caches.counts {
		out += 512 + 48*(len(counts.active)+len(counts.occupying)) + 8*len(counts.dense)
	}
	for _, c := range e.caches.choosers {
		if out += 1024; c.ownIndex {
			out += c.index.memorySize()
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

// evictChoosers gives up the older half of the classes if there are too many, and what only they
// used.
func evictChoosers(e *Engine) {
	if len(e.caches.choosers) < e.evictAt {
		return
	}
	e.evictAt = len(e.caches.choosers) + max(e.evictEvery, len(e.caches.choosers)/evictShare)
	if memorySize(e) <= e.maxMemory {
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
	dropUnused(e)
	e.evictAt = len(e.caches.choosers) + e.evictEvery
}

// evictEvery is how many classes come before the engine's size is looked at again, or evictShare of
// those there are: to look costs by their number.
const (
	evictEvery = 16
	evictShare = 8
)

// inUse is what the classes use.
type inUse struct {
	counts      map[*ownerCounts]bool
	groupCounts map[*groupCounts]bool
	domains     map[*domain.Domains]bool
	regionMaps  map[*regionMap]bool
	constraints map[*constraintColumn]bool
	masks       map[*staticMask]bool
	indexes     map[*sortedIndex]bool
	templates   map[*domainTemplate]bool
	rejections  map[*rejectionReport]bool
}

func findInUse(e *Engine) inUse {
	u := inUse{
		map[*ownerCounts]bool{}, map[*groupCounts]bool{}, map[*domain.Domains]bool{}, map[*regionMap]bool{},
		map[*constraintColumn]bool{},
		map[*staticMask]bool{}, map[*sortedIndex]bool{}, map[*domainTemplate]bool{}, map[*rejectionReport]bool{},
	}
	for _, c := range e.caches.choosers {
		u.counts[c.counts], u.groupCounts[c.groupCounts], u.domains[c.domains], u.regionMaps[c.regionMap] = true, true,
			true, true
		u.masks[c.matcher.static], u.indexes[c.index], u.rejections[c.rejections] = true, true, true
		for _, column := range c.constraints {
			u.constraints[column] = true
		}
		if c.domainTemplate != nil {
			u.templates[c.domainTemplate], u.masks[c.domainTemplate.matcher.static] = true, true
			for _, column := range c.domainTemplate.matcher.dynamic {
				u.constraints[column] = true
			}
		}
	}
	for m := range u.masks {
		for _, column := range m.constraints {
			u.constraints[column] = true
		}
	}
	return u
}

// dropUnused gives up what no class uses any more.
func dropUnused(e *Engine) {
	u := findInUse(e)
	maps.DeleteFunc(e.caches.counts, func(_ ownerKey, counts *ownerCounts) bool { return !u.counts[counts] })
	maps.DeleteFunc(e.caches.regionMaps, func(_ string, regions *regionMap) bool { return !u.regionMaps[regions] })
	maps.DeleteFunc(e.caches.constraints, func(_ string,
		column *constraintColumn) bool {
		return !u.constraints[column]
	})
	maps.DeleteFunc(e.caches.masks, func(_ string, m *staticMask) bool { return !u.masks[m] })
	maps.DeleteFunc(e.caches.indexes, func(_ string, x *sortedIndex) bool { return !u.indexes[x] })
	maps.DeleteFunc(e.caches.templates, func(_ string, t *domainTemplate) bool { return !u.templates[t] })
	maps.DeleteFunc(e.caches.rejections, func(_ string, report *rejectionReport) bool { return !u.rejections[report] })
	clear(e.caches.countsByOwner)
	for _, counts := range e.caches.counts {
		e.caches.countsByOwner[counts.owner] = append(e.caches.countsByOwner[counts.owner], counts)
		counts.groupCounts = slices.DeleteFunc(counts.groupCounts,
			func(groups *groupCounts) bool { return !u.groupCounts[groups] })
		counts.domains = slices.DeleteFunc(counts.domains, func(d *domain.Domains) bool { return !u.domains[d] })
	}
	for _, regions := range e.caches.regionMaps {
		regions.groupCounts = slices.DeleteFunc(regions.groupCounts,
			func(groups *groupCounts) bool { return !u.groupCounts[groups] })
	}
}
