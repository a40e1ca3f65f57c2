package packing_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/placement"
	"berth/shared/placement/packing"
	"berth/shared/snapshot"
)

// TestStateAfterIsThatOfTheInstance compares the state that a score expects with that of the
// instance once the task is there, on the devices that the engine gives.
func TestStateAfterIsThatOfTheInstance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshot.NewSnapshot()
		s.Put(packing.GPUInstance("i", 512, rapid.IntRange(1, 8).Draw(t, "gpus"), "T4"))
		p, e := packing.NewScorer(s), placement.New(s)
		p.Epoch()
		for n := range rapid.IntRange(1, 20).Draw(t, "tasks") {
			v := s.Instances["i"]
			from := p.StateOf(v)
			spec := &placement.Spec{Needs: packing.GenGPUNeeds(t)}
			placed := e.Place(placement.Request{Spec: spec, Count: 1}).Placed
			if len(placed) == 0 {
				continue
			}
			want := p.StateAfter(from, &spec.Needs)
			s.Put(packing.GPUTask(fmt.Sprint(n), "i", spec.Needs, placed[0].GPUs...))
			if got := p.StateOf(v); got != want {
				t.Fatalf("%s leads to %s, not to %s", p.Describe(from), p.Describe(got), p.Describe(want))
			}
			free := 0
			for _, milli := range v.GPUs {
				free += milli
			}
			if spare, devices := p.Free(want); spare != free || devices > len(v.GPUs) {
				t.Fatalf("%d free of %v, and the state is %s", free, v.GPUs, p.Describe(want))
			}
		}
	})
}
