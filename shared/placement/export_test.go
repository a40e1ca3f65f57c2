package placement

import "berth/shared/placement/packing"

// Forgetful has the engine give up the older half of what it keeps whenever it makes more.
func (e *Engine) Forgetful() { e.maxMemory, e.evictEvery = 0, 1 }

// Packing returns the scorer of [LeastFragmentation].
func (e *Engine) Packing() *packing.Scorer { return e.scorerOf(LeastFragmentation).(*packing.Scorer) }
