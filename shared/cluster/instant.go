package cluster

import (
	"math"
	"time"
)

// Instant is a point in time in 8 bytes, where a time.Time takes 24: a cluster has some hundred
// thousand tasks with five of them each. It counts nanoseconds since 1970 and reaches from 1678 to
// 2262; the zero value is no time at all. As JSON it is what the time.Time would be.
type Instant int64

// At is t as an Instant. A time that is out of reach is the nearest that is not.
func At(t time.Time) Instant {
	switch {
	case t.IsZero():
		return 0
	case t.Before(first):
		return math.MinInt64
	case t.After(last):
		return math.MaxInt64
	case t.Equal(time.Unix(0, 0)):
		return 1 // 0 is taken
	}
	return Instant(t.UnixNano())
}

var first, last = time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)

// Time is the instant in UTC; the zero time for none.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(i)).UTC()
}

// IsZero reports whether it is no time at all.
func (i Instant) IsZero() bool { return i == 0 }

// Compare is negative where i is before o, and positive where it is after; no time is before every
// other.
func (i Instant) Compare(o Instant) int { return i.Time().Compare(o.Time()) }

// String is the instant as a time.Time prints.
func (i Instant) String() string { return i.Time().String() }

// MarshalJSON writes the instant as RFC 3339 has it, in UTC.
func (i Instant) MarshalJSON() ([]byte, error) { return i.Time().MarshalJSON() }

// UnmarshalJSON reads what a time.Time or an Instant wrote.
func (i *Instant) UnmarshalJSON(data []byte) error {
	var t time.Time
	if err := t.UnmarshalJSON(data); err != nil {
		return err
	}
	*i = At(t)
	return nil
}

// MaxClockError is by how much the clocks of two environments may differ. A stored time that is
// further ahead than it can be was written by a clock that had jumped, and holds nothing up.
const MaxClockError = 2 * time.Minute

// IsAhead reports whether a clock that had jumped has written the time at which something happened:
// it lies ahead by more than [MaxClockError].
func IsAhead(at, now time.Time) bool { return at.Sub(now) > MaxClockError }

// RemainingWait returns how much is left of a stored wait until a time; 0 if it is over. No wait of
// its kind is longer than longest. One that would last longer was stored by a clock that had jumped,
// and is over, too.
//
// For example, a claim made at 12:59 by a clock that should show 12:00 is valid for a minute. At
// 12:01 it would hold for another 59 minutes, so it holds no more.
func RemainingWait(until, now time.Time, longest time.Duration) time.Duration {
	left := until.Sub(now)
	if left > longest+MaxClockError {
		return 0
	}
	return max(0, left)
}
