package placement

import "cmp"

// prepareIndex selects an index for the coming tasks and brings it up to date.
//
// Owners share an index if they can. A shared index knows no owner's tasks, so instances that have
// tasks of this owner (the exceptions) are compared one by one. An owner gets an index of its own
// if the exceptions are many (it has tasks on much of the cluster, or asks for many), or if the
// order compares its tasks later than what the shared index is sorted by.
func (c *chooser) prepareIndex(tasks int) {
	own := c.dependsOnOwner() && (c.order.random || c.order.countsOwnTasks && !c.order.countsFirst ||
		c.maxPerInstance != 1 && c.counts.isWidespread(len(c.engine.views)) ||
		// Each task of the request compares all exceptions, and each task placed adds one.
		tasks*(c.counts.active.Len()+tasks/2) > len(c.engine.views))
	if c.index == nil || own != c.ownIndex {
		c.ownIndex = own
		if own {
			c.counts.fillDense(len(c.engine.views))
			c.index = newSortedIndex(c.engine, c.shape, c.regionMap, c.counts)
		} else {
			c.index = sharedIndexFor(c.engine, c.shape, c.regionMap)
		}
	}
	c.index.followChanges()
	c.engine.overlay.applyToIndex(c.index)
}

// dependsOnOwner reports whether the owner's tasks make a difference between instances of one
// region.
func (c *chooser) dependsOnOwner() bool { return c.order.countsOwnTasks || c.maxPerInstance > 0 }

// pickInstance returns the best instance for one more task, or -1: the best of the best of each
// region. nth is the task's position in the request, which choices by chance depend on.
func (c *chooser) pickInstance(seed uint64, nth int) int32 {
	exceptions := !c.ownIndex && c.dependsOnOwner() && c.counts.active.Len()+c.limited.occupying.Len() > 0
	best, incomplete := noInstance, false
	for _, regions := range c.openRegions() {
		for _, region := range regions {
			if !c.matchesClass(region) || !c.isRegionOpen(region) ||
				best.feasibility == unbuffered && regionCannotBeat(c, region, best) {
				continue
			}
			next := c.firstFeasible(region, exceptions)
			incomplete = incomplete || next.feasibility != unbuffered
			if c.isBetterThan(next, best) {
				best = next
			}
		}
	}
	if exceptions && incomplete && c.order.countsOwnTasks {
		best = bestException(c, best)
	}
	if best.instance >= 0 && c.order.random {
		return drawAmongTied(c, best, seed, nth)
	}
	return best.instance
}

// openRegions returns the regions that may be open to a task: all, or under domain rules those in
// the open domains of one kind, fault or upgrade, whichever has fewer. It includes regions that the
// other kind closes.
func (c *chooser) openRegions() [][]int32 {
	c.openLists = c.openLists[:0]
	t := c.domainTemplate
	if t == nil {
		c.openLists = append(c.openLists, c.regionMap.allRegions)
		return c.openLists
	}
	c.updateOpenDomains()
	lists, open := t.regionsByFault, c.faultOpen
	if countRegions(t.regionsByUpgrade, c.upgradeOpen) < countRegions(t.regionsByFault, c.faultOpen) {
		lists, open = t.regionsByUpgrade, c.upgradeOpen
	}
	for d, regions := range lists {
		if open[d] {
			c.openLists = append(c.openLists, regions)
		}
	}
	return c.openLists
}

// countRegions returns how many regions are in the open domains.
func countRegions(lists [][]int32, open []bool) (n int) {
	for d, regions := range lists {
		if open[d] {
			n += len(regions)
		}
	}
	return n
}

// regionCannotBeat reports whether no instance of the region, exceptions aside, can be better than
// best. best must not need the buffer.
func regionCannotBeat(c *chooser, region int32, best rankedInstance) bool {
	if groups := compareGroups(c, region, best.region); groups != 0 || !c.order.groupsFirst {
		return groups > 0
	}
	x := c.index
	head, own := &x.heads[region], x.rankOf(best.instance)
	return head.instance < 0 || x.isBefore(&own, best.instance, &head.rank, head.instance)
}

// compareGroups compares two regions by the steps on groups that come first in the order.
func compareGroups(c *chooser, r, q int32) int {
	for at := range c.order.steps {
		s := &c.order.steps[at]
		if s.kind != byGroup {
			return 0
		}
		if a, b := c.stepValue(s, -1, r), c.stepValue(s, -1, q); a != b {
			return cmp.Compare(a, b)
		}
	}
	return 0
}

// firstFeasible returns the region's first feasible instance that needs no buffer, or else the
// first that does. Exceptions are skipped.
func (c *chooser) firstFeasible(region int32, exceptions bool) rankedInstance {
	r := &c.index.runs[region]
	needs := c.index.needsOf(c.shape)
	withBuffer := noInstance
	for top := range r.tops {
		if !r.topOf(top).suffices(&needs) {
			continue
		}
		for at := top * topSize; at < min((top+1)*topSize, len(r.blocks)); at++ {
			if !r.maximumOf(at).suffices(&needs) {
				continue
			}
			found := c.firstInBlock(r.blocks[at], &needs, exceptions, withBuffer.instance >= 0)
			if found.region = region; found.feasibility == unbuffered {
				return found
			}
			if found.instance >= 0 {
				withBuffer = found
			}
		}
	}
	return withBuffer
}

