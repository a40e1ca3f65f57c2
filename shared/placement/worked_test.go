package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/state"
	"berth/tests/oracle"
)

func spreadOver(field string) cluster.PlacementStrategy {
	return cluster.PlacementStrategy{Type: cluster.StrategySpread, Field: field}
}

func binpackBy(field string) cluster.PlacementStrategy {
	return cluster.PlacementStrategy{Type: cluster.StrategyBinpack, Field: field}
}

const byZone = "attribute:" + cluster.AttributeZone

// A spread after binpack decides between instances that binpack leaves equal, before what is left
// in all.
func TestSpreadAfterBinpack(t *testing.T) {
	spec := &placement.Spec{Owner: "web", Strategies: []cluster.PlacementStrategy{binpackBy("cpu"),
		spreadOver(byZone)}, Needs: oracle.Small}
	rows := []state.Row{oracle.Instance("i-1", oracle.Zone("a"), oracle.Memory(2048)),
		oracle.Instance("i-2", oracle.Zone("b"), oracle.Memory(4096)), oracle.Instance("i-3", oracle.Zone("a")),
		oracle.Task("t", "i-3", oracle.Needs(cluster.Resources{}))}
	got := placement.New(oracle.SnapshotOf(rows...)).Place(placement.Request{Spec: spec, Count: 1})
	oracle.Expect(t, "placed", oracle.Where(got.Placed), "i-2")
}

// Chance decides only between the best: a zone with a task of the service gets none while another
// has none, and an instance that needs its buffer gets none while another does not.
func TestChanceIsAmongTheBest(t *testing.T) {
	chance := cluster.PlacementStrategy{Type: cluster.StrategyRandom}
	rows := []state.Row{oracle.Configuration(cluster.Configuration{Buffer: map[string]float64{"m": 0.5}}),
		oracle.Instance("i-1", oracle.Zone("a")), oracle.Instance("i-2", oracle.Zone("b"), oracle.Metric("m", 10)),
		oracle.Instance("i-3", oracle.Zone("b"), oracle.Metric("m", 100)),
		oracle.Instance("i-4", oracle.Zone("c"), oracle.Metric("m", 100)),
		oracle.Instance("i-5", oracle.Zone("a")), oracle.Task("t", "i-1", oracle.Load(1))}
	e, chosen := placement.New(oracle.SnapshotOf(rows...)), map[string]int{}
	spec := &placement.Spec{Owner: "web", Strategies: []cluster.PlacementStrategy{spreadOver(byZone), chance},
		Loads: []cluster.Metric{{Name: "m", Load: 8}}}
	for seed := range uint64(200) {
		for _, p := range e.Place(placement.Request{Spec: spec, Count: 1, Seed: seed}).Placed {
			chosen[p.Instance]++
		}
	}
	if chosen["i-3"] < 60 || chosen["i-4"] < 60 || len(chosen) != 2 {
		t.Errorf("200 seeds choose %v, expected i-3 and i-4 about as often", chosen)
	}
}

// A service with a domain policy and no strategy goes to the instance with the fewest tasks in
// total, and the explanation says so.
func TestGovernedTasksGoWhereFewestRun(t *testing.T) {
	rows := []state.Row{oracle.Instance("i-1", oracle.Attribute(cluster.AttributeFaultDomain, "fd:/a")),
		oracle.Instance("i-2", oracle.Attribute(cluster.AttributeFaultDomain, "fd:/b")),
		oracle.Task("t", "i-1", oracle.Owner("other"))}
	r := placement.Request{Spec: &placement.Spec{Owner: "web", DomainPolicy: cluster.PolicyDifference}, Target: 1}
	x := placement.New(oracle.SnapshotOf(rows...)).Explain(r)
	oracle.Expect(t, "words", x.String(),
		"2 instances; of the 2 that can run it, i-2 has the fewest tasks in total (0, runner-up i-1: 1)")
}

// Each kind of owner has its words: tasks without a group are of this kind, those of a service are
// of the service, and others of their group.
func TestWordsForTheOwner(t *testing.T) {
	for group, want := range map[string]string{"": "of this kind", "service:web": "of the service",
		"family:jobs": "of group family:jobs"} {
		task := oracle.Task("t", "i-1", oracle.Group(group))
		x := placement.New(oracle.SnapshotOf(oracle.Instance("i-1"), oracle.Instance("i-2"), task)).Explain(
			placement.Request{Spec: &placement.Spec{Owner: "web", Group: group, Needs: oracle.Small}})
		if !strings.Contains(x.String(), "i-2 has the fewest tasks "+want+" (0, runner-up i-1: 1)") {
			t.Errorf("group %q: %s", group, &x)
		}
	}
}

