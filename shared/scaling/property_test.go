package scaling_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/state"
)

// genWorld draws a small cluster in any state, with any settings.
func genWorld(t *rapid.T) *world {
	of := func(name string, values ...int) int { return rapid.SampledFrom(values).Draw(t, name) }
	yes := func(name string) bool { return rapid.Bool().Draw(t, name) }
	minutes := func(name string, values ...int) time.Duration {
		return time.Duration(of(name, values...)) * time.Minute
	}
	w := newWorld(
		target(of("target", 1, 50, 90, 100, 100)), steps(of("least step", 1, 1, 3), of("largest step", 1, 2, 10000)),
		consolidating(of("budget", 1, 50, 100), minutes("window", 1, 10)), setting(func(s *cluster.ManagedScaling) {
			s.UntilRegistered, s.TargetTracking, s.Consolidation.Enabled = yes("until registered"),
				of("policy", 0, 0, 1) == 1, yes("consolidation")
			s.ReplaceUnregistered = yes("replaces")
			s.LowDatapoints, s.MaxScaleInPercent, s.Cooldown = of("datapoints", 1, 3), of("share", 1, 50, 100),
				minutes("cooldown", 0, 15)
		}),
		web("web", of("desired", 0, 4, 9), rapid.SampledFrom(cluster.MoveCosts).Draw(t, "cost"),
			func(s *cluster.Service) { s.MaxPercent = of("most", 100, 200) }))
	w.provider.Protection, w.upgrade = yes("protection"), of("upgrade", 0, 0, 0, 1) == 1
	for n := range of("instances", 0, 1, 3, 6) {
		genInstance(t, w, n+1)
	}
	w.group.Min = rapid.IntRange(0, w.group.Desired).Draw(t, "min")
	w.group.Max = rapid.IntRange(w.group.Desired, w.group.Desired+4).Draw(t, "max")
	for range of("groups", 0, 0, 1, 2) {
		needs := cluster.Resources{CPU: int64(of("cpu", 0, 512, 2048, 4096)) * cluster.CPUUnit,
			Memory: int64(of("memory", 1, 512, 4096, 5000))}
		waits(of("count", 1, 2, 30), needs, func(s *placement.Spec) { s.PerInstance = of("per instance", 0, 0, 1) })(w)
	}
	w.history.LastScaleOut, w.history.LastScaleIn = noon.Add(-minutes("out", 0, 5, 20)),
		noon.Add(-minutes("in", 0, 1, 20))
	w.history.LowMinutes, w.history.LastLowMinute = of("low", 0, 2, 20), noon.Add(-minutes("minute", 0, 1, 1, 5))
	return w
}

func genInstance(t *rapid.T, w *world, n int) {
	lifecycle := rapid.SampledFrom([]string{"InService", "InService", "InService", "InService", "Pending",
		"Terminating:Wait"}).Draw(t, "lifecycle")
	m := w.machine(n, lifecycle)
	m.Protected = rapid.Bool().Draw(t, "protected")
	m.LaunchedAt = noon.Add(-time.Duration(rapid.SampledFrom([]int{1, 20}).Draw(t, "age")) * time.Minute)
	if rapid.IntRange(0, 5).Draw(t, "registered") == 0 {
		return
	}
	options := []size{zone(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"))}
	if rapid.IntRange(0, 3).Draw(t, "draining") == 0 {
		options = append(options, status(cluster.InstanceDraining))
		if rapid.Bool().Draw(t, "by Berth") {
			at := noon.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "since")) * time.Minute)
			w.history.Drains = append(w.history.Drains, cluster.Drain{Instance: fmt.Sprintf("c-%d", n), At: at})
		}
	}
	w.rows = append(w.rows, row(n, options...))
	for x := range rapid.IntRange(0, 4).Draw(t, "tasks") {
		kind := rapid.SampledFrom([]taskOption{
			of("web"), of("web"), of("web"), of("web"), of("log"), of(""),
			func(t *cluster.Task) { t.Desired = cluster.TaskStopped },
		}).Draw(t, "kind")
		w.task(fmt.Sprintf("t%d-%d", n, x), n, kind)
	}
}

// load returns the non-daemon tasks on an instance, computed in another way than the code does.
func (w *world) load(ec2 string) (n int) {
	for _, r := range w.rows {
		if t, ok := r.(*cluster.Task); ok && t.Instance == "c"+ec2[1:] && t.Service != "log" &&
			t.Last != cluster.TaskStopped {
			n++
		}
	}
	return n
}

