package placement

import "cmp"

// prepareIndex has the class go by an index that is up to date, for so many tasks to come.
//
// Owners share an index, and an instance that has tasks of the owner counts as an exception to it.
// Where these are no exceptions any more, or the order does not put the owner's tasks foremost, the
// owner has an index of its own.
func (c *chooser) prepareIndex(tasks int) {
	own := c.countsOwnTasks() && (c.order.random || c.order.countsOwnTasks && !c.order.countsFirst ||
		c.maxPerInstance != 1 &&
			c.counts.isWidespread(len(c.engine.views)) ||
		// each task passes by the exceptions, those before it included
		tasks*(len(c.counts.active)+tasks/2) > len(c.engine.views))
	if c.index == nil || own != c.ownIndex {
		c.ownIndex = own
		if own {
			c.counts.fillDense(len(c.engine.views))
			c.index = newIndex(c.engine, c.shape, c.regionMap, c.counts)
		} else {
			c.index = sharedIndex(c.engine, c.shape, c.regionMap)
		}
	}
	c.index.catchUp()
	c.engine.overlay.applyToIndex(c.index)
}

// countsOwnTasks reports whether the owner's tasks count in how instances of one region compare.
func (c *chooser) countsOwnTasks() bool { return c.order.countsOwnTasks || c.maxPerInstance > 0 }

// pickInstance is the best instance for one more task by the class's index, -1 if there is none: the best
// of the regions' best. The nth task of a request has a chance of its own where chance decides.
func (c *chooser) pickInstance(seed uint64, nth int) int32 {
	exceptions := !c.ownIndex && c.countsOwnTasks() && len(c.counts.active)+len(c.counts.occupying) > 0
	best, wanting := noInstance, false
	for _, regions := range c.openRegions() {
		for _, region := range regions {
			if !c.isRegionOpen(region) || best.feasibility == unbuffered && cannotBeat(c, region, best) {
				continue
			}
			next := c.firstFeasible(region, exceptions)
			wanting = wanting || next.feasibility != unbuffered
			if c.isBetter(next, best) {
				best = next
			}
		}
	}
	if exceptions && wanting && c.order.countsOwnTasks {
		best = bestException(c, best)
	}
	if best.instance >= 0 && c.order.random {
		return drawTied(c, best, seed, nth)
	}
	return best.instance
}

// openRegions are the regions that may be open to a task: all, or with domain rules those in the
// open domains of one kind, whichever are fewer.
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

// countRegions is how many regions there are in the open domains.
func countRegions(lists [][]int32, open []bool) (n int) {
	for d, regions := range lists {
		if open[d] {
			n += len(regions)
		}
	}
	return n
}

// cannotBeat reports whether no instance of the region that is no exception can be better than
// best, which needs no buffer.
func cannotBeat(c *chooser, region int32, best rankedInstance) bool {
	if groups := compareGroups(c, region, best.region); groups != 0 || !c.order.groupsFirst {
		return groups > 0
	}
	head := c.index.heads[region]
	return head < 0 || c.index.precedes(best.instance, head)
}

// compareGroups compares two regions by the counts of groups that come before all else.
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

// firstFeasible is the first instance of the region that can take a task of the class and is no exception;
// where all of these need the buffer, the first of them.
func (c *chooser) firstFeasible(region int32, exceptions bool) rankedInstance {
	r, unit := &c.index.runs[region], c.index.cpuPerMiB
	cpu, memory := c.spec.Needs.CPU, c.spec.Needs.Memory
	both := freeResources{cpu, memory}.scarcerOf(unit)
	spare := noInstance
	for at := range r.maxima {
		if most := r.maximumOf(at, unit); most.cpu < cpu || most.memory < memory || most.scarcer < both {
			continue
		}
		b := r.blocks[at]
		c.engine.visits += uint64(len(b.free))
		for n := range b.free {
			if b.free[n].cpu < cpu || b.free[n].memory < memory {
				continue
			}
			i := b.instances[n]
			if isException(c, i, exceptions) {
				continue
			}
			switch f := c.feasibilityOf(int(i)); {
			case f == infeasible || f == buffered && spare.instance >= 0:
			case f == unbuffered:
				return rankedInstance{i, region, unbuffered}
			default:
				spare = rankedInstance{i, region, buffered}
			}
		}
	}
	return spare
}

