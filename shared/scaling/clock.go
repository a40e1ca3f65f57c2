package scaling

import (
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
)

// withoutFuture returns what is remembered, with the present time in place of times that a clock
// wrote which had jumped ahead. What waits since then, such as a cooldown, begins again; it would
// otherwise last until the present clock gets there.
func withoutFuture(h cluster.ScalingHistory, now time.Time) cluster.ScalingHistory {
	began := h.FirstReconciledAt
	for _, at := range []*time.Time{&h.LastLowMinute, &h.LastScaleOut, &h.LastScaleIn, &h.LastReplacement,
		&h.FirstReconciledAt, &h.EmptySince} {
		*at = notAhead(*at, now)
	}
	h.Drains = slices.Clone(h.Drains)
	for n := range h.Drains {
		h.Drains[n].At = notAhead(h.Drains[n].At, now)
	}
	seen := allNotAhead(h.UnregisteredSince, now)
	for id, at := range seen {
		if h.UnregisteredSince[id].After(began) {
			seen[id] = laterThan(h.FirstReconciledAt, at)
		}
	}
	h.UnregisteredSince = seen
	h.LaunchTimes = allNotAhead(h.LaunchTimes, now)
	h.DeferredUntil = maps.Clone(h.DeferredUntil)
	maps.DeleteFunc(h.DeferredUntil, func(_ string, until time.Time) bool {
		return cluster.RemainingWait(until, now, deferTime) == 0
	})
	return h
}

// laterThan returns at, or the time right after another if at is not later. An instance that was not
// there when managed scaling began is seen after that, even if the clocks disagree.
func laterThan(other, at time.Time) time.Time {
	if at.After(other) {
		return at
	}
	return other.Add(time.Millisecond)
}

func notAhead(at, now time.Time) time.Time {
	if cluster.IsAhead(at, now) {
		return now
	}
	return at
}

func allNotAhead(times map[string]time.Time, now time.Time) map[string]time.Time {
	times = maps.Clone(times)
	for id, at := range times {
		times[id] = notAhead(at, now)
	}
	return times
}
