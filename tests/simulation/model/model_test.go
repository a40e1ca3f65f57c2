package model

import (
	"strings"
	"testing"
	"time"
)

// The examples are those of the documentation.

func TestPercentages(t *testing.T) {
	for _, x := range []struct{ desired, min, max, floor, ceiling int }{
		{2, 75, 200, 2, 4}, {3, 100, 125, 3, 3}, {4, 50, 200, 2, 8}, {4, 100, 200, 4, 8}, {1, 50, 150, 1, 1},
		{0, 100, 200, 0, 0}, {3, 34, 134, 2, 4},
	} {
		s := Service{MinHealthy: x.min, MaxPercent: x.max}
		if f, c := s.Floor(x.desired), s.Ceiling(x.desired); f != x.floor || c != x.ceiling {
			t.Errorf("%d tasks at %d%% to %d%%: %d to %d, expected %d to %d", x.desired, x.min, x.max, f, c, x.floor,
				x.ceiling)
		}
	}
	if !(Service{MinHealthy: 75, MaxPercent: 125}).IsStuck(2) ||
		(Service{MinHealthy: 75, MaxPercent: 150}).IsStuck(2) ||
		(Service{MinHealthy: 100, MaxPercent: 100}).IsStuck(0) {
		t.Error("whether percentages leave a step")
	}
}

func TestThreshold(t *testing.T) {
	for _, x := range []struct {
		b             Breaker
		desired, want int
	}{
		{Breaker{}, 1, 3}, {Breaker{}, 25, 13}, {Breaker{}, 400, 200}, {Breaker{}, 1000, 200},
		{Breaker{Type: "COUNT", Value: 7}, 1, 7}, {Breaker{Type: "BOUNDED_PERCENT", Value: 10}, 100, 10},
		{Breaker{Type: "BOUNDED_PERCENT", Value: 10}, 5, 3}, {Breaker{Type: "UNBOUNDED_PERCENT", Value: 10}, 5, 1},
		{Breaker{Type: "UNBOUNDED_PERCENT", Value: 100}, 400, 400},
	} {
		if got := x.b.Threshold(x.desired); got != x.want {
			t.Errorf("%+v of %d tasks: %d, expected %d", x.b, x.desired, got, x.want)
		}
	}
}

func TestHealth(t *testing.T) {
	now := time.Unix(1000, 0)
	ran := func(d time.Duration, t Task) Task {
		t.Running, t.RunningSince = true, now.Add(-d)
		return t
	}
	for name, x := range map[string]struct {
		task          Task
		healthy, sick bool
	}{
		"Starting":         {Task{}, false, false},
		"UncheckedYoung":   {ran(39*time.Second, Task{}), false, false},
		"Unchecked":        {ran(40*time.Second, Task{}), true, false},
		"CheckedUnknown":   {ran(time.Hour, Task{Checked: true}), false, false},
		"CheckedHealthy":   {ran(time.Second, Task{Checked: true, Container: Healthy}), true, false},
		"CheckedUnhealthy": {ran(time.Hour, Task{Checked: true, Container: Unhealthy}), false, true},
		"UnhealthyInGrace": {ran(59*time.Second, Task{Checked: true, Container: Unhealthy}), false, false},
		"TargetUnhealthy": {ran(time.Hour, Task{Checked: true, Container: Healthy, Balanced: true,
			Target: Unhealthy}), false, true},
		"TargetUnknown": {ran(time.Hour, Task{Balanced: true}), false, false},
		"TargetAndCheckedHealthy": {ran(time.Hour, Task{Checked: true, Container: Healthy, Balanced: true,
			Target: Healthy}), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := Service{Grace: time.Minute}
			if h, u := x.task.IsHealthy(now), x.task.IsUnhealthy(s, now); h != x.healthy || u != x.sick {
				t.Errorf("healthy %t, unhealthy %t", h, u)
			}
		})
	}
}

func TestSurplus(t *testing.T) {
	now := time.Unix(1000, 0)
	s := Service{Desired: 4, MinHealthy: 100, MaxPercent: 150}
	bad := Task{Revision: "b", Running: true, Checked: true, Container: Unhealthy}
	old, well := Task{Revision: "a"}, Task{Revision: "b"}
	for name, x := range map[string]struct {
		tasks    []Task
		believed bool
		want     int
	}{
		"NothingToReplace":   {[]Task{well, well, well, well}, true, 0},
		"OneUnhealthy":       {[]Task{well, well, well, bad}, true, 1},
		"NotBelieved":        {[]Task{well, well, well, bad}, false, 0},
		"DeploymentUpToMost": {[]Task{old, old, old, old}, true, 2},
		"Leaving":            {[]Task{well, {Revision: "b", MustLeave: true}}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s.AllowedSurplus(x.tasks, "b", x.believed, now); got != x.want {
				t.Errorf("%d, expected %d", got, x.want)
			}
		})
	}
}

