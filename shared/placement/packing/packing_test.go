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
	"berth/tests/gpurows"
)

func snapshotOf(rows ...state.Row) *snapshot.Snapshot {
	s := snapshot.NewSnapshot()
	for _, r := range rows {
		s.Put(r)
	}
	return s
}

func newEpoch(s *snapshot.Snapshot) *Scorer {
	p := NewScorer(s)
	p.Epoch()
	return p
}

// wasteOn returns the waste of the instance's free shape.
func (s *Scorer) wasteOn(id string) float64 {
	v := s.snap.Instances[id]
	pool := s.mix.poolOfInstance(v)
	return s.shapeWaste(s.shapes.shapeNumberOf(pool, v))
}

func expectNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("%s: got %g, want %g", what, got, want)
	}
}

func TestWasteOfShape(t *testing.T) {
	t.Run("NothingIsLostWhereAllCanBeUsed", func(t *testing.T) {
		s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("i", 64, 4, "T4")), gpurows.Needs(8, 1000),
			gpurows.Needs(4, 500), gpurows.Needs(16, 2000))
		expectNear(t, "value", newEpoch(s).wasteOn("i"), 0)
	})
	t.Run("NothingIsLostWhereNothingIsFree", func(t *testing.T) {
		s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("i", 64, 1, "T4"),
			gpurows.Task("t", "i", gpurows.Needs(8, 1000), 0)), gpurows.Needs(8, 1000))
		expectNear(t, "value", newEpoch(s).wasteOn("i"), 0)
	})
	t.Run("AllIsLostWhereNothingFits", func(t *testing.T) {
		s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("i", 64, 2, "T4"),
			gpurows.Task("t", "i", gpurows.CPUNeeds(60))), gpurows.Needs(8, 1000))
		expectNear(t, "value", newEpoch(s).wasteOn("i"), 2000*(1+idleWeight+stuckWeight))
	})
	t.Run("NothingIsLostToWhatCouldNeverCome", func(t *testing.T) {
		s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("i", 64, 2, "T4")), gpurows.Needs(8, 1000),
			gpurows.Needs(65, 1000), gpurows.Needs(8, 3000))
		s.Put(gpurows.OnModels("A10", gpurows.Task("x", "", gpurows.Needs(8, 1000))))
		expectNear(t, "value", newEpoch(s).wasteOn("i"), 0)
	})
	t.Run("DevicesThatCannotTakeTheKindAreLost", func(t *testing.T) {
		s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("i", 64, 2, "T4"),
			gpurows.Task("t", "i", gpurows.Needs(1, 600), 0)), gpurows.Needs(1, 1000))
		x := 400.0 / 1400
		expectNear(t, "value", newEpoch(s).wasteOn("i"), 400+idleWeight*400+stuckWeight*1400*math.Pow(x, 32))
	})
	t.Run("WhatTheCPUCannotFillIsIdle", func(t *testing.T) {
		s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("i", 12, 2, "T4")), gpurows.Needs(8, 1000)) // 1.5 of them
		expectNear(t, "value", newEpoch(s).wasteOn("i"), idleWeight*500+stuckWeight*2000*math.Pow(0.25, 32))
	})
	t.Run("SeveralDevicesAreTakenAtOnce", func(t *testing.T) {
		// one device is left over
		s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("i", 64, 3, "T4")), gpurows.Needs(8, 2000))
		expectNear(t, "value", newEpoch(s).wasteOn("i"), idleWeight*1000+stuckWeight*3000*math.Pow(1.0/3, 32))
	})
	t.Run("KindsWeighByHowManyThereAre", func(t *testing.T) {
		large, small := gpurows.Needs(8, 1000), gpurows.Needs(1, 1000)
		s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("i", 64, 1, "T4"),
			gpurows.Task("t", "i", gpurows.CPUNeeds(60))), large, small, small, small)
		expectNear(t, "value", newEpoch(s).wasteOn("i"), 250+idleWeight*250+stuckWeight*1000*math.Pow(0.25, 32))
	})
}

func TestWasteIsBoundedAndFallsWithMoreCPU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshotOf(gpurows.Instance("i", 64, rapid.IntRange(1, 8).Draw(t, "gpus"), "T4"))
		for i := range rapid.IntRange(1, 6).Draw(t, "kinds") {
			s.Put(gpurows.Task(fmt.Sprint(i), "", gpurows.GenNeeds(t)))
		}
		p := newEpoch(s)
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

