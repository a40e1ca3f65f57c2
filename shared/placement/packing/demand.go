package packing

import (
	"math"
	"slices"
)

// A demandClass has the kinds of tasks that can go to the same pools.
type demandClass struct {
	pools  []int32 // nil if no available instance can take them
	demand float64 // GPU thousandths
}

// groupDemandClasses groups the kinds into demand classes.
func (m *learnedMix) groupDemandClasses() {
	for i := range m.kinds {
		k := &m.kinds[i]
		var pools []int32
		for at := range m.pools {
			if p := &m.pools[at]; p.capacity > 0 && p.canTakeKind(k) {
				pools = append(pools, int32(at))
			}
		}
		k.demandClass = slices.IndexFunc(m.demandClasses,
			func(c demandClass) bool { return slices.Equal(c.pools, pools) })
		if k.demandClass < 0 {
			k.demandClass = len(m.demandClasses)
			m.demandClasses = append(m.demandClasses, demandClass{pools: pools})
		}
		m.demandClasses[k.demandClass].demand += float64(k.count) * float64(k.needs.GPUs*k.needs.PerGPU())
	}
}

const (
	priceRounds = 100
	priceStep   = 0.5
	// maxPrice bounds a price: at this height nothing else matters.
	maxPrice = 8
)

// computePrices finds the pools that are wanted by tasks that can go to few others.
//
// The demand of each class is divided among its pools by their capacity times a weight. Each round
// lowers the weights of pools that get more than the average and raises the others, until nothing
// more can be evened out. The price is minus the logarithm of the weight: 0 everywhere if all tasks
// can go everywhere.
//
// For example, of two equal pools P and Q, half of the tasks can only go to P. The other half then
// ends up in Q: P is the more expensive one, and flexible tasks avoid it.
func (m *learnedMix) computePrices() {
	capacity := 0.0
	for i := range m.pools {
		capacity += float64(m.pools[i].capacity)
	}
	load, width := make([]float64, len(m.pools)), make([]float64, len(m.pools))
	for range priceRounds {
		total := m.spreadDemand(load, width)
		if total == 0 {
			return
		}
		for i := range m.pools {
			if p := &m.pools[i]; p.capacity > 0 {
				p.price += priceStep * math.Log(load[i]/float64(p.capacity)*capacity/total) // -Inf without load
				p.price = max(-5*maxPrice, min(5*maxPrice, p.price))
			}
		}
	}
	for i := range m.pools {
		p := &m.pools[i]
		p.price = max(-maxPrice, min(maxPrice, p.price))
	}
}

// spreadDemand fills in the load and the weighted capacity of each pool, and returns the sum of the
// loads.
func (m *learnedMix) spreadDemand(load, width []float64) (total float64) {
	clear(load)
	for i := range m.pools {
		width[i] = m.pools[i].weightedCapacity()
	}
	for _, c := range m.demandClasses {
		if c.pools == nil {
			continue
		}
		all := 0.0
		for _, g := range c.pools {
			all += width[g]
		}
		for _, g := range c.pools {
			load[g] += c.demand * width[g] / all
		}
		total += c.demand
	}
	return total
}

// weightedCapacity is the pool's capacity times its weight.
func (p *pool) weightedCapacity() float64 { return float64(p.capacity) * math.Exp(-p.price) }

// weightedCapacity is the sum over the pools of the class.
func (c *demandClass) weightedCapacity(pools []pool) (sum float64) {
	for _, g := range c.pools {
		sum += pools[g].weightedCapacity()
	}
	return sum
}
