package snapshot

import (
	"math"
	"slices"

	"berth/shared/cluster"
)

// An InstanceView is an instance with what its tasks leave free.
type InstanceView struct {
	*cluster.Instance // nil while only its tasks are known
	ID                string
	// Index is the instance's position in [Snapshot.InstancesByIndex]. It stays the same as long as
	// the instance is in the snapshot.
	Index int
	// StaticRev changes with the instance's row and its node type's configuration, not with its
	// tasks. No two instances of a snapshot ever have the same.
	StaticRev uint64

	CPU    int64 // free, thousandths of a CPU unit
	Memory int64 // free, MiB
	GPUs   []int // free thousandths per device
	// Unpinned counts devices held by foreign tasks, of which ECS does not say which they have.
	Unpinned int
	ENIs     int // free; math.MaxInt where no limit is known
	// Ports are the static host ports in use, including those that the agent reserves, in no order.
	// A port that two tasks hold is listed twice.
	Ports []cluster.Port
	// Loads and Limits are per metric (P9), by [Snapshot.MetricIndex]. For an index beyond their
	// end, the load is 0 and there is no limit; use [InstanceView.Load] and [InstanceView.Limit].
	Loads  []int64
	Limits []cluster.Limit
	Tasks  []*cluster.Task // those that hold capacity, in no order

	snap     *Snapshot
	zone     *Zone // nil while unknown or gone
	reserved *cluster.Resources
}

// ReservedCapacity returns the CPU, memory and ENIs that [Snapshot.Reserve] keeps free on the
// instance (S4).
func (v *InstanceView) ReservedCapacity() cluster.Resources {
	if v.reserved == nil {
		return cluster.Resources{}
	}
	return *v.reserved
}

// putInstance stores an instance's row. If ECS reports the same as before, nothing is derived anew.
func (s *Snapshot) putInstance(i *cluster.Instance) bool {
	v := s.viewOf(s, i.ID)
	if v.Instance != nil && v.Instance.Rev >= i.Rev {
		return false
	}
	s.interner.internInstance(i)
	i.ID = v.ID
	if v.Instance != nil && v.SameReport(i) && v.RegisteredAt == i.RegisteredAt {
		v.Instance = i
		return true
	}
	s.setInstance(v, i)
	return true
}

// setInstance replaces the instance's row; nil removes it.
func (s *Snapshot) setInstance(v *InstanceView, i *cluster.Instance) {
	if v.Instance != nil && v.CapacityProvider() != "" {
		s.provided--
	}
	if i != nil && i.CapacityProvider() != "" {
		s.provided++
	}
	v.Instance = i
	s.updateZone(v)
	s.recountCapacity(v)
	s.markChanged(v)
}

// recountCapacity derives what is free from the registered capacity and the tasks.
func (s *Snapshot) recountCapacity(v *InstanceView) {
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
		v.Ports = slices.Clip(v.Registered.Ports) // like instances share this slice, so appending must copy it
	}
	v.Limits = limitsOf(&s.Configuration, &s.metricSet, v)
	clear(v.Loads)
	for _, t := range v.Tasks {
		v.countHeld(t, 1)
		s.countLoads(v, s.owners[t.Owner], t, 1)
	}
}

// HasFree reports whether the instance has so much CPU, memory, network interfaces and GPUs free.
// It ignores reservations and everything else that may keep a task away.
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

// countHeld adds (sign 1) or subtracts (-1) what the task holds on the instance, except loads.
func (v *InstanceView) countHeld(t *cluster.Task, sign int) {
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

// UsesPort reports whether a static host port is taken.
func (v *InstanceView) UsesPort(p cluster.Port) bool { return slices.Contains(v.Ports, p) }
