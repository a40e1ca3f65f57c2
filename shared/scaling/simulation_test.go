package scaling_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/scaling"
	"berth/shared/state"
)

// perInstance is how many of web's tasks fit on an instance.
const perInstance = 4

// fleet is a world that carries out decisions minute by minute: launched instances register two
// minutes later, the group terminates any of those that are not protected, and placement places as
// many tasks as the load asks for.
type fleet struct {
	*world
	rapid.TB
	pick            func(n int) int // one of so many, by chance
	machines, tasks int
	instanceMinutes int
	lastOut         time.Time
}

func newFleet(t rapid.TB, pick func(int) int, options ...option) *fleet {
	f := &fleet{world: newWorld(append([]option{web("web", 0, ""), protection, bounds(0, 40)}, options...)...), TB: t,
		pick: pick}
	f.provider.Scaling.UntilRegistered = true
	return f
}

// drawn lets rapid decide by chance.
func drawn(t *rapid.T) func(int) int {
	return func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "which") }
}

func (f *fleet) service() *cluster.Service { return f.rows[1].(*cluster.Service) }

// running are the tasks of web that are wanted.
func (f *fleet) running() (out []*cluster.Task) {
	for _, r := range f.rows {
		if t, ok := r.(*cluster.Task); ok {
			out = append(out, t)
		}
	}
	return out
}

func (f *fleet) drop(gone func(state.Row) bool) { f.rows = slices.DeleteFunc(f.rows, gone) }

// minute runs one minute with so many tasks wanted.
func (f *fleet) minute(load int) scaling.Decision {
	f.launch()
	f.schedule(load)
	d := f.decide()
	f.carryOut(d)
	f.now = f.now.Add(time.Minute)
	f.instanceMinutes += len(f.group.Instances)
	return d
}

// launch brings the group to its desired capacity and registers launched instances.
func (f *fleet) launch() {
	f.group.Instances = slices.DeleteFunc(f.group.Instances,
		func(i cluster.GroupInstance) bool { return i.Lifecycle == "Terminating" })
	for n := range f.group.Instances {
		m := &f.group.Instances[n]
		m.Lifecycle = "InService"
		if f.now.Sub(m.LaunchedAt) == 2*time.Minute {
			id := 0
			fmt.Sscanf(m.ID, "i-%d", &id)
			f.rows = append(f.rows, row(id, func(i *cluster.Instance) { i.RegisteredAt = cluster.At(f.now) }))
		}
	}
	for want := f.group.Desired; len(f.group.Instances) < want; {
		f.machines++
		m := f.machine(f.machines, "Pending")
		m.LaunchedAt, m.Protected = f.now, true
		f.group.Desired = want
	}
}

// schedule stops surplus tasks and places missing ones, which wait if they do not fit. Tasks on
// DRAINING instances are replaced, one a minute.
func (f *fleet) schedule(load int) {
	f.service().Desired = load
	f.movers["web"] = moves.Owner{Name: "service web", Target: load, Spec: f.movers["web"].Spec}
	// running returns the tasks of web that are wanted.
	running := f.running()
	for len(running) > load {
		n := f.pick(len(running))
		f.drop(func(r state.Row) bool { return r == running[n] })
		running = slices.Delete(running, n, n+1)
	}
	placed := f.place(load - len(running))
	f.waiting = nil
	if missing := load - len(running) - placed; missing > 0 {
		f.waiting = []scaling.WaitingTasks{{Name: "service web", Spec: f.movers["web"].Spec, Target: load,
			Count: missing}}
		return
	}
	for _, t := range running {
		if f.draining(t.Instance) && f.place(1) == 1 {
			f.drop(func(r state.Row) bool { return r == t })
			return
		}
	}
}

func (f *fleet) draining(instance string) bool {
	return slices.ContainsFunc(f.rows, func(r state.Row) bool {
		i, ok := r.(*cluster.Instance)
		return ok && i.ID == instance && i.Status == cluster.InstanceDraining
	})
}

