package simulation

import (
	"strings"
	"testing"
)

// defaultMade is how many seeds of node groups that Berth makes a plain go test runs.
const defaultMade = 100

// Node groups that Berth makes work, or have failed with a reason, after calls of IAM, EC2 and Auto
// Scaling were throttled, lost their answers or had their effect late, functions died, clocks jumped, and messages
// were lost, doubled and late. When they are deleted, nothing is left but what is somebody else's.
func TestMadeNodeGroups(t *testing.T) {
	t.Parallel()
	seeds, jumped := envNumber(t, "SEEDS", seedCount(defaultMade)), 0
	for seed := range seeds {
		out := SimulateMade(seed, "")
		if len(out.Broken) > 0 {
			t.Errorf("seed %d: %q\nfaults: %q\n%s", seed, out.Broken, out.Faults, strings.Join(out.Log, "\n"))
		}
		if strings.Contains(strings.Join(out.Faults, " "), ClockJump.String()) {
			jumped++
		}
	}
	if t.Logf("a clock jumped in %d of %d runs", jumped, seeds); jumped == 0 && seeds >= 100 {
		t.Errorf("no clock jumped in %d runs", seeds)
	}
}

// Each planted bug is found by what it does.
func TestPlantedMadeBugsAreFound(t *testing.T) {
	t.Parallel()
	for bug, finding := range MadeBugs {
		t.Run(string(bug), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(200) {
				out := SimulateMade(seed, bug)
				if len(out.Broken) == 0 {
					continue
				}
				if !strings.Contains(out.Broken[0], finding) {
					t.Errorf("seed %d found %q, want %q", seed, out.Broken, finding)
				}
				return
			}
			t.Error("no seed finds it")
		})
	}
}

func TestSameSeedSameMadeHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		a, b := SimulateMade(seed, ""), SimulateMade(seed, "")
		if a.Hash != b.Hash || a.Steps != b.Steps {
			t.Errorf("seed %d: %d steps to %s, then %d to %s", seed, a.Steps, a.Hash, b.Steps, b.Hash)
		}
	}
}
