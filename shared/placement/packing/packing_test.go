package packing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
)

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

// cpuNeeds are so many vCPU and 4 GiB for each.
func cpuNeeds(vcpu int64) cluster.Resources {
	return cluster.Resources{CPU: vcpu * cluster.VCPU, Memory: vcpu * 4096}
}

func only(models string, t *cluster.Task) *cluster.Task {
	t.Rules = &cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf,
		Expression: "attribute:gpu-model in [" + models + "]"}}}
	return t
}

func taken(rows ...state.Row) *snapshot.Snapshot {
	s := snapshot.NewSnapshot()
	for _, r := range rows {
		s.Put(r)
	}
	return s
}

// waiting is a cluster in which tasks wait that need this.
func waiting(s *snapshot.Snapshot, needs ...cluster.Resources) *snapshot.Snapshot {
	for i, n := range needs {
		s.Put(gpuTask(fmt.Sprintf("waits-%d", i), "", n))
	}
	return s
}

func scoring(s *snapshot.Snapshot) *Scorer {
	p := NewScorer(s)
	p.Epoch()
	return p
}

// valueOn is the value of the instance's state.
func (s *Scorer) valueOn(id string) float64 {
	v := s.snap.Instances[id]
	pool := s.mix.poolOfInstance(v)
	return s.shapeWaste(s.shapes.shapeNumberOf(pool, v))
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("%s: got %g, want %g", what, got, want)
	}
}

func TestValue(t *testing.T) {
	t.Run("NothingIsLostWhereAllCanBeUsed", func(t *testing.T) {
		s := waiting(taken(gpuInstance("i", 64, 4, "T4")), gpuNeeds(8, 1000), gpuNeeds(4, 500), gpuNeeds(16, 2000))
		near(t, "value", scoring(s).valueOn("i"), 0)
	})
	t.Run("NothingIsLostWhereNothingIsFree", func(t *testing.T) {
		s := waiting(taken(gpuInstance("i", 64, 1, "T4"), gpuTask("t", "i", gpuNeeds(8, 1000), 0)), gpuNeeds(8, 1000))
		near(t, "value", scoring(s).valueOn("i"), 0)
	})
	t.Run("AllIsLostWhereNothingFits", func(t *testing.T) {
		s := waiting(taken(gpuInstance("i", 64, 2, "T4"), gpuTask("t", "i", cpuNeeds(60))), gpuNeeds(8, 1000))
		near(t, "value", scoring(s).valueOn("i"), 2000*(1+idleWeight+stuckWeight))
	})
	t.Run("NothingIsLostToWhatCouldNeverCome", func(t *testing.T) {
		s := waiting(taken(gpuInstance("i", 64, 2, "T4")), gpuNeeds(8, 1000), gpuNeeds(65, 1000), gpuNeeds(8, 3000))
		s.Put(only("A10", gpuTask("x", "", gpuNeeds(8, 1000))))
		near(t, "value", scoring(s).valueOn("i"), 0)
	})
	t.Run("DevicesThatCannotTakeTheKindAreLost", func(t *testing.T) {
		s := waiting(taken(gpuInstance("i", 64, 2, "T4"), gpuTask("t", "i", gpuNeeds(1, 600), 0)), gpuNeeds(1, 1000))
		x := 400.0 / 1400
		near(t, "value", scoring(s).valueOn("i"), 400+idleWeight*400+stuckWeight*1400*math.Pow(x, 32))
	})
	t.Run("WhatTheCPUCannotFillIsIdle", func(t *testing.T) {
		s := waiting(taken(gpuInstance("i", 12, 2, "T4")), gpuNeeds(8, 1000)) // 1.5 of them
		near(t, "value", scoring(s).valueOn("i"), idleWeight*500+stuckWeight*2000*math.Pow(0.25, 32))
	})
	t.Run("SeveralDevicesAreTakenAtOnce", func(t *testing.T) {
		s := waiting(taken(gpuInstance("i", 64, 3, "T4")), gpuNeeds(8, 2000)) // one device is left over
		near(t, "value", scoring(s).valueOn("i"), idleWeight*1000+stuckWeight*3000*math.Pow(1.0/3, 32))
	})
	t.Run("KindsWeighByHowManyThereAre", func(t *testing.T) {
		large, small := gpuNeeds(8, 1000), gpuNeeds(1, 1000)
		s := waiting(taken(gpuInstance("i", 64, 1, "T4"), gpuTask("t", "i", cpuNeeds(60))), large, small, small, small)
		near(t, "value", scoring(s).valueOn("i"), 250+idleWeight*250+stuckWeight*1000*math.Pow(0.25, 32))
	})
}

