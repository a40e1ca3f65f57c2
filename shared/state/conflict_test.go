package state_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

func TestConflictNamesTheRow(t *testing.T) {
	key := state.TaskKey("c", "o", "t")
	expect(t, "conflict", (&state.Conflict{Key: key}).Error(), "row task#o#t of cluster c has changed")
	expect(t, "version", (&state.Conflict{Key: key, Version: true}).Error(),
		"cluster c: the placement version has moved on")
}

// A sleepClock moves only while somebody sleeps.
type sleepClock struct {
	now   time.Time
	slept []time.Duration
}

func (c *sleepClock) Now() time.Time { return c.now }

func (c *sleepClock) Sleep(ctx context.Context, d time.Duration) error {
	c.slept = append(c.slept, d)
	c.now = c.now.Add(d)
	return ctx.Err()
}

// A write that loses each race is tried 20 times: again at once after the first, and then after waits
// that grow to 256 ms, of other lengths for each operation.
func TestRetriesOfRacesBackOff(t *testing.T) {
	waits := func(what string) []time.Duration {
		clock, tries := &sleepClock{now: time.Now()}, 0
		err := state.RetryRaces(t.Context(), clock, what, func() error {
			tries++
			return cluster.Wrap(&state.Conflict{}, "writing")
		})
		if err == nil || err.Error() != what+": lost 20 races" {
			t.Errorf("got %v", err)
		}
		expect(t, "tries", tries, 20)
		expect(t, "waits", len(clock.slept), 18)
		return clock.slept
	}
	one, other, same := waits("one"), waits("other"), 0
	longest := 4 * time.Millisecond
	for n := range one {
		if one[n] >= longest || other[n] >= longest {
			t.Errorf("wait %d lasts %s and %s, want less than %s", n+1, one[n], other[n], longest)
		}
		if one[n] == other[n] {
			same++
		}
		longest = min(2*longest, 256*time.Millisecond)
	}
	if same > 2 {
		t.Errorf("%d of %d waits of two operations are equal", same, len(one))
	}
}

// No wait lasts beyond the end of the call: the work is left to redelivery while there is time to say
// so.
func TestRetriesOfRacesEndWithTheCall(t *testing.T) {
	clock := &sleepClock{now: time.Now()}
	end := clock.now.Add(300 * time.Millisecond)
	ctx, cancel := context.WithDeadline(t.Context(), end)
	defer cancel()
	err := state.RetryRaces(ctx, clock, "a write", func() error { return &state.Conflict{} })
	if err == nil || !strings.Contains(err.Error(), "no time for another attempt") || !clock.now.Before(end) {
		t.Errorf("%s before the end: %v", end.Sub(clock.now), err)
	}
	if len(clock.slept) == 0 {
		t.Error("it never waited")
	}
}

// What is no race is not tried again.
func TestOtherErrorsAreNotRetried(t *testing.T) {
	for _, want := range []error{nil, errors.New("no")} {
		clock, tries := &sleepClock{now: time.Now()}, 0
		err := state.RetryRaces(t.Context(), clock, "a write", func() error { tries++; return want })
		if !errors.Is(err, want) || tries != 1 || len(clock.slept) > 0 {
			t.Errorf("%d tries, waits %v, %v", tries, clock.slept, err)
		}
	}
}
