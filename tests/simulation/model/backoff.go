package model

import "time"

// StartAttempt is what became of a start of a revision's task: it came to be RUNNING, or ended by its own fault without.
type StartAttempt struct {
	PlacedAt time.Time // given an instance
	EndedAt  time.Time // RUNNING, or STOPPED
	Ran      bool
}

// BackoffDelay is how long the starts of a revision are held back after so many attempts in a row that never ran (S7); jitter
// makes it up to a tenth less or more.
func BackoffDelay(failures int) time.Duration {
	ladder := []time.Duration{0, time.Minute, 3 * time.Minute, 9 * time.Minute, 27 * time.Minute}
	return ladder[min(failures, len(ladder)-1)]
}

// NextStartWindow says when the next task of a revision may start at the earliest, and may at the latest, by what became of those
// before, in order of Ended (S7); zero where nothing holds it back. A task that comes to be RUNNING ends the throttle. Tries
// that began before a delay was over are one attempt with the one that it comes from.
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
