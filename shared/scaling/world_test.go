package scaling_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/state"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// world is a cluster with one capacity provider. Instances i-1, i-2 ... are container instances
// c-1, c-2 ...
type world struct {
	provider cluster.CapacityProvider
	group    cluster.AutoScalingGroup
	rows     []state.Row
	waiting  []scaling.WaitingTasks
	daemons  []*placement.Spec
	movers   map[string]moves.Owner
	upgrade  bool
	// elsewhere are instances that another cluster has
	elsewhere map[string]string
	history   cluster.ScalingHistory
	now       time.Time
}

type option func(*world)

func newWorld(options ...option) *world {
	w := &world{
		provider: cluster.CapacityProvider{Name: "spot", Group: "g", Scaling: cluster.DefaultScaling},
		group:    cluster.AutoScalingGroup{Name: "g", Max: 100}, movers: map[string]moves.Owner{}, now: noon,
	}
	w.provider.Scaling.Enabled = true
	w.history.Cluster, w.history.Rev, w.history.FirstReconciledAt = "c", 4, noon.Add(-24*time.Hour)
	w.rows = append(w.rows, &cluster.Service{
		Head:            cluster.Head{Cluster: "c", Rev: 1},
		ServiceIdentity: cluster.ServiceIdentity{Name: "log", Short: "log"},
		ServiceSpec:     cluster.ServiceSpec{Strategy: cluster.Daemon},
		ServiceStatus:   cluster.ServiceStatus{Status: cluster.ServiceActive},
	})
	for _, o := range options {
		o(w)
	}
	return w
}

func setting(f func(*cluster.ManagedScaling)) option {
	return func(w *world) { f(&w.provider.Scaling) }
}

func target(percent int) option {
	return setting(func(s *cluster.ManagedScaling) { s.Target = percent })
}

func steps(least, most int) option {
	return setting(func(s *cluster.ManagedScaling) { s.MinStep, s.MaxStep = least, most })
}

func bounds(least, most int) option {
	return func(w *world) { w.group.Min, w.group.Max = least, most }
}

func protection(w *world) { w.provider.Protection = true }

// size returns the capacity of an instance: 2 vCPU and 4,096 MiB unless changed.
type size func(*cluster.Instance)

func row(n int, options ...size) *cluster.Instance {
	i := &cluster.Instance{
		Head: cluster.Head{Cluster: "c", Rev: 1}, ID: fmt.Sprintf("c-%d", n), EC2InstanceID: fmt.Sprintf("i-%d", n),
		Status: cluster.InstanceActive, AgentConnected: true, RegisteredAt: cluster.At(noon.Add(-time.Hour)),
		Registered: cluster.Capacity{CPU: 2 * cluster.VCPU, Memory: 4096},
		Attributes: map[string]string{cluster.AttributeInstanceType: "m5.large", cluster.AttributeZone: "a"},
	}
	for _, o := range options {
		o(i)
	}
	return i
}

// noted records of all instances that the group may terminate them.
func noted(w *world) {
	for _, r := range w.rows {
		if i, ok := r.(*cluster.Instance); ok {
			i.ReleasedIn = "g"
		}
	}
}

func kind(name string) size {
	return func(i *cluster.Instance) { i.Attributes[cluster.AttributeInstanceType] = name }
}

func zone(name string) size {
	return func(i *cluster.Instance) { i.Attributes[cluster.AttributeZone] = name }
}

func with(f func(*cluster.Capacity)) size { return func(i *cluster.Instance) { f(&i.Registered) } }

func status(s cluster.InstanceStatus) size { return func(i *cluster.Instance) { i.Status = s } }

// machine adds an instance to the group that was launched and first observed an hour ago, and has
// not registered.
func (w *world) machine(n int, lifecycle string) *cluster.GroupInstance {
	w.group.Instances = append(w.group.Instances, cluster.GroupInstance{
		ID: fmt.Sprintf("i-%d", n), Type: "m5.large", Zone: "a", Lifecycle: lifecycle,
		LaunchedAt: w.now.Add(-time.Hour),
	})
	if w.history.UnregisteredSince == nil {
		w.history.UnregisteredSince = map[string]time.Time{}
	}
	w.history.UnregisteredSince[fmt.Sprintf("i-%d", n)] = w.now.Add(-time.Hour)
	if lifecycle == "InService" || strings.HasPrefix(lifecycle, "Pending") {
		w.group.Desired++
	}
	return &w.group.Instances[len(w.group.Instances)-1]
}

