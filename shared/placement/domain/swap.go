package domain

import "slices"

// A Swap moves a task of the same call from one instance to another, so that a new task finds a
// place.
type Swap struct{ From, To int32 }

// FindSwaps looks for a place for one more task if no free instance is in a fault domain and an
// upgrade domain that both admit it. It returns the place and the swaps to carry out first, in any
// order, or -1 if there are none.
//
// The new task goes to an instance whose fault domain admits it. A task in that instance's upgrade
// domain moves to another instance of its own fault domain, which leaves the fault rule as it was.
// That instance's upgrade domain may now have one too many, so a task of it moves in turn, until an
// upgrade domain admits what arrives. This is a shortest augmenting path between the two kinds of
// domains. If own has all tasks of the service, and fault domains have one level, there is no other
// way to place one more task. Among paths of the same length the order of free and own decides.
func (d *Domains) FindSwaps(free, own []int32) (at int32, swaps []Swap) {
	for _, same := range []bool{true, false} {
		s := swapSearch{Domains: d, free: free, own: own, sameLeaf: same,
			arrivals: make([]arrival, d.UpgradeDomainCount())}
		s.groupFreeByLeaf()
		if at, swaps = s.findSwapPath(); at >= 0 && (same || d.remainValidAfter(at, swaps)) {
			return at, swaps
		}
	}
	return -1, nil
}

// remainValidAfter reports whether the rules hold after the swaps and the new task.
func (d *Domains) remainValidAfter(at int32, swaps []Swap) bool {
	d.applySwaps(at, swaps, 1)
	fault, upgrade := d.Excess()
	d.applySwaps(at, swaps, -1)
	return fault+upgrade == 0
}

func (d *Domains) applySwaps(at int32, swaps []Swap, sign int) {
	d.AddTasks(int(at), sign)
	for _, w := range swaps {
		d.AddTasks(int(w.From), -sign)
		d.AddTasks(int(w.To), sign)
	}
}

// A swapSearch visits upgrade domains breadth first.
type swapSearch struct {
	*Domains
	free []int32
	own  []int32
	// sameLeaf limits tasks to their own lowest fault domain. Otherwise they may go wherever that
	// keeps the fault rule.
	sameLeaf bool
	leaves   [][]int32 // free instances, per fault domain
	arrivals []arrival // per upgrade domain
}

// An arrival is how the search reached an upgrade domain: a task moves to instance to there, from
// instance from, or it is the new task (-1).
type arrival struct {
	seen     bool
	to, from int32
}

func (s *swapSearch) groupFreeByLeaf() {
	s.leaves = make([][]int32, s.FaultDomainCount())
	for _, i := range s.free {
		if leaf := s.FaultDomain(int(i)); leaf >= 0 {
			s.leaves[leaf] = append(s.leaves[leaf], i)
		}
	}
}

func (s *swapSearch) findSwapPath() (int32, []Swap) {
	var queue []int
	for _, i := range s.free {
		if u := s.UpgradeDomain(int(i)); u >= 0 && !s.arrivals[u].seen && s.AdmitsFault(s.FaultDomain(int(i))) {
			s.arrivals[u] = arrival{true, i, -1}
			queue = append(queue, u)
		}
	}
	for len(queue) > 0 {
		u := queue[0]
		queue = queue[1:]
		for _, from := range s.own {
			if s.UpgradeDomain(int(from)) != u {
				continue
			}
			for _, to := range s.destinationsOf(from) {
				next := s.UpgradeDomain(int(to))
				if next < 0 || s.arrivals[next].seen {
					continue
				}
				s.arrivals[next] = arrival{true, to, from}
				if s.AdmitsUpgrade(next) {
					return s.pathToPlace(next)
				}
				queue = append(queue, next)
			}
		}
	}
	return -1, nil
}

// destinationsOf returns the free instances that a task may move to without a change for the fault
// rule.
func (s *swapSearch) destinationsOf(from int32) []int32 {
	leaf := s.FaultDomain(int(from))
	if leaf < 0 {
		return nil
	}
	if s.sameLeaf {
		return s.leaves[leaf]
	}
	open := make([]bool, len(s.leaves))
	for other, instances := range s.leaves {
		open[other] = len(instances) > 0 && (other == leaf || s.fault.worsensNothing(int(from), int(instances[0])))
	}
	return slices.DeleteFunc(slices.Clone(s.free), func(i int32) bool {
		other := s.FaultDomain(int(i))
		return other < 0 || !open[other]
	})
}

// pathToPlace follows the arrivals back to the place of the new task.
func (s *swapSearch) pathToPlace(u int) (int32, []Swap) {
	var swaps []Swap
	for s.arrivals[u].from >= 0 {
		a := s.arrivals[u]
		swaps = append(swaps, Swap{a.from, a.to})
		u = s.UpgradeDomain(int(a.from))
	}
	return s.arrivals[u].to, swaps
}
