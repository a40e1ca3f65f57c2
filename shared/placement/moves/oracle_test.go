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
	"berth/shared/placement/domain"
	"berth/shared/placement/moves"
	"berth/shared/snapshot"
	"berth/tests/oracle"
)

// moveWorld is a small cluster in which something may be broken.
type moveWorld struct {
	oracle.World
	configuration cluster.Configuration
	owners        map[string]moves.Owner
	newcomers     int  // of owner o0
	spread        bool // domain rules are most of what there is
}

func (w *moveWorld) moveSnapshot(seed uint64) *snapshot.Snapshot {
	s := w.Snapshot(seed)
	s.Put(&w.configuration)
	return s
}

func drawMoveWorld(t *rapid.T, instances, tasks int) *moveWorld {
	w := &moveWorld{owners: map[string]moves.Owner{}}
	w.configuration = drawMoveConfiguration(t)
	w.spread = rapid.Bool().Draw(t, "spread")
	for i := range rapid.IntRange(1, instances).Draw(t, "instances") {
		w.Instances = append(w.Instances, w.drawInstance(t, i))
	}
	for o := range rapid.IntRange(1, 3).Draw(t, "owners") {
		name := fmt.Sprintf("o%d", o)
		w.owners[name] = w.drawMover(t, name)
	}
	for n := range rapid.IntRange(0, tasks).Draw(t, "tasks") {
		w.addTask(t, n)
	}
	return w
}

func drawMoveConfiguration(t *rapid.T) cluster.Configuration {
	priority := rapid.SampledFrom([]cluster.Priority{0, 0, 0, 1, 2})
	c := cluster.Configuration{Head: cluster.Head{Cluster: "c", Rev: 1}, NoSwitch: rapid.Bool().Draw(t, "no switch")}
	c.Priorities = cluster.Priorities{
		Placement: priority.Draw(t, "placement"), Capacity: priority.Draw(t, "capacity"),
		FaultDomain: priority.Draw(t, "fault"), UpgradeDomain: priority.Draw(t, "upgrade"),
	}
	switch rapid.IntRange(0, 3).Draw(t, "buffer") {
	case 1:
		c.Buffer = map[string]float64{"a": 0.2}
	case 2:
		c.Overbooking = map[string]float64{"a": 0.3}
	case 3:
		c.Overbooking = map[string]float64{"a": -1}
	}
	return c
}

func (w *moveWorld) drawInstance(t *rapid.T, i int) *cluster.Instance {
	options := []oracle.Option{oracle.CPU(int64(rapid.SampledFrom([]int{1024, 4096}).Draw(t, "cpu")))}
	if d := rapid.IntRange(-1, 2).Draw(t, "fault domain"); d >= 0 || w.spread {
		d = max(d, 0)
		options = append(options, oracle.Attribute(cluster.AttributeFaultDomain, fmt.Sprintf("fd:/%d", d)))
	}
	options = append(options, oracle.Attribute(cluster.AttributeUpgrade,
		fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "upgrade domain"))))
	if rapid.IntRange(0, 3).Draw(t, "fast") > 0 {
		options = append(options, oracle.Attribute("disk", "ssd"))
	}
	switch rapid.IntRange(0, 9).Draw(t, "closed") {
	case 0:
		options = append(options, oracle.Attribute(cluster.AttributeUnschedulable, "true"))
	case 1:
		options = append(options, oracle.Status(cluster.InstanceDraining))
	}
	out := oracle.Instance(fmt.Sprintf("i%d", i), append(options, oracle.GPUs(rapid.IntRange(0, 1).Draw(t, "gpus")))...)
	out.Registered.Metrics = map[string]int64{}
	for _, m := range []string{"a", "b"} {
		if rapid.IntRange(0, 4).Draw(t, "has "+m) > 0 {
			out.Registered.Metrics[m] = int64(rapid.IntRange(0, 20).Draw(t, "capacity "+m))
		}
	}
	return out
}

