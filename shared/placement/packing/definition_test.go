package packing

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/tests/gpurows"
)

// A definition scores by what the comments of this package say, from rows alone. Only the prices of
// pools come from the scorer.
type definition struct {
	scorer *Scorer
	tasks  []*cluster.Task
}

// models returns the GPU models that the task asks for, nil for any.
func models(t *cluster.Task) []string {
	if t.Rules == nil {
		return nil
	}
	_, list, _ := strings.Cut(strings.TrimSuffix(t.Rules.Constraints[0].Expression, "]"), "[")
	return strings.Split(list, ",")
}

// couldRun reports whether the task could run on the instance if that were empty.
func couldRun(t *cluster.Task, v *snapshot.InstanceView) bool {
	return t.Needs.CPU <= v.Registered.CPU && t.Needs.Memory <= v.Registered.Memory && t.Needs.GPUs <= len(v.GPUs) &&
		(models(t) == nil || slices.Contains(models(t), v.Attributes["gpu-model"]))
}

func (d *definition) priceOf(v *snapshot.InstanceView) float64 {
	return d.scorer.mix.pools[d.scorer.mix.poolOfInstance(v)].price
}

// weightOn returns how much the task weighs on instances like this one: the part of it that may
// come to each unit of their capacity, by prices, and a little more for a large task.
func (d *definition) weightOn(t *cluster.Task, v *snapshot.InstanceView) float64 {
	all := 0.0
	for _, x := range d.scorer.snap.Instances {
		if len(x.GPUs) > 0 && couldRun(t, x) {
			all += float64(len(x.GPUs)*cluster.WholeGPU) * math.Exp(-d.priceOf(x))
		}
	}
	return math.Exp(-d.priceOf(v)) / all * math.Pow(float64(t.Needs.GPUs*t.Needs.PerGPU()), 0.25)
}

// waste returns how badly the free capacity can be used, see [demandMix.wasteOfShape].
func (d *definition) waste(v *snapshot.InstanceView) float64 {
	free := float64(sum(v.GPUs))
	if free == 0 {
		return 0
	}
	lost, idle, weights := 0.0, 0.0, 0.0
	for _, t := range d.tasks {
		if t.Needs.GPUs == 0 || !couldRun(t, v) {
			continue
		}
		usable, devices := 0, 0
		for _, f := range v.GPUs {
			if f >= t.Needs.PerGPU() {
				usable, devices = usable+f, devices+1
			}
		}
		w := d.weightOn(t, v)
		weights += w
		if devices < t.Needs.GPUs || v.CPU < t.Needs.CPU || v.Memory < t.Needs.Memory {
			lost, idle = lost+w*free, idle+w*free
			continue
		}
		size := float64(t.Needs.GPUs * t.Needs.PerGPU())
		filled := float64(usable)
		if t.Needs.GPUs > 1 {
			filled = float64(devices/t.Needs.GPUs) * size
		}
		filled = min(filled, float64(v.CPU)/float64(t.Needs.CPU)*size, float64(v.Memory)/float64(t.Needs.Memory)*size)
		lost, idle = lost+w*(free-float64(usable)), idle+w*(free-filled)
	}
	if weights == 0 {
		return 0
	}
	lost, idle = lost/weights, idle/weights
	return lost + idleWeight*idle + stuckWeight*free*math.Pow(idle/free, 32)
}

// score returns the score of a task by the comments of [Scorer].
func (d *definition) score(v *snapshot.InstanceView, needs cluster.Resources) float64 {
	after := *v
	after.GPUs = slices.Clone(v.GPUs)
	for _, g := range gpurows.Devices(v.GPUs, v.Unpinned, needs) {
		after.GPUs[g] -= needs.PerGPU()
	}
	after.CPU, after.Memory = v.CPU-needs.CPU, v.Memory-needs.Memory
	fit := float64(sum(after.GPUs))/cluster.WholeGPU +
		(float64(after.CPU)/cluster.VCPU+float64(after.Memory)/4096)/128 // 128 vCPUs count as a GPU
	score := fitWeight * fit
	if len(v.GPUs) > 0 {
		score += d.waste(&after) - d.waste(v) + priceWeight*d.priceOf(v)*float64(needs.GPUs*needs.PerGPU())
	}
	return score
}

// The score of any task on any instance is what the comments say, also for instances that came
// after the mix was learned, and whatever was scored before.
func TestScoreEqualsItsDefinition(t *testing.T) {
	scored := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 8 {
			scored += checkScores(t)
		}
	})
	if scored < 1000 {
		t.Errorf("%d scores, expected more", scored)
	}
}

