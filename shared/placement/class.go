package placement

import (
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement/domain"
)

// class is what the engine keeps for the tasks of one spec: their shape, and where the owner has
// tasks already.
type class struct {
	*shape
	classKey
	rules  []*rule // the constraints, as far as they bind
	tally  *tally
	most   int32  // of the owner's tasks on one instance, 0 for any number
	strict bool   // this request may not use the buffer
	used   uint64 // when it was used last
	layout *layout
	spread *spread
	index  *sortedIndex // that was used last
	own    bool         // it compares the owner's tasks, too
	lists  [][]int32    // regions that may be open, see [class.openRegions]
	audit  *audit       // why instances cannot take the tasks, once some were refused

	// With a domain policy: where the domains are, and how many tasks the owner has in each.
	territory    *territory
	territoryRev int
	rule         domain.Rule
	domains      *domain.Domains // nil without a policy
	// faults and upgrades say which domains admit one more task, by [place]: the first is none.
	faults, upgrades []bool
}

type classKey struct {
	of    *Spec
	given relaxation // the rules that were given up
}

// classFor is the class for a request, as up to date as the engine. Its index follows when it is
// asked for.
func classFor(e *Engine, r *Request, given relaxation) *class {
	key := classKey{r.Spec, given}
	e.uses++
	c := e.kept.classes[key]
	if c == nil {
		c = newClass(e, key)
		c.used = e.uses
		e.kept.classes[key] = c
		evictClasses(e)
	}
	c.used, c.strict = e.uses, r.Unbuffered
	for _, rule := range c.rules {
		rule.follow(e)
	}
	if c.territory != nil {
		c.govern(r.Target)
	}
	return c
}

func newClass(e *Engine, key classKey) *class {
	spec := key.of
	c := &class{classKey: key, tally: tallyFor(e, spec.Owner, spec.Group, spec.MaxPerInstance() > 0),
		most: spec.MaxPerInstance()}
	var rules []*rule
	for _, x := range spec.Constraints {
		rules = append(rules, ruleFor(e, x))
	}
	if !key.given.has(relaxPlacement) {
		c.rules = rules
	}
	c.shape = newShape(e, spec, c.rules, key.given)
	c.layout = layoutFor(e, c.order.attributes, spec.IsGoverned())
	c.spread = c.tally.spreadOver(c.layout)
	if spec.IsGoverned() {
		c.territory = territoryFor(e, membersFor(e, spec, rules), c.layout)
	}
	return c
}

// govern brings the domains up to date: their rule goes by the target.
func (c *class) govern(target int) {
	for _, r := range c.territory.members.dynamic {
		r.follow(c.engine)
	}
	c.territory.follow()
	rule := domain.RuleOf(c.spec.DomainPolicy, target, &c.engine.snap.Configuration)
	rule.NoConstraints, rule.NoFault, rule.NoUpgrade = c.given.has(relaxPlacement), c.given.has(relaxFault),
		c.given.has(relaxUpgrade)
	if c.domains != nil && c.territoryRev == c.territory.rev && rule == c.rule {
		return
	}
	if c.domains == nil || c.territoryRev != c.territory.rev {
		c.tally.domains = slices.DeleteFunc(c.tally.domains, func(d *domain.Domains) bool { return d == c.domains })
		c.domains = c.territory.domains(rule, c.tally)
		c.tally.domains = append(c.tally.domains, c.domains)
	} else {
		c.domains.SetRule(rule)
	}
	c.rule, c.territoryRev = rule, c.territory.rev
	faults, upgrades := c.domains.Sizes()
	c.faults, c.upgrades = make([]bool, 1+faults), make([]bool, 1+upgrades)
}

// reconsider evaluates the constraints that look at an instance's tasks, once this call has changed
// those.
func (c *class) reconsider(i int) {
	dynamic := c.members.dynamic
	if c.territory != nil {
		dynamic = c.territory.members.dynamic // those, too, that were given up
	}
	for _, r := range dynamic {
		r.evaluate(c.engine, i)
	}
	if t := c.territory; t != nil && len(t.members.dynamic) > 0 && t.standing(i) != t.standings[i] {
		t.stale = true
		c.govern(c.rule.Target)
	}
}

// allows reports whether the request may use an instance of that fitness.
func (c *class) allows(f fitness) bool { return f == unbuffered || f == buffered && !c.strict }

