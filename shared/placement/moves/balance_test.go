package moves_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/placement/rebalance"
	"berth/shared/state"
	"berth/tests/oracle"
)

// A balanceWorld is a cluster of services without rules of their own, whose tasks have loads of the
// metric m.
type balanceWorld struct {
	instances []*cluster.Instance
	tasks     []*cluster.Task
	request   moves.Request
}

// newBalanceWorld returns a cluster of so many instances in each zone, with six tasks on each.
func newBalanceWorld(t testing.TB, seed uint64, perZone int, zones ...string) *balanceWorld {
	return newBalanceWorldOf(t, seed, perZone, 6, zones...)
}

// newBalanceWorldOf returns a cluster of so many instances in each zone, with so many tasks on each or a
// few more, which are placed one after the other.
func newBalanceWorldOf(t testing.TB, seed uint64, perZone, perInstance int, zones ...string) *balanceWorld {
	w := &balanceWorld{request: moves.Request{Owners: map[string]moves.Owner{}}}
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, z := range zones {
		w.addInstances(z, perZone)
	}
	total := perZone * len(zones) * perInstance
	for n := 0; len(w.tasks) < total; n++ {
		name := fmt.Sprintf("s%d", n)
		w.request.Owners[name] = moves.Owner{Spec: &placement.Spec{Owner: name, Needs: oracle.Small}, Target: 1}
		load := int64(5 + rng.IntN(20))
		for range 2 + rng.IntN(30) {
			w.tasks = append(w.tasks, oracle.Task(fmt.Sprintf("t-%04d", len(w.tasks)), "", oracle.Owner(name),
				oracle.Load(load)))
		}
	}
	w.placeAll(t)
	return w
}

func (w *balanceWorld) addInstances(zone string, count int) {
	for range count {
		w.instances = append(w.instances, oracle.Instance(fmt.Sprintf("i-%s-%03d", zone, len(w.instances)),
			oracle.Zone(zone), oracle.CPU(8192), oracle.Memory(16384), oracle.Metric("m", 1000)))
	}
}

func (w *balanceWorld) rows() (rows []state.Row) {
	for _, i := range w.instances {
		rows = append(rows, i)
	}
	for _, t := range w.tasks {
		if t.Instance != "" {
			rows = append(rows, t)
		}
	}
	return append(rows, oracle.Configuration(cluster.Configuration{}))
}

// placeAll places all tasks anew.
func (w *balanceWorld) placeAll(t testing.TB) {
	for n := range w.tasks {
		again := *w.tasks[n]
		again.Instance = ""
		w.tasks[n] = &again
	}
	snap := oracle.SnapshotOf(w.rows()...)
	e := placement.New(snap)
	for _, task := range w.tasks {
		placeOne(t, e, w, task)
		snap.Put(task)
	}
}

func placeOne(t testing.TB, e *placement.Engine, w *balanceWorld, task *cluster.Task) {
	t.Helper()
	result := e.Place(placement.Request{Spec: w.request.Owners[task.Owner].Spec, Count: 1})
	if len(result.Placed) != 1 {
		t.Fatalf("task %s finds no instance: %v", task.ID, result.Diagnosis)
	}
	task.Instance = result.Placed[0].Instance
}

func (w *balanceWorld) distance() float64 {
	return oracle.MeasureBalance(w.instances, w.tasks).Distance()
}

// copy returns a copy whose tasks can be moved.
func (w *balanceWorld) copy() *balanceWorld {
	out := &balanceWorld{instances: slices.Clone(w.instances), request: w.request}
	for _, t := range w.tasks {
		again := *t
		out.tasks = append(out.tasks, &again)
	}
	return out
}

func (w *balanceWorld) plan(t testing.TB, steps int64, seed uint64) *moves.BalancePlan {
	t.Helper()
	return planBalance(t, w.rows(), w.request, steps, seed)
}