// place starts tasks, each on an instance that is protected first, as dispatch does.
func (f *fleet) place(n int) int {
	if n <= 0 {
		return 0
	}
	placed := placement.New(f.snapshot()).Place(placement.Request{Spec: f.movers["web"].Spec, Count: n,
		Target: n}).Placed
	for _, p := range placed {
		f.tasks++
		f.rows = append(f.rows, &cluster.Task{
			Head: cluster.Head{Cluster: "c", Rev: 1},
			TaskSpec: cluster.TaskSpec{
				ID: fmt.Sprintf("%05d", f.tasks), Owner: "web", Service: "web", Group: "service:web", Needs: small,
			},
			TaskAssignment: cluster.TaskAssignment{Instance: p.Instance, Desired: cluster.TaskRunning},
			TaskReport:     cluster.TaskReport{Last: cluster.TaskRunning},
		})
		f.find(p.Instance).Protected = true
		f.note(p.Instance, "")
	}
	return len(placed)
}

func (f *fleet) carryOut(d scaling.Decision) {
	if s := &f.provider.Scaling; d.Desired < f.group.Min || d.Desired > f.group.Max ||
		d.Desired-f.group.Desired > s.MaxStep {
		f.Fatalf("desired capacity from %d to %d", f.group.Desired, d.Desired)
	}
	if d.Desired < f.group.Desired && f.now.Sub(f.lastOut) < f.provider.Scaling.Cooldown {
		f.Fatalf("desired capacity from %d to %d, scaled out at %s", f.group.Desired, d.Desired, f.lastOut)
	}
	if d.Desired > f.group.Desired {
		f.lastOut = f.now
	}
	for _, id := range d.Protect {
		f.find(id).Protected = true
	}
	for _, id := range d.MarkReleasable {
		f.note(id, "g")
	}
	for _, id := range d.Release {
		f.find(id).Protected = false
	}
	for _, id := range d.Undrain {
		f.set(id, cluster.InstanceActive)
	}
	for _, id := range d.Drain {
		f.set(id, cluster.InstanceDraining)
	}
	for _, id := range d.Terminate {
		f.take(id)
		f.group.Desired--
	}
	for f.group.Desired > d.Desired {
		free := slices.DeleteFunc(slices.Clone(f.group.Instances),
			func(i cluster.GroupInstance) bool { return i.Protected || i.Lifecycle == "Terminating" })
		if len(free) == 0 {
			f.Fatalf("the group is to go to %d instances, and every one is protected", d.Desired)
		}
		f.take(free[f.pick(len(free))].ID)
		f.group.Desired--
	}
	f.group.Desired = d.Desired
}

// note records in which group the instance may be terminated.
func (f *fleet) note(id, group string) {
	for _, r := range f.rows {
		if i, ok := r.(*cluster.Instance); ok && i.ID == id {
			i.ReleasedIn = group
			i.Rev++
		}
	}
}

func (f *fleet) set(id string, s cluster.InstanceStatus) {
	for _, r := range f.rows {
		if i, ok := r.(*cluster.Instance); ok && i.ID == id {
			i.Status = s
			i.Rev++
		}
	}
}

// take terminates an instance, which must have no task.
func (f *fleet) take(id string) {
	m := f.find(id)
	if m.Protected || f.load(id) > 0 {
		f.Fatalf("%s is taken with %d tasks, protected: %t", id, f.load(id), m.Protected)
	}
	m.Lifecycle = "Terminating"
	f.drop(func(r state.Row) bool { i, ok := r.(*cluster.Instance); return ok && i.EC2InstanceID == id })
}

func ceil(a, b int) int { return (a + b - 1) / b }

// settled runs with the same load until nothing happens for 40 minutes, and fails if that takes
// long.
func (f *fleet) settled(load int) (last scaling.Decision) {
	quiet := 0
	for n := 0; quiet < 40; n++ {
		desired := f.group.Desired
		last = f.minute(load)
		quiet++
		if f.group.Desired != desired || len(last.Drain)+len(last.Undrain) > 0 {
			quiet = 0
		}
		if n == 600 {
			f.Fatalf("not at rest after 10 hours: desired %d, M %d, N %d, %d tasks: %s", f.group.Desired, last.Needed,
				last.Running, load, last.Why)
		}
	}
	return last
}

// check says what holds of a settled group: it has as many instances as the target asks for.
func (f *fleet) check(load int, d scaling.Decision) {
	want := min(max(ceil(d.Needed*100, f.provider.Scaling.Target), f.group.Min), f.group.Max)
	if f.group.Desired != want || d.Running != want {
		f.Fatalf("at rest with %d tasks: desired %d, N %d, M %d, should be %d", load, f.group.Desired, d.Running,
			d.Needed, want)
	}
	if n := len(f.running()); n != min(load, f.group.Max*perInstance) {
		f.Fatalf("%d of %d tasks run", n, load)
	}
}