func TestDeploymentHistory(t *testing.T) {
	s := Service{Name: "web", Desired: 1, MinHealthy: 100, MaxPercent: 200,
		Breaker: Breaker{Enable: true, Rollback: true}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c := StartHistory("1", RunHealthy)
	must(c.Complete())
	must(c.Begin("2", NeverRun))
	target, err := c.Fail(s, ByBreaker, false)
	must(err)
	if target != "1" || c.Primary.ID != "1" || c.Primary.State != InProgress || c.Release != "ROLLBACK_IN_PROGRESS" ||
		c.Older[0].State != Failed {
		t.Errorf("rolled back to %q: %+v", target, c)
	}
	// While it is in progress it is no target.
	again := *c
	if target, err := again.Fail(s, ByBreaker, false); target != "" || err != nil ||
		again.Release != "ROLLBACK_FAILED" {
		t.Errorf("a rollback that fails goes to %q, %v, %s", target, err, again.Release)
	}
	must(c.Complete())
	if c.Release != "ROLLBACK_SUCCESSFUL" || len(c.Older) != 0 || c.Complete() == nil {
		t.Errorf("completed: %+v", c)
	}
	must(c.Begin("3", RunHealthy))
	must(c.Begin("4", RunHealthy)) // 3 was never completed
	if target, err := c.Fail(s, ByRequest, false); target != "1" || err != nil {
		t.Errorf("stopped by request it goes to %q, %v", target, err)
	}
	if c.Begin("2", RunHealthy) == nil {
		t.Error("an id came twice")
	}
	stalled := StartHistory("1", NeverRun)
	if target, err := stalled.Fail(s, ByBreaker, false); target != "" || err != nil || stalled.Primary.State != Failed {
		t.Errorf("with nothing to go back to it goes to %q, %v, %+v", target, err, stalled)
	}
	if _, err := StartHistory("1", RunHealthy).Fail(Service{}, ByBreaker, false); err == nil {
		t.Error("a circuit breaker that is off tripped")
	}
}

func TestCheckAtRest(t *testing.T) {
	s := Service{Name: "web", Desired: 2, MinHealthy: 100, MaxPercent: 200}
	done := StartHistory("1", RunHealthy)
	if err := done.Complete(); err != nil {
		t.Fatal(err)
	}
	well := func(revision string) Task { return Task{Revision: revision, Running: true} }
	seen := Observed{Status: "ACTIVE", Deployments: []string{"1"}, State: Completed, Release: "SUCCESSFUL", Desired: 2,
		Tasks: []Task{well("1"), well("1")}}
	rolling := StartHistory("1", RunHealthy)
	if err := rolling.Begin("2", RunHealthy); err != nil {
		t.Fatal(err)
	}
	open := Surroundings{HasRoom: true, TrustsHealth: true}
	for name, x := range map[string]struct {
		service func(*Service)
		course  *DeploymentHistory
		around  Surroundings
		change  func(*Observed)
		want    string // part of what is wrong; empty for nothing
	}{
		"Well": {course: done, around: open},
		"Short": {course: done, around: open, change: func(o *Observed) { o.Tasks = o.Tasks[:1] },
			want: "1 tasks of 2"},
		"NoRoom": {course: done, change: func(o *Observed) { o.Tasks, o.Explained = o.Tasks[:1], true }},
		"Untold": {course: done, change: func(o *Observed) { o.Tasks = o.Tasks[:1] }, want: "says nothing"},
		"TooMany": {course: done, around: open, change: func(o *Observed) { o.Tasks = append(o.Tasks, well("1")) },
			want: "3 tasks, and wants 2"},
		"Unrolled": {course: rolling, around: open, want: "it should be 2"},
		"LeftOver": {course: rolling, around: open, change: func(o *Observed) {
			o.Deployments = []string{"2",
				"1"}
			o.Tasks[0] = well("2")
		}, want: "1 tasks of earlier revisions"},
		"Protected": {course: rolling, around: open, change: func(o *Observed) { *o = protectedRest() }},
		"Draining": {course: done, around: open, change: func(o *Observed) { o.Tasks[0].MustLeave = true },
			want: "instances that drain"},
		"Stuck": {
			service: func(s *Service) { s.MaxPercent = 100 }, course: done, around: open,
			change: func(o *Observed) { o.Tasks[0].MustLeave, o.Explained = true, true },
		},
		"Zones": {course: done, around: Surroundings{HasRoom: true, Zones: map[string]bool{"a": true, "b": true}},
			change: func(o *Observed) { o.ByZone = map[string]int{"a": 2} }, want: "zones"},
		"Deleted": {
			service: func(s *Service) { s.Deleted = true }, course: done, around: open, want: "was deleted",
		},
		"Untripped": {
			service: func(s *Service) { s.Breaker.Enable = true }, course: StartHistory("1", NeverRun), around: open,
			change: func(o *Observed) { o.State, o.Release, o.Tasks = InProgress, InProgress, nil },
			want:   "circuit breaker is on",
		},
	} {
		t.Run(name, func(t *testing.T) {
			is, o := s, seen
			o.Tasks = append([]Task{}, seen.Tasks...)
			if x.service != nil {
				x.service(&is)
			}
			if x.change != nil {
				x.change(&o)
			}
			wrong := strings.Join(is.CheckAtRest(x.course, x.around, o), "; ")
			if x.want == "" && wrong != "" || !strings.Contains(wrong, x.want) {
				t.Errorf("wrong is %q, expected %q", wrong, x.want)
			}
		})
	}
}

// protectedRest is a deployment that waits for a task that is protected.
func protectedRest() Observed {
	return Observed{
		Status: "ACTIVE", Deployments: []string{"2", "1"}, State: InProgress, Release: InProgress, Desired: 2,
		Tasks: []Task{{Revision: "2", Running: true}, {Revision: "2", Running: true},
			{Revision: "1", Running: true, Protected: true}},
	}
}

func TestDaemons(t *testing.T) {
	s := Service{Name: "agent", Daemon: true, MaxPercent: 100}
	c := StartHistory("1", RunHealthy)
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	around := Surroundings{HasRoom: true, TrustsHealth: true, Eligible: []string{"a", "b"}, WithRoom: []string{"a"},
		KeepingTask: []string{"d"}}
	for want, on := range map[string][]string{"": {"a", "d"}, "no task on instance a": {"b"},
		"2 tasks on instance a": {"a", "a"}, "on instance c": {"a", "c"}} {
		wrong := strings.Join(s.CheckAtRest(c, around,
			Observed{Status: "ACTIVE", Deployments: []string{"1"}, State: Completed, Release: "SUCCESSFUL",
				InstanceOf: on}), "; ")
		if want == "" && wrong != "" || !strings.Contains(wrong, want) {
			t.Errorf("on %v wrong is %q, expected %q", on, wrong, want)
		}
	}
}

func TestBackoffDelay(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 0, 1: time.Minute, 2: 3 * time.Minute, 3: 9 * time.Minute,
		4: 27 * time.Minute, 50: 27 * time.Minute} {
		if got := BackoffDelay(failures); got != want {
			t.Errorf("after %d failures %s, expected %s", failures, got, want)
		}
	}
}

