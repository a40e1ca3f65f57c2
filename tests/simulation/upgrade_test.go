package simulation

import (
	"testing"
)

// defaultUpgrades is how many seeds of node groups a plain go test runs.
const defaultUpgrades = 200

// TestUpgradeSeeds has node groups updated under faults.
func TestUpgradeSeeds(t *testing.T) {
	first, last := seeds(t)
	if !replaying() {
		last = max(defaultUpgrades, last)
	}
	runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed, Upgrade: true} })
}
