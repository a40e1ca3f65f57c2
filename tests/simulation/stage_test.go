package simulation

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/sim/ec2"
	"berth/shared/state"
)

// stage is a world without faults, in which a test has its own history happen. All invariants hold in it too.
type stage struct {
	*World
	t *testing.T
}

// newStage has a cluster of n of the machines.
func newStage(t *testing.T, n int, m ec2.Machine) *stage {
	t.Helper()
	if replaying() {
		t.Skip("one seed is being replayed")
	}
	w, err := newWorld(Run{Seed: 7, Actions: []Action{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, b := range w.checker.broken {
			t.Errorf("broke: %s", b)
		}
		if t.Failed() {
			t.Logf("what happened:\n%s", strings.Join(w.notes, "\n"))
			(&stage{w, t}).show()
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := w.EnsureCluster(context.Background(), clusterName, n, m); err != nil {
		t.Fatal(err)
	}
	if err := w.balance(); err != nil {
		t.Fatal(err)
	}
	w.register()
	w.Runtime.Start()
	w.Loop.RunUntil(epoch.Add(time.Second))
	return &stage{w, t}
}

// create makes a service; more changes what is asked for.
func (s *stage) create(name, definition string, desired int, more ...func(*operation.CreateService)) {
	s.t.Helper()
	spec := operation.CreateService{
		Cluster: clusterName, Name: name, TaskDefinition: definition, Desired: &desired, Token: name, Params: name, Network: networkOf(definition),
	}
	for _, m := range more {
		m(&spec)
	}
	if _, err := s.API.Services.CreateService(context.Background(), spec); err != nil {
		s.t.Fatalf("creating %s: %v", name, err)
	}
}

func daemon(spec *operation.CreateService) { spec.Strategy, spec.Desired = cluster.Daemon, nil }

func percentages(minHealthy, maxPercent int) func(*operation.CreateService) {
	return func(spec *operation.CreateService) { spec.MinHealthy, spec.MaxPercent = &minHealthy, &maxPercent }
}

func (s *stage) update(name string, change operation.UpdateService) {
	s.t.Helper()
	change.Cluster, change.Name = clusterName, name
	if _, err := s.API.Services.UpdateService(context.Background(), change); err != nil {
		s.t.Fatalf("updating %s: %v", name, err)
	}
}

// call makes a request of the fleet's own ECS API, behind Berth's back.
func (s *stage) call(op, body string) {
	s.t.Helper()
	if status, answer := s.AWS.ECS.Endpoint().Serve(context.Background(), op, []byte(body)); status != http.StatusOK {
		s.t.Fatalf("%s: %s", op, answer)
	}
}

func (s *stage) drain(instance string) {
	s.t.Helper()
	s.call("UpdateContainerInstancesState", fmt.Sprintf(`{"cluster":%q,"containerInstances":[%q],"status":"DRAINING"}`, clusterName, instance))
}

// pass lets time go by.
func (s *stage) pass(d time.Duration) {
	s.t.Helper()
	if s.until(s.Loop.Now().Add(d)); len(s.checker.broken) > 0 {
		s.t.FailNow()
	}
}

// await lets time go by until it is so, which has to be within d.
func (s *stage) await(what string, d time.Duration, so func() bool) {
	s.t.Helper()
	for end := s.Loop.Now().Add(d); !so(); {
		if !s.Loop.Now().Before(end) {
			s.t.Fatalf("not within %s: %s", d, what)
		}
		s.pass(200 * time.Millisecond)
	}
}

func (s *stage) row(name string) *cluster.Service {
	s.t.Helper()
	row, ok := s.checker.rows[state.ServiceKey(clusterName, name)].(*cluster.Service)
	if !ok {
		s.t.Fatalf("there is no service %s", name)
	}
	return row
}

// tasks are the service's that have not ended nor are being stopped, in order of id; those that match alone.
func (s *stage) tasks(name string, matches ...func(*cluster.Task) bool) (out []*cluster.Task) {
	s.t.Helper()
	for _, t := range s.checker.owned[s.row(name).Short] {
		if t.IsActive() && !slices.ContainsFunc(matches, func(m func(*cluster.Task) bool) bool { return !m(t) }) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Task) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func isRunning(t *cluster.Task) bool { return t.Last == cluster.TaskRunning }

func on(instance string) func(*cluster.Task) bool {
	return func(t *cluster.Task) bool { return t.Instance == instance }
}

func of(definition string) func(*cluster.Task) bool {
	return func(t *cluster.Task) bool { return t.TaskDefinition == definition }
}

// runs waits until the service has so many tasks RUNNING, and no others.
func (s *stage) runs(name string, n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%s runs %d tasks", name, n), 5*time.Minute, func() bool {
		return len(s.tasks(name)) == n && len(s.tasks(name, isRunning)) == n
	})
}

// rests waits until the service has reached its steady state.
func (s *stage) rests(name string) {
	s.t.Helper()
	s.await(name+" is steady", 30*time.Minute, func() bool { return s.row(name).Steady && s.row(name).Deployment.IsCompleted() })
}

// events are the messages of the service, the oldest first.
func (s *stage) events(name string) (out []*cluster.ServiceEvent) {
	s.t.Helper()
	short := s.row(name).Short
	for _, row := range s.checker.rows {
		if e, ok := row.(*cluster.ServiceEvent); ok && e.Service == short {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.ServiceEvent) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

func (s *stage) said(name, part string) bool {
	return slices.ContainsFunc(s.events(name), func(e *cluster.ServiceEvent) bool { return strings.Contains(e.Message, part) })
}

// ids are the instances', in order.
func (s *stage) ids() (out []string) {
	for _, i := range s.instances() {
		out = append(out, i.ID)
	}
	slices.Sort(out)
	return out
}

// show logs how services are and what they said.
func (s *stage) show() {
	for _, row := range s.checker.active() {
		s.t.Logf("%s: %d of %d run, primary %+v, older %+v, blocked %v", row.Name, row.Running, row.Desired, row.Deployment, row.Older, row.Blocked)
		for _, e := range s.events(row.Name) {
			s.t.Logf("%s %s", e.CreatedAt.Sub(epoch), e.Message)
		}
		for _, task := range s.checker.owned[row.Short] {
			s.t.Logf("task %s on %s: %s, desired %s, health %q, %s %s", task.ID, task.Instance, task.Status(), task.Desired, task.Health, task.StopCode, task.Reason)
		}
	}
}
