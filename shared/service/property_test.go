package service_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/service"
)

// counts is the rule by which a task counts for its service, said once more: RUNNING wanted, not STOPPING, not
// STOPPED, its instance still there.
func counts(in service.Input, t *cluster.Task) bool {
	return t.Desired == cluster.TaskRunning && t.Last != cluster.TaskStopping && t.Last != cluster.TaskStopped &&
		(t.Instance == "" || !in.Gone(t.Instance))
}

func number(in service.Input, of func(*cluster.Task) bool) int {
	n := 0
	for _, t := range in.Tasks {
		if of(t) {
			n++
		}
	}
	return n
}

func active(in service.Input) int {
	return number(in, func(t *cluster.Task) bool { return counts(in, t) })
}

func healthy(in service.Input) int {
	return number(in, func(t *cluster.Task) bool {
		return counts(in, t) && t.Last == cluster.TaskRunning && t.Health != cluster.Unhealthy
	})
}

func desired(in service.Input) int {
	switch {
	case in.Service.Status != cluster.ServiceActive:
		return 0
	case in.Service.Strategy == cluster.Daemon:
		return len(in.Eligible)
	}
	return in.Service.Desired
}

// A plan carried out leaves nothing to plan, but for what has to wait for its time or for a predecessor to stop.
func TestReconcileTwicePlansNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		first := service.Reconcile(in)
		second := service.Reconcile(apply(in, first))
		if says(second) != "" || second.Status != first.Status {
			t.Fatalf("after %q (%s) still %q (%s)", says(first), first.Status, says(second), second.Status)
		}
	})
}

func TestReconcileIgnoresTheOrderOfRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		mixed := in
		mixed.Tasks = rapid.Permutation(in.Tasks).Draw(t, "order")
		before := slices.Clone(mixed.Tasks)
		if diff := cmp.Diff(service.Reconcile(in), service.Reconcile(mixed)); diff != "" {
			t.Fatalf("another plan:\n%s", diff)
		}
		if !slices.Equal(before, mixed.Tasks) {
			t.Fatal("the caller's tasks were put in another order")
		}
	})
}

// Invariant 3: no start beyond floor(desired × maximumPercent), STOPPING ones not counted, and no stop that leaves
// fewer than ceil(desired × minimumHealthyPercent) healthy ones.
func TestReconcileKeepsWithinThePercentages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		p := service.Reconcile(in)
		after := apply(in, p)
		if most := desired(in) * in.Service.MaxPercent / 100; in.Service.Strategy == cluster.Replica && p.Start > 0 && active(after) > most {
			t.Fatalf("%q: %d tasks, at most %d allowed", says(p), active(after), most)
		}
		least := 0
		for least*100 < desired(in)*in.Service.MinHealthy {
			least++
		}
		if healthy(after) < healthy(in) && healthy(after) < least {
			t.Fatalf("%q: %d of %d healthy are left, %d must be", says(p), healthy(after), healthy(in), least)
		}
	})
}

// Invariant 4: a DAEMON is started only on instances that should have it and hold none, so there are never two; an
// instance without the attributes keeps none, a DRAINING one keeps what it has.
func TestReconcileGivesEachInstanceOneDaemon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		in.Service.Strategy, in.Service.Status, in.Service.MinHealthy = cluster.Daemon, cluster.ServiceActive, 0
		p := service.Reconcile(in)
		for n := range 5 {
			checkDaemon(t, in, p, fmt.Sprintf("i-%d", n))
		}
	})
}

func checkDaemon(t *rapid.T, in service.Input, p service.Plan, id string) {
	count := func(in service.Input, of func(*cluster.Task) bool) int {
		return number(in, func(t *cluster.Task) bool { return t.Instance == id && of(t) })
	}
	is := func(t *cluster.Task) bool { return counts(in, t) }
	holds := func(t *cluster.Task) bool { return t.Last != cluster.TaskStopped }
	before, after := count(in, is), count(apply(in, p), is)
	want := min(before, 1)
	switch {
	case in.Gone(id) || !in.Matches(id):
		want = 0
	case count(in, holds) == 0 && slices.Contains(in.Eligible, id) && p.NotBefore.IsZero():
		want = 1
	}
	if after != want {
		t.Fatalf("%q: %d tasks on %s, want %d", says(p), after, id, want)
	}
	if slices.Contains(p.StartOn, id) && count(in, holds) > 0 {
		t.Fatalf("%q: a second task on %s", says(p), id)
	}
}

