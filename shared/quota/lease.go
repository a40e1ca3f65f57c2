package quota

import (
	"math"
	"time"

	"berth/shared/state"
)

// A Class is what a call does.
type Class int

// The classes, which index arrays.
const (
	Starts Class = iota
	Stops
	Classes // how many there are
)

// Limits are the size of a bucket: how many calls flow in each second, and how many it holds.
type Limits struct{ Rate, Burst float64 }

// waitsFor is how long a class is thought to wait after it got fewer calls than it wanted. Its next
// round comes within two seconds.
const waitsFor = 3 * time.Second

// maxClockError is by how much the clocks of two environments may differ. A time in a bucket that
// is further ahead was written by a clock that had jumped.
const maxClockError = 2 * time.Minute

// keptForStarts is the part of a second's calls that stops leave in the bucket while they wait for
// more, so that a start that comes meanwhile need not wait: 4 of 40.
const keptForStarts = 0.1

// NewBucket returns a full bucket.
func NewBucket(name string, now time.Time, l Limits) state.Bucket {
	return state.Bucket{Name: name, At: now, Tokens: l.Burst, Starts: l.Burst / 2}
}

// Lease takes up to want calls of one class out of the bucket and returns the bucket after that. A
// class may take its own half, and the other's unless that one waits for calls, too.
//
// The bucket remembers which class waits. With nothing taken it has changed only if that is news.
func Lease(b state.Bucket, c Class, want int, now time.Time, l Limits) (next state.Bucket, got int, changed bool) {
	next = b
	hadFuture := forgetFuture(&next, now)
	fill(&next, now, l)
	own, other := next.Starts, next.Tokens-next.Starts
	waiting, otherWaiting := &next.StartsWait, &next.StopsWait
	if c == Stops {
		own, other = other, own
		waiting, otherWaiting = otherWaiting, waiting
	}
	borrowable := other
	if c == Stops && !waiting.IsZero() {
		borrowable = math.Max(0, other-keptForStarts*math.Min(l.Rate, l.Burst))
	}
	// A bucket that holds less than two calls cannot keep one for each.
	if now.Sub(*otherWaiting) < waitsFor && l.Burst >= 2 {
		borrowable = 0
	}
	got = min(want, int(own+borrowable))
	ownTaken := math.Min(own, float64(got))
	next.Tokens -= float64(got)
	if c == Starts {
		next.Starts -= ownTaken
	} else {
		next.Starts -= float64(got) - ownTaken
	}
	switch {
	case got == want:
		changed, *waiting = got > 0 || !waiting.IsZero(), time.Time{}
	case now.Sub(*waiting) >= waitsFor/3:
		changed, *waiting = true, now
	default:
		changed = got > 0
	}
	return next, got, changed || hadFuture
}

// forgetFuture replaces times that a clock has written which had jumped ahead, and reports whether
// there were any. Until such a time nothing would flow in, and a class would seem to wait.
func forgetFuture(b *state.Bucket, now time.Time) (had bool) {
	latest := now.Add(maxClockError)
	if b.At.After(latest) {
		b.At, had = now, true
	}
	for _, waits := range []*time.Time{&b.StartsWait, &b.StopsWait} {
		if waits.After(latest) {
			*waits, had = time.Time{}, true
		}
	}
	return had
}

// fill adds what has flowed in since the bucket was last used: half for each class, and what is too
// much for one to the other. Clocks differ between environments; one that lags adds nothing and
// removes nothing.
func fill(b *state.Bucket, now time.Time, l Limits) {
	in := math.Max(0, now.Sub(b.At).Seconds()) * l.Rate
	if in > 0 {
		b.At = now
	}
	half, starts := l.Burst/2, b.Starts+in/2
	b.Tokens = math.Min(l.Burst, b.Tokens+in)
	b.Starts = math.Max(b.Tokens-half, math.Min(starts, half))
}
