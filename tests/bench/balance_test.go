package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/placement/rebalance"
	"berth/shared/snapshot"
	"berth/tests/bench/workload"
	"berth/tests/oracle"
)

// A driftedCluster is a cluster of many services whose tasks were placed one after the other. Then
// the loads of every fourth task have changed, by up to about three times either way.
type driftedCluster struct {
	instances []*cluster.Instance
	tasks     []*cluster.Task
	owners    map[string]moves.Owner
}

const (
	driftedInstances = 5000
	driftedTasks     = 50_000
	driftedService   = 40 // tasks of a service
)

func newDriftedCluster(tb testing.TB, instances, tasks int) *driftedCluster {
	tb.Helper()
	d := &driftedCluster{owners: map[string]moves.Owner{}}
	for n := range instances {
		d.instances = append(d.instances, oracle.Instance(fmt.Sprintf("i-%05d", n), oracle.Zone(fmt.Sprint("zone-", n%3)),
			oracle.CPU(8192), oracle.Memory(16384), oracle.Metric("io", 1000)))
	}
	rng := rand.New(rand.NewPCG(1, 0))
	for len(d.tasks) < tasks {
		name := fmt.Sprintf("s%04d", len(d.owners))
		d.owners[name] = moves.Owner{Target: driftedService, StartFirst: true,
			Spec: &placement.Spec{Owner: name, Needs: oracle.Small}}
		load := int64(10 + rng.IntN(20))
		for range driftedService {
			d.tasks = append(d.tasks, oracle.Task(fmt.Sprintf("%s-%06d", name, len(d.tasks)), "", oracle.Owner(name),
				func(t *cluster.Task) { t.Reported = map[string]int64{"io": load} }))
		}
	}
	d.placeAll(tb)
	for n, t := range d.tasks {
		if n%4 == 0 {
			t.Reported = map[string]int64{"io": int64(float64(t.Reported["io"]) * math.Exp(0.5*rng.NormFloat64()))}
		}
	}
	return d
}

// placeAll places all tasks anew.
func (d *driftedCluster) placeAll(tb testing.TB) {
	for _, t := range d.tasks {
		t.Instance = ""
	}
	snap := d.snapshot()
	e := placement.New(snap)
	for _, t := range d.tasks {
		placed := e.Place(placement.Request{Spec: d.owners[t.Owner].Spec, Count: 1}).Placed
		if len(placed) != 1 {
			tb.Fatalf("task %s finds no instance", t.ID)
		}
		t.Instance = placed[0].Instance
		snap.Put(t)
	}
}

// snapshot returns a snapshot of the instances and of the tasks that have one.
func (d *driftedCluster) snapshot() *snapshot.Snapshot {
	s := oracle.SnapshotOf(oracle.Configuration(cluster.Configuration{}))
	for _, i := range d.instances {
		s.Put(i)
	}
	for _, t := range d.tasks {
		if t.Instance != "" {
			s.Put(t)
		}
	}
	return s
}

func (d *driftedCluster) distance() float64 {
	return oracle.MeasureBalance(d.instances, d.tasks).Distance()
}

// A balanceRun is a plan of a cluster with what it took.
type balanceRun struct {
	plan  *moves.BalancePlan
	taken time.Duration
	cpu   time.Duration // of the whole process
	peak  uint64        // bytes of the heap beside the snapshot, with what is garbage
}

// measureBalance plans once, with a search of so many steps or, if seconds are given, until it has had so
// much time of the CPU.
// While it does so, another goroutine looks at the heap.
func (d *driftedCluster) measureBalance(tb testing.TB, steps int64, seconds float64) balanceRun {
	tb.Helper()
	snap := d.snapshot()
	planner := moves.NewPlanner(placement.New(snap))
	runtime.GC()
	base, done, peaks := heapBytes(), make(chan struct{}), make(chan uint64)
	go func() {
		peak := base
		for {
			select {
			case <-done:
				peaks <- max(peak, heapBytes())
				return
			case <-time.After(time.Millisecond):
				peak = max(peak, heapBytes())
			}
		}
	}()
	began, cpu := time.Now(), workload.CPU()
	b := rebalance.Budget{Steps: steps}
	if seconds > 0 {
		b.Used = func() float64 { return (workload.CPU() - cpu).Seconds() / seconds }
	}
	plan, err := planner.Balance(moves.BalanceRequest{Request: moves.Request{Owners: d.owners}, Budget: b, Seed: 1})
	out := balanceRun{plan: plan, taken: time.Since(began), cpu: workload.CPU() - cpu}
	close(done)
	if out.peak = <-peaks - base; err != nil {
		tb.Fatal(err)
	}
	runtime.KeepAlive(snap)
	return out
}

