package simulation

import (
	"maps"
	"slices"
	"testing"
)

// maxScalingSeeds is how many seeds the search for a bug may take.
const maxScalingSeeds = 60

// TestPlantedScalingBugsAreFound plants one bug at a time, in groups of a shape in which it can
// show. Some seed must find it, and pass without it in the same group.
func TestPlantedScalingBugsAreFound(t *testing.T) {
	t.Parallel()
	skipReplay(t)
	if testing.Short() {
		t.Skip("make check runs it: days of managed scaling take minutes")
	}
	for _, bug := range slices.Sorted(maps.Keys(ScalingBugs)) {
		withBug := func(seed uint64) Outcome {
			out := SimulateScaling(ScalingRun{Seed: seed, Plant: bug})
			out.Broken = bug.matchingFailures(out.Broken)
			return out
		}
		without := func(seed uint64) Outcome { return SimulateScaling(ScalingRun{Seed: seed, Shape: bug}) }
		t.Run(string(bug), func(t *testing.T) {
			checkBugIsFound(t, 0, maxScalingSeeds, withBug, without)
		})
	}
}