func (w *moveWorld) drawMover(t *rapid.T, name string) moves.Owner {
	spec := &placement.Spec{Owner: name, Needs: oracle.Small,
		MoveCost: rapid.SampledFrom(cluster.MoveCosts).Draw(t, "cost")}
	spec.Needs.Memory = 0
	if rapid.IntRange(0, 2).Draw(t, "constrained") == 0 {
		spec.Attributes = []string{"disk=ssd"}
	}
	if rapid.IntRange(0, 4).Draw(t, "distinct") == 0 {
		spec.PerInstance = 1
	}
	if w.spread || rapid.Bool().Draw(t, "governed") {
		spec.DomainPolicy = rapid.SampledFrom(cluster.DomainPolicies).Draw(t, "policy")
	}
	if rapid.IntRange(0, 4).Draw(t, "avoids") == 0 {
		spec.Avoid = []string{fmt.Sprintf("i%d", rapid.IntRange(0, len(w.Instances)-1).Draw(t, "avoided"))}
	}
	switch rapid.IntRange(0, 5).Draw(t, "extra") {
	case 0:
		spec.Ports = []cluster.Port{oracle.HTTP}
	case 1:
		spec.Needs.GPUs = 1
	}
	if w.spread {
		spec.Ports, spec.Needs.GPUs = nil, 0
	}
	spec.Loads = []cluster.Metric{{Name: "a", Load: int64(rapid.IntRange(0, 12).Draw(t, "default load"))}}
	return moves.Owner{Spec: spec, Target: rapid.IntRange(1, 6).Draw(t, "target"),
		Fixed: rapid.IntRange(0, 9).Draw(t, "fixed") == 0}
}

// addTask puts a task anywhere: ports and devices are what it gets, constraints and loads are not
// looked at.
func (w *moveWorld) addTask(t *rapid.T, n int) {
	on := rapid.SampledFrom(w.Instances).Draw(t, "on")
	if w.spread {
		on = w.Instances[n%len(w.Instances)]
	}
	m := w.owners[rapid.SampledFrom(slices.Sorted(maps.Keys(w.owners))).Draw(t, "owner")]
	x := oracle.Task(fmt.Sprintf("t%d", n), on.ID, oracle.Owner(m.Spec.Owner), oracle.Needs(m.Spec.Needs),
		oracle.Ports(m.Spec.Ports...))
	if x.Needs.GPUs > 0 {
		free := len(on.Registered.GPUs)
		for _, o := range w.Tasks {
			if o.Instance == on.ID {
				free -= o.Needs.GPUs
			}
		}
		if free <= 0 {
			return
		}
		x.GPUs = []int{0}
	}
	for _, o := range w.Tasks {
		if len(x.Ports) > 0 && len(o.Ports) > 0 && o.Instance == on.ID {
			return
		}
	}
	x.Reported = map[string]int64{"a": int64(rapid.IntRange(0, 15).Draw(t, "load a"))}
	if rapid.Bool().Draw(t, "reports b") {
		x.Reported["b"] = int64(rapid.IntRange(0, 15).Draw(t, "load b"))
	}
	if rapid.IntRange(0, 9).Draw(t, "ending") == 0 {
		oracle.Stopping(x)
	}
	w.Tasks = append(w.Tasks, x)
}

// moveOracle tries all ways to put the tasks. It knows the rules by their definitions alone; of the
// engine it uses the domains, which have oracles of their own.
type moveOracle struct {
	*moveWorld
	snap    *snapshot.Snapshot
	tasks   []*cluster.Task // that count, newcomers last
	movable []bool
	at      []int // per task, -1 for none
	start   []int
	domains map[string]*domain.Domains
	levels  [4]int                // placement, capacity, fault, upgrade
	first   map[string]moveFigure // at the start
	best    [4][]int64            // per stage
	thrifty bool
}

