package simulation

import (
	"io"
	"strings"
	"testing"
)

// firstSeeds has a seed for each bug that few seeds find, or whose runs take long with most of them. A
// test fails if that seed no longer finds the bug: a search through all seeds takes minutes.
var firstSeeds = map[Bug]uint64{
	DropVersionCheck: 12, CountStopped: 46, FloorBase: 229, QuorumOffByOne: 33, UndefinedTrue: 9, PhantomDomain: 75,
	UseBuffer: 165, FreePortTwice: 68, CountPairTwice: 184, IgnoreLoads: 1094, RollBackToFailed: 27, KeepThrottle: 161,
	NarrowSilently: 12, KeepDeleted: 29, ReplaceOthers: 5, BalanceUnasked: 31, LimitEachPlan: 183,
	CommitStale: 44, TrustStale: 36, CeilForFloor: 30, StopEarly: 23, ChooseProtected: 31, IgnoreGrace: 23,
	IgnoreMassUnhealthiness: 23, IgnoreTaint: 13, TolerateOtherKey: 1, KeepEvicted: 15,
	IgnoreMaximumNodes: 224, IgnoreNodeCapacity: 975, IgnoreTotalCapacity: 910, IgnoreReservation: 989,
	IgnoreThrottle: 4, IgnoreGap: 402, NeverResetThrottle: 407,
}

// maxSeeds is how many seeds the search for a bug may take.
const maxSeeds = 2000

// findBug returns the result of the first of n seeds that finds a bug. It tries the known one
// first; 0 means that none is known.
func findBug(known, n uint64, withBug func(seed uint64) Outcome) Result {
	if known > 0 {
		if r := RunSeeds(known, known+1, withBug, io.Discard); r.Failed {
			return r
		}
	}
	return RunSeeds(0, n, withBug, io.Discard)
}

// checkBugIsFound checks that one of n seeds finds the bug and passes without it.
func checkBugIsFound(t *testing.T, known, n uint64, withBug, without func(seed uint64) Outcome) {
	t.Helper()
	r := findBug(known, n, withBug)
	if !r.Failed {
		t.Fatalf("not found in %d seeds", n)
	}
	if known > 0 && r.Seed != known {
		t.Errorf("found by seed %d, no longer by seed %d, as firstSeeds or firstUpgradeSeeds says", r.Seed, known)
	}
	if out := without(r.Seed); len(out.Broken) > 0 {
		t.Errorf("seed %d fails without the bug: %s", r.Seed, out.Broken[0])
	}
	t.Logf("found by seed %d: %s", r.Seed, r.Outcome.Broken[0])
}

// TestPlantedBugsAreFound plants one bug at a time. Some seed must find it, and pass without it.
func TestPlantedBugsAreFound(t *testing.T) {
	t.Parallel()
	skipReplay(t)
	without := func(seed uint64) Outcome { return Simulate(Run{Seed: seed}) }
	for _, bug := range Bugs {
		withBug := func(seed uint64) Outcome { return Simulate(Run{Seed: seed, PlantedBug: bug}) }
		t.Run(string(bug), func(t *testing.T) { checkBugIsFound(t, firstSeeds[bug], maxSeeds, withBug, without) })
	}
}

// TestPlantedBalanceBugsAreFound does the same in runs with balancing.
func TestPlantedBalanceBugsAreFound(t *testing.T) {
	t.Parallel()
	skipReplay(t)
	without := func(seed uint64) Outcome { return Simulate(Run{Seed: seed, Balance: true}) }
	for _, bug := range BalanceBugs {
		withBug := func(seed uint64) Outcome { return Simulate(Run{Seed: seed, Balance: true, PlantedBug: bug}) }
		t.Run(string(bug), func(t *testing.T) { checkBugIsFound(t, firstSeeds[bug], maxSeeds, withBug, without) })
	}
}

// TestFailureIsShrunk lets a planted bug fail and checks the report.
func TestFailureIsShrunk(t *testing.T) {
	t.Parallel()
	skipReplay(t)
	r := findBug(firstSeeds[CountStopped], maxSeeds, func(seed uint64) Outcome {
		return Simulate(Run{Seed: seed, PlantedBug: CountStopped})
	})
	if !r.Failed {
		t.Fatal("the bug was not found")
	}
	run := Run{Seed: r.Seed, PlantedBug: CountStopped}
	short, out := Shrink(run, r.Outcome)
	if len(short.Actions) >= len(r.Outcome.Actions) {
		t.Errorf("%d actions were shrunk to %d, want fewer", len(r.Outcome.Actions), len(short.Actions))
	}
	if firstBroken(out) != firstBroken(r.Outcome) {
		t.Errorf("broke %q, and shrunk %q", firstBroken(r.Outcome), firstBroken(out))
	}
	if again := Simulate(short); len(again.Broken) == 0 || again.Hash != out.Hash {
		t.Errorf("the shortest run breaks %q, and run again %q", out.Broken, again.Broken)
	}
	for n := range short.Actions {
		less := short
		less.Actions = append(append([]Action{}, short.Actions[:n]...), short.Actions[n+1:]...)
		if firstBroken(Simulate(less)) == firstBroken(out) {
			t.Errorf("action %d could have been removed, too", n)
		}
	}
	report := Report(run, r.Outcome)
	for _, part := range []string{"broke:", out.Broken[0], "shortest history", "make simulate SEED="} {
		if !strings.Contains(report, part) {
			t.Errorf("the report lacks %q:\n%s", part, report)
		}
	}
}
