package simulation

import (
	"io"
	"strings"
	"testing"
)

// firstSeeds are bugs that few seeds find, with the first that does: the search begins there, and goes through all where that has
// come to be another.
var firstSeeds = map[Bug]uint64{
	DropVersionCheck: 12, CountStopped: 4, FloorBase: 229, QuorumOffByOne: 33, UndefinedTrue: 9, PhantomDomain: 75,
	UseBuffer: 133, FreePortTwice: 68, CountPairTwice: 142, IgnoreLoads: 1094, RollBackToFailed: 270, KeepThrottle: 21, NarrowSilently: 293,
	CommitStale: 30, TrustStale: 102, CeilForFloor: 30, StopEarly: 23, ChooseProtected: 31, IgnoreGrace: 23, IgnoreMassUnhealthiness: 23,
	IgnoreThrottle: 4, IgnoreGap: 402, NeverResetThrottle: 407,
}

// findBug is the outcome of the first of many seeds that finds the bug.
func findBug(bug Bug) Result {
	run := func(seed uint64) Run { return Run{Seed: seed, PlantedBug: bug} }
	if r := RunSeeds(firstSeeds[bug], firstSeeds[bug]+1, run, io.Discard); r.Failed {
		return r
	}
	return RunSeeds(0, maxSeeds, run, io.Discard)
}

// maxSeeds is how many seeds a bug may take.
const maxSeeds = 2000

// TestPlantedBugsAreFound puts one bug in at a time, each of which some seed must find that passes without it.
func TestPlantedBugsAreFound(t *testing.T) {
	if isReplaying() {
		t.Skip("one seed is being replayed")
	}
	for _, bug := range Bugs {
		t.Run(string(bug), func(t *testing.T) {
			r := findBug(bug)
			if !r.Failed {
				t.Fatalf("not found in %d seeds", maxSeeds)
			}
			if out := Simulate(Run{Seed: r.Run.Seed}); len(out.Broken) > 0 {
				t.Errorf("seed %d fails without the bug: %s", r.Run.Seed, out.Broken[0])
			}
			t.Logf("found by seed %d: %s", r.Run.Seed, r.Outcome.Broken[0])
		})
	}
}

// TestFailureIsShrunk has a planted bug fail and looks at what is printed.
func TestFailureIsShrunk(t *testing.T) {
	if isReplaying() {
		t.Skip("one seed is being replayed")
	}
	r := findBug(CountStopped)
	if !r.Failed {
		t.Fatal("the bug was not found")
	}
	short, out := Shrink(r.Run, r.Outcome)
	if len(short.Actions) >= len(r.Outcome.Actions) {
		t.Errorf("%d actions were shrunk to %d", len(r.Outcome.Actions), len(short.Actions))
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
			t.Errorf("action %d could have been taken away too", n)
		}
	}
	report := Report(r.Run, r.Outcome)
	for _, part := range []string{"broke:", out.Broken[0], "shortest history", "make simulate SEED="} {
		if !strings.Contains(report, part) {
			t.Errorf("the report lacks %q:\n%s", part, report)
		}
	}
}
