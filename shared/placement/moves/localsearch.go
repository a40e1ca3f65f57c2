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
	nearSpare = 4 // how many times as many are known, as others take them
)

// localSearch is what searches of surroundings in one stage keep.
type localSearch struct {
	depth        int                        // tasks that may make room in this search
	kept         []int32                    // per owner, tasks decided to stay
	destinations map[int32]*destinationList // per shape
}

// destinationList is destinations for tasks of one shape, by region.
type destinationList struct {
	regions     []*destinationRegion
	index       map[[2]int]*destinationRegion
	movesBefore int // moves that had been made when they were looked at
}

func newLocalSearch(p *problem) *localSearch {
	return &localSearch{kept: make([]int32, len(p.owners)), destinations: map[int32]*destinationList{}}
}

// destinationRegion is destinations that are the same to an owner's domain rules: of each kind the best
// few.
type destinationRegion struct {
	room, needingRoom []destination
}

func (r *destinationRegion) sampleInstance() int32 {
	if len(r.room) > 0 {
		return r.room[0].instance
	}
	return r.needingRoom[0].instance
}

// destination is a destination with what speaks against it, the weightiest first.
type destination struct {
	instance       int32
	needsRoom      bool // others must leave
	worsensDomains bool // tasks of the owner must move, as its domain rules are broken further
	excess         int  // of the domain rules, with the task there
	buffer         bool
	ownTasks       int     // tasks of the owner there
	fullest        float64 // the part of what it takes that is used then, of what the task needs
}

// displacesNothing reports whether nobody else need move.
func (a destination) displacesNothing() bool { return !a.needsRoom && !a.worsensDomains }

