package placement

import "berth/shared/placement/packing"

// Packing returns the scorer of [LeastFragmentation].
func (e *Engine) Packing() *packing.Scorer {
	return scorerByName(e, LeastFragmentation).(*packing.Scorer)
}
