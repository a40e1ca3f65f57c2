package placement_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/tests/oracle"
)

// Place answers as a full scan does that makes a row of each task before it looks for the next,
// whatever the cluster and the rules. Its diagnosis counts each instance once, and only if tasks
// are left.
func TestPlaceEqualsFullScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenWorld(t)
		r := oracle.GenRequest(t, w)
		checkPlaced(t, w, r, placement.New(w.Snapshot(1)).Place(r))
	})
}

// Where applications are scarce, too, Place answers as the full scan does: both services of the world
// are of one application, whose limits nearly every request meets, and nothing else is scarce.
func TestPlaceKeepsToApplications(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenWorld(t)
		limits := cluster.Application{MaximumNodes: rapid.IntRange(0, 4).Draw(t, "most nodes"),
			Metrics: map[string]cluster.ApplicationMetric{}}
		for _, metric := range []string{"m", "n"} {
			limits.Metrics[metric] = cluster.ApplicationMetric{
				NodeCapacity:  rapid.Int64Range(0, 12).Draw(t, "most on a node"),
				TotalCapacity: rapid.Int64Range(0, 40).Draw(t, "most in all"),
				Reservation:   rapid.Int64Range(0, 12).Draw(t, "kept on a node"),
			}
		}
		w.Config.Applications = map[string]cluster.Application{"shop": limits}
		for _, s := range w.Services {
			s.Rules.Application = "shop"
			s.Rules.Metrics = []cluster.Metric{{Name: "m", Load: rapid.Int64Range(0, 4).Draw(t, "load")},
				{Name: "n", Load: rapid.Int64Range(0, 4).Draw(t, "load")}}
		}
		for _, i := range w.Instances {
			i.Status, i.AgentConnected = cluster.InstanceActive, true
		}
		r := oracle.GenRequest(t, w)
		r.Spec = &placement.Spec{Owner: "web", Loads: r.Spec.Loads, Application: "shop"}
		r.Instances, r.Refused = nil, nil
		r.Count = rapid.IntRange(1, 8).Draw(t, "tasks")
		checkPlaced(t, w, r, placement.New(w.Snapshot(1)).Place(r))
	})
}

// checkPlaced compares an answer with the full scan's. If chance decides, any of the scan's best
// will do. If domain rules leave a task without a place, the engine may move others of the same
// call: then it must place more than the scan, and keep every rule in force.
func checkPlaced(t *rapid.T, w *oracle.World, r placement.Request, got placement.Result) {
	o, fewer := oracle.NewOracle(w, r), -1
	for n, p := range got.Placed {
		best := o.NextBest()
		at := slices.IndexFunc(best, func(i *cluster.Instance) bool { return i.ID == p.Instance })
		if at < 0 && oracle.IsGoverned(r.Spec) {
			fewer = n
			break
		}
		if at < 0 {
			t.Fatalf("task %d is placed on %s, the best are %v", n, p.Instance, oracle.Names(best))
		}
		if want := o.PutTask(best[at]); oracle.Where([]placement.Placement{want}) != oracle.Where([]placement.Placement{p}) {
			t.Fatalf("task %d is placed as %v, not as %v", n, p, want)
		}
	}
	if fewer >= 0 {
		checkSwaps(t, w, r, got)
		return
	}
	if len(got.Placed) < r.Count {
		if best := o.NextBest(); len(best) > 0 {
			t.Fatalf("only %v placed, the scan places one more on %v", oracle.Where(got.Placed), oracle.Names(best))
		}
	}
	if (got.Diagnosis == nil) != (len(got.Placed) == max(0, r.Count)) {
		t.Fatalf("%d of %d placed, diagnosis %v", len(got.Placed), r.Count, got.Diagnosis)
	}
	if got.Diagnosis != nil {
		checkDiagnosis(t, got.Diagnosis, o)
	}
}

func checkSwaps(t *rapid.T, w *oracle.World, r placement.Request, got placement.Result) {
	greedy := oracle.NewOracle(w, r)
	want := greedy.Place()
	if len(want) > len(got.Placed) || len(want) == len(got.Placed) && greedy.Step == 0 { // the scan gave no rule up
		t.Fatalf("placed %q, the full scan %q", oracle.Where(got.Placed), oracle.Where(want))
	}
	o := oracle.NewOracle(w, r)
	o.Step = greedy.Step
	o.Now = o.Snapshot(1)
	faultBefore, upgradeBefore := o.ServiceDomains().Excess()
	for _, p := range got.Placed {
		o.Now = o.Snapshot(1)
		i := o.FindInstance(p.Instance)
		for _, why := range o.FailedFilters(i, o.RemainingOn(i)) {
			if why != string(cluster.FilterFaultDomain)+" "+i.FaultDomain() &&
				why != string(cluster.FilterUpgrade)+" "+i.UpgradeDomain() {
				t.Fatalf("placed %v: %s", p, why)
			}
		}
		o.CommitPlacement(p)
	}
	o.Now = o.Snapshot(1)
	if fault, upgrade := o.ServiceDomains().Excess(); fault > faultBefore || upgrade > upgradeBefore {
		t.Fatalf("placed %q: domain rules broken by %d and %d, before by %d and %d", oracle.Where(got.Placed), fault,
			upgrade, faultBefore, upgradeBefore)
	}
}

