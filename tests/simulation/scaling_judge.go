package simulation

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// scalingJudge holds every change of the group against C1 to C8, by rules of its own.
type scalingJudge struct {
	*scaled
	policy *cluster.TrackingPolicy // that the group has
	metric float64                 // published last
	// changes counts those of the desired capacity, raised is when managed scaling last raised it.
	changes int
	raised  time.Time
	seen    map[string]time.Time // instances, and when they were first seen in the group
	desired int
	// bounded is when somebody last changed the bounds, bared when an instance's protection was taken away by hand.
	bounded time.Time
	bared   map[string]time.Time
	// before is what the group was before a call that changes it.
	before *groupNow
}

// groupNow is the group at one instant: its instances that are not on their way out, with their tasks that are no daemons'.
type groupNow struct {
	*cluster.AutoScalingGroup
	tasks map[string][]string // by EC2 id
	hosts map[string]*cluster.Instance
}

func newScalingJudge(s *scaled) *scalingJudge {
	return &scalingJudge{scaled: s, seen: map[string]time.Time{}, bared: map[string]time.Time{}, desired: s.shape.Min}
}

// now looks at the group.
func (j *scalingJudge) now() *groupNow {
	out := &groupNow{AutoScalingGroup: j.group(), tasks: map[string][]string{}, hosts: map[string]*cluster.Instance{}}
	running := j.running
	j.running = nil
	defer func() { j.running = running }()
	ec2 := map[string]string{}
	for _, i := range j.instances() {
		ec2[i.ID], out.hosts[i.EC2InstanceID] = i.EC2InstanceID, i
	}
	for _, t := range j.AWS.Machines.TaskTruths(clusterName) {
		if t.Alive && !strings.Contains(t.TaskDefinition, "log:") {
			out.tasks[ec2[t.Instance]] = append(out.tasks[ec2[t.Instance]], t.ID)
		}
	}
	out.Instances = slices.DeleteFunc(out.Instances, func(i cluster.GroupInstance) bool { return strings.HasPrefix(i.Lifecycle, "Terminating") })
	for _, i := range out.Instances {
		if j.seen[i.ID].IsZero() {
			j.seen[i.ID] = j.Loop.Now()
		}
	}
	if out.Desired != j.desired {
		j.changes++
		j.desired = out.Desired
	}
	return out
}

// minute looks at what always holds.
func (j *scalingJudge) minute() {
	if g := j.now(); g.Min != j.shape.Min || g.Max != j.shape.Max {
		j.checker.fail("C7: the group's minimum and maximum were %d and %d, and are %d and %d", j.shape.Min, j.shape.Max, g.Min, g.Max)
	}
}

// scaledTolerance is how far clocks may be off, and how long a decision may take.
const scaledTolerance = 4 * time.Minute

// sets judges a desired capacity that managed scaling sets, by the group as it saw it.
func (j *scalingJudge) sets(saw *cluster.AutoScalingGroup, n int) {
	switch {
	case saw == nil:
		j.checker.fail("the desired capacity is set, and nobody has looked at the group")
		return
	case j.policy != nil:
		j.checker.fail("C1: two scalers are in charge: a target tracking policy sizes the group, and managed scaling sets it to %d", n)
	case (n < j.shape.Min || n > j.shape.Max) && !j.lately(j.bounded):
		j.checker.fail("C7: the desired capacity is set to %d, outside %d to %d", n, j.shape.Min, j.shape.Max)
	}
	is := j.group().Desired
	if n > is {
		if n-saw.Desired > j.shape.MaxStep {
			j.checker.fail("C2: the desired capacity goes from %d to %d, by more than the largest step of %d", saw.Desired, n, j.shape.MaxStep)
		}
		for _, i := range saw.Instances {
			if age := j.Loop.Now().Sub(j.seen[i.ID]); j.warms(i) && age < cluster.DefaultScaling.Warmup-scaledTolerance {
				j.checker.fail("C3: scaled out to %d while instance %s, %s old, warms up", n, i.ID, age)
			}
		}
		j.raised = j.Loop.Now()
	}
	if n < saw.Desired-max(1, saw.Desired/2) {
		j.checker.fail("C5: scaled in from %d to %d, by more than half", saw.Desired, n)
	}
	if since := j.Loop.Now().Sub(j.raised); n < is && !j.raised.IsZero() && since < cluster.DefaultScaling.Cooldown-scaledTolerance {
		j.checker.fail("C8: scaled in to %d, %s after a scale-out", n, since)
	}
}

// lately reports whether something happened so shortly ago that a decision may not know of it.
func (j *scalingJudge) lately(at time.Time) bool {
	return !at.IsZero() && j.Loop.Now().Sub(at) < scaledTolerance
}

// warms reports whether the instance blocks scaling out while it is young.
func (j *scalingJudge) warms(i cluster.GroupInstance) bool {
	if strings.HasPrefix(i.Lifecycle, "Terminating") || j.seen[i.ID].IsZero() {
		return false
	}
	return !j.shape.UntilRegistered
}

