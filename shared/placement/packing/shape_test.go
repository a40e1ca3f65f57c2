package packing

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/snapshot"
	"berth/tests/gpurows"
)

// The shape that a score expects after a task is the instance's shape once the task is there. The
// devices are those that gpurows.Devices says; the tests of placement check that its engine assigns
// the same.
func TestShapeAfterTaskIsTheInstancesShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshot.NewSnapshot()
		s.Put(gpurows.Instance("i", 512, rapid.IntRange(1, 8).Draw(t, "gpus"), "T4"))
		p := newEpoch(s)
		shapeOf := func(v *snapshot.InstanceView) int32 { return p.shapes.shapeNumberOf(p.mix.poolOfInstance(v), v) }
		describe := func(shape int32) string {
			x := &p.shapes.all[shape]
			return fmt.Sprintf("%+v with %v", *x, p.shapes.partialDevices(x))
		}
		for n := range rapid.IntRange(1, 20).Draw(t, "tasks") {
			v := s.Instances["i"]
			from, needs := shapeOf(v), gpurows.GenNeeds(t)
			if !gpurows.HasRoom(v, needs) {
				continue
			}
			want := p.shapes.shapeAfterTask(from, &needs)
			s.Put(gpurows.Task(fmt.Sprint(n), "i", needs, gpurows.Devices(v.GPUs, v.Unpinned, needs)...))
			if got := shapeOf(v); got != want {
				t.Fatalf("%s leads to %s, not to %s", describe(from), describe(got), describe(want))
			}
			shape := &p.shapes.all[want]
			devices := int(shape.wholeDevices) + len(p.shapes.partialDevices(shape))
			if int(shape.freeMilli) != sum(v.GPUs) || devices > len(v.GPUs) {
				t.Fatalf("%d free of %v, and the shape is %s", sum(v.GPUs), v.GPUs, describe(want))
			}
		}
	})
}