// moveFigure is what is counted in one place.
type moveFigure struct {
	value, limit, total int64
	ending              int64 // comes on top, and will soon be gone
}

// roof is how high the value may end, as far as that limit is concerned.
func (f moveFigure) roof(limit int64, was moveFigure) int64 { return max(limit-f.ending, was.value) }

func newMoveOracle(w *moveWorld, s *snapshot.Snapshot) *moveOracle {
	o := &moveOracle{moveWorld: w, snap: s, domains: map[string]*domain.Domains{}, thrifty: w.newcomers > 0}
	p := w.configuration.Priorities
	o.levels = [4]int{int(p.Placement), int(p.Capacity), int(p.FaultDomain), int(p.UpgradeDomain)}
	for _, t := range w.World.Tasks {
		if !t.IsActive() {
			continue
		}
		i := slices.IndexFunc(w.Instances, func(i *cluster.Instance) bool { return i.ID == t.Instance })
		o.tasks, o.at = append(o.tasks, t), append(o.at, i)
		o.movable = append(o.movable, o.gives(i) && !o.avoided(t, i) && !w.owners[t.Owner].Fixed)
	}
	for range w.newcomers {
		spec := w.owners["o0"].Spec
		t := oracle.Task("", "", oracle.Owner("o0"), oracle.Needs(spec.Needs), oracle.Ports(spec.Ports...))
		t.Reported = map[string]int64{"a": spec.Loads[0].Load}
		o.tasks, o.at, o.movable = append(o.tasks, t), append(o.at, -1), append(o.movable, true)
	}
	o.start = slices.Clone(o.at)
	for name, m := range w.owners {
		if rule := domain.NewRule(m.Spec.DomainPolicy, m.Target, &w.configuration); rule.Governs() {
			o.domains[name] = o.domainsOf(m.Spec, rule)
		}
	}
	_, o.first = o.figures()
	return o
}

func (o *moveOracle) domainsOf(spec *placement.Spec, rule domain.Rule) *domain.Domains {
	var fault, upgrade []string
	var standing []domain.Standing
	for i, v := range o.Instances {
		fault, upgrade = append(fault, v.FaultDomain()), append(upgrade, v.UpgradeDomain())
		probe := oracle.Task("", v.ID, oracle.Owner(spec.Owner))
		switch {
		case !o.open(i):
			standing = append(standing, domain.Unavailable)
		case o.avoided(probe, i) || !o.matches(probe, i):
			standing = append(standing, domain.Ineligible)
		default:
			standing = append(standing, domain.Eligible)
		}
	}
	return domain.NewDomains(fault, upgrade, standing, rule)
}

func (o *moveOracle) open(i int) bool {
	_, cordoned := o.Instances[i].Attributes[cluster.AttributeUnschedulable]
	return !cordoned && o.gives(i)
}

func (o *moveOracle) gives(i int) bool { return o.Instances[i].Status == cluster.InstanceActive }

func (o *moveOracle) avoided(t *cluster.Task, i int) bool {
	return slices.Contains(o.owners[t.Owner].Spec.Avoid, o.Instances[i].ID)
}

func (o *moveOracle) matches(t *cluster.Task, i int) bool {
	return len(o.owners[t.Owner].Spec.Attributes) == 0 || o.Instances[i].Attributes["disk"] == "ssd"
}

func (o *moveOracle) most(owner string) int64 {
	spec := o.owners[owner].Spec
	if (domain.Rule{Policy: spec.DomainPolicy}).Governs() {
		return 1
	}
	return int64(spec.PerInstance)
}

