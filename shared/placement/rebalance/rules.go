package rebalance

// serviceRules counts the tasks of services where their rules need it: per instance, per zone and
// per neighborhood. A service has a row of counters only if a rule of it needs them.
type serviceRules struct {
	zoneOf, hoodOf  []int32
	exclusive       []int32 // row of occupied, per service; -1 for none
	occupied        []uint64
	words           int             // of a row of occupied
	sharing         map[int64]int32 // tasks beyond the first one, by bit of occupied, where there are any
	zoneRow         []int32         // row of inZone, per service; -1 for none
	inZone          []int32
	zones           int
	zoneCount       []int32 // zones with tasks, per service
	least           []int32 // zones, per service
	hoodRow         []int32 // row of inHood, per service; -1 for none
	inHood          []int32
	hoods           int
	needs, neededBy [][]int32
	mayAbandon      bool      // those that depend on a task follow it in the next moves
	domains         []Domains // per service; nil if no service has any
}

func newServiceRules(p *Problem) serviceRules {
	n := len(p.Services)
	r := serviceRules{
		zoneOf: make([]int32, len(p.Instances)), hoodOf: make([]int32, len(p.Instances)), exclusive: make([]int32, n),
		words: (len(p.Instances) + 63) / 64, zoneRow: make([]int32, n), zoneCount: make([]int32, n),
		least: make([]int32, n), hoodRow: make([]int32, n), needs: make([][]int32, n), neededBy: make([][]int32, n),
	}
	for i, x := range p.Instances {
		r.zoneOf[i], r.hoodOf[i] = x.Zone, x.Neighborhood
		r.zones, r.hoods = max(r.zones, int(x.Zone)+1), max(r.hoods, int(x.Neighborhood)+1)
	}
	size := make([]int, n)
	for t := range p.Tasks {
		size[p.Tasks[t].Service]++
	}
	for s := range p.Services {
		for _, d := range p.Services[s].DependsOn {
			if int(d) != s {
				r.needs[s] = append(r.needs[s], d)
				r.neededBy[d] = append(r.neededBy[d], int32(s))
			}
		}
	}
	var exclusive, inZone, inHood int32
	row := func(needed bool, count *int32) int32 {
		if !needed {
			return -1
		}
		*count++
		return *count - 1
	}
	for s, x := range p.Services {
		r.least[s] = x.LeastZones
		r.exclusive[s] = row(x.Exclusive && size[s] > 1, &exclusive)
		r.zoneRow[s] = row(x.LeastZones > 1, &inZone)
		r.hoodRow[s] = row(len(r.needs[s])+len(r.neededBy[s]) > 0, &inHood)
	}
	for s, x := range p.Services {
		if x.Domains == nil {
			continue
		}
		if r.domains == nil {
			r.domains = make([]Domains, n)
		}
		r.domains[s] = x.Domains()
	}
	r.occupied, r.sharing = make([]uint64, int(exclusive)*r.words), map[int64]int32{}
	r.inZone, r.inHood = make([]int32, int(inZone)*r.zones), make([]int32, int(inHood)*r.hoods)
	return r
}

// addTask counts a task that comes to the instance (sign 1) or leaves it (-1).
func (r *serviceRules) addTask(s, i, sign int32) {
	if row := r.exclusive[s]; row >= 0 {
		r.countOccupant(row, i, sign)
	}
	if row := r.zoneRow[s]; row >= 0 {
		count := &r.inZone[int(row)*r.zones+int(r.zoneOf[i])]
		if *count += sign; *count == 0 || *count == 1 && sign > 0 {
			r.zoneCount[s] += sign
		}
	}
	if row := r.hoodRow[s]; row >= 0 {
		r.inHood[int(row)*r.hoods+int(r.hoodOf[i])] += sign
	}
	if r.hasDomains(s) {
		r.domains[s].AddTasks(int(i), int(sign))
	}
}

// hasDomains reports whether rules of domains apply to the service.
func (r *serviceRules) hasDomains(s int32) bool { return r.domains != nil && r.domains[s] != nil }

