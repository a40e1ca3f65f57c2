package quota_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/quota"
	"berth/shared/state"
)

var (
	epoch  = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	limits = quota.Limits{Rate: 40, Burst: 100}
)

// An account is a bucket with rounds that lease from it, each class once a second.
type account struct {
	bucket state.Bucket
	now    time.Time
}

func newAccount() *account {
	return &account{quota.NewBucket("start", epoch, limits), epoch}
}

func (a *account) lease(c quota.Class, want int) int {
	next, got, _ := quota.Lease(a.bucket, c, want, a.now, limits)
	a.bucket = next
	return got
}

// leaseFor leases as much as there is for some seconds, the classes in the given order, and returns
// how much each got.
func (a *account) leaseFor(seconds int, order ...quota.Class) (got [quota.Classes]int) {
	for range seconds {
		a.now = a.now.Add(time.Second)
		for _, c := range order {
			got[c] += a.lease(c, 5000)
		}
	}
	return got
}

func TestLease(t *testing.T) {
	t.Run("AnIdleAccountGivesItsBurstToEither", func(t *testing.T) {
		for _, c := range []quota.Class{quota.Starts, quota.Stops} {
			a := newAccount()
			if got := a.lease(c, 5000); got != 100 {
				t.Errorf("class %d got %d calls, want 100", c, got)
			}
		}
	})
	t.Run("WhatOneDoesNotNeedGoesToTheOther", func(t *testing.T) {
		for _, c := range []quota.Class{quota.Starts, quota.Stops} {
			a := newAccount()
			a.lease(c, 5000)
			if got := a.leaseFor(100, c)[c]; got < 3995 {
				t.Errorf("class %d got %d calls in 100 s, want 40 a second", c, got)
			}
		}
	})
	t.Run("WhileBothWaitEachGetsHalf", func(t *testing.T) {
		for _, order := range [][]quota.Class{{quota.Starts, quota.Stops}, {quota.Stops, quota.Starts}} {
			a := newAccount()
			a.lease(order[1], 5000)
			a.leaseFor(2, order...)
			if got := a.leaseFor(100, order...); got[0] < 1999 || got[1] < 1999 || got[0]+got[1] > 4001 {
				t.Errorf("%v got %v calls in 100 s, want 2,000 each", order, got)
			}
		}
	})
	t.Run("AStartDuringAMassStopNeedNotWait", func(t *testing.T) {
		a := newAccount()
		a.lease(quota.Stops, 5000)
		a.leaseFor(30, quota.Stops)
		if got := a.lease(quota.Starts, 1); got != 1 {
			t.Error("no call was left for it")
		}
	})
	t.Run("ABucketOfTheVersionBeforeIsShared", func(t *testing.T) {
		a := &account{state.Bucket{Name: "start", Tokens: 100, At: epoch}, epoch}
		a.lease(quota.Stops, 5000)
		a.leaseFor(2, quota.Stops, quota.Starts)
		if got := a.leaseFor(10, quota.Stops, quota.Starts); got[quota.Starts] < 199 {
			t.Errorf("starts got %d calls in 10 s, want 200", got[quota.Starts])
		}
	})
	t.Run("ALaggingClockChangesNothing", func(t *testing.T) {
		a := newAccount()
		a.lease(quota.Starts, 100)
		a.now = a.now.Add(-time.Minute)
		if got := a.lease(quota.Starts, 1); got != 0 || !a.bucket.At.Equal(epoch) {
			t.Errorf("%d calls, bucket %+v", got, a.bucket)
		}
	})
}

// A clock that jumps an hour ahead or back leaves the account its rate once it is right again, and
// gives nobody more than one bucket more.
func TestLeaseAfterAClockHasJumped(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 3 * time.Minute} {
		b, now := quota.NewBucket("start", epoch, limits), epoch
		lease := func(c quota.Class, at time.Time) int { // a bucket that has not changed is not written
			next, got, changed := quota.Lease(b, c, 5000, at, limits)
			if changed {
				b = next
			}
			return got
		}
		lease(quota.Starts, now)
		lease(quota.Starts, now.Add(jump))
		lease(quota.Stops, now.Add(jump))
		var got [quota.Classes]int
		for range 20 {
			now = now.Add(time.Second)
			for c := range quota.Classes {
				got[c] += lease(c, now)
			}
		}
		if total := got[0] + got[1]; min(got[0], got[1]) < 300 || total > 20*40+100 {
			t.Errorf("after a jump by %s: %v calls in 20 s, want 400 each", jump, got)
		}
	}
}

// In any history a bucket gives no more than has flowed in, and keeps its parts within bounds. A
// class that always waits gets half of what flows in, whatever the other one does.
func TestLeaseInAnyHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := quota.Limits{Rate: rapid.Float64Range(0.5, 100).Draw(rt, "rate")}
		l.Burst = math.Ceil(l.Rate) + 2 + float64(rapid.IntRange(0, 100).Draw(rt, "more"))
		b, now := quota.NewBucket("start", epoch, l), epoch
		hungry := quota.Class(rapid.IntRange(0, 1).Draw(rt, "hungry"))
		var got [quota.Classes]int
		b, _, _ = quota.Lease(b, hungry, 1e6, now, l)
		for range rapid.IntRange(1, 60).Draw(rt, "seconds") {
			now = now.Add(time.Second)
			for range rapid.IntRange(0, 3).Draw(rt, "others") {
				next, n, changed := quota.Lease(b, 1-hungry, rapid.IntRange(1, 1000).Draw(rt, "want"), now, l)
				if n > 0 && !changed {
					rt.Fatalf("%d calls were leased and nothing has changed", n)
				}
				b = next
				got[1-hungry] += n
			}
			next, n, _ := quota.Lease(b, hungry, 1e6, now, l)
			b = next
			got[hungry] += n
			if b.Tokens < -1e-6 || b.Tokens > l.Burst || b.Starts < -1e-6 || b.Starts > b.Tokens+1e-6 {
				rt.Fatalf("bucket %+v of %+v", b, l)
			}
		}
		flowed := now.Sub(epoch).Seconds() * l.Rate
		if total := float64(got[0] + got[1]); total > flowed+l.Burst+1e-6 {
			rt.Fatalf("%v calls of %v", total, flowed)
		}
		// Half a bucket may be left to it, and a call is whole.
		if least := flowed/2 - l.Burst/2 - 1; float64(got[hungry]) < least {
			rt.Fatalf("the class that always waits got %d calls of %v, want at least %v", got[hungry], flowed, least)
		}
	})
}