// figures are all counts that a rule limits, by place; false where something is beyond what there
// is at all: devices and ports.
func (o *moveOracle) figures() (possible bool, out map[string]moveFigure) {
	out = map[string]moveFigure{}
	for i, v := range o.Instances {
		loads := map[string]int64{}
		ending := map[string]int64{}
		devices, listeners := 0, 0
		crowd, gone := map[string]int64{}, map[string]int64{}
		count := func(t *cluster.Task, into map[string]int64) {
			into["CPU"] += t.Needs.CPU
			for m, n := range t.Reported {
				into[m] += n
			}
			devices += t.Needs.GPUs
			listeners += len(t.Ports)
		}
		for n, t := range o.tasks {
			if o.at[n] == i {
				count(t, loads)
				crowd[t.Owner]++
			}
		}
		for _, t := range o.World.Tasks {
			if !t.IsActive() && t.Instance == v.ID {
				count(t, ending)
				gone[t.Owner]++
			}
		}
		if devices > len(v.Registered.GPUs) || listeners > 1 {
			return false, nil
		}
		for m, limit := range o.limits(v) {
			out[fmt.Sprintf("cell %s %s", v.ID, m)] = moveFigure{loads[m], limit[0], limit[1], ending[m]}
		}
		for name, n := range crowd {
			if most := o.most(name); most > 0 {
				out[fmt.Sprintf("crowd %s %s", v.ID, name)] = moveFigure{n, most, most, gone[name]}
			}
		}
	}
	for name, d := range o.domains {
		o.spread(name, d, out)
	}
	return true, out
}

// limits are what the instance takes without the buffer, and in all.
func (o *moveOracle) limits(v *cluster.Instance) map[string][2]int64 {
	out := map[string][2]int64{"CPU": {v.Registered.CPU, v.Registered.CPU}}
	for m, n := range v.Registered.Metrics {
		out[m] = [2]int64{n, n}
	}
	if n, ok := out["a"]; ok {
		if p := o.configuration.Buffer["a"]; p > 0 {
			out["a"] = [2]int64{n[0] * 8 / 10, n[0]}
		}
		switch p := o.configuration.Overbooking["a"]; {
		case p > 0:
			out["a"] = [2]int64{n[0], n[0] * 13 / 10}
		case p < 0:
			out["a"] = [2]int64{n[0], math.MaxInt32}
		}
	}
	return out
}

func (o *moveOracle) spread(name string, d *domain.Domains, out map[string]moveFigure) {
	units := map[string]int64{}
	add := func(sign int) {
		for n, t := range o.tasks {
			if t.Owner == name && o.at[n] >= 0 {
				d.AddTasks(o.at[n], sign)
			}
		}
	}
	add(1)
	fault, upgrade := d.Excess()
	add(-1)
	out["fault "+name], out["upgrade "+name] = moveFigure{value: int64(fault)}, moveFigure{value: int64(upgrade)}
	// Where the rule is a limit per domain, none may go over it that was not: domains here are one
	// level deep.
	for n, t := range o.tasks {
		if t.Owner == name && o.at[n] >= 0 {
			v := o.Instances[o.at[n]]
			units["unit fault "+name+" "+v.FaultDomain()]++
			units["unit upgrade "+name+" "+v.UpgradeDomain()]++
		}
	}
	policy := o.owners[name].Spec.DomainPolicy
	quorumFault, quorumUpgrade := d.UsesQuorum()
	for unit, n := range units {
		isFault := strings.HasPrefix(unit, "unit fault ")
		limited := isFault && (quorumFault || policy == cluster.PolicyNonpacking) || !isFault && quorumUpgrade
		if limited && !strings.HasSuffix(unit, " ") && (!isFault || d.FaultDomainCount() > 0) &&
			(isFault || d.UpgradeDomainCount() > 0) {
			out[unit] = moveFigure{value: n, limit: o.unitLimit(name, unit[strings.LastIndex(unit, " ")+1:], isFault)}
		}
	}
}

// live are the domains in which a task of the owner may run.
func (o *moveOracle) live(name string, fault bool) map[string]bool {
	out := map[string]bool{}
	probe := oracle.Task("", "", oracle.Owner(name))
	for i, v := range o.Instances {
		domain := v.UpgradeDomain()
		if fault {
			domain = v.FaultDomain()
		}
		if domain != "" && o.open(i) && !o.avoided(probe, i) && o.matches(probe, i) {
			out[domain] = true
		}
	}
	return out
}