func TestValueIsBoundedAndFallsWithMoreCPU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := taken(gpuInstance("i", 64, rapid.IntRange(1, 8).Draw(t, "gpus"), "T4"))
		for i := range rapid.IntRange(1, 6).Draw(t, "kinds") {
			s.Put(gpuTask(fmt.Sprint(i), "", genGPUNeeds(t)))
		}
		p := scoring(s)
		v := *s.Instances["i"]
		v.GPUs = slices.Clone(v.GPUs)
		for d := range v.GPUs {
			v.GPUs[d] = rapid.SampledFrom([]int{0, 10, 190, 500, 810, 1000}).Draw(t, "free")
		}
		last := math.Inf(1)
		for vcpu := int64(0); vcpu <= 128; vcpu += 4 {
			v.CPU, v.Memory = vcpu*cluster.VCPU, 128*4096
			pool := p.mix.poolOfInstance(&v)
			got := p.shapeWaste(p.shapes.shapeNumberOf(pool, &v))
			if free := float64(sum(v.GPUs)); got < -1e-9 || got > free*(1+idleWeight+stuckWeight)+1e-9 {
				t.Fatalf("value %g of %g free", got, free)
			}
			if got > last+1e-9 {
				t.Fatalf("with %d vCPU the value is %g, with less it is %g", vcpu, got, last)
			}
			last = got
		}
	})
}

func sum(values []int) (n int) {
	for _, v := range values {
		n += v
	}
	return n
}

func genGPUNeeds(t *rapid.T) cluster.Resources {
	milli := rapid.SampledFrom([]int{50, 190, 460, 810, 1000, 1000, 2000, 4000}).Draw(t, "milli")
	return gpuNeeds(int64(rapid.IntRange(1, 24).Draw(t, "vcpu")), milli)
}