func (a destination) compare(b destination) int {
	return cmp.Or(
		compareBools(!a.displacesNothing(), !b.displacesNothing()), compareBools(a.worsensDomains, b.worsensDomains),
		compareBools(a.needsRoom, b.needsRoom),
		cmp.Compare(a.excess, b.excess), compareBools(a.buffer, b.buffer),
		cmp.Compare(a.ownTasks, b.ownTasks), cmp.Compare(a.fullest, b.fullest), cmp.Compare(a.instance, b.instance),
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

// isDestination reports whether the instance is a destination for tasks of the owner at all.
func (s *branchSearch) isDestination(owner, i int32) bool {
	if s.problem.canHost(owner, i) {
		return true
	}
	return !s.stage.binds(max(0, s.problem.levels.placement)) && s.problem.instances[i].takesTasks &&
		!s.problem.owners[owner].isAvoided(int(i))
}

// evaluateDestination looks at a destination, its domains aside.
func evaluateDestination(s *branchSearch, t, i int32) destination {
	task := &s.problem.tasks[t]
	out := destination{instance: i, ownTasks: s.tasksOn(task.owner, i), needsRoom: !s.hasRoomFor(s.stage, t, i)}
	for _, a := range task.amounts {
		c := s.problem.cellIndex(i, a.dim)
		load := s.load[c] + a.amount
		out.buffer = out.buffer || load > s.problem.unbuffered[c]
		if limit := s.problem.unbuffered[c]; limit < unlimited {
			out.fullest = max(out.fullest, float64(load)/float64(max(limit, 1)))
		}
	}
	return out
}

// rankDestinations are where the task may go, those first that promise most.
func (s *branchSearch) rankDestinations(t int32, v openViolation) []int32 {
	var targets []destination
	if s.local != nil {
		targets = nearbyDestinations(s, t)
	} else {
		first := firstDestination(s, t)
		for i := first; i < int32(len(s.problem.instances)); i++ {
			if i != s.at[t] && s.isDestination(s.problem.tasks[t].owner, i) {
				targets = append(targets, evaluateDestination(s, t, i))
			}
		}
		weighDomains(s, t, targets)
	}
	slices.SortFunc(targets, destination.compare)
	if s.local != nil {
		targets = mostPromising(targets, v)
	}
	out := make([]int32, len(targets))
	for n := range targets {
		out[n] = targets[n].instance
	}
	s.steps -= len(out) / 8
	return out
}

// mostPromising are those of the surroundings that are worth a try: where one has room, no other need
// be given any.
func mostPromising(targets []destination, v openViolation) []destination {
	tries := nearTries
	if len(targets) > 0 && targets[0].displacesNothing() {
		if v.kind != faultDomains && v.kind != upgradeDomains {
			tries = nearSame
		}
		for n, target := range targets {
			if !target.displacesNothing() {
				targets = targets[:n]
				break
			}
		}
	}
	return targets[:min(len(targets), tries)]
}

// firstDestination is the first destination to try: of tasks that are alike, one after the other
// goes no further to the front, as it makes no difference which of them goes where.
func firstDestination(s *branchSearch, t int32) int32 {
	first := int32(0)
	for _, o := range s.movedTasks {
		if s.problem.tasks[o].shape == s.problem.tasks[t].shape &&
			s.problem.tasks[o].initial == s.problem.tasks[t].initial {
			first = max(first, s.at[o])
		}
	}
	return first
}

// weighDomains fills in what the domain rules make of each destination.
func weighDomains(s *branchSearch, t int32, targets []destination) {
	owner := s.problem.tasks[t].owner
	d := s.problem.owners[owner].domains
	if d == nil {
		return
	}
	from := s.at[t]
	if from >= 0 {
		d.AddTasks(int(from), -1)
	}
	for n := range targets {
		d.AddTasks(int(targets[n].instance), 1)
		fault, upgrade := d.Excess()
		targets[n].excess = fault + upgrade
		targets[n].worsensDomains = fault > s.initialFaults[owner] || upgrade > s.initialUpgrades[owner]
		d.AddTasks(int(targets[n].instance), -1)
	}
	if from >= 0 {
		d.AddTasks(int(from), 1)
	}
}

// nearbyDestinations are the best few destinations: from the regions that the domain rules like
// best, those that have room, and some where others would have to leave first. Destinations that
// were known and are taken by now are looked for once more.
func nearbyDestinations(s *branchSearch, t int32) []destination {
	s.cut = true
	known := knownDestinations(s, t, false)
	out := chooseDestinations(s, t, known)
	if hasRoom(out) || known.movesBefore == s.movesBefore {
		return out
	}
	return chooseDestinations(s, t, knownDestinations(s, t, true))
}

func hasRoom(targets []destination) bool {
	return slices.ContainsFunc(targets, destination.displacesNothing)
}

// chooseDestinations takes destinations from what is known.
func chooseDestinations(s *branchSearch, t int32, known *destinationList) []destination {
	if keepsDomains(s, t) { // within the region no domain rule changes
		if out := gatherDestinations(s, t, []*destinationRegion{known.index[domainRegion(s, t, s.at[t])]},
			[]destination{{}}); hasRoom(out) {
			return out
		}
	}
	samples := make([]destination, len(known.regions))
	for n, r := range known.regions {
		samples[n] = destination{instance: r.sampleInstance(), ownTasks: n}
	}
	s.steps -= len(samples) / 64
	weighDomains(s, t, samples)
	slices.SortFunc(samples, func(a, b destination) int {
		return cmp.Or(cmp.Compare(a.excess, b.excess), cmp.Compare(a.ownTasks, b.ownTasks))
	})
	if s.displaced >= s.local.depth { // nobody else may move to make up for it
		samples = slices.DeleteFunc(samples, func(r destination) bool { return r.worsensDomains })
	}
	samples = samples[:min(len(samples), 2*nearWidth)]
	regions := make([]*destinationRegion, len(samples))
	for n := range samples {
		regions[n] = known.regions[samples[n].ownTasks]
	}
	return gatherDestinations(s, t, regions, samples)
}

// keepsDomains reports whether the task's domain rules are as they were, so that it had best stay
// within its region.
func keepsDomains(s *branchSearch, t int32) bool {
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
func gatherDestinations(s *branchSearch, t int32, regions []*destinationRegion, samples []destination) []destination {
	width, narrow := nearWidth, nearWidth/2
	var out []destination
	for n, r := range regions {
		if r == nil {
			continue
		}
		each := max(nearEach, nearWidth/len(regions))
		room := pickDestinations(s, t, r.room, min(width, each), samples[n])
		tight := pickDestinations(s, t, r.needingRoom, min(narrow, each), samples[n])
		out = append(append(out, room...), tight...)
		narrow -= len(tight)
		if width -= len(room); width <= 0 {
			break
		}
	}
	return out
}

// pickDestinations returns up to n of the destinations as they are now.
func pickDestinations(s *branchSearch, t int32, from []destination, n int, sample destination) (out []destination) {
	for _, known := range from {
		if len(out) >= n {
			break
		}
		if known.instance == s.at[t] {
			continue
		}
		now := evaluateDestination(s, t, known.instance)
		if now.needsRoom && (!known.needsRoom || s.displaced >= s.local.depth) {
			continue
		}
		now.excess, now.worsensDomains = sample.excess, sample.worsensDomains
		out = append(out, now)
	}
	return out
}

// domainRegion is the region of an instance, as the domains of the task's owner have it.
func domainRegion(s *branchSearch, t, i int32) [2]int {
	d := s.problem.owners[s.problem.tasks[t].owner].domains
	if d == nil {
		return [2]int{-1, -1}
	}
	return [2]int{d.FaultDomain(int(i)), d.UpgradeDomain(int(i))}
}

// knownDestinations is what is known of destinations for tasks of the shape; fresh looks at all
// instances again.
func knownDestinations(s *branchSearch, t int32, again bool) *destinationList {
	shape := s.problem.tasks[t].shape
	if out := s.local.destinations[shape]; out != nil && !again {
		return out
	}
	each := nearWidth * nearSpare
	if s.problem.owners[s.problem.tasks[t].owner].domains != nil {
		each = nearEach * nearSpare
	}
	out := &destinationList{index: map[[2]int]*destinationRegion{}, movesBefore: s.movesBefore}
	for i := range int32(len(s.problem.instances)) {
		if !s.isDestination(s.problem.tasks[t].owner, i) {
			continue
		}
		target := evaluateDestination(s, t, i)
		if target.needsRoom && !canYieldRoom(s, t, i) {
			continue
		}
		key := domainRegion(s, t, i)
		r := out.index[key]
		if r == nil {
			r = &destinationRegion{}
			out.index[key] = r
			out.regions = append(out.regions, r)
		}
		r.keepBest(target, each)
	}
	s.steps -= len(s.problem.instances) / 64
	s.local.destinations[shape] = out
	return out
}

// keepBest keeps the target if it is among the best of its kind.
func (r *destinationRegion) keepBest(target destination, each int) {
	list := &r.room
	if target.needsRoom {
		list = &r.needingRoom
	}
	at, _ := slices.BinarySearchFunc(*list, target, destination.compare)
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
func canYieldRoom(s *branchSearch, t, i int32) bool {
	for _, a := range s.problem.tasks[t].amounts {
		c := s.problem.cellIndex(i, a.dim)
		roof := s.loadLimit(s.stage, t, c, a.dim)
		if roof < a.amount || !canRelieve(s.assignment, i, a.dim, a.amount-max(0, roof-s.load[c]), nearDepth) {
			return false
		}
	}
	return true
}

// canRelieve reports whether so few tasks that may leave take up so much.
func canRelieve(s *assignment, i, dim int32, need int64, tasks int) bool {
	var largest [nearDepth]int64 // descending
	for _, t := range s.problem.instances[i].tasks {
		if n := s.problem.tasks[t].amountOf(dim); n > 0 && s.isUndecided(t) {
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
