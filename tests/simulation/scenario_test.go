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

// A scenario is a world without faults, in which a test performs its own actions. All invariants
// are checked in it, too.
type scenario struct {
	*World
	t *testing.T
}

// newScenario returns a scenario with a cluster of n machines.
func newScenario(t *testing.T, n int, m ec2.Machine) *scenario {
	t.Helper()
	return newBuggyScenario(t, NoBug, n, m)
}

// newBuggyScenario is newScenario with a planted bug.
func newBuggyScenario(t *testing.T, bug Bug, n int, m ec2.Machine) *scenario {
	t.Helper()
	skipReplay(t)
	w, err := newWorld(Run{Seed: 7, Actions: []Action{}, PlantedBug: bug})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, b := range w.checker.Broken {
			t.Errorf("broke: %s", b)
		}
		if t.Failed() {
			t.Logf("what happened:\n%s", strings.Join(w.lines, "\n"))
			(&scenario{w, t}).logServices()
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := w.EnsureCluster(context.Background(), clusterName, n, m); err != nil {
		t.Fatal(err)
	}
	if err := w.createTargetGroups(); err != nil {
		t.Fatal(err)
	}
	w.registerDefinitions()
	w.Runtime.Start()
	w.Loop.RunUntil(epoch.Add(time.Second))
	return &scenario{w, t}
}

// createService creates a service. The functions in more change the request.
func (s *scenario) createService(name, definition string, desired int, more ...func(*operation.CreateService)) {
	s.t.Helper()
	spec := operation.CreateService{
		Cluster: clusterName, Name: name, TaskDefinition: definition, Desired: &desired, Token: name, Params: name,
		Network: networkFor(definition),
	}
	for _, m := range more {
		m(&spec)
	}
	if _, err := s.API.Services.CreateService(context.Background(), spec); err != nil {
		s.t.Fatalf("creating %s: %v", name, err)
	}
}

func asDaemon(spec *operation.CreateService) { spec.Strategy, spec.Desired = cluster.Daemon, nil }

func withPercentages(minHealthy, maxPercent int) func(*operation.CreateService) {
	return func(spec *operation.CreateService) { spec.MinHealthy, spec.MaxPercent = &minHealthy, &maxPercent }
}

func (s *scenario) updateService(name string, change operation.UpdateService) {
	s.t.Helper()
	change.Cluster, change.Name = clusterName, name
	if _, err := s.API.Services.UpdateService(context.Background(), change); err != nil {
		s.t.Fatalf("updating %s: %v", name, err)
	}
}

// callECS calls the simulated ECS directly, behind Berth's back.
func (s *scenario) callECS(op, body string) {
	s.t.Helper()
	if status, answer := s.AWS.ECS.Endpoint().ServeOperation(context.Background(), op,
		[]byte(body)); status != http.StatusOK {
		s.t.Fatalf("%s: %s", op, answer)
	}
}

func (s *scenario) drainInstance(instance string) {
	s.t.Helper()
	s.callECS("UpdateContainerInstancesState",
		fmt.Sprintf(`{"cluster":%q,"containerInstances":[%q],"status":"DRAINING"}`, clusterName, instance))
}

// passTime lets time pass.
func (s *scenario) passTime(d time.Duration) {
	s.t.Helper()
	if s.runUntil(s.Loop.Now().Add(d)); len(s.checker.Broken) > 0 {
		s.t.FailNow()
	}
}

// await lets time pass until the condition holds, at most for d.
func (s *scenario) await(what string, d time.Duration, so func() bool) {
	s.t.Helper()
	for end := s.Loop.Now().Add(d); !so(); {
		if !s.Loop.Now().Before(end) {
			s.t.Fatalf("not within %s: %s", d, what)
		}
		s.passTime(200 * time.Millisecond)
	}
}

func (s *scenario) serviceRow(name string) *cluster.Service {
	s.t.Helper()
	row, ok := s.checker.Rows[state.ServiceKey(clusterName, name)].(*cluster.Service)
	if !ok {
		s.t.Fatalf("there is no service %s", name)
	}
	return row
}

// activeTasks returns the service's active tasks that match, sorted by id.
func (s *scenario) activeTasks(name string, matches ...func(*cluster.Task) bool) (out []*cluster.Task) {
	s.t.Helper()
	for _, t := range s.checker.ByOwner[s.serviceRow(name).Short] {
		if t.IsActive() && !slices.ContainsFunc(matches, func(m func(*cluster.Task) bool) bool { return !m(t) }) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Task) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func isRunning(t *cluster.Task) bool { return t.Last == cluster.TaskRunning }

func onInstance(instance string) func(*cluster.Task) bool {
	return func(t *cluster.Task) bool { return t.Instance == instance }
}

func ofDefinition(definition string) func(*cluster.Task) bool {
	return func(t *cluster.Task) bool { return t.TaskDefinition == definition }
}

// awaitRunning waits until the service has n RUNNING tasks and no others.
func (s *scenario) awaitRunning(name string, n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%s runs %d tasks", name, n), 5*time.Minute, func() bool {
		return len(s.activeTasks(name)) == n && len(s.activeTasks(name, isRunning)) == n
	})
}

// awaitSteady waits until the service has reached its steady state.
func (s *scenario) awaitSteady(name string) {
	s.t.Helper()
	s.await(name+" is steady", 30*time.Minute, func() bool {
		return s.serviceRow(name).Steady &&
			s.serviceRow(name).Deployment.IsCompleted()
	})
}

// serviceEvents returns the service's events, oldest first.
func (s *scenario) serviceEvents(name string) (out []*cluster.ServiceEvent) {
	s.t.Helper()
	short := s.serviceRow(name).Short
	for _, row := range s.checker.Rows {
		if e, ok := row.(*cluster.ServiceEvent); ok && e.Service == short {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.ServiceEvent) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

func (s *scenario) hasEvent(name, part string) bool {
	return slices.ContainsFunc(s.serviceEvents(name),
		func(e *cluster.ServiceEvent) bool { return strings.Contains(e.Message, part) })
}

// instanceIDs returns the ids of all instances, sorted.
func (s *scenario) instanceIDs() (out []string) {
	for _, i := range s.instances() {
		out = append(out, i.ID)
	}
	slices.Sort(out)
	return out
}

// logServices logs the state and the events of all services.
func (s *scenario) logServices() {
	for _, row := range s.checker.ActiveServices() {
		s.t.Logf("%s: %d of %d run, primary %+v, older %+v, blocked %v", row.Name, row.Running, row.Desired,
			row.Deployment, row.Older, row.Blocked)
		for _, e := range s.serviceEvents(row.Name) {
			s.t.Logf("%s %s", e.CreatedAt.Sub(epoch), e.Message)
		}
		for _, task := range s.checker.ByOwner[row.Short] {
			s.t.Logf("task %s on %s: %s, desired %s, health %q, %s %s", task.ID, task.Instance, task.Status(),
				task.Desired, task.Health, task.StopCode, task.Reason)
		}
	}
}
