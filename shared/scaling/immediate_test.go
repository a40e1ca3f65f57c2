package scaling_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/scaling"
)

var half = cluster.Resources{CPU: 1024 * cluster.CPUUnit, Memory: 512}

func immediate(w *world) { w.provider.Scaling.Immediate = true }

// beganAt sets how long ago the waiting tasks began to wait.
func beganAt(ago ...time.Duration) option {
	return func(w *world) {
		for _, d := range ago {
			w.waiting[0].Since = append(w.waiting[0].Since, w.now.Add(-d))
		}
	}
}

// decideBetween decides on a wake-up between the looks of two minutes.
func (w *world) decideBetween() scaling.Decision {
	in := w.input()
	in.Between = true
	return scaling.Decide(in)
}

// A wake-up scales out only providers that ask for it; the others keep the minute's pace (C3).
func TestImmediateScaleOut(t *testing.T) {
	t.Run("OnlyIfAskedFor", func(t *testing.T) {
		w := newWorld(instances(2, 0), full, waits(5, half))
		d := w.decideBetween()
		expect(t, "desired of the default", d.Desired, 2)
		expect(t, "scaled out", d.History.LastScaleOut.IsZero(), true)
		immediate(w)
		d = w.decideBetween()
		expect(t, "desired", d.Desired, 5)
		expect(t, "scaled out at", d.History.LastScaleOut, noon)
	})
	t.Run("SameSizeAsTheMinute", func(t *testing.T) {
		for n := range 12 {
			w := newWorld(instances(n%3, 0), full, immediate)
			if n > 0 {
				waits(n, half)(w)
			}
			expect(t, "desired", w.decideBetween().Desired, w.decide().Desired)
		}
	})
	t.Run("NotTwice", func(t *testing.T) {
		w := newWorld(instances(2, 0), full, waits(5, half), immediate)
		d := w.decideBetween()
		w.group.Desired, w.history, w.now = d.Desired, d.History, w.now.Add(10*time.Second)
		expect(t, "desired after an alarm", w.decide().Desired, 5)
		expect(t, "desired after another wake-up", w.decideBetween().Desired, 5)
		expect(t, "scaled out at", w.decide().History.LastScaleOut, noon)
	})
	t.Run("AnEmptyGroupNotTwice", func(t *testing.T) {
		w := newWorld(waits(50, half), immediate)
		d := w.decideBetween()
		expect(t, "desired", d.Desired, 2)
		w.group.Desired, w.history, w.now = d.Desired, d.History, w.now.Add(10*time.Second)
		expect(t, "desired after an alarm", w.decide().Desired, 2)
	})
	t.Run("NotWhileAScaleInIsCarriedOut", func(t *testing.T) {
		w := newWorld(instances(2, 0), full, waits(5, half), immediate)
		w.history.LastScaleIn = noon.Add(-20 * time.Second)
		d := w.decideBetween()
		expect(t, "desired", d.Desired, 2)
		expect(t, "looks again", d.History.LookAgainAt, noon.Add(40*time.Second))
		w.now = d.History.LookAgainAt
		expect(t, "desired then", w.decideBetween().Desired, 5)
	})
	t.Run("LeavesTheSizeToTargetTracking", func(t *testing.T) {
		w := newWorld(instances(2, 0), full, waits(5, half), immediate,
			setting(func(s *cluster.ManagedScaling) { s.TargetTracking = true }))
		expect(t, "desired", w.decideBetween().Desired, 2)
	})
}

