package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/state"
	"berth/tests/oracle"
)

// After each single change, whatever it is, an engine answers each of some requests as a new engine
// does, in full: placements, diagnosis, checks of instances and stops.
func TestEngineFollowsEachChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := oracle.NewHistory(t)
		for range 6 {
			h.Requests = append(h.Requests, oracle.GenRequest(t, h.World))
		}
		changes := []func(*rapid.T){h.ChangeTask, h.ChangeTask, h.EndTask, h.EndTask, h.ChangeInstance,
			h.CommitPlacements, h.CommitPlacements, h.ChangeService, h.RemoveInstance}
		for step := range 25 {
			if len(h.Tasks) > 0 && len(h.Instances) > 0 {
				rapid.SampledFrom(changes).Draw(t, "change")(t)
			}
			fresh := placement.New(h.Snap)
			for n, r := range h.Requests {
				if (n+step)%3 == 0 { // some engines skip changes
					continue
				}
				if diff := cmp.Diff(fresh.Place(r), h.Engine.Place(r)); diff != "" {
					t.Fatalf("request %d is answered in another way than by a new engine:\n%s", n, diff)
				}
				if r.Spec.Deployment != "" { // it says where tasks start
					continue
				}
				candidates := slices.DeleteFunc(slices.Clone(h.Snap.TasksOf("web")),
					func(t *cluster.Task) bool { return r.Spec.Group != "" && t.Group != r.Spec.Group })
				got, want := h.Engine.ChooseStops(r, candidates), fresh.ChooseStops(r, candidates)
				if oracle.IDs(got) != oracle.IDs(want) {
					t.Fatalf("request %d stops %s, by a new engine %s", n, oracle.IDs(got), oracle.IDs(want))
				}
			}
		}
		if err := h.Engine.CheckKept(); err != nil {
			t.Fatal(err)
		}
	})
}

// A constraint that depends on tasks is evaluated again after each change, one at a time.
func TestDynamicConstraintsFollowEachChange(t *testing.T) {
	w := &oracle.World{Config: oracle.Configuration(cluster.Configuration{})}
	for n := range 12 {
		w.Instances = append(w.Instances, oracle.Instance(fmt.Sprintf("i-%02d", n)))
	}
	s := w.Snapshot(1)
	e, spec := placement.New(s), &placement.Spec{Owner: "web", Needs: oracle.Small,
		Constraints: parsed(t, "runningTasksCount < 1")}
	for n := range 12 {
		got := e.Place(placement.Request{Spec: spec, Count: 1})
		if want := fmt.Sprintf("i-%02d", n); len(got.Placed) != 1 || got.Placed[0].Instance != want {
			t.Fatalf("placed %v, expected on %s: all before it have a task", got.Placed, want)
		}
		s.Put(oracle.Task(fmt.Sprint("t", n), fmt.Sprintf("i-%02d", n)))
	}
	if got := e.Place(placement.Request{Spec: spec, Count: 1}); len(got.Placed) > 0 {
		t.Errorf("placed %v where each instance has a task", got.Placed)
	}
}

// A service with a domain policy and a constraint that depends on tasks: an instance that no longer
// meets the constraint, because of a task of the same call, may leave its domain without any, and
// then the domain is none.
func TestDomainsFollowConstraintsOfTheCall(t *testing.T) {
	var rows []state.Row
	for n, domain := range []string{"a", "b", "b", "b"} {
		rows = append(rows, oracle.Instance(fmt.Sprint("i", n),
			oracle.Attribute(cluster.AttributeFaultDomain, "fd:/"+domain)))
	}
	r := placement.Request{Count: 4, Target: 4, Spec: &placement.Spec{Owner: "web", Group: "g", Needs: oracle.Small,
		DomainPolicy: cluster.PolicyDifference, Constraints: parsed(t, "not(task:group == g)")}}
	e := placement.New(oracle.SnapshotOf(rows...))
	for range 2 { // and once more: nothing is left of the call
		if got := e.Place(r); len(got.Placed) != 4 {
			t.Errorf("placed %v: without a free instance in domain a, domain b may have three", got.Placed)
		}
	}
	r.Spec = &placement.Spec{Owner: "web", Group: "g", Needs: oracle.Small, DomainPolicy: cluster.PolicyDifference}
	if got := e.Place(r); len(got.Placed) != 3 {
		t.Errorf("placed %v: without the constraint, b has one more than a at most", got.Placed)
	}
}

