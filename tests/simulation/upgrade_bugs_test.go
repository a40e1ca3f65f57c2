package simulation

import (
	"maps"
	"slices"
	"testing"
)

// firstUpgradeSeeds are the seeds that find each bug. If one no longer does, all seeds are searched, and
// the test fails with the seed to write here.
var firstUpgradeSeeds = map[Bug]uint64{
	OldNodesSchedulable: 7, DrainAllAtOnce: 7, OneTooMany: 7, NoReplacement: 7, NoDrainTimeOut: 15, NoCordonWait: 7,
	KeepSurge: 7, RaiseMinimum: 7,
	SurplusAnywhere: 63, DaemonStays: 23, UpdatedAgain: 103, ForceProtectedTasks: 7, BothInCharge: 87, CordonsStay: 16,
	AllDomains: 87, EarlyEvent: 1, NoUpgradeNet: 6,
}

// maxUpgradeSeeds is how many seeds the search for a bug may take.
const maxUpgradeSeeds = 500

// TestPlantedUpgradeBugsAreFound plants one bug at a time. Some seed must find it, and pass without
// it.
func TestPlantedUpgradeBugsAreFound(t *testing.T) {
	t.Parallel()
	skipReplay(t)
	without := func(seed uint64) Outcome { return Simulate(Run{Seed: seed, Upgrade: true}) }
	for _, bug := range slices.Sorted(maps.Keys(UpgradeBugs)) {
		withBug := func(seed uint64) Outcome { return Simulate(Run{Seed: seed, Upgrade: true, PlantedBug: bug}) }
		t.Run(string(bug), func(t *testing.T) {
			checkBugIsFound(t, firstUpgradeSeeds[bug], maxUpgradeSeeds, withBug, without)
		})
	}
}
