package simulation

import (
	"os"
	"strconv"
	"testing"
)

// seeds is how many seeds to run: the environment's SEEDS, or few.
func seeds(t *testing.T, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv("SEEDS"))
	if os.Getenv("SEEDS") == "" {
		return otherwise
	}
	if err != nil || n < 1 {
		t.Fatalf("SEEDS is %q, expected a number above 0", os.Getenv("SEEDS"))
	}
	return n
}

func TestSeeds(t *testing.T) {
	first, last := uint64(0), uint64(seeds(t, 20))
	if one := os.Getenv("SEED"); one != "" {
		n, err := strconv.ParseUint(one, 10, 64)
		if err != nil {
			t.Fatalf("SEED is %q, expected a number", one)
		}
		first, last = n, n+1
	}
	for seed := first; seed < last; seed++ {
		out := Simulate(Run{Seed: seed})
		if len(out.Broken) > 0 {
			for _, n := range out.Notes {
				t.Log(n)
			}
			t.Fatalf("seed %d: %v", seed, out.Broken)
		}
	}
}

// TestSweepAlone loses every event and every message: the sweep has to find out what happened.
func TestSweepAlone(t *testing.T) {
	for seed := range uint64(seeds(t, 20)) {
		if out := Simulate(Run{Seed: seed, LoseEvents: true}); len(out.Broken) > 0 {
			t.Fatalf("seed %d: %v", seed, out.Broken)
		}
	}
}

// TestSameSeedSameHistory runs seeds twice.
func TestSameSeedSameHistory(t *testing.T) {
	for seed := range uint64(5) {
		a, b := Simulate(Run{Seed: seed}), Simulate(Run{Seed: seed})
		if a.Hash != b.Hash || a.Steps != b.Steps {
			t.Errorf("seed %d: %s after %d steps, then %s after %d", seed, a.Hash, a.Steps, b.Hash, b.Steps)
		}
	}
}

// TestPlantedBugsAreFound puts one bug in at a time, each of which some seed must find.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, bug := range Bugs {
		t.Run(string(bug), func(t *testing.T) {
			t.Parallel()
			const most = 2000
			for seed := range uint64(most) {
				if out := Simulate(Run{Seed: seed, Plant: bug}); len(out.Broken) > 0 {
					t.Logf("seed %d: %s", seed, out.Broken[0])
					return
				}
			}
			t.Errorf("not found in %d seeds", most)
		})
	}
}