func planBalance(t testing.TB, rows []state.Row, m moves.Request, steps int64, seed uint64) *moves.BalancePlan {
	t.Helper()
	return planRequest(t, rows, moves.BalanceRequest{
		Request: m, Budget: rebalance.Budget{Steps: steps}, Seed: seed})
}

func planRequest(t testing.TB, rows []state.Row, r moves.BalanceRequest) *moves.BalancePlan {
	t.Helper()
	p, err := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))).Balance(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// carryOut makes the moves one after the other, and fails if one lacks room beside what is there.
func (w *balanceWorld) carryOut(t testing.TB, p *moves.BalancePlan) {
	t.Helper()
	free, tasks := map[string]cluster.Resources{}, map[string]*cluster.Task{}
	load := map[string]int64{}
	for _, i := range w.instances {
		free[i.ID] = cluster.Resources{CPU: i.Registered.CPU, Memory: i.Registered.Memory}
	}
	add := func(id string, task *cluster.Task, sign int64) {
		r := free[id]
		r.CPU, r.Memory = r.CPU-sign*task.Needs.CPU, r.Memory-sign*task.Needs.Memory
		free[id] = r
		load[id] += sign * task.Reported["m"]
	}
	for _, task := range w.tasks {
		tasks[task.ID] = task
		add(task.Instance, task, 1)
	}
	for n, m := range p.Moves {
		task := tasks[m.Task]
		if task.Instance != m.From {
			t.Fatalf("move %d takes task %s from %s, it is on %s", n, m.Task, m.From, task.Instance)
		}
		if add(m.To, task, 1); free[m.To].CPU < 0 || free[m.To].Memory < 0 || load[m.To] > 1000 {
			t.Fatalf("move %d: %s has no room for task %s beside what is there", n, m.To, m.Task)
		}
		add(m.From, task, -1)
		task.Instance = m.To
	}
}

// naiveMoves returns how many moves it takes to drain each instance once, each task going where
// placement puts it.
func (w *balanceWorld) naiveMoves(t testing.TB) (count int) {
	for at, i := range w.instances {
		drained := *i
		drained.Status = cluster.InstanceDraining
		w.instances[at] = &drained
		snap := oracle.SnapshotOf(w.rows()...)
		e := placement.New(snap)
		for _, task := range w.tasks {
			if task.Instance == i.ID {
				task.Rev++
				placeOne(t, e, w, task)
				snap.Put(task)
				count++
			}
		}
		w.instances[at] = i
	}
	return count
}

// Clusters that became uneven come nearly as close to their goals as if everything were placed
// anew, with a fraction of the moves of draining each instance once. A new third zone takes a third
// of all tasks, which is about a quarter of what draining moves; the first moves gain most, so a quarter is
// enough in any case. Then nothing is left to do.
func TestBalanceGains(t *testing.T) {
	for name, c := range map[string]struct {
		most    float64 // moves, as a share of those of draining
		disturb func(w *balanceWorld, rng *rand.Rand)
	}{
		"ThirdZone": {0.3, func(w *balanceWorld, _ *rand.Rand) { w.addInstances("c", 8) }},
		"RackReturns": {0.25, func(w *balanceWorld, _ *rand.Rand) {
			w.addInstances("a", 2)
			w.addInstances("b", 2)
		}},
		"LoadDrifts": {0.25, func(w *balanceWorld, rng *rand.Rand) {
			for _, task := range w.tasks {
				drifted := float64(task.Reported["m"]) * math.Exp(0.5*rng.NormFloat64())
				task.Reported = map[string]int64{"m": max(1, int64(drifted))}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			seeds := uint64(20)
			if testing.Short() {
				seeds = 3
			}
			for seed := range seeds {
				w := newBalanceWorld(t, seed, 8, "a", "b")
				c.disturb(w, rand.New(rand.NewPCG(seed, 2)))
				fresh, drained := w.copy(), w.copy()
				fresh.placeAll(t)
				if name == "LoadDrifts" { // placement does not even out loads
					fresh.carryOut(t, fresh.plan(t, 300_000, seed))
				}
				naive, before := drained.naiveMoves(t), w.distance()
				p := w.plan(t, 100_000, seed)
				quarter, first := w.copy(), *p
				first.Moves = p.Moves[:min(len(p.Moves), naive/4)]
				quarter.carryOut(t, &first)
				if gain := (before - quarter.distance()) / (before - fresh.distance()); gain < 0.9 {
					t.Errorf("seed %d: gain %.2f with the first %d moves of %d, a quarter of the %d of draining", seed, gain,
						len(first.Moves), len(p.Moves), naive)
				}
				w.carryOut(t, p)
				gain := (before - w.distance()) / (before - fresh.distance())
				if gain < 0.9 || float64(len(p.Moves)) > c.most*float64(naive) {
					t.Errorf("seed %d: gain %.2f with %d moves, expected at least 0.9 with at most %.2f of %d", seed,
						gain, len(p.Moves), c.most, naive)
				}
				if again := w.plan(t, 100_000, seed+1); len(again.Moves) > 0 {
					t.Errorf("seed %d: run on its own result it moves %d tasks", seed, len(again.Moves))
				}
			}
		})
	}
}

// Loads that vary by 5 % do not make balanced clusters move tasks, however many there are on an instance: at
// most 1 % of all tasks of these clusters in a day.
func TestBalanceIgnoresNoise(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 2
	}
	for _, perInstance := range []int{6, 10, 20} {
		moved, tasks := 0, 0
		for seed := range seeds {
			w := newBalanceWorldOf(t, seed, 8, perInstance, "a", "b")
			w.carryOut(t, w.plan(t, 100_000, 1))
			rng := rand.New(rand.NewPCG(seed, 3))
			tasks += len(w.tasks)
			usual := map[string]float64{}
			for _, task := range w.tasks {
				usual[task.ID] = float64(task.Reported["m"])
			}
			for hour := range uint64(24) {
				for _, task := range w.tasks {
					task.Reported = map[string]int64{"m": int64(math.Round(usual[task.ID] * (0.95 + 0.1*rng.Float64())))}
				}
				p := w.plan(t, 50_000, hour)
				w.carryOut(t, p)
				moved += len(p.Moves)
			}
		}
		if 100*moved > tasks {
			t.Errorf("%d tasks an instance: %d of %d tasks move in a day, expected at most 1 %%", perInstance, moved, tasks)
		}
	}
}

// Loads that no moves even out, such as those of single tasks with metrics of their own, do not keep
// others uneven.
func TestBalanceBesideWhatStaysUneven(t *testing.T) {
	rows := loads(cluster.Configuration{}, []int64{20, 20, 20}, nil, nil, nil, nil, nil)
	goals := &moves.Goals{Metrics: []moves.MetricGoal{{Name: "m", Weight: 1}}}
	specs := []*placement.Spec{packed("web")}
	for n := range 18 {
		owner := fmt.Sprint("alone", n)
		specs = append(specs, packed(owner))
		goals.Metrics = append(goals.Metrics, moves.MetricGoal{Name: owner, Weight: 1})
		rows = append(rows, oracle.Task("t-"+owner, fmt.Sprint("i", n%6), func(t *cluster.Task) {
			t.Owner, t.Reported = owner, map[string]int64{owner: 1}
		}))
	}
	p := planRequest(t, rows, moves.BalanceRequest{
		Request: movers(specs...), Goals: goals, Budget: rebalance.Budget{Steps: 20_000}, Seed: 1})
	if len(p.Moves) != 2 || p.After.Distance < 0.5*p.Before.Distance {
		t.Errorf("%d moves from a distance of %.2f to %.2f, expected 2, and most of it left: %+v", len(p.Moves),
			p.Before.Distance, p.After.Distance, p.Before.Metrics)
	}
}

// What balancing has begun goes on as long as it gains a little. What begins has to gain more.
func TestBalanceContinues(t *testing.T) {
	ones := func(n int) []int64 { return slices.Repeat([]int64{1}, n) }
	rows := loads(cluster.Configuration{}, ones(22), ones(20), ones(20), ones(18))
	for continues, want := range map[bool]bool{false: false, true: true} {
		p, err := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))).Balance(moves.BalanceRequest{
			Request: movers(packed("web")), Budget: rebalance.Budget{Steps: 20_000}, Continues: continues})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(p.Moves) > 0; got != want {
			t.Errorf("continues is %v: moves %+v from %.3f to %.3f", continues, p.Moves, p.Before.Distance, p.After.Distance)
		}
	}
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	task := oracle.Task("t", "i0", func(t *cluster.Task) {
		t.Balances, t.CreatedAt = true, cluster.At(begun)
	})
	snap := oracle.SnapshotOf(append(rows, task)...)
	for after, want := range map[time.Duration]bool{time.Minute: true, 9 * time.Minute: true, 11 * time.Minute: false} {
		if got := moves.BalancingContinues(snap, begun.Add(after)); got != want {
			t.Errorf("%s after its last move, balancing continues is %v, expected %v", after, got, want)
		}
	}
}