// A taint that comes after a task, or the list of instances to avoid, does not make the task break
// a rule; an attribute that the instance lacks does, and so do too many tasks on one.
func TestWhatBreaksARule(t *testing.T) {
	tainted := oracle.Attribute(cluster.AttributeTaints, "a:b:NO_SCHEDULE")
	ssd := oracle.Attribute("disk", "ssd")
	for name, c := range map[string]struct {
		rows []state.Row
		spec placement.Spec
		want bool
	}{
		"Taint": {[]state.Row{oracle.Instance("i-1", ssd, tainted), oracle.Task("t", "i-1")},
			placement.Spec{Attributes: []string{"disk=ssd"}}, false},
		"Avoided": {[]state.Row{oracle.Instance("i-1", ssd), oracle.Task("t", "i-1")},
			placement.Spec{Attributes: []string{"disk=ssd"}, Avoid: []string{"i-1"}}, false},
		"NoAttribute": {[]state.Row{oracle.Instance("i-1"), oracle.Task("t", "i-1")},
			placement.Spec{Attributes: []string{"disk=ssd"}}, true},
		"Draining": {[]state.Row{oracle.Instance("i-1", oracle.Status(cluster.InstanceDraining)),
			oracle.Task("t", "i-1")}, placement.Spec{Attributes: []string{"disk=ssd"}}, false},
		"Stopping": {[]state.Row{oracle.Instance("i-1"), oracle.Task("t", "i-1", oracle.Stopping)},
			placement.Spec{Attributes: []string{"disk=ssd"}}, false},
		"AsManyAsMayShare": {[]state.Row{oracle.Instance("i-1"), oracle.Task("t", "i-1"), oracle.Task("u", "i-1")},
			placement.Spec{PerInstance: 2}, false},
		"MoreThanMayShare": {[]state.Row{oracle.Instance("i-1"), oracle.Task("t", "i-1"), oracle.Task("u", "i-1")},
			placement.Spec{PerInstance: 1}, true},
	} {
		c.spec.Owner = "web"
		if got := placement.New(oracle.SnapshotOf(c.rows...)).ViolatesRules(&c.spec, 2, nil); got != c.want {
			t.Errorf("%s: a rule is broken: %v, expected %v", name, got, c.want)
		}
	}
}

// A cluster from which instances have gone answers as one that never had them.
func TestInstancesThatHaveGoneCountForNothing(t *testing.T) {
	gone, task := oracle.Instance("a", oracle.Metric("m", 100)), oracle.Task("t", "a", oracle.Load(50))
	s := oracle.SnapshotOf(gone, task, oracle.Instance("b", oracle.Metric("m", 10)),
		oracle.Instance("c", oracle.Metric("m", 10)), oracle.Task("u", "b", oracle.Load(3)))
	e := placement.New(s)
	e.Place(oracle.WebRequest(1))
	s.ApplyRecord(state.Record{Op: state.Remove, Old: task})
	s.ApplyRecord(state.Record{Op: state.Remove, Old: gone})
	if b := placement.MetricBalances(s); len(b) != 1 || b[0].Min != 0 || b[0].Max != 3 {
		t.Errorf("balances are %+v", b)
	}
	if c := placement.MetricCapacities(s); len(c) != 1 || c[0].Total != 20 || c[0].Load != 3 {
		t.Errorf("capacities are %+v", c)
	}
	if err := placement.Admit(s, metricDemand(17, 1), placement.Demand{}); err != nil {
		t.Error(err)
	}
	oracle.Expect(t, "placed", oracle.Where(e.Place(oracle.WebRequest(3)).Placed), "c c b") // u needs no CPU
	x := e.Explain(oracle.WebRequest(1))
	oracle.Expect(t, "evaluated", x.Diagnosis.Evaluated, 2)
	oracle.Expect(t, "eligible", len(e.EligibleInstances(oracle.WebRequest(1).Spec)), 2)
}

