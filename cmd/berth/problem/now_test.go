package problem_test

import (
	"slices"
	"strings"
	"testing"

	"berth/cmd/berth/problem"
	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// findIn returns the problem of a service in a snapshot.
func findIn(t *testing.T, w *world, snap *snapshot.Snapshot, service string) problem.Problem {
	t.Helper()
	w.input.Snapshot = snap
	found := problem.Find(w.input)
	at := slices.IndexFunc(found, func(p problem.Problem) bool { return p.Name == service })
	if at < 0 {
		t.Fatalf("service %s has no problem: %+v", service, found)
	}
	return found[at]
}

// block gives a service the diagnosis of an earlier attempt.
func block(snap *snapshot.Snapshot, service string, d cluster.Diagnosis) {
	next := *snap.Services[service]
	next.Rev, next.Blocked, next.BlockedSince = next.Rev+1, &d, noon
	snap.Put(&next)
}

func commandsOf(p problem.Problem) (out []string) {
	for _, h := range p.Help {
		out = append(out, h.Command)
	}
	return out
}

// Placement tries a blocked service again only when something changes that could help. What is said
// of it is what holds now, not what held at the last attempt.
func TestBlockedServiceIsDiagnosedAnew(t *testing.T) {
	w := newWorld()
	w.service("web", 1)
	snap := w.snapshot(t)
	block(snap, "web", cluster.Diagnosis{Unplaced: 1})
	if got := findIn(t, w, snap, "web"); got.Why != "The cluster has no instance." {
		t.Fatalf("without an instance: %q", got.Why)
	}
	tooSmall := w.instance(1)
	tooSmall.Registered.Memory = 300
	snap.Put(tooSmall)
	const want = "0 of 1 instance can take one: 1 insufficient memory (needs 512 MiB, best free 300)."
	if got := findIn(t, w, snap, "web"); !strings.HasPrefix(got.Why, want) {
		t.Errorf("with one that is too small: %q, want %q", got.Why, want)
	}
	// Placement tries at once if one is large enough: until then, the last attempt is all there is.
	enough := w.instance(2)
	snap.Put(enough)
	if got := findIn(t, w, snap, "web"); got.Why != "When placement last tried: The cluster has no instance." {
		t.Errorf("with one that is large enough: %q", got.Why)
	}
}

// Room that is kept for a DAEMON service is free for no other: the cause is named on both sides, and
// the DAEMON service gets what makes room for it.
func TestRoomThatIsKeptForADaemon(t *testing.T) {
	w := newWorld()
	w.instance(1)
	w.instance(2, func(i *cluster.Instance) { i.Attributes["rack"] = "r2" }) // the daemon does not belong there
	w.service("filler", 5)
	for k := range 3 {
		w.task("filler", 1+k, "n-1")
	}
	for k := range 4 {
		w.task("filler", 4+k, "n-2")
	}
	w.service("agent", 1, func(s *cluster.Service) {
		s.Strategy, s.MinHealthy, s.MaxPercent = cluster.Daemon, 0, 100
		s.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:rack == r1"}}
	})
	w.rows[len(w.rows)-1].(*cluster.TaskDefinition).Needs.Memory = 600
	w.service("web", 1)
	snap := w.snapshot(t)
	block(snap, "web", cluster.Diagnosis{Evaluated: 2, Unplaced: 1})
	web := findIn(t, w, snap, "web")
	for _, want := range []string{"0 of 2 instances can take one: ", "best free 0",
		" 1 instance would have room, but it is kept for DAEMON service agent, which does not run there yet."} {
		if !strings.Contains(web.Why, want) {
			t.Errorf("no %q in %q", want, web.Why)
		}
	}
	agent := findIn(t, w, snap, "agent")
	if want := " Tasks of service filler hold 768 CPU units and 1536 MiB there."; !strings.Contains(agent.Why, want) {
		t.Errorf("no %q in %q", want, agent.Why)
	}
	if got := commandsOf(agent); !slices.Contains(got, "aws ecs stop-task --cluster prod --task t-1") ||
		slices.ContainsFunc(got, func(c string) bool { return strings.Contains(c, "--moves") }) {
		t.Errorf("remedies %q", got)
	}
}

// There is no room for the replacements of tasks that leave a DRAINING instance, so a service that
// asks for as many tasks as there is room for does not count those.
func TestRoomDoesNotCountTasksThatLeave(t *testing.T) {
	w := newWorld()
	w.instance(1)
	w.instance(2, func(i *cluster.Instance) { i.Status = cluster.InstanceDraining })
	w.service("web", 3, func(s *cluster.Service) {
		s.Rules.Constraints = []cluster.PlacementConstraint{{Type: cluster.DistinctInstance}}
	})
	w.task("web", 1, "n-1")
	w.task("web", 2, "n-2")
	got := findIn(t, w, w.snapshot(t), "web")
	if want := "aws ecs update-service --cluster prod --service web --desired-count 1"; !slices.Contains(commandsOf(got), want) {
		t.Errorf("remedies %q, want %q", commandsOf(got), want)
	}
}

// Room that is kept on an instance whose agent is not connected is room for nobody.
func TestRoomThatIsKeptOnADeadInstance(t *testing.T) {
	w := newWorld()
	w.instance(1, func(i *cluster.Instance) { i.AgentConnected = false })
	w.service("filler", 3)
	for k := range 3 {
		w.task("filler", 1+k, "n-1")
	}
	w.service("agent", 1, func(s *cluster.Service) { s.Strategy, s.MaxPercent = cluster.Daemon, 100 })
	w.rows[len(w.rows)-1].(*cluster.TaskDefinition).Needs.Memory = 600
	w.service("web", 1)
	snap := w.snapshot(t)
	block(snap, "web", cluster.Diagnosis{Evaluated: 1, Unplaced: 1})
	if why := findIn(t, w, snap, "web").Why; strings.Contains(why, "kept for DAEMON service") {
		t.Errorf("%q", why)
	}
}

// Often one task less does not make room for a DAEMON service: as many as do are stopped together.
func TestRoomForADaemonThatTakesSeveralStops(t *testing.T) {
	w := newWorld()
	w.instance(1)
	w.service("filler", 4)
	for k := range 4 {
		w.task("filler", 1+k, "n-1")
	}
	w.service("agent", 1, func(s *cluster.Service) { s.Strategy, s.MaxPercent = cluster.Daemon, 100 })
	w.rows[len(w.rows)-1].(*cluster.TaskDefinition).Needs.Memory = 1000
	snap := w.snapshot(t)
	block(snap, "agent", cluster.Diagnosis{Evaluated: 1, Unplaced: 1})
	want := "for task in t-1 t-2; do aws ecs stop-task --cluster prod --task $task; done"
	if got := commandsOf(findIn(t, w, snap, "agent")); !slices.Contains(got, want) {
		t.Errorf("remedies %q, want %q", got, want)
	}
}

// A standalone task can hold the room of a DAEMON service, too: it is named, since nobody would look
// for it.
func TestRoomForADaemonThatAStandaloneTaskHolds(t *testing.T) {
	standalone := func(t *cluster.Task) { t.Service, t.Owner, t.Group = "", "prod", "family:batch" }
	foreign := func(t *cluster.Task) { t.Service, t.Owner, t.Foreign = "", "foreign", true }
	for name, c := range map[string]struct {
		changes []func(*cluster.Task) // one for each task
		why     []string
		command string
	}{
		"One": {[]func(*cluster.Task){standalone},
			[]string{" Standalone task t-1 of batch:1 holds 256 CPU units and 512 MiB there."},
			"aws ecs stop-task --cluster prod --task t-1"},
		"OneThatBerthDidNotStart": {[]func(*cluster.Task){foreign},
			[]string{" Task t-1 of batch:1, which Berth did not start, holds 256 CPU units and 512 MiB there."},
			"aws ecs stop-task --cluster prod --task t-1"},
		"Several": {[]func(*cluster.Task){standalone, standalone, foreign, foreign},
			[]string{" 2 standalone tasks of batch:1 hold 512 CPU units and 1024 MiB there.",
				" 2 tasks of batch:1, which Berth did not start, hold 512 CPU units and 1024 MiB there."},
			"for task in t-1 t-2 t-3 t-4; do aws ecs stop-task --cluster prod --task $task; done"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.instance(1)
			for k, change := range c.changes {
				w.task("batch", 1+k, "n-1", change)
			}
			w.service("agent", 1, func(s *cluster.Service) { s.Strategy, s.MaxPercent = cluster.Daemon, 100 })
			w.rows[len(w.rows)-1].(*cluster.TaskDefinition).Needs.Memory = 2048
			snap := w.snapshot(t)
			block(snap, "agent", cluster.Diagnosis{Evaluated: 1, Unplaced: 1})
			got := findIn(t, w, snap, "agent")
			for _, want := range c.why {
				if !strings.Contains(got.Why, want) {
					t.Errorf("no %q in %q", want, got.Why)
				}
			}
			if !slices.Contains(commandsOf(got), c.command) {
				t.Errorf("remedies %q, want %q", commandsOf(got), c.command)
			}
		})
	}
}