// The replica plan is what single steps lead to: start one while there are too few and room for one more; stop one
// while there are too many, the one by which the least is lost, as long as enough healthy ones are left. (Of replacements
// on other instances these steps know nothing.)
func TestReconcileIsAsStepByStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		in.Service.Strategy, in.RestartDelay = cluster.Replica, 0
		for _, t := range in.Tasks {
			t.Replaces = ""
		}
		p := service.Reconcile(in)
		have, want := active(in), desired(in)
		start := 0
		for have+start < want && have+start+1 <= want*in.Service.MaxPercent/100 {
			start++
		}
		if start != p.Start {
			t.Fatalf("starts %d, step by step %d", p.Start, start)
		}
		kinds := func(of []*cluster.Task) (n [4]int) {
			for _, t := range of {
				n[kind(t)]++
			}
			return n
		}
		stops := append(slices.Clone(p.Stop), p.Candidates[:p.Surplus]...)
		if got, want := kinds(stops), steps(in, have-want); got != want {
			t.Fatalf("%q stops %v (waiting, pending, unhealthy, healthy), step by step %v", says(p), got, want)
		}
		if p.Surplus >= len(p.Candidates) && len(p.Candidates) > 0 {
			t.Fatalf("%q leaves no choice", says(p))
		}
	})
}

func kind(t *cluster.Task) int {
	switch {
	case t.Instance == "":
		return 0
	case t.Last != cluster.TaskRunning:
		return 1
	case t.Health == cluster.Unhealthy:
		return 2
	}
	return 3
}

// steps stops n tasks one by one and says how many of each kind.
func steps(in service.Input, n int) (stopped [4]int) {
	var rest [4]int
	for _, t := range in.Tasks {
		if counts(in, t) {
			rest[kind(t)]++
		}
	}
	for ; n > 0; n-- {
		k := slices.IndexFunc(rest[:], func(left int) bool { return left > 0 })
		if k == 3 && (rest[3]-1)*100 < desired(in)*in.Service.MinHealthy {
			break
		}
		rest[k]--
		stopped[k]++
	}
	return stopped
}

// Whatever happened before, once tasks that are started come up and those that are stopped go, a few rounds bring the
// service to its count and leave it there (invariant 8).
func TestReconcileConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		in.Service.MinHealthy = min(in.Service.MinHealthy, 100) // above, a surplus may have to stay
		for range 6 {
			in = settle(apply(in, service.Reconcile(in)))
		}
		p := service.Reconcile(in)
		if says(p) != "" || p.Pending > 0 {
			t.Fatalf("still %q, %d pending", says(p), p.Pending)
		}
		draining := number(in, func(t *cluster.Task) bool {
			return counts(in, t) && in.Service.Strategy == cluster.Daemon && !slices.Contains(in.Eligible, t.Instance)
		})
		if p.Running-draining != desired(in) {
			t.Fatalf("%d running, %d desired", p.Running, desired(in))
		}
		if p.Steady != (in.Service.Status == cluster.ServiceActive) || p.Status == cluster.ServiceDraining {
			t.Fatalf("steady %v, status %s", p.Steady, p.Status)
		}
	})
}

// settle lets a minute pass: what waits finds an instance, what is PENDING runs, what is stopped or ECS stops is gone, the
// unhealthy recover.
func settle(in service.Input) service.Input {
	in.Now = in.Now.Add(time.Minute)
	for _, t := range in.Tasks {
		switch {
		case t.Last == cluster.TaskStopped:
		case t.Desired == cluster.TaskStopped || t.Last == cluster.TaskStopping:
			t.Last, t.Stopped = cluster.TaskStopped, cluster.At(in.Now.Add(-time.Second))
			t.Started = cluster.At(in.Now.Add(-time.Minute))
		default:
			if t.Instance == "" {
				t.Instance = "i-8"
			}
			t.Last, t.Health, t.Started = cluster.TaskRunning, cluster.UnknownHealth, cluster.At(in.Now)
		}
	}
	return in
}
