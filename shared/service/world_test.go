package service

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// world is a service and its tasks. The test plays everything that is not decided in this package.
type world struct {
	t          *testing.T
	fatal      func(format string, args ...any)
	now        time.Time
	service    *cluster.Service
	tasks      map[string]*cluster.Task
	targets    map[string]*cluster.Target
	protect    map[string]time.Time
	hosts      map[string]InstanceState
	busy       map[string]bool
	eligible   []string
	checked    bool
	alarms     *cluster.AlarmWatch
	distrusted bool
	full       string          // an instance without room for a daemon
	broken     map[string]bool // revisions whose tasks never come to be RUNNING
	unhealthy  map[string]bool // revisions whose tasks are never healthy
	// deregistering keeps tasks that are being stopped from ending, as slow targets do.
	deregistering bool
	made          int
	said          []string
	random        *rand.Rand
}

var testLimits = Limits{
	BackoffLadder: []time.Duration{time.Minute, 3 * time.Minute, 9 * time.Minute, 27 * time.Minute},
	StabilizeFor:  40 * time.Second, RestartGap: 10 * time.Second, ReplacePercent: 20, RetryRefused: time.Minute,
	RetryRefusedMax: 10 * time.Minute,
}

func newWorld(t *testing.T, desired int) *world {
	w := &world{
		t: t, now: noon, tasks: map[string]*cluster.Task{}, targets: map[string]*cluster.Target{},
		protect: map[string]time.Time{},
		hosts:   map[string]InstanceState{}, busy: map[string]bool{}, broken: map[string]bool{},
		unhealthy: map[string]bool{},
		random:    rand.New(rand.NewPCG(1, 2)),
		service: &cluster.Service{
			ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "web"},
			ServiceSpec: cluster.ServiceSpec{
				Strategy: cluster.Replica, Desired: desired, MinHealthy: 100, MaxPercent: 200,
			},
			ServiceStatus: cluster.ServiceStatus{Status: cluster.ServiceActive},
		},
	}
	w.fatal = t.Fatalf
	w.service.Deployment = w.deployment("a")
	return w
}

func (w *world) deployment(id string) cluster.Deployment {
	return cluster.Deployment{
		Revision: cluster.Revision{ID: "ecs-svc/" + id, TaskDefinition: "web:" + id, CreatedAt: w.now},
		State:    cluster.RolloutInProgress, Desired: w.service.Desired,
	}
}

// deploy makes a new PRIMARY deployment, as the API does.
func (w *world) deploy(id string) {
	s := *w.service
	old := s.Deployment
	if old.IsCompleted() {
		s.Last = &old.Revision
	}
	old.Desired = s.Desired
	s.Older = append([]cluster.Deployment{old}, s.Older...)
	s.Deployment = w.deployment(id)
	s.Release = &cluster.Release{ID: id, Status: cluster.DeploymentPending, CreatedAt: w.now, Target: s.Deployment.ID}
	w.service = &s
}

func (w *world) input() Input {
	in := Input{
		Service: w.service, Eligible: w.eligible, DistrustChecks: w.distrusted, Limits: testLimits,
		Seed: uint64(w.made),
		Now:  w.now, Alarms: w.alarms,
		InstanceState:  func(i string) InstanceState { return w.hosts[i] },
		Target:         func(id string) *cluster.Target { return w.targets[id] },
		ProtectedUntil: func(id string) time.Time { return w.protect[id] },
		HealthChecked:  func(string) bool { return w.checked },
		HasOtherTasks:  func(i string) bool { return w.busy[i] },
	}
	for _, t := range w.tasks {
		in.Tasks = append(in.Tasks, t)
	}
	return in
}

func (w *world) up() (n int) {
	for _, t := range w.tasks {
		if t.IsActive() && w.well(t) {
			n++
		}
	}
	return n
}

func (w *world) well(t *cluster.Task) bool {
	return t.Last == cluster.TaskRunning && t.Health != cluster.Unhealthy && w.hosts[t.Instance] != InstanceTimedOut
}

func (w *world) active() (n int) {
	for _, t := range w.tasks {
		if t.IsActive() && w.hosts[t.Instance] != InstanceDeregistered {
			n++
		}
	}
	return n
}

// step carries out one plan and checks what holds for every plan.
func (w *world) step() Plan {
	before, running := w.active(), w.up()
	p := Reconcile(w.input())
	w.check(p, before, running)
	for _, t := range p.CountedFailures {
		w.set(t.ID, func(t *cluster.Task) { t.Counted = true })
	}
	for _, t := range p.LostTasks {
		w.set(t.ID, func(t *cluster.Task) {
			t.Last, t.Stopped, t.Desired = cluster.TaskStopped, cluster.At(w.now), cluster.TaskStopped
		})
	}
	for _, s := range p.Stops {
		w.stop(s.Task)
	}
	for _, c := range p.Choices {
		picked := w.random.Perm(len(c.Candidates))[:c.Count]
		for _, i := range picked {
			w.stop(c.Candidates[i])
		}
	}
	for _, s := range p.Starts {
		for i := range s.Count {
			w.made++
			id := fmt.Sprintf("t%04d", w.made)
			on := w.place()
			if len(s.Instances) > 0 {
				on = roomFirst(s.Instances, w.full)[i]
			}
			w.tasks[id] = &cluster.Task{
				TaskSpec: cluster.TaskSpec{
					ID: id, Owner: "web", Revision: s.Revision.ID, TaskDefinition: s.Revision.TaskDefinition,
					CreatedAt: cluster.At(w.now),
				},
				TaskAssignment: cluster.TaskAssignment{
					Instance: on, Desired: cluster.TaskRunning, ClaimedAt: cluster.At(w.now),
				},
			}
		}
	}
	for _, e := range slices.Concat(p.EventsBefore, p.EventsAfter) {
		if e.Message != "" {
			w.said = append(w.said, e.Message)
		}
	}
	w.service = p.Next
	w.dropUnplaced(p)
	return p
}