// admits reports whether the domain rules let the instance have a task.
func (c *class) admits(i int) bool {
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

func (r relaxation) has(rule relaxation) bool { return r&rule != 0 }

// relaxations is how many priorities a soft rule can have.
const relaxations = 2

// relaxed is what is given up at a time: at first what the configuration ignores, then, for what is
// still unplaced, the soft rules too, those of the highest number first.
func relaxed(p *cluster.Priorities, step int) relaxation {
	out := relaxation(0)
	for bit, priority := range [...]cluster.Priority{p.Placement, p.Capacity, p.FaultDomain, p.UpgradeDomain} {
		if priority < 0 || step > 0 && int(priority) > relaxations-step {
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
	for _, x := range e.kept.indexes {
		out += x.size()
	}
	out += 16 * n * len(e.kept.audits)
	for _, t := range e.kept.tallies {
		out += 512 + 48*(len(t.active)+len(t.held)) + 8*len(t.dense)
	}
	for _, c := range e.kept.classes {
		if out += 1024; c.own {
			out += c.index.size()
		}
		if c.audit != nil && c.most > 0 {
			out += 16 * n
		}
		if c.domains != nil {
			out += 128 * c.domains.Nodes()
		}
	}
	return out
}

// evictClasses gives up the older half of the classes if there are too many, and what only they
// used.
func evictClasses(e *Engine) {
	if len(e.kept.classes) < e.evictAt {
		return
	}
	e.evictAt = len(e.kept.classes) + max(e.evictEvery, len(e.kept.classes)/evictShare)
	if memorySize(e) <= e.maxMemory {
		return
	}
	uses := make([]uint64, 0, len(e.kept.classes))
	for _, c := range e.kept.classes {
		uses = append(uses, c.used)
	}
	slices.Sort(uses)
	for key, c := range e.kept.classes {
		if c.used < uses[len(uses)/2] {
			delete(e.kept.classes, key)
		}
	}
	dropUnused(e)
	e.evictAt = len(e.kept.classes) + e.evictEvery
}

// evictEvery is how many classes come before the engine's size is looked at again, or evictShare of
// those there are: to look costs by their number.
const (
	evictEvery = 16
	evictShare = 8
)

// inUse is what the classes use.
type inUse struct {
	tallies     map[*tally]bool
	spreads     map[*spread]bool
	domains     map[*domain.Domains]bool
	layouts     map[*layout]bool
	rules       map[*rule]bool
	masks       map[*mask]bool
	indexes     map[*sortedIndex]bool
	territories map[*territory]bool
	audits      map[*audit]bool
}

func findInUse(e *Engine) inUse {
	u := inUse{
		map[*tally]bool{}, map[*spread]bool{}, map[*domain.Domains]bool{}, map[*layout]bool{}, map[*rule]bool{},
		map[*mask]bool{}, map[*sortedIndex]bool{}, map[*territory]bool{}, map[*audit]bool{},
	}
	for _, c := range e.kept.classes {
		u.tallies[c.tally], u.spreads[c.spread], u.domains[c.domains], u.layouts[c.layout] = true, true, true, true
		u.masks[c.members.mask], u.indexes[c.index], u.audits[c.audit] = true, true, true
		for _, r := range c.rules {
			u.rules[r] = true
		}
		if c.territory != nil {
			u.territories[c.territory], u.masks[c.territory.members.mask] = true, true
			for _, r := range c.territory.members.dynamic {
				u.rules[r] = true
			}
		}
	}
	for m := range u.masks {
		for _, r := range m.rules {
			u.rules[r] = true
		}
	}
	return u
}

// dropUnused gives up what no class uses any more.
func dropUnused(e *Engine) {
	u := findInUse(e)
	maps.DeleteFunc(e.kept.tallies, func(_ tallyKey, t *tally) bool { return !u.tallies[t] })
	maps.DeleteFunc(e.kept.layouts, func(_ string, l *layout) bool { return !u.layouts[l] })
	maps.DeleteFunc(e.kept.rules, func(_ string, r *rule) bool { return !u.rules[r] })
	maps.DeleteFunc(e.kept.masks, func(_ string, m *mask) bool { return !u.masks[m] })
	maps.DeleteFunc(e.kept.indexes, func(_ string, x *sortedIndex) bool { return !u.indexes[x] })
	maps.DeleteFunc(e.kept.territories, func(_ string, t *territory) bool { return !u.territories[t] })
	maps.DeleteFunc(e.kept.audits, func(_ string, a *audit) bool { return !u.audits[a] })
	clear(e.kept.owned)
	for _, t := range e.kept.tallies {
		e.kept.owned[t.owner] = append(e.kept.owned[t.owner], t)
		t.spreads = slices.DeleteFunc(t.spreads, func(s *spread) bool { return !u.spreads[s] })
		t.domains = slices.DeleteFunc(t.domains, func(d *domain.Domains) bool { return !u.domains[d] })
	}
	for _, l := range e.kept.layouts {
		l.spreads = slices.DeleteFunc(l.spreads, func(s *spread) bool { return !u.spreads[s] })
	}
}