// loads returns rows of instances, each with tasks of these loads of m.
func loads(c cluster.Configuration, instances ...[]int64) []state.Row {
	rows := []state.Row{oracle.Configuration(c)}
	for i, list := range instances {
		id := fmt.Sprintf("i%d", i)
		rows = append(rows, oracle.Instance(id, oracle.CPU(8192), oracle.Memory(16384), oracle.Metric("m", 100)))
		for n, load := range list {
			rows = append(rows, oracle.Task(fmt.Sprintf("t%d-%d", i, n), id, oracle.Load(load)))
		}
	}
	return rows
}

// packed is a spec whose tasks are spread over nothing, so that loads alone decide.
func packed(owner string) *placement.Spec {
	return &placement.Spec{Owner: owner, Strategies: []cluster.PlacementStrategy{
		{Type: cluster.StrategyBinpack, Field: "memory"}}}
}

func TestBalanceGoals(t *testing.T) {
	for name, c := range map[string]struct {
		configuration cluster.Configuration
		instances     [][]int64
		want          []int64 // load per instance after the moves; nil for no moves
	}{
		"Evens": {instances: [][]int64{{20, 20, 20}, {}, {}}, want: []int64{20, 20, 20}},
		"WithinTheThreshold": {cluster.Configuration{Balancing: map[string]float64{"m": 3}},
			[][]int64{{10, 10, 10}, {10}}, nil},
		"BeyondTheThreshold": {cluster.Configuration{Balancing: map[string]float64{"m": 2}},
			[][]int64{{10, 10, 10}, {10}}, []int64{20, 20}},
		"BelowTheActivity": {cluster.Configuration{Activity: map[string]int64{"m": 60}}, [][]int64{{20, 20, 20}, {}},
			nil},
		"SwitchedOff": {cluster.Configuration{Balancing: map[string]float64{"m": 0}}, [][]int64{{20, 20, 20}, {}},
			nil},
		"Weightless": {cluster.Configuration{Rebalancing: &cluster.Rebalancing{Weights: map[string]float64{"m": 0}}},
			[][]int64{{20, 20, 20}, {}}, nil},
		"Safety": {cluster.Configuration{Rebalancing: &cluster.Rebalancing{Weights: map[string]float64{"m": 0},
			SafetyLevels: map[string]float64{"m": 0.5}}}, [][]int64{{40, 30}, {10}}, []int64{40, 40}},
		"Gathers": {cluster.Configuration{Rebalancing: &cluster.Rebalancing{EmptyMetrics: []string{"m"},
			EmptyInstances: 2}},
			[][]int64{{10, 10}, {10}, {20, 10}}, []int64{0, 0, 60}},
		"GathersByShare": {cluster.Configuration{Rebalancing: &cluster.Rebalancing{EmptyMetrics: []string{"m"},
			EmptyShare: 0.4}},
			[][]int64{{10, 10}, {10}, {20, 10}}, []int64{30, 0, 30}},
	} {
		t.Run(name, func(t *testing.T) {
			p := planBalance(t, loads(c.configuration, c.instances...), movers(packed("web")), 20_000, 1)
			got := make([]int64, len(c.instances))
			for i, list := range c.instances {
				for _, load := range list {
					got[i] += load
				}
			}
			for _, m := range p.Moves {
				var i, n, to int
				fmt.Sscanf(m.Task, "t%d-%d", &i, &n)
				fmt.Sscanf(m.To, "i%d", &to)
				got[i] -= c.instances[i][n]
				got[to] += c.instances[i][n]
			}
			if len(p.Moves) > 0 != (c.want != nil) || c.want != nil && !slices.Equal(got, c.want) {
				t.Errorf("loads are %v after %d moves, expected %v", got, len(p.Moves), c.want)
			}
			if n := len(p.Moves); n > 0 && (p.Moves[n-1].Gain <= 0 || p.After.Distance >= p.Before.Distance) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// The instances to empty are those that take least, or in each fault domain as many: then
// the one of another domain goes before a second one of the same, although it takes more.
func TestEmptiedInstancesAreOverDomains(t *testing.T) {
	for overDomains, want := range map[bool]string{false: "[a b]", true: "[a c]"} {
		rows := []state.Row{oracle.Configuration(cluster.Configuration{Rebalancing: &cluster.Rebalancing{
			EmptyMetrics: []string{"m"}, EmptyInstances: 2, EmptyOverDomains: overDomains}})}
		for n, id := range []string{"a", "b", "c", "d"} {
			rows = append(rows, oracle.Instance(id, oracle.CPU(8192), oracle.Memory(16384), oracle.Metric("m", 100),
				oracle.Attribute(cluster.AttributeFaultDomain, fmt.Sprint("fd:/", n/2))),
				oracle.Task("t"+id, id, oracle.Load(int64(5+5*n))))
		}
		var from []string
		for _, m := range planBalance(t, rows, movers(packed("web")), 20_000, 1).Moves {
			from = append(from, m.From)
		}
		slices.Sort(from)
		if fmt.Sprint(from) != want {
			t.Errorf("over domains %v: tasks leave %v, expected %s", overDomains, from, want)
		}
	}
}

// Load is gathered without a number of instances to empty while, in some fault domain, all instances have load
// and the fullest at most as many times that of the emptiest as the metric's threshold.
func TestGathersWithinTheThreshold(t *testing.T) {
	for name, c := range map[string]struct {
		threshold float64
		tasks     [4]int // of a and b in one fault domain, c and d in another
		empty     int    // after the moves; 0 if there are none
	}{
		"Always":          {1, [4]int{1, 3, 1, 3}, 3},
		"WithinThreshold": {3, [4]int{1, 3, 0, 4}, 3},
		"AboveThreshold":  {2, [4]int{1, 3, 1, 3}, 0},
		"OneIsEmpty":      {3, [4]int{0, 3, 0, 4}, 0},
		"SwitchedOff":     {0, [4]int{2, 2, 2, 2}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			rows := []state.Row{oracle.Configuration(cluster.Configuration{
				Balancing:   map[string]float64{"m": c.threshold},
				Rebalancing: &cluster.Rebalancing{EmptyMetrics: []string{"m"}}})}
			for n, id := range []string{"a", "b", "c", "d"} {
				rows = append(rows, oracle.Instance(id, oracle.CPU(8192), oracle.Memory(16384), oracle.Metric("m", 100),
					oracle.Attribute(cluster.AttributeFaultDomain, fmt.Sprint("fd:/", n/2))))
				for k := range c.tasks[n] {
					rows = append(rows, oracle.Task(fmt.Sprint("t", id, k), id, oracle.Load(10)))
				}
			}
			p := planBalance(t, rows, movers(packed("web")), 20_000, 1)
			if len(p.Moves) > 0 != (c.empty > 0) || c.empty > 0 && p.After.Empty != c.empty {
				t.Errorf("%d instances are empty after %v, expected %d", p.After.Empty, p.Moves, c.empty)
			}
		})
	}
}

// Of the instances that could be emptied, those are whose tasks cost the least to move, even with more load.
func TestEmptiesWhatIsCheapToMove(t *testing.T) {
	rows := []state.Row{oracle.Configuration(cluster.Configuration{
		Rebalancing: &cluster.Rebalancing{EmptyMetrics: []string{"m"}, EmptyInstances: 1}})}
	for id, load := range map[string]int64{"a": 10, "b": 15, "c": 12} {
		rows = append(rows, oracle.Instance(id, oracle.CPU(8192), oracle.Memory(16384), oracle.Metric("m", 100)),
			oracle.Task("t"+id, id, oracle.Load(load)))
	}
	r := movers(packed("web"))
	r.Cost = func(t *cluster.Task) cluster.MoveCost {
		if t.Instance == "b" {
			return cluster.CostLow
		}
		return cluster.CostHigh
	}
	if p := planBalance(t, rows, r, 20_000, 1); len(p.Moves) != 1 || p.Moves[0].From != "b" {
		t.Errorf("%+v, expected that b is emptied", p.Moves)
	}
}

// A share of instances to empty is one of those that tasks with the metric may use.
func TestShareOfUsableInstances(t *testing.T) {
	rows := []state.Row{oracle.Configuration(cluster.Configuration{
		Rebalancing: &cluster.Rebalancing{EmptyMetrics: []string{"m"}, EmptyShare: 0.5}})}
	spec := packed("web")
	for n, id := range []string{"a", "b", "c", "d", "e", "f"} {
		rows = append(rows, oracle.Instance(id, oracle.CPU(8192), oracle.Memory(16384), oracle.Metric("m", 100)))
		if n < 2 {
			rows = append(rows, oracle.Task("t"+id, id, oracle.Load(10)))
		} else if n > 3 {
			spec.Avoid = append(spec.Avoid, id)
		}
	}
	if p := planBalance(t, rows, movers(spec), 20_000, 1); len(p.Moves) > 0 || p.Before.EmptyWanted != 2 {
		t.Errorf("%+v, expected no move: two of the four usable instances are empty", p)
	}
}

// Only the load of metrics that are gathered says which instance is emptied.
func TestEmptiedInstancesByTheGatheredMetric(t *testing.T) {
	load := func(m, n int64) oracle.TaskOption {
		return func(t *cluster.Task) { t.Reported = map[string]int64{"m": m, "n": n} }
	}
	rows := []state.Row{oracle.Configuration(cluster.Configuration{Balancing: map[string]float64{"n": 1000},
		Rebalancing: &cluster.Rebalancing{EmptyMetrics: []string{"m"}, EmptyInstances: 1}})}
	for _, id := range []string{"a", "b", "c"} {
		rows = append(rows, oracle.Instance(id, oracle.CPU(8192), oracle.Memory(16384), oracle.Metric("m", 100),
			oracle.Metric("n", 1000)))
	}
	rows = append(rows, oracle.Task("ta", "a", load(5, 90)), oracle.Task("tb", "b", load(10, 1)),
		oracle.Task("tc", "c", load(15, 1)))
	p := planBalance(t, rows, movers(packed("web")), 20_000, 1)
	if len(p.Moves) != 1 || p.Moves[0].From != "a" {
		t.Errorf("%+v, expected that a is emptied, which has the least of m", p.Moves)
	}
}

// The loads of several gathered metrics count in multiples of their means, 162.5 of m and 3.5 of n:
// b has 1.5 in all, and a 2.3, although that has the least of m.
func TestEmptiedInstancesByAllGatheredMetrics(t *testing.T) {
	rows := []state.Row{oracle.Configuration(cluster.Configuration{
		Rebalancing: &cluster.Rebalancing{EmptyMetrics: []string{"m", "n"}, EmptyInstances: 1}})}
	for id, loads := range map[string]map[string]int64{"a": {"m": 100, "n": 6}, "b": {"m": 150, "n": 2},
		"c": {"m": 200, "n": 3}, "d": {"m": 200, "n": 3}} {
		rows = append(rows, oracle.Instance(id, oracle.CPU(8192), oracle.Memory(16384), oracle.Metric("m", 1000),
			oracle.Metric("n", 1000)), oracle.Task("t"+id, id, func(t *cluster.Task) { t.Reported = loads }))
	}
	if p := planBalance(t, rows, movers(packed("web")), 20_000, 1); len(p.Moves) != 1 || p.Moves[0].From != "b" {
		t.Errorf("%+v, expected that b is emptied", p.Moves)
	}
}

// Of two metrics the heavier one decides, and of two tasks the cheaper one moves.
func TestBalanceWeighs(t *testing.T) {
	rows := []state.Row{oracle.Configuration(cluster.Configuration{})}
	for _, id := range []string{"a", "b"} {
		rows = append(rows, oracle.Instance(id, oracle.CPU(8192), oracle.Memory(16384), oracle.Metric("m", 1000)))
	}
	rows = append(rows, oracle.Task("t1", "a", oracle.Owner("dear"), oracle.Load(50)),
		oracle.Task("t2", "a", oracle.Owner("cheap"), oracle.Load(50)))
	dear, cheap := packed("dear"), packed("cheap")
	dear.MoveCost, cheap.MoveCost = cluster.CostHigh, cluster.CostZero
	p := planBalance(t, rows, movers(dear, cheap), 20_000, 1)
	if len(p.Moves) != 1 || p.Moves[0].Task != "t2" || p.Cost != 0 {
		t.Errorf("%+v, expected that t2 moves", p.Moves)
	}
	if want := "m on a goes from 100 to 50, on b from 0 to 50; the mean is 50"; len(p.Moves) > 0 &&
		p.Moves[0].Why != want {
		t.Errorf("it says %q", p.Moves[0].Why)
	}
	e := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))).Scoped()
	if !e.FindsNothing(movers(dear, cheap)) {
		t.Fatal("a rule is broken")
	}
	scoped, err := e.Balance(moves.BalanceRequest{Request: movers(dear, cheap), Budget: rebalance.Budget{Steps: 20_000},
		Seed: 1})
	if err != nil || len(scoped.Moves) != len(p.Moves) {
		t.Errorf("%+v, %v: with many tasks, expected the same moves, although no rule is broken", scoped, err)
	}
}

