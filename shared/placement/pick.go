package placement

import "cmp"

// rank has the class go by an index that is up to date, for so many tasks to come.
//
// Owners share an index, and an instance that has tasks of the owner counts as an exception to it.
// Where these are no exceptions any more, or the order does not put the owner's tasks foremost, the
// owner has an index of its own.
func (c *class) rank(tasks int) {
	own := c.alone() && (c.order.random || c.order.counted && !c.order.foremost || c.most != 1 &&
		c.tally.crowded(len(c.engine.views)) ||
		// each task passes by the exceptions, those before it included
		tasks*(len(c.tally.active)+tasks/2) > len(c.engine.views))
	if c.index == nil || own != c.own {
		c.own = own
		if own {
			c.tally.densely(len(c.engine.views))
			c.index = newIndex(c.shape.engine, c.shape, c.layout, c.tally)
		} else {
			c.index = sharedIndex(c.shape.engine, c.shape, c.layout)
		}
	}
	c.index.follow()
	c.engine.placed.show(c.index)
}

// alone reports whether the owner's tasks count in how instances of one region compare.
func (c *class) alone() bool { return c.order.counted || c.most > 0 }

// pick is the best instance for one more task by the class's index, -1 if there is none: the best
// of the regions' best. The nth task of a request has a chance of its own where chance decides.
func (c *class) pick(seed uint64, nth int) int32 {
	exceptions := !c.own && c.alone() && len(c.tally.active)+len(c.tally.held) > 0
	best, wanting := nowhere, false
	for _, regions := range c.openRegions() {
		for _, region := range regions {
			if !c.opens(region) || best.fitness == unbuffered && isRegionBehind(c, region, best) {
				continue
			}
			next := c.first(region, exceptions)
			wanting = wanting || next.fitness != unbuffered
			if c.better(next, best) {
				best = next
			}
		}
	}
	if exceptions && wanting && c.order.counted {
		best = bestException(c, best)
	}
	if best.at >= 0 && c.order.random {
		return drawEqual(c, best, seed, nth)
	}
	return best.at
}

// openRegions are the regions that may be open to a task: all, or with domain rules those in the
// open domains of one kind, whichever are fewer.
func (c *class) openRegions() [][]int32 {
	c.lists = c.lists[:0]
	t := c.territory
	if t == nil {
		c.lists = append(c.lists, c.layout.all)
		return c.lists
	}
	c.ask()
	lists, open := t.byFault, c.faults
	if count(t.byUpgrade, c.upgrades) < count(t.byFault, c.faults) {
		lists, open = t.byUpgrade, c.upgrades
	}
	for d, regions := range lists {
		if open[d] {
			c.lists = append(c.lists, regions)
		}
	}
	return c.lists
}

// count is how many regions there are in the open domains.
func count(lists [][]int32, open []bool) (n int) {
	for d, regions := range lists {
		if open[d] {
			n += len(regions)
		}
	}
	return n
}

// isRegionBehind reports whether no instance of the region that is no exception can be better than
// best, which needs no buffer.
func isRegionBehind(c *class, region int32, best spot) bool {
	if groups := compareGroups(c, region, best.region); groups != 0 || !c.order.groupsFirst {
		return groups > 0
	}
	head := c.index.heads[region]
	return head < 0 || c.index.precedes(best.at, head)
}

// compareGroups compares two regions by the counts of groups that come before all else.
func compareGroups(c *class, r, q int32) int {
	for at := range c.order.steps {
		s := &c.order.steps[at]
		if s.kind != byGroup {
			return 0
		}
		if a, b := c.value(s, -1, r), c.value(s, -1, q); a != b {
			return cmp.Compare(a, b)
		}
	}
	return 0
}