func TestNextStartWindow(t *testing.T) {
	zero := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes float64) time.Time { return zero.Add(time.Duration(minutes * float64(time.Minute))) }
	failed := func(began, ended float64) StartAttempt { return StartAttempt{PlacedAt: at(began), EndedAt: at(ended)} }
	for name, x := range map[string]struct {
		tries            []StartAttempt
		earliest, latest time.Time
	}{
		"Nothing":  {},
		"Once":     {[]StartAttempt{failed(0, 1)}, at(1.9), at(2.1)},
		"Twice":    {[]StartAttempt{failed(0, 1), failed(2, 3)}, at(5.7), at(6.3)},
		"Together": {[]StartAttempt{failed(0, 1), failed(0, 1.5)}, at(1.9), at(2.1)},
		"AtMost": {[]StartAttempt{failed(0, 1), failed(2, 3), failed(7, 8), failed(20, 21)}, at(21 + 24.3),
			at(48)},
		"Ran": {tries: []StartAttempt{failed(0, 1), {EndedAt: at(3), Ran: true}}},
		"FailedAgain": {[]StartAttempt{failed(0, 1), failed(2, 3), {EndedAt: at(7), Ran: true}, failed(8, 9)}, at(9.9),
			at(10.1)},
	} {
		if earliest, latest := NextStartWindow(x.tries); !earliest.Equal(x.earliest) || !latest.Equal(x.latest) {
			t.Errorf("%s: held from %s to %s, expected %s to %s", name, earliest, latest, x.earliest, x.latest)
		}
	}
}