// What holds for placement holds after each move: no two tasks of a distinct service share an
// instance, constraints and ports are kept, and what may not move stays.
func TestBalanceKeepsTheRules(t *testing.T) {
	port := func(task *cluster.Task) { task.Ports = []cluster.Port{oracle.HTTP} }
	rows := loads(cluster.Configuration{}, []int64{40, 40}, nil)
	distinct := packed("distinct")
	distinct.PerInstance = 1
	taken := packed("taken")
	x, err := constraint.ParseQuery("runningTasksCount < 50")
	if err != nil {
		t.Fatal(err)
	}
	dynamic := packed("web")
	dynamic.Constraints = []*constraint.Expression{x}
	for name, c := range map[string]struct {
		specs []*placement.Spec
		extra []state.Row
		keep  bool
	}{
		"Distinct": {[]*placement.Spec{distinct}, []state.Row{oracle.Task("d1", "i0", oracle.Owner("distinct"),
			oracle.Load(40)), oracle.Task("d2", "i1", oracle.Owner("distinct"))}, false},
		"Ports": {[]*placement.Spec{taken}, []state.Row{oracle.Task("p1", "i0", oracle.Owner("taken"), oracle.Load(20),
			port), oracle.Task("p2", "i1", oracle.Owner("taken"), port)}, false},
		"Kept":      {[]*placement.Spec{packed("web")}, nil, true},
		"NotToMove": {nil, nil, false},
		// It was about the moment in which the tasks were placed.
		"ConstraintThatDependsOnTasks": {[]*placement.Spec{dynamic}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := movers(c.specs...)
			if c.keep {
				m.Keep = func(*cluster.Task) bool { return true }
			}
			if p := planBalance(t, append(slices.Clone(rows), c.extra...), m, 20_000, 1); len(p.Moves) > 0 {
				t.Errorf("%+v", p.Moves)
			}
		})
	}
	t.Run("Devices", func(t *testing.T) {
		instance := func(id string, devices int) state.Row {
			return oracle.Instance(id, oracle.GPUs(devices), oracle.CPU(8192), oracle.Memory(16384),
				oracle.Metric("m", 100))
		}
		onDevice := func(n int) oracle.TaskOption {
			return func(t *cluster.Task) { t.Needs, t.GPUs = cluster.Resources{GPUs: 1}, []int{n} }
		}
		rows := []state.Row{oracle.Configuration(cluster.Configuration{}), instance("a", 2), instance("b", 1),
			oracle.Task("other", "b", oracle.Owner("other"), onDevice(0))}
		for n := range 2 {
			rows = append(rows, oracle.Task(fmt.Sprint("gpu", n), "a", oracle.Owner("cheap"), oracle.Load(20), onDevice(n)),
				oracle.Task(fmt.Sprint("cpu", n), "a", oracle.Owner("dear"), oracle.Load(20)))
		}
		cheap, dear := packed("cheap"), packed("dear")
		cheap.Needs, cheap.MoveCost, dear.MoveCost = cluster.Resources{GPUs: 1}, cluster.CostZero, cluster.CostHigh
		p := planBalance(t, rows, movers(cheap, dear), 20_000, 1)
		if len(p.Moves) != 1 || p.Moves[0].Owner != "dear" {
			t.Errorf("%+v, expected a task that needs none of the devices, which are taken", p.Moves)
		}
	})
	t.Run("CordonedTakesNone", func(t *testing.T) {
		p := planBalance(t, append(loads(cluster.Configuration{}, []int64{40, 40}), oracle.Instance("c",
			oracle.Attribute(cluster.AttributeUnschedulable, "true"))), movers(packed("web")), 20_000, 1)
		if len(p.Moves) > 0 {
			t.Errorf("%+v", p.Moves)
		}
	})
	t.Run("Most", func(t *testing.T) {
		m := movers(packed("web"))
		m.Most = 1
		if p := planBalance(t, loads(cluster.Configuration{}, []int64{20, 20, 20}, nil, nil), m, 20_000,
			1); len(p.Moves) != 1 ||
			p.After.Distance >= p.Before.Distance {
			t.Errorf("%+v", p)
		}
	})
}

// CPU and MEMORY are gathered, or kept below a safety level, also without a weight.
func TestGoalsOfResourcesWithoutAWeight(t *testing.T) {
	snap := oracle.SnapshotOf(oracle.Configuration(cluster.Configuration{Rebalancing: &cluster.Rebalancing{
		EmptyMetrics: []string{"CPU"}, EmptyInstances: 2, SafetyLevels: map[string]float64{"MEMORY": 0.8}}}))
	got := moves.NewPlanner(placement.New(snap)).GoalsOf().Metrics
	want := []moves.MetricGoal{{Name: "CPU", Gather: true}, {Name: "MEMORY", Safety: 0.8}}
	if !slices.Equal(got, want) {
		t.Errorf("goals %+v, want %+v", got, want)
	}
}
