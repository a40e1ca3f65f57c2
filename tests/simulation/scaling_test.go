package simulation

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestScaling has managed scaling follow a day's load under faults, and come to rest where the arithmetic has it. A day takes
// as long as a dozen other runs.
func TestScaling(t *testing.T) {
	first, last := seedRange(t)
	if !isReplaying() {
		atLeast := uint64(10)
		if testing.Short() {
			atLeast = 2
		}
		last = first + max(atLeast, (last-first)/12)
	}
	var next, done atomic.Uint64
	next.Store(first)
	began := time.Now()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	over := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				fmt.Fprintf(os.Stderr, "%d of %d days, %.2f a second\n", done.Load(), last-first, float64(done.Load())/time.Since(began).Seconds())
			}
		}
	})
	var working sync.WaitGroup
	for range parallelRuns {
		working.Go(func() {
			for seed := next.Add(1) - 1; seed < last; seed = next.Add(1) - 1 {
				out := SimulateScaling(ScalingRun{Seed: seed})
				done.Add(1)
				if isReplaying() {
					for _, line := range slices.Concat([]string{"faults:"}, out.Faults, []string{"log:"}, out.Log) {
						t.Log(line)
					}
				}
				if len(out.Broken) > 0 {
					t.Errorf("seed %d: %q; SEED=%d go test -run TestScaling -v ./tests/simulation shows it", seed, out.Broken, seed)
				}
			}
		})
	}
	working.Wait()
	close(over)
	reporting.Wait()
}

// TestScalingRegressions runs days that once found a bug.
func TestScalingRegressions(t *testing.T) {
	if isReplaying() {
		t.Skip("one seed is being replayed")
	}
	for seed, found := range map[uint64]string{
		154: "a task that ran by then was started again, written off when that was refused, and taken with its instance",
		180: "the same, where the start before had been throttled",
		54:  "a second start of a task that nobody had heard of was taken with its instance, which is no task lost",
		148: "an instance that never registered had a group without protection take others in its place for ever",
		190: "instances whose draining nobody had heard of were DRAINING for ever",
	} {
		if out := SimulateScaling(ScalingRun{Seed: seed}); len(out.Broken) > 0 {
			t.Errorf("seed %d, which once found that %s: %q", seed, found, out.Broken)
		}
	}
}

// TestSameScalingSeedSameHistory runs seeds twice.
func TestSameScalingSeedSameHistory(t *testing.T) {
	if isReplaying() {
		t.Skip("one seed is being replayed")
	}
	for seed := range uint64(2) {
		a, b := SimulateScaling(ScalingRun{Seed: seed}), SimulateScaling(ScalingRun{Seed: seed})
		if a.Hash != b.Hash || a.Steps != b.Steps || !slices.Equal(a.Log, b.Log) {
			t.Errorf("seed %d: %s after %d steps, then %s after %d", seed, a.Hash, a.Steps, b.Hash, b.Steps)
		}
	}
}
