package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// world is a cluster as plain rows: what a snapshot is made of, and what the oracles of the property tests scan.
type world struct {
	instances []*cluster.Instance
	tasks     []*cluster.Task
}

// snapshot takes the rows in, in an order that the seed decides.
func (w *world) snapshot(seed uint64) *cluster.Snapshot {
	rows := make([]cluster.Row, 0, len(w.instances)+len(w.tasks))
	for _, i := range w.instances {
		rows = append(rows, i)
	}
	for _, t := range w.tasks {
		rows = append(rows, t)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	s := cluster.NewSnapshot()
	for _, r := range rows {
		s.Put(r)
	}
	return s
}

func snapshot(rows ...cluster.Row) *cluster.Snapshot {
	s := cluster.NewSnapshot()
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
func check(s *cluster.Snapshot, id string, r placement.Request) ([]int, *cluster.Rejection) {
	return placement.New(s).Check(s.Instances[id], r)
}

func stop(s *cluster.Snapshot, candidates []*cluster.Task, n int) []*cluster.Task {
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

// The generators keep everything small and scarce, so that filters refuse, zones tie and devices run out.

func genWorld(t *rapid.T) *world {
	w := &world{}
	for n := range rapid.IntRange(0, 8).Draw(t, "instances") {
		w.instances = append(w.instances, genInstance(t, fmt.Sprintf("i-%d", n)))
	}
	for n := range rapid.IntRange(0, 16).Draw(t, "tasks") {
		w.tasks = append(w.tasks, genTask(t, w, fmt.Sprintf("t-%02d", n)))
	}
	return w
}

func genInstance(t *rapid.T, id string) *cluster.Instance {
	i := instance(id,
		cpu(rapid.Int64Range(0, 4).Draw(t, "cpu")*512), memory(rapid.Int64Range(0, 4).Draw(t, "memory")*1024),
		gpus(rapid.SampledFrom([]int{0, 0, 1, 2, 4}).Draw(t, "gpus")))
	if z := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "zone"); z != "" {
		zone(z)(i)
	}
	if v := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "disk"); v != "" {
		attribute("disk", v)(i)
	}
	i.Status = rapid.SampledFrom([]cluster.InstanceStatus{
		cluster.InstanceActive, cluster.InstanceActive, cluster.InstanceActive, cluster.InstanceActive,
		cluster.InstanceDraining, cluster.InstanceInactive,
	}).Draw(t, "status")
	i.AgentConnected = rapid.IntRange(0, 5).Draw(t, "agent") > 0
	if rapid.IntRange(0, 3).Draw(t, "reserved") == 0 {
		i.Registered.Ports = []cluster.Port{ssh}
	}
	return i
}

func genNeeds(t *rapid.T) cluster.Resources {
	r := cluster.Resources{
		CPU:    rapid.Int64Range(0, 3).Draw(t, "cpu") * 256 * cluster.CPUUnit,
		Memory: rapid.Int64Range(0, 3).Draw(t, "memory") * 512,
	}
	switch rapid.IntRange(0, 5).Draw(t, "gpu") {
	case 0:
		r.GPUs = rapid.IntRange(1, 2).Draw(t, "devices")
	case 1:
		r.GPUs, r.GPUMilli = 1, rapid.SampledFrom([]int{250, 500, 600}).Draw(t, "share")
	}
	return r
}

func genPorts(t *rapid.T) []cluster.Port {
	var out []cluster.Port
	for _, p := range []cluster.Port{ssh, http, quic} {
		if rapid.IntRange(0, 7).Draw(t, "port") == 0 {
			out = append(out, p)
		}
	}
	return out
}

func genTask(t *rapid.T, w *world, id string) *cluster.Task {
	on := "i-unknown"
	if n := rapid.IntRange(-1, len(w.instances)-1).Draw(t, "on"); n >= 0 {
		on = w.instances[n].ID
	}
	out := task(id, on, needs(genNeeds(t)), ports(genPorts(t)...),
		owner(rapid.SampledFrom([]string{"web", "web", "other"}).Draw(t, "owner")),
		group(rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, "group")),
		created(rapid.Int64Range(1, 3).Draw(t, "created")))
	out.Desired = rapid.SampledFrom([]cluster.TaskStatus{
		cluster.TaskRunning, cluster.TaskRunning, cluster.TaskRunning, cluster.TaskStopped,
	}).Draw(t, "desired")
	out.Last = rapid.SampledFrom([]cluster.TaskStatus{
		"", cluster.TaskRunning, cluster.TaskRunning, cluster.TaskStopping, cluster.TaskStopped,
	}).Draw(t, "last")
	if rapid.IntRange(0, 9).Draw(t, "waits") == 0 {
		out.Instance, out.Last = "", ""
	}
	if i := w.find(out.Instance); i != nil && out.Needs.GPUs > 0 && rapid.Bool().Draw(t, "pinned") {
		for d := range i.Registered.GPUs {
			if len(out.GPUs) < out.Needs.GPUs {
				out.GPUs = append(out.GPUs, d)
			}
		}
	}
	return out
}

func genRequest(t *rapid.T, w *world) placement.Request {
	r := placement.Request{Count: rapid.SampledFrom([]int{0, 1, 1, 1, 2, 3, 5, 12}).Draw(t, "count")}
	r.Spec = &placement.Spec{
		Needs: genNeeds(t), Ports: genPorts(t), Owner: "web",
		Group:       rapid.SampledFrom([]string{"", "", "g"}).Draw(t, "group"),
		Attributes:  rapid.SampledFrom([][]string{nil, nil, {"disk"}, {"disk=1"}}).Draw(t, "attributes"),
		PerInstance: rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "per instance"),
	}
	if rapid.IntRange(0, 3).Draw(t, "wishes") == 0 {
		r.Instances = []string{}
		for _, i := range w.instances {
			if rapid.Bool().Draw(t, "wished") {
				r.Instances = append(r.Instances, i.ID)
			}
		}
		r.Instances = append(rapid.Permutation(r.Instances).Draw(t, "wish"), "i-unknown")
	}
	return r
}

func (w *world) find(id string) *cluster.Instance {
	at := slices.IndexFunc(w.instances, func(i *cluster.Instance) bool { return i.ID == id })
	if at < 0 {
		return nil
	}
	return w.instances[at]
}