// instance adds an instance that runs and has registered, with tasks of the service web, which need
// 512 CPU units and 512 MiB each.
func (w *world) instance(n, tasks int, options ...size) *cluster.GroupInstance {
	w.rows = append(w.rows, row(n, options...))
	for t := range tasks {
		w.task(fmt.Sprintf("t%d-%d", n, t), n)
	}
	return w.machine(n, "InService")
}

// instances adds instances with a task each, and then instances without.
func instances(used, empty int) option {
	return func(w *world) {
		for n := range used + empty {
			w.instance(n+1, b2i(n < used))
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

var small = cluster.Resources{CPU: 512 * cluster.CPUUnit, Memory: 512}

type taskOption func(*cluster.Task)

// task adds a RUNNING task of the service web.
func (w *world) task(id string, on int, options ...taskOption) {
	t := &cluster.Task{
		Head:     cluster.Head{Cluster: "c", Rev: 1},
		TaskSpec: cluster.TaskSpec{ID: id, Owner: "web", Service: "web", Group: "service:web", Needs: small},
		TaskAssignment: cluster.TaskAssignment{
			Instance: fmt.Sprintf("c-%d", on), Desired: cluster.TaskRunning,
		},
		TaskReport: cluster.TaskReport{Last: cluster.TaskRunning},
	}
	for _, o := range options {
		o(t)
	}
	w.rows = append(w.rows, t)
}

func of(service string) taskOption {
	return func(t *cluster.Task) { t.Owner, t.Service, t.Group = service, service, "service:"+service }
}

func needing(r cluster.Resources) taskOption { return func(t *cluster.Task) { t.Needs = r } }

// waits adds tasks that wait for an instance.
func waits(count int, needs cluster.Resources, options ...func(*placement.Spec)) option {
	return func(w *world) {
		spec := &placement.Spec{Needs: needs, Owner: fmt.Sprintf("w%d", len(w.waiting))}
		for _, o := range options {
			o(spec)
		}
		w.waiting = append(w.waiting, scaling.WaitingTasks{Name: "service " + spec.Owner, Spec: spec, Target: count,
			Count: count})
	}
}

func (w *world) snapshot() *snapshot.Snapshot {
	s := snapshot.NewSnapshot()
	for _, r := range w.rows {
		switch r := r.(type) { // the snapshot changes them
		case *cluster.Instance:
			s.Put(new(*r))
		case *cluster.Task:
			s.Put(new(*r))
		default:
			s.Put(r)
		}
	}
	return s
}

func (w *world) input() scaling.Input {
	return scaling.Input{
		Provider: &w.provider, Group: &w.group, Snapshot: w.snapshot(), Waiting: w.waiting, Daemons: w.daemons,
		Movers:    w.movers,
		Upgrading: w.upgrade, RegisteredElsewhere: w.elsewhere, History: w.history, Now: w.now,
	}
}

// decide makes a decision and stores its history.
func (w *world) decide() scaling.Decision {
	d := scaling.Decide(w.input())
	w.history = d.History
	return d
}

// minutes decides once a minute, without changing the group, until a decision changes something or
// so many minutes have passed. It returns how many have.
func (w *world) minutes(most int) (int, scaling.Decision) {
	for n := 1; ; n++ {
		d := w.decide()
		w.now = w.now.Add(time.Minute)
		if d.Desired != w.group.Desired || n == most {
			return n, d
		}
	}
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func contains(t *testing.T, what, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%s: got %q, want something with %q", what, got, want)
	}
}

// why returns what the decision says about an instance.
func why(d scaling.Decision, id string) string {
	for _, v := range d.Verdicts {
		if v.EC2InstanceID == id {
			return v.Why
		}
	}
	return "not there"
}

// messages returns the messages of all events.
func messages(d scaling.Decision) string {
	var out []string
	for _, e := range d.Events {
		out = append(out, e.Owner+": "+e.Message)
	}
	return strings.Join(out, "\n")
}
