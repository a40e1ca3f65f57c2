package simulation

import (
	"testing"
)

// A regression is a seed that once found a bug.
type regression struct {
	seed  uint64
	found string
	alone bool // with Run.LoseEvents
	extra bool // with the actions of [drawExtras] and [drawTaskSets]
}

// regressions are seeds that once found a bug, and which one. They find it again if the mistake is
// made again, as long as the tables of faults and actions give the same runs. If you change those
// tables, search for new seeds.
var regressions = []regression{
	{804927, "a replacement that became a task of its own and was to stop in the same decision went on", false, false},
	{654, "a DAEMON was started by present constraints and stopped by those of its deployment, forever", false, false},
	{6365, "a second plan, which left out what the first could not begin, was undone by the next, forever", false,
		false},
	{1346, "the alias of a running task expired because a second start of it had ended: its reports became a foreign task", false, false},
	{652, "zones were rebalanced for a service whose scoring comes before zones", false, false},
	{16, "zones were reported as being rebalanced forever, for a service whose scoring comes before zones", false,
		false},
	{35, "a waiting task was placed beyond the ceiling, after the desired count had been lowered", false, false},
	{216, "dispatch died, and a target whose address was known was never registered", false, false},
	{233, "a deployment took a step only at each sweep", false, false},
	{370, "zones were not balanced when an instance became ACTIVE again", false, false},
	{368, "an eventually consistent read missed an instance, and a target was never registered", false, false},
	{465, "a task that had replaced another was never moved again", false, false},
	{61, "an older revision that kept failing took the only room, for which the new one waited", true, false},
	{1493, "protected tasks were moved", false, false},
	{1597, "tasks stayed uneven over their domains after a deployment", false, false},
	{663, "no task moved while most of the cluster looked unhealthy, nor to an instance with another task of the service", false, false},
	{1065, "an older revision that never worked was started forever, because the new one found no room", false, false},
	{1879, "a surplus task stopped with its health as the reason, although checks were distrusted", false, false},
	{1880, "a DAEMON that fits nowhere kept zones from being balanced", false, false},
	{2123, "no task moved to an instance that violates an ignored constraint", false, false},
	{2526, "zones were not balanced after the configuration lost its domain policy", false, false},
	{5384, "a task was stopped to make room, and after a change of rules the next one used the buffer", false, false},
	{7123, "that a task uses a buffer was emitted only by the next sweep", false, false},
	{7843, "a DAEMON that failed on one instance waited for room on another, although a third had room", false, false},
	{8758, "room was reserved for a DAEMON's failed deployment", false, false},
	{4268, "the circuit breaker of a DAEMON counted earlier instances", false, false},
	{4602, "a move that a service's percentages never allow blocked another's", false, false},
	{4615, "so did a swap that needs one", false, false},
	{7954, "dispatch hung and registered a task that had been deregistered meanwhile", false, false},
	{3098, "with ignored constraints, moves counted the domains of matching instances, and placement those of all",
		false, false},
	{1156, "a move began before another of the same service that frees its fault domain", false, true},
	{2116, "two tasks were placed so that a violated fault domain rule stayed violated, although other instances satisfied it", false, true},
	{6065, "a rollback started tasks by the strategy of the failed deployment", false, true},
	{189, "room was reserved for a DAEMON's earlier revision, which is not started there", true, true},
	{335, "a DAEMON's older revision that never worked was started forever after the new one had failed", true, false},
	{583, "the same for an older revision whose tasks ran and never became healthy", false, false},
	{1275, "zones were not balanced because the capacity provider of one task in the fullest zone had no room elsewhere", false, true},
	{1751, "tasks that could not start at their destination were moved again and again, at once", false, true},
	{201250, "zones were not balanced because a blocked service needs more of a metric than any instance has", false,
		true},
	{201351, "the client made an instance ACTIVE that EC2 was about to interrupt, and the check expected it to drain",
		false, true},
	{203194, "a deleted task set stayed because the record of its deletion was given up", false, true},
	{449, "scaled in after its deployment had been stopped, a service kept more than maximumPercent", false, true},
	{400987, "zones were balanced into the buffer of an instance, against a soft capacity", false, true},
	{401427, "zones took the room that a repair had freed for its next step, and the repair freed it again, forever", false,
		true},
	{400071, "the check of quick restarts counted the replacement of an unhealthy task against the one that waits",
		false, true},
	{501850, "the check of a cluster at rest forgot that a protection's row expires, and that the service is reconciled then", false, true},
	{502051, "tasks that waited for room made the service report that protected tasks should stop", false, true},
	{502627, "the check of moves forgot that a resized instance may hold more memory than it has", false, true},
	{504813, "with criteria for early success, a task and the replacement that it stopped for counted as two", false, true},
	{400991, "the check of buffers forgot that a move may make room for a task that waits", false, true},
}

