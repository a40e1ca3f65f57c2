package moves_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/placement/rebalance"
	"berth/shared/state"
	"berth/tests/oracle"
)

// A balanceOracle measures a cluster by the definitions of its goals, from rows alone.
type balanceOracle struct {
	*oracle.MoveWorld
	goals *moves.Goals
	// means are the first that were measured. Deviations are in multiples of these: a task that
	// leaves an instance that does not count changes the mean.
	means map[string]float64
	// parts are those of the distance that was last measured, by metric or goal.
	parts map[string]float64
}

func genBalance(t *rapid.T) *balanceOracle {
	w := &balanceOracle{MoveWorld: oracle.GenMoveWorld(t, 8, 24), goals: &moves.Goals{}}
	for _, i := range w.Instances {
		i.Attributes[cluster.AttributeZone] = fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "zone"))
		for name := range i.Registered.Metrics {
			i.Registered.Metrics[name] *= 8
		}
	}
	for name, o := range w.Owners {
		if spec := *o.Spec; !oracle.IsGoverned(&spec) {
			spec.Strategies = rapid.SampledFrom([][]cluster.PlacementStrategy{
				nil, {{Type: cluster.StrategyBinpack, Field: "cpu"}},
				{{Type: cluster.StrategySpread, Field: "instanceId"}},
				{{Type: cluster.StrategySpread, Field: "attribute:" + cluster.AttributeZone}},
				{{Type: cluster.StrategySpread, Field: "attribute:disk"},
					{Type: cluster.StrategySpread, Field: "instanceId"}},
				{{Type: cluster.StrategySpread, Field: "attribute:" + cluster.AttributeZone},
					{Type: cluster.StrategySpread, Field: "host"}},
			}).Draw(t, "strategies")
			if len(spec.Strategies) == 0 && rapid.IntRange(0, 3).Draw(t, "scored") == 0 {
				spec.Scoring = placement.LeastFragmentation
			}
			o.Spec = &spec
			w.Owners[name] = o
		}
	}
	for _, name := range []string{"a", "b", "CPU", "none"} {
		if rapid.IntRange(0, 2).Draw(t, "goal") == 0 {
			continue
		}
		w.goals.Metrics = append(w.goals.Metrics, moves.MetricGoal{Name: name,
			Weight: rapid.SampledFrom([]float64{0, 0.3, 1}).Draw(t, "weight"),
			Safety: rapid.SampledFrom([]float64{0, 0, 0.3}).Draw(t, "safety"),
			Gather: rapid.IntRange(0, 3).Draw(t, "gather") == 0})
	}
	weight := rapid.SampledFrom([]float64{0, 1, 2})
	w.goals.Zones, w.goals.Domains = weight.Draw(t, "zones"), weight.Draw(t, "domains")
	w.goals.Instances, w.goals.Empty = weight.Draw(t, "instances"), weight.Draw(t, "empty")
	w.goals.EmptyCount = rapid.IntRange(0, 10).Draw(t, "empty instances")
	if w.goals.EmptyCount == 0 {
		w.goals.EmptyShare = rapid.SampledFrom([]float64{0, 0, 0.5}).Draw(t, "empty share")
	}
	w.goals.EmptyOverDomains = rapid.Bool().Draw(t, "over domains")
	return w
}

// hosts reports whether the instance may have a task of the owner.
func (w *balanceOracle) hosts(owner string, i *cluster.Instance) bool {
	spec := w.Owners[owner].Spec
	return i.Status == cluster.InstanceActive && !oracle.IsCordoned(i) && !slices.Contains(spec.Avoid, i.ID) &&
		oracle.MissingAttribute(spec, i) == ""
}

// usesOf returns what the task uses of a metric, or of CPU.
func usesOf(t *cluster.Task, name string) int64 {
	if name == "CPU" {
		return t.Needs.CPU
	}
	return t.Reported[name]
}

func (w *balanceOracle) isMovable(t *cluster.Task) bool {
	return t.IsActive() && !w.Owners[t.Owner].Fixed && w.FindInstance(t.Instance).Status == cluster.InstanceActive &&
		!slices.Contains(w.Owners[t.Owner].Spec.Avoid, t.Instance)
}

// A measuredMetric has the loads of the instances that a metric is to be even over: those that the
// owner of some movable task with the metric may use.
type measuredMetric struct {
	moves.MetricGoal
	loads map[string]int64 // per instance that counts
	mean  float64
	packs bool // gathered without a number of instances to empty
}

