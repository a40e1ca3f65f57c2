package handler_test

import (
	"context"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
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

// A value that a clock wrote which had jumped ahead, or far back, keeps no later one from CloudWatch, which
// refuses a request with a time more than two hours ahead or two weeks ago. It is dropped: its minute
// is unknown.
func TestManagedScaling_DropsValuesOfAClockThatJumped(t *testing.T) {
	for name, jump := range map[string]time.Duration{
		"ThreeHours": 3 * time.Hour, "AnHour": time.Hour, "ThreeWeeksBack": -21 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScaled(t, nil)
			s.minute(6) // all values are published
			metrics := &strictMetrics{Metrics: s.fakeGroups, now: func() time.Time { return s.clock.now.Add(-jump) }}
			s.function.Metrics = metrics
			s.clock.now = s.clock.now.Add(jump)
			// Without an error if the value says nothing new: then it waits.
			if err := s.function.RunSchedule(ctx, "scaling"); err != nil && cluster.ErrorCode(err) != "InvalidParameterValue" {
				t.Fatal(err)
			}
			s.clock.now = s.clock.now.Add(-jump)
			metrics.now = func() time.Time { return s.clock.now }
			before := len(s.points)
			s.minute(6)
			if got := len(s.points) - before; got < 5 {
				t.Errorf("%d values of the 6 minutes after it were published", got)
			}
			for _, p := range s.points[before:] {
				if p.At.Sub(s.clock.now) > cluster.MaxClockError || s.clock.now.Sub(p.At) > 20*time.Minute {
					t.Errorf("at %s, a value of %s was published", s.clock.now, p.At)
				}
			}
		})
	}
}

// strictMetrics refuses times as CloudWatch does.
type strictMetrics struct {
	handler.Metrics
	now func() time.Time
}

func (m *strictMetrics) PutScalingMetrics(ctx context.Context, points []cluster.Datapoint) error {
	for _, p := range points {
		if ahead := p.At.Sub(m.now()); ahead > 2*time.Hour || ahead < -14*24*time.Hour {
			return cluster.Errorf("InvalidParameterValue", "The parameter MetricData.member.1.Timestamp must specify a time "+
				"no more than two hours in the future.")
		}
	}
	return m.Metrics.PutScalingMetrics(ctx, points)
}
