package simulation

import (
	"berth/tests/simulation/coverage"
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

const (
	// defaultSeeds is how many seeds a plain go test runs: enough for every kind of fault to strike.
	defaultSeeds = 300
	// shortSeeds is how many seeds go test -short runs of each kind of run.
	shortSeeds = 12
)

// seedCount returns how many seeds to run by default: n, or fewer with -short.
func seedCount(n uint64) uint64 {
	if testing.Short() {
		return min(n, shortSeeds)
	}
	return n
}

// skipIfFewer skips a test that needs n seeds.
func skipIfFewer(t *testing.T, seeds, n uint64) {
	t.Helper()
	switch {
	case seeds >= n:
	case testing.Short():
		t.Skipf("make check runs it: it needs %d seeds", n)
	default:
		t.Skipf("it needs %d seeds", n)
	}
}

// seedRange returns the seeds to run: SEED alone, or SEEDS of them, from FROM on.
func seedRange(t *testing.T) (first, last uint64) {
	if isReplaying() {
		one := envNumber(t, "SEED", 0)
		return one, one + 1
	}
	many := envNumber(t, "SEEDS", seedCount(defaultSeeds))
	if many < 1 {
		t.Fatal("SEEDS is 0, expected a number above that")
	}
	first = envNumber(t, "FROM", 0)
	return first, first + many
}

// fewerSeeds returns a fifth of the seeds, but at least 20 (12 with -short), for runs that take longer.
func fewerSeeds(t *testing.T) (first, last uint64) {
	first, last = seedRange(t)
	if isReplaying() {
		return first, last
	}
	return first / 5, max(first/5+seedCount(20), last/5)
}

func envNumber(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		t.Fatalf("%s is %q, expected a number", name, text)
	}
	return n
}

// isReplaying reports whether one seed is to be shown; what has seeds of its own has nothing to add then.
func isReplaying() bool { return os.Getenv("SEED") != "" }

// runSeeds runs the seeds, and where one fails prints all there is to know of it.
func runSeeds(t *testing.T, first, last uint64, run func(seed uint64) Run) Result {
	t.Helper()
	r := RunSeeds(first, last, run, os.Stderr)
	if isReplaying() {
		out := Simulate(run(first))
		for _, line := range slices.Concat([]string{"faults:"}, out.Faults, []string{"log:"}, out.Log) {
			t.Log(line)
		}
	}
	if r.Failed {
		t.Fatal(Report(r.Run, r.Outcome))
	}
	return r
}

func TestSeeds(t *testing.T) {
	first, last := seedRange(t)
	r := runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed} })
	t.Run("EveryFaultStrikes", func(t *testing.T) {
		skipIfFewer(t, last-first, defaultSeeds)
		for _, never := range r.Coverage.Missing(AllFaults[:upgradeFault], coverage.Points) {
			t.Errorf("never in %d seeds: %s", last-first, never)
		}
	})
}

// TestSweepAlone loses every event and every message: the sweep has to find out what happened.
func TestSweepAlone(t *testing.T) {
	first, last := fewerSeeds(t)
	runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed, LoseEvents: true} })
}

// TestLongOutage has no function run for two hours while tasks, instances and their health change: on return nothing healthy is
// stopped that need not be, and the cluster converges.
func TestLongOutage(t *testing.T) {
	first, last := fewerSeeds(t)
	runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed, LongOutage: true} })
}

// TestSameSeedSameHistory runs seeds twice.
func TestSameSeedSameHistory(t *testing.T) {
	if isReplaying() {
		t.Skip("one seed is being replayed")
	}
	for seed := range uint64(5) {
		a, b := Simulate(Run{Seed: seed}), Simulate(Run{Seed: seed})
		if a.Hash != b.Hash || a.Steps != b.Steps || !slices.Equal(a.Log, b.Log) {
			t.Errorf("seed %d: %s after %d steps, then %s after %d", seed, a.Hash, a.Steps, b.Hash, b.Steps)
		}
	}
}
