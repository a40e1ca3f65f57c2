package placement

import "berth/shared/placement/packing"

// Packing returns the scorer of [LeastFragmentation].
func (e *Engine) Packing() *packing.Scorer { return scorerFor(e, LeastFragmentation).(*packing.Scorer) }
