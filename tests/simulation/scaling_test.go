package simulation

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// TestScaling has managed scaling follow a day's load under faults, and come to rest where the arithmetic has it. A day takes
// as long as a dozen other runs.
func TestScaling(t *testing.T) {
	first, last := seeds(t)
	if !replaying() {
		last = first + max(10, (last-first)/12)
	}
	var next atomic.Uint64
	next.Store(first)
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for seed := next.Add(1) - 1; seed < last; seed = next.Add(1) - 1 {
				out := SimulateScaling(ScaledRun{Seed: seed})
				if replaying() {
					for _, line := range slices.Concat([]string{"faults:"}, out.Faults, []string{"log:"}, out.Notes) {
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
}

// TestSameScalingSeedSameHistory runs seeds twice.
func TestSameScalingSeedSameHistory(t *testing.T) {
	if replaying() {
		t.Skip("one seed is being replayed")
	}
	for seed := range uint64(2) {
		a, b := SimulateScaling(ScaledRun{Seed: seed}), SimulateScaling(ScaledRun{Seed: seed})
		if a.Hash != b.Hash || a.Steps != b.Steps || !slices.Equal(a.Notes, b.Notes) {
			t.Errorf("seed %d: %s after %d steps, then %s after %d", seed, a.Hash, a.Steps, b.Hash, b.Steps)
		}
	}
}
