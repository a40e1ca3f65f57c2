package placement

import (
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
)

// filter is one reason why an instance cannot take a task. passes decides; explain is asked only where it refused:
// what was needed, the best there is, in the unit of [cluster.Rejection], or a detail.
type filter struct {
	name    cluster.Filter
	passes  func(*room, *Spec) bool
	explain func(*room, *Spec) cluster.Rejection
}

// filters are all there are, in the order in which they are tried: the first to refuse is the one that counts.
var filters = []filter{
	{cluster.FilterStatus, isActive, explainStatus},
	{cluster.FilterAgent, hasAgent, explainNothing},
	{cluster.FilterAttribute, hasAttributes, explainAttribute},
	{cluster.FilterOccupied, isUnoccupied, explainNothing},
	{cluster.FilterPort, hasPorts, explainPort},
	{cluster.FilterCPU, hasCPU, explainCPU},
	{cluster.FilterMemory, hasMemory, explainMemory},
	{cluster.FilterGPU, hasGPUs, explainGPU},
}

// Check looks at one instance: the devices that a task of the request would get there, or the first filter that
// refuses it. An instance that is unknown or gone counts as not active.
func (e *Engine) Check(v *cluster.InstanceView, r Request) (gpus []int, rejected *cluster.Rejection) {
	if !listed(v) {
		return nil, &cluster.Rejection{Filter: cluster.FilterStatus, Count: 1, Detail: string(cluster.InstanceInactive)}
	}
	var m room
	m.reset(v)
	if f := m.refusal(r.Spec); f != nil {
		why := f.reject(&m, r.Spec)
		return nil, &why
	}
	return m.devices(r.Spec.Needs), nil
}

// Matches reports whether the instance has the attributes that a task must find, whatever its status and room: a
// DAEMON's task stays only where it has (S4). Of an instance that is unknown nothing is held against it.
func (e *Engine) Matches(v *cluster.InstanceView, spec *Spec) bool {
	return v == nil || v.Instance == nil || missing(v, spec) == ""
}

// Eligible are the instances that should have a task of a DAEMON service (S4): ACTIVE and with the attributes,
// whether there is room or not and whether the agent is connected or not. In order of id.
func (e *Engine) Eligible(spec *Spec) []string {
	var out []string
	for _, z := range e.snap.Zones() {
		for _, v := range z.Instances {
			if v.Status == cluster.InstanceActive && missing(v, spec) == "" {
				out = append(out, v.ID)
			}
		}
	}
	slices.Sort(out)
	return out
}

// refusal is the first filter that refuses a task of the request, nil if all let it pass.
func (m *room) refusal(r *Spec) *filter {
	for i := range filters {
		if !filters[i].passes(m, r) {
			return &filters[i]
		}
	}
	return nil
}

func (f *filter) reject(m *room, r *Spec) cluster.Rejection {
	why := f.explain(m, r)
	why.Filter, why.Count = f.name, 1
	return why
}

func isActive(m *room, _ *Spec) bool { return m.view.Status == cluster.InstanceActive }

func explainStatus(m *room, _ *Spec) cluster.Rejection {
	return cluster.Rejection{Detail: string(m.view.Status)}
}

func hasAgent(m *room, _ *Spec) bool { return m.view.AgentConnected }

func explainNothing(*room, *Spec) cluster.Rejection { return cluster.Rejection{} }

func hasAttributes(m *room, r *Spec) bool {
	return len(r.Attributes) == 0 || missing(m.view, r) == ""
}

func explainAttribute(m *room, r *Spec) cluster.Rejection {
	return cluster.Rejection{Detail: missing(m.view, r)}
}

// missing is the first attribute asked for that the instance has not, or has with another value; empty if none is.
func missing(v *cluster.InstanceView, r *Spec) string {
	for _, want := range r.Attributes {
		name, value, valued := strings.Cut(want, "=")
		if has, ok := v.Attributes[name]; !ok || valued && has != value {
			return want
		}
	}
	return ""
}

func isUnoccupied(m *room, r *Spec) bool {
	if r.PerInstance == 0 {
		return true
	}
	n := m.placed
	for _, t := range m.view.Tasks {
		if t.Owner == r.Owner {
			n++
		}
	}
	return n < r.PerInstance
}

func hasPorts(m *room, r *Spec) bool { return len(r.Ports) == 0 || taken(m, r) == nil }

func explainPort(m *room, r *Spec) cluster.Rejection {
	p := taken(m, r)
	return cluster.Rejection{Detail: fmt.Sprintf("%d/%s", p.Number, p.Protocol)}
}

// taken is the first port of the request that is in use, be it by a task that this call placed.
func taken(m *room, r *Spec) *cluster.Port {
	for i, p := range r.Ports {
		if m.placed > 0 || m.view.Ports[p] > 0 {
			return &r.Ports[i]
		}
	}
	return nil
}

func hasCPU(m *room, r *Spec) bool { return m.cpu >= r.Needs.CPU }

func explainCPU(m *room, r *Spec) cluster.Rejection {
	return cluster.Rejection{Need: cpuUnits(r.Needs.CPU), Best: cpuUnits(m.cpu)}
}

func cpuUnits(cpu int64) float64 { return float64(cpu) / cluster.CPUUnit }

func hasMemory(m *room, r *Spec) bool { return m.memory >= r.Needs.Memory }

func explainMemory(m *room, r *Spec) cluster.Rejection {
	return cluster.Rejection{Need: float64(r.Needs.Memory), Best: float64(m.memory)}
}

func hasGPUs(m *room, r *Spec) bool {
	return r.Needs.GPUs == 0 || m.enough(r.Needs) >= r.Needs.GPUs
}

// explainGPU counts GPUs: a whole device needs one that is entirely free, a share the device with the most free.
func explainGPU(m *room, r *Spec) cluster.Rejection {
	per := float64(r.Needs.PerGPU()) / cluster.WholeGPU
	why := cluster.Rejection{Need: float64(r.Needs.GPUs) * per, Best: float64(m.enough(r.Needs)) * per}
	if r.Needs.GPUs == 1 && r.Needs.PerGPU() < cluster.WholeGPU {
		for _, free := range m.gpus {
			if free < cluster.WholeGPU {
				why.Best = max(why.Best, float64(free)/cluster.WholeGPU)
			}
		}
	}
	return why
}
