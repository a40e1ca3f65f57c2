package packing

import "berth/shared/cluster"

// A demandMix has the tasks that may come to the instances of one pool, prepared for
// [demandMix.wasteOfShape].
type demandMix struct {
	portions []portion
	rows     []mixRow
}

// A portion is the rows with the same share of each device.
type portion struct {
	per        int
	first, end int
}

// A mixRow is one kind of task. The weights of a mix add up to 1.
type mixRow struct {
	weight      float64
	cpu, memory float64
	// perCPU and perMemory are the GPU thousandths that the kind takes with each unit of CPU and
	// memory.
	perCPU, perMemory float64
	gpus              int
	size              float64 // GPU thousandths of one task
}

const (
	// idleWeight is how much GPU counts that idles for lack of CPU and memory, against GPU that is
	// lost to a kind.
	idleWeight = 0.75
	// stuckWeight is how much it counts if nearly all kinds leave the GPU idle.
	stuckWeight = 4
)

// wasteOfShape says how badly the free capacity can be used, in GPU thousandths: 0 if every kind
// could use all of it. With F thousandths free, for each kind
//
//   - lost is what is free on devices that cannot take one more task of it, or F if the instance
//     cannot
//   - idle is what remains after filling the instance with tasks of it, up to the last CPU, MiB or
//     device
//
// and the waste is lost + 0.75·idle + 4·F·(idle/F)^32, with the means of lost and idle by weight.
// The power makes capacity that hardly any kind can use weigh the most.
//
// Example: a device has 700 thousandths free, with plenty of CPU and memory. Half of the tasks need
// 500, the others 1000. For the first kind, lost and idle are 0; for the second, both are 700. The
// means are 350, and the waste is about 350 + 0.75·350 = 612.
func (m *demandMix) wasteOfShape(shape *freeShape, parts []int16) float64 {
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

// usableDevices returns how much is free on devices with at least per thousandths free, and how
// many those are.
func usableDevices(shape *freeShape, parts []int16, per int) (usable float64, devices int) {
	sum := int(shape.wholeDevices) * cluster.WholeGPU
	devices = int(shape.wholeDevices)
	for i := len(parts) - 1; i >= 0 && int(parts[i]) >= per; i-- {
		sum += int(parts[i])
		devices++
	}
	return float64(sum), devices
}
