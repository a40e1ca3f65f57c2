package simulation

import (
	"os"
	"strings"
	"testing"
)

// defaultMade is how many seeds of node groups that Berth makes a plain go test runs.
const defaultMade = 100

func TestMadeNodeGroups(t *testing.T) {
	t.Parallel()
	first, last := seedRange(t)
	if many := envNumber(t, "SEEDS", seedCount(defaultMade)); !isReplaying() {
		last = first + many
	}
	r := RunSeeds(first, last, func(seed uint64) Outcome { return SimulateMade(seed, "") }, os.Stderr)
	logReplay(t, r.Outcome)
	if r.Failed {
		t.Fatalf("seed %d: %q; SEED=%[1]d go test -run TestMadeNodeGroups -v ./tests/simulation shows it", r.Seed,
			r.Outcome.Broken)
	}
	t.Run("ClocksJump", func(t *testing.T) {
		skipUnlessCovering(t, first, last, defaultMade)
		if jumped := r.Coverage.Hits[ClockJump]; jumped == 0 {
			t.Errorf("no clock jumped in %d runs", last-first)
		}
	})
}

// madeRegressions are seeds that once found a bug, as [regressions] are.
var madeRegressions = map[uint64]string{
	1128:   "a call of an earlier change of labels arrived after the last one's, and nodes got the labels of before",
	2602:   "a call of an earlier change of labels arrived after the last one's, and nodes got the labels of before",
	100433: "an invocation that had been suspended made an instance profile when its node group could be forgotten",
	100665: "a call of an earlier change arrived late, and an update replaced the nodes that it gave forever",
	2336:   "the check of images forgot that the launch template version of a failed update stays if nodes of it are Ready",
}

func TestMadeRegressions(t *testing.T) {
	t.Parallel()
	skipReplay(t)
	for seed, found := range madeRegressions {
		if out := SimulateMade(seed, ""); len(out.Broken) > 0 {
			t.Errorf("seed %d, which once found that %s: %q", seed, found, out.Broken)
		}
	}
}

// Each planted bug is found by what it does.
func TestPlantedMadeBugsAreFound(t *testing.T) {
	t.Parallel()
	skipReplay(t)
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
	skipReplay(t)
	for seed := range uint64(4) {
		a, b := SimulateMade(seed, ""), SimulateMade(seed, "")
		if a.Hash != b.Hash || a.Steps != b.Steps {
			t.Errorf("seed %d: %d steps to %s, then %d to %s", seed, a.Steps, a.Hash, b.Steps, b.Hash)
		}
	}
}
