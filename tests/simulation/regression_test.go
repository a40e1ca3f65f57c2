package simulation

import "testing"

// regressions are seeds that once found a bug, and which. They find it again where the mistake is made again, as long as
// the table of faults and that of actions give the same runs: whoever changes those looks for new seeds.
var regressions = []struct {
	seed  uint64
	found string
}{
	{31, "an exchange stopped a task first whose successor went back where it came from, for ever"},
	{87, "a RunTask that waited lost its constraints"},
	{215, "tasks about to go from an instance without a limit made it look overfull, so that all were moved"},
	{373, "a replacement that was no longer one, as more tasks were wanted, held up all further moves"},
	{684, "a task that was being replaced still counted in its domains"},
	{760, "a task was started where a plan had it whose first half had failed"},
}

func TestRegressions(t *testing.T) {
	if replaying() {
		t.Skip("one seed is being replayed")
	}
	for _, r := range regressions {
		if out := Simulate(Run{Seed: r.seed}); len(out.Broken) > 0 {
			t.Errorf("seed %d, which once found that %s:\n%s", r.seed, r.found, Report(Run{Seed: r.seed}, out))
		}
	}
}