func TestPoolPrices(t *testing.T) {
	cluster4 := func() *snapshot.Snapshot {
		return snapshotOf(gpurows.Instance("a1", 32, 4, "A10"), gpurows.Instance("a2", 32, 4, "A10"),
			gpurows.Instance("a3", 32, 4, "A10"),
			gpurows.Instance("t", 32, 4, "T4"))
	}
	price := func(p *Scorer, id string) float64 {
		return p.mix.pools[p.mix.poolOfInstance(p.snap.Instances[id])].price
	}
	t.Run("IsZeroWhereAllCanGoEverywhere", func(t *testing.T) {
		p := newEpoch(gpurows.AddWaiting(cluster4(), gpurows.Needs(1, 1000), gpurows.Needs(2, 500)))
		expectNear(t, "price of A10", price(p, "a1"), 0)
		expectNear(t, "price of T4", price(p, "t"), 0)
	})
	t.Run("IsZeroWhereConstraintsAskForWhatAllHave", func(t *testing.T) {
		s := cluster4()
		s.Put(gpurows.OnModels("T4, A10", gpurows.Task("x", "", gpurows.Needs(1, 1000))))
		expectNear(t, "price", price(newEpoch(s), "t"), 0)
	})
	t.Run("RisesWhereTasksCanGoNowhereElse", func(t *testing.T) {
		s := gpurows.AddWaiting(cluster4(), gpurows.Needs(1, 1000))
		s.Put(gpurows.OnModels("T4", gpurows.Task("x", "", gpurows.Needs(1, 1000))))
		p := newEpoch(s)
		if !(price(p, "t") > 1 && price(p, "a1") < 0) {
			t.Errorf("T4 costs %g, A10 %g", price(p, "t"), price(p, "a1"))
		}
		if price(p, "a1") != price(p, "a2") {
			t.Error("instances of one model have different prices")
		}
	})
	t.Run("RisesWhereTasksFitNowhereElse", func(t *testing.T) {
		s := snapshotOf(gpurows.Instance("small", 32, 4, "T4"), gpurows.Instance("large", 64, 4, "T4"))
		p := newEpoch(gpurows.AddWaiting(s, gpurows.Needs(8, 1000), gpurows.Needs(48, 4000)))
		if !(price(p, "large") > price(p, "small")+1) {
			t.Errorf("large costs %g, small %g", price(p, "large"), price(p, "small"))
		}
	})
	t.Run("IsZeroWhereEachModelHasItsShare", func(t *testing.T) {
		s := cluster4()
		for i, models := range []string{"A10", "A10", "A10", "T4"} {
			s.Put(gpurows.OnModels(models, gpurows.Task(fmt.Sprint(i), "", gpurows.Needs(1, 1000))))
		}
		expectNear(t, "price of T4", price(newEpoch(s), "t"), 0)
	})
	t.Run("IsBounded", func(t *testing.T) {
		s := cluster4()
		for i := range 500 {
			s.Put(gpurows.OnModels("T4", gpurows.Task(fmt.Sprint(i), "", gpurows.Needs(1, 1000))))
		}
		s.Put(gpurows.OnModels("A10", gpurows.Task("a", "", gpurows.Needs(1, 10))))
		p := newEpoch(s)
		for _, id := range []string{"a1", "t"} {
			if x := price(p, id); math.IsNaN(x) || math.Abs(x) > maxPrice {
				t.Errorf("price %g", x)
			}
		}
	})
}

