package simulation

import (
	"maps"
	"slices"
	"testing"
)

// maxScalingSeeds is how many seeds a bug in managed scaling may take.
const maxScalingSeeds = 60

// TestPlantedScalingBugsAreFound puts one bug in at a time, each of which some seed must find that passes without it.
func TestPlantedScalingBugsAreFound(t *testing.T) {
	if isReplaying() {
		t.Skip("one seed is being replayed")
	}
	for _, bug := range slices.Sorted(maps.Keys(ScalingBugs)) {
		t.Run(string(bug), func(t *testing.T) {
			for seed := range uint64(maxScalingSeeds) {
				// A bug shows in a world of its shape. There the real code must pass.
				shown := bug.matchingFailures(SimulateScaling(ScalingRun{Seed: seed, Plant: bug}).Broken)
				if len(shown) == 0 {
					continue
				}
				if clean := SimulateScaling(ScalingRun{Seed: seed, Shape: bug}); len(clean.Broken) > 0 {
					t.Errorf("seed %d fails without the bug: %s", seed, clean.Broken[0])
				}
				t.Logf("found by seed %d: %s", seed, shown[0])
				return
			}
			t.Errorf("not found in %d seeds", maxScalingSeeds)
		})
	}
}
