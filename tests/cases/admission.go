package main

import (
	"iter"

	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// The reasons why a service is refused.
const (
	keyUndefined = "ConstraintKeyUndefined"
	noCapacity   = "InsufficientClusterCapacity"
)

// refusalReason returns why the case's services are refused at creation, or "".
func (s *session) refusalReason() (string, error) {
	w, err := s.loadWorld()
	if isConstraintError(err) {
		return keyUndefined, nil
	}
	if err != nil {
		return "", err
	}
	for _, p := range w.partitions {
		if p.constraint.Validate(constraintSubjects(w.snap)) != nil {
			return keyUndefined, nil
		}
	}
	want, had := w.totalDemands()
	for i := range want {
		if placement.Admit(w.snap, want[i], had[i]) != nil {
			return noCapacity, nil
		}
	}
	return "", nil
}

// totalDemands returns what the services ask for in all, and what they have. Partitions of one
// service are admitted together.
func (w *world) totalDemands() (want, had []placement.Demand) {
	if s := w.c.Service; s != nil && len(w.c.Replicas)+len(w.c.New) == 0 {
		p := w.partitions[0]
		target := s.Target
		if s.OnEveryNode {
			target = len(w.engine.EligibleInstances(p.spec))
		}
		metrics := p.row.Rules.Metrics
		return []placement.Demand{{Metrics: metrics, Count: max(0, target) * len(w.partitions)}},
			[]placement.Demand{{Metrics: metrics, Count: len(w.c.Existing)}}
	}
	for _, p := range w.partitions {
		for _, g := range p.want {
			want = append(want, placement.Demand{Metrics: g.spec.Loads, Count: g.count})
			had = append(had, placement.Demand{})
		}
	}
	return want, had
}

// constraintSubjects yields the instances as constraints see them.
func constraintSubjects(snap *snapshot.Snapshot) iter.Seq[constraint.Subject] {
	return func(yield func(constraint.Subject) bool) {
		for _, v := range snap.Instances {
			if v.Instance != nil && !yield(v.Facts()) {
				return
			}
		}
	}
}