// firstInBlock is [chooser.firstFeasible] for a block. If skipBuffered, instances that need the buffer
// are no help.
func (c *chooser) firstInBlock(b *block, needs *freeResources, exceptions, skipBuffered bool) rankedInstance {
	withBuffer := noInstance
	c.engine.visits += uint64(b.count)
	for n := range b.free[:b.count] {
		if !b.free[n].suffices(needs) {
			continue
		}
		i := b.instances[n]
		if isOwnerException(c, i, exceptions) {
			continue
		}
		switch f := c.feasibilityOf(int(i)); {
		case f == infeasible || f == buffered && (skipBuffered || withBuffer.instance >= 0):
		case f == unbuffered:
			return rankedInstance{instance: i, feasibility: unbuffered}
		default:
			withBuffer = rankedInstance{instance: i, feasibility: buffered}
		}
	}
	return withBuffer
}

// isOwnerException reports whether tasks of the owner make the instance other than the index has
// it: it already has as many as it may, or, with exceptions on, has any.
func isOwnerException(c *chooser, i int32, exceptions bool) bool {
	return exceptions && c.order.countsOwnTasks && c.counts.active.Of(i) != 0 ||
		c.maxPerInstance > 0 && c.limited.occupying.Of(i) >= c.maxPerInstance
}

// bestException returns the best of best and the instances that have tasks of the owner. These are
// compared only when the regions offered nothing without the buffer: an instance without tasks of
// the owner is better than any of them.
func bestException(c *chooser, best rankedInstance) rankedInstance {
	for i := range c.counts.active.All() {
		next := rankedInstance{instance: i, region: c.regionMap.regionOf[i]}
		if next.region < 0 || !c.engine.inCluster[i] || !c.isRegionOpen(next.region) ||
			c.maxPerInstance > 0 && c.limited.occupying.Of(i) >= c.maxPerInstance {
			continue
		}
		if next.feasibility = c.feasibilityOf(int(i)); c.isBetterThan(next, best) {
			best = next
		}
	}
	return best
}

// updateOpenDomains asks the domain rules which domains admit one more task.
func (c *chooser) updateOpenDomains() {
	for d := range c.faultOpen {
		c.faultOpen[d] = c.domains.FaultDomainCount() == 0 || c.domains.AdmitsFault(d-1)
	}
	for d := range c.upgradeOpen {
		c.upgradeOpen[d] = c.domains.UpgradeDomainCount() == 0 || c.domains.AdmitsUpgrade(d-1)
	}
}

// matchesClass reports whether the instances of the region may pass the tasks' static mask.
func (c *chooser) matchesClass(region int32) bool {
	bit := c.matcher.static.classBit
	return c.regionMap.regions[region].class&bit == bit
}

// isRegionOpen reports whether the domain rules admit one more task to the region.
func (c *chooser) isRegionOpen(region int32) bool {
	if c.domains == nil {
		return true
	}
	at := c.domainTemplate.regionDomains[region]
	return c.faultOpen[at.fault] && c.upgradeOpen[at.upgrade]
}

// drawAmongTied chooses among the instances that are as good as best, each with the same chance:
// the one whose id the seed maps to the lowest number. The result does not depend on the order in
// which they are visited.
func drawAmongTied(c *chooser, best rankedInstance, seed uint64, nth int) int32 {
	least, chosen := uint64(0), int32(-1)
	for _, regions := range c.openLists {
		for _, region := range regions {
			if !c.matchesClass(region) || !c.isRegionOpen(region) {
				continue
			}
			first := c.firstFeasible(region, false)
			if first.instance < 0 || c.compareRanked(first, best) != 0 {
				continue
			}
			c.index.eachTiedInstance(region, first.instance, func(i int32) {
				if isOwnerException(c, i, false) || c.feasibilityOf(int(i)) != best.feasibility {
					return
				}
				h := chanceKey(seed, nth, c.engine.idHash[i])
				if chosen < 0 || h < least || h == least && c.engine.hasLowerID(i, chosen) {
					least, chosen = h, i
				}
			})
		}
	}
	return chosen
}

// eachTiedInstance calls f for the instance and for those after it in its region that differ from
// it only in their ids.
func (x *sortedIndex) eachTiedInstance(region, first int32, f func(int32)) {
	begun := false
	for _, b := range x.runs[region].blocks[x.blocks[first].position:] {
		for _, i := range b.instances[:b.count] {
			if begun = begun || i == first; !begun {
				continue
			}
			if !x.tiesExceptForID(i, first) {
				return
			}
			f(i)
		}
	}
}

// chanceKey maps seed, position and id to a number without a pattern (the finalizer of SplitMix64).
func chanceKey(seed uint64, nth int, id uint64) uint64 {
	h := seed + (uint64(nth)+1)*0x9e3779b97f4a7c15 ^ id
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
