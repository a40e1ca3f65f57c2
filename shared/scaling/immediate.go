package scaling

import (
	"slices"
	"time"

	"berth/shared/cluster"
)

// scaleInTime is how long a scale-in may take to be carried out: as long as a function runs. It sets
// the desired capacity as a number, so it could undo a scale-out that a wake-up makes meanwhile.
const scaleInTime = time.Minute

// whyNotBetween says why a decision that a wake-up asks for leaves the size as it is; empty for
// the decision of a minute.
func whyNotBetween(v *view) string {
	if v.Between {
		return "the group is sized at the minute's look"
	}
	return ""
}

// isGathering reports whether further tasks are likely to begin to wait: the newest one began less
// than [cluster.ScaleOutIdle] ago, and the first one less than [cluster.ScaleOutMax]. The first one
// is the oldest that the last scale-out did not count and that no longer pause separates from the
// newest.
//
// The newest task's own wake-up comes when the pause is over, so the decision is left to that one.
func isGathering(v *view) bool {
	var began []time.Time
	for _, w := range v.Waiting {
		for _, at := range w.Since {
			if at.After(v.History.LastScaleOut) {
				began = append(began, at)
			}
		}
	}
	if len(began) == 0 {
		return false
	}
	slices.SortFunc(began, func(a, b time.Time) int { return b.Compare(a) })
	first := began[0]
	for _, at := range began {
		if first.Sub(at) >= cluster.ScaleOutIdle {
			break
		}
		first = at
	}
	idle := v.Now.Sub(began[0]) // negative if another environment's clock is ahead
	return idle.Abs() < cluster.ScaleOutIdle && v.Now.Sub(first) < cluster.ScaleOutMax
}

// lastWarmupEnd returns when no instance is in its warm-up any more, if none registers sooner.
func lastWarmupEnd(v *view) (end time.Time) {
	for _, m := range v.warming {
		if at := m.launchedAt.Add(v.settings.Warmup); at.After(end) {
			end = at
		}
	}
	return end
}

// whenImmediate returns the time if the provider scales out at once, and zero otherwise.
func whenImmediate(v *view, at time.Time) time.Time {
	if v.settings.Immediate {
		return at
	}
	return time.Time{}
}
