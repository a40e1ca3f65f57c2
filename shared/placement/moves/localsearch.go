package moves

import (
	"cmp"
	"slices"
)

// The limits of a search near one violation.
const (
	nearDepth = 3 // tasks moved to make room for others that move
	nearTasks = 8 // tasks of one owner tried for one domain rule
	nearWidth = 8 // destinations with room per task, and half as many that other tasks must leave first
	nearTries = 4 // destinations tried
	nearSame  = 2 // destinations tried if they have room and domains do not matter
	nearEach  = 3 // destinations of each kind from one region
	nearSpare = 4 // how many times as many are listed, as others use them up
)

// A localSearch is what the searches near single violations in one stage keep. In a large problem
// there are too many instances to try each as a destination. A local search lists the best few once
// for each shape of task, and evaluates only those again as tasks move.
type localSearch struct {
	depth        int                        // tasks that may move to make room in this search
	kept         []int32                    // tasks decided to stay, per owner
	destinations map[int32]*destinationList // per shape of task
}

// A destinationList has destinations for tasks of one shape, by region.
type destinationList struct {
	regions     []*destinationRegion
	index       map[[2]int]*destinationRegion
	movesBefore int  // moves made before the search that filled the list
	onPath      bool // moves of that search were made, too
}

func newLocalSearch(p *problem) *localSearch {
	return &localSearch{kept: make([]int32, len(p.owners)), destinations: map[int32]*destinationList{}}
}

// A destinationRegion has the best few destinations among instances that are equal to the owner's
// domain rules. One sample of a region tells what the rules make of all of it.
type destinationRegion struct {
	room, needingRoom []destination
}

// sampleInstance returns any instance of the region: to the domain rules all are the same.
func (r *destinationRegion) sampleInstance() int32 {
	if len(r.room) > 0 {
		return r.room[0].instance
	}
	return r.needingRoom[0].instance
}

// A destination is an instance that a task may move to, with what speaks against it, the weightiest
// first.
type destination struct {
	instance  int32
	needsRoom bool // other tasks must leave first
	// worsensDomains: tasks of the owner must move, because its domain rules are broken further.
	worsensDomains bool
	excess         int     // of the domain rules with the task there
	buffer         bool    // the buffer is needed
	ownTasks       int     // tasks of the owner there
	fullest        float64 // the largest used fraction of the dimensions that the task needs
}

// displacesNothing reports whether no other task has to move.
func (a destination) displacesNothing() bool { return !a.needsRoom && !a.worsensDomains }