func TestLearnedMix(t *testing.T) {
	count := func(p *Scorer) (n int64) {
		for _, k := range p.mix.kinds {
			n += k.count
		}
		return n
	}
	t.Run("CountsWhatRunsAndWaits", func(t *testing.T) {
		s := snapshotOf(gpurows.Instance("i", 32, 4, "T4"), gpurows.Task("runs", "i", gpurows.Needs(1, 1000), 0),
			gpurows.Task("waits", "", gpurows.Needs(1, 500)))
		ended := gpurows.Task("ended", "i", gpurows.Needs(1, 1000), 1)
		ended.Last, ended.Desired = cluster.TaskStopped, cluster.TaskStopped
		stopping := gpurows.Task("stopping", "i", gpurows.Needs(1, 1000), 2)
		stopping.Desired = cluster.TaskStopped
		foreign := gpurows.Task("foreign", "i", gpurows.Needs(1, 1000))
		foreign.Foreign = true
		s.Put(ended)
		s.Put(stopping)
		s.Put(foreign)
		s.Put(gpurows.Task("cpu", "i", cluster.Resources{CPU: 1}))
		if p := newEpoch(s); count(p) != 2 || p.mix.taskCount != 2 {
			t.Errorf("learned from %+v", p.mix.kinds)
		}
	})
	t.Run("IsRepeatedOftenWhileTasksGrowInNumber", func(t *testing.T) {
		s := snapshotOf(gpurows.Instance("i", 512, 8, "T4"))
		p := newEpoch(s)
		var learned []int
		last := p.Epoch()
		for n := 1; n <= 2000; n++ {
			needs := cluster.Resources{CPU: 1}
			if n <= 64 {
				needs = gpurows.Needs(1, 100)
			}
			s.Put(gpurows.Task(fmt.Sprint(n), "i", needs, slices.Repeat([]int{0}, needs.GPUs)...))
			if now := p.Epoch(); now != last {
				last, learned = now, append(learned, n)
			}
		}
		if want := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}; !slices.Equal(learned, want) {
			t.Errorf("learned after %v tasks, want %v", learned, want)
		}
	})
	t.Run("KnowsTheConstraintsOfServicesAndDefinitions", func(t *testing.T) {
		s := snapshotOf(gpurows.Instance("a", 32, 4, "A10"), gpurows.Instance("t", 32, 4, "T4"),
			&cluster.TaskDefinition{Head: cluster.Head{Cluster: "c", Rev: 1}, Family: "t4", Revision: 1,
				Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf,
					Expression: "attribute:gpu-model == T4"}}},
			&cluster.Service{
				Head:            cluster.Head{Cluster: "c", Rev: 1},
				ServiceIdentity: cluster.ServiceIdentity{Name: "s", Short: "o"},
				ServiceSpec:     cluster.ServiceSpec{Rules: cluster.Rules{NodeConstraint: "Model == A10"}},
			})
		byDefinition, byService := gpurows.Task("1", "", gpurows.Needs(1, 1000)),
			gpurows.Task("2", "", gpurows.Needs(1, 1000))
		byDefinition.TaskDefinition, byService.Service = "t4:1", "s"
		s.Put(byDefinition)
		s.Put(byService)
		p := newEpoch(s)
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
			rows := gpurows.GenCluster(t)
			a := newEpoch(snapshotOf(rows...))
			rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Shuffle(len(rows),
				func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			b := newEpoch(snapshotOf(rows...))
			needs := gpurows.GenNeeds(t)
			for id, v := range a.snap.Instances {
				if !gpurows.HasRoom(v, needs) {
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

func TestScoringAllocatesNothing(t *testing.T) {
	s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("a", 64, 8, "A10"), gpurows.Instance("b", 64, 4, "T4")),
		gpurows.Needs(8, 1000),
		gpurows.Needs(4, 460))
	p, needs := newEpoch(s), gpurows.Needs(4, 460)
	for _, v := range s.Instances {
		p.Score(v, &needs)
		if n := testing.AllocsPerRun(100, func() { p.Score(v, &needs) }); n != 0 {
			t.Errorf("%g allocations", n)
		}
	}
}

// The cache of shapes is emptied when it is full, and scores do not change.
func TestFreeShapesAreBounded(t *testing.T) {
	s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("a", 64, 8, "A10")), gpurows.Needs(8, 1000))
	p, needs := newEpoch(s), gpurows.Needs(1, 1000)
	v := *s.Instances["a"]
	first := p.Score(&v, &needs)
	for i := range int64(maxShapes) {
		v.CPU = 64*cluster.VCPU - i
		p.Score(&v, &needs)
	}
	if n := len(p.shapes.all); n > maxShapes+2 {
		t.Errorf("%d states are kept", n)
	}
	v.CPU, v.GPUs = 64*cluster.VCPU, []int{300, 1000, 1000, 1000, 1000, 1000, 1000, 1000}
	p.Score(&v, &needs)
	if p.ForgetScores(); len(p.shapes.arena) > 0 {
		t.Errorf("%d devices of forgotten states are kept", len(p.shapes.arena))
	}
	v.GPUs[0] = 1000
	if again := p.Score(&v, &needs); again != first {
		t.Errorf("score %g, and %g once the rest was forgotten", first, again)
	}
}

// If more has changed within an epoch than the snapshot remembers, what instances have free is found
// out again.
func TestScoresAfterMoreChangesThanTheSnapshotRemembers(t *testing.T) {
	s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("a", 64, 8, "A10"), gpurows.Instance("b", 64, 4, "T4")),
		gpurows.Needs(8, 1000))
	p, needs := newEpoch(s), gpurows.Needs(4, 460)
	p.epochLength = 1 << 40
	score := func() float64 {
		p.Epoch()
		return p.Score(s.Instances["a"], &needs)
	}
	before, epoch, begin := score(), p.epoch, s.ChangeSeq()
	s.Put(gpurows.Task("first", "a", gpurows.Needs(4, 700), 0))
	last := gpurows.Task("last", "b", gpurows.Needs(1, 100), 0)
	for s.ChangeSeq()-begin <= 1<<15 {
		next := *last
		next.Rev++
		next.Needs.CPU++
		s.Put(&next)
		last = &next
	}
	got := score()
	p.ForgetScores()
	if want := score(); got != want || got == before || p.epoch != epoch {
		t.Errorf("the score is %g, by what is free now %g, and was %g", got, want, before)
	}
}
