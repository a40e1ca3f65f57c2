package simulation

import (
	"io"
	"maps"
	"slices"
	"testing"
)

// rareUpgrades are bugs that few seeds find, with the first that does.
var rareUpgrades = map[Bug]uint64{}

// TestPlantedUpgradeBugsAreFound puts one bug in at a time, each of which some seed must find that passes without it.
func TestPlantedUpgradeBugsAreFound(t *testing.T) {
	if replaying() {
		t.Skip("one seed is being replayed")
	}
	for _, bug := range slices.Sorted(maps.Keys(UpgradeBugs)) {
		t.Run(string(bug), func(t *testing.T) {
			run := func(seed uint64) Run { return Run{Seed: seed, Upgrade: true, Plant: bug} }
			r := RunSeeds(rareUpgrades[bug], rareUpgrades[bug]+1, run, io.Discard)
			if !r.Failed {
				r = RunSeeds(0, mostSeeds, run, io.Discard)
			}
			if !r.Failed {
				t.Fatalf("not found in %d seeds", mostSeeds)
			}
			if out := Simulate(Run{Seed: r.Run.Seed, Upgrade: true}); len(out.Broken) > 0 {
				t.Errorf("seed %d fails without the bug: %s", r.Run.Seed, out.Broken[0])
			}
			t.Logf("found by seed %d: %s", r.Run.Seed, r.Outcome.Broken[0])
		})
	}
}