// An instance that comes and goes between two requests takes a place among the instances, and
// changes no answer.
func TestDomainsOutlastInstancesThatCameAndWent(t *testing.T) {
	for _, query := range []string{"runningTasksCount < 9", "attribute:berth.fault-domain exists"} {
		s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.Attribute(cluster.AttributeFaultDomain, "fd:/a")),
			oracle.Instance("i-2", oracle.Attribute(cluster.AttributeFaultDomain, "fd:/b")))
		e := placement.New(s)
		r := placement.Request{Count: 2, Target: 2, Spec: &placement.Spec{Owner: "web",
			DomainPolicy: cluster.PolicyDifference, Constraints: parsed(t, query)}}
		for n := range 3 {
			if got := e.Place(r); oracle.Where(got.Placed) != "i-1 i-2" {
				t.Errorf("%s: placed %v after %d instances came and went", query, got.Placed, n)
			}
			gone := oracle.Instance(fmt.Sprint("gone-", n))
			s.Put(gone)
			s.ApplyRecord(state.Record{Op: state.Remove, Old: gone})
		}
	}
}

// The domains of a service follow its constraints, also where those are ignored: within a call, as a
// full scan's do, and after each change of a task, as a new engine's do.
func TestDomainsFollowConstraints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 10 {
			h := &oracle.History{World: oracle.GenWorld(t)}
			h.Config = &cluster.Configuration{Head: cluster.Head{Cluster: "c", Rev: 1}, Priorities: cluster.Priorities{
				Placement: rapid.SampledFrom([]cluster.Priority{0, -1}).Draw(t, "constraints count")}}
			for _, i := range h.Instances {
				i.Status, i.AgentConnected = cluster.InstanceActive, true
				domain := rapid.SampledFrom([]string{"fd:/a", "fd:/b", "fd:/c"}).Draw(t, "domain")
				oracle.Attribute(cluster.AttributeFaultDomain, domain)(i)
			}
			h.Snap = h.World.Snapshot(1)
			h.Engine = placement.New(h.Snap)
			x, err := constraint.ParseQuery(rapid.SampledFrom([]string{"runningTasksCount < 2", "task:group == g",
				"not(task:group == g)"}).Draw(t, "constraint"))
			if err != nil {
				t.Fatal(err)
			}
			r := placement.Request{Count: rapid.IntRange(1, 6).Draw(t, "count"), Target: 4,
				Spec: &placement.Spec{Owner: "web", Group: "g", Constraints: []*constraint.Expression{x},
					DomainPolicy: cluster.PolicyDifference}}
			checkPlaced(t, h.World, r, h.Engine.Place(r))
			for range 3 {
				h.ChangeTask(t)
				if diff := cmp.Diff(placement.New(h.Snap).Place(r), h.Engine.Place(r)); diff != "" {
					t.Fatalf("the answer is another one than a new engine's:\n%s", diff)
				}
			}
		}
	})
}

// freedChanges notes whether the changes that the engine reads may have made room.
type freedChanges struct {
	index  []int
	owners []string
	freed  []bool
	resets int
}

func (f *freedChanges) InstanceChanged(index int, owner string, freed bool) {
	f.index, f.owners, f.freed = append(f.index, index), append(f.owners, owner), append(f.freed, freed)
}

func (f *freedChanges) Reset() { f.resets++ }

