package simulation

import (
	"maps"
	"os"
	"slices"
	"testing"
)

// TestScaling lets managed scaling follow a day's load under faults, and settle where the
// arithmetic of C1 to C5 puts it. A day takes as long as a dozen other runs.
func TestScaling(t *testing.T) {
	first, last := seedRange(t)
	if !isReplaying() && !isOnly() {
		atLeast := uint64(10)
		if testing.Short() {
			atLeast = 2
		}
		last = first + max(atLeast, (last-first)/12)
	}
	simulate := func(seed uint64) Outcome { return SimulateScaling(ScalingRun{Seed: seed}) }
	r := RunSeeds(first, last, simulate, os.Stderr)
	logReplay(t, r.Outcome)
	if r.Failed {
		t.Fatalf("seed %d: %q; SEED=%[1]d go test -run TestScaling -v ./tests/simulation shows it", r.Seed,
			r.Outcome.Broken)
	}
	t.Run("EveryFaultStrikes", func(t *testing.T) {
		skipUnlessCovering(t, first, last, defaultSeeds/12)
		for _, never := range r.Coverage.Missing(scalingFaults(), nil) {
			t.Errorf("never in %d days: %s", last-first, never)
		}
	})
}

// scalingFaults returns the faults that strike in a day of managed scaling: it is too short for rows to
// expire, lists of tasks are always whole in it, and its groups follow a model of their own.
func scalingFaults() []Fault {
	return slices.DeleteFunc(generalFaults(), func(f Fault) bool { return f == LongRun || f == ListLate })
}

// scalingRegressions are seeds of managed scaling that once found a bug, and which one.
var scalingRegressions = map[uint64]string{
	154: "a running task was started again, marked lost when that was refused, and terminated with its instance",
	180: "the same after a throttled start",
	54:  "an unreported second start of a task was terminated with its instance, which loses no task",
	148: "an unregistered instance made a group without protection terminate others forever",
	190: "instances whose draining was not reported stayed DRAINING forever",
	300018: "12 instances were used where 10 hold the tasks: at its maximum the group was never packed, " +
		"because its target asked for more free instances",
	50001:  "a group was left on more instances than its tasks need",
	60018:  "a group was left on more instances than its tasks need",
	146160: "the check of instances that go forgot that a second start may outlive the row of the first",
	143710: "the check of a group at rest forgot that target tracking may have set it below what is used",
	101569: "a late call of a renewal made a target tracking policy that stayed beside the alarms",
	105637: "a late call of a renewal made a target tracking policy that stayed beside the alarms",
	100865: "the check of scale-ins forgot that a call of an abandoned invocation may cross others for a minute",
	105708: "an abandoned invocation that hung sent a call after its deadline, as no client of AWS does",
	105788: "the check of instances that go forgot that a start may take effect after a second attempt was refused",
	100156: "the check of instances that go forgot that a second start may outlive the alias of the first",
	148940: "the check of stops forgot that a clock which has jumped back sees an agent as lost",
	148868: "a change set lacked what a slow batch had committed, which its environment had read anew",
	143172: "a start that had been claimed again was recorded as refused while its second attempt ran",
	143232: "the checks of a day of scaling did not know of clocks that are off",
	143360: "the checks forgot that an announcement may be cut off several times",
	141582: "the check of scale-ins forgot that two calls may cross",
	140434: "an invocation whose time was over still set a desired capacity",
	20002:  "two decisions overlapped, and the older one's desired capacity was set last",
	20010:  "two decisions overlapped, and the older one's desired capacity was set last",
}

// TestScalingRegressions runs three of them with -short, as each takes seconds.
func TestScalingRegressions(t *testing.T) {
	t.Parallel()
	skipReplay(t)
	seeds := slices.Sorted(maps.Keys(scalingRegressions))
	if testing.Short() {
		seeds = seeds[:3]
	}
	for _, seed := range seeds {
		found := scalingRegressions[seed]
		if out := SimulateScaling(ScalingRun{Seed: seed}); len(out.Broken) > 0 {
			t.Errorf("seed %d, which once found that %s: %q", seed, found, out.Broken)
		}
	}
}