func checkScores(t *rapid.T) (scored int) {
	rows := gpurows.GenCluster(t)
	for n := range rapid.IntRange(0, 6).Draw(t, "again") { // several tasks of one kind
		rows = append(rows, gpurows.Task(fmt.Sprint("more-", n), "", gpurows.Needs(4, 500)))
	}
	d := &definition{}
	for _, row := range rows {
		if task, ok := row.(*cluster.Task); ok {
			d.tasks = append(d.tasks, task)
			if task.Instance == "" { // some lack CPU first, others memory
				task.Needs.Memory = task.Needs.Memory * rapid.Int64Range(1, 4).Draw(t, "memory") / 2
			}
		}
	}
	d.scorer = newEpoch(snapshotOf(rows...))
	var needs []cluster.Resources
	for range 3 {
		needs = append(needs, gpurows.GenNeeds(t))
	}
	for _, v := range d.scorer.snap.InstancesByIndex() {
		for _, n := range slices.Concat(needs, needs) {
			if !gpurows.HasRoom(v, n) {
				continue
			}
			scored++
			if got, want := d.scorer.Score(v, &n), d.score(v, n); math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
				t.Fatalf("score of %+v on %s is %g, expected %g", n, v.ID, got, want)
			}
		}
	}
	return scored
}

// An instance that came after the mix was learned, and one that changed, have the scores of their
// size. What was learned before is used again for instances that did not change.
func TestScoresOfNewInstances(t *testing.T) {
	s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("a", 16, 4, "T4")), gpurows.Needs(4, 1000),
		gpurows.Needs(8, 500))
	for n := range 80 { // so that the mix is not learned again soon
		s.Put(gpurows.Task(fmt.Sprint("w", n), "", gpurows.Needs(4, 1000)))
	}
	p, needs := newEpoch(s), gpurows.Needs(4, 1000)
	first := p.Score(s.Instances["a"], &needs)
	epoch := p.epoch
	for n := range 5 {
		id := fmt.Sprint("new", n)
		s.Put(gpurows.Instance(id, 16, 4, "T4"))
		if p.Epoch() != epoch {
			t.Fatal("the mix is learned again")
		}
		if got := p.Score(s.Instances[id], &needs); math.Abs(got-first) > 1e-9 {
			t.Errorf("an equal instance has score %g, the first %g", got, first)
		}
	}
	changed := gpurows.Instance("a", 64, 1, "T4")
	changed.Rev = 2
	s.Put(changed)
	s.Put(gpurows.Instance("b", 64, 1, "T4"))
	p.Epoch()
	if a, b := p.Score(s.Instances["a"], &needs), p.Score(s.Instances["b"], &needs); a != b || a == first {
		t.Errorf("an instance that changed has score %g, a new one like it %g, and before %g", a, b, first)
	}
}

// A mix that is learned again, after tasks and instances have come, gone or changed, has the pools and
// prices of one that is learned for the first time.
func TestMixLearnedAgainEqualsTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshotOf(append(gpurows.GenCluster(t), gpurows.Instance("gone", 8, 1, "T4"),
			gpurows.Instance("last", 8, 1, "V100"))...)
		last := learnFromSnapshot(s, nil)
		s.ApplyRecord(state.Record{Op: state.Remove, Old: s.Instances["gone"].Instance})
		for n := range 3 {
			again, first := learnFromSnapshot(s, last), learnFromSnapshot(s, nil)
			for id, v := range s.Instances {
				if len(v.GPUs) == 0 {
					continue
				}
				got, want := again.pools[again.poolOfInstance(v)], first.pools[first.poolOfInstance(v)]
				if got.poolKey != want.poolKey || got.price != want.price {
					t.Fatalf("%s is in pool %+v, expected %+v", id, got, want)
				}
			}
			last = again
			for task := range s.Tasks() {
				if task.Instance == "" && rapid.Bool().Draw(t, "changes") {
					next := *task
					next.Rev, next.Rules, next.TaskDefinition = task.Rev+1, nil, fmt.Sprint("any:", n+2)
					s.Put(gpurows.OnModels(rapid.SampledFrom(gpurows.Models).Draw(t, "model"), &next))
				}
			}
		}
	})
}

