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
func (s *Scorer) StateOf(v *snapshot.InstanceView) int32 {
	return s.shapes.shapeNumberOf(s.mix.poolOfInstance(v), v)
}

// StateAfter returns the number of the state that a task leaves behind.
func (s *Scorer) StateAfter(from int32, needs *cluster.Resources) int32 {
	return s.shapes.shapeAfterTask(from, needs)
}

// Free returns what the state has free, in thousandths, and on how many devices.
func (s *Scorer) Free(id int32) (milli, devices int) {
	shape := &s.shapes.all[id]
	return int(shape.freeMilli), int(shape.wholeDevices) + len(s.shapes.partialDevices(shape))
}

// Describe returns the state in words.
func (s *Scorer) Describe(id int32) string {
	shape := &s.shapes.all[id]
	return fmt.Sprintf("%+v with %v", *shape, s.shapes.partialDevices(shape))
}
