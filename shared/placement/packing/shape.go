package packing

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// freeShapes has the different shapes of what instances have free, numbered from 1. Instances with
// the same shape have the same scores.
type freeShapes struct {
	all     []freeShape
	arena   []int16 // partial devices of all shapes
	slots   []int32 // an open hash table of their numbers
	scratch []int16
}

// A freeShape is what an instance of a pool has free.
type freeShape struct {
	freeShapeKey
	wholeDevices int32 // devices without any task
	// first and count locate the free thousandths of the other devices in the arena, in ascending
	// order, without those that have none.
	first, count int32
	wasteKnown   bool
	waste        float64
}

// A freeShapeKey identifies a shape. The devices are in it as a hash that ignores their order, and
// as their sum.
type freeShapeKey struct {
	devices     uint64
	cpu, memory int64
	pool        int32
	freeMilli   int32 // free thousandths of all devices
}

// maxShapes bounds the memory. All shapes are computed again when it is reached.
const maxShapes = 1 << 16

// slotBits keeps the table at most half full.
const slotBits = 17

func (f *freeShapes) hasReachedLimit() bool { return len(f.all) > maxShapes }

func (f *freeShapes) resetShapes() {
	if f.slots == nil {
		f.slots = make([]int32, 1<<slotBits)
	}
	clear(f.slots)
	f.all = append(f.all[:0], freeShape{}) // number 0 is none
	f.arena = f.arena[:0]
}

// findShapeSlot returns the slot of the shape, which is 0 if it is new.
func (f *freeShapes) findShapeSlot(k *freeShapeKey) *int32 {
	h := k.devices + uint64(k.cpu)*0x9e3779b97f4a7c15 + uint64(k.memory)*0xc2b2ae3d27d4eb4f +
		uint64(k.pool)*0x165667b19e3779f9
	h = (h ^ h>>32) * 0xbf58476d1ce4e5b9
	for at := h >> (64 - slotBits); ; at = (at + 1) % (1 << slotBits) {
		if id := f.slots[at]; id == 0 || f.all[id].freeShapeKey == *k {
			return &f.slots[at]
		}
	}
}

func (f *freeShapes) partialDevices(shape *freeShape) []int16 {
	return f.arena[shape.first : shape.first+shape.count]
}

// deviceMarks[n] is what a device with n thousandths free adds to the hash: numbers without a
// pattern, each made from the one before. If they were made from n alone, some mark of 2n would be
// twice that of n, and two devices with 73 free would equal one with 146 and one with none.
var deviceMarks = func() (out [cluster.WholeGPU + 1]uint64) {
	for i := 1; i < len(out); i++ {
		z := out[i-1] + 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		out[i] = z ^ z>>31
	}
	return out
}()

// shapeNumberOf returns the number of the instance's shape.
func (f *freeShapes) shapeNumberOf(pool int32, v *snapshot.InstanceView) int32 {
	k := freeShapeKey{cpu: v.CPU, memory: v.Memory, pool: pool}
	whole := -v.Unpinned
	for _, free := range v.GPUs {
		if free >= cluster.WholeGPU {
			whole++
		} else if free > 0 {
			k.devices += deviceMarks[free]
			k.freeMilli += int32(free)
		}
	}
	whole = max(0, whole)
	k.devices += deviceMarks[cluster.WholeGPU] * uint64(whole)
	k.freeMilli += int32(whole) * cluster.WholeGPU
	slot := f.findShapeSlot(&k)
	if *slot == 0 {
		f.scratch = f.scratch[:0]
		for _, free := range v.GPUs {
			if free > 0 && free < cluster.WholeGPU {
				f.scratch = append(f.scratch, int16(free))
			}
		}
		*slot = f.addNewShape(k, int32(whole))
	}
	return *slot
}

// addNewShape adds a new shape whose partial devices are in scratch.
func (f *freeShapes) addNewShape(k freeShapeKey, whole int32) int32 {
	slices.Sort(f.scratch)
	id := int32(len(f.all))
	f.all = append(f.all, freeShape{freeShapeKey: k, wholeDevices: whole, first: int32(len(f.arena)),
		count: int32(len(f.scratch))})
	f.arena = append(f.arena, f.scratch...)
	return id
}

// shapeAfterTask returns the number of the shape that remains after a task with these needs, which
// must fit. The task gets the devices with the least free, as placement assigns them.
func (f *freeShapes) shapeAfterTask(from int32, needs *cluster.Resources) int32 {
	shape := &f.all[from]
	k := shape.freeShapeKey
	k.cpu -= needs.CPU
	k.memory -= needs.Memory
	whole, per := shape.wholeDevices, needs.PerGPU()
	f.scratch = append(f.scratch[:0], f.partialDevices(shape)...)
	wanted := needs.GPUs
	for i, free := range f.scratch {
		if wanted > 0 && int(free) >= per {
			k.devices += deviceMarks[int(free)-per] - deviceMarks[free]
			f.scratch[i] -= int16(per)
			wanted--
		}
	}
	for ; wanted > 0; wanted-- {
		k.devices += deviceMarks[cluster.WholeGPU-per] - deviceMarks[cluster.WholeGPU]
		f.scratch = append(f.scratch, int16(cluster.WholeGPU-per))
		whole--
	}
	k.freeMilli -= int32(needs.GPUs * per)
	slot := f.findShapeSlot(&k)
	if *slot == 0 {
		*slot = f.addNewShape(k, whole)
	}
	return *slot
}

// VCPUPerMiB weighs memory against CPU: 4 GiB count as much as one vCPU, the ratio of
// general-purpose instances.
const VCPUPerMiB = cluster.VCPU / 4096

// freeInGPUs returns all that a shape has free as one number, in GPUs: 128 vCPUs, or the memory
// that goes with them, count as one GPU.
func (f *freeShapes) freeInGPUs(id int32) float64 {
	shape := &f.all[id]
	return float64(shape.freeMilli)/cluster.WholeGPU + float64(shape.cpu+shape.memory*VCPUPerMiB)/(128*cluster.VCPU)
}