// After all tasks ask for other instances, nothing of the pools before is left.
func TestPoolsFollowRequirements(t *testing.T) {
	waits := func(model string) *snapshot.Snapshot {
		return snapshotOf(gpurows.Instance("t", 8, 1, "T4"), gpurows.Instance("v", 8, 1, "V100"),
			gpurows.OnModels(model, gpurows.Task("waits", "", gpurows.Needs(1, 500))))
	}
	last := learnFromSnapshot(waits("T4"), nil)
	s := waits("V100")
	again := learnFromSnapshot(s, last)
	for id, want := range map[string]uint64{"t": 0, "v": 1} {
		if got := again.pools[again.poolOfInstance(s.Instances[id])].mask; got != want {
			t.Errorf("the requirements that %s meets are %b, expected %b", id, got, want)
		}
	}
}

// Of more kinds and sets of requirements than are told apart, the most frequent ones count.
func TestRareKindsDoNotCount(t *testing.T) {
	rows := []state.Row{gpurows.Instance("i", 512, 8, "T4")}
	for kind := range maxKinds + 20 {
		for n := range 1 + (kind+1)/(maxKinds+20) + kind%3 { // one to three of each
			rows = append(rows, gpurows.Task(fmt.Sprint(kind, "-", n), "",
				cluster.Resources{CPU: int64(kind + 1), Memory: 1, GPUs: 1}))
		}
	}
	p := newEpoch(snapshotOf(rows...))
	if len(p.mix.kinds) != maxKinds {
		t.Fatalf("%d kinds, expected %d", len(p.mix.kinds), maxKinds)
	}
	single := 0
	for _, k := range p.mix.kinds {
		if want := 1 + (k.needs.CPU-1)%3; k.count < want || k.count > want+1 {
			t.Errorf("%d tasks of kind %d, expected %d", k.count, k.needs.CPU, want)
		}
		if k.count == 1 {
			single++
		}
	}
	if want := maxKinds - 184; single > want { // 184 kinds have two or three
		t.Errorf("%d kinds of one task count, expected at most %d", single, want)
	}
	rows = rows[:1]
	for set := range maxSets + 6 {
		for n := range 1 + set%2 {
			rows = append(rows, gpurows.OnModels(fmt.Sprint("M", set), gpurows.Task(fmt.Sprint(set, "-", n), "",
				gpurows.Needs(1, 1000))))
		}
	}
	p = newEpoch(snapshotOf(rows...))
	frequent := 0
	for _, k := range p.mix.kinds {
		if k.count == 2 {
			frequent++
		}
	}
	if len(p.mix.requirementSets) != maxSets || frequent != (maxSets+6)/2 || len(p.mix.kinds) != maxSets {
		t.Errorf("%d sets, %d kinds, of which %d are frequent", len(p.mix.requirementSets), len(p.mix.kinds), frequent)
	}
}

// What a scorer remembers changes no score: after any change it scores as one that has learned the
// same and remembers nothing.
func TestRememberedScoresAreRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := snapshotOf(gpurows.GenCluster(t)...)
		p := newEpoch(s)
		for n := range 8 {
			ids := slices.Sorted(maps.Keys(s.Instances))
			id := rapid.SampledFrom(ids).Draw(t, "instance")
			needs := gpurows.GenNeeds(t)
			switch v := s.Instances[id]; rapid.IntRange(0, 3).Draw(t, "change") {
			case 0:
				s.Put(gpurows.Instance(fmt.Sprint("new-", n), 32, rapid.IntRange(0, 2).Draw(t, "gpus"), "T4"))
			case 1:
				s.Put(gpurows.Task(fmt.Sprint("waits more-", n), "", needs))
			default:
				if gpurows.HasRoom(v, needs) {
					s.Put(gpurows.Task(fmt.Sprint("more-", n), id, needs,
						gpurows.Devices(v.GPUs, v.Unpinned, needs)...))
				}
			}
			p.Epoch()
			forgetful := NewScorer(s)
			forgetful.mix, forgetful.lastNumber, forgetful.needsNumbers = p.mix, -1, map[cluster.Resources]int32{}
			asked := []cluster.Resources{needs, gpurows.Needs(1, 500), gpurows.Needs(1, 1000)}
			for _, v := range s.InstancesByIndex() {
				for _, needs := range asked {
					if !gpurows.HasRoom(v, needs) {
						continue
					}
					forgetful.ForgetScores()
					clear(forgetful.needsNumbers)
					forgetful.lastNumber, forgetful.shapeOfInstance = -1, nil
					if got, want := p.Score(v, &needs), forgetful.Score(v, &needs); got != want {
						t.Fatalf("score of %+v on %s is %g, expected %g", needs, v.ID, got, want)
					}
				}
			}
		}
	})
}

