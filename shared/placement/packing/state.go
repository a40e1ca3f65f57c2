package packing

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// leftovers are the states that instances were seen in, by number from 1. Instances in the same
// state are worth the same.
type leftovers struct {
	all     []leftover
	arena   []int16
	slots   []int32 // an open hash table of their numbers
	scratch []int16
}

// leftover is what an instance of a pool has free.
type leftover struct {
	leftoverKey
	whole        int32 // devices that nobody holds a part of
	first, count int32 // the free thousandths of the others in the arena, the least first, those without any left out
	valued       bool
	value        float64
}

// leftoverKey tells states apart. The devices are in it as a hash in which their order does not
// count, and their sum.
type leftoverKey struct {
	devices     uint64
	cpu, memory int64
	pool        int32
	spare       int32 // free thousandths of all devices
}

// maxLeftovers bounds the memory; what was known is computed again when it is reached.
const maxLeftovers = 1 << 16

// slotBits makes the table at most half full.
const slotBits = 17

func (s *leftovers) full() bool { return len(s.all) > maxLeftovers }

func (s *leftovers) reset() {
	if s.slots == nil {
		s.slots = make([]int32, 1<<slotBits)
	}
	clear(s.slots)
	s.all = append(s.all[:0], leftover{}) // number 0 is none
	s.arena = s.arena[:0]
}

// find is the slot of the state, empty if it is new.
func (s *leftovers) find(k *leftoverKey) *int32 {
	h := k.devices + uint64(k.cpu)*0x9e3779b97f4a7c15 + uint64(k.memory)*0xc2b2ae3d27d4eb4f + uint64(k.pool)*0x165667b19e3779f9
	h = (h ^ h>>32) * 0xbf58476d1ce4e5b9
	for at := h >> (64 - slotBits); ; at = (at + 1) % (1 << slotBits) {
		if id := s.slots[at]; id == 0 || s.all[id].leftoverKey == *k {
			return &s.slots[at]
		}
	}
}

func (s *leftovers) parts(x *leftover) []int16 { return s.arena[x.first : x.first+x.count] }

// deviceMarks are what a device with so much free adds to the hash: numbers without a pattern.
var deviceMarks = func() (out [cluster.WholeGPU + 1]uint64) {
	for i := 1; i < len(out); i++ {
		z := uint64(i) * 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		out[i] = z ^ z>>31
	}
	return out
}()

// of is the state that an instance is in.
func (s *leftovers) of(pool int32, v *snapshot.InstanceView) int32 {
	k := leftoverKey{cpu: v.CPU, memory: v.Memory, pool: pool}
	whole := -v.Unpinned
	for _, free := range v.GPUs {
		if free >= cluster.WholeGPU {
			whole++
		} else if free > 0 {
			k.devices += deviceMarks[free]
			k.spare += int32(free)
		}
	}
	whole = max(0, whole)
	k.devices += deviceMarks[cluster.WholeGPU] * uint64(whole)
	k.spare += int32(whole) * cluster.WholeGPU
	slot := s.find(&k)
	if *slot == 0 {
		s.scratch = s.scratch[:0]
		for _, free := range v.GPUs {
			if free > 0 && free < cluster.WholeGPU {
				s.scratch = append(s.scratch, int16(free))
			}
		}
		*slot = s.add(k, int32(whole))
	}
	return *slot
}

// add takes in a state that is new, with its parts in scratch, those without anything free among
// them.
func (s *leftovers) add(k leftoverKey, whole int32) int32 {
	s.scratch = slices.DeleteFunc(s.scratch, func(free int16) bool { return free == 0 })
	slices.Sort(s.scratch)
	id := int32(len(s.all))
	s.all = append(s.all, leftover{leftoverKey: k, whole: whole, first: int32(len(s.arena)),
		count: int32(len(s.scratch))})
	s.arena = append(s.arena, s.scratch...)
	return id
}

// after is the state that a task with these needs, which must fit, leaves behind: it gets the
// devices that have the least free, as placement gives them.
func (s *leftovers) after(from int32, needs *cluster.Resources) int32 {
	x := &s.all[from]
	k := x.leftoverKey
	k.cpu -= needs.CPU
	k.memory -= needs.Memory
	whole, per := x.whole, needs.PerGPU()
	s.scratch = append(s.scratch[:0], s.parts(x)...)
	wanted := needs.GPUs
	for i, free := range s.scratch {
		if wanted > 0 && int(free) >= per {
			k.devices += deviceMarks[int(free)-per] - deviceMarks[free]
			s.scratch[i] -= int16(per)
			wanted--
		}
	}
	for ; wanted > 0; wanted-- {
		k.devices += deviceMarks[cluster.WholeGPU-per] - deviceMarks[cluster.WholeGPU]
		s.scratch = append(s.scratch, int16(cluster.WholeGPU-per))
		whole--
	}
	k.spare -= int32(needs.GPUs * per)
	slot := s.find(&k)
	if *slot == 0 {
		*slot = s.add(k, whole)
	}
	return *slot
}

// vcpuPerMiB weighs memory against CPU: 4 GiB count as much as one vCPU, the ratio of
// general-purpose instances.
const vcpuPerMiB = cluster.VCPU / 4096

// left is how much a state has free of everything, in terms of best fit: GPUs, and vCPUs with the
// memory next to them, 128 for one GPU.
func (s *leftovers) left(id int32) float64 {
	x := &s.all[id]
	return float64(x.spare)/cluster.WholeGPU + float64(x.cpu+x.memory*vcpuPerMiB)/(128*cluster.VCPU)
}
