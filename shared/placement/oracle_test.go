package placement_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// oracle places as S2 says, the slow way: for every single task it goes through all rows, derives what each instance
// has left, sorts those that can take the task and makes a row of the best.
type oracle struct {
	world
	request placement.Request
	made    int
}

// left is what an instance has, less what the rows hold on it.
type left struct {
	cpu, memory int64
	gpus        []int
	unpinned    int
	ports       map[cluster.Port]bool
	occupants   int // tasks of the owner that hold something here
	spread      int // those that count for spreading
	made        int // by the oracle
}

func (o *oracle) left(i *cluster.Instance) left {
	l := left{cpu: i.Registered.CPU, memory: i.Registered.Memory, ports: map[cluster.Port]bool{}}
	for range i.Registered.GPUs {
		l.gpus = append(l.gpus, 1000)
	}
	for _, p := range i.Registered.Ports {
		l.ports[p] = true
	}
	for _, t := range o.tasks {
		if t.Instance != i.ID || t.Last == cluster.TaskStopped {
			continue
		}
		l.cpu -= t.Needs.CPU
		l.memory -= t.Needs.Memory
		for _, d := range t.GPUs {
			l.gpus[d] -= t.Needs.PerGPU()
		}
		if len(t.GPUs) == 0 {
			l.unpinned += t.Needs.GPUs
		}
		for _, p := range t.Ports {
			l.ports[p] = true
		}
		if t.Owner == o.request.Spec.Owner && (o.request.Spec.Group == "" || o.request.Spec.Group == t.Group) {
			l.occupants++
		}
		if o.counts(t) {
			l.spread++
		}
		if t.Reason == "oracle" {
			l.made++
		}
	}
	return l
}

func (o *oracle) counts(t *cluster.Task) bool {
	return t.Owner == o.request.Spec.Owner && (o.request.Spec.Group == "" || o.request.Spec.Group == t.Group) && t.Instance != "" &&
		t.Desired == cluster.TaskRunning && t.Last != cluster.TaskStopping && t.Last != cluster.TaskStopped
}

func (o *oracle) candidates() []*cluster.Instance {
	var out []*cluster.Instance
	for _, i := range o.instances {
		if i.Status != cluster.InstanceInactive && (o.request.Instances == nil || slices.Contains(o.request.Instances, i.ID)) {
			out = append(out, i)
		}
	}
	return out
}

func (o *oracle) zoneCount(name string) int {
	n := 0
	for _, t := range o.tasks {
		i := o.find(t.Instance)
		if o.counts(t) && i != nil && i.Status != cluster.InstanceInactive && i.Attributes[cluster.AttributeZone] == name {
			n++
		}
	}
	return n
}

// refusals are all filters that refuse, in order, each with the detail it goes by.
func (o *oracle) refusals(i *cluster.Instance, l left) []string {
	var out []string
	refuse := func(is bool, f cluster.Filter, detail string) {
		if is {
			out = append(out, strings.TrimSpace(string(f)+" "+detail))
		}
	}
	r := o.request
	refuse(i.Status != cluster.InstanceActive, cluster.FilterStatus, string(i.Status))
	refuse(!i.AgentConnected, cluster.FilterAgent, "")
	absent := slices.IndexFunc(r.Spec.Attributes, func(a string) bool {
		disk, has := i.Attributes["disk"]
		return !has || a != "disk" && a != "disk="+disk
	})
	if absent >= 0 {
		refuse(true, cluster.FilterAttribute, r.Spec.Attributes[absent])
	}
	refuse(r.Spec.PerInstance > 0 && l.occupants >= r.Spec.PerInstance, cluster.FilterOccupied, "")
	used := slices.IndexFunc(r.Spec.Ports, func(p cluster.Port) bool { return l.ports[p] })
	if used >= 0 {
		refuse(true, cluster.FilterPort, fmt.Sprintf("%d/%s", r.Spec.Ports[used].Number, r.Spec.Ports[used].Protocol))
	}
	refuse(l.cpu < r.Spec.Needs.CPU, cluster.FilterCPU, "")
	refuse(l.memory < r.Spec.Needs.Memory, cluster.FilterMemory, "")
	refuse(r.Spec.Needs.GPUs > 0 && o.devices(l) == nil, cluster.FilterGPU, "")
	return out
}

