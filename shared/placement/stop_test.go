package placement_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/state"
	"berth/tests/oracle"
)

func TestChooseStopsEqualsFullScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := oracle.GenWorld(t)
		checkStops(t, w, placement.New(w.Snapshot(rapid.Uint64().Draw(t, "rows"))), oracle.GenRequest(t, w))
	})
}

// checkStops compares a choice with a scan that looks at all remaining candidates before each stop.
func checkStops(t *rapid.T, w *oracle.World, e *placement.Engine, r placement.Request) {
	spec := *r.Spec
	spec.Deployment = "" // it says where tasks start
	spec.Constraints = slices.DeleteFunc(slices.Clone(spec.Constraints), func(x *constraint.Expression) bool {
		return !x.Static() // a stop may change the domains, which is observed only after its row has changed
	})
	r.Spec = &spec
	var candidates []*cluster.Task
	for _, task := range w.Tasks {
		inGroup := r.Spec.Group == "" || task.Group == r.Spec.Group
		if task.Owner == "web" && inGroup && rapid.IntRange(0, 4).Draw(t, "candidate") > 0 {
			candidates = append(candidates, task)
		}
	}
	r.Count = rapid.IntRange(0, len(candidates)+1).Draw(t, "stops")
	got := e.ChooseStops(r, rapid.Permutation(candidates).Draw(t, "order"))
	o := &stopScan{Oracle: oracle.NewOracle(w, r)}
	o.rest = slices.DeleteFunc(candidates, func(t *cluster.Task) bool { return !t.IsActive() })
	if want := min(r.Count, len(o.rest)); len(got) != want {
		t.Fatalf("%d stops, want %d", len(got), want)
	}
	for n, task := range got {
		best := o.best()
		if !slices.Contains(best, task) {
			t.Fatalf("stop %d of %q is %s, the full scan stops %q", n, oracle.IDs(got), task.ID, oracle.IDs(best))
		}
		o.end(task)
	}
}

// A stopScan is the oracle of which tasks stop.
type stopScan struct {
	*oracle.Oracle
	rest []*cluster.Task
}

// best are the tasks to stop next; several where chance decides.
func (o *stopScan) best() (out []*cluster.Task) {
	o.Now = o.Snapshot(1)
	var least []int64
	for _, t := range o.rest {
		key, random := o.key(t)
		switch c := slices.Compare(key, least); {
		case len(out) == 0 || c < 0:
			out, least = []*cluster.Task{t}, key
		case c == 0 && random:
			out = append(out, t)
		case c == 0 && cmp.Or(t.CreatedAt.Compare(out[0].CreatedAt)*-1, cmp.Compare(t.ID, out[0].ID)) < 0:
			out[0] = t
		}
	}
	return out
}

func (o *stopScan) key(t *cluster.Task) (key []int64, random bool) {
	switch {
	case t.Instance == "":
		key = []int64{0}
	case t.Last != cluster.TaskRunning:
		key = []int64{1}
	default:
		key = []int64{2}
	}
	i := o.FindInstance(t.Instance)
	known := i != nil && i.Status != cluster.InstanceInactive
	here := 0
	for _, x := range o.Tasks {
		if o.CountsForSpread(x) && t.Instance != "" && x.Instance == t.Instance {
			here++
		}
	}
	worth := 0
	if oracle.IsGoverned(o.Request.Spec) && known {
		d := o.ServiceDomains()
		fault, upgrade := d.Excess()
		if worth = 2*(fault+upgrade) + 1; here > 0 {
			worth = d.StopRank(slices.Index(o.Instances, i))
		}
	}
	key = append(key, int64(worth))
	strategies := o.Request.Spec.Strategies
	if len(strategies) == 0 && !oracle.IsGoverned(o.Request.Spec) && o.Request.Spec.Scoring == "" {
		strategies = []cluster.PlacementStrategy{
			{Type: cluster.StrategySpread, Field: "attribute:" + cluster.AttributeZone},
			{Type: cluster.StrategySpread, Field: "instanceId"},
		}
	}
	var attributes []string
	byInstance := false
	for _, s := range strategies {
		switch {
		case s.Type == cluster.StrategyRandom:
			return key, true
		case s.Type == cluster.StrategySpread && byInstance:
		case s.Field == "instanceId" || s.Field == "host":
			byInstance = true
			key = append(key, -int64(here))
		case !known:
			key = append(key, math.MaxInt64)
		case s.Field == "CPU":
			key = append(key, -o.RemainingOn(i).CPU-t.Needs.CPU)
		case s.Field == "MEMORY":
			key = append(key, -o.RemainingOn(i).Memory-t.Needs.Memory)
		default:
			attributes = append(attributes, s.Field[len("attribute:"):])
			key = append(key, -o.GroupCount(i, attributes))
		}
	}
	return key, false
}

