package embedded_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/embedded"
)

func TestVirtualLoopRunsInOrder(t *testing.T) {
	t.Run("RunsInOrderOfTimeThenArrival", func(t *testing.T) {
		l := embedded.NewVirtualLoop(epoch)
		var got []string
		note := func(s string) func() {
			return func() { got = append(got, s+"@"+l.Now().Sub(epoch).String()) }
		}
		l.After(2*time.Second, note("c"))
		l.After(time.Second, note("a"))
		l.After(time.Second, note("b"))
		l.Post(note("now"))
		l.After(time.Second, func() { l.Post(note("posted")) })
		l.RunUntil(epoch.Add(time.Minute))
		equal(t, "order", got, []string{"now@0s", "a@1s", "b@1s", "posted@1s", "c@2s"})
		equal(t, "clock", l.Now(), epoch.Add(time.Minute))
		if !l.IsIdle() || l.Step() {
			t.Error("something is left on the agenda")
		}
	})
	t.Run("StopsTimers", func(t *testing.T) {
		l := embedded.NewVirtualLoop(epoch)
		ran := 0
		later, now := l.After(time.Second, func() { ran++ }), l.After(0, func() { ran++ })
		equal(t, "stopped", []bool{later.Stop(), now.Stop(), later.Stop(), now.Stop()},
			[]bool{true, true, false, false})
		if l.Step() || ran != 0 || !l.IsIdle() {
			t.Errorf("a stopped timer ran (%d) or kept the loop busy", ran)
		}
		done := l.After(time.Second, func() { ran++ })
		l.Step()
		if done.Stop() || ran != 1 {
			t.Error("a timer that has run was stopped")
		}
	})
	t.Run("KeepsTheOrderWhenAStopMovesAnEarlyTimerUnderALateOne", func(t *testing.T) {
		l := embedded.NewVirtualLoop(epoch)
		var got []int
		for _, at := range []int{1, 1000, 2, 1001, 1002, 3, 900, 2000, 2001, 2002, 2003, 4} {
			timer := l.After(time.Duration(at), func() { got = append(got, at) })
			if at == 2000 {
				l.After(0, func() { timer.Stop() })
			}
		}
		l.Run(context.Background())
		equal(t, "order", got, []int{1, 2, 3, 4, 900, 1000, 1001, 1002, 2001, 2002, 2003})
	})
	t.Run("StepSkipsToTheNextTimeWhenAllReadyWereStopped", func(t *testing.T) {
		l := embedded.NewVirtualLoop(epoch)
		ran := false
		l.After(time.Second, func() { ran = true })
		l.After(0, func() {}).Stop()
		if !l.Step() || !ran {
			t.Error("the timer did not run")
		}
	})
	t.Run("PickChoosesAmongTheSameInstantOnly", func(t *testing.T) {
		orders := map[string]bool{}
		for seed := range uint64(50) {
			l := embedded.NewVirtualLoop(epoch)
			l.Pick = rand.New(rand.NewPCG(seed, 0)).IntN
			got := ""
			for _, s := range []string{"a", "b", "c"} {
				l.After(time.Second, func() { got += s })
			}
			l.After(2*time.Second, func() { got += "z" })
			l.Run(context.Background())
			orders[got] = true
			if got[3] != 'z' {
				t.Fatalf("order %s: a later instant came first", got)
			}
		}
		equal(t, "number of orders", len(orders), 6)
	})
}

// TestLoopOrderIsThatOfASortedList compares the agenda with a sorted list, with timers stopped at
// random.
func TestLoopOrderIsThatOfASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := embedded.NewVirtualLoop(epoch)
		type entry struct{ at, n int }
		var want, got []entry
		var timers []*embedded.Timer
		for n, at := range rapid.SliceOfN(rapid.IntRange(0, 200), 0, 60).Draw(t, "times") {
			timers = append(timers, l.After(time.Duration(at)*time.Second, func() { got = append(got, entry{at, n}) }))
			want = append(want, entry{at, n})
		}
		slices.SortStableFunc(want, func(a, b entry) int { return a.at - b.at })
		for n, timer := range timers {
			if rapid.Bool().Draw(t, "stop") {
				timer.Stop()
				want = slices.DeleteFunc(want, func(e entry) bool { return e.n == n })
			}
		}
		l.RunUntil(epoch.Add(time.Hour))
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

func TestFastLoopIsAheadOfTheMachine(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	l := embedded.NewFastLoop(100)
	ended := make(chan struct{})
	go func() { defer close(ended); l.Run(ctx) }()
	began, beganThere := time.Now(), l.Now()
	if err := l.Sleep(ctx, 2*time.Second); err != nil {
		t.Fatal(err)
	}
	if there := l.Now().Sub(beganThere); there < 2*time.Second {
		t.Errorf("the loop slept for %s of its time, want 2s", there)
	}
	if here := time.Since(began); here > time.Second {
		t.Errorf("that took %s, want about 20ms", here)
	}
	cancel()
	<-ended
}

func TestRealLoopKeepsTime(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	l := embedded.NewRealLoop()
	var wait sync.WaitGroup
	wait.Add(1)
	go func() {
		defer wait.Done()
		l.Run(ctx)
	}()
	n := 0 // guarded by the loop
	var senders sync.WaitGroup
	for range 8 {
		senders.Add(1)
		go func() {
			defer senders.Done()
			for range 100 {
				l.Post(func() { n++ })
			}
		}()
	}
	senders.Wait()
	got := 0
	if err := l.Do(ctx, func() { got = n }); err != nil || got != 800 {
		t.Errorf("Do: %v, %d callbacks ran before it, want 800", err, got)
	}
	if err := l.Sleep(ctx, time.Millisecond); err != nil {
		t.Errorf("Sleep: %v", err)
	}
	asleep, wake := context.WithCancel(ctx)
	wake()
	if err := l.Sleep(asleep, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("Sleep of a cancelled context: %v", err)
	}
	cancel()
	wait.Wait()
	if err := l.Do(ctx, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("Do on a loop that has ended: %v", err)
	}
}

func BenchmarkLoopStep(b *testing.B) {
	l := embedded.NewVirtualLoop(epoch)
	for i := range 1000 {
		var again func()
		again = func() { l.After(time.Duration(i+1)*time.Millisecond, again) }
		again()
	}
	for b.Loop() {
		l.Step()
	}
}

// A function that waits holds up its loop: in real time for as long as the loop's clock says, in
// virtual time not at all. The end of its call ends the wait.
func TestFunctionsWaitOnTheirLoop(t *testing.T) {
	virtual := embedded.NewVirtualLoop(time.Unix(0, 0))
	done := false
	virtual.Post(func() {
		if err := (embedded.CallbackClock{Loop: virtual}).Sleep(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
		done = true
	})
	virtual.Step()
	if !done || !virtual.Now().Equal(time.Unix(0, 0)) {
		t.Errorf("virtual: done %t at %s", done, virtual.Now())
	}
	fast := embedded.CallbackClock{Loop: embedded.NewFastLoop(1000)}
	begin := time.Now()
	if err := fast.Sleep(t.Context(), 10*time.Second); err != nil || time.Since(begin) < 10*time.Millisecond {
		t.Errorf("10 s at 1,000 times the speed took %s, %v", time.Since(begin), err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, loop := range []*embedded.Loop{virtual, embedded.NewRealLoop()} {
		if err := (embedded.CallbackClock{Loop: loop}).Sleep(ended, time.Hour); err == nil {
			t.Error("the wait ended without an error, though its call had ended")
		}
	}
}
