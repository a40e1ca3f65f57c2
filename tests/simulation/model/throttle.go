package model

import "time"

// Try is what became of a start of a revision's task: it came to be RUNNING, or ended by its own fault without.
type Try struct {
	Began time.Time // given an instance
	Ended time.Time // RUNNING, or STOPPED
	Ran   bool
}

// Delay is how long the starts of a revision are held back after so many attempts in a row that never ran (S7); jitter
// makes it up to a tenth less or more.
func Delay(failures int) time.Duration {
	ladder := []time.Duration{0, time.Minute, 3 * time.Minute, 9 * time.Minute, 27 * time.Minute}
	return ladder[min(failures, len(ladder)-1)]
}

// Held says when the next task of a revision may start at the earliest, and may at the latest, by what became of those
// before, in order of Ended (S7); zero where nothing holds it back. A task that comes to be RUNNING ends the throttle. Tries
// that began before a delay was over are one attempt with the one that it comes from.
func Held(tries []Try) (earliest, latest time.Time) {
	failures := 0
	for _, t := range tries {
		switch {
		case t.Ran:
			failures, earliest, latest = 0, time.Time{}, time.Time{}
		case failures == 0 || !t.Began.Before(earliest):
			failures++
			d := Delay(failures)
			earliest, latest = t.Ended.Add(d-d/10), t.Ended.Add(min(d+d/10, Delay(failures+len(tries))))
		}
	}
	return earliest, latest
}