// keepsDomains reports whether a task of the service may move without breaking a rule of its
// domains further.
func (r *serviceRules) keepsDomains(s, from, to int32) bool {
	return !r.hasDomains(s) || r.domains[s].MayMove(int(from), int(to))
}

// countOccupant counts a task of a service that shares no instance. At the start, several may be on
// one: it is occupied until the last one has left.
func (r *serviceRules) countOccupant(row, i, sign int32) {
	word, bit := &r.occupied[int(row)*r.words+int(i>>6)], uint64(1)<<(i&63)
	key := int64(row)*int64(len(r.zoneOf)) + int64(i)
	switch {
	case *word&bit == 0:
		*word |= bit
	case sign > 0:
		r.sharing[key]++
	case len(r.sharing) > 0 && r.sharing[key] > 0:
		r.sharing[key]--
	default:
		*word &^= bit
	}
}

// isOccupied reports whether the service has a task on the instance that it would not share.
func (r *serviceRules) isOccupied(s, i int32) bool {
	row := r.exclusive[s]
	return row >= 0 && r.occupied[int(row)*r.words+int(i>>6)]>>(i&63)&1 != 0
}

// keepsZones reports whether a task of the service may move without leaving too few zones: there
// are enough of them after the move, or no fewer than before.
func (r *serviceRules) keepsZones(s, from, to int32) bool {
	row := r.zoneRow[s]
	if row < 0 || r.zoneOf[from] == r.zoneOf[to] {
		return true
	}
	counts := r.inZone[int(row)*r.zones : (int(row)+1)*r.zones]
	after := r.zoneCount[s]
	if counts[r.zoneOf[from]] == 1 {
		after--
	}
	if counts[r.zoneOf[to]] == 0 {
		after++
	}
	return after >= min(r.least[s], r.zoneCount[s])
}

// hoodCount returns how many tasks the service has in the neighborhood. The service has a row.
func (r *serviceRules) hoodCount(s, hood int32) int32 {
	return r.inHood[int(r.hoodRow[s])*r.hoods+int(hood)]
}

// keepsHoods reports whether moving a task of the service keeps dependencies, while a task of
// another service (-1 for none) moves the opposite way. What the service depends on has to be in
// the new neighborhood. If it leaves the old one altogether, none may depend on it there.
func (r *serviceRules) keepsHoods(s, other, from, to int32) bool {
	old, now := r.hoodOf[from], r.hoodOf[to]
	if r.hoodRow[s] < 0 || old == now {
		return true
	}
	for _, d := range r.needs[s] {
		count := r.hoodCount(d, now)
		if d == other {
			count--
		}
		if count <= 0 {
			return false
		}
	}
	if !r.mayAbandon && len(r.neededBy[s]) > 0 && r.hoodCount(s, old) == 1 {
		for _, x := range r.neededBy[s] {
			if r.hoodCount(x, old) > 0 {
				return false
			}
		}
	}
	return true
}

// mayLeave reports whether a task of the service may leave the instance before it is known where it
// goes: no other service depends on it alone, and no rule of domains compares where it was.
func (r *serviceRules) mayLeave(s, i int32) bool {
	if r.hasDomains(s) {
		return false
	}
	if r.hoodRow[s] < 0 || len(r.neededBy[s]) == 0 || r.hoodCount(s, r.hoodOf[i]) > 1 {
		return true
	}
	for _, x := range r.neededBy[s] {
		if r.hoodCount(x, r.hoodOf[i]) > 0 {
			return false
		}
	}
	return true
}

// mayJoin reports whether what the service depends on is in the instance's neighborhood.
func (r *serviceRules) mayJoin(s, i int32) bool {
	for _, d := range r.needs[s] {
		if r.hoodCount(d, r.hoodOf[i]) == 0 {
			return false
		}
	}
	return true
}

// reachesZones reports whether the service can still be in enough zones after a task of it is put
// on the instance, if so many more follow.
func (r *serviceRules) reachesZones(s, i, more int32) bool {
	row := r.zoneRow[s]
	if row < 0 {
		return true
	}
	zones := r.zoneCount[s] + more
	if r.inZone[int(row)*r.zones+int(r.zoneOf[i])] == 0 {
		zones++
	}
	return zones >= r.least[s]
}
