package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// A World is a cluster as plain rows: what snapshots are made of and oracles scan.
type World struct {
	Instances []*cluster.Instance
	Tasks     []*cluster.Task
	Services  []*cluster.Service
	Config    *cluster.Configuration
}

// Snapshot returns a snapshot of the rows, added in an order that the seed decides.
func (w *World) Snapshot(seed uint64) *snapshot.Snapshot {
	var rows []state.Row
	if w.Config != nil {
		rows = append(rows, w.Config)
	}
	for _, s := range w.Services {
		rows = append(rows, s)
	}
	for _, i := range w.Instances {
		rows = append(rows, i)
	}
	for _, t := range w.Tasks {
		rows = append(rows, t)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	s := snapshot.NewSnapshot()
	for _, r := range rows {
		s.Put(r)
	}
	return s
}

// SnapshotOf returns a snapshot of the rows.
func SnapshotOf(rows ...state.Row) *snapshot.Snapshot {
	s := snapshot.NewSnapshot()
	for _, r := range rows {
		s.Put(r)
	}
	return s
}

// An Option changes an instance row.
type Option func(*cluster.Instance)

// Instance returns an ACTIVE, connected instance with 2 vCPU and 4,096 MiB.
func Instance(id string, options ...Option) *cluster.Instance {
	i := &cluster.Instance{
		Head: cluster.Head{Cluster: "c", Rev: 1}, ID: id, Status: cluster.InstanceActive, AgentConnected: true,
		Registered: cluster.Capacity{CPU: 2 * cluster.VCPU, Memory: 4096}, Attributes: map[string]string{},
	}
	for _, o := range options {
		o(i)
	}
	return i
}

func Zone(name string) Option { return Attribute(cluster.AttributeZone, name) }

func Attribute(name, value string) Option {
	return func(i *cluster.Instance) { i.Attributes[name] = value }
}

func Status(s cluster.InstanceStatus) Option { return func(i *cluster.Instance) { i.Status = s } }

func Disconnected(i *cluster.Instance) { i.AgentConnected = false }

func Memory(mib int64) Option { return func(i *cluster.Instance) { i.Registered.Memory = mib } }

func CPU(units int64) Option {
	return func(i *cluster.Instance) { i.Registered.CPU = units * cluster.CPUUnit }
}

func GPUs(n int) Option {
	return func(i *cluster.Instance) {
		for d := range n {
			i.Registered.GPUs = append(i.Registered.GPUs, fmt.Sprintf("GPU-%d", d))
		}
	}
}

func Reserved(ports ...cluster.Port) Option {
	return func(i *cluster.Instance) { i.Registered.Ports = ports }
}

// Metric gives the instance a capacity of a metric.
func Metric(name string, capacity int64) Option {
	return func(i *cluster.Instance) {
		if i.Registered.Metrics == nil {
			i.Registered.Metrics = map[string]int64{}
		}
		i.Registered.Metrics[name] = capacity
	}
}

// Configuration returns the row of a cluster's configuration.
func Configuration(c cluster.Configuration) *cluster.Configuration {
	c.Head = cluster.Head{Cluster: "c", Rev: 1}
	return &c
}

// A TaskOption changes a task row.
type TaskOption func(*cluster.Task)

// Task returns a RUNNING task of owner "web" that needs 256 CPU units and 512 MiB.
func Task(id, on string, options ...TaskOption) *cluster.Task {
	t := &cluster.Task{
		Head: cluster.Head{Cluster: "c", Rev: 1},
		TaskSpec: cluster.TaskSpec{
			ID: id, Owner: "web", Needs: Small, CreatedAt: cluster.At(time.Unix(1000, 0)),
		},
		TaskAssignment: cluster.TaskAssignment{Instance: on, Desired: cluster.TaskRunning},
		TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning},
	}
	for _, o := range options {
		o(t)
	}
	return t
}

var (
	SSH  = cluster.Port{Number: 22, Protocol: cluster.TCP}
	HTTP = cluster.Port{Number: 80, Protocol: cluster.TCP}
	QUIC = cluster.Port{Number: 80, Protocol: cluster.UDP}
)

var Small = cluster.Resources{CPU: 256 * cluster.CPUUnit, Memory: 512}

func Owner(name string) TaskOption { return func(t *cluster.Task) { t.Owner = name } }

func Group(name string) TaskOption { return func(t *cluster.Task) { t.Group = name } }

// Deployment makes the task one of the service's deployment with the id.
func Deployment(id string) TaskOption { return func(t *cluster.Task) { t.Revision = id } }

func Needs(r cluster.Resources) TaskOption { return func(t *cluster.Task) { t.Needs = r } }

func Ports(p ...cluster.Port) TaskOption { return func(t *cluster.Task) { t.Ports = p } }

// Load makes the task report a load of metric m, and need nothing else.
func Load(n int64) TaskOption {
	return func(t *cluster.Task) {
		t.Needs = cluster.Resources{}
		t.Reported = map[string]int64{"m": n}
	}
}

// Stopping makes the task's desired status STOPPED.
func Stopping(t *cluster.Task) { t.Desired = cluster.TaskStopped }

func Pending(t *cluster.Task) { t.Last = "" }

func Created(second int64) TaskOption {
	return func(t *cluster.Task) { t.CreatedAt = cluster.At(time.Unix(second, 0)) }
}

// CheckInstance asks a new engine about one instance.
func CheckInstance(s *snapshot.Snapshot, id string, r placement.Request) ([]int, *cluster.Rejection) {
	return placement.New(s).CheckInstance(s.Instances[id], r)
}

// ChooseStops asks a new engine which n tasks of owner "web" to stop.
func ChooseStops(s *snapshot.Snapshot, candidates []*cluster.Task, n int) []*cluster.Task {
	return placement.New(s).ChooseStops(WebRequest(n), candidates)
}

// WebRequest asks for n tasks of owner "web".
func WebRequest(n int) placement.Request {
	return placement.Request{Spec: &placement.Spec{Needs: Small, Owner: "web"}, Count: n}
}

// Where returns the placements as text: "i-1 i-2[0,1]".
func Where(placed []placement.Placement) string {
	var out []string
	for _, p := range placed {
		text := p.Instance
		if len(p.GPUs) > 0 {
			text += strings.ReplaceAll(fmt.Sprint(p.GPUs), " ", ",")
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// IDs returns the tasks' ids as text.
func IDs(tasks []*cluster.Task) string {
	var out []string
	for _, t := range tasks {
		out = append(out, t.ID)
	}
	return strings.Join(out, " ")
}

// Expect fails the test if the values differ.
func Expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// FindInstance returns the instance with the id, or nil.
func (w *World) FindInstance(id string) *cluster.Instance {
	at := slices.IndexFunc(w.Instances, func(i *cluster.Instance) bool { return i.ID == id })
	if at < 0 {
		return nil
	}
	return w.Instances[at]
}

// Names returns the instances' ids.
func Names(instances []*cluster.Instance) (out []string) {
	for _, i := range instances {
		out = append(out, i.ID)
	}
	return out
}
