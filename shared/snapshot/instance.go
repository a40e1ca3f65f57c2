package snapshot

import (
	"math"
	"slices"

	"berth/shared/cluster"
)

// InstanceView is an instance with what its tasks hold of it.
type InstanceView struct {
	*cluster.Instance // nil while only its tasks are known
	ID                string
	// Index is the instance's position in [Snapshot.Dense] for as long as anything is known of it.
	Index int
	// StaticRev is another number whenever something changed that does not come and go with tasks: the instance's row
	// or its node type's configuration. No two instances of a snapshot ever have the same.
	StaticRev uint64

	CPU    int64 // free, thousandths of a CPU unit
	Memory int64 // free, MiB
	GPUs   []int // free thousandths per device
	// Unpinned is how many devices are held by tasks of which Berth does not know which: foreign ones.
	Unpinned int
	ENIs     int // free; math.MaxInt where no limit is known
	// Ports are the static host ports in use, those that the agent reserved included, in no order; one stands here as
	// often as it is held.
	Ports []cluster.Port
	// Loads and Limits are per metric (P9), by [Snapshot.MetricIndex]; where they are shorter, the load is 0 and nothing
	// limits it, as [InstanceView.Load] and [InstanceView.Limit] say.
	Loads  []int64
	Limits []cluster.Limit
	Tasks  []*cluster.Task // those that hold capacity, in no order

	snap     *Snapshot
	zone     *Zone // nil while unknown or gone
	reserved *cluster.Resources
}

// Reserved is the CPU, memory and ENIs kept free for tasks that are yet to come (S4), see [Snapshot.Reserve].
func (v *InstanceView) Reserved() cluster.Resources {
	if v.reserved == nil {
		return cluster.Resources{}
	}
	return *v.reserved
}

// Dense are the instances by [InstanceView.Index]; nil where a position is free. The caller changes nothing.
func (s *Snapshot) Dense() []*InstanceView { return s.dense }

func (s *Snapshot) view(id string) *InstanceView {
	v := s.Instances[id]
	if v != nil {
		return v
	}
	v = &InstanceView{ID: id, snap: s, Index: len(s.dense)}
	if last := len(s.free) - 1; last >= 0 {
		v.Index, s.free = s.free[last], s.free[:last]
		s.dense[v.Index] = v
	} else {
		s.dense = append(s.dense, v)
	}
	s.Instances[id] = v
	s.recast(v)
	return v
}

// forget drops the view of an instance of which nothing is known any more.
func (s *Snapshot) forget(v *InstanceView) {
	if v.Instance == nil && len(v.Tasks) == 0 {
		delete(s.Instances, v.ID)
		s.dense[v.Index] = nil
		s.free = append(s.free, v.Index)
	}
}

// recast notes that more of the instance changed than its tasks.
func (s *Snapshot) recast(v *InstanceView) {
	s.statics++
	v.StaticRev = s.statics
	s.journal.add(v.Index, "")
}

func (s *Snapshot) putInstance(i *cluster.Instance) bool {
	v := s.view(i.ID)
	if v.Instance != nil && v.Rev >= i.Rev {
		return false
	}
	s.pool.row(i)
	i.ID = v.ID
	if v.Instance != nil && v.Same(i) && v.RegisteredAt == i.RegisteredAt {
		v.Instance = i
		return true
	}
	s.setInstance(v, i)
	return true
}

// setInstance makes i the instance's row; nil for none.
func (s *Snapshot) setInstance(v *InstanceView, i *cluster.Instance) {
	v.Instance = i
	s.settle(v)
	s.recount(v)
	s.recast(v)
}

// recount derives what is free from the registered capacity and the tasks.
func (s *Snapshot) recount(v *InstanceView) {
	v.CPU, v.Memory, v.GPUs, v.Unpinned, v.ENIs, v.Ports = 0, 0, nil, 0, 0, nil
	if v.Instance != nil {
		v.CPU, v.Memory, v.ENIs = v.Registered.CPU, v.Registered.Memory, math.MaxInt
		if v.Registered.ENIs != nil {
			v.ENIs = *v.Registered.ENIs
		}
		v.GPUs = make([]int, len(v.Registered.GPUs))
		for i := range v.GPUs {
			v.GPUs[i] = cluster.WholeGPU
		}
		v.Ports = slices.Clip(v.Registered.Ports) // others have the same: to be copied before the first change
	}
	v.Limits = s.limits(v)
	clear(v.Loads)
	for _, t := range v.Tasks {
		v.hold(t, 1)
		s.load(v, s.owners[t.Owner], t, 1)
	}
}

// HasFree reports whether the instance has as much CPU, memory, network interfaces and devices that no task holds: whatever else
// may be in the way.
func (v *InstanceView) HasFree(r cluster.Resources) bool {
	if v.CPU < r.CPU || v.Memory < r.Memory || v.ENIs < int(r.ENIs) && v.Instance != nil && v.Registered.ENIs != nil {
		return false
	}
	want, devices := cluster.WholeGPU, 0
	if r.GPUMilli > 0 {
		want = int(r.GPUMilli)
	}
	for _, free := range v.GPUs {
		if free >= want {
			devices++
		}
	}
	return devices >= r.GPUs
}

// hold adds (1) or takes back (-1) what the task holds, loads aside.
func (v *InstanceView) hold(t *cluster.Task, sign int) {
	v.CPU -= int64(sign) * t.Needs.CPU
	v.Memory -= int64(sign) * t.Needs.Memory
	if v.Instance == nil || v.Registered.ENIs != nil {
		v.ENIs -= sign * int(t.Needs.ENIs)
	}
	if len(t.GPUs) == 0 {
		v.Unpinned += sign * t.Needs.GPUs
	}
	for _, g := range t.GPUs {
		if g < len(v.GPUs) {
			v.GPUs[g] -= sign * t.Needs.PerGPU()
		}
	}
	if sign > 0 {
		v.Ports = append(v.Ports, t.Ports...)
		return
	}
	for _, p := range t.Ports {
		last := len(v.Ports) - 1
		v.Ports[slices.Index(v.Ports, p)] = v.Ports[last]
		v.Ports = v.Ports[:last]
	}
}

// Uses reports whether a static host port is taken.
func (v *InstanceView) Uses(p cluster.Port) bool { return slices.Contains(v.Ports, p) }

// Reserve keeps CPU, memory and ENIs of instances free for an owner's tasks that are yet to come, in place of what was kept
// for it before. Placement gives them to nobody, the owner included.
func (s *Snapshot) Reserve(owner string, on map[*InstanceView]cluster.Resources) {
	old := s.reserved[owner]
	for v, was := range old {
		if on[v] != was {
			s.withhold(v, was, owner, -1)
		}
	}
	for v, is := range on {
		if old[v] != is {
			s.withhold(v, is, owner, 1)
		}
	}
	delete(s.reserved, owner)
	if len(on) > 0 {
		s.reserved[owner] = on
	}
}

// Reservations is what is kept free for an owner, by instance. The caller changes nothing.
func (s *Snapshot) Reservations(owner string) map[*InstanceView]cluster.Resources {
	return s.reserved[owner]
}

func (s *Snapshot) withhold(v *InstanceView, what cluster.Resources, owner string, sign int) {
	if v.reserved == nil {
		v.reserved = new(cluster.Resources) // few instances ever have any
	}
	v.reserved.CPU += int64(sign) * what.CPU
	v.reserved.Memory += int64(sign) * what.Memory
	v.reserved.ENIs += int32(sign) * what.ENIs
	if s.Instances[v.ID] == v {
		s.journal.add(v.Index, owner)
	}
}
