package packing

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
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

// instanceWithFree returns an instance whose devices have so many thousandths free.
func instanceWithFree(devices ...int) *snapshot.InstanceView {
	return &snapshot.InstanceView{GPUs: devices}
}

// Of all instances with two devices, those with as much free in other parts have another shape: 73
// and 73 free take two small tasks, 146 and none a larger one.
func TestEachSplitOfTwoDevicesHasItsShape(t *testing.T) {
	var shapes freeShapes
	for free := range 2*cluster.WholeGPU + 1 {
		shapes.resetShapes()
		seen := map[int32]int{}
		for first := max(0, free-cluster.WholeGPU); first <= free/2; first++ {
			shape := shapes.shapeNumberOf(0, instanceWithFree(first, free-first))
			if other, known := seen[shape]; known {
				t.Errorf("%d and %d free have the shape of %d and %d", first, free-first, other, free-other)
			}
			seen[shape] = first
		}
	}
}

// Instances have the same shape exactly if their devices have the same free, in any order.
func TestShapeSaysWhatDevicesHaveFree(t *testing.T) {
	var shapes freeShapes
	rapid.Check(t, func(t *rapid.T) {
		shapes.resetShapes()
		device := rapid.OneOf(rapid.IntRange(0, cluster.WholeGPU), rapid.SampledFrom([]int{0, 1, 500, cluster.WholeGPU}))
		a := rapid.SliceOfN(device, 1, 8).Draw(t, "devices")
		b := rapid.Permutation(a).Draw(t, "in another order")
		from, to := rapid.IntRange(0, len(b)-1).Draw(t, "from"), rapid.IntRange(0, len(b)-1).Draw(t, "to")
		moved := rapid.IntRange(0, min(b[from], cluster.WholeGPU-b[to])).Draw(t, "moved")
		b[from] -= moved
		b[to] += moved
		isSame := slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
		x, y := shapes.shapeNumberOf(0, instanceWithFree(a...)), shapes.shapeNumberOf(0, instanceWithFree(b...))
		if (x == y) != isSame {
			t.Fatalf("%v has shape %d, %v has %d", a, x, b, y)
		}
	})
}