// isScattered reports whether all instances of some domain have load, and the fullest at most as many times that
// of the emptiest as the threshold says, or whether the threshold is 1.
func (w *balanceOracle) isScattered(m *measuredMetric) bool {
	threshold, set := w.Config.Balancing[m.Name]
	if !set {
		threshold = 1
	}
	within := map[string][]int64{}
	for id, load := range m.loads {
		i := w.FindInstance(id)
		within["fault "+i.FaultDomain()] = append(within["fault "+i.FaultDomain()], load)
		within["upgrade "+i.UpgradeDomain()] = append(within["upgrade "+i.UpgradeDomain()], load)
	}
	for _, loads := range within {
		least := slices.Min(loads)
		if threshold > 0 && len(loads) > 1 && least > 0 && float64(slices.Max(loads)) <= threshold*float64(least) {
			return true
		}
	}
	return threshold == 1
}

func (w *balanceOracle) measureMetrics() (out []measuredMetric) {
	highest := 0.0
	for _, g := range w.goals.Metrics {
		highest = max(highest, g.Weight)
	}
	for _, g := range w.goals.Metrics {
		m := measuredMetric{MetricGoal: g, loads: map[string]int64{}}
		for _, user := range w.Tasks {
			for _, i := range w.Instances {
				if !w.isMovable(user) || usesOf(user, g.Name) == 0 || !w.hosts(user.Owner, i) {
					continue
				}
				m.loads[i.ID] = 0
				for _, t := range w.Tasks {
					if t.Instance == i.ID {
						m.loads[i.ID] += usesOf(t, g.Name)
					}
				}
			}
		}
		for _, load := range m.loads {
			m.mean += float64(load) / float64(len(m.loads))
		}
		if m.mean > 0 && (g.Weight > 0 || g.Safety > 0 || g.Gather) {
			m.Weight /= max(highest, 1e-300)
			if m.Gather {
				m.packs = m.Weight > 0 && len(m.loads) > 1 && w.goals.EmptyCount == 0 && w.goals.EmptyShare == 0
				m.Weight = 0
			}
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b measuredMetric) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// surplus returns which share of all tasks is more than an even part of its owner's tasks, in the
// groups that the owner may use, for owners that are spread over such groups.
func (w *balanceOracle) surplus(isSpread func(*placement.Spec) bool, group func(*cluster.Instance) string) float64 {
	surplus, all := 0, 0
	for name, owner := range w.Owners {
		usable, in, size := map[string]bool{}, map[string]int{}, 0
		for _, i := range w.Instances {
			if w.hosts(name, i) {
				usable[group(i)] = true
			}
		}
		for _, t := range w.Tasks {
			if t.Owner == name && t.IsActive() {
				in[group(w.FindInstance(t.Instance))]++
				size++
			}
		}
		all += size
		if !isSpread(owner.Spec) {
			continue
		}
		for _, n := range in {
			surplus += max(0, n-int(math.Ceil(float64(size)/float64(max(1, len(usable))))))
		}
	}
	return float64(surplus) / float64(max(1, all))
}

func overZones(s *placement.Spec) bool {
	return !oracle.IsGoverned(s) && (len(s.Strategies) == 0 && s.Scoring == "" ||
		len(s.Strategies) > 0 && s.Strategies[0].Field == "attribute:"+cluster.AttributeZone)
}

func overInstances(s *placement.Spec) bool {
	last := len(s.Strategies) - 1
	return !oracle.IsGoverned(s) && (last < 0 && s.Scoring == "" ||
		last == 0 && s.Strategies[0].Field == "instanceId" || last == 1 && s.Strategies[1].Field == "host")
}

// measure returns the balance by its definition.
func (w *balanceOracle) measure() (out moves.Balance) {
	w.parts = map[string]float64{}
	gathers, full := false, map[string]bool{}
	candidates, means := map[string]bool{}, map[string]float64{}
	o := oracle.NewOracle(&w.World, placement.Request{})
	for _, m := range w.measureMetrics() {
		x := moves.MetricBalance{Name: m.Name, Mean: m.mean}
		var list []int64
		squares, above, roots, n, first := 0.0, 0.0, 0.0, float64(len(m.loads)), m.mean
		if w.means != nil {
			first = w.means[m.Name]
		}
		if x.Mean = first; first == 0 { // no goal when this began
			continue
		}
		means[m.Name] = first
		for id, load := range m.loads {
			list = append(list, load)
			roots += math.Sqrt(float64(load) / first)
			squares += (float64(load) - m.mean) / first * (float64(load) - m.mean) / first
			i := w.FindInstance(id)
			limit, _ := o.Limits(i, m.Name)
			if m.Name == "CPU" {
				limit = i.Registered.CPU
			}
			if m.Safety > 0 && limit < math.MaxInt64 {
				above += max(0, float64(load)-m.Safety*float64(limit))
			}
			if m.Gather {
				candidates[id], full[id] = true, full[id] || load > 0
			}
		}
		gathers = gathers || m.Gather
		x.Deviation, x.Unsafe = math.Sqrt(squares/n), above/(first*n)
		x.Min, x.Max = slices.Min(list), slices.Max(list)
		x.Balanced = placement.AssessBalance(w.Config, m.Name, m.Weight, list).Balanced
		w.parts[m.Name] = m.Weight*x.Deviation + 4*x.Unsafe
		if m.packs {
			x.Balanced = !w.isScattered(&m)
			w.parts[m.Name] += w.goals.Empty * (roots - math.Sqrt(n)) / (n - math.Sqrt(n))
		}
		out.Metrics = append(out.Metrics, x)
	}
	w.means = means
	zone, domain := (*cluster.Instance).Zone, (*cluster.Instance).FaultDomain
	if w.goals.Zones > 0 {
		out.Zones = w.surplus(overZones, zone)
	}
	if w.goals.Domains > 0 {
		out.Domains = w.surplus(oracle.IsGoverned, domain)
	}
	if w.goals.Instances > 0 {
		out.Instances = w.surplus(overInstances, func(i *cluster.Instance) string { return i.ID })
	}
	w.parts["in zones"], w.parts["in domains"] = w.goals.Zones*out.Zones, w.goals.Domains*out.Domains
	w.parts["on instances"] = w.goals.Instances * out.Instances
	if gathers {
		for id := range candidates {
			if !full[id] {
				out.Empty++
			}
		}
		out.EmptyWanted = min(w.goals.EmptyCount, len(candidates))
		if w.goals.EmptyShare > 0 {
			out.EmptyWanted = int(w.goals.EmptyShare * float64(len(candidates)))
		}
		if out.EmptyWanted > 0 {
			w.parts["to empty"] = w.goals.Empty * float64(max(0, out.EmptyWanted-out.Empty)) / float64(out.EmptyWanted)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.parts)) {
		out.Distance += w.parts[name]
	}
	return out
}

// unimprovable returns the part of the measured distance of metrics of which no instance has load of two
// tasks of the owners.
func (w *balanceOracle) unimprovable() (sum float64) {
	for _, m := range w.measureMetrics() {
		tasks, most := map[string]int{}, 0
		for _, t := range w.Tasks {
			if _, counts := m.loads[t.Instance]; counts && t.IsActive() && w.Owners[t.Owner].Spec != nil &&
				usesOf(t, m.Name) > 0 {
				tasks[t.Instance]++
				most = max(most, tasks[t.Instance])
			}
		}
		if most < 2 && !m.packs {
			sum += w.parts[m.Name]
		}
	}
	return sum
}

// isOff reports whether something is out of balance.
func isOff(b moves.Balance) bool {
	return b.Zones > 0 || b.Domains > 0 || b.Instances > 0 || b.Empty < b.EmptyWanted ||
		slices.ContainsFunc(b.Metrics, func(m moves.MetricBalance) bool { return !m.Balanced || m.Unsafe > 0 })
}

// differ says how two balances differ, or returns "". Floats may be rounded otherwise.
func differ(what string, got, want moves.Balance) string {
	equal := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
	same := equal(got.Distance, want.Distance) && equal(got.Zones, want.Zones) && equal(got.Domains, want.Domains) &&
		equal(got.Instances, want.Instances) && got.Empty == want.Empty && got.EmptyWanted == want.EmptyWanted &&
		slices.EqualFunc(got.Metrics, want.Metrics, func(a, b moves.MetricBalance) bool {
			return a.Name == b.Name && a.Min == b.Min && a.Max == b.Max && a.Balanced == b.Balanced &&
				equal(a.Mean, b.Mean) && equal(a.Deviation, b.Deviation) && equal(a.Unsafe, b.Unsafe)
		})
	if !same {
		return fmt.Sprintf("%s is\n%+v, expected\n%+v", what, got, want)
	}
	return ""
}

// What a plan says of the balance before it, after it, and of the gain of each move is so by
// definition. Each move starts a replacement where there is room beside everything else, and makes
// no rule worse. A plan gains something worthwhile, or has no moves.
func TestBalanceIsWhatItSays(t *testing.T) {
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 40 {
			w := genBalance(t)
			moved += w.checkPlan(t)
		}
	})
	if moved < 20 {
		t.Errorf("%d moves, expected more", moved)
	}
}