// Metrics have the highest weight that any service gives them; the configuration's weights count
// before that, and a metric that no service uses has the weight Low.
func TestMetricWeights(t *testing.T) {
	service := func(name string, w cluster.Weight) *cluster.Service {
		return &cluster.Service{Head: cluster.Head{Cluster: "c", Rev: 1},
			ServiceIdentity: cluster.ServiceIdentity{Name: name, Short: name},
			ServiceSpec: cluster.ServiceSpec{Rules: cluster.Rules{Metrics: []cluster.Metric{{Name: "m", Weight: w},
				{Name: "n", Weight: w}}}}}
	}
	rows := []state.Row{oracle.Instance("a", oracle.Metric("m", 1), oracle.Metric("unused", 1)),
		service("s1", cluster.WeightLow), service("s2", cluster.WeightMedium), service("s3", cluster.WeightZero),
		oracle.Configuration(cluster.Configuration{Rebalancing: &cluster.Rebalancing{
			Weights: map[string]float64{"n": 0.7, "CPU": 0.2}}})}
	s := oracle.SnapshotOf(rows...)
	for _, name := range []string{"m", "n", "unused"} {
		s.MetricIndex(name)
	}
	got := placement.MetricWeights(s)
	for name, want := range map[string]float64{"m": 0.3, "n": 0.7, "unused": 0.1, "CPU": 0.2} {
		if got[name] != want {
			t.Errorf("weight of %s is %g, expected %g", name, got[name], want)
		}
	}
}

// Rare reasons for refusals are summed up as "others", with the best that any of them has.
func TestRareReasonsAreSummedUp(t *testing.T) {
	var rows []state.Row
	spec := &placement.Spec{Owner: "web"}
	for n := range 11 {
		spec.Loads = append(spec.Loads, cluster.Metric{Name: fmt.Sprintf("m%02d", n), Load: 100})
		for k := range 12 - n { // the reason m00 is the most frequent
			var full []oracle.Option
			for m := range 11 {
				left := int64(200)
				if m == n {
					left = int64(10 + n)
				}
				full = append(full, oracle.Metric(fmt.Sprintf("m%02d", m), left))
			}
			rows = append(rows, oracle.Instance(fmt.Sprintf("i-%02d-%02d", n, k), full...))
		}
	}
	d := placement.New(oracle.SnapshotOf(rows...)).Place(placement.Request{Spec: spec, Count: 1}).Diagnosis
	if len(d.Rejected) != 8 {
		t.Fatalf("%d reasons, expected 8: %v", len(d.Rejected), d)
	}
	others := 0
	for _, r := range d.Rejected {
		if r.Detail == "others" {
			others++
			if r.Count != 5+4+3+2 || r.Best != 20 || r.Need != 100 {
				t.Errorf("others are %+v", r)
			}
		}
	}
	if others != 1 {
		t.Errorf("%d reasons are called others: %v", others, d)
	}
}

// Under a spread over instances, stops leave as few tasks as possible on the fullest instance,
// whichever of the tasks are younger.
func TestStopsEvenOutInstances(t *testing.T) {
	counts := []int{9, 7, 5, 3}
	var rows []state.Row
	var tasks []*cluster.Task
	for i, count := range counts {
		id := fmt.Sprintf("i-%d", i)
		rows = append(rows, oracle.Instance(id, oracle.CPU(16384), oracle.Memory(65536)))
		for n := range count {
			task := oracle.Task(fmt.Sprintf("t-%d-%d", i, n), id, oracle.Created(int64(1000+n*7%5+i*n%3)))
			tasks, rows = append(tasks, task), append(rows, task)
		}
	}
	s := oracle.SnapshotOf(rows...)
	for n := range len(tasks) + 1 {
		left := map[string]int{"i-0": 9, "i-1": 7, "i-2": 5, "i-3": 3}
		for _, task := range oracle.ChooseStops(s, tasks, n) {
			left[task.Instance]--
		}
		sum, highest, most := 0, 0, 0
		for _, count := range left {
			sum, highest = sum+count, max(highest, count)
		}
		for level := 0; ; level++ { // the lowest level at which so many fit
			fit := 0
			for _, count := range counts {
				fit += min(count, level)
			}
			if most = level; fit >= len(tasks)-n {
				break
			}
		}
		if sum != len(tasks)-n || highest != most {
			t.Errorf("after %d stops %v are left, expected %d tasks and at most %d on one", n, left, len(tasks)-n, most)
		}
	}
}

