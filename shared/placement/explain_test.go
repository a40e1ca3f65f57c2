package placement_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/tests/oracle"
)

// On any cluster, the best instance of an explanation is what Place chooses, the runner-up is what
// Place would choose without it, and the numbers are those of the diagnosis.
func TestExplainAgreesWithPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenWorld(t)
		r := oracle.GenRequest(t, w)
		r.Count = 1
		e := placement.New(w.Snapshot(1))
		x := e.Explain(r)
		got := e.Place(r)
		chosen, best := "", ""
		if len(got.Placed) > 0 {
			chosen = got.Placed[0].Instance
		}
		if x.Best != nil {
			best = x.Best.Instance
		}
		if chosen != best {
			t.Fatalf("Place chooses %q, the explanation %q: %v", chosen, best, &x)
		}
		if got.Diagnosis != nil {
			if diff := cmp.Diff(*got.Diagnosis, x.Diagnosis); diff != "" {
				t.Fatalf("other counts than Place's:\n%s", diff)
			}
		}
		if (x.Best == nil) != (x.Diagnosis.Feasible == 0) || (x.RunnerUp == nil) != (x.Diagnosis.Feasible < 2) {
			t.Fatalf("%d could take it, best %v, runner-up %v", x.Diagnosis.Feasible, x.Best, x.RunnerUp)
		}
		if x.RunnerUp != nil && (!x.Best.RanksBefore(x.RunnerUp) || x.RunnerUp.RanksBefore(x.Best)) {
			t.Fatalf("the runner-up is ahead: %v, %v", x.Best, x.RunnerUp)
		}
	})
}

// WhyNot is empty exactly for the instances that can run the task, which are as many as the
// explanation says. Otherwise its first entry is the filter that the instance counts for.
// CandidateOn returns exactly the feasible instances; none ranks before the best, and only the best
// before the runner-up.
func TestWhyNotIsEmptyForFeasibleInstances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenWorld(t)
		r := oracle.GenRequest(t, w)
		r.Instances = nil
		e := placement.New(w.Snapshot(1))
		x := e.Explain(r)
		feasible, refused := 0, map[string]int{}
		for _, i := range w.Instances {
			why, weight := e.WhyNot(r, i.ID), e.CandidateOn(r, i.ID)
			if (len(why) == 0) != (weight != nil) {
				t.Fatalf("%s is refused by %v and weighs %v", i.ID, why, weight)
			}
			switch {
			case i.IsDeregistered():
				if len(why) != 1 || why[0].Filter != cluster.FilterStatus {
					t.Fatalf("%s is gone, but refused by %v", i.ID, why)
				}
			case len(why) > 0:
				refused[string(why[0].Filter)+why[0].Detail]++
			default:
				feasible++
				checkWeight(t, weight, &x)
			}
		}
		counted := map[string]int{}
		for _, r := range x.Diagnosis.Rejected {
			counted[string(r.Filter)+r.Detail] = r.Count
		}
		if feasible != x.Diagnosis.Feasible || !maps.Equal(refused, counted) {
			t.Fatalf("%d feasible, refused by %v; the explanation says %v", feasible, refused, x.Diagnosis)
		}
	})
}

func checkWeight(t *rapid.T, c *placement.Candidate, x *placement.Explanation) {
	first := c.Instance == x.Best.Instance
	if c.RanksBefore(x.Best) || first == x.Best.RanksBefore(c) {
		t.Fatalf("%v against the best, %v", c, x.Best)
	}
	if x.RunnerUp != nil && c.Instance != x.RunnerUp.Instance && c.RanksBefore(x.RunnerUp) != first {
		t.Fatalf("%v against the runner-up, %v", c, x.RunnerUp)
	}
	if len(c.Key) != len(x.Best.Key) || c.Key[len(c.Key)-1].Text != c.Instance {
		t.Fatalf("key %v, the best has %v", c.Key, x.Best.Key)
	}
}

// Answers without a task equal those of a cluster that never had it. Afterwards everything is as
// before.
func TestWithoutTaskEqualsAClusterWithoutIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenWorld(t)
		r := oracle.GenRequest(t, w)
		if len(w.Tasks) == 0 {
			return
		}
		at := rapid.IntRange(0, len(w.Tasks)-1).Draw(t, "task")
		gone := w.Tasks[at]
		s := w.Snapshot(1)
		e := placement.New(s)
		before, first := described(s), e.Explain(r)
		var within placement.Explanation
		var why []cluster.Rejection
		e.WithoutTask(s.Task(gone.Owner, gone.ID), func() { within, why = e.Explain(r), e.WhyNot(r, gone.Instance) })
		if diff := cmp.Diff(before, described(s)); diff != "" {
			t.Fatalf("the snapshot is another:\n%s", diff)
		}
		if diff := cmp.Diff(first.String(), new(e.Explain(r)).String()); diff != "" {
			t.Fatalf("another answer afterwards:\n%s", diff)
		}
		other := *w
		other.Tasks = slices.Delete(slices.Clone(w.Tasks), at, at+1)
		never := placement.New(other.Snapshot(2))
		if diff := cmp.Diff(new(never.Explain(r)).String(), within.String()); diff != "" {
			t.Fatalf("without task %s on %s:\n%s", gone.ID, gone.Instance, diff)
		}
		if diff := cmp.Diff(never.WhyNot(r, gone.Instance), why); diff != "" {
			t.Fatalf("without task %s, refused on %s:\n%s", gone.ID, gone.Instance, diff)
		}
	})
}

