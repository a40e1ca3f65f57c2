package placement

import (
	"berth/shared/cluster"
	"berth/shared/placement/packing"
)

// Packing returns the scorer of [LeastFragmentation].
func (e *Engine) Packing() *packing.Scorer {
	return scorerByName(e, LeastFragmentation).(*packing.Scorer)
}

// DiagnoseBothWays returns the diagnosis of a request from the blocks of the index, nil if it takes a
// report, and the diagnosis from a report.
func (e *Engine) DiagnoseBothWays(r Request) (quick, reported *cluster.Diagnosis) {
	e.Sync()
	e.holdBackInstances(r.Refused)
	defer e.releaseHeldBack()
	c := e.chooserAt(&r, 0)
	c.prepareIndex(1)
	defer undoPlacements(e, r.Spec)
	return diagnoseQuickly(c, &r), newReportedDiagnosis(c, &r, 0)
}
