package simulation

import (
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"

	"berth/tests/simulation/coverage"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(1600) // runs are small and produce much garbage
	debug.SetMemoryLimit(1 << 30)
	runtime.MemProfileRate = 0 // -memprofile sets it again; otherwise each 512 KiB take a stack trace
	os.Exit(m.Run())
}

const (
	// defaultSeeds is how many seeds a plain go test runs. Every kind of fault strikes in some of
	// them.
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

// coveringSeeds is how many seeds from anywhere have to hit every point. 1,000 from 100000 on missed one.
const coveringSeeds = 5000

// skipUnlessCovering skips a test of what the seeds have hit. From 0 on, fromZero of them are known to
// hit everything.
func skipUnlessCovering(t *testing.T, first, last, fromZero uint64) {
	t.Helper()
	switch {
	case first == 0 && last >= fromZero, last-first >= coveringSeeds:
	case testing.Short():
		t.Skipf("make check runs it: it needs %d seeds", fromZero)
	default:
		t.Skipf("it needs %d seeds from 0 on, or %d", fromZero, coveringSeeds)
	}
}

// seedRange returns the seeds to run: SEED alone, or SEEDS of them from FROM on.
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

// isOnly reports whether one test runs alone, with all seeds that it is given.
func isOnly() bool { return os.Getenv("ONLY") != "" }

// fewerSeeds returns a fifth of the seeds, but at least 20 (12 with -short), for runs that take
// longer.
func fewerSeeds(t *testing.T) (first, last uint64) {
	first, last = seedRange(t)
	if isReplaying() || isOnly() {
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

// isReplaying reports whether one seed is shown in full. Tests with seeds of their own are skipped
// then.
func isReplaying() bool { return os.Getenv("SEED") != "" }

// runSeeds runs the seeds. If one fails, it prints the report of the lowest.
func runSeeds(t *testing.T, first, last uint64, run func(seed uint64) Run) Result {
	t.Helper()
	r := RunSeeds(first, last, func(seed uint64) Outcome { return Simulate(run(seed)) }, os.Stderr)
	logReplay(t, r.Outcome)
	if r.Failed {
		t.Fatal(Report(run(r.Seed), r.Outcome))
	}
	return r
}

// logReplay logs the faults and the log of a seed that is shown in full.
func logReplay(t *testing.T, out Outcome) {
	if !isReplaying() {
		return
	}
	for _, line := range slices.Concat([]string{"faults:"}, out.Faults, []string{"log:"}, out.Log) {
		t.Log(line)
	}
}

// skipReplay skips a test that has seeds of its own while one seed is shown in full.
func skipReplay(t *testing.T) {
	t.Helper()
	if isReplaying() {
		t.Skip("one seed is being replayed")
	}
}

func TestSeeds(t *testing.T) {
	first, last := seedRange(t)
	r := runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed} })
	t.Run("EveryFaultStrikes", func(t *testing.T) {
		skipUnlessCovering(t, first, last, defaultSeeds)
		for _, never := range r.Coverage.Missing(generalFaults(), coverage.Points) {
			t.Errorf("never in %d seeds: %s", last-first, never)
		}
	})
}

// generalFaults returns the faults that strike without a node group.
func generalFaults() []Fault {
	return slices.DeleteFunc(slices.Clone(AllFaults), func(f Fault) bool { return slices.Contains(groupFaults, f) })
}

// TestSweepAlone loses every event and every message, so that the sweep must notice everything.
func TestSweepAlone(t *testing.T) {
	first, last := fewerSeeds(t)
	runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed, LoseEvents: true} })
}

// TestBalancing runs seeds with balancing switched on: it breaks no invariant, ends, and leaves the
// cluster as converged as without it.
func TestBalancing(t *testing.T) {
	first, last := fewerSeeds(t)
	r := runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed, Balance: true} })
	t.Run("SomeTaskMoves", func(t *testing.T) {
		skipUnlessCovering(t, first, last, 12)
		if r.Coverage.Points[coverage.BalanceMoved] == 0 {
			t.Errorf("no task moved to balance the cluster in %d seeds", last-first)
		}
	})
}

// TestLongOutage stops all functions for two hours while tasks, instances and their health change.
// Afterwards no healthy task is stopped that need not be, and the cluster converges.
func TestLongOutage(t *testing.T) {
	first, last := fewerSeeds(t)
	runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed, LongOutage: true} })
}

// TestSameSeedSameHistory runs seeds of every kind twice: the commits, the steps and the log are
// the same. In the history of seed 100040 two revisions are throttled at once, whose wake-ups were
// once written in any order, so it runs more often.
// With -short, the other kinds run at most 3 seeds.
func TestSameSeedSameHistory(t *testing.T) {
	t.Parallel()
	skipReplay(t)
	for name, kind := range map[string]struct {
		seeds    uint64
		simulate func(seed uint64) Outcome
	}{
		"General":      {8, func(seed uint64) Outcome { return Simulate(Run{Seed: seed}) }},
		"TwoRevisions": {5, func(uint64) Outcome { return Simulate(Run{Seed: 100040}) }},
		"Balance":      {8, func(seed uint64) Outcome { return Simulate(Run{Seed: seed, Balance: true}) }},
		"Upgrade":      {5, func(seed uint64) Outcome { return Simulate(Run{Seed: seed, Upgrade: true}) }},
		"Scaling":      {2, func(seed uint64) Outcome { return SimulateScaling(ScalingRun{Seed: seed}) }},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "TwoRevisions" {
				kind.seeds = min(kind.seeds, 3)
			}
			for seed := range kind.seeds {
				a, b := kind.simulate(seed), kind.simulate(seed)
				if a.Hash != b.Hash || a.Steps != b.Steps || !slices.Equal(a.Log, b.Log) {
					t.Errorf("seed %d: %s after %d steps, then %s after %d", seed, a.Hash, a.Steps, b.Hash, b.Steps)
				}
			}
		})
	}
}
