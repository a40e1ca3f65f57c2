package simulation

import "testing"

// regressions are seeds that once found a bug, and which. They find it again where the mistake is made again, as long as
// the table of faults and that of actions give the same runs: whoever changes those looks for new seeds.
var regressions = []struct {
	seed  uint64
	found string
	alone bool // the sweep alone found out what happened
	extra bool // with its [extras]
}{
	{654, "a DAEMON was started by today's constraints and stopped by its deployment's, for ever", false, false},
	{6365, "a second plan, without what the first could not begin, was undone by the next, for ever", false, false},
	{1346, "the alias of a task that runs was retired as a second start of it had ended: its reports became a foreign task", false, false},
	{652, "zones were rebalanced of a service whose scoring goes before zones", false, false},
	{16, "zones were said to be rebalanced for ever, of a service whose scoring goes before zones", false, false},
	{35, "a waiting task was placed beyond the ceiling, after the desired count had been lowered", false, false},
	{216, "a dispatch that died left a target located and never registered", false, false},
	{233, "a deployment took a step only when the sweep looked", false, false},
	{370, "zones were not balanced when an instance became ACTIVE again", false, false},
	{368, "a cheap read that missed an instance ended a registration for good", false, false},
	{465, "a task that had come for another was never moved again", false, false},
	{61, "an older revision that kept failing took the only room again and again that the new one waited for", true, false},
	{1493, "protected tasks were moved", false, false},
	{1597, "tasks stayed uneven over their domains after a deployment", false, false},
	{663, "none moved while most of the cluster looked unhealthy, nor to where another of the service was", false, false},
	{1065, "an older revision that never worked was started for ever, as the new one found no room", false, false},
	{1879, "what was too many was said to go for its health, which was not believed", false, false},
	{1880, "a DAEMON that fits nowhere kept zones from being balanced", false, false},
	{2123, "none moved to where a constraint does not hold that is ignored", false, false},
	{2526, "zones were not balanced once the configuration had no domain policy", false, false},
	{5384, "the instance that a task was stopped for took the next into its buffer, after the rules had changed", false, false},
	{7123, "a task that was placed in a buffer was told of by the next sweep only", false, false},
	{7843, "a DAEMON that failed on one instance waited for room on another, though a third had some", false, false},
	{8758, "room was kept free for the tasks of a DAEMON's deployment that had failed", false, false},
	{4268, "the circuit breaker of a DAEMON took the instances that there were before", false, false},
	{4602, "a move that a service's percentages never allow stood in the way of another's", false, false},
	{4615, "so did an exchange that needs one", false, false},
	{7954, "a dispatch that hung registered a task that had been taken out meanwhile", false, false},
	{3098, "where constraints were ignored, a move went by the domains of those that meet them, and placing by all there are", false, false},
	{1156, "a move was begun before the one of the same service that made way in its fault domain", false, true},
	{2116, "two tasks were placed so that a fault domain rule which was broken stayed so, where others would have kept it", false, true},
	{6065, "a rollback started tasks by the strategy of what had failed", false, true},
	{189, "room was kept free for a DAEMON's earlier revision where it is not started", true, true},
	{335, "a DAEMON's older revision that never worked was started for ever, once the new one had failed", true, false},
	{583, "the same of an older revision whose tasks came to run and never to be healthy", false, false},
	{1275, "zones were not balanced, as the capacity provider of one task of the richest had no room elsewhere", false, true},
	{1751, "tasks were moved again and again, at once, that could not start where they went", false, true},
	{449, "scaled in after its deployment had been stopped, a service kept more than maximumPercent", false, true},
}

func TestRegressions(t *testing.T) {
	if isReplaying() {
		t.Skip("one seed is being replayed")
	}
	for _, r := range regressions {
		run := Run{Seed: r.seed, LoseEvents: r.alone, NoExtras: !r.extra}
		if out := Simulate(run); len(out.Broken) > 0 {
			t.Errorf("seed %d, which once found that %s:\n%s", r.seed, r.found, Report(run, out))
		}
	}
}