func TestPrice(t *testing.T) {
	cluster4 := func() *snapshot.Snapshot {
		return taken(gpuInstance("a1", 32, 4, "A10"), gpuInstance("a2", 32, 4, "A10"), gpuInstance("a3", 32, 4, "A10"),
			gpuInstance("t", 32, 4, "T4"))
	}
	price := func(p *Scorer, id string) float64 {
		return p.mix.pools[p.mix.poolOfInstance(p.snap.Instances[id])].price
	}
	t.Run("IsZeroWhereAllCanGoEverywhere", func(t *testing.T) {
		p := scoring(waiting(cluster4(), gpuNeeds(1, 1000), gpuNeeds(2, 500)))
		near(t, "price of A10", price(p, "a1"), 0)
		near(t, "price of T4", price(p, "t"), 0)
	})
	t.Run("IsZeroWhereConstraintsAskForWhatAllHave", func(t *testing.T) {
		s := cluster4()
		s.Put(only("T4, A10", gpuTask("x", "", gpuNeeds(1, 1000))))
		near(t, "price", price(scoring(s), "t"), 0)
	})
	t.Run("RisesWhereTasksCanGoNowhereElse", func(t *testing.T) {
		s := waiting(cluster4(), gpuNeeds(1, 1000))
		s.Put(only("T4", gpuTask("x", "", gpuNeeds(1, 1000))))
		p := scoring(s)
		if !(price(p, "t") > 1 && price(p, "a1") < 0) {
			t.Errorf("T4 costs %g, A10 %g", price(p, "t"), price(p, "a1"))
		}
		if price(p, "a1") != price(p, "a2") {
			t.Error("instances of one model have different prices")
		}
	})
	t.Run("RisesWhereTasksFitNowhereElse", func(t *testing.T) {
		s := taken(gpuInstance("small", 32, 4, "T4"), gpuInstance("large", 64, 4, "T4"))
		p := scoring(waiting(s, gpuNeeds(8, 1000), gpuNeeds(48, 4000)))
		if !(price(p, "large") > price(p, "small")+1) {
			t.Errorf("large costs %g, small %g", price(p, "large"), price(p, "small"))
		}
	})
	t.Run("IsZeroWhereEachModelHasItsShare", func(t *testing.T) {
		s := cluster4()
		for i, models := range []string{"A10", "A10", "A10", "T4"} {
			s.Put(only(models, gpuTask(fmt.Sprint(i), "", gpuNeeds(1, 1000))))
		}
		near(t, "price of T4", price(scoring(s), "t"), 0)
	})
	t.Run("IsBounded", func(t *testing.T) {
		s := cluster4()
		for i := range 500 {
			s.Put(only("T4", gpuTask(fmt.Sprint(i), "", gpuNeeds(1, 1000))))
		}
		s.Put(only("A10", gpuTask("a", "", gpuNeeds(1, 10))))
		p := scoring(s)
		for _, id := range []string{"a1", "t"} {
			if x := price(p, id); math.IsNaN(x) || math.Abs(x) > maxPrice {
				t.Errorf("price %g", x)
			}
		}
	})
}

