package simulation

import (
	"berth/tests/simulation/coverage"
	"testing"
)

// defaultUpgrades is how many seeds of node groups a plain go test runs.
const defaultUpgrades = 200

// TestUpgradeSeeds has node groups updated under faults.
func TestUpgradeSeeds(t *testing.T) {
	first, last := seedRange(t)
	if many := envNumber(t, "SEEDS", seedCount(defaultUpgrades)); !isReplaying() {
		last = first + many
	}
	r := runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed, Upgrade: true} })
	t.Run("EveryFaultStrikes", func(t *testing.T) {
		skipIfFewer(t, last-first, defaultUpgrades)
		for _, never := range r.Coverage.Missing(AllFaults[upgradeFault:], coverage.UpgradePoints) {
			t.Errorf("never in %d seeds: %s", last-first, never)
		}
	})
}

// upgradeRegressions are seeds that once found a bug, as [regressions] are.
var upgradeRegressions = []struct {
	seed  uint64
	found string
}{
	{129, "a node was left unschedulable: the mark was made, and looking at it afterwards was denied"},
	{504, "a node was terminated with a task that ECS had started late, and of which nobody had told"},
	{2509, "a node was terminated 57 s after a task had stopped that nobody had told of"},
	{766, "an update was to take back nodes that managed scaling had added during an earlier one"},
	{1740, "nodes were terminated as never having come that the same look had just found registered"},
	{1136, "the surplus was taken back of a group that managed scaling had enlarged while nobody was awake"},
}

func TestUpgradeRegressions(t *testing.T) {
	if isReplaying() {
		t.Skip("one seed is being replayed")
	}
	for _, r := range upgradeRegressions {
		run := Run{Seed: r.seed, Upgrade: true}
		if out := Simulate(run); len(out.Broken) > 0 {
			t.Errorf("seed %d, which once found that %s:\n%s", r.seed, r.found, Report(run, out))
		}
	}
}

// TestSameUpgradeSeedSameHistory runs seeds twice.
func TestSameUpgradeSeedSameHistory(t *testing.T) {
	if isReplaying() {
		t.Skip("one seed is being replayed")
	}
	for seed := range uint64(5) {
		a, b := Simulate(Run{Seed: seed, Upgrade: true}), Simulate(Run{Seed: seed, Upgrade: true})
		if a.Hash != b.Hash || a.Steps != b.Steps {
			t.Errorf("seed %d: %s after %d steps, then %s after %d", seed, a.Hash, a.Steps, b.Hash, b.Steps)
		}
	}
}
