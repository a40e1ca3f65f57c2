package domain

import "slices"

// Swap is a task of the same call that goes elsewhere, so that another finds a place.
type Swap struct{ From, To int32 }

// FindSwaps looks for a place for one more task where no free instance has both a fault domain and an
// upgrade domain that admit it: it goes to one whose fault domain does, a task in that one's
// upgrade domain makes way to another instance of its own fault domain, and so on until an upgrade
// domain admits what comes. That is an augmenting path between the two kinds of domain, a shortest
// one; where own are all tasks and no fault domain has another below it, there is no other way to
// place one more. It is the place, and who makes way; -1 where there is none. Of ways as short, the
// order of free and own decides.
func (d *Domains) FindSwaps(free, own []int32) (at int32, way []Swap) {
	if d.FaultDomainCount() == 0 || d.UpgradeDomainCount() == 0 {
		return -1, nil // one rule alone admits whatever it can
	}
	for _, same := range []bool{true, false} {
		s := swapSearch{Domains: d, free: free, own: own, sameLeaf: same,
			arrivals: make([]arrival, d.UpgradeDomainCount())}
		s.groupFree()
		if at, way = s.findPath(); at >= 0 && (same || d.areValid(at, way)) {
			return at, way
		}
	}
	return -1, nil
}

// areValid reports whether the rules hold once everything is done.
func (d *Domains) areValid(at int32, way []Swap) bool {
	d.applySwaps(at, way, 1)
	fault, upgrade := d.Excess()
	d.applySwaps(at, way, -1)
	return fault+upgrade == 0
}

func (d *Domains) applySwaps(at int32, way []Swap, sign int) {
	d.AddTasks(int(at), sign)
	for _, w := range way {
		d.AddTasks(int(w.From), -sign)
		d.AddTasks(int(w.To), sign)
	}
}

// swapSearch goes through upgrade domains breadth first.
type swapSearch struct {
	*Domains
	free     []int32
	own      []int32
	sameLeaf bool // only within the lowest fault domain; else wherever its rule is kept
	leaves   [][]int32
	arrivals []arrival // per upgrade domain
}

// arrival is how a search came to an upgrade domain: to is the instance there, from that of the
// task which goes to it, -1 for the new one.
type arrival struct {
	seen     bool
	to, from int32
}

func (s *swapSearch) groupFree() {
	s.leaves = make([][]int32, s.FaultDomainCount())
	for _, i := range s.free {
		if leaf := s.FaultDomain(int(i)); leaf >= 0 {
			s.leaves[leaf] = append(s.leaves[leaf], i)
		}
	}
}

func (s *swapSearch) findPath() (int32, []Swap) {
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
					return s.pathTo(next)
				}
				queue = append(queue, next)
			}
		}
	}
	return -1, nil
}

// destinationsOf are the free instances that a task may go to without a change for the fault rule.
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

// pathTo follows the arrivals to the new task's place.
func (s *swapSearch) pathTo(u int) (int32, []Swap) {
	var way []Swap
	for s.arrivals[u].from >= 0 {
		a := s.arrivals[u]
		way = append(way, Swap{a.from, a.to})
		u = s.UpgradeDomain(int(a.from))
	}
	slices.Reverse(way)
	return s.arrivals[u].to, way
}