// A device that more is assigned to than it has is as good as a full one.
func TestOverfullDevicesAreFull(t *testing.T) {
	needs := gpurows.Needs(1, 500)
	score := func(free int) float64 {
		s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("a", 64, 2, "T4")), needs)
		p, v := newEpoch(s), *s.Instances["a"]
		v.GPUs = []int{free, 1000}
		return p.Score(&v, &needs)
	}
	if full, overfull := score(0), score(-300); full != overfull {
		t.Errorf("the score is %g beside a full device, and %g beside an overfull one", full, overfull)
	}
}

// As much free on other devices is another shape, with other scores.
func TestShapesOfTheSameSum(t *testing.T) {
	part := func(milli int) cluster.Resources { return cluster.Resources{GPUs: 1, GPUMilli: int32(milli)} }
	s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("a", 16, 2, "T4"), gpurows.Instance("b", 16, 2, "T4"),
		gpurows.Instance("c", 16, 3, "T4"), gpurows.Instance("d", 16, 3, "T4"),
		gpurows.Task("a0", "a", part(300), 0), gpurows.Task("a1", "a", part(700), 1),
		gpurows.Task("b0", "b", part(500), 0), gpurows.Task("b1", "b", part(500), 1),
		gpurows.Task("c0", "c", part(999), 0), gpurows.Task("c1", "c", part(1), 1),
		gpurows.Task("c2", "c", part(500), 2),
		gpurows.Task("d0", "d", part(500), 0), gpurows.Task("d1", "d", part(500), 1),
		gpurows.Task("d2", "d", part(500), 2)),
		part(600), part(600), part(100))
	p, needs := newEpoch(s), part(100)
	for _, pair := range [][2]string{{"a", "b"}, {"c", "d"}} {
		for _, v := range []*snapshot.InstanceView{s.Instances[pair[0]], s.Instances[pair[1]]} {
			if got, want := p.Score(v, &needs), newEpoch(s).Score(v, &needs); got != want {
				t.Errorf("score on %s is %g, asked first it is %g", v.ID, got, want)
			}
		}
		if p.wasteOn(pair[0]) == p.wasteOn(pair[1]) {
			t.Errorf("%v have the same waste, although a task of 600 fits only one", pair)
		}
	}
}

// Instances that take no tasks count towards no capacity, and pools without any keep a price. Where
// nothing asks for GPUs, nothing has a price.
func TestPricesWithoutCapacityOrDemand(t *testing.T) {
	draining := gpurows.Instance("drains", 32, 4, "A10")
	draining.Status = cluster.InstanceDraining
	s := snapshotOf(draining, gpurows.Instance("t", 32, 4, "T4"), gpurows.Instance("v", 32, 4, "V100"))
	price := func(p *Scorer, id string) float64 { return p.mix.pools[p.mix.poolOfInstance(s.Instances[id])].price }
	p := newEpoch(s)
	for id := range s.Instances {
		expectNear(t, "price of "+id+" without demand", price(p, id), 0)
	}
	// A task of four GPUs asks for T4, four of one GPU for T4 or V100: half of the demand each.
	s.Put(gpurows.OnModels("T4", gpurows.Task("large", "", gpurows.Needs(1, 4000))))
	for n := range 4 {
		s.Put(gpurows.OnModels("T4,V100", gpurows.Task(fmt.Sprint(n), "", gpurows.Needs(1, 1000))))
	}
	s.Put(gpurows.OnModels("A10", gpurows.Task("a", "", gpurows.Needs(1, 4000)))) // waits for what drains
	p = newEpoch(s)
	weight := func(id string) float64 { return math.Exp(-price(p, id)) }
	if part := weight("t") / (weight("t") + weight("v")); part > 0.02 {
		t.Errorf("%.3f of the tasks that can go elsewhere go to T4, which the large task fills", part)
	}
	if x := price(p, "drains"); math.IsNaN(x) || math.Abs(x) > maxPrice {
		t.Errorf("the price of a pool without capacity is %g", x)
	}
}

