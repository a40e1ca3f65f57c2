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
	"berth/shared/state"
	"berth/tests/oracle"
)

// TestScoringTakesTheLowestScore compares the engine with a look at every instance, task after
// task.
func TestScoringTakesTheLowestScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := oracle.SnapshotOf(genGPUCluster(t)...)
		e := placement.New(s)
		specs := []*placement.Spec{}
		for range rapid.IntRange(1, 3).Draw(t, "specs") {
			spec := &placement.Spec{Needs: genGPUNeeds(t), Owner: "o", Scoring: placement.LeastFragmentation}
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
				if roomy(v, spec.Needs) && (len(spec.Constraints) == 0 || v.Attributes["gpu-model"] == "T4") {
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
			s.Put(gpuTask(fmt.Sprint(n), placed[0].Instance, spec.Needs, placed[0].GPUs...))
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
		s := oracle.SnapshotOf(gpuInstance("free", 8, 1, "T4"), gpuInstance("full", 64, 1, "T4"),
			gpuTask("t", "full", gpuNeeds(8, 1000), 0))
		if got := place(waiting(s, gpuNeeds(8, 1000)), cluster.Resources{CPU: cluster.VCPU}); got != "full" {
			t.Errorf("placed on %s", got)
		}
	})
	t.Run("KeepsModelsForThoseWhoNeedThem", func(t *testing.T) {
		s := oracle.SnapshotOf(gpuInstance("a", 64, 8, "A10"), gpuInstance("t", 8, 1, "T4"))
		for i := range 3 {
			s.Put(only("T4", gpuTask(fmt.Sprint(i), "", gpuNeeds(8, 1000))))
		}
		if got := place(s, gpuNeeds(8, 1000)); got != "a" {
			t.Errorf("placed on %s", got)
		}
	})
	t.Run("KeepsWholeDevicesForWholeTasks", func(t *testing.T) {
		s := oracle.SnapshotOf(gpuInstance("begun", 64, 2, "T4"), gpuInstance("fresh", 64, 2, "T4"),
			gpuTask("t", "begun", gpuNeeds(1, 500), 0))
		if got := place(waiting(s, gpuNeeds(8, 1000), gpuNeeds(8, 500)), gpuNeeds(8, 500)); got != "begun" {
			t.Errorf("placed on %s", got)
		}
	})
	t.Run("IsBestFitWithoutGPUs", func(t *testing.T) {
		s := oracle.SnapshotOf(gpuInstance("large", 64, 0, ""), gpuInstance("small", 8, 0, ""),
			gpuInstance("tiny", 1, 0, ""))
		if got := place(s, cluster.Resources{CPU: 4 * cluster.VCPU, Memory: 4096}); got != "small" {
			t.Errorf("placed on %s", got)
		}
	})
	t.Run("PlacesManyAtOnceAsOneByOne", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rows := genGPUCluster(t)
			for i := range 16 { // so many that nothing is learned between the tasks of one request
				rows = append(rows, gpuTask(fmt.Sprintf("more-%d", i), "", genGPUNeeds(t)))
			}
			spec := &placement.Spec{Needs: genGPUNeeds(t), Owner: "o", Scoring: placement.LeastFragmentation}
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
				s.Put(gpuTask(fmt.Sprint(i), one[0].Instance, spec.Needs, one[0].GPUs...))
			}
		})
	})
	t.Run("SurvivesAnInstanceOfANewKind", func(t *testing.T) {
		s := oracle.SnapshotOf(gpuInstance("a", 8, 1, "A10"))
		s.Put(only("T4", gpuTask("1", "", gpuNeeds(8, 1000))))
		e := placement.New(s)
		spec := &placement.Spec{Needs: gpuNeeds(8, 1000), Owner: "o", Scoring: placement.LeastFragmentation}
		first := e.Place(placement.Request{Spec: spec, Count: 1}).Placed
		s.Put(gpuTask("2", first[0].Instance, spec.Needs, first[0].GPUs...))
		s.Put(gpuInstance("t", 8, 1, "T4"))
		if second := e.Place(placement.Request{Spec: spec, Count: 1}).Placed; len(second) != 1 ||
			second[0].Instance != "t" {
			t.Errorf("placed %v", second)
		}
	})
}

