package moves

import (
	"cmp"
	"slices"
)

// Bounds of a search of a violation's surroundings.
const (
	nearDepth = 3 // tasks moved to make room for others that move
	nearTasks = 8 // tasks of one owner that are tried for one domain rule
	nearWidth = 8 // destinations of a task that are looked at: that have room, and half as many that must be given some
	nearTries = 4 // destinations that are tried
	nearSame  = 2 // where they have room and only room counts
	nearEach  = 3 // of each kind from one region
	nearStock = 4 // how many times as many are known, as others take them
)

// moveNear is what searches of surroundings in one stage keep.
type moveNear struct {
	depth int                  // tasks that may make room in this search
	kept  []int32              // per owner, tasks decided to stay
	lists map[int32]*moveStock // per shape
}

// moveStock is destinations for tasks of one shape, by region.
type moveStock struct {
	regions []*moveRegion
	index   map[[2]int]*moveRegion
	at      int // moves that had been made when they were looked at
}

func newMoveNear(p *moveProblem) *moveNear {
	return &moveNear{kept: make([]int32, len(p.owners)), lists: map[int32]*moveStock{}}
}

// moveRegion is destinations that are the same to an owner's domain rules: of each kind the best
// few.
type moveRegion struct {
	room, tight []moveTarget
}

func (r *moveRegion) sample() int32 {
	if len(r.room) > 0 {
		return r.room[0].at
	}
	return r.tight[0].at
}

// moveTarget is a destination with what speaks against it, the weightiest first.
type moveTarget struct {
	at      int32
	tight   bool // others must leave
	worse   bool // tasks of the owner must move, as its domain rules are broken further
	excess  int  // of the domain rules, with the task there
	buffer  bool
	own     int     // tasks of the owner there
	fullest float64 // the part of what it takes that is used then, of what the task needs
}

// easy reports whether nobody else need move.
func (a moveTarget) easy() bool { return !a.tight && !a.worse }

