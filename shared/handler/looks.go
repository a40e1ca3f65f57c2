package handler

import (
	"maps"
	"time"

	"berth/shared/cluster"
)

// eventGap is the least time between two looks of one environment at a cluster for which events
// ask. A thousand instances that are launched or terminated together send a thousand events, in
// a hundred batches.
const eventGap = time.Second

// Looks remembers, by cluster, when this environment last looked, and when the look is due that
// events have asked for since. The zero value remembers none.
type Looks struct {
	last, next map[string]time.Time
}

// Begin records a look that begins now.
func (l *Looks) Begin(name string, now time.Time) {
	if l.last == nil {
		l.last, l.next = map[string]time.Time{}, map[string]time.Time{}
	}
	// None lies ahead by more than the gap, unless this environment's clock has gone back.
	isPast := func(_ string, at time.Time) bool {
		return cluster.RemainingWait(at.Add(eventGap), now, 2*eventGap) == 0
	}
	maps.DeleteFunc(l.last, isPast)
	maps.DeleteFunc(l.next, isPast)
	l.last[name] = now
}

// Defer puts off the look for an event that comes now, if this environment has looked at the
// cluster less than a second ago. The first such event schedules the look at the end of that
// second, and later ones rely on it.
func (l *Looks) Defer(name string, now time.Time, schedule func(at time.Time) error) (deferred bool, err error) {
	last, looked := l.last[name]
	if age := now.Sub(last); !looked || age < 0 || age >= eventGap {
		return false, nil
	}
	if l.next[name].After(now) {
		return true, nil
	}
	at := last.Add(eventGap)
	if err := schedule(at); err != nil {
		return true, err
	}
	l.next[name] = at
	return true, nil
}