// Texts differ for what asks for different instances, and tasks that ask for the same share one.
func TestRequirementsAreToldApart(t *testing.T) {
	constraint := func(kind, expression string) cluster.PlacementConstraint {
		return cluster.PlacementConstraint{Type: kind, Expression: expression}
	}
	seen := map[string]int{}
	for n, rules := range []*cluster.Rules{{}, {NodeConstraint: "a == 1"}, {NodeConstraint: "a == 2"},
		{Constraints: []cluster.PlacementConstraint{constraint("memberOf", "a"), constraint("memberOf", "b")}},
		{Constraints: []cluster.PlacementConstraint{constraint("memberOf", "amemberOfb")}},
		{Constraints: []cluster.PlacementConstraint{constraint("memberOf", "a")}},
		{Constraints: []cluster.PlacementConstraint{constraint("other", "a")}},
		{Constraints: []cluster.PlacementConstraint{constraint("memberOf", "a")}, NodeConstraint: "a == 1"},
	} {
		text := constraintsText(rules)
		if other, known := seen[text]; known {
			t.Errorf("rules %d and %d have the text %q", n, other, text)
		}
		seen[text] = n
	}
	definition := func(family string, attributes ...string) *cluster.TaskDefinition {
		return &cluster.TaskDefinition{Head: cluster.Head{Cluster: "c", Rev: 1}, Family: family, Revision: 1,
			Attributes: attributes}
	}
	s := snapshotOf(gpurows.Instance("t", 32, 4, "T4"), gpurows.Instance("a", 32, 4, "A10"),
		definition("two", "x", "y"), definition("one", "xy"), definition("model", "gpu-model=T4"),
		definition("same", "gpu-model=T4"))
	for n, family := range []string{"two", "one", "model", "same"} {
		task := gpurows.Task(fmt.Sprint(n), "", gpurows.Needs(1, 1000))
		task.TaskDefinition = family + ":1"
		s.Put(task)
	}
	p := newEpoch(s)
	if n := len(p.mix.requirementSets); n != 3 {
		t.Errorf("%d sets of requirements, expected 3", n)
	}
	pool := func(id string) *pool { return &p.mix.pools[p.mix.poolOfInstance(s.Instances[id])] }
	if bits.OnesCount64(pool("t").mask) != 1 || pool("a").mask != 0 {
		t.Errorf("masks are %b and %b, expected one set that the T4 satisfies", pool("t").mask, pool("a").mask)
	}
}

// Scores are kept until the snapshot or the epoch changes: asked again, nothing is computed again.
func TestScoresAreKept(t *testing.T) {
	s := gpurows.AddWaiting(snapshotOf(gpurows.Instance("a", 16, 4, "T4"), gpurows.Instance("b", 16, 4, "A10")),
		gpurows.Needs(4, 1000), gpurows.Needs(8, 500))
	p := newEpoch(s)
	asked := []cluster.Resources{gpurows.Needs(4, 1000), gpurows.Needs(8, 500)}
	var first []float64
	for _, v := range s.InstancesByIndex() {
		for _, needs := range asked {
			first = append(first, p.Score(v, &needs))
			if p.lastNeeds != needs || p.needsNumbers[needs] != p.lastNumber {
				t.Errorf("the needs asked for last are %+v with number %d", p.lastNeeds, p.lastNumber)
			}
		}
	}
	shapes := len(p.shapes.all)
	for i := range p.mix.pools { // whoever computed again would find something else
		p.mix.pools[i].price += 1000
	}
	for n, v := range s.InstancesByIndex() {
		v.CPU /= 2
		for k, needs := range asked {
			if got := p.Score(v, &needs); got != first[n*len(asked)+k] {
				t.Errorf("score on %s is %g, before %g", v.ID, got, first[n*len(asked)+k])
			}
		}
	}
	if len(p.shapes.all) != shapes || len(p.needsNumbers) != len(asked) {
		t.Errorf("%d shapes and %d needs are known, before %d and %d", len(p.shapes.all), len(p.needsNumbers), shapes,
			len(asked))
	}
}

// The mix is learned again after as many changes as there are tasks, if these have grown by more
// than half, and else after twice as many changes as the last time, up to all tasks and instances.
func TestWhenTheMixIsLearnedAgain(t *testing.T) {
	s := snapshotOf(gpurows.Instance("a", 16, 4, "T4"))
	for n := range 29 {
		s.Put(gpurows.Task(fmt.Sprint(n), "", gpurows.CPUNeeds(1)))
	}
	for _, c := range []struct {
		last, now    int // GPU tasks
		length, want uint64
	}{{4, 7, 10, 7}, {4, 6, 10, 20}, {4, 6, 14, 28}, {4, 6, 25, 30}, {40, 50, 10, 50}, {0, 0, 10, 20}, {5, 0, 0, 1}} {
		p := &Scorer{snap: s, mix: &learnedMix{taskCount: c.now}, epochLength: c.length}
		if got := p.relearnAfter(&learnedMix{taskCount: c.last}); got != c.want {
			t.Errorf("from %d to %d tasks, after %d changes: again after %d, expected %d", c.last, c.now, c.length, got,
				c.want)
		}
		if got := p.relearnAfter(nil); got != uint64(max(1, c.now)) {
			t.Errorf("%d tasks, for the first time: again after %d", c.now, got)
		}
	}
}
