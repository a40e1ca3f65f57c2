package simulation

import (
	"testing"

	"berth/tests/simulation/coverage"
)

// defaultUpgrades is how many seeds of node groups a plain go test runs.
const defaultUpgrades = 200

// TestUpgradeSeeds updates node groups under faults.
func TestUpgradeSeeds(t *testing.T) {
	first, last := seedRange(t)
	if many := envNumber(t, "SEEDS", seedCount(defaultUpgrades)); !isReplaying() {
		last = first + many
	}
	r := runSeeds(t, first, last, func(seed uint64) Run { return Run{Seed: seed, Upgrade: true} })
	t.Run("EveryFaultStrikes", func(t *testing.T) {
		skipUnlessCovering(t, first, last, defaultUpgrades)
		for _, never := range r.Coverage.Missing(groupFaults, coverage.UpgradePoints) {
			t.Errorf("never in %d seeds: %s", last-first, never)
		}
	})
}

// upgradeRegressions are seeds that once found a bug, as [regressions] are.
var upgradeRegressions = []struct {
	seed  uint64
	found string
}{
	{104466, "a node that came into service within a second of its removal counted as taken out of service"},
	{129, "a node was left unschedulable: it was cordoned, and reading it afterward was denied"},
	{504, "a node was terminated with a task that ECS had started late and not reported"},
	{2509, "a node was terminated 57 s after a task had stopped whose stop was not reported"},
	{766, "an update removed nodes that managed scaling had added during an earlier one"},
	{1740, "nodes were terminated as unregistered that the same invocation had just found registered"},
	{201143, "a node that was drained again by the restore was expected to be empty by the time of its first drain"},
	{50864, "two denials half an hour apart ended the attempt to restore the sizes: ten nodes were left"},
	{1136, "the surplus of a group was removed that managed scaling had enlarged between two invocations"},
	{1008, "an update waited for nodes to be cordoned for long enough by a clock that was an hour ahead"},
	{1114, "an update waited for an upgrade domain to settle by a clock that was an hour ahead"},
	{502969, "the check of sizes forgot that an update had left nodes to managed scaling, which had only planned more"},
	{100597, "the check of zones forgot that a maximum that is restored takes nodes that managed scaling had kept"},
	{100492, "the check of the minute without tasks forgot that the update's clock had jumped"},
	{100974, "the check of availability knew of an agent that had connected again before Berth could know it"},
	{101931, "a node was left DRAINING: the drain had not been recorded, so its release seemed to be over"},
	{104610, "placement never learned of tasks that a sweep had recorded before it was cut off, and kept DAEMON tasks"},
	{113689, "the check of sizes took a scale-out that a clock which jumps had recorded for an old one"},
	{114095, "the check of kept nodes forgot that tasks waited for an instance while the group was at its maximum"},
	{120101, "a node was left unschedulable: the call that marked it arrived after the update's end"},
	{800077, "a start that no event told of was taken for none, because ECS had forgotten the task an hour after it stopped"},
}

func TestUpgradeRegressions(t *testing.T) {
	t.Parallel()
	skipReplay(t)
	for _, r := range upgradeRegressions {
		run := Run{Seed: r.seed, Upgrade: true}
		if out := Simulate(run); len(out.Broken) > 0 {
			t.Errorf("seed %d, which once found that %s:\n%s", r.seed, r.found, Report(run, out))
		}
	}
}
