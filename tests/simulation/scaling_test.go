package simulation

import (
	"os"
	"slices"
	"testing"
)

// scaledSeeds is how many seeds of managed scaling a plain go test runs.
const scaledSeeds = 20

// TestScaling has managed scaling follow a day's load under faults, and come to rest where the arithmetic has it.
func TestScaling(t *testing.T) {
	first, last := seeds(t)
	if !replaying() && os.Getenv("SEEDS") == "" {
		last = scaledSeeds
	}
	for seed := first; seed < last; seed++ {
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
