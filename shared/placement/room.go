package placement

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
)

// room is what an instance has left while a call of Place hands it out.
type room struct {
	view   *cluster.InstanceView
	cpu    int64
	memory int64
	gpus   []int // the view's own until the first task is placed here
	placed int   // by this call

	tasks int // of the owner, those placed by this call included
	wish  int // position in the order of wish
	spare int // GPU thousandths free
}

// reset makes m the room of an instance before anything is placed there.
func (m *room) reset(v *cluster.InstanceView) {
	*m = room{view: v, cpu: v.CPU, memory: v.Memory, gpus: v.GPUs, spare: sum(v.GPUs)}
}

// before reports whether a task had better go here than to o; the lower id decides between equals.
func (m *room) before(o *room) bool {
	c := m.compare(o)
	return c < 0 || c == 0 && m.view.ID < o.view.ID
}

// compare is negative where a task had better go here than to o: where the owner has fewer tasks (S2). Between equals it
// goes where fewer GPUs are free, so that tasks without a GPU keep off the instances that have one to give, and tasks
// with one fill those already in use; then where the least CPU and memory is left, so that larger tasks still find
// room elsewhere.
func (m *room) compare(o *room) int {
	switch {
	case m.tasks != o.tasks:
		return m.tasks - o.tasks
	case m.wish != o.wish:
		return m.wish - o.wish
	case m.spare != o.spare:
		return m.spare - o.spare
	}
	return cmp.Compare(m.left(), o.left())
}

// vcpuPerMiB weighs memory against CPU: 4 GiB count as much as one vCPU, the ratio of general-purpose instances.
const vcpuPerMiB = cluster.VCPU / 4096

func (m *room) left() int64 { return m.cpu + m.memory*vcpuPerMiB }

// take gives the room to one task and returns the devices it gets.
func (m *room) take(r *Spec) []int {
	m.cpu -= r.Needs.CPU
	m.memory -= r.Needs.Memory
	m.placed++
	m.tasks++
	devices := m.devices(r.Needs)
	if len(devices) > 0 {
		m.gpus = slices.Clone(m.gpus)
		for _, d := range devices {
			m.gpus[d] -= r.Needs.PerGPU()
		}
		m.spare = sum(m.gpus)
	}
	return devices
}

// entire is how many devices nobody holds any part of and a task may be given, those that tasks hold somewhere
// unknown taken off.
func (m *room) entire() int {
	n := 0
	for _, free := range m.gpus {
		if free >= cluster.WholeGPU {
			n++
		}
	}
	return max(0, n-m.view.Unpinned)
}

// enough is how many devices have the share that the task needs of each.
func (m *room) enough(needs cluster.Resources) int {
	n := m.entire()
	for _, free := range m.gpus {
		if free < cluster.WholeGPU && free >= needs.PerGPU() {
			n++
		}
	}
	return n
}

// devices are the positions the task gets, in order: the devices with the least free that is enough, the lower
// position first. A whole device is always one that nobody else holds a part of.
func (m *room) devices(needs cluster.Resources) []int {
	if needs.GPUs == 0 {
		return nil
	}
	var fit []int
	for i, free := range m.gpus {
		if free >= needs.PerGPU() {
			fit = append(fit, i)
		}
	}
	slices.SortStableFunc(fit, func(a, b int) int { return cmp.Compare(m.gpus[a], m.gpus[b]) })
	fit = fit[:needs.GPUs]
	slices.Sort(fit)
	return fit
}

func sum(values []int) int {
	n := 0
	for _, v := range values {
		n += v
	}
	return n
}