// isException reports whether tasks of the owner keep the instance from being what the index takes
// it for: it has as many as it may, or, where instances with any are exceptions, has some.
func isException(c *chooser, i int32, exceptions bool) bool {
	counts := c.counts
	return exceptions && c.order.countsOwnTasks && counts.hasActive.contains(i) || c.maxPerInstance > 0 &&
		counts.isOccupied.contains(i) &&
		(c.maxPerInstance == 1 || counts.occupying[i] >= c.maxPerInstance)
}

// bestException is the best of the instances that have tasks of the owner, or best where that is
// better. It is asked where a region has nothing better, or nothing without the buffer.
func bestException(c *chooser, best rankedInstance) rankedInstance {
	for i := range c.counts.active {
		next := rankedInstance{instance: i, region: c.regionMap.regionOf[i]}
		if next.region < 0 || !c.engine.inCluster[i] || !c.isRegionOpen(next.region) || c.maxPerInstance > 0 &&
			c.counts.occupying[i] >= c.maxPerInstance {
			continue
		}
		if next.feasibility = c.feasibilityOf(int(i)); c.isBetter(next, best) {
			best = next
		}
	}
	return best
}

// updateOpenDomains asks the domain rules which domains may have one more task.
func (c *chooser) updateOpenDomains() {
	for d := range c.faultOpen {
		c.faultOpen[d] = c.domains.FaultDomainCount() == 0 || c.domains.AdmitsFault(d-1)
	}
	for d := range c.upgradeOpen {
		c.upgradeOpen[d] = c.domains.UpgradeDomainCount() == 0 || c.domains.AdmitsUpgrade(d-1)
	}
}

// isRegionOpen reports whether the domain rules let the region have one more task.
func (c *chooser) isRegionOpen(region int32) bool {
	if c.domains == nil {
		return true
	}
	at := c.domainTemplate.regionDomains[region]
	return c.faultOpen[at.fault] && c.upgradeOpen[at.upgrade]
}

// drawTied is one of the instances that are as good as best, each as likely as any other: the one
// whose id the seed maps to the least number.
func drawTied(c *chooser, best rankedInstance, seed uint64, nth int) int32 {
	least, chosen := uint64(0), int32(-1)
	for _, regions := range c.openLists {
		for _, region := range regions {
			if !c.isRegionOpen(region) {
				continue
			}
			first := c.firstFeasible(region, false)
			if first.instance < 0 || c.compareRanked(first, best) != 0 {
				continue
			}
			c.index.eachTied(region, first.instance, func(i int32) {
				if isException(c, i, false) || c.feasibilityOf(int(i)) != best.feasibility {
					return
				}
				h := chanceKey(seed, nth, c.engine.idHash[i])
				if chosen < 0 || h < least || h == least && c.engine.idBefore(i, chosen) {
					least, chosen = h, i
				}
			})
		}
	}
	return chosen
}

// eachTied calls f for the instance, and for each one after it in its region that only the id
// tells from it.
func (x *sortedIndex) eachTied(region, first int32, f func(int32)) {
	begun := false
	for _, b := range x.runs[region].blocks[x.blocks[first].position:] {
		for _, i := range b.instances {
			if begun = begun || i == first; !begun {
				continue
			}
			if !x.tiesWith(i, first) {
				return
			}
			f(i)
		}
	}
}

// chanceKey is a number that seed, position and id decide and that looks like any other (the finalizer
// of SplitMix64).
func chanceKey(seed uint64, nth int, id uint64) uint64 {
	h := seed + (uint64(nth)+1)*0x9e3779b97f4a7c15 ^ id
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