// compare is negative if a is the more promising destination: nothing else has to move; then the
// domain rules; then the buffer; then the fewest tasks of the owner; then the most room left.
func (a destination) compare(b destination) int {
	return cmp.Or(compareBools(!a.displacesNothing(), !b.displacesNothing()),
		compareBools(a.worsensDomains, b.worsensDomains), compareBools(a.needsRoom, b.needsRoom),
		cmp.Compare(a.excess, b.excess), compareBools(a.buffer, b.buffer), cmp.Compare(a.ownTasks, b.ownTasks),
		cmp.Compare(a.fullest, b.fullest), cmp.Compare(a.instance, b.instance))
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// isDestination reports whether tasks of the owner may go to the instance at all.
func (s *branchSearch) isDestination(owner, i int32) bool {
	if s.problem.lacksReservation(owner, i) {
		return false
	}
	if s.problem.canHostTaskOf(owner, i) {
		return true
	}
	return !s.stage.bindsLevel(max(0, s.problem.levels.placement)) && s.problem.instances[i].takesTasks &&
		!s.problem.owners[owner].isAvoided(int(i))
}

// evaluateDestination evaluates an instance as a destination, without its domains.
func evaluateDestination(s *branchSearch, t, i int32) destination {
	task := &s.problem.tasks[t]
	out := destination{instance: i, ownTasks: s.ownerTasksOn(task.owner, i), needsRoom: !s.hasRoomFor(s.stage, t, i)}
	for _, a := range task.amounts {
		c := s.problem.cellIndex(i, a.dim)
		load := usedWith(s.assignment, t, i, a)
		out.buffer = out.buffer || load > s.problem.unbuffered[c]
		if limit := s.problem.unbuffered[c]; limit < unlimited {
			out.fullest = max(out.fullest, float64(load)/float64(max(limit, 1)))
		}
	}
	return out
}

// rankDestinations returns the instances that the task may move to, the most promising first.
func (s *branchSearch) rankDestinations(t int32, v openViolation) []int32 {
	var targets []destination
	if s.isBoundToParent(t) && s.local != nil {
		targets = parentDestinations(s, t)
	} else if s.local != nil && isBoundToNodes(s.assignment, t) {
		targets = applicationDestinations(s, t)
	} else if s.local != nil {
		targets = nearbyDestinations(s, t)
	} else {
		first := firstDestination(s, t)
		for i := first; i < int32(len(s.problem.instances)); i++ {
			if i != s.at[t] && s.isDestination(s.problem.tasks[t].owner, i) && s.mayBeTaken(t, i) {
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

// mostPromising returns the destinations worth a try. If one has room, no other task needs to be
// displaced.
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

// firstDestination returns the first instance to try. Equal tasks from one instance are moved in
// the order of instances, so that each combination is tried once: if one has gone to i-5, the next
// one goes to i-5 or a later one.
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

// weighDomains fills in what the domain rules make of each destination, by trying the task there.
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

// nearbyDestinations returns a few destinations from the regions that the domain rules prefer:
// those with room, and some that others would have to leave. If the listed ones are full by now,
// the list is filled again.
func nearbyDestinations(s *branchSearch, t int32) []destination {
	s.cut = true
	known := knownDestinations(s, t, false)
	out := chooseDestinations(s, t, known)
	if anyHasRoom(out) || known.movesBefore == s.movesBefore {
		return out
	}
	return chooseDestinations(s, t, knownDestinations(s, t, true))
}

func anyHasRoom(targets []destination) bool {
	return slices.ContainsFunc(targets, destination.displacesNothing)
}

// chooseDestinations chooses from a list.
func chooseDestinations(s *branchSearch, t int32, known *destinationList) []destination {
	if keepsDomains(s, t) { // a move within the region changes no domain
		if out := gatherDestinations(s, t, []*destinationRegion{known.index[domainRegion(s, t, s.at[t])]},
			[]destination{{}}); anyHasRoom(out) {
			return out
		}
	}
	samples := make([]destination, len(known.regions))
	for n, r := range known.regions {
		samples[n] = destination{instance: r.sampleInstance(), ownTasks: n} // the region, in place of tasks
	}
	s.steps -= len(samples) / 64
	weighDomains(s, t, samples)
	slices.SortFunc(samples, func(a, b destination) int {
		return cmp.Or(cmp.Compare(a.excess, b.excess), cmp.Compare(a.ownTasks, b.ownTasks))
	})
	if s.displaced >= s.local.depth { // no other task may move to compensate
		samples = slices.DeleteFunc(samples, func(r destination) bool { return r.worsensDomains })
	}
	samples = samples[:min(len(samples), 2*nearWidth)]
	regions := make([]*destinationRegion, len(samples))
	for n := range samples {
		regions[n] = known.regions[samples[n].ownTasks]
	}
	return gatherDestinations(s, t, regions, samples)
}

// keepsDomains reports whether the owner's domain rules hold. A task then best stays in its region.
func keepsDomains(s *branchSearch, t int32) bool {
	owner := s.problem.tasks[t].owner
	d := s.problem.owners[owner].domains
	if d == nil || s.at[t] < 0 {
		return false
	}
	fault, upgrade := d.Excess()
	return fault+upgrade == 0
}

// gatherDestinations takes destinations from the regions in turn. samples has what the domain rules
// make of each region.
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

// pickDestinations returns up to n of the destinations, evaluated again.
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

// domainRegion returns the fault and upgrade domain of an instance, as the task's owner has them.
func domainRegion(s *branchSearch, t, i int32) [2]int {
	d := s.problem.owners[s.problem.tasks[t].owner].domains
	if d == nil {
		return [2]int{-1, -1}
	}
	return [2]int{d.FaultDomain(int(i)), d.UpgradeDomain(int(i))}
}

// knownDestinations returns the list for tasks of the shape. With again it is filled anew, and so it is at
// the start of a search if an earlier path filled it: a task on that path may have gone where there is room.
func knownDestinations(s *branchSearch, t int32, again bool) *destinationList {
	shape := s.problem.tasks[t].shape
	onPath := len(s.movedTasks) > s.movesBefore
	if out := s.local.destinations[shape]; out != nil && !again && (onPath || !out.onPath) {
		return out
	}
	each := nearWidth * nearSpare
	if s.problem.owners[s.problem.tasks[t].owner].domains != nil {
		each = nearEach * nearSpare
	}
	out := &destinationList{index: map[[2]int]*destinationRegion{}, movesBefore: s.movesBefore, onPath: onPath}
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
		r.keepIfAmongBest(target, each)
	}
	s.steps -= len(s.problem.instances) / 64
	s.local.destinations[shape] = out
	return out
}

// keepIfAmongBest adds the destination if it is among the best of its kind.
func (r *destinationRegion) keepIfAmongBest(target destination, each int) {
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

// canYieldRoom reports whether moving a few tasks could make the room that the task needs on the
// instance.
func canYieldRoom(s *branchSearch, t, i int32) bool {
	for _, a := range s.problem.tasks[t].amounts {
		c := s.problem.cellIndex(i, a.dim)
		limit := s.loadLimit(s.stage, t, c, a.dim)
		if limit < a.amount || !canRelieve(s.assignment, i, a.dim,
			usedWith(s.assignment, t, i, a)-max(limit, usedOf(s.assignment, c)), nearDepth) {
			return false
		}
	}
	return true
}

// canRelieve reports whether that many undecided tasks use at least need of the dimension together.
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
	for _, n := range largest[:tasks] {
		need -= n
	}
	return need <= 0
}
