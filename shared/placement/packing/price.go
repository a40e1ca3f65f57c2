package packing

import (
	"math"
	"slices"
)

// flow are the kinds of tasks that can go to the same pools.
type flow struct {
	pools  []int32 // nil where no instance that is available takes them
	demand float64 // GPU thousandths
}

// join finds the flows.
func (m *mix) join() {
	for i := range m.kinds {
		k := &m.kinds[i]
		var pools []int32
		for at := range m.pools {
			if g := &m.pools[at]; g.capacity > 0 && g.takes(k) {
				pools = append(pools, int32(at))
			}
		}
		k.flow = slices.IndexFunc(m.flows, func(f flow) bool { return slices.Equal(f.pools, pools) })
		if k.flow < 0 {
			k.flow = len(m.flows)
			m.flows = append(m.flows, flow{pools: pools})
		}
		m.flows[k.flow].demand += float64(k.count) * float64(k.needs.GPUs*k.needs.PerGPU())
	}
}

const (
	priceRounds = 100
	priceStep   = 0.5
	// maxPrice bounds a price: beyond it nothing else counts anyway.
	maxPrice = 8
)

// price finds what pools are in demand by tasks that can go to few others. Demand is spread over
// the pools that it can go to by their capacity times a weight, and the weights are lowered where
// more comes than the average and raised where less does, until nothing more can be evened out. The
// price is minus the logarithm of the weight: 0 everywhere where all tasks can go everywhere.
func (m *mix) price() {
	capacity := 0.0
	for i := range m.pools {
		capacity += float64(m.pools[i].capacity)
	}
	load, width := make([]float64, len(m.pools)), make([]float64, len(m.pools))
	for range priceRounds {
		total := m.spread(load, width)
		if total == 0 {
			return
		}
		for i := range m.pools {
			if g := &m.pools[i]; g.capacity > 0 {
				g.price += priceStep * math.Log(load[i]/float64(g.capacity)*capacity/total) // of 0 it is -Inf
				g.price = max(-5*maxPrice, min(5*maxPrice, g.price))
			}
		}
	}
	for i := range m.pools {
		g := &m.pools[i]
		g.price = max(-maxPrice, min(maxPrice, g.price))
	}
}

// spread fills in the load and the width of each pool, and returns the sum of the loads.
func (m *mix) spread(load, width []float64) (total float64) {
	clear(load)
	for i := range m.pools {
		width[i] = m.pools[i].width()
	}
	for _, f := range m.flows {
		if f.pools == nil {
			continue
		}
		all := 0.0
		for _, g := range f.pools {
			all += width[g]
		}
		for _, g := range f.pools {
			load[g] += f.demand * width[g] / all
		}
		total += f.demand
	}
	return total
}

// width is the pool's capacity by its weight.
func (g *pool) width() float64 { return float64(g.capacity) * math.Exp(-g.price) }

// width is that of all pools that the flow can go to.
func (f *flow) width(pools []pool) (sum float64) {
	for _, g := range f.pools {
		sum += pools[g].width()
	}
	return sum
}
