package placement

import (
	"berth/shared/cluster"
	"berth/shared/placement/packing"
	"berth/shared/snapshot"
)

// The scorings that a spec may name: the order among instances that its strategies leave equal. The
// tag berth:strategy sets them. A spec that names a scoring and no strategy is placed in that order
// alone, without the default spread (S2).
const (
	// LeastFragmentation keeps the GPUs of a cluster usable: a task goes where it wastes the least
	// of what is free, for the tasks that run and wait. On instances without GPUs it is best fit.
	LeastFragmentation = "least-fragmentation"
	// BestFit prefers the instance with the least left: GPUs first, then CPU and memory. It is the
	// default.
	BestFit = "best-fit"
)

// ScoringNames returns the names that [Spec.Scoring] may have, apart from "".
func ScoringNames() []string { return []string{LeastFragmentation, BestFit} }

// A scorer orders the instances that the strategies leave equal.
type scorer interface {
	// Epoch returns another number whenever the scores of unchanged instances may have changed. It
	// must be called before the scores of a placement, because a scorer learns in this call only.
	Epoch() uint64
	// Score returns the cost of placing a task with these needs on the instance, where it must fit.
	// The lowest is the best.
	Score(v *snapshot.InstanceView, needs *cluster.Resources) float64
}

// scorerByName returns the scorer of that name, or nil for best fit. All choosers share it and what
// it learned.
func scorerByName(e *Engine, name string) scorer {
	if name != LeastFragmentation {
		return nil
	}
	if e.caches.scorers[name] == nil {
		e.caches.scorers[name] = packing.NewScorer(e.snap)
	}
	return e.caches.scorers[name]
}