// Tasks that begin to wait together make one request, at most [cluster.ScaleOutMax] after the
// first.
func TestImmediateScaleOutGathersTasks(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		ago     []time.Duration
		lastOut time.Duration // how long ago the group was last scaled out
		waits   bool
	}{
		"ATaskThatJustBegan": {ago: []time.Duration{300 * ms}, waits: true},
		"APauseOfASecond":    {ago: []time.Duration{time.Second}},
		"TheNewestCounts": {ago: []time.Duration{3 * time.Second, 2200 * ms, 1300 * ms, 500 * ms},
			waits: true},
		"AnOlderTaskIsNoFirst":      {ago: []time.Duration{time.Minute, 500 * ms}, waits: true},
		"WhatWasCountedIsNoFirst":   {ago: every(900*ms, 20), lastOut: 5 * time.Second, waits: true},
		"APauseOfASecondEndsABatch": {ago: append([]time.Duration{350 * ms}, every(900*ms, 20)[1:]...), waits: true},
		"NotBeyondTheLongest":       {ago: every(900*ms, 20)},
		"AClockThatIsALittleAhead":  {ago: []time.Duration{-100 * ms}, waits: true},
		"AClockThatIsAMinuteAhead":  {ago: []time.Duration{-time.Minute}},
		"WhatWasCountedDoesNotWait": {ago: []time.Duration{300 * ms}, lastOut: 100 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(instances(2, 0), full, waits(5, half), immediate, beganAt(c.ago...))
			if c.lastOut > 0 {
				w.history.LastScaleOut = w.now.Add(-c.lastOut)
			}
			want := 5
			if c.waits {
				want = 2
			}
			d := w.decideBetween()
			expect(t, "desired on a wake-up", d.Desired, want)
			if c.waits {
				contains(t, "why", d.Why, "5 instances are needed so far; further tasks are beginning to wait")
			}
			expect(t, "desired at the minute's look", w.decide().Desired, want)
			w.provider.Scaling.Immediate = false
			expect(t, "desired without the tag", w.decide().Desired, 5)
		})
	}
}

// every returns n times, the first d/2 ago, and d apart.
func every(d time.Duration, n int) (ago []time.Duration) {
	for i := range n {
		ago = append(ago, d/2+time.Duration(i)*d)
	}
	return ago
}

// What blocks a scale-out says when it ends, so that the decision need not wait for the minute.
func TestImmediateScaleOutLooksAgain(t *testing.T) {
	w := newWorld(instances(2, 0), full, waits(5, half), launched(time.Minute), immediate)
	end := noon.Add(cluster.DefaultScaling.Warmup - time.Minute)
	d := w.decideBetween()
	expect(t, "desired", d.Desired, 2)
	expect(t, "looks again", d.History.LookAgainAt, end)
	w.history, w.now = d.History, end
	d = w.decideBetween()
	expect(t, "desired then", d.Desired, 5)
	expect(t, "looks again then", d.History.LookAgainAt.IsZero(), true)

	w = newWorld(instances(2, 0), full, waits(5, half), launched(time.Minute), immediate)
	w.group.Instances[1].LaunchedAt = noon.Add(-2 * time.Minute)
	expect(t, "looks again when the last warm-up ends", w.decideBetween().History.LookAgainAt, end)

	w = newWorld(instances(2, 0), full, waits(5, half), launched(time.Minute))
	expect(t, "looks again without the tag", w.decide().History.LookAgainAt.IsZero(), true)
}

// A wake-up changes nothing about scaling in: no datapoint is counted or lost, nothing is published
// or emptied (C5).
func TestWakeUpsLeaveScaleInAlone(t *testing.T) {
	for name, options := range map[string][]option{
		"Default":     {instances(1, 3)},
		"Immediate":   {instances(1, 3), immediate},
		"WaitingTask": {instances(1, 3), waits(1, small)},
		"Consolidating": {instances(3, 0), immediate,
			setting(func(s *cluster.ManagedScaling) { s.Consolidation.Enabled = true })},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(append(options, noted)...)
			w.history.LowMinutes, w.history.LastLowMinute = 20, noon.Add(-30*time.Second).Truncate(time.Minute)
			d := w.decideBetween()
			expect(t, "desired", d.Desired, w.group.Desired)
			expect(t, "published", d.Published, false)
			expect(t, "low minutes", d.History.LowMinutes, 20)
			expect(t, "last low minute", d.History.LastLowMinute, w.history.LastLowMinute)
			expect(t, "drained", len(d.Drain), 0)
		})
	}
}