// described returns all that decisions depend on, sorted.
func described(s *snapshot.Snapshot) []string {
	out := []string{fmt.Sprint(s.Meta), fmt.Sprint(s.TaskCount(), len(s.ProvisioningTasks()))}
	for _, v := range s.InstancesByIndex() {
		if v == nil {
			continue
		}
		var tasks, ports []string
		for _, t := range v.Tasks {
			tasks = append(tasks, fmt.Sprint(t.Owner, t.ID, s.SpreadOf(t.Owner, "").TasksOn(v),
				s.SpreadOf(t.Owner, t.Group).InstanceCount(), s.SpreadOf(t.Owner, "").Zones()))
		}
		for _, p := range v.Ports {
			ports = append(ports, fmt.Sprint(p))
		}
		slices.Sort(tasks)
		slices.Sort(ports)
		loads := map[string]int64{}
		for m, name := range s.MetricNames() {
			if load := v.Load(m); load != 0 {
				loads[name] = load
			}
		}
		out = append(out, fmt.Sprint(v.Index, v.ID, v.CPU, v.Memory, v.GPUs, v.Unpinned, v.ENIs, ports, loads, tasks))
	}
	return out
}

// The texts of explanations, each with the numbers that decide.
func TestExplanationText(t *testing.T) {
	zoned := func() []state.Row {
		return []state.Row{
			oracle.Instance("i-1", oracle.Zone("a")), oracle.Instance("i-2", oracle.Zone("b")),
			oracle.Instance("i-3", oracle.Zone("b"), oracle.Memory(900)),
			oracle.Instance("i-4", oracle.Zone("c"), oracle.Memory(300)),
			oracle.Instance("i-5", oracle.Status(cluster.InstanceDraining)),
			oracle.Instance("i-6", oracle.Disconnected),
			oracle.Task("t-1", "i-1"), oracle.Task("t-2", "i-1"), oracle.Task("t-3", "i-2"),
		}
	}
	spec := func(change func(*placement.Spec)) placement.Request {
		s := &placement.Spec{Needs: oracle.Small, Owner: "web", Group: ""}
		change(s)
		return placement.Request{Spec: s}
	}
	refused := "6 instances: 1 agent disconnected, 1 insufficient memory (needs 512 MiB, best free 300), 1 not active (DRAINING); "
	for _, c := range []struct {
		name string
		rows []state.Row
		ask  placement.Request
		want string
	}{
		{"TheInstanceWithTheFewest", zoned(), spec(func(*placement.Spec) {}),
			refused + "of the 3 that can run it, i-3 has the fewest tasks of this kind (0, runner-up i-2: 1)"},
		{"TheZoneWithTheFewest", append(zoned(), oracle.Task("t-4", "i-3"), oracle.Task("t-5", "i-3"),
			oracle.Task("t-6", "i-3", oracle.Owner("other"),
				oracle.Needs(cluster.Resources{CPU: 1500 * cluster.CPUUnit}))),
			spec(func(*placement.Spec) {}),
			"6 instances: 1 agent disconnected, 1 insufficient CPU (needs 256 units, best free 36), 1 insufficient memory (needs 512 MiB, best free 300), 1 not active (DRAINING); " +
				"of the 2 that can run it, i-1 has the fewest tasks of this kind in its zone (2, runner-up i-2: 3)"},
		{"Memory", zoned(), spec(func(s *placement.Spec) {
			s.Strategies = []cluster.PlacementStrategy{{Type: "binpack", Field: "MEMORY"}}
		}), refused + "of the 3 that can run it, i-3 has the least memory free (900 MiB, runner-up i-1: 3072 MiB)"},
		{"CPU", zoned(), spec(func(s *placement.Spec) {
			s.Strategies = []cluster.PlacementStrategy{{Type: "binpack", Field: "CPU"}}
		}), refused + "of the 3 that can run it, i-1 has the least CPU free (1536 units, runner-up i-2: 1792 units)"},
		{"TheFit", zoned(), spec(func(s *placement.Spec) { s.Scoring = placement.BestFit }),
			refused + "of the 3 that can run it, i-3 is the tightest fit (2048 CPU units and 900 MiB free, runner-up i-1: 1536 CPU units and 3072 MiB free)"},
		{"TheId", []state.Row{oracle.Instance("i-1"), oracle.Instance("i-2")}, spec(func(*placement.Spec) {}),
			"2 instances; of the 2 that can run it, i-1 comes first by its ID; everything else is equal (runner-up i-2)"},
		{"Chance", []state.Row{oracle.Instance("i-1"), oracle.Instance("i-2")}, spec(func(s *placement.Spec) {
			s.Strategies = []cluster.PlacementStrategy{{Type: "random"}}
		}), "2 instances; of the 2 that can run it, i-1 was chosen at random, as the random strategy asks (runner-up i-2)"},
		{"TheBuffer", []state.Row{
			&cluster.Configuration{Head: cluster.Head{Rev: 1}, Buffer: map[string]float64{"m": 0.5}},
			oracle.Instance("i-1", oracle.Metric("m", 100)), oracle.Instance("i-2", oracle.Metric("m", 200)),
		}, spec(func(s *placement.Spec) { s.Loads = []cluster.Metric{{Name: "m", Load: 60}} }),
			"2 instances; of the 2 that can run it, i-2 has room without its buffer (runner-up i-1)"},
		{"TheOnlyOne", zoned()[1:2], spec(func(*placement.Spec) {}), "1 instance; only i-2 can run it"},
		{"None", zoned()[4:6], spec(func(*placement.Spec) {}),
			"2 instances: 1 agent disconnected, 1 not active (DRAINING); none can run it, closest is i-6 (agent disconnected)"},
		{"NoInstances", nil, spec(func(*placement.Spec) {}), "0 instances"},
		{"TheRelaxedRules", []state.Row{
			&cluster.Configuration{Head: cluster.Head{Rev: 1}, Priorities: cluster.Priorities{Capacity: 1}},
			oracle.Instance("i-1", oracle.Metric("m", 50)),
		}, spec(func(s *placement.Spec) { s.Loads = []cluster.Metric{{Name: "m", Load: 60}} }),
			"1 instance; only i-1 can run it; rules not kept: capacity"},
		{"TheGroup", []state.Row{oracle.Instance("i-1"), oracle.Instance("i-2"),
			oracle.Task("t-1", "i-1", oracle.Group("service:web"))},
			spec(func(s *placement.Spec) { s.Group = "service:web" }),
			"2 instances; of the 2 that can run it, i-2 has the fewest tasks of the service (0, runner-up i-1: 1)"},
		{"GPUs", []state.Row{oracle.Instance("i-1", oracle.GPUs(2)), oracle.Instance("i-2", oracle.GPUs(4))},
			spec(func(s *placement.Spec) {
				s.Needs, s.Scoring = cluster.Resources{GPUs: 1, GPUMilli: 500}, placement.BestFit
			}), "2 instances; of the 2 that can run it, i-1 is the tightest fit (2 GPUs, 2048 CPU units and 4096 MiB free, runner-up i-2: 4 GPUs, 2048 CPU units and 4096 MiB free)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := placement.New(oracle.SnapshotOf(c.rows...)).Explain(c.ask)
			oracle.Expect(t, "words", x.String(), c.want)
		})
	}
}