func (w *world) find(id string) *cluster.GroupInstance {
	at := slices.IndexFunc(w.group.Instances, func(i cluster.GroupInstance) bool {
		return i.ID == id ||
			"c"+i.ID[1:] == id
	})
	return &w.group.Instances[at]
}

// In any state a decision keeps the group's bounds, the step sizes, the percentage of a minute, and
// what blocks scaling.
func TestDecideKeepsWithinTheBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		d := scaling.Decide(w.input())
		s, was, is := &w.provider.Scaling, w.group.Desired, d.Desired
		if counted := d.History.ScaleOuts - w.history.ScaleOuts; (counted == 1) != (is > was) || counted>>1 != 0 {
			t.Fatalf("from %d to %d, counted as %d scale-outs", was, is, counted)
		}
		if is != was && (is < w.group.Min || is > w.group.Max) {
			t.Fatalf("from %d to %d, outside %d to %d", was, is, w.group.Min, w.group.Max)
		}
		if is-was > s.MaxStep {
			t.Fatalf("from %d to %d: more than the largest step", was, is)
		}
		if is != was && s.TargetTracking {
			t.Fatal("two scalers are in charge")
		}
		if is < was && w.upgrade {
			t.Fatal("scaled in during an upgrade")
		}
		if taken := was - is - len(d.Terminate); taken > 0 {
			switch {
			case taken > max(1, was*s.MaxScaleInPercent/100):
				t.Fatalf("from %d to %d: more than the share", was, is)
			case noon.Sub(w.history.LastScaleOut) < s.Cooldown:
				t.Fatal("scaled in too soon after a scale-out")
			case d.History.LowMinutes < s.LowDatapoints:
				t.Fatalf("scaled in after %d of %d datapoints", d.History.LowMinutes, s.LowDatapoints)
			}
		}
		if is > was {
			for _, m := range w.group.Instances {
				registered := slices.ContainsFunc(w.rows,
					func(r state.Row) bool { i, ok := r.(*cluster.Instance); return ok && i.EC2InstanceID == m.ID })
				if m.Lifecycle != "Terminating:Wait" && noon.Sub(m.LaunchedAt) < s.Warmup &&
					(!registered || !s.UntilRegistered) {
					t.Fatalf("scaled out while %s warms up", m.ID)
				}
			}
		}
	})
}

// Invariant 7: instances with tasks are protected, and no instance with tasks is removed.
func TestDecideRemovesNoProtectedInstance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		d := scaling.Decide(w.input())
		for _, id := range d.Terminate {
			if m := w.find(id); m.Protected && !slices.Contains(d.Release, id) || w.load(id) > 0 {
				t.Fatalf("%s is terminated: protected %t, %d tasks", id, m.Protected, w.load(id))
			}
		}
		for _, id := range slices.Concat(d.Drain, d.Undrain) {
			if w.find(id).Lifecycle == "Terminating:Wait" {
				t.Fatalf("%s is on its way out", id)
			}
		}
		if !w.provider.Protection {
			if len(d.Protect)+len(d.Release) > 0 {
				t.Fatal("protection is off")
			}
			return
		}
		free := 0 // for the group to choose from
		for _, m := range w.group.Instances {
			protected := (m.Protected || slices.Contains(d.Protect, m.ID)) && !slices.Contains(d.Release, m.ID)
			if m.Lifecycle != "InService" {
				continue
			}
			if !protected && w.load(m.ID) > 0 {
				t.Fatalf("%s has %d tasks and is not protected", m.ID, w.load(m.ID))
			}
			free += b2i(!protected)
		}
		if w.group.Desired-d.Desired > free {
			t.Fatalf("desired capacity from %d to %d, and %d are not protected", w.group.Desired, d.Desired, free)
		}
	})
}

// The same input gives the same decision in whatever order the group lists its instances, and the
// snapshot is not changed.
func TestDecideIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		in, other := w.input(), w.input()
		other.Group = new(w.group)
		other.Group.Instances = rapid.Permutation(w.group.Instances).Draw(t, "order")
		if diff := cmp.Diff(scaling.Decide(in), scaling.Decide(other)); diff != "" {
			t.Fatalf("another decision:\n%s", diff)
		}
		if diff := cmp.Diff(described(w.snapshot()), described(in.Snapshot)); diff != "" {
			t.Fatalf("another snapshot:\n%s", diff)
		}
	})
}