// Buckets that hold few calls give them to both.
func TestLeaseOfSmallBuckets(t *testing.T) {
	for _, l := range []quota.Limits{{Rate: 1, Burst: 1}, {Rate: 0.1, Burst: 1.5}, {Rate: 0.5, Burst: 2},
		{Rate: 2, Burst: 3}} {
		b, now := quota.NewBucket("start", epoch, l), epoch
		var got [quota.Classes]int
		for n := range 400 {
			now = now.Add(time.Second)
			for i := range quota.Classes {
				c := (i + quota.Class(n)) % quota.Classes
				next, calls, _ := quota.Lease(b, c, 10, now, l)
				b = next
				got[c] += calls
			}
		}
		if least := int(400*l.Rate*0.4) - 2; got[0]+got[1] < int(400*l.Rate*0.9)-2 || min(got[0], got[1]) < least &&
			l.Burst >= 2 {
			t.Errorf("%+v: %v calls in 400 s", l, got)
		}
	}
}

func demands(calls ...int) []quota.Demand {
	var out []quota.Demand
	for i, n := range calls {
		out = append(out, quota.Demand{Owner: string(rune('a' + i)), Calls: n, Since: epoch.Add(time.Duration(i))})
	}
	return out
}

func TestDivide(t *testing.T) {
	for _, c := range []struct {
		name    string
		demands []quota.Demand
		calls   int
		want    []int
	}{
		{"EnoughForAll", demands(3, 1, 2), 10, []int{3, 1, 2}},
		{"InRotation", demands(50, 1, 5), 9, []int{4, 1, 4}},
		{"TheLongestWaitFirst", demands(2, 2), 3, []int{2, 1}},
		{"NoneForNobody", demands(0, 2), 1, []int{0, 1}},
		{"AnOwnersRowsInOrder", []quota.Demand{{Owner: "a", Calls: 2, Since: epoch.Add(1)},
			{Owner: "a", Calls: 2, Since: epoch}},
			3, []int{1, 2}},
		{"DeadlinesFirst", []quota.Demand{{Owner: "a", Calls: 2, Since: epoch},
			{Owner: "b", Calls: 2, Since: epoch, Deadline: epoch.Add(2)},
			{Owner: "c", Calls: 2, Since: epoch, Deadline: epoch.Add(1)}},
			2, []int{0, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := quota.Divide(c.demands, c.calls, 0); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	t.Run("MoreOwnersThanCalls", func(t *testing.T) {
		got := make([]int, 5)
		for round := range int64(5) {
			for i, n := range quota.Divide(demands(9, 9, 9, 9, 9), 2, round) {
				got[i] += n
			}
		}
		if !slices.Equal(got, []int{2, 2, 2, 2, 2}) {
			t.Errorf("five rounds of two calls gave %v", got)
		}
	})
	// All calls are given as long as somebody wants some, nobody gets more than he wants, and no
	// owner gets two more than another one who wants more than he got.
	t.Run("Property", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			var ds []quota.Demand
			wanted := 0
			for range rapid.IntRange(0, 12).Draw(rt, "demands") {
				d := quota.Demand{Owner: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "owner"),
					Calls: rapid.IntRange(0, 9).Draw(rt, "calls"),
					Since: epoch.Add(time.Duration(rapid.IntRange(0, 9).Draw(rt, "since")))}
				if rapid.IntRange(0, 4).Draw(rt, "urgent") == 0 {
					d.Deadline = epoch.Add(time.Duration(rapid.IntRange(1, 9).Draw(rt, "deadline")))
				}
				ds, wanted = append(ds, d), wanted+d.Calls
			}
			calls := rapid.IntRange(0, 40).Draw(rt, "calls")
			got := quota.Divide(ds, calls, rapid.Int64Range(0, 1e9).Draw(rt, "round"))
			sum, wants, gets := 0, map[string]int{}, map[string]int{}
			for i, n := range got {
				if n < 0 || n > ds[i].Calls {
					rt.Fatalf("%v of %v", got, ds)
				}
				sum += n
				wants[ds[i].Owner] += ds[i].Calls
				gets[ds[i].Owner] += n
			}
			if sum != min(wanted, calls) {
				rt.Fatalf("%d of %d calls given, %d wanted", sum, calls, wanted)
			}
			for a := range wants {
				for b := range wants {
					if gets[a] < wants[a] && gets[b] > gets[a]+1 {
						rt.Fatalf("%s got %d of %d, %s got %d", a, gets[a], wants[a], b, gets[b])
					}
				}
			}
		})
	})
}