// heapBytes returns how much the objects on the heap take up, with those that the collector has yet
// to free.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// carryOut makes the moves of a plan.
func (d *driftedCluster) carryOut(p *moves.BalancePlan) {
	tasks := make(map[string]*cluster.Task, len(d.tasks))
	for _, t := range d.tasks {
		tasks[t.ID] = t
	}
	for _, m := range p.Moves {
		tasks[m.Task].Instance = m.To
	}
}

// distanceAnew returns the distance after all tasks are placed anew and then balanced: placement does
// not even out loads.
func (d *driftedCluster) distanceAnew(tb testing.TB) float64 {
	tb.Helper()
	d.placeAll(tb)
	d.carryOut(d.measureBalance(tb, 1_000_000, 0).plan)
	return d.distance()
}

// BenchmarkBalance measures plans that balance 50,000 tasks on 5,000 instances: one after a few steps,
// one as long as a look, one whose search ends after a second of CPU time, and one as complete as berth
// rebalance shows. It reports how much of the distance to a new placement each gains, and its moves in
// percent of those of draining every instance once, which moves all tasks.
func BenchmarkBalance(b *testing.B) {
	d := newDriftedCluster(b, driftedInstances, driftedTasks)
	before := d.distance()
	anew := d.distanceAnew(b)
	for _, c := range []struct {
		name    string
		steps   int64
		seconds float64
	}{{"First", 10_000, 0}, {"Look", 100_000, 0}, {"Second", 0, 1}, {"Complete", 1_000_000, 0}} {
		b.Run(fmt.Sprintf("%s%dTasks%dInstances", c.name, driftedTasks, driftedInstances), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				d := newDriftedCluster(b, driftedInstances, driftedTasks)
				b.StartTimer()
				run := d.measureBalance(b, c.steps, c.seconds)
				b.StopTimer()
				d.carryOut(run.plan)
				b.ReportMetric(run.taken.Seconds(), "s/plan")
				b.ReportMetric(run.cpu.Seconds(), "cpu-s/plan")
				b.ReportMetric(float64(run.peak)/(1<<20), "peak-MiB")
				b.ReportMetric(float64(run.plan.Steps), "steps")
				b.ReportMetric(float64(len(run.plan.Moves)), "moves")
				b.ReportMetric(100*float64(len(run.plan.Moves))/driftedTasks, "%-of-drain")
				b.ReportMetric(100*(before-d.distance())/(before-anew), "%-of-anew")
				b.StartTimer()
			}
		})
	}
}

// A plan for a large cluster is useful after few steps, and takes no more memory than an instance of a
// function has to spare.
func TestBalanceOfALargeCluster(t *testing.T) {
	d := newDriftedCluster(t, driftedInstances, driftedTasks)
	before := d.distance()
	run := d.measureBalance(t, 10_000, 0)
	d.carryOut(run.plan)
	gained := (before - d.distance()) / before
	t.Logf("%d moves gain %.0f %% in %s (CPU %s), with %d MiB", len(run.plan.Moves), 100*gained, run.taken, run.cpu,
		run.peak>>20)
	if gained < leastGained || run.peak > mostMemory {
		t.Errorf("%d moves gain %.2f of the distance with %d MiB, expected at least %v with at most %d",
			len(run.plan.Moves), gained, run.peak>>20, leastGained, mostMemory>>20)
	}
}

const (
	leastGained = 0.1
	mostMemory  = 500 << 20
)