func (a moveTarget) compare(b moveTarget) int {
	return cmp.Or(
		compareBools(!a.easy(), !b.easy()), compareBools(a.worse, b.worse), compareBools(a.tight, b.tight),
		cmp.Compare(a.excess, b.excess), compareBools(a.buffer, b.buffer),
		cmp.Compare(a.own, b.own), cmp.Compare(a.fullest, b.fullest), cmp.Compare(a.at, b.at),
	)
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// admits reports whether the instance is a destination for tasks of the owner at all.
func (s *moveSearch) admits(owner, i int32) bool {
	if s.problem.takes(owner, i) {
		return true
	}
	return !s.stage.binds(max(0, s.problem.levels.placement)) && s.problem.instances[i].takes &&
		!s.problem.owners[owner].avoided(int(i))
}

// evaluateTarget looks at a destination, its domains aside.
func evaluateTarget(s *moveSearch, t, i int32) moveTarget {
	task := &s.problem.tasks[t]
	out := moveTarget{at: i, own: s.on(task.owner, i), tight: !s.fits(s.stage, t, i)}
	for _, a := range task.amounts {
		c := s.problem.cell(i, a.dim)
		load := s.now[c] + a.n
		out.buffer = out.buffer || load > s.problem.unbuffered[c]
		if limit := s.problem.unbuffered[c]; limit < unlimited {
			out.fullest = max(out.fullest, float64(load)/float64(max(limit, 1)))
		}
	}
	return out
}

// destinations are where the task may go, those first that promise most.
func (s *moveSearch) destinations(t int32, d moveDuty) []int32 {
	var targets []moveTarget
	if s.near != nil {
		targets = nearbyDestinations(s, t)
	} else {
		first := firstDestination(s, t)
		for i := first; i < int32(len(s.problem.instances)); i++ {
			if i != s.at[t] && s.admits(s.problem.tasks[t].owner, i) {
				targets = append(targets, evaluateTarget(s, t, i))
			}
		}
		weighDomains(s, t, targets)
	}
	slices.SortFunc(targets, moveTarget.compare)
	if s.near != nil {
		targets = promising(targets, d)
	}
	out := make([]int32, len(targets))
	for n := range targets {
		out[n] = targets[n].at
	}
	s.steps -= len(out) / 8
	return out
}

// promising are those of the surroundings that are worth a try: where one has room, no other need
// be given any.
func promising(targets []moveTarget, d moveDuty) []moveTarget {
	tries := nearTries
	if len(targets) > 0 && targets[0].easy() {
		if d.kind != dutyFault && d.kind != dutyUpgrade {
			tries = nearSame
		}
		for n, target := range targets {
			if !target.easy() {
				targets = targets[:n]
				break
			}
		}
	}
	return targets[:min(len(targets), tries)]
}

// firstDestination is the first destination to try: of tasks that are alike, one after the other
// goes no further to the front, as it makes no difference which of them goes where.
func firstDestination(s *moveSearch, t int32) int32 {
	first := int32(0)
	for _, o := range s.moving {
		if s.problem.tasks[o].shape == s.problem.tasks[t].shape && s.problem.tasks[o].at == s.problem.tasks[t].at {
			first = max(first, s.at[o])
		}
	}
	return first
}

// weighDomains fills in what the domain rules make of each destination.
func weighDomains(s *moveSearch, t int32, targets []moveTarget) {
	owner := s.problem.tasks[t].owner
	d := s.problem.owners[owner].domains
	if d == nil {
		return
	}
	from := s.at[t]
	if from >= 0 {
		d.Add(int(from), -1)
	}
	for n := range targets {
		d.Add(int(targets[n].at), 1)
		fault, upgrade := d.Excess()
		targets[n].excess = fault + upgrade
		targets[n].worse = fault > s.faults[owner] || upgrade > s.upgrades[owner]
		d.Add(int(targets[n].at), -1)
	}
	if from >= 0 {
		d.Add(int(from), 1)
	}
}

// nearbyDestinations are the best few destinations: from the regions that the domain rules like
// best, those that have room, and some where others would have to leave first. Destinations that
// were known and are taken by now are looked for once more.
func nearbyDestinations(s *moveSearch, t int32) []moveTarget {
	s.cut = true
	stock := knownDestinations(s, t, false)
	out := chooseDestinations(s, t, stock)
	if hasRoom(out) || stock.at == s.begun {
		return out
	}
	return chooseDestinations(s, t, knownDestinations(s, t, true))
}

func hasRoom(targets []moveTarget) bool {
	return slices.ContainsFunc(targets, moveTarget.easy)
}

// chooseDestinations takes destinations from what is known.
func chooseDestinations(s *moveSearch, t int32, stock *moveStock) []moveTarget {
	if keepsDomains(s, t) { // within the region no domain rule changes
		if out := gatherDestinations(s, t, []*moveRegion{stock.index[domainRegion(s, t, s.at[t])]},
			[]moveTarget{{}}); hasRoom(out) {
			return out
		}
	}
	samples := make([]moveTarget, len(stock.regions))
	for n, r := range stock.regions {
		samples[n] = moveTarget{at: r.sample(), own: n}
	}
	s.steps -= len(samples) / 64
	weighDomains(s, t, samples)
	slices.SortFunc(samples, func(a, b moveTarget) int {
		return cmp.Or(cmp.Compare(a.excess, b.excess), cmp.Compare(a.own, b.own))
	})
	if s.ejected >= s.near.depth { // nobody else may move to make up for it
		samples = slices.DeleteFunc(samples, func(r moveTarget) bool { return r.worse })
	}
	samples = samples[:min(len(samples), 2*nearWidth)]
	regions := make([]*moveRegion, len(samples))
	for n := range samples {
		regions[n] = stock.regions[samples[n].own]
	}
	return gatherDestinations(s, t, regions, samples)
}

// keepsDomains reports whether the task's domain rules are as they were, so that it had best stay
// within its region.
func keepsDomains(s *moveSearch, t int32) bool {
	owner := s.problem.tasks[t].owner
	d := s.problem.owners[owner].domains
	if d == nil || s.at[t] < 0 {
		return false
	}
	fault, upgrade := d.Excess()
	return fault+upgrade == 0
}

// gatherDestinations takes destinations from the regions in turn; samples say what the domain rules
// make of each.
func gatherDestinations(s *moveSearch, t int32, regions []*moveRegion, samples []moveTarget) []moveTarget {
	width, narrow := nearWidth, nearWidth/2
	var out []moveTarget
	for n, r := range regions {
		if r == nil {
			continue
		}
		each := max(nearEach, nearWidth/len(regions))
		room := pickDestinations(s, t, r.room, min(width, each), samples[n])
		tight := pickDestinations(s, t, r.tight, min(narrow, each), samples[n])
		out = append(append(out, room...), tight...)
		narrow -= len(tight)
		if width -= len(room); width <= 0 {
			break
		}
	}
	return out
}

// pickDestinations returns up to n of the destinations as they are now.
func pickDestinations(s *moveSearch, t int32, from []moveTarget, n int, sample moveTarget) (out []moveTarget) {
	for _, known := range from {
		if len(out) >= n {
			break
		}
		if known.at == s.at[t] {
			continue
		}
		now := evaluateTarget(s, t, known.at)
		if now.tight && (!known.tight || s.ejected >= s.near.depth) {
			continue
		}
		now.excess, now.worse = sample.excess, sample.worse
		out = append(out, now)
	}
	return out
}

// domainRegion is the region of an instance, as the domains of the task's owner have it.
func domainRegion(s *moveSearch, t, i int32) [2]int {
	d := s.problem.owners[s.problem.tasks[t].owner].domains
	if d == nil {
		return [2]int{-1, -1}
	}
	return [2]int{d.Fault(int(i)), d.Upgrade(int(i))}
}

// knownDestinations is what is known of destinations for tasks of the shape; fresh looks at all
// instances again.
func knownDestinations(s *moveSearch, t int32, fresh bool) *moveStock {
	shape := s.problem.tasks[t].shape
	if out := s.near.lists[shape]; out != nil && !fresh {
		return out
	}
	each := nearWidth * nearStock
	if s.problem.owners[s.problem.tasks[t].owner].domains != nil {
		each = nearEach * nearStock
	}
	out := &moveStock{index: map[[2]int]*moveRegion{}, at: s.begun}
	for i := range int32(len(s.problem.instances)) {
		if !s.admits(s.problem.tasks[t].owner, i) {
			continue
		}
		target := evaluateTarget(s, t, i)
		if target.tight && !canYieldRoom(s, t, i) {
			continue
		}
		key := domainRegion(s, t, i)
		r := out.index[key]
		if r == nil {
			r = &moveRegion{}
			out.index[key] = r
			out.regions = append(out.regions, r)
		}
		r.offer(target, each)
	}
	s.steps -= len(s.problem.instances) / 64
	s.near.lists[shape] = out
	return out
}

// offer keeps the target if it is among the best of its kind.
func (r *moveRegion) offer(target moveTarget, each int) {
	list := &r.room
	if target.tight {
		list = &r.tight
	}
	at, _ := slices.BinarySearchFunc(*list, target, moveTarget.compare)
	if at >= each {
		return
	}
	*list = slices.Insert(*list, at, target)
	if len(*list) > each {
		*list = (*list)[:each]
	}
}

// canYieldRoom reports whether the few tasks that may make room could make what the task needs on
// the instance.
func canYieldRoom(s *moveSearch, t, i int32) bool {
	for _, a := range s.problem.tasks[t].amounts {
		c := s.problem.cell(i, a.dim)
		roof := s.roof(s.stage, t, c, a.dim)
		if roof < a.n || !canRelieve(s.moveState, i, a.dim, a.n-max(0, roof-s.now[c]), nearDepth) {
			return false
		}
	}
	return true
}

// canRelieve reports whether so few tasks that may leave take up so much.
func canRelieve(s *moveState, i, dim int32, need int64, tasks int) bool {
	var largest [nearDepth]int64 // descending
	for _, t := range s.problem.instances[i].tasks {
		if n := s.problem.tasks[t].amount(dim); n > 0 && s.free(t) {
			for at := range largest {
				if n > largest[at] {
					n, largest[at] = largest[at], n
				}
			}
		}
	}
	for at := 0; at < tasks && need > 0; at++ {
		need -= largest[at]
	}
	return need <= 0
}
