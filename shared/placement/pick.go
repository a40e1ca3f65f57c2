package placement

// rank has the class go by a ranking that is up to date, for so many tasks to come. Owners of the same shape share one,
// and an instance that has tasks of the owner counts as an exception to it. Where these are no exceptions any more, or
// the order does not put the owner's tasks foremost, the owner has a ranking of its own.
func (c *class) rank(tasks int) {
	own := c.alone() && (c.order.random || c.order.counted && !c.order.foremost || c.tally.crowded(len(c.views)) ||
		tasks*(len(c.tally.active)+tasks/2) > len(c.views)) // each task passes by the exceptions, those before it included
	if c.roster = nil; !own && c.order.scorer == nil && !c.order.random && c.domains == nil {
		if c.shared == nil {
			c.shared = c.rosterOf(&c.order, c.layout)
		}
		c.roster = c.shared
		c.roster.follow()
		c.Engine.placed.show(c.roster)
		return
	}
	if c.ranking == nil || own != (c.ranking.owner != nil) {
		c.ranking = c.rankingOf(own)
	}
	c.ranking.follow()
	c.Engine.placed.show(c.ranking)
}

// alone reports whether the owner's tasks count in how instances of one region compare.
func (c *class) alone() bool { return c.order.counted || c.most > 0 }

func (c *class) rankingOf(own bool) *ranking {
	if own {
		c.tally.densely(len(c.views))
		k := c.newRanking(c.shape, c.layout, c.tally)
		k.most = c.most
		return k
	}
	key := c.shape.key + "\x04" + c.layout.key
	k := c.rankings[key]
	if k == nil {
		k = c.newRanking(c.shape, c.layout, nil)
		c.rankings[key] = k
	}
	return k
}

// pick is the best instance for one more task by the class's ranking, -1 if there is none: the best of the regions' best.
// The nth task of a request has a chance of its own where chance decides.
func (c *class) pick(seed uint64, nth int) int32 {
	if c.roster != nil {
		return c.pickFirst(c.roster)
	}
	k := c.ranking
	c.ask()
	exceptions := k.owner == nil && c.alone() && len(c.tally.active)+len(c.tally.held) > 0
	if c.layout.byDomain && c.columnsDecide() {
		if best := c.within(k, exceptions); best >= 0 && c.allows(k.fit[best]) {
			return best
		}
		return -1
	}
	best, wanting := nowhere, false
	for at := range c.layout.regions {
		if !c.opens(int32(at)) {
			continue
		}
		i, region := k.tree[c.layout.roots[at]], int32(at)
		if i >= 0 && best.at >= 0 && c.behind(k.spot(i, region), best, exceptions) {
			continue // nothing there is better, even if this one is an exception
		}
		if exceptions && i >= 0 {
			i = c.search(k, &c.layout.regions[at], 1, -1)
		}
		if i < 0 || k.fit[i] != unbuffered {
			wanting = true
		}
		if next := k.spot(i, region); c.better(next, best) {
			best = next
		}
	}
	if exceptions && wanting && c.order.counted {
		best = c.exception(best)
	}
	if best.at >= 0 && c.order.random {
		return c.draw(k, best, seed, nth)
	}
	return best.at
}

func (k *ranking) spot(i, region int32) spot {
	if i < 0 {
		return nowhere
	}
	return spot{i, region, k.fit[i]}
}

// behind reports whether a task had better go to b. Where no groups count, the columns say it.
func (c *class) behind(a, b spot, freely bool) bool {
	if c.columnsDecide() {
		return c.ranking.better(a.at, b.at) == b.at
	}
	return c.compare(a, b, freely) > 0
}

// columnsDecide reports whether instances of two regions compare as those of one do.
func (c *class) columnsDecide() bool {
	return len(c.order.attributes) == 0 && !c.order.counted && !c.order.random
}

// few is how many regions are looked at one by one rather than in the tree over them.
const few = 256