// A change makes room on an instance if less of anything is in use: a task that comes does not, one
// that leaves does.
func TestWhatMakesRoom(t *testing.T) {
	base := func(t *cluster.Task) { t.Needs = cluster.Resources{} }
	for name, option := range map[string]oracle.TaskOption{
		"CPU":         oracle.Needs(cluster.Resources{CPU: 1}),
		"Memory":      oracle.Needs(cluster.Resources{Memory: 1}),
		"Interface":   oracle.Needs(cluster.Resources{ENIs: 1}),
		"Port":        oracle.Ports(oracle.HTTP),
		"Metric":      oracle.Load(1),
		"WholeDevice": func(t *cluster.Task) { t.Needs, t.GPUs = cluster.Resources{GPUs: 1}, []int{0} },
		"Share":       func(t *cluster.Task) { t.Needs, t.GPUs = cluster.Resources{GPUs: 1, GPUMilli: 300}, []int{1} },
		"Count":       func(*cluster.Task) {},
	} {
		t.Run(name, func(t *testing.T) {
			enis := 3
			half := func(t *cluster.Task) { t.Needs, t.GPUs = cluster.Resources{GPUs: 1, GPUMilli: 200}, []int{1} }
			s := oracle.SnapshotOf(oracle.Instance("a", oracle.GPUs(2), oracle.Metric("m", 10),
				func(i *cluster.Instance) { i.Registered.ENIs = &enis }), oracle.Task("half", "a", half))
			e, seen := placement.New(s), &freedChanges{}
			s.MetricIndex("m")
			e.Sync()
			e.SetObserver(seen)
			task := oracle.Task("t", "a", base, option)
			expect := func(when string, freed bool) {
				t.Helper()
				e.Sync()
				got := false
				for n := range seen.freed {
					got = got || seen.freed[n]
					if seen.owners[n] != "web" || seen.index[n] != s.Instances["a"].Index {
						t.Errorf("%s: a change of %q on instance %d", when, seen.owners[n], seen.index[n])
					}
				}
				if got != freed || len(seen.freed) == 0 || seen.resets > 0 {
					t.Errorf("%s: room is made: %v, expected %v", when, got, freed)
				}
				seen.freed, seen.owners, seen.index = nil, nil, nil
			}
			s.Put(task)
			expect("a task comes", false)
			if name != "Count" { // the task stays, and needs nothing any more
				less := oracle.Task("t", "a", base)
				less.Rev = 2
				if task.Reported != nil {
					less.Reported = map[string]int64{"m": 0}
				}
				s.Put(less)
				task = less
				expect("it needs nothing any more", true)
			}
			s.ApplyRecord(state.Record{Op: state.Remove, Old: task})
			expect("it leaves", true)
		})
	}
}

// Whatever changes tasks, a change that is said to make no room does not let a task run where it
// could not before.
func TestNoRoomComesUnnoticed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, seen := oracle.NewHistory(t), &freedChanges{}
		var requests []placement.Request
		for range 4 {
			r := oracle.GenRequest(t, h.World)
			spec := &placement.Spec{Owner: "new", Needs: r.Spec.Needs, Ports: r.Spec.Ports, Loads: r.Spec.Loads}
			requests = append(requests, placement.Request{Spec: spec, Count: 1})
		}
		rejected := func() map[string]bool {
			out := map[string]bool{}
			for id := range h.Snap.Instances {
				for n, r := range requests {
					_, why := oracle.CheckInstance(h.Snap, id, r)
					out[fmt.Sprint(id, n)] = why != nil
				}
			}
			return out
		}
		before := rejected()
		h.Engine.Sync()
		h.Engine.SetObserver(seen)
		for range 12 {
			if len(h.Tasks) > 0 && rapid.Bool().Draw(t, "ends") {
				h.EndTask(t)
			} else {
				h.ChangeTask(t)
			}
			h.Engine.Sync()
			mayHaveRoom := map[int]bool{}
			for n, i := range seen.index {
				mayHaveRoom[i] = mayHaveRoom[i] || seen.freed[n] || seen.owners[n] == ""
			}
			*seen = freedChanges{}
			after := rejected()
			for id, v := range h.Snap.Instances {
				for n := range requests {
					if key := fmt.Sprint(id, n); before[key] && !after[key] && !mayHaveRoom[v.Index] {
						t.Fatalf("%s can run request %d now, and no change made room", id, n)
					}
				}
			}
			before = after
		}
	})
}

// parsed returns a constraint in the cluster query language.
func parsed(t *testing.T, query string) []*constraint.Expression {
	t.Helper()
	x, err := constraint.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return []*constraint.Expression{x}
}
