package handler_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// A value on target that equals the one before it waits for at most five minutes. Each minute has
// its value all the same, with its own time. A value that differs is published at once, with all
// that wait.
func TestManagedScaling_HoldsBackValuesThatSayNothingNew(t *testing.T) {
	s := newScaled(t, nil)
	s.minute(1)
	first := len(s.points)
	for range 4 {
		s.minute(1)
		want(t, "values while nothing happens", len(s.points), first)
	}
	s.minute(1)
	want(t, "values after five minutes", len(s.points), first+5)
	for n, p := range s.points[first:] {
		want(t, "time since the value before", p.At.Sub(s.points[first+n-1].At).Round(time.Minute), time.Minute)
		want(t, "percent", p.Percent, 100)
	}
	s.minute(1)
	want(t, "values held back again", len(s.points), first+5)
	s.run(t, operation.SubmitTasks{Count: 1, Kind: cluster.RunTask, TaskDefinition: "big"})
	s.minute(1)
	want(t, "values with the one that differs", len(s.points), first+7)
	want(t, "percent of the last", s.points[first+6].Percent, 200)
}

// A value below the target, which the low alarm counts, is published each minute.
func TestManagedScaling_PublishesWhatAnAlarmCounts(t *testing.T) {
	s := newScaled(t, nil)
	s.groups["g"].Min, s.groups["g"].Desired = 1, 1
	s.minute(3)
	for range 5 {
		before := len(s.points)
		s.minute(1)
		want(t, "values of a minute", len(s.points), before+1)
		want(t, "percent", s.points[before].Percent, 0)
	}
}

// Values that CloudWatch did not take are published with the next ones.
func TestManagedScaling_PublishesAgainWhatFailed(t *testing.T) {
	s := newScaled(t, nil)
	s.minute(5)
	before := len(s.points)
	s.failing = func(string) error { return cluster.Errorf("Throttling", "later") }
	for n := range 5 {
		s.advance(time.Minute)
		if err := s.function.RunSchedule(ctx, "scaling"); n == 4 && err == nil {
			t.Error("nothing is said of values that could not be published")
		}
	}
	want(t, "values", len(s.points), before)
	s.failing = nil
	s.look(t)
	if got := len(s.points); got < before+5 {
		t.Errorf("%d values were published, want all of the minutes before", got-before)
	}
}
