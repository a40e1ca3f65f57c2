package placement_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// Place is S2 and nothing else: whatever the cluster, it answers as a full scan does that makes a row of each task
// before it looks for the next. Its diagnosis counts each instance once, and only when tasks are left.
func TestPlaceIsAsTheFullScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		r := genRequest(t, w)
		got := placement.New(w.snapshot(1)).Place(r)
		o := &oracle{world: world{w.instances, slices.Clone(w.tasks)}, request: r}
		want := o.place()
		if where(got.Placed) != where(want) {
			t.Fatalf("placed %q, the full scan places %q", where(got.Placed), where(want))
		}
		if (got.Diagnosis == nil) != (len(want) == r.Count) {
			t.Fatalf("%d of %d placed, diagnosis %v", len(want), r.Count, got.Diagnosis)
		}
		if got.Diagnosis != nil {
			checkDiagnosis(t, got.Diagnosis, o)
		}
	})
}

func checkDiagnosis(t *rapid.T, d *cluster.Diagnosis, o *oracle) {
	histogram := map[string]int{}
	closest := false
	for _, r := range d.Rejected {
		key := string(r.Filter)
		if r.Detail != "" {
			key += " " + r.Detail
		}
		histogram[key] = r.Count
		if r.Need > 0 && r.Best >= r.Need {
			t.Fatalf("%v: what was free would have done", r)
		}
		closest = closest || r.Filter == d.ClosestFilter
	}
	if want := o.histogram(); !maps.Equal(histogram, want) {
		t.Fatalf("rejected %v, want %v", histogram, want)
	}
	if d.Evaluated != len(o.candidates()) || d.Feasible != 0 || d.Unplaced != o.request.Count-o.made {
		t.Fatalf("evaluated %d, feasible %d, unplaced %d", d.Evaluated, d.Feasible, d.Unplaced)
	}
	fewest := ""
	for _, i := range o.candidates() {
		n, best := len(o.refusals(i, o.left(i))), 99
		if fewest != "" {
			best = len(o.refusals(o.find(fewest), o.left(o.find(fewest))))
		}
		if n < best {
			fewest = i.ID
		}
	}
	if d.Evaluated == 0 {
		return
	}
	if c := o.find(d.Closest); !closest || len(o.refusals(c, o.left(c))) != len(o.refusals(o.find(fewest), o.left(o.find(fewest)))) {
		t.Fatalf("closest is %s (%s); %s fails fewer filters", d.Closest, d.ClosestFilter, fewest)
	}
}

// Neither the order in which rows came in nor chance changes an answer, and asking changes nothing.
func TestPlaceDependsOnNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		r := genRequest(t, w)
		s := w.snapshot(rapid.Uint64().Draw(t, "order"))
		first := placement.New(w.snapshot(1)).Place(r)
		for range 2 {
			if diff := cmp.Diff(first, placement.New(s).Place(r)); diff != "" {
				t.Fatalf("another answer:\n%s", diff)
			}
		}
	})
}

// Invariant 1: whatever an instance was like before, one that Place uses has nothing below zero and no port twice
// when the tasks are rows. Invariant 4: PerInstance holds.
func TestPlaceNeverOverfills(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		r := genRequest(t, w)
		o := &oracle{world: *w, request: r}
		got := placement.New(w.snapshot(1)).Place(r)
		for _, p := range got.Placed {
			o.put(p)
		}
		after := o.snapshot(2)
		for _, p := range got.Placed {
			v := after.Instances[p.Instance]
			if v.CPU < 0 || v.Memory < 0 || slices.ContainsFunc(p.GPUs, func(g int) bool { return v.GPUs[g] < 0 }) {
				t.Fatalf("%s is overfilled: CPU %d, memory %d, GPUs %v", p.Instance, v.CPU, v.Memory, v.GPUs)
			}
			for _, port := range r.Spec.Ports {
				if n := count(v.Ports, port); n != 1 {
					t.Fatalf("%s has port %v %d times", p.Instance, port, n)
				}
			}
			if n := o.left(v.Instance).occupants; r.Spec.PerInstance > 0 && n > r.Spec.PerInstance {
				t.Fatalf("%s has %d tasks of the owner", p.Instance, n)
			}
			if !v.Available() || len(p.GPUs) != r.Spec.Needs.GPUs {
				t.Fatalf("%v on an instance that is %s, agent %v", p, v.Status, v.AgentConnected)
			}
		}
	})
}

// Check and Place agree on every single instance.
func TestCheckIsAsPlaceOnOneInstance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		r := genRequest(t, w)
		s := w.snapshot(1)
		for id := range s.Instances {
			devices, rejected := check(s, id, r)
			r.Instances, r.Count = []string{id}, 1
			got := placement.New(s).Place(r)
			switch {
			case rejected == nil:
				if where(got.Placed) != where([]placement.Placement{{Instance: id, GPUs: devices}}) {
					t.Fatalf("Check takes %v of %s, Place says %v", devices, id, got)
				}
			case got.Diagnosis == nil:
				t.Fatalf("Check rejects %s (%v), Place does not", id, rejected)
			case got.Diagnosis.Evaluated == 1:
				if diff := cmp.Diff([]cluster.Rejection{*rejected}, got.Diagnosis.Rejected); diff != "" {
					t.Fatalf("Check and Place differ on %s:\n%s", id, diff)
				}
			}
		}
	})
}

func TestChooseStopsIsAsTheFullScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		var candidates []*cluster.Task
		for _, task := range w.tasks {
			if task.Owner == "web" && rapid.IntRange(0, 4).Draw(t, "candidate") > 0 {
				candidates = append(candidates, task)
			}
		}
		n := rapid.IntRange(0, len(candidates)+1).Draw(t, "n")
		want := stopOracle(w, candidates, n)
		mixed := rapid.Permutation(candidates).Draw(t, "order")
		got := stop(w.snapshot(rapid.Uint64().Draw(t, "rows")), mixed, n)
		if ids(got) != ids(want) {
			t.Fatalf("stops %q, the full scan %q", ids(got), ids(want))
		}
	})
}

func TestEligibleIsAsTheFullScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		r := genRequest(t, w)
		s := w.snapshot(rapid.Uint64().Draw(t, "rows"))
		var want []string
		for _, i := range w.instances {
			disk, has := i.Attributes["disk"]
			fits := !slices.ContainsFunc(r.Spec.Attributes, func(a string) bool { return !has || a != "disk" && a != "disk="+disk })
			if fits != placement.New(s).Matches(s.Instances[i.ID], r.Spec) {
				t.Fatalf("Matches(%s) is %v", i.ID, !fits)
			}
			if fits && i.Status == cluster.InstanceActive {
				want = append(want, i.ID)
			}
		}
		if got := placement.New(s).Eligible(r.Spec); !slices.Equal(got, want) {
			t.Fatalf("eligible %v, want %v", got, want)
		}
	})
}

func count(ports []cluster.Port, p cluster.Port) (n int) {
	for _, q := range ports {
		if q == p {
			n++
		}
	}
	return n
}
