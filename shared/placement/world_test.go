package placement_test

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

// world is a cluster as plain rows: what a snapshot is made of, and what the oracles of the property tests scan.
type world struct {
	instances []*cluster.Instance
	tasks     []*cluster.Task
	services  []*cluster.Service
	config    *cluster.Configuration
}

// snapshot takes the rows in, in an order that the seed decides.
func (w *world) snapshot(seed uint64) *snapshot.Snapshot {
	var rows []state.Row
	if w.config != nil {
		rows = append(rows, w.config)
	}
	for _, s := range w.services {
		rows = append(rows, s)
	}
	for _, i := range w.instances {
		rows = append(rows, i)
	}
	for _, t := range w.tasks {
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

func snapshotOf(rows ...state.Row) *snapshot.Snapshot {
	s := snapshot.NewSnapshot()
	for _, r := range rows {
		s.Put(r)
	}
	return s
}

type option func(*cluster.Instance)

// instance is ACTIVE, its agent connected, with 2 vCPU and 4,096 MiB.
func instance(id string, options ...option) *cluster.Instance {
	i := &cluster.Instance{
		Head: cluster.Head{Cluster: "c", Rev: 1}, ID: id, Status: cluster.InstanceActive, AgentConnected: true,
		Registered: cluster.Capacity{CPU: 2 * cluster.VCPU, Memory: 4096}, Attributes: map[string]string{},
	}
	for _, o := range options {
		o(i)
	}
	return i
}

func zone(name string) option { return attribute(cluster.AttributeZone, name) }

func attribute(name, value string) option {
	return func(i *cluster.Instance) { i.Attributes[name] = value }
}

func status(s cluster.InstanceStatus) option { return func(i *cluster.Instance) { i.Status = s } }

func disconnected(i *cluster.Instance) { i.AgentConnected = false }

func memory(mib int64) option { return func(i *cluster.Instance) { i.Registered.Memory = mib } }

func cpu(units int64) option {
	return func(i *cluster.Instance) { i.Registered.CPU = units * cluster.CPUUnit }
}

func gpus(n int) option {
	return func(i *cluster.Instance) {
		for d := range n {
			i.Registered.GPUs = append(i.Registered.GPUs, fmt.Sprintf("GPU-%d", d))
		}
	}
}

func reserved(ports ...cluster.Port) option {
	return func(i *cluster.Instance) { i.Registered.Ports = ports }
}

type taskOption func(*cluster.Task)

// task is RUNNING, of owner "web", and needs 256 CPU units and 512 MiB.
func task(id, on string, options ...taskOption) *cluster.Task {
	t := &cluster.Task{
		Head: cluster.Head{Cluster: "c", Rev: 1}, ID: id, Owner: "web", Instance: on, Needs: small,
		Desired: cluster.TaskRunning, Last: cluster.TaskRunning, CreatedAt: cluster.At(time.Unix(1000, 0)),
	}
	for _, o := range options {
		o(t)
	}
	return t
}

var (
	ssh  = cluster.Port{Number: 22, Protocol: cluster.TCP}
	http = cluster.Port{Number: 80, Protocol: cluster.TCP}
	quic = cluster.Port{Number: 80, Protocol: cluster.UDP}
)

var small = cluster.Resources{CPU: 256 * cluster.CPUUnit, Memory: 512}

func owner(name string) taskOption { return func(t *cluster.Task) { t.Owner = name } }

func group(name string) taskOption { return func(t *cluster.Task) { t.Group = name } }

func needs(r cluster.Resources) taskOption { return func(t *cluster.Task) { t.Needs = r } }

func ports(p ...cluster.Port) taskOption { return func(t *cluster.Task) { t.Ports = p } }

func stopping(t *cluster.Task) { t.Desired = cluster.TaskStopped }

func pending(t *cluster.Task) { t.Last = "" }

func created(second int64) taskOption {
	return func(t *cluster.Task) { t.CreatedAt = cluster.At(time.Unix(second, 0)) }
}

// check and stop ask a new engine.
func check(s *snapshot.Snapshot, id string, r placement.Request) ([]int, *cluster.Rejection) {
	return placement.New(s).Check(s.Instances[id], r)
}

func stop(s *snapshot.Snapshot, candidates []*cluster.Task, n int) []*cluster.Task {
	return placement.New(s).ChooseStops(web(n), candidates)
}

func web(n int) placement.Request {
	return placement.Request{Spec: &placement.Spec{Needs: small, Owner: "web"}, Count: n}
}

// where is the placements as text, "i-1 i-2[0,1]".
func where(placed []placement.Placement) string {
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

func (w *world) find(id string) *cluster.Instance {
	at := slices.IndexFunc(w.instances, func(i *cluster.Instance) bool { return i.ID == id })
	if at < 0 {
		return nil
	}
	return w.instances[at]
}