// A round that changes the group changes its history first. The history is written on the condition
// that it is as it was read, so of two rounds that read the same one only one acts.
func TestEachChangeOfTheGroupChangesItsHistory(t *testing.T) {
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		in := w.input()
		for _, last := range []*time.Time{&in.History.LastScaleOut, &in.History.LastScaleIn} {
			*last = last.Add(-time.Nanosecond) // no two rounds are at the same instant
		}
		d := scaling.Decide(in)
		if d.Desired == w.group.Desired && len(d.Terminate)+len(d.Replace)+len(d.Drain)+len(d.Undrain) == 0 {
			return
		}
		changed++
		if diff := cmp.Diff(in.History, d.History); diff == "" {
			t.Fatalf("from %d to %d (%s), %d terminated, %d replaced, %d drained, %d not any more; the history stays",
				w.group.Desired, d.Desired, d.Why, len(d.Terminate), len(d.Replace), len(d.Drain), len(d.Undrain))
		}
	})
	if changed == 0 {
		t.Error("no group was changed")
	}
}

// After a decision is carried out, deciding again in the same minute changes no capacity, unless
// instances had to take tasks again first.
func TestDecideTwiceChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		d := w.decide()
		for _, id := range d.Terminate {
			w.find(id).Lifecycle = "Terminating"
		}
		w.group.Desired = d.Desired
		if again := w.decide(); again.Desired != d.Desired && len(d.Undrain) == 0 {
			t.Fatalf("from %d to %d (%s), then to %d (%s)", w.group.Desired, d.Desired, d.Why, again.Desired, again.Why)
		}
	})
}

// M is N plus the packing bound, computed here in plain arithmetic: of each group of tasks, as many
// to an instance as the scarcest parameter allows.
func TestNeededIsThePackingBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type kind struct{ cpu, memory, gpus, enis int64 }
		draw := func(name string, least, most int64) int64 { return rapid.Int64Range(least, most).Draw(t, name) }
		w := newWorld()
		most, least := kind{}, kind{1 << 40, 1 << 40, 1 << 40, 1 << 40}
		for n := range rapid.IntRange(1, 4).Draw(t, "types") {
			k := kind{draw("cpu", 1, 16), draw("memory", 1, 64), draw("gpus", 0, 8), draw("enis", 0, 15)}
			most = kind{max(most.cpu, k.cpu), max(most.memory, k.memory), max(most.gpus, k.gpus),
				max(most.enis, k.enis)}
			least = kind{min(least.cpu, k.cpu), min(least.memory, k.memory), min(least.gpus, k.gpus),
				min(least.enis, k.enis)}
			w.instance(n+1, 0, func(i *cluster.Instance) {
				i.Attributes[cluster.AttributeInstanceType] = fmt.Sprint("type-", n)
				i.Registered = cluster.Capacity{CPU: k.cpu, Memory: k.memory, GPUs: make([]string, k.gpus),
					ENIs: new(int(k.enis))}
			})
			w.task(fmt.Sprint("full", n), n+1, needing(cluster.Resources{CPU: k.cpu, Memory: k.memory}))
		}
		bound := int64(0)
		for range rapid.IntRange(1, 4).Draw(t, "groups") {
			k := kind{draw("needs cpu", 0, 8), draw("needs memory", 1, 32), draw("needs gpus", 0, 4),
				draw("needs enis", 0, 1)}
			count := draw("count", 1, 40)
			port := rapid.IntRange(0, 3).Draw(t, "port") == 0
			waits(int(count), cluster.Resources{CPU: k.cpu, Memory: k.memory, GPUs: int(k.gpus), ENIs: int32(k.enis)},
				func(s *placement.Spec) {
					s.Attributes = []string{cluster.AttributeZone + "=a"}
					if port {
						s.Ports = []cluster.Port{{Number: 80 + len(w.waiting), Protocol: cluster.TCP}}
					}
					s.PerInstance = int(count) // of no effect, but for keeping apart groups that need the same
				})(w)
			each := count
			for _, p := range [][3]int64{{most.cpu, k.cpu, least.cpu}, {most.memory, k.memory, least.memory},
				{most.gpus, k.gpus, least.gpus}, {most.enis, k.enis, least.enis}} {
				if p[1] > p[2] {
					each = 0 // left out
				} else if p[1] > 0 {
					each = min(each, p[0]/p[1])
				}
			}
			if port {
				each = min(each, 1)
			}
			if each > 0 {
				bound = max(bound, (count+each-1)/each)
			}
		}
		if d := w.decide(); int64(d.Needed-d.Running) != bound {
			t.Fatalf("M %d, N %d, bound %d: %+v", d.Needed, d.Running, bound, d.Demands)
		}
	})
}
