package placement_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/tests/gpurows"
	"berth/tests/oracle"
)

// The engine chooses the instance with the lowest score, for one task after the other.
func TestScoringChoosesTheLowestScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := oracle.SnapshotOf(gpurows.GenCluster(t)...)
		e := placement.New(s)
		specs := []*placement.Spec{}
		for range rapid.IntRange(1, 3).Draw(t, "specs") {
			spec := &placement.Spec{Needs: gpurows.GenNeeds(t), Owner: "o", Scoring: placement.LeastFragmentation}
			if rapid.Bool().Draw(t, "cpu") {
				spec.Needs.GPUs, spec.Needs.GPUMilli = 0, 0
			}
			if rapid.Bool().Draw(t, "constrained") {
				x, err := constraint.ParseQuery("attribute:gpu-model == T4")
				if err != nil {
					t.Fatal(err)
				}
				spec.Constraints = []*constraint.Expression{x}
			}
			specs = append(specs, spec)
		}
		for n := range rapid.IntRange(1, 40).Draw(t, "tasks") {
			spec := rapid.SampledFrom(specs).Draw(t, "spec")
			placed := e.Place(placement.Request{Spec: spec, Count: 1}).Placed
			best := math.Inf(1)
			p := e.Packing()
			p.ForgetScores() // what is kept must be what is computed
			for _, v := range s.Instances {
				if gpurows.HasRoom(v, spec.Needs) && (len(spec.Constraints) == 0 || v.Attributes["gpu-model"] == "T4") {
					best = min(best, p.Score(v, &spec.Needs))
				}
			}
			if math.IsInf(best, 1) != (len(placed) == 0) {
				t.Fatalf("placed %v, and the best score is %g", placed, best)
			}
			if len(placed) == 0 {
				continue
			}
			if got := p.Score(s.Instances[placed[0].Instance], &spec.Needs); got != best {
				t.Fatalf("placed where it costs %g, the least is %g", got, best)
			}
			s.Put(gpurows.Task(fmt.Sprint(n), placed[0].Instance, spec.Needs, placed[0].GPUs...))
		}
	})
}

func TestScoring(t *testing.T) {
	place := func(s *snapshot.Snapshot, needs cluster.Resources) string {
		placed := placement.New(s).Place(placement.Request{Spec: &placement.Spec{Needs: needs, Owner: "o",
			Scoring: placement.LeastFragmentation}, Count: 1}).Placed
		if len(placed) == 0 {
			return ""
		}
		return placed[0].Instance
	}
	t.Run("KeepsCPUNextToFreeGPUs", func(t *testing.T) {
		// Best fit would take the CPU that the free GPU needs: full has more left.
		s := oracle.SnapshotOf(gpurows.Instance("free", 8, 1, "T4"), gpurows.Instance("full", 64, 1, "T4"),
			gpurows.Task("t", "full", gpurows.Needs(8, 1000), 0))
		if got := place(gpurows.AddWaiting(s, gpurows.Needs(8, 1000)),
			cluster.Resources{CPU: cluster.VCPU}); got != "full" {
			t.Errorf("placed on %s", got)
		}
	})
	t.Run("KeepsModelsForTasksThatNeedThem", func(t *testing.T) {
		s := oracle.SnapshotOf(gpurows.Instance("a", 64, 8, "A10"), gpurows.Instance("t", 8, 1, "T4"))
		for i := range 3 {
			s.Put(gpurows.OnModels("T4", gpurows.Task(fmt.Sprint(i), "", gpurows.Needs(8, 1000))))
		}
		if got := place(s, gpurows.Needs(8, 1000)); got != "a" {
			t.Errorf("placed on %s", got)
		}
	})
	t.Run("KeepsWholeDevicesForWholeTasks", func(t *testing.T) {
		s := oracle.SnapshotOf(gpurows.Instance("begun", 64, 2, "T4"), gpurows.Instance("fresh", 64, 2, "T4"),
			gpurows.Task("t", "begun", gpurows.Needs(1, 500), 0))
		if got := place(gpurows.AddWaiting(s, gpurows.Needs(8, 1000), gpurows.Needs(8, 500)),
			gpurows.Needs(8, 500)); got != "begun" {
			t.Errorf("placed on %s", got)
		}
	})
	t.Run("IsBestFitWithoutGPUs", func(t *testing.T) {
		s := oracle.SnapshotOf(gpurows.Instance("large", 64, 0, ""), gpurows.Instance("small", 8, 0, ""),
			gpurows.Instance("tiny", 1, 0, ""))
		if got := place(s, cluster.Resources{CPU: 4 * cluster.VCPU, Memory: 4096}); got != "small" {
			t.Errorf("placed on %s", got)
		}
	})
	t.Run("PlacesManyAtOnceAsOneByOne", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rows := gpurows.GenCluster(t)
			for i := range 16 { // so many that nothing is learned between the tasks of one request
				rows = append(rows, gpurows.Task(fmt.Sprintf("more-%d", i), "", gpurows.GenNeeds(t)))
			}
			spec := &placement.Spec{Needs: gpurows.GenNeeds(t), Owner: "o", Scoring: placement.LeastFragmentation}
			n := rapid.IntRange(1, 12).Draw(t, "count")
			many := placement.New(oracle.SnapshotOf(rows...)).Place(placement.Request{Spec: spec, Count: n}).Placed
			s := oracle.SnapshotOf(rows...)
			e := placement.New(s)
			for i := range n {
				one := e.Place(placement.Request{Spec: spec, Count: 1}).Placed
				if len(one) == 0 {
					if i != len(many) {
						t.Fatalf("%d placed at once, %d one by one", len(many), i)
					}
					return
				}
				if i >= len(many) || many[i].Instance != one[0].Instance || !slices.Equal(many[i].GPUs, one[0].GPUs) {
					t.Fatalf("task %d: %+v one by one, at once %+v", i, one[0], many)
				}
				s.Put(gpurows.Task(fmt.Sprint(i), one[0].Instance, spec.Needs, one[0].GPUs...))
			}
		})
	})
	t.Run("SurvivesAnInstanceOfANewKind", func(t *testing.T) {
		s := oracle.SnapshotOf(gpurows.Instance("a", 8, 1, "A10"))
		s.Put(gpurows.OnModels("T4", gpurows.Task("1", "", gpurows.Needs(8, 1000))))
		e := placement.New(s)
		spec := &placement.Spec{Needs: gpurows.Needs(8, 1000), Owner: "o", Scoring: placement.LeastFragmentation}
		first := e.Place(placement.Request{Spec: spec, Count: 1}).Placed
		s.Put(gpurows.Task("2", first[0].Instance, spec.Needs, first[0].GPUs...))
		s.Put(gpurows.Instance("t", 8, 1, "T4"))
		if second := e.Place(placement.Request{Spec: spec, Count: 1}).Placed; len(second) != 1 ||
			second[0].Instance != "t" {
			t.Errorf("placed %v", second)
		}
	})
}