// The same holds where services share the limits of an application: the number of its instances, its load
// on each, and what it has reserved.
func TestBalanceKeepsApplications(t *testing.T) {
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 40 {
			w := genBalance(t)
			w.DrawApplication(t)
			moved += w.checkPlan(t)
		}
	})
	if moved < 20 {
		t.Errorf("%d moves, expected more", moved)
	}
}

// checkPlan returns how many moves there are. Measured without a search, the balance is the same.
func (w *balanceOracle) checkPlan(t *rapid.T) int {
	measured := moves.NewPlanner(placement.New(w.Snapshot(1))).MeasureBalance(moves.BalanceRequest{
		Request: moves.Request{Owners: w.Owners}, Goals: w.goals})
	if problem := differ("without a search, it", measured, w.measure()); problem != "" {
		t.Fatal(problem)
	}
	p := w.plan(t, rapid.Uint64().Draw(t, "seed"))
	if problem := w.problemOf(p); problem != "" {
		t.Fatal(problem)
	}
	return len(p.Moves)
}

func (w *balanceOracle) plan(t rapid.TB, seed uint64) *moves.BalancePlan {
	p, err := moves.NewPlanner(placement.New(w.Snapshot(1))).Balance(moves.BalanceRequest{
		Request: moves.Request{Owners: w.Owners}, Goals: w.goals, Budget: rebalance.Budget{Steps: 4096}, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// problemOf carries out the plan and returns what is wrong with it, or "".
func (w *balanceOracle) problemOf(p *moves.BalancePlan) string {
	kept, before := map[string]bool{}, w.measure()
	improvable := before.Distance - w.unimprovable()
	if problem := differ("before it", p.Before, before); problem != "" {
		return problem
	}
	if !isOff(before) && len(p.Moves)+int(p.Steps) > 0 {
		return fmt.Sprintf("moves %v, although everything is in balance", p.Moves)
	}
	o, cost := oracle.NewMoveOracle(w.MoveWorld), 0
	nodes := o.NodesOfShop()
	for n, m := range p.Moves {
		at := slices.IndexFunc(w.Tasks, func(x *cluster.Task) bool { return x.ID == m.Task })
		task := *w.Tasks[at]
		if task.Instance != m.From || kept[m.Task] || !w.isMovable(&task) || m.Mode != moves.StartFirst || m.Via != "" {
			return fmt.Sprintf("move %d is %+v, the task is on %s", n, m, task.Instance)
		}
		kept[m.Task] = true
		beside := oracle.NewMoveOracle(w.MoveWorld)
		if beside.AddCopy(m.Task, m.To); beside.Overfull() != "" {
			return fmt.Sprintf("move %d: %s while both tasks run", n, beside.Overfull())
		}
		task.Instance = m.To
		w.Tasks[at] = &task
		o.PutTask(m.Task, m.To)
		if _, stages := o.Score(); !stages[0] {
			return fmt.Sprintf("move %d of %s to %s makes a rule worse\n%s", n, m.Task, m.To, w.Describe())
		}
		most, were := int64(w.Config.Applications[oracle.Shop].MaximumNodes), nodes
		if nodes = o.NodesOfShop(); nodes > max(most, were) {
			return fmt.Sprintf("move %d brings the application from %d to %d instances, of %d\n%s", n, were, nodes, most,
				w.Describe())
		}
		now := w.measure()
		if math.Abs(before.Distance-now.Distance-m.Gain) > 1e-6 || m.Owner != task.Owner {
			return fmt.Sprintf("move %d gains %g, expected %g", n, m.Gain, before.Distance-now.Distance)
		}
		if m.Gain > p.Moves[len(p.Moves)-1].Gain {
			return fmt.Sprintf("the plan gains %g in the end, and %g after move %d", p.Moves[len(p.Moves)-1].Gain,
				m.Gain, n)
		}
		cost += m.Cost
	}
	if problem := differ("after it", p.After, w.measure()); problem != "" {
		return problem
	}
	gain := before.Distance - p.After.Distance
	if len(p.Moves) > 0 && gain < max(0.04, 0.05*improvable)-1e-9 || p.Cost != cost {
		return fmt.Sprintf("%d moves gain %g of %g and cost %d, expected %d", len(p.Moves), gain, improvable, p.Cost,
			cost)
	}
	return ""
}

// The check of plans notices each of these bugs. A bug shows the planner a cluster in which it
// would be right, or changes the plan.
func TestPlantedBalanceBugsAreNoticed(t *testing.T) {
	worlds := rapid.Custom(genBalance)
	for name, bug := range map[string]struct {
		show   func(*balanceOracle)
		change func(*moves.BalancePlan)
		says   string
	}{
		"ThresholdIgnored": {func(w *balanceOracle) { w.Config.Balancing = nil }, nil, "before it is"},
		"ActivityIgnored":  {func(w *balanceOracle) { w.Config.Activity = nil }, nil, "before it is"},
		"WeightsIgnored": {func(w *balanceOracle) {
			w.goals = new(*w.goals)
			w.goals.Metrics = slices.Clone(w.goals.Metrics)
			for n := range w.goals.Metrics {
				w.goals.Metrics[n].Weight = 1
			}
		}, nil, "before it is"},
		"MoveAppliedTwice": {nil, func(p *moves.BalancePlan) {
			if len(p.Moves) > 0 {
				p.Moves = append(p.Moves, p.Moves[0])
			}
		}, "the task is on"},
		// A task on its way counts where it goes, and no longer where it still is: moves that wait
		// for others begin before them.
		"TransitCountedOnce": {nil, func(p *moves.BalancePlan) { slices.Reverse(p.Moves) }, "while both tasks run"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range 3000 {
				shown, w := worlds.Example(seed), worlds.Example(seed)
				for _, x := range []*balanceOracle{shown, w} {
					x.Config.Balancing = map[string]float64{"a": 3, "b": 2}
					x.Config.Activity = map[string]int64{"a": 20}
				}
				if bug.show != nil {
					bug.show(shown)
				}
				p := shown.plan(t, 1)
				if bug.change != nil {
					bug.change(p)
				}
				problem := w.problemOf(p)
				if strings.Contains(problem, bug.says) {
					right := worlds.Example(seed)
					right.Config.Balancing, right.Config.Activity = w.Config.Balancing, w.Config.Activity
					if problem := right.problemOf(right.plan(t, 1)); problem != "" {
						t.Errorf("without the bug: %s", problem)
					}
					return
				}
			}
			t.Error("no world of 3000 shows it")
		})
	}
}

// Goals come from the configuration and the services: weights, thresholds, safety levels, and how
// many instances are to be empty, of which only those that are available count towards a share.
func TestGoalsOf(t *testing.T) {
	rows := []state.Row{oracle.Configuration(cluster.Configuration{
		Balancing: map[string]float64{"off": 0, "gathered": 0, "on": 2},
		Rebalancing: &cluster.Rebalancing{
			Weights:      map[string]float64{"off": 1, "gathered": 0.5, "on": 0.7, "MEMORY": 0.2},
			EmptyMetrics: []string{"gathered"},
			SafetyLevels: map[string]float64{"on": 0.8, "CPU": 0.6, "MEMORY": 0.5, "set": 0.9}, EmptyInstances: 1,
			EmptyOverDomains: true,
		}})}
	for n := range 5 {
		rows = append(rows, oracle.Instance(fmt.Sprintf("i%d", n), oracle.Metric("off", 1), oracle.Metric("on", 1),
			oracle.Metric("gathered", 1), oracle.Metric("set", 1)))
	}
	rows = append(rows, oracle.Instance("down", oracle.Disconnected))
	read := func() *moves.Goals {
		g := moves.NewPlanner(placement.New(oracle.SnapshotOf(rows...))).GoalsOf()
		slices.SortFunc(g.Metrics, func(a, b moves.MetricGoal) int { return strings.Compare(a.Name, b.Name) })
		return g
	}
	want := []moves.MetricGoal{{Name: "CPU", Safety: 0.6}, {Name: "MEMORY", Weight: 0.2, Safety: 0.5},
		{Name: "gathered", Weight: 0.5, Gather: true}, {Name: "off"}, {Name: "on", Weight: 0.7, Safety: 0.8},
		{Name: "set", Weight: 0.1, Safety: 0.9}}
	if g := read(); !slices.Equal(g.Metrics, want) || g.EmptyCount != 1 || !g.EmptyOverDomains {
		t.Errorf("%+v", g)
	}
	again := *rows[0].(*cluster.Configuration).Rebalancing
	again.EmptyShare = 0.5
	rows[0] = oracle.Configuration(cluster.Configuration{Rebalancing: &again})
	if g := read(); g.EmptyShare != 0.5 {
		t.Errorf("a share of %v is to be empty", g.EmptyShare)
	}
}

// The reason of a move that spreads tasks names the place with more of them, and the one with
// fewer.
func TestReasonsOfSpreading(t *testing.T) {
	spread := func(field string) []cluster.PlacementStrategy {
		return []cluster.PlacementStrategy{{Type: cluster.StrategySpread, Field: field}}
	}
	for want, c := range map[string]struct {
		tasks [3]int
		spec  *placement.Spec
		to    string
	}{
		"zone a has 4 tasks of web, b has 0": {[3]int{3, 1, 0}, &placement.Spec{Owner: "web"}, "b1"},
		"instance a1 has 3 tasks of web, b1 has 0": {[3]int{3, 1, 0},
			&placement.Spec{Owner: "web", Strategies: spread("instanceId")}, "b1"},
		"instance a1 has 4 tasks of web, a2 has 0": {[3]int{4, 0, 4}, &placement.Spec{Owner: "web"}, "a2"}, // in one zone
		"fault domain fd:/1 has 2 tasks of web, fd:/2 has 0": {[3]int{1, 1, 0},
			&placement.Spec{Owner: "web", DomainPolicy: cluster.PolicyQuorum}, "b1"},
	} {
		var rows []state.Row
		for n, id := range []string{"a1", "a2", "b1"} {
			fault := oracle.Attribute(cluster.AttributeFaultDomain, []string{"fd:/1", "fd:/1", "fd:/2"}[n])
			rows = append(rows, oracle.Instance(id, oracle.Zone(id[:1]), fault))
			for k := range c.tasks[n] {
				rows = append(rows, oracle.Task(fmt.Sprint(id, k), id))
			}
		}
		m := movers(c.spec)
		m.Most = 1
		if p := planBalance(t, rows, m, 20_000, 1); len(p.Moves) != 1 || p.Moves[0].Why != want ||
			p.Moves[0].To != c.to {
			t.Errorf("%+v, expected %q", p.Moves, want)
		}
	}
}

// Of two metrics the reason names the one that the move improves more.
func TestReasonNamesTheMetric(t *testing.T) {
	for _, uneven := range []string{"m", "n"} {
		other := map[string]string{"m": "n", "n": "m"}[uneven]
		rows := []state.Row{oracle.Configuration(cluster.Configuration{})}
		for _, id := range []string{"a", "b"} {
			rows = append(rows, oracle.Instance(id, oracle.Metric("m", 100), oracle.Metric("n", 100)))
		}
		load := func(on, off int64) oracle.TaskOption {
			return func(t *cluster.Task) {
				t.Needs, t.Reported = cluster.Resources{}, map[string]int64{uneven: on, other: off}
			}
		}
		rows = append(rows, oracle.Task("t1", "a", load(30, 1)), oracle.Task("t2", "a", load(30, 1)),
			oracle.Task("t3", "b", load(0, 40)), oracle.Task("t4", "a", load(0, 40), oracle.Owner("stays")))
		p := planBalance(t, rows, movers(packed("web")), 20_000, 1)
		if len(p.Moves) != 1 || !strings.HasPrefix(p.Moves[0].Why,
			uneven+" on a goes from 60 to 30, on b from 0 to 30") {
			t.Errorf("%+v", p.Moves)
		}
	}
	both := func(t *cluster.Task) { t.Needs, t.Reported = cluster.Resources{}, map[string]int64{"m": 30, "n": 30} }
	rows := []state.Row{oracle.Configuration(cluster.Configuration{}), oracle.Task("t1", "a", both),
		oracle.Task("t2", "a", both)}
	for _, id := range []string{"a", "b"} {
		rows = append(rows, oracle.Instance(id, oracle.Metric("m", 100), oracle.Metric("n", 100)))
	}
	if p := planBalance(t, rows, movers(packed("web")), 20_000, 1); len(p.Moves) != 1 ||
		!strings.HasPrefix(p.Moves[0].Why, "m on a goes from 60 to 30") {
		t.Errorf("of metrics that gain the same, the first by name is the reason, but: %+v", p.Moves)
	}
}