// within is the best instance in the open regions: those in the open domains of one kind are gone through where they are
// few, as they are with a service whose tasks are as evenly spread as its rules want them.
func (c *class) within(k *ranking, exceptions bool) int32 {
	t := c.territory
	lists, open, n := t.byFault, c.faults, count(t.byFault, c.faults)
	if upgrades := count(t.byUpgrade, c.upgrades); upgrades < n {
		lists, open, n = t.byUpgrade, c.upgrades, upgrades
	}
	if n > few {
		return c.sift(k, 1, -1, exceptions)
	}
	best := int32(-1)
	for d, regions := range lists {
		if !open[d] {
			continue
		}
		for _, region := range regions {
			i := k.tree[c.layout.roots[region]]
			switch {
			case i < 0 || !c.opens(region) || best >= 0 && k.better(i, best) == best:
			case exceptions && c.isException(i):
				best = c.search(k, &c.layout.regions[region], 1, best)
			default:
				best = i
			}
		}
	}
	return best
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

// sift is the best instance in the open regions below the node of the tree over regions, or best where that is better.
func (c *class) sift(k *ranking, node, best int32, exceptions bool) int32 {
	i := k.top[node]
	if i < 0 || best >= 0 && k.better(i, best) == best {
		return best
	}
	region := c.layout.region[i]
	open := c.opens(region)
	switch {
	case open && !(exceptions && c.isException(i)):
		return i
	case 2*int(node) < len(k.top):
		near, far := 2*node, 2*node+1
		if k.top[near] != i {
			near, far = far, near
		}
		return c.sift(k, far, c.sift(k, near, best, exceptions), exceptions)
	case open:
		return c.search(k, &c.layout.regions[region], 1, best)
	}
	return best
}

// isException reports whether tasks of the owner keep the instance from being what the shared ranking takes it for.
func (c *class) isException(i int32) bool {
	t := c.tally
	return c.order.counted && t.isActive.has(i) || c.most > 0 && t.isHeld.has(i) && (c.most == 1 || t.held[i] >= c.most)
}

// search is the best instance below the node that is no exception, or best where that is better.
func (c *class) search(k *ranking, r *region, node, best int32) int32 {
	i := k.tree[r.tree+node]
	if i < 0 || best >= 0 && k.better(i, best) == best {
		return best
	}
	if !c.isException(i) {
		return i
	}
	if node >= r.width {
		slot := r.from + (node-r.width)*blockSize
		for _, i := range c.layout.members[slot : slot+blockSize] {
			if i >= 0 && !c.isException(i) {
				best = k.improve(best, i)
			}
		}
		return best
	}
	near, far := 2*node, 2*node+1
	if k.tree[r.tree+near] == i {
		near, far = far, near
	}
	return c.search(k, r, far, c.search(k, r, near, best))
}

// exception is the best of the instances that have tasks of the owner, or best where that is better. It is asked where a
// region has nothing better, or nothing without the buffer.
func (c *class) exception(best spot) spot {
	for i := range c.tally.active {
		next := spot{at: i, region: c.layout.region[i]}
		if next.region < 0 || !c.listed[i] || !c.opens(next.region) || c.most > 0 && c.tally.held[i] >= c.most {
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

// draw is one of the instances that are as good as best, each as likely as any other: the one whose id the seed maps
// to the least number.
func (c *class) draw(k *ranking, best spot, seed uint64, nth int) int32 {
	least, chosen := uint64(0), int32(-1)
	for at := range c.layout.regions {
		r := &c.layout.regions[at]
		if i := k.tree[r.root()]; i < 0 || !c.opens(int32(at)) || c.compare(k.spot(i, int32(at)), best, false) != 0 {
			continue
		}
		k.eachEqual(r, 1, best.at, func(i int32) {
			h := chance(seed, nth, c.hash[i])
			if chosen < 0 || h < least || h == least && c.before(i, chosen) {
				least, chosen = h, i
			}
		})
	}
	return chosen
}

// eachEqual calls f for each instance below the node that is as fit as best and equal in all columns.
func (k *ranking) eachEqual(r *region, node, best int32, f func(int32)) {
	if i := k.tree[r.tree+node]; i < 0 || k.fit[i] != k.fit[best] || !k.equal(i, best) {
		return
	}
	if node < r.width {
		k.eachEqual(r, 2*node, best, f)
		k.eachEqual(r, 2*node+1, best, f)
		return
	}
	slot := r.from + (node-r.width)*blockSize
	for _, i := range k.layout.members[slot : slot+blockSize] {
		if i >= 0 && k.equal(i, best) && k.judge(i) == k.fit[best] {
			f(i)
		}
	}
}

func (k *ranking) equal(i, j int32) bool {
	for _, column := range k.columns {
		if (*column)[i] != (*column)[j] {
			return false
		}
	}
	return true
}

// chance is a number that seed, position and id decide and that looks like any other (the finalizer of SplitMix64).
func chance(seed uint64, nth int, id uint64) uint64 {
	h := seed + (uint64(nth)+1)*0x9e3779b97f4a7c15 ^ id
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
