package simulation

import (
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // runs are short and make much garbage
	os.Exit(m.Run())
}

// defaultSeeds is how many seeds a plain go test runs: enough for every kind of fault to strike.
const defaultSeeds = 300

// seeds are the seeds to run: SEED alone, or the first SEEDS.
func seeds(t *testing.T) (first, last uint64) {
	if one := os.Getenv("SEED"); one != "" {
		n, err := strconv.ParseUint(one, 10, 63)
		if err != nil {
			t.Fatalf("SEED is %q, expected a number", one)
		}
		return n, n + 1
	}
	many := os.Getenv("SEEDS")
	if many == "" {
		return 0, defaultSeeds
	}
	n, err := strconv.ParseUint(many, 10, 63)
	if err != nil || n < 1 {
		t.Fatalf("SEEDS is %q, expected a number above 0", many)
	}
	return 0, n
}

// replaying reports whether one seed is to be shown; what has seeds of its own has nothing to add then.
func replaying() bool { return os.Getenv("SEED") != "" }

// runSeeds runs the seeds, and where one fails prints all there is to know of it.
func runSeeds(t *testing.T, first, last uint64, run func(seed uint64) Run) Result {
	t.Helper()
	r := RunSeeds(first, last, run, os.Stderr)
	if replaying() {
		out := Simulate(run(first))
		for _, line := range slices.Concat([]string{"faults:"}, out.Faults, []string{"log:"}, out.Notes) {
			t.Log(line)
		}
	}
	if r.Failed {
		t.Fatal(Report(r.Run, r.Outcome))
	}
	return r
}

func TestSeeds(t *testing.T) {
	first, last := seeds(t)
	r := runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed} })
	t.Run("EveryFaultStrikes", func(t *testing.T) {
		if last-first < defaultSeeds {
			t.Skipf("%d seeds are too few for that", last-first)
		}
		for _, never := range r.Coverage.Missing() {
			t.Errorf("never in %d seeds: %s", last-first, never)
		}
	})
}

// TestSweepAlone loses every event and every message: the sweep has to find out what happened.
func TestSweepAlone(t *testing.T) {
	first, last := seeds(t)
	if !replaying() {
		last = max(20, last/5)
	}
	runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed, LoseEvents: true} })
}

// TestAway has no function run for two hours while tasks, instances and their health change: on return nothing healthy is
// stopped that need not be, and the cluster converges.
func TestAway(t *testing.T) {
	first, last := seeds(t)
	if !replaying() {
		last = max(20, last/5)
	}
	runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed, Away: true} })
}

// TestSameSeedSameHistory runs seeds twice.
func TestSameSeedSameHistory(t *testing.T) {
	if replaying() {
		t.Skip("one seed is being replayed")
	}
	for seed := range uint64(5) {
		a, b := Simulate(Run{Seed: seed}), Simulate(Run{Seed: seed})
		if a.Hash != b.Hash || a.Steps != b.Steps || !slices.Equal(a.Notes, b.Notes) {
			t.Errorf("seed %d: %s after %d steps, then %s after %d", seed, a.Hash, a.Steps, b.Hash, b.Steps)
		}
	}
}