// loads are histories of the number of tasks.
var loads = map[string]func(minute, least, most int) int{
	"Rises":      func(m, least, most int) int { return least + (most-least)*m/180 },
	"Falls":      func(m, least, most int) int { return most - (most-least)*m/180 },
	"Jumps":      func(m, least, most int) int { return []int{least, most}[b2i(m > 60)] },
	"Oscillates": func(m, least, most int) int { return []int{least, most}[m/25%2] },
	"Quickly":    func(m, least, most int) int { return []int{least, most}[m%2] },
}

// With load that rises, falls and oscillates, the group follows within its bounds, removes no
// instance with tasks and none soon after a scale-out, and settles at what the target asks for.
func TestSimulatedLoad(t *testing.T) {
	shapes := slices.Sorted(maps.Keys(loads))
	rapid.Check(t, func(t *rapid.T) {
		load := loads[rapid.SampledFrom(shapes).Draw(t, "load")]
		f := newFleet(t, drawn(t), target(rapid.SampledFrom([]int{30, 80, 100, 100}).Draw(t, "target")),
			steps(rapid.IntRange(1, 3).Draw(t, "least step"),
				rapid.SampledFrom([]int{3, 10000}).Draw(t, "largest step")),
			bounds(rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "min"), rapid.SampledFrom([]int{5, 40}).Draw(t, "max")))
		f.group.Desired = f.group.Min
		least := rapid.IntRange(0, 10).Draw(t, "least")
		most := least + rapid.IntRange(0, 30).Draw(t, "more")
		for m := range 180 {
			f.minute(load(m, least, most))
		}
		f.check(load(180, least, most), f.settled(load(180, least, most)))
	})
}

// Load that only rises needs at most one instance more than packing does.
func TestSimulatedRiseIsPacked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(t, drawn(t))
		load := 0
		for range 8 {
			load += rapid.IntRange(0, 12).Draw(t, "more")
			for range rapid.IntRange(1, 8).Draw(t, "minutes") {
				f.minute(load)
			}
		}
		d := f.settled(load)
		f.check(load, d)
		if bound := ceil(load, perInstance); d.Needed < bound || d.Needed > bound+1 {
			t.Fatalf("M %d, packing bound %d", d.Needed, bound)
		}
	})
}

// With consolidation the group settles at what packing needs, after any history.
func TestSimulatedConsolidation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(t, drawn(t), consolidating(rapid.SampledFrom([]int{10, 50}).Draw(t, "budget"), 10*time.Minute))
		most := rapid.IntRange(0, 60).Draw(t, "most")
		for range 20 {
			f.minute(most)
		}
		load := rapid.IntRange(0, most).Draw(t, "load")
		d := f.settled(load)
		f.check(load, d)
		if bound := ceil(load, perInstance); d.Needed != bound {
			t.Fatalf("M %d, packing bound %d", d.Needed, bound)
		}
	})
}

// A group at its maximum that has fewer free instances than its target asks for is packed all the
// same, and comes to rest.
func TestSimulatedConsolidationAtTheMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most, free := rapid.IntRange(2, 12).Draw(t, "maximum"), rapid.SampledFrom([]int{50, 80}).Draw(t, "target")
		f := newFleet(t, drawn(t), consolidating(50, 10*time.Minute), target(free), bounds(0, most))
		for range 20 {
			f.minute(most * perInstance)
		}
		load := rapid.IntRange(0, most*perInstance).Draw(t, "load")
		d := f.settled(load)
		f.check(load, d)
		if bound := ceil(load, perInstance); d.Needed != bound {
			t.Fatalf("M %d, packing bound %d", d.Needed, bound)
		}
	})
}

// Over a day of load that rises and falls twice, consolidation runs the same tasks on fewer
// instance-minutes.
func TestSimulatedConsolidationSaves(t *testing.T) {
	day := func(options ...option) int {
		chance := uint64(1)
		f := newFleet(t,
			func(n int) int { chance = chance*6364136223846793005 + 1442695040888963407; return int(chance>>33) % n },
			options...)
		for m := range 1440 {
			f.minute(10 + min(m%720, 720-m%720)/3)
		}
		return f.instanceMinutes
	}
	without, with := day(), day(consolidating(20, 10*time.Minute))
	if with*100 > without*85 {
		t.Errorf("%d instance-minutes with consolidation, %d without", with, without)
	}
	t.Logf("%d instance-minutes with consolidation, %d without", with, without)
}