// unitLimit is how many tasks a domain may have under quorum safety (P4), and 1 under nonpacking,
// where one that has no instance for the tasks is no domain.
func (o *moveOracle) unitLimit(name, domain string, fault bool) int64 {
	live := o.live(name, fault)
	if fault && o.owners[name].Spec.DomainPolicy == cluster.PolicyNonpacking {
		if live[domain] {
			return 1
		}
		return math.MaxInt32
	}
	domains := len(live)
	if domains < 2 {
		domains = 0
	}
	if domains == 0 {
		return math.MaxInt32 // no two domains, no limit
	}
	target := o.owners[name].Target
	limit := max(target-(target/2+1), 1)
	if domains*limit < target {
		limit++
	}
	return int64(limit)
}

// level is the priority of the rule that a figure belongs to.
func (o *moveOracle) level(place string) int {
	switch {
	case strings.HasPrefix(place, "cell") && !strings.HasSuffix(place, "CPU"):
		return o.levels[1]
	case strings.HasPrefix(place, "fault"), strings.HasPrefix(place, "unit fault"):
		return o.levels[2]
	case strings.HasPrefix(place, "upgrade"), strings.HasPrefix(place, "unit upgrade"):
		return o.levels[3]
	}
	return 0
}

// score is the tasks where they are: unplaced; per level violations and how far beyond; the buffer
// likewise; cost; moves; and per level what was not broken before. stages says in which it is
// allowed.
func (o *moveOracle) score() (out []int64, stages [4]bool) {
	possible, figures := o.figures()
	if !possible {
		return nil, stages
	}
	out = make([]int64, 17)
	for g := range stages {
		stages[g] = o.welcome(figures, g)
	}
	forbid := func(level int) {
		for g := range stages {
			if level == 0 || level <= 3-g {
				stages[g] = false
			}
		}
	}
	for place, f := range figures {
		was := o.first[place]
		level := o.level(place)
		switch {
		case strings.HasPrefix(place, "cell"):
			if f.value > f.roof(f.limit, was) {
				stages[0] = false
			}
			if f.value > f.roof(f.total, was) {
				forbid(level)
			}
			if o.gives(o.index(place)) {
				tallyOf(out[1+2*level:], f.value-f.total)
				tallyOf(out[11+2*level:], f.value-max(f.total, was.value))
				tallyOf(out[7:], f.value-f.limit)
			}
		case strings.HasPrefix(place, "crowd"):
			if f.value > f.roof(f.limit, was) {
				forbid(0)
			}
			if o.gives(o.index(place)) {
				out[1] += max(0, f.value-f.limit)
			}
		case strings.HasPrefix(place, "unit"):
			if f.value > f.roof(f.limit, was) {
				forbid(level)
			}
		default:
			if f.value > was.value {
				forbid(level)
			}
			out[1+2*level] += f.value
			out[11+2*level] += max(0, f.value-was.value)
		}
	}
	o.scoreTasks(out, forbid)
	return out, stages
}

// welcome reports whether newcomers are only where there is room for them, as far as the stage
// binds.
func (o *moveOracle) welcome(figures map[string]moveFigure, stage int) bool {
	for n, t := range o.tasks {
		if o.start[n] >= 0 || o.at[n] < 0 {
			continue
		}
		id := o.Instances[o.at[n]].ID
		if f, ok := figures["crowd "+id+" "+t.Owner]; ok && f.value+f.ending > f.limit {
			return false
		}
		for _, m := range []string{"CPU", "a"} {
			f, ok := figures["cell "+id+" "+m]
			limit := f.total
			if stage == 0 {
				limit = f.limit
			}
			given := m == "a" && (o.levels[1] > 0 && o.levels[1] > 3-stage || t.Reported["a"] == 0)
			if ok && !given && f.value+f.ending > limit {
				return false
			}
		}
	}
	return true
}