// With the random strategy each of three equal tasks stops about as often.
func TestRandomStops(t *testing.T) {
	tasks := []*cluster.Task{oracle.Task("t1", "i-1", oracle.Created(3000)), oracle.Task("t2", "i-1"),
		oracle.Task("t3", "i-2")}
	s := oracle.SnapshotOf(oracle.Instance("i-1"), oracle.Instance("i-2"), tasks[0], tasks[1], tasks[2])
	e, count := placement.New(s), map[string]int{}
	spec := &placement.Spec{Owner: "web", Strategies: []cluster.PlacementStrategy{{Type: cluster.StrategyRandom}}}
	for seed := range uint64(600) {
		count[oracle.IDs(e.ChooseStops(placement.Request{Spec: spec, Count: 1, Seed: seed}, tasks))]++
	}
	for _, task := range tasks {
		if n := count[task.ID]; n < 140 || n > 260 {
			t.Errorf("of 600 seeds %d stop %s, expected about 200", n, task.ID)
		}
	}
}

// A task that needs exactly what is left of a device, of a metric without its buffer, or of the
// interfaces beyond what is reserved, finds room; one that needs more does not.
func TestExactFit(t *testing.T) {
	held := func(t *cluster.Task) {
		t.Needs, t.GPUs = cluster.Resources{GPUs: 1, GPUMilli: 600}, []int{0}
	}
	buffer := oracle.Configuration(cluster.Configuration{Buffer: map[string]float64{"m": 0.2}})
	enis := func(n int) oracle.Option { return func(i *cluster.Instance) { i.Registered.ENIs = &n } }
	device := func(milli int32) placement.Spec {
		return placement.Spec{Needs: cluster.Resources{GPUs: 1, GPUMilli: milli}}
	}
	load := func(n int64) placement.Spec {
		return placement.Spec{Loads: []cluster.Metric{{Name: "m", Load: n}}}
	}
	for name, c := range map[string]struct {
		rows []state.Row
		spec placement.Spec
		want int // of two tasks, without the buffer
	}{
		"Share": {[]state.Row{oracle.Instance("a", oracle.GPUs(1)), oracle.Task("t", "a", held)}, device(400),
			1},
		"ShareAndOne": {[]state.Row{oracle.Instance("a", oracle.GPUs(1)), oracle.Task("t", "a", held)}, device(401),
			0},
		"TwoShares": {[]state.Row{oracle.Instance("a", oracle.GPUs(1)), oracle.Task("t", "a", held)}, device(200),
			2},
		"Metric":       {[]state.Row{buffer, oracle.Instance("a", oracle.Metric("m", 100))}, load(80), 1},
		"MetricAndOne": {[]state.Row{buffer, oracle.Instance("a", oracle.Metric("m", 100))}, load(81), 0},
		"Interfaces": {[]state.Row{oracle.Instance("a", enis(1))},
			placement.Spec{Needs: cluster.Resources{ENIs: 1}}, 1},
		"CPU": {[]state.Row{oracle.Instance("a", oracle.CPU(512))},
			placement.Spec{Needs: cluster.Resources{CPU: 512 * cluster.CPUUnit}}, 1},
		"Memory": {[]state.Row{oracle.Instance("a", oracle.Memory(512))},
			placement.Spec{Needs: cluster.Resources{Memory: 512}}, 1},
	} {
		c.spec.Owner = "web"
		r := placement.Request{Spec: &c.spec, Count: 2, Unbuffered: true}
		if got := placement.New(oracle.SnapshotOf(c.rows...)).Place(r); len(got.Placed) != c.want {
			t.Errorf("%s: %d of two tasks find room, expected %d: %v", name, len(got.Placed), c.want, got.Diagnosis)
		}
	}
}

// An explanation names what is left without the buffer only to a task that may not use it.
func TestBestOfBufferedMetrics(t *testing.T) {
	rows := []state.Row{oracle.Configuration(cluster.Configuration{Buffer: map[string]float64{"m": 0.2}}),
		oracle.Instance("a", oracle.Metric("m", 100)), oracle.Task("t", "a", oracle.Load(30))}
	spec := &placement.Spec{Owner: "web", Loads: []cluster.Metric{{Name: "m", Load: 75}}}
	for unbuffered, best := range map[bool]float64{false: 70, true: 50} {
		why := placement.New(oracle.SnapshotOf(rows...)).
			WhyNot(placement.Request{Spec: spec, Unbuffered: unbuffered}, "a")
		if len(why) != 1 || why[0].Detail != "m" || why[0].Need != 75 || why[0].Best != best {
			t.Errorf("without the buffer %v: %+v, expected need 75, best %g of m", unbuffered, why, best)
		}
	}
	spec = &placement.Spec{Owner: "web", Loads: []cluster.Metric{{Name: "m", Load: 60}}}
	why := placement.New(oracle.SnapshotOf(rows...)).WhyNot(placement.Request{Spec: spec, Unbuffered: true}, "a")
	if len(why) != 1 || why[0].Need != 60 || why[0].Best != 50 {
		t.Errorf("%+v, expected need 60, best 50: only the buffer has room", why)
	}
}