// roomFirst returns the instances, full ones last, because placement passes over these if it has a
// choice.
func roomFirst(on []string, full string) []string {
	roomy := slices.DeleteFunc(slices.Clone(on), func(id string) bool { return id == full })
	if len(roomy) == len(on) {
		return on
	}
	return append(roomy, full)
}

// dropUnplaced removes the daemons that find no room, and marks the service blocked if none of
// those to be started did.
func (w *world) dropUnplaced(p Plan) {
	if w.full == "" {
		return
	}
	placed := 0
	for id, t := range w.tasks {
		switch {
		case t.Instance == w.full:
			delete(w.tasks, id)
		case t.Last == "" && t.IsActive() && t.CreatedAt == cluster.At(w.now):
			placed++
		}
	}
	if w.service.Blocked = nil; len(p.Starts) > 0 && placed < p.Starts[0].Count {
		w.service.Blocked = &cluster.Diagnosis{Evaluated: 1}
	}
}

// daemonOn returns the active task on an instance.
func (w *world) daemonOn(on string) string {
	for id, t := range w.tasks {
		if t.Instance == on && t.IsActive() {
			return id
		}
	}
	return ""
}

// place returns an instance for the next task.
func (w *world) place() string {
	for i := range 7 {
		if on := fmt.Sprintf("i%d", (w.made+i)%7); w.hosts[on] == InstanceUsable {
			return on
		}
	}
	return "spare"
}

func (w *world) check(p Plan, before, running int) {
	if w.service.Strategy == cluster.Daemon || w.service.Status != cluster.ServiceActive {
		return
	}
	if w.service.HasTaskSets() {
		w.checkTaskSets(p)
		return
	}
	stops, ups, starts := len(p.Stops), 0, 0
	for _, s := range p.Stops {
		if w.protect[s.Task.ID].After(w.now) {
			w.fatal("protected task %s is stopped", s.Task.ID)
		}
		if w.well(s.Task) {
			ups++
		}
	}
	for _, c := range p.Choices {
		stops += c.Count
		if c.Count >= len(c.Candidates) || c.Count <= 0 {
			w.fatal("a choice of %d of %d", c.Count, len(c.Candidates))
		}
		if w.well(c.Candidates[0]) {
			ups += c.Count
		}
	}
	for _, s := range p.Starts {
		starts += s.Count
	}
	floor := (w.service.Desired*w.service.MinHealthy + 99) / 100
	if ups > 0 && running-ups < floor && !w.checked {
		w.fatal("%d of %d healthy tasks are stopped, %d must be left", ups, running, floor)
	}
	if ceiling := w.service.Desired * w.service.MaxPercent / 100; starts > 0 && before-stops+starts > ceiling {
		w.fatal("%d tasks, %d stopped, %d started: more than %d", before, stops, starts, ceiling)
	}
}

func (w *world) set(id string, change func(*cluster.Task)) {
	next := *w.tasks[id]
	next.Rev++
	change(&next)
	w.tasks[id] = &next
}

func (w *world) stop(t *cluster.Task) {
	w.set(t.ID, func(t *cluster.Task) { t.Desired = cluster.TaskStopped })
}

// pass lets time go by: stopped tasks stop, and started ones run or fail. Nothing is reported of
// tasks on lost instances.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for id, t := range w.tasks {
		switch {
		case w.hosts[t.Instance] == InstanceTimedOut:
		case t.Desired == cluster.TaskStopped && w.deregistering:
		case t.Desired == cluster.TaskStopped && t.Last != cluster.TaskStopped:
			w.set(id, func(t *cluster.Task) { t.Last, t.Stopped = cluster.TaskStopped, cluster.At(w.now) })
		case t.Last == "" && w.broken[t.Revision]:
			w.die(id)
		case t.Last == "":
			w.set(id, func(t *cluster.Task) {
				t.Last, t.Started = cluster.TaskRunning, cluster.At(w.now)
				switch {
				case w.unhealthy[t.Revision]:
					t.Health = cluster.Unhealthy
				case w.checked:
					t.Health = cluster.Healthy
				}
			})
		}
	}
}

func (w *world) die(id string) {
	w.set(id, func(t *cluster.Task) { t.Last, t.Stopped = cluster.TaskStopped, cluster.At(w.now) })
}

// rest lets time go by until nothing happens any more, for at most so many steps.
func (w *world) rest(steps int) Plan {
	for range steps {
		p := w.step()
		if p.Steady && p.ReconsiderAt.IsZero() {
			return p
		}
		d := 5 * time.Second
		if idle(p) && p.ReconsiderAt.After(w.now.Add(d)) {
			d = p.ReconsiderAt.Sub(w.now)
		}
		w.pass(d)
	}
	return w.step()
}

func idle(p Plan) bool { return len(p.Stops)+len(p.Choices)+len(p.Starts) == 0 }

// running returns how many wanted tasks are RUNNING, by revision.
func (w *world) running() map[string]int {
	out := map[string]int{}
	for _, t := range w.tasks {
		if t.IsActive() && t.Last == cluster.TaskRunning {
			out[t.Revision]++
		}
	}
	return out
}

func (w *world) ids() (out []string) {
	for id, t := range w.tasks {
		if t.IsActive() {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