func (o *moveOracle) index(place string) int {
	id := strings.Fields(place)[1]
	return slices.IndexFunc(o.Instances, func(i *cluster.Instance) bool { return i.ID == id })
}

func tallyOf(out []int64, beyond int64) {
	if beyond > 0 {
		out[0]++
		out[1] += beyond
	}
}

func (o *moveOracle) scoreTasks(out []int64, forbid func(int)) {
	for n, t := range o.tasks {
		if o.at[n] < 0 {
			out[0]++
			continue
		}
		if o.gives(o.at[n]) && !o.avoided(t, o.at[n]) && !o.matches(t, o.at[n]) {
			out[1+2*o.levels[0]]++
			if o.at[n] != o.start[n] {
				forbid(o.levels[0])
				out[11+2*o.levels[0]]++
			}
		}
		if o.start[n] >= 0 && o.at[n] != o.start[n] {
			out[9] += map[cluster.MoveCost]int64{"": 1, "Zero": 0, "Low": 1, "Medium": 15,
				"High": 40}[o.owners[t.Owner].Spec.MoveCost]
			out[10]++
		}
	}
}

// order is the score in the order that counts: to place tasks as little as possible is given up,
// and nothing repaired.
func (o *moveOracle) order(score []int64) []int64 {
	if !o.thrifty {
		return score[:11]
	}
	return slices.Concat(score[:1], score[11:], score[9:11])
}

// search tries all places of the n-th task and those after it.
func (o *moveOracle) search(n int) {
	if n == len(o.tasks) {
		score, allowed := o.score()
		for g := range allowed {
			if allowed[g] && (o.best[g] == nil || slices.Compare(o.order(score), o.order(o.best[g])) < 0) {
				o.best[g] = score
			}
		}
		return
	}
	o.search(n + 1)
	if !o.movable[n] {
		return
	}
	for i := range o.Instances {
		if i != o.start[n] && o.open(i) && !o.avoided(o.tasks[n], i) {
			o.at[n] = i
			o.search(n + 1)
		}
	}
	o.at[n] = o.start[n]
}

// answer is the best score, stage by stage: the buffer and rules that may be given up are, where
// that repairs more of what weighs more.
func (o *moveOracle) answer() []int64 {
	o.search(0)
	best := o.best[0]
	for g, rules := range [4]int{0, 7, 5, 3} {
		if g == 0 {
			continue
		}
		gains := slices.Compare(o.best[g][:rules], best[:rules]) < 0
		if o.thrifty {
			gains = o.best[g][0] < best[0]
		}
		if gains {
			best = o.best[g]
		}
	}
	return best
}

// carry puts the tasks where the plan wants them, and is the score then.
func (o *moveOracle) carry(t *rapid.T, p *moves.Plan) []int64 {
	copy(o.at, o.start)
	number := func(id string) int {
		return slices.IndexFunc(o.Instances, func(i *cluster.Instance) bool { return i.ID == id })
	}
	for _, m := range p.Moves {
		n := slices.IndexFunc(o.tasks, func(x *cluster.Task) bool { return x.ID == m.Task })
		if n < 0 || !o.movable[n] || o.Instances[o.at[n]].ID != m.From || !o.open(number(m.To)) ||
			o.avoided(o.tasks[n], number(m.To)) {
			t.Fatalf("%s may not be moved like that: %+v", m.Task, m)
		}
		o.at[n] = number(m.To)
	}
	for n, id := range p.Places {
		o.at[len(o.tasks)-o.newcomers+n] = number(id)
	}
	score, _ := o.score()
	return score
}

