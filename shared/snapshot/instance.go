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
	// Index is the instance's position in [Snapshot.InstancesByIndex] for as long as anything is known of it.
	Index int
	// StaticRev is another number whenever something changed that does not come and go with tasks:
	// the instance's row or its node type's configuration. No two instances of a snapshot ever have
	// the same.
	StaticRev uint64

	CPU    int64 // free, thousandths of a CPU unit
	Memory int64 // free, MiB
	GPUs   []int // free thousandths per device
	// Unpinned is how many devices are held by tasks of which Berth does not know which: foreign
	// ones.
	Unpinned int
	ENIs     int // free; math.MaxInt where no limit is known
	// Ports are the static host ports in use, those that the agent reserved included, in no order;
	// one stands here as often as it is held.
	Ports []cluster.Port
	// Loads and Limits are per metric (P9), by [Snapshot.MetricIndex]; where they are shorter, the
	// load is 0 and nothing limits it, as [InstanceView.Load] and [InstanceView.Limit] say.
	Loads  []int64
	Limits []cluster.Limit
	Tasks  []*cluster.Task // those that hold capacity, in no order

	snap     *Snapshot
	zone     *Zone // nil while unknown or gone
	reserved *cluster.Resources
}

// Reserved is the CPU, memory and ENIs kept free for tasks that are yet to come (S4), see
// [Snapshot.Reserve].
func (v *InstanceView) Reserved() cluster.Resources {
	if v.reserved == nil {
		return cluster.Resources{}
	}
	return *v.reserved
}

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

// setInstance makes i the instance's row; nil for none.
func (s *Snapshot) setInstance(v *InstanceView, i *cluster.Instance) {
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
		v.Ports = slices.Clip(v.Registered.Ports) // others have the same: to be copied before the first change
	}
	v.Limits = limitsOf(&s.Configuration, &s.metricSet, v)
	clear(v.Loads)
	for _, t := range v.Tasks {
		v.countHeld(t, 1)
		s.countLoads(v, s.owners[t.Owner], t, 1)
	}
}

// HasFree reports whether the instance has as much CPU, memory, network interfaces and devices that
// no task holds: whatever else may be in the way.
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

// countHeld adds (1) or takes back (-1) what the task holds, loads aside.
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
