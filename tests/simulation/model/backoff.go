package model

import "time"

// A StartAttempt is the start of one task of a revision: the task came to be RUNNING, or stopped by
// its own fault before that.
type StartAttempt struct {
	PlacedAt time.Time
	EndedAt  time.Time // RUNNING, or STOPPED
	Ran      bool
}

// BackoffDelay returns how long the starts of a revision are delayed after so many failed attempts
// in a row (S7). Jitter makes it up to a tenth shorter or longer.
func BackoffDelay(failures int) time.Duration {
	ladder := []time.Duration{0, time.Minute, 3 * time.Minute, 9 * time.Minute, 27 * time.Minute}
	return ladder[min(failures, len(ladder)-1)]
}

// NextStartWindow returns the earliest and the latest time at which the next task of a revision may
// start, from what became of the earlier ones, in order of EndedAt (S7). Both are zero if there is
// no delay. A task that comes to be RUNNING ends the throttle. Starts before a delay was over are
// one attempt with the one that caused the delay.
func NextStartWindow(tries []StartAttempt) (earliest, latest time.Time) {
	failures := 0
	for _, t := range tries {
		switch {
		case t.Ran:
			failures, earliest, latest = 0, time.Time{}, time.Time{}
		case failures == 0 || !t.PlacedAt.Before(earliest):
			failures++
			d := BackoffDelay(failures)
			earliest, latest = t.EndedAt.Add(d-d/10), t.EndedAt.Add(min(d+d/10, BackoffDelay(failures+len(tries))))
		}
	}
	return earliest, latest
}