func (o *stopScan) end(t *cluster.Task) {
	is := func(x *cluster.Task) bool { return x == t }
	o.rest = slices.DeleteFunc(slices.Clone(o.rest), is)
	o.Tasks = slices.DeleteFunc(o.Tasks, is)
}

// A task in an overfull domain stops, even if the youngest task of the domain is replaced by one in
// another domain already, and alone on its instance. i1 to i5 are in one domain, which counts four
// tasks, i6 and i7 in another one, which counts two. Upgrade domains count as fault domains do.
func TestAReplacedTaskDoesNotHideItsDomain(t *testing.T) {
	for divided, shared := range map[string]string{cluster.AttributeFaultDomain: cluster.AttributeUpgrade,
		cluster.AttributeUpgrade: cluster.AttributeFaultDomain} {
		var rows []state.Row
		var candidates []*cluster.Task
		for n := 1; n <= 7; n++ {
			domain := "fd:/a"
			if n > 5 {
				domain = "fd:/b"
			}
			id := fmt.Sprintf("i%d", n)
			task := oracle.Task(fmt.Sprintf("t%d", n), id)
			task.CreatedAt = cluster.At(time.Unix(int64(1000-n), 0))
			if n == 7 {
				task.Replaces = "t1"
			}
			rows = append(rows, task, oracle.Instance(id, oracle.Attribute(divided, domain),
				oracle.Attribute(shared, "fd:/all")))
			candidates = append(candidates, task)
		}
		r := placement.Request{Spec: &placement.Spec{Owner: "web", DomainPolicy: cluster.PolicyDifference}, Count: 1,
			Target: 5}
		got := placement.New(oracle.SnapshotOf(rows...)).ChooseStops(r, candidates)
		if want := "t2"; oracle.IDs(got) != want {
			t.Errorf("%s: %q stop, expected %q", divided, oracle.IDs(got), want)
		}
	}
}

// A task that is replaced does not count on its instance: when it stops, those beside it count as
// before. i1 and i2 have two tasks that count each, and of equal ones the youngest stops.
func TestStoppingAReplacedTaskChangesNoCount(t *testing.T) {
	created := func(at int64) oracle.TaskOption { return oracle.Created(at) }
	tasks := []*cluster.Task{oracle.Task("replaced", "i1", created(9)), oracle.Task("a1", "i1", created(8)),
		oracle.Task("a2", "i1", created(1)), oracle.Task("new", "i2", created(2)), oracle.Task("b1", "i2", created(3))}
	tasks[3].Replaces = "replaced"
	rows := []state.Row{oracle.Instance("i1"), oracle.Instance("i2")}
	for _, task := range tasks {
		rows = append(rows, task)
	}
	r := placement.Request{Spec: &placement.Spec{Owner: "web", Strategies: []cluster.PlacementStrategy{
		{Type: cluster.StrategySpread, Field: "instanceId"}}}, Count: 2}
	got := placement.New(oracle.SnapshotOf(rows...)).ChooseStops(r, tasks)
	if want := "replaced a1"; oracle.IDs(got) != want {
		t.Errorf("%q stop, expected %q", oracle.IDs(got), want)
	}
}