// changing and changed are called around each call that changes the group: what it takes must have no tasks (invariant 7).
func (j *scalingJudge) changing() { j.before = j.now() }

func (j *scalingJudge) changed(function, op string) {
	was, is := j.before, j.now()
	if !j.shape.Protection {
		return
	}
	for _, i := range was.Instances {
		left := !slices.ContainsFunc(is.Instances, func(o cluster.GroupInstance) bool { return o.ID == i.ID })
		if n := j.wanted(was.tasks[i.ID]); left && len(n) > 0 && !j.lately(j.bared[i.ID]) && was.hosts[i.ID] != nil && was.hosts[i.ID].AgentConnected {
			j.checker.fail("invariant 7: %s by %s takes instance %s, on which tasks %v run", op, function, i.ID, n)
		}
	}
}

// wanted are those of the tasks that are no second start of another's: such a one is to be stopped, wherever it is found.
func (j *scalingJudge) wanted(ids []string) []string {
	if len(ids) == 0 {
		return nil
	}
	second := map[string]bool{}
	for _, t := range j.AWS.Machines.TaskTruths(clusterName) {
		owner, _ := cluster.ParseStartedBy(t.StartedBy)
		id := cluster.TaskID(t.StartedBy, t.Instance)
		if alias, ok := j.row(state.AliasKey(clusterName, id)).(*state.Alias); ok && alias != nil {
			id = alias.ID
		}
		row, ok := j.row(state.TaskKey(clusterName, owner, id)).(*cluster.Task)
		second[t.ID] = ok && row != nil && row.ECSID != "" && row.ECSID != t.ID
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return second[id] })
}

func (j *scalingJudge) row(key state.Key) state.Row {
	row, err := j.Store.Get(context.Background(), key)
	if err != nil {
		j.checker.fail("reading %v: %v", key, err)
	}
	return row
}

// terminates judges the termination of an instance.
func (j *scalingJudge) terminates(id string, lower bool) {
	g := j.now()
	switch {
	case lower && len(j.wanted(g.tasks[id])) > 0:
		j.checker.fail("invariant 7: instance %s is terminated, on which tasks %v run", id, g.tasks[id])
	case !lower && g.hosts[id] != nil:
		j.checker.fail("instance %s is replaced, and it has registered", id)
	case !lower && !j.shape.Replacing:
		j.checker.fail("instance %s is replaced, and nobody asked for that", id)
	case lower && !j.shape.Consolidating:
		j.checker.fail("instance %s is terminated without consolidation", id)
	}
}

// drains judges that an instance is made DRAINING.
func (j *scalingJudge) drains(function, id string) {
	if function != "managed-scaling" || j.shape.Consolidating {
		return
	}
	for _, i := range j.group().Instances {
		if h := j.now().hosts[i.ID]; h != nil && h.ID == id && i.Lifecycle == "InService" {
			j.checker.fail("instance %s is drained without consolidation", id)
		}
	}
}

// unrest is why the group is not where it should be with the load that there is; empty where it is.
func (j *scalingJudge) unrest(packed bool) string {
	g := j.now()
	used, lost := 0, 0
	for _, i := range g.Instances {
		n := len(g.tasks[i.ID])
		used += b2i(n > 0)
		lost += b2i(g.hosts[i.ID] == nil)
		switch {
		case i.Lifecycle != "InService":
			return fmt.Sprintf("instance %s is %s", i.ID, i.Lifecycle)
		case j.shape.Protection && n > 0 != i.Protected:
			return fmt.Sprintf("instance %s has %d tasks, protected from scale-in: %t", i.ID, n, i.Protected)
		}
	}
	running := 0
	for _, t := range g.tasks {
		running += len(t)
	}
	want := min(max((used*100+j.shape.Target-1)/j.shape.Target, g.Min), g.Max)
	bound := (j.load + heldByOne - 1) / heldByOne
	metric := float64(j.shape.Target)
	if n := len(g.Instances); n > 0 {
		metric = float64(used) * 100 / float64(n)
	}
	// What never registered and is not replaced stays where the group's minimum or its target wants as many, and where tasks wait
	// it has others beside it, until the group is at its maximum.
	if !j.shape.Replacing && lost > 0 {
		if running < j.load && g.Desired == g.Max && used+lost == g.Max {
			return ""
		}
		lost = 0
	}
	switch {
	case running != j.load:
		return fmt.Sprintf("%d of %d tasks run on %d instances", running, j.load, len(g.Instances))
	case g.Desired != want || len(g.Instances) != want || lost > 0:
		return fmt.Sprintf("%d of %d instances are used, %d are wanted, %d have not registered, and the target of %d %% wants %d", used, len(g.Instances), g.Desired, lost, j.shape.Target, want)
	case packed && used > max(bound+1, min(g.Min, j.load)):
		return fmt.Sprintf("%d instances are used, and %d tasks fit on %d", used, j.load, bound)
	case math.Abs(j.metric-metric) > 0.01:
		return fmt.Sprintf("the metric is %g, should be %g", j.metric, metric)
	}
	return ""
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