// WhyNot names every filter that rejects, not only the first.
func TestWhyNotNamesEveryFilter(t *testing.T) {
	noInterfaces := func(i *cluster.Instance) { i.Registered.ENIs = new(0) }
	s := oracle.SnapshotOf(oracle.Instance("i-1", oracle.Status(cluster.InstanceDraining), oracle.Memory(256),
		oracle.CPU(128), oracle.Metric("m", 10), oracle.Reserved(oracle.SSH), noInterfaces), oracle.Instance("i-2"))
	wants := oracle.Small
	wants.ENIs = 1
	r := placement.Request{Spec: &placement.Spec{Needs: wants, Owner: "web", Ports: []cluster.Port{oracle.SSH},
		Loads: []cluster.Metric{{Name: "m", Load: 11}}}}
	e := placement.New(s)
	var got []string
	for _, why := range e.WhyNot(r, "i-1") {
		got = append(got, why.String())
	}
	oracle.Expect(t, "refusals", strings.Join(got, "; "),
		"1 not active (DRAINING); 1 port in use (22/tcp); 1 insufficient CPU (needs 256 units, best free 128); "+
			"1 insufficient memory (needs 512 MiB, best free 256); 1 insufficient network interfaces (needs 1, best free 0); 1 insufficient metric capacity (m: needs 11, best free 10)")
	oracle.Expect(t, "refusals of one that could", len(e.WhyNot(r, "i-2")), 0)
	oracle.Expect(t, "refusals of one that is not there", e.WhyNot(r, "i-3")[0].String(), "1 not active (INACTIVE)")
}

// Leaving a task out for a while does not change the placement version, even if the task's row made
// the latest one.
func TestWithoutTaskKeepsThePlacementVersion(t *testing.T) {
	gone := oracle.Task("t-1", "i-1")
	gone.Stamp = 5
	s := oracle.SnapshotOf(&state.Meta{Head: cluster.Head{Cluster: "c"}, Version: 4}, oracle.Instance("i-1"), gone)
	placement.New(s).WithoutTask(gone, func() { oracle.Expect(t, "tasks meanwhile", s.TaskCount(), 0) })
	oracle.Expect(t, "tasks", s.TaskCount(), 1)
	oracle.Expect(t, "version", s.Meta.Version, 4)
}
