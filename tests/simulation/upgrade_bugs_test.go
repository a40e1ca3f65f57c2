package simulation

import (
	"io"
	"maps"
	"slices"
	"testing"
)

// firstUpgradeSeeds is the seed that is known to find each bug; where it no longer does all are searched.
var firstUpgradeSeeds = map[Bug]uint64{
	OldNodesSchedulable: 7, DrainAllAtOnce: 7, OneTooMany: 7, NoReplacement: 7, NoDrainTimeOut: 15, NoCordonWait: 7, KeepSurge: 7, RaiseMinimum: 7,
	SurplusAnywhere: 63, DaemonStays: 23, UpdatedAgain: 71, ForceProtectedTasks: 7, BothInCharge: 87, CordonsStay: 55,
	AllDomains: 87,
}

// maxUpgradeSeeds is how many seeds such a bug may take.
const maxUpgradeSeeds = 500

// TestPlantedUpgradeBugsAreFound puts one bug in at a time, each of which some seed must find that passes without it.
func TestPlantedUpgradeBugsAreFound(t *testing.T) {
	if isReplaying() {
		t.Skip("one seed is being replayed")
	}
	for _, bug := range slices.Sorted(maps.Keys(UpgradeBugs)) {
		t.Run(string(bug), func(t *testing.T) {
			run := func(seed uint64) Run { return Run{Seed: seed, Upgrade: true, PlantedBug: bug} }
			r := RunSeeds(firstUpgradeSeeds[bug], firstUpgradeSeeds[bug]+1, run, io.Discard)
			if !r.Failed {
				r = RunSeeds(0, maxUpgradeSeeds, run, io.Discard)
			}
			if !r.Failed {
				t.Fatalf("not found in %d seeds", maxUpgradeSeeds)
			}
			if out := Simulate(Run{Seed: r.Run.Seed, Upgrade: true}); len(out.Broken) > 0 {
				t.Errorf("seed %d fails without the bug: %s", r.Run.Seed, out.Broken[0])
			}
			t.Logf("found by seed %d: %s", r.Run.Seed, r.Outcome.Broken[0])
		})
	}
}