// devices are the positions for one task, nil if there are not enough: the fullest that still fit, of the devices
// that nobody uses as many left alone as tasks hold without saying which.
func (o *oracle) devices(l left) []int {
	var order, free []int
	for d, milli := range l.gpus {
		if milli == 1000 {
			free = append(free, d)
		} else if milli >= o.request.Spec.Needs.PerGPU() {
			order = append(order, d)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return l.gpus[a] - l.gpus[b] })
	order = append(order, free[:max(0, len(free)-l.unpinned)]...)
	if len(order) < o.request.Spec.Needs.GPUs {
		return nil
	}
	order = order[:o.request.Spec.Needs.GPUs]
	slices.Sort(order)
	return order
}

// next is the best instance for one more task, nil if none can take it.
func (o *oracle) next() *cluster.Instance {
	feasible := o.candidates()
	feasible = slices.DeleteFunc(feasible, func(i *cluster.Instance) bool { return len(o.refusals(i, o.left(i))) > 0 })
	if len(feasible) == 0 {
		return nil
	}
	return slices.MinFunc(feasible, func(a, b *cluster.Instance) int {
		x, y := o.left(a), o.left(b)
		if o.request.Instances != nil {
			wish := func(i *cluster.Instance) int { return slices.Index(o.request.Instances, i.ID) }
			return cmp.Or(x.made-y.made, wish(a)-wish(b))
		}
		spare := func(l left) (n int) {
			for _, milli := range l.gpus {
				n += milli
			}
			return n
		}
		return cmp.Or(
			o.zoneCount(a.Attributes[cluster.AttributeZone])-o.zoneCount(b.Attributes[cluster.AttributeZone]),
			x.spread-y.spread, spare(x)-spare(y),
			cmp.Compare(x.cpu/250+x.memory, y.cpu/250+y.memory), cmp.Compare(a.ID, b.ID))
	})
}

func (o *oracle) place() []placement.Placement {
	var out []placement.Placement
	for len(out) < o.request.Count {
		i := o.next()
		if i == nil {
			break
		}
		p := placement.Placement{Instance: i.ID, GPUs: o.devices(o.left(i))}
		if o.request.Spec.Needs.GPUs == 0 {
			p.GPUs = nil
		}
		out = append(out, p)
		o.put(p)
	}
	return out
}

func (o *oracle) put(p placement.Placement) {
	o.made++
	o.tasks = append(o.tasks, &cluster.Task{
		Head: cluster.Head{Cluster: "c", Rev: 1}, ID: fmt.Sprintf("new-%02d", o.made), Owner: o.request.Spec.Owner,
		Group: o.request.Spec.Group, Instance: p.Instance, GPUs: p.GPUs, Needs: o.request.Spec.Needs, Ports: o.request.Spec.Ports,
		Desired: cluster.TaskRunning, Reason: "oracle",
	})
}

// histogram is what a diagnosis must say, as text per filter and detail, once the oracle can place no more.
func (o *oracle) histogram() map[string]int {
	out := map[string]int{}
	for _, i := range o.candidates() {
		out[o.refusals(i, o.left(i))[0]]++
	}
	return out
}

// stopOracle chooses what to stop the slow way: it sorts all that is left after each choice.
func stopOracle(w *world, candidates []*cluster.Task, n int) []*cluster.Task {
	o := &oracle{world: *w, request: placement.Request{Spec: &placement.Spec{Owner: "web"}}}
	o.tasks = slices.Clone(w.tasks)
	rest := slices.DeleteFunc(slices.Clone(candidates), func(t *cluster.Task) bool {
		return t.Desired == cluster.TaskStopped || t.Last == cluster.TaskStopping || t.Last == cluster.TaskStopped
	})
	kind := func(t *cluster.Task) int {
		return map[bool]int{true: 0, false: map[bool]int{false: 1, true: 2}[t.Last == cluster.TaskRunning]}[t.Instance == ""]
	}
	fill := func(t *cluster.Task) (zone, instance int) {
		for _, x := range o.tasks {
			if o.counts(x) && x.Instance == t.Instance {
				instance++
			}
		}
		if i := o.find(t.Instance); i != nil && i.Status != cluster.InstanceInactive {
			return o.zoneCount(i.Attributes[cluster.AttributeZone]), instance
		}
		return -1, instance
	}
	var out []*cluster.Task
	for len(out) < n && len(rest) > 0 {
		next := slices.MinFunc(rest, func(a, b *cluster.Task) int {
			az, ai := fill(a)
			bz, bi := fill(b)
			return cmp.Or(kind(a)-kind(b), bz-az, bi-ai, b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
		})
		out = append(out, next)
		is := func(t *cluster.Task) bool { return t == next }
		rest, o.tasks = slices.DeleteFunc(rest, is), slices.DeleteFunc(o.tasks, is)
	}
	return out
}
