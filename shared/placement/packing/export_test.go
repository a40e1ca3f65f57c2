package packing

import (
	"fmt"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// The rows of the tests in this package, for those that need the engine as well.
var (
	GPUInstance = gpuInstance
	GPUTask     = gpuTask
	GenGPUNeeds = genGPUNeeds
)

// StateOf returns the number of the state that the instance is in.
func (p *Scorer) StateOf(v *snapshot.InstanceView) int32 { return p.states.of(p.mix.poolOf(v), v) }

// StateAfter returns the number of the state that a task leaves behind.
func (p *Scorer) StateAfter(from int32, needs *cluster.Resources) int32 {
	return p.states.after(from, needs)
}

// Free returns what the state has free, in thousandths, and on how many devices.
func (p *Scorer) Free(id int32) (milli, devices int) {
	s := &p.states.all[id]
	return int(s.spare), int(s.whole) + len(p.states.parts(s))
}

// Describe returns the state in words.
func (p *Scorer) Describe(id int32) string {
	s := &p.states.all[id]
	return fmt.Sprintf("%+v with %v", *s, p.states.parts(s))
}