// first is the first instance of the region that can take a task of the class and is no exception;
// where all of these need the buffer, the first of them.
func (c *class) first(region int32, exceptions bool) spot {
	r, unit := &c.index.runs[region], c.index.unit
	cpu, memory := c.spec.Needs.CPU, c.spec.Needs.Memory
	both := free{cpu, memory}.both(unit)
	spare := nowhere
	for at := range r.most {
		if most := r.offerOf(at, unit); most.cpu < cpu || most.memory < memory || most.both < both {
			continue
		}
		b := r.blocks[at]
		c.engine.looks += uint64(len(b.free))
		for n := range b.free {
			if b.free[n].cpu < cpu || b.free[n].memory < memory {
				continue
			}
			i := b.members[n]
			if isPassedBy(c, i, exceptions) {
				continue
			}
			switch f := c.fitness(int(i)); {
			case f == unfit || f == buffered && spare.at >= 0:
			case f == unbuffered:
				return spot{i, region, unbuffered}
			default:
				spare = spot{i, region, buffered}
			}
		}
	}
	return spare
}

// isPassedBy reports whether tasks of the owner keep the instance from being what the index takes
// it for: it has as many as it may, or, where instances with any are exceptions, has some.
func isPassedBy(c *class, i int32, exceptions bool) bool {
	t := c.tally
	return exceptions && c.order.counted && t.isActive.has(i) || c.most > 0 && t.isHeld.has(i) &&
		(c.most == 1 || t.held[i] >= c.most)
}

// bestException is the best of the instances that have tasks of the owner, or best where that is
// better. It is asked where a region has nothing better, or nothing without the buffer.
func bestException(c *class, best spot) spot {
	for i := range c.tally.active {
		next := spot{at: i, region: c.layout.region[i]}
		if next.region < 0 || !c.engine.listed[i] || !c.opens(next.region) || c.most > 0 && c.tally.held[i] >= c.most {
			continue
		}
		if next.fitness = c.fitness(int(i)); c.better(next, best) {
			best = next
		}
	}
	return best
}

// ask asks the domain rules which domains may have one more task.
func (c *class) ask() {
	for d := range c.faults {
		c.faults[d] = c.domains.Leaves() == 0 || c.domains.AdmitsFault(d-1)
	}
	for d := range c.upgrades {
		c.upgrades[d] = c.domains.UpgradeDomains() == 0 || c.domains.AdmitsUpgrade(d-1)
	}
}

// opens reports whether the domain rules let the region have one more task.
func (c *class) opens(region int32) bool {
	if c.domains == nil {
		return true
	}
	at := c.territory.places[region]
	return c.faults[at.fault] && c.upgrades[at.upgrade]
}

// drawEqual is one of the instances that are as good as best, each as likely as any other: the one
// whose id the seed maps to the least number.
func drawEqual(c *class, best spot, seed uint64, nth int) int32 {
	least, chosen := uint64(0), int32(-1)
	for _, regions := range c.lists {
		for _, region := range regions {
			if !c.opens(region) {
				continue
			}
			first := c.first(region, false)
			if first.at < 0 || c.compare(first, best) != 0 {
				continue
			}
			c.index.eachEqual(region, first.at, func(i int32) {
				if isPassedBy(c, i, false) || c.fitness(int(i)) != best.fitness {
					return
				}
				h := chance(seed, nth, c.engine.hash[i])
				if chosen < 0 || h < least || h == least && c.engine.before(i, chosen) {
					least, chosen = h, i
				}
			})
		}
	}
	return chosen
}

// eachEqual calls f for the instance, and for each one after it in its region that only the id
// tells from it.
func (x *sortedIndex) eachEqual(region, first int32, f func(int32)) {
	begun := false
	for _, b := range x.runs[region].blocks[x.blocks[first].at:] {
		for _, i := range b.members {
			if begun = begun || i == first; !begun {
				continue
			}
			if !x.isEqual(i, first) {
				return
			}
			f(i)
		}
	}
}

// chance is a number that seed, position and id decide and that looks like any other (the finalizer
// of SplitMix64).
func chance(seed uint64, nth int, id uint64) uint64 {
	h := seed + (uint64(nth)+1)*0x9e3779b97f4a7c15 ^ id
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