func TestLearning(t *testing.T) {
	count := func(p *Scorer) (n int64) {
		for _, k := range p.mix.kinds {
			n += k.count
		}
		return n
	}
	t.Run("CountsWhatRunsAndWaits", func(t *testing.T) {
		s := taken(gpuInstance("i", 32, 4, "T4"), gpuTask("runs", "i", gpuNeeds(1, 1000), 0),
			gpuTask("waits", "", gpuNeeds(1, 500)))
		ended := gpuTask("ended", "i", gpuNeeds(1, 1000), 1)
		ended.Last, ended.Desired = cluster.TaskStopped, cluster.TaskStopped
		stopping := gpuTask("stopping", "i", gpuNeeds(1, 1000), 2)
		stopping.Desired = cluster.TaskStopped
		foreign := gpuTask("foreign", "i", gpuNeeds(1, 1000))
		foreign.Foreign = true
		s.Put(ended)
		s.Put(stopping)
		s.Put(foreign)
		s.Put(gpuTask("cpu", "i", cluster.Resources{CPU: 1}))
		if p := scoring(s); count(p) != 2 || p.mix.taskCount != 2 {
			t.Errorf("learned from %+v", p.mix.kinds)
		}
	})
	t.Run("HappensOftenWhileTasksBecomeMoreAndSeldomLater", func(t *testing.T) {
		s := taken(gpuInstance("i", 512, 8, "T4"))
		p := scoring(s)
		var learned []int
		last := p.Epoch()
		for n := 1; n <= 2000; n++ {
			needs := cluster.Resources{CPU: 1}
			if n <= 64 {
				needs = gpuNeeds(1, 100)
			}
			s.Put(gpuTask(fmt.Sprint(n), "i", needs, slices.Repeat([]int{0}, needs.GPUs)...))
			if now := p.Epoch(); now != last {
				last, learned = now, append(learned, n)
			}
		}
		if want := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}; !slices.Equal(learned, want) {
			t.Errorf("learned after %v tasks, want %v", learned, want)
		}
	})
	t.Run("KnowsTheConstraintsOfServicesAndDefinitions", func(t *testing.T) {
		s := taken(gpuInstance("a", 32, 4, "A10"), gpuInstance("t", 32, 4, "T4"),
			&cluster.TaskDefinition{Head: cluster.Head{Cluster: "c", Rev: 1}, Family: "t4", Revision: 1,
				Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf,
					Expression: "attribute:gpu-model == T4"}}},
			&cluster.Service{
				Head:            cluster.Head{Cluster: "c", Rev: 1},
				ServiceIdentity: cluster.ServiceIdentity{Name: "s", Short: "o"},
				ServiceSpec:     cluster.ServiceSpec{Rules: cluster.Rules{NodeConstraint: "Model == A10"}},
			})
		byDefinition, byService := gpuTask("1", "", gpuNeeds(1, 1000)), gpuTask("2", "", gpuNeeds(1, 1000))
		byDefinition.TaskDefinition, byService.Service = "t4:1", "s"
		s.Put(byDefinition)
		s.Put(byService)
		p := scoring(s)
		if len(p.mix.requirementSets) != 2 {
			t.Fatalf("%d sets of requirements", len(p.mix.requirementSets))
		}
		mask := func(id string) uint64 { return p.mix.pools[p.mix.poolOfInstance(s.Instances[id])].mask }
		if mask("t") == 0 || mask("a") != 0 { // no instance has the property Model
			t.Errorf("masks %b of T4, %b of A10", mask("t"), mask("a"))
		}
	})
	t.Run("DoesNotDependOnTheOrderOfRows", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rows := genCluster(t)
			a := scoring(taken(rows...))
			rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Shuffle(len(rows),
				func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			b := scoring(taken(rows...))
			needs := genGPUNeeds(t)
			for id, v := range a.snap.Instances {
				if !roomy(v, needs) {
					continue
				}
				if x, y := a.Score(v, &needs), b.Score(b.snap.Instances[id],
					&needs); math.Abs(x-y) > 1e-9*math.Abs(x)+1e-9 {
					t.Fatalf("score %v in one order, %v in another", x, y)
				}
			}
			if diff := cmp.Diff(a.mix.kinds, b.mix.kinds,
				cmpopts.EquateComparable(taskKind{}, cluster.Resources{})); diff != "" {
				t.Fatal(diff)
			}
		})
	})
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

var models = []string{"A10", "T4", "V100"}

// genCluster is a cluster with some tasks on it, and some that wait.
func genCluster(t *rapid.T) []state.Row {
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

func TestScoringAllocatesNothing(t *testing.T) {
	s := waiting(taken(gpuInstance("a", 64, 8, "A10"), gpuInstance("b", 64, 4, "T4")), gpuNeeds(8, 1000),
		gpuNeeds(4, 460))
	p, needs := scoring(s), gpuNeeds(4, 460)
	for _, v := range s.Instances {
		p.Score(v, &needs)
		if n := testing.AllocsPerRun(100, func() { p.Score(v, &needs) }); n != 0 {
			t.Errorf("%g allocations", n)
		}
	}
}

// TestLeftoversAreBounded scores more states than are kept.
func TestLeftoversAreBounded(t *testing.T) {
	s := waiting(taken(gpuInstance("a", 64, 8, "A10")), gpuNeeds(8, 1000))
	p, needs := scoring(s), gpuNeeds(1, 1000)
	v := *s.Instances["a"]
	first := p.Score(&v, &needs)
	for i := range int64(maxShapes) {
		v.CPU = 64*cluster.VCPU - i
		p.Score(&v, &needs)
	}
	if n := len(p.shapes.all); n > maxShapes+2 {
		t.Errorf("%d states are kept", n)
	}
	v.CPU = 64 * cluster.VCPU
	if again := p.Score(&v, &needs); again != first {
		t.Errorf("score %g, and %g once the rest was forgotten", first, again)
	}
}