// compareWithOracle checks one plan against all others.
func compareWithOracle(t *rapid.T, w *moveWorld) {
	s := w.moveSnapshot(rapid.Uint64().Draw(t, "order of rows"))
	e := moves.NewPlanner(placement.New(s))
	planned := moves.Request{Owners: w.owners}
	var p *moves.Plan
	if w.newcomers > 0 {
		first := w.owners["o0"]
		p = e.MakeRoom(placement.Request{Spec: first.Spec, Target: first.Target, Count: w.newcomers}, planned)
	} else {
		p = e.PlanMoves(planned)
	}
	if !p.Exact {
		t.Fatalf("the search did not end")
	}
	o := newMoveOracle(w, s)
	want := o.answer()
	if got := o.carry(t, p); !slices.Equal(o.order(got), o.order(want)) {
		t.Fatalf("the plan is %v, the best is %v\n%+v\n%s", got, want, p, w.describe())
	}
}

func (w *moveWorld) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n", w.configuration)
	for _, i := range w.Instances {
		fmt.Fprintf(&b, "%s %+v %v\n", i.ID, i.Registered, i.Attributes)
	}
	for _, n := range slices.Sorted(maps.Keys(w.owners)) {
		fmt.Fprintf(&b, "%s %d %+v\n", n, w.owners[n].Target, *w.owners[n].Spec)
	}
	for _, t := range w.Tasks {
		fmt.Fprintf(&b, "%s %s %s %v %s\n", t.ID, t.Owner, t.Instance, t.Reported, t.Desired)
	}
	return b.String()
}

func TestPlanMovesEqualsTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { compareWithOracle(t, drawMoveWorld(t, 4, 5)) })
}

// Where tasks may not be stopped first, what needs no stop is done all the same, and nothing that
// does.
func TestPlanMovesWithoutStops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawMoveWorld(t, 4, 5)
		free := moves.NewPlanner(placement.New(w.moveSnapshot(1))).PlanMoves(moves.Request{Owners: maps.Clone(w.owners)})
		for name, m := range w.owners {
			m.StartFirst = rapid.Bool().Draw(t, name+" starts first")
			w.owners[name] = m
		}
		s := w.moveSnapshot(1)
		p := moves.NewPlanner(placement.New(s)).PlanMoves(moves.Request{Owners: w.owners})
		stops := func(p *moves.Plan) bool {
			return slices.ContainsFunc(p.Moves, func(m moves.Move) bool {
				return m.Mode == moves.StopFirst && w.owners[m.Owner].StartFirst
			})
		}
		if stops(p) {
			t.Fatalf("a task is stopped first that may not: %+v\n%s", p.Moves, w.describe())
		}
		o := newMoveOracle(w, s)
		got, without := o.order(o.carry(t, p)), o.order(o.carry(t, free))
		if !stops(free) && slices.Compare(got, without) != 0 {
			t.Fatalf("no stop was needed for %v, and the plan is %v\n%s", without, got, w.describe())
		}
		if best := o.single(); slices.Compare(got, best) > 0 {
			t.Fatalf("one move leads to %v, the plan to %v\n%+v\n%s", best, got, p, w.describe())
		}
	})
}

// single is the best that one move comes to, or none: it needs no stop.
func (o *moveOracle) single() []int64 {
	copy(o.at, o.start)
	score, _ := o.score()
	best := o.order(score)
	for n := range o.tasks {
		for i := range o.Instances {
			if !o.movable[n] || !o.open(i) || i == o.start[n] || o.avoided(o.tasks[n], i) {
				continue
			}
			o.at[n] = i
			if score, allowed := o.score(); allowed[0] && slices.Compare(o.order(score), best) < 0 {
				best = o.order(score)
			}
			o.at[n] = o.start[n]
		}
	}
	return best
}

func TestMakeRoomEqualsTryingEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawMoveWorld(t, 4, 4)
		w.newcomers = rapid.IntRange(1, 2).Draw(t, "newcomers")
		compareWithOracle(t, w)
	})
}
