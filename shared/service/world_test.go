package service_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/service"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const delay = 10 * time.Second

func replica(desired int, options ...func(*cluster.Service)) *cluster.Service {
	s := &cluster.Service{
		Name: "web", Short: "0123456789ab", Status: cluster.ServiceActive, Strategy: cluster.Replica, Desired: desired,
		MinHealthy: 100, MaxPercent: 200, Deployment: cluster.Deployment{Revision: cluster.Revision{ID: "ecs-svc/1"}},
	}
	for _, o := range options {
		o(s)
	}
	return s
}

func daemon(options ...func(*cluster.Service)) *cluster.Service {
	s := replica(0, percent(0, 100))
	s.Strategy = cluster.Daemon
	for _, o := range options {
		o(s)
	}
	return s
}

func percent(least, most int) func(*cluster.Service) {
	return func(s *cluster.Service) { s.MinHealthy, s.MaxPercent = least, most }
}

func deleted(s *cluster.Service) { s.Status = cluster.ServiceDraining }

type taskOption func(*cluster.Task)

// task is RUNNING on an instance of the same number.
func task(id string, options ...taskOption) *cluster.Task {
	t := &cluster.Task{
		ID: id, Owner: "0123456789ab", Service: "web", Revision: "ecs-svc/1", Instance: "i-" + id[1:], Desired: cluster.TaskRunning,
		Last: cluster.TaskRunning, CreatedAt: cluster.At(noon.Add(-time.Hour)), Started: cluster.At(noon.Add(-time.Hour)),
	}
	for _, o := range options {
		o(t)
	}
	return t
}

func on(instance string) taskOption { return func(t *cluster.Task) { t.Instance = instance } }

func pending(t *cluster.Task) { t.Last, t.Started = "", 0 }

func waiting(t *cluster.Task) {
	pending(t)
	t.Instance = ""
}

func stopping(t *cluster.Task) { t.Desired = cluster.TaskStopped }

func dying(t *cluster.Task) { t.Last = cluster.TaskStopping }

func stopped(t *cluster.Task) { t.Last, t.Stopped = cluster.TaskStopped, cluster.At(noon) }

func sick(t *cluster.Task) { t.Health = cluster.Unhealthy }

// neverRan stopped so long ago without having been RUNNING.
func neverRan(ago time.Duration) taskOption {
	return func(t *cluster.Task) {
		t.Last, t.Started, t.Stopped = cluster.TaskStopped, 0, cluster.At(noon.Add(-ago))
	}
}

func replacing(id string) taskOption { return func(t *cluster.Task) { t.Replaces = id } }

func sound(t *cluster.Task) { t.Health = cluster.Healthy }

func older(t *cluster.Task) { t.CreatedAt = cluster.At(t.CreatedAt.Time().Add(-time.Hour)) }

func input(s *cluster.Service, tasks ...*cluster.Task) service.Input {
	return service.Input{Service: s, Tasks: tasks, Now: noon, RestartDelay: delay}
}

// says is what a plan wants done, as text: "start 2; stop t1 t2; 1 of t3 t4; lost t5".
func says(p service.Plan) string {
	var out []string
	say := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	say(p.Start != 0, "start %d", p.Start)
	say(len(p.StartOn) > 0, "start on %s", strings.Join(p.StartOn, " "))
	say(len(p.Stop) > 0, "stop %s", ids(p.Stop))
	say(p.Surplus != 0 || len(p.Candidates) > 0, "%d of %s", p.Surplus, ids(p.Candidates))
	say(len(p.Lost) > 0, "lost %s", ids(p.Lost))
	return strings.Join(out, "; ")
}

func ids(tasks []*cluster.Task) string {
	var out []string
	for _, t := range tasks {
		out = append(out, t.ID)
	}
	return strings.Join(out, " ")
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// genInput is a service of either kind with few instances, so that tasks meet on them.
func genInput(t *rapid.T) service.Input {
	s := replica(rapid.IntRange(0, 6).Draw(t, "desired"), percent(
		rapid.SampledFrom([]int{0, 34, 50, 100, 150}).Draw(t, "least"), rapid.SampledFrom([]int{100, 125, 200}).Draw(t, "most")))
	if rapid.Bool().Draw(t, "daemon") {
		s.Strategy, s.MaxPercent = cluster.Daemon, 100
	}
	s.Status = rapid.SampledFrom([]cluster.ServiceStatus{
		cluster.ServiceActive, cluster.ServiceActive, cluster.ServiceActive, cluster.ServiceDraining, cluster.ServiceInactive,
	}).Draw(t, "status")
	in := input(s)
	var gone, misfit []string
	for n := range 5 {
		id := fmt.Sprintf("i-%d", n)
		switch rapid.IntRange(0, 6).Draw(t, "instance") {
		case 0:
			gone = append(gone, id)
		case 1:
			misfit = append(misfit, id)
		case 2: // DRAINING
		default:
			in.Eligible = append(in.Eligible, id)
		}
	}
	in.Gone = func(id string) bool { return slices.Contains(gone, id) }
	in.Matches = func(id string) bool { return !slices.Contains(misfit, id) }
	for n := range rapid.IntRange(0, 10).Draw(t, "tasks") {
		in.Tasks = append(in.Tasks, genTask(t, fmt.Sprintf("t%02d", n)))
	}
	return in
}

func genTask(t *rapid.T, id string) *cluster.Task {
	out := task(id, on(fmt.Sprintf("i-%d", rapid.IntRange(0, 4).Draw(t, "on"))), rapid.SampledFrom([]taskOption{
		func(*cluster.Task) {}, func(*cluster.Task) {}, sick, pending, waiting, stopping, dying, stopped,
		neverRan(time.Duration(rapid.IntRange(0, 12).Draw(t, "ago")) * time.Second),
	}).Draw(t, "is"))
	out.CreatedAt = cluster.At(noon.Add(-time.Duration(rapid.IntRange(1, 3).Draw(t, "age")) * time.Minute))
	if rapid.IntRange(0, 3).Draw(t, "replacing") == 0 {
		out.Replaces = fmt.Sprintf("t%02d", rapid.IntRange(0, 9).Draw(t, "replaces"))
	}
	if rapid.IntRange(0, 9).Draw(t, "unwanted") == 0 {
		out.Desired = cluster.TaskStopped
	}
	return out
}

// apply makes the rows what they are once the plan is carried out; what is started is PENDING, or waits.
func apply(in service.Input, p service.Plan) service.Input {
	change := map[*cluster.Task]func(*cluster.Task){}
	for _, t := range append(slices.Clone(p.Stop), p.Candidates[:p.Surplus]...) {
		change[t] = stopping
	}
	for _, t := range p.Lost {
		change[t] = func(t *cluster.Task) { t.Desired, t.Last = cluster.TaskStopped, cluster.TaskStopped }
	}
	out := in
	out.Tasks = nil
	for _, t := range in.Tasks {
		next := *t
		if f := change[t]; f != nil {
			f(&next)
		}
		out.Tasks = append(out.Tasks, &next)
	}
	s := *in.Service
	s.Status = p.Status
	out.Service = &s
	for n := range p.Start {
		kind := pending
		if n%2 == 1 {
			kind = waiting
		}
		out.Tasks = append(out.Tasks, task(fmt.Sprintf("new-%d-%d", len(out.Tasks), n), on("i-9"), kind))
	}
	for _, id := range p.StartOn {
		out.Tasks = append(out.Tasks, task(fmt.Sprintf("new-%d", len(out.Tasks)), on(id), pending))
	}
	return out
}
