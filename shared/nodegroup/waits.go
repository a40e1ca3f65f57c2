package nodegroup

import (
	"slices"
	"time"

	"berth/shared/cluster"
)

// NewWaitEnds returns when the waits end that an update has begun since it was as before, in whole
// milliseconds, the earliest first. Nothing else tells it that such a time has come. before may be
// nil.
func NewWaitEnds(before, u *cluster.Update) []time.Time {
	var known []time.Time
	if before != nil {
		known = waitEnds(before)
	}
	ends := slices.DeleteFunc(waitEnds(u), func(end time.Time) bool {
		return slices.ContainsFunc(known, end.Equal)
	})
	slices.SortFunc(ends, time.Time.Compare)
	return slices.CompactFunc(ends, time.Time.Equal)
}

// waitEnds returns when the update's waits end, rounded up to whole milliseconds.
func waitEnds(u *cluster.Update) (ends []time.Time) {
	add := func(since time.Time, waits ...time.Duration) {
		for _, wait := range waits {
			if !since.IsZero() && wait > 0 {
				ends = append(ends, since.Add(wait+time.Millisecond-1).Truncate(time.Millisecond))
			}
		}
	}
	t := u.Timeouts
	switch u.Phase {
	case cluster.PhaseSetup:
	case cluster.PhaseScaleUp:
		add(u.WaitingSince, t.Launch)
	case cluster.PhaseUpgrade:
		add(u.WaitingSince, t.Drain)
		add(u.Shortage.Since, t.Launch)
		add(u.StalledSince, t.Drain, t.Terminate)
		add(u.DomainReplacedAt, t.Domain, t.Domain+t.Health)
	default:
		add(u.WaitingSince, t.Drain)
		add(u.ReleasingSince, t.Drain)
	}
	for _, w := range u.Removals {
		switch w.Step {
		case cluster.StepDrain:
			if w.DrainingAt.IsZero() {
				add(w.StepSince, t.Terminate)
			} else {
				add(w.StepSince, t.Drain)
			}
		case cluster.StepStop:
			add(w.StepSince, t.Stop)
		case cluster.StepCordon:
			add(w.StepSince, t.Cordon)
		case cluster.StepTerminate:
			add(w.StepSince, t.Terminate)
		}
	}
	return ends
}