// folded sums up the details that the diagnosis lists as "others".
func folded(histogram map[string]int, d *cluster.Diagnosis) map[string]int {
	for _, others := range d.Rejected {
		if others.Detail != "others" {
			continue
		}
		listed := func(key string) bool {
			return slices.ContainsFunc(d.Rejected,
				func(r cluster.Rejection) bool { return key == string(r.Filter)+" "+r.Detail })
		}
		for key, n := range histogram {
			if strings.HasPrefix(key, string(others.Filter)+" ") && !listed(key) {
				delete(histogram, key)
				histogram[string(others.Filter)+" others"] += n
			}
		}
	}
	return histogram
}

func checkDiagnosis(t *rapid.T, d *cluster.Diagnosis, o *oracle.Oracle) {
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
	if want := folded(o.RejectionCounts(), d); !maps.Equal(histogram, want) {
		t.Fatalf("rejected %v, want %v", histogram, want)
	}
	if d.Evaluated != len(o.Candidates()) || d.Feasible != 0 || d.Unplaced != o.Request.Count-o.Made {
		t.Fatalf("evaluated %d, feasible %d, unplaced %d", d.Evaluated, d.Feasible, d.Unplaced)
	}
	fewest := ""
	for _, i := range o.Candidates() {
		n, best := len(o.FailedFilters(i, o.RemainingOn(i))), 99
		if fewest != "" {
			best = len(o.FailedFilters(o.FindInstance(fewest), o.RemainingOn(o.FindInstance(fewest))))
		}
		if n < best {
			fewest = i.ID
		}
	}
	if d.Evaluated == 0 {
		return
	}
	if c := o.FindInstance(d.Closest); !closest || len(o.FailedFilters(c,
		o.RemainingOn(c))) != len(o.FailedFilters(o.FindInstance(fewest),
		o.RemainingOn(o.FindInstance(fewest)))) {
		t.Fatalf("closest is %s (%s); %s fails fewer filters", d.Closest, d.ClosestFilter, fewest)
	}
}

// The order of rows does not change an answer, and asking changes nothing.
func TestPlaceIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenWorld(t)
		r := oracle.GenRequest(t, w)
		s := w.Snapshot(rapid.Uint64().Draw(t, "order"))
		first := placement.New(w.Snapshot(1)).Place(r)
		for range 2 {
			if diff := cmp.Diff(first, placement.New(s).Place(r)); diff != "" {
				t.Fatalf("another answer:\n%s", diff)
			}
		}
	})
}

// Whatever an instance was like before, after Place it has no negative resource and no port twice,
// and PerInstance holds.
func TestPlaceNeverOverfills(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenWorld(t)
		r := oracle.GenRequest(t, w)
		o := oracle.NewOracle(w, r)
		got := placement.New(w.Snapshot(1)).Place(r)
		for _, p := range got.Placed {
			o.CommitPlacement(p)
		}
		after := o.Snapshot(2)
		for _, p := range got.Placed {
			v := after.Instances[p.Instance]
			if v.CPU < 0 || v.Memory < 0 || slices.ContainsFunc(p.GPUs, func(g int) bool { return v.GPUs[g] < 0 }) {
				t.Fatalf("%s is overfilled: CPU %d, memory %d, GPUs %v", p.Instance, v.CPU, v.Memory, v.GPUs)
			}
			for _, port := range r.Spec.Ports {
				if n := countPorts(v.Ports, port); n != 1 {
					t.Fatalf("%s has port %v %d times", p.Instance, port, n)
				}
			}
			if n := o.RemainingOn(v.Instance).Occupants; r.Spec.PerInstance > 0 && n > r.Spec.PerInstance {
				t.Fatalf("%s has %d tasks of the owner", p.Instance, n)
			}
			if !v.IsAvailable() || len(p.GPUs) != r.Spec.Needs.GPUs {
				t.Fatalf("%v on an instance that is %s, agent %v", p, v.Status, v.AgentConnected)
			}
		}
	})
}

// CheckInstance and Place agree on every single instance.
func TestCheckInstanceAgreesWithPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenWorld(t)
		r := oracle.GenRequest(t, w)
		s := w.Snapshot(1)
		for id := range s.Instances {
			devices, rejected := oracle.CheckInstance(s, id, r)
			r.Instances, r.Count = []string{id}, 1
			got := placement.New(s).Place(r)
			switch {
			case rejected == nil:
				if oracle.Where(got.Placed) != oracle.Where([]placement.Placement{{Instance: id, GPUs: devices}}) {
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

func TestEligibleInstancesEqualFullScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenWorld(t)
		r := oracle.GenRequest(t, w)
		s := w.Snapshot(rapid.Uint64().Draw(t, "rows"))
		e, o := placement.New(s), oracle.NewOracle(w, r)
		var want []string
		for _, i := range w.Instances {
			fits := oracle.MissingAttribute(r.Spec, i) == "" && oracle.UntoleratedTaint(r.Spec, i) == "" &&
				(o.UnmetConstraint(i) == "" || !o.RuleBinds(w.Config.Priorities.Placement))
			if fits != e.MatchesInstance(s.Instances[i.ID], r.Spec) {
				t.Fatalf("Matches(%s) is %v", i.ID, !fits)
			}
			if fits && i.Status == cluster.InstanceActive && !oracle.IsCordoned(i) &&
				!slices.Contains(r.Spec.Avoid, i.ID) {
				want = append(want, i.ID)
			}
		}
		if got := e.EligibleInstances(r.Spec); !slices.Equal(got, want) {
			t.Fatalf("eligible %v, want %v", got, want)
		}
	})
}

func countPorts(ports []cluster.Port, p cluster.Port) (n int) {
	for _, q := range ports {
		if q == p {
			n++
		}
	}
	return n
}