// Of the instances that a request names, one that needs no buffer comes first, whatever the order.
func TestRequestedInstancesWithoutTheBuffer(t *testing.T) {
	e := placement.New(oracle.SnapshotOf(oracle.Configuration(cluster.Configuration{Buffer: map[string]float64{"m": 0.2}}),
		oracle.Instance("a", oracle.Metric("m", 100)), oracle.Instance("b", oracle.Metric("m", 100)),
		oracle.Task("t", "a", oracle.Owner("other"), oracle.Load(70))))
	got := e.Place(placement.Request{Spec: &placement.Spec{Owner: "web", Loads: []cluster.Metric{{Name: "m", Load: 20}}},
		Count: 1, Instances: []string{"a", "b"}})
	if len(got.Placed) != 1 || got.Placed[0].Instance != "b" {
		t.Errorf("%+v, expected b: on a only the buffer has room", got.Placed)
	}
}

// Instances that are refused in one question are candidates in the next one.
func TestRefusedInstancesAreOfOneRequest(t *testing.T) {
	e := placement.New(oracle.SnapshotOf(oracle.Instance("a")))
	r := placement.Request{Spec: &placement.Spec{Owner: "web"}, Count: 1, Refused: []string{"a"}}
	if got := e.Explain(r); got.Best != nil {
		t.Errorf("the best is %+v, although the only instance is refused", got.Best)
	}
	r.Refused = nil
	if got := e.Place(r); len(got.Placed) != 1 {
		t.Errorf("no place: %v", got.Diagnosis)
	}
}

// Unusable instances follow changes of the snapshot.
func TestUnusableInstancesFollowChanges(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("a", oracle.Attribute("disk", "ssd")))
	e := placement.New(s)
	services := []placement.ServiceSpec{{Name: "web", Spec: &placement.Spec{Owner: "web",
		Attributes: []string{"disk=ssd"}}}}
	if got := e.UnusableInstances(services); len(got) > 0 {
		t.Fatalf("unusable are %v", got)
	}
	s.Put(oracle.Instance("a", func(i *cluster.Instance) { i.Rev = 2 }))
	s.Put(oracle.Instance("b"))
	if got := e.UnusableInstances(services); len(got) != 2 {
		t.Errorf("unusable are %v, expected both instances", got)
	}
}

// A question sees what has changed in the snapshot since the last one.
func TestEligibleInstancesFollowChanges(t *testing.T) {
	s := oracle.SnapshotOf(oracle.Instance("a"))
	e := placement.New(s)
	spec := &placement.Spec{Owner: "web", Attributes: []string{"disk=ssd"}}
	for _, c := range []struct {
		row  state.Row
		want string
	}{{oracle.Instance("b", oracle.Attribute("disk", "ssd")), "[b]"},
		{oracle.Instance("a", oracle.Attribute("disk", "ssd"), func(i *cluster.Instance) { i.Rev = 2 }), "[a b]"},
		{oracle.Instance("b", func(i *cluster.Instance) { i.Rev = 2 }), "[a]"}} {
		s.Put(c.row)
		if got := fmt.Sprint(e.EligibleInstances(spec)); got != c.want {
			t.Errorf("eligible are %s, expected %s", got, c.want)
		}
	}
}

// The best that an explanation names for GPUs is what tasks of this kind could use: shares of one
// device count only for a single share, and several devices only together.
func TestBestOfGPUs(t *testing.T) {
	held := func(milli int32, device int) oracle.TaskOption {
		return func(t *cluster.Task) { t.Needs, t.GPUs = cluster.Resources{GPUs: 1, GPUMilli: milli}, []int{device} }
	}
	rows := []state.Row{oracle.Instance("a", oracle.GPUs(2)), oracle.Task("t", "a", held(700, 0)),
		oracle.Task("u", "a", held(600, 1))} // 0.3 and 0.4 are free
	for _, c := range []struct {
		gpus       int
		milli      int32
		need, best float64
	}{{1, 500, 0.5, 0.4}, {1, 0, 1, 0}, {2, 500, 1, 0}, {2, 350, 0.7, 0.35}, {3, 250, 0.75, 0.5}, {6, 100, 0.6, 0.2}} {
		spec := &placement.Spec{Owner: "web", Needs: cluster.Resources{GPUs: c.gpus, GPUMilli: c.milli}}
		why := placement.New(oracle.SnapshotOf(rows...)).WhyNot(placement.Request{Spec: spec}, "a")
		if len(why) != 1 || why[0].Need != c.need || why[0].Best != c.best {
			t.Errorf("%d devices of %d: %+v, expected need %g, best %g", c.gpus, c.milli, why, c.need, c.best)
		}
	}
}

