package packing

import "berth/shared/cluster"

// demandMix is the mix of tasks that may come to the instances of one pool, ready for [blend.value].
type demandMix struct {
	portions []portion
	rows     []mixRow
}

// portion are the rows that need the same share of each device.
type portion struct {
	per        int
	first, end int
}

// mixRow is one kind of task. The weights of a blend add up to 1.
type mixRow struct {
	weight            float64
	cpu, memory       float64
	perCPU, perMemory float64 // GPU thousandths that the kind takes with each unit
	gpus              int
	size              float64 // GPU thousandths of one task
}

const (
	// idleWeight is how much GPU that CPU and memory cannot fill counts against GPU that is lost to
	// a kind.
	idleWeight = 0.75
	// stuckWeight is how much it counts that nearly all kinds leave the GPU idle.
	stuckWeight = 4
)

// wasteOf says how badly what is free can be used, in GPU thousandths: 0 where nothing is free, or
// where each kind could take all of it. With F free, for each kind
//
//   - lost is what lies on devices that cannot take one more task of it; F where the instance
//     cannot
//   - idle is what is left when the instance is filled with tasks of it up to the last CPU, MiB or
//     device
//
// and the value is lost + 0.75·idle + 4·F·(idle/F)^32, with lost and idle the means by weight. The
// power has what hardly any kind can use weigh the most.
func (m *demandMix) wasteOf(shape *freeShape, parts []int16) float64 {
	free := float64(shape.freeMilli)
	cpu, memory := float64(shape.cpu), float64(shape.memory)
	lost, idle := 0.0, 0.0
	for _, q := range m.portions {
		usable, devices := usableDevices(shape, parts, q.per)
		for i := q.first; i < q.end; i++ {
			r := &m.rows[i]
			if devices < r.gpus || cpu < r.cpu || memory < r.memory {
				lost += r.weight * free
				idle += r.weight * free
				continue
			}
			most := usable
			if r.gpus > 1 {
				most = float64(devices/r.gpus) * r.size
			}
			lost += r.weight * (free - usable)
			idle += r.weight * (free - min(cpu*r.perCPU, memory*r.perMemory, most))
		}
	}
	stuck := idle / free
	for range 5 { // to the 32nd power
		stuck *= stuck
	}
	return lost + idleWeight*idle + stuckWeight*free*stuck
}

// usableDevices is how much is free on devices with at least so much free, and how many they are.
func usableDevices(shape *freeShape, parts []int16, per int) (usable float64, devices int) {
	sum := int(shape.wholeDevices) * cluster.WholeGPU
	devices = int(shape.wholeDevices)
	for i := len(parts) - 1; i >= 0 && int(parts[i]) >= per; i-- {
		sum += int(parts[i])
		devices++
	}
	return float64(sum), devices
}