// taintRegressions are those found since the seeds of services draw taints and tolerations.
var taintRegressions = []regression{
	{505401, "a service whose replacements waited for room was steady, but only at the next sweep", false, true},
}

// wholeRegressions are those found since, with all that seeds draw today.
var wholeRegressions = []struct {
	run   Run
	found string
}{
	{Run{Seed: 100218}, "moves made room for one that could not begin, and zones were balanced by moving the tasks back, forever"},
	{Run{Seed: 100820}, "the check of stopped targets forgot that a clock which has jumped ahead waits no longer"},
	{Run{Seed: 705143, Balance: true}, "the check of repairs moved tasks of an application to where less fits than it reserves"},
	{Run{Seed: 100651, LoseEvents: true}, "the check of waiting tasks forgot what instances keep for a DAEMON service"},
	{Run{Seed: 100220, LoseEvents: true}, "a repeated request was judged by the answer of another"},
	{Run{Seed: 161893}, "the row of a stopped task's targets was deleted as it had been read, and what was registered " +
		"meanwhile stayed"},
	{Run{Seed: 165129}, "no task moved while one that had to try again waited, and only a move would have let it start"},
	{Run{Seed: 166806}, "a service of task sets that lacked capacity of a metric kept the zones of others from being " +
		"balanced, forever"},
	{Run{Seed: 171386}, "zones waited forever for moves that make room for a blocked service, where none could"},
	{Run{Seed: 181615}, "the check of prompt starts forgot an attempt on an instance whose agent is disconnected"},
	{Run{Seed: 162334}, "the check of moves knew that another task had ended before placement could"},
	{Run{Seed: 30365, Balance: true}, "the check of a task set's room forgot that domain rules count the tasks of all sets"},
	{Run{Seed: 41392, Balance: true}, "an older deployment started a task in the place of one that had to go, " +
		"and the next look stopped it"},
	{Run{Seed: 41991, Balance: true}, "the check of distrusted health forgot the tasks that the same decision stopped"},
	{Run{Seed: 110928}, "zones waited forever for the moves of a service whose deployment has failed"},
	{Run{Seed: 150274, Balance: true}, "the check of moves knew that a task had ended before placement could"},
	{Run{Seed: 141001, Balance: true}, "an older deployment started a task that the next look stopped to make room"},
	{Run{Seed: 141847, Balance: true}, "an unhealthy task that was not trusted to be one was replaced beside a lost one"},
	{Run{Seed: 140025, Balance: true}, "the check of applications gave a task that moves the load of a new one"},
	{Run{Seed: 111764}, "the check of stopped tasks forgot that their targets had just become healthy"},
	{Run{Seed: 108242, LoseEvents: true}, "without events, a deployment of eight tasks with room for one more " +
		"took longer than the check waited"},
	{Run{Seed: 108554, LoseEvents: true}, "for the rules of domains, moves counted one that tasks of others had closed, " +
		"and placement did not"},
	{Run{Seed: 108565, LoseEvents: true}, "an instance stayed overloaded by two services, because the deployment of " +
		"one found no room and only its task was planned to move"},
}

func TestRegressions(t *testing.T) {
	t.Parallel()
	skipReplay(t)
	for _, r := range wholeRegressions {
		if out := Simulate(r.run); len(out.Broken) > 0 {
			t.Errorf("seed %d, which once found that %s:\n%s", r.run.Seed, r.found, Report(r.run, out))
		}
	}
	for _, r := range regressions {
		r.simulate(t, false)
	}
	for _, r := range taintRegressions {
		r.simulate(t, true)
	}
}

func (r regression) simulate(t *testing.T, taints bool) {
	t.Helper()
	run := Run{Seed: r.seed, LoseEvents: r.alone, NoExtras: !r.extra, NoTaints: !taints, NoApplications: true,
		DisabledFaults: []Fault{ClockJump}} // added later
	if out := Simulate(run); len(out.Broken) > 0 {
		t.Errorf("seed %d, which once found that %s:\n%s", r.seed, r.found, Report(run, out))
	}
}