// A service that wants no task makes no instance unusable.
func TestServicesWithoutTasksBarNothing(t *testing.T) {
	e := placement.New(oracle.SnapshotOf(oracle.Instance("a", oracle.Attribute(cluster.AttributeFaultDomain, "fd:/a"))))
	services := []placement.ServiceSpec{{Name: "none", Spec: &placement.Spec{Owner: "none",
		DomainPolicy: cluster.PolicyDifference}}}
	if got := e.UnusableInstances(services); len(got) > 0 {
		t.Errorf("unusable are %v", got)
	}
}

// Also in a large cluster, where an owner shares its index with others, chance decides only between
// instances without a task of the owner while there are any.
func TestChanceInALargeCluster(t *testing.T) {
	rows := []state.Row{oracle.Task("t", "i-000")}
	for n := range 200 {
		rows = append(rows, oracle.Instance(fmt.Sprintf("i-%03d", n)))
	}
	spec := &placement.Spec{Owner: "web", Needs: oracle.Small, Strategies: []cluster.PlacementStrategy{
		spreadOver("instanceId"), {Type: cluster.StrategyRandom}}}
	e, chosen := placement.New(oracle.SnapshotOf(rows...)), map[string]bool{}
	for seed := range uint64(300) {
		got := e.Place(placement.Request{Spec: spec, Count: 1, Seed: seed})
		if len(got.Placed) != 1 || got.Placed[0].Instance == "i-000" {
			t.Fatalf("seed %d: placed %v", seed, got.Placed)
		}
		chosen[got.Placed[0].Instance] = true
	}
	if len(chosen) < 120 {
		t.Errorf("300 seeds choose %d of 199 instances", len(chosen))
	}
}

// Instances that a request names come in its order, and the explanation says so. Whether an
// instance needs its buffer comes before.
func TestRequestedOrderIsExplained(t *testing.T) {
	r := oracle.WebRequest(1)
	r.Instances = []string{"i-2", "i-1", "i-3"}
	r.Spec.Loads = []cluster.Metric{{Name: "m", Load: 80}}
	rows := []state.Row{oracle.Configuration(cluster.Configuration{Buffer: map[string]float64{"m": 0.5}}),
		oracle.Instance("i-1"), oracle.Instance("i-2"), oracle.Instance("i-3", oracle.Metric("m", 100))}
	e := placement.New(oracle.SnapshotOf(rows...))
	x := e.Explain(r)
	oracle.Expect(t, "words", x.String(), "3 instances; of the 3 that can run it, i-2 comes first in the "+
		"requested order (1, runner-up i-1: 2)")
	for id, want := range map[string]string{"i-1": "no 2", "i-2": "no 1", "i-3": "yes 3"} {
		key := e.CandidateOn(r, id).Key
		if got := key[0].Text + " " + key[1].Text; got != want ||
			key[0].Value != map[bool]float64{true: 1}[id == "i-3"] {
			t.Errorf("%s needs the buffer, and its place in the order: %s, expected %s", id, got, want)
		}
	}
}

// Of the instances that a request names, one in a domain that was closed for a while comes back to
// its place: before those that have a task of the request already.
func TestRequestedInstancesOfDomainsThatOpenAgain(t *testing.T) {
	in := func(domain string) oracle.Option {
		return oracle.Attribute(cluster.AttributeFaultDomain, "fd:/"+domain)
	}
	e := placement.New(oracle.SnapshotOf(oracle.Instance("a1", in("a")), oracle.Instance("a2", in("a")),
		oracle.Instance("b1", in("b"))))
	got := e.Place(placement.Request{Spec: &placement.Spec{Owner: "web", DomainPolicy: cluster.PolicyDifference},
		Count: 3, Target: 3, Instances: []string{"a1", "a2", "b1"}})
	oracle.Expect(t, "placed", oracle.Where(got.Placed), "a1 b1 a2")
}