// gpuInstance has so many vCPU, 4 GiB for each, and GPUs of a model.
func gpuInstance(id string, vcpu int64, gpus int, model string) *cluster.Instance {
	return &cluster.Instance{
		Head: cluster.Head{Cluster: "c", Rev: 1}, ID: id, Status: cluster.InstanceActive, AgentConnected: true,
		Registered: cluster.Capacity{CPU: vcpu * cluster.VCPU, Memory: vcpu * 4096, GPUs: make([]string, gpus)},
		Attributes: map[string]string{"gpu-model": model},
	}
}

// gpuNeeds are so many vCPU, 4 GiB for each, and thousandths of GPUs.
func gpuNeeds(vcpu int64, milli int) cluster.Resources {
	r := cluster.Resources{CPU: vcpu * cluster.VCPU, Memory: vcpu * 4096, GPUs: (milli + 999) / 1000}
	if milli < 1000 {
		r.GPUMilli = int32(milli)
	}
	return r
}

// gpuTask runs on an instance, or waits where that is empty.
func gpuTask(id, on string, needs cluster.Resources, devices ...int) *cluster.Task {
	return &cluster.Task{
		Head:           cluster.Head{Cluster: "c", Rev: 1},
		TaskSpec:       cluster.TaskSpec{ID: id, Owner: "o", TaskDefinition: "any:1", Needs: needs},
		TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning, Instance: on, GPUs: devices},
	}
}

func only(models string, t *cluster.Task) *cluster.Task {
	t.Rules = &cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf,
		Expression: "attribute:gpu-model in [" + models + "]"}}}
	return t
}

// waiting is a cluster in which tasks wait that need this.
func waiting(s *snapshot.Snapshot, needs ...cluster.Resources) *snapshot.Snapshot {
	for i, n := range needs {
		s.Put(gpuTask(fmt.Sprintf("waits-%d", i), "", n))
	}
	return s
}

func genGPUNeeds(t *rapid.T) cluster.Resources {
	milli := rapid.SampledFrom([]int{50, 190, 460, 810, 1000, 1000, 2000, 4000}).Draw(t, "milli")
	return gpuNeeds(int64(rapid.IntRange(1, 24).Draw(t, "vcpu")), milli)
}

// roomy reports whether a task fits, by a plain look.
func roomy(v *snapshot.InstanceView, needs cluster.Resources) bool {
	n := 0
	for _, free := range v.GPUs {
		if free >= needs.PerGPU() {
			n++
		}
	}
	return v.CPU >= needs.CPU && v.Memory >= needs.Memory && n >= needs.GPUs
}

// genGPUCluster is a cluster with some tasks on it, and some that wait.
func genGPUCluster(t *rapid.T) []state.Row {
	var rows []state.Row
	for i := range rapid.IntRange(1, 8).Draw(t, "instances") {
		id := fmt.Sprintf("i-%d", i)
		gpus := rapid.IntRange(0, 4).Draw(t, "gpus")
		rows = append(rows, gpuInstance(id, int64(rapid.IntRange(4, 64).Draw(t, "vcpu")), gpus,
			rapid.SampledFrom(models).Draw(t, "model")))
		if gpus > 0 {
			rows = append(rows, gpuTask("on-"+id, id, gpuNeeds(1, 10*rapid.IntRange(1, 99).Draw(t, "part")), 0))
		}
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "waiting") {
		task := gpuTask(fmt.Sprintf("waits-%d", i), "", genGPUNeeds(t))
		if rapid.Bool().Draw(t, "constrained") {
			task = only(rapid.SampledFrom(models).Draw(t, "model"), task)
		}
		rows = append(rows, task)
	}
	return rows
}

var models = []string{"A10", "T4", "V100"}
