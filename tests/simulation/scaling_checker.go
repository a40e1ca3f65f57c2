package simulation

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/ecs"
	"berth/shared/state"
)

// A scalingChecker checks every change of the group against C1 to C8, by its own statement of them.
type scalingChecker struct {
	*scalingWorld
	policy          *cluster.TrackingPolicy // of the group, or nil
	publishedMetric float64                 // published last
	// desiredChanges counts changes of the desired capacity. raisedAt is when managed scaling last
	// raised it.
	desiredChanges int
	raisedAt       time.Time
	firstSeen      map[string]time.Time // instances, and when they were first seen in the group
	lastDesired    int
	// boundsChangedAt is when an operator last changed the bounds, unprotectedAt when one removed
	// an instance's protection.
	boundsChangedAt time.Time
	unprotectedAt   map[string]time.Time
	wasTracked      bool      // a target tracking policy sized the group during the day
	trackingEnded   time.Time // when its tag was removed
	lateTracking    bool      // a round that had begun before has made the policy since
	// before is the group before the call that is changing it. liveAt is when it last had an
	// instance that was in service or registered.
	before *groupState
	liveAt time.Time
}

// A groupState is the group at one instant: its instances that are not terminating, and their tasks
// without daemons.
type groupState struct {
	*cluster.AutoScalingGroup
	tasks map[string][]string // by EC2 id
	hosts map[string]*ecs.RegisteredHost
	ec2   map[string]string // EC2 ids by the container instance's
}

func newScalingChecker(s *scalingWorld) *scalingChecker {
	return &scalingChecker{scalingWorld: s, firstSeen: map[string]time.Time{}, unprotectedAt: map[string]time.Time{},
		lastDesired: s.shape.Min}
}

// observeGroup returns the group's present state, and records what is new.
func (c *scalingChecker) observeGroup() *groupState {
	out := c.observeInstances()
	for _, t := range c.AWS.Machines.LivingTasks(clusterName) {
		if !strings.Contains(t.TaskDefinition, "log:") {
			out.tasks[out.ec2[t.Instance]] = append(out.tasks[out.ec2[t.Instance]], t.ID)
		}
	}
	return out
}

// observeInstances does the same without the tasks.
func (c *scalingChecker) observeInstances() *groupState {
	out := &groupState{AutoScalingGroup: c.describeGroup(), tasks: map[string][]string{},
		hosts: map[string]*ecs.RegisteredHost{}, ec2: map[string]string{}}
	for _, i := range c.AWS.Machines.RegisteredHosts(clusterName) {
		out.ec2[i.ID], out.hosts[i.EC2InstanceID] = i.EC2InstanceID, i
	}
	out.Instances = slices.DeleteFunc(out.Instances,
		func(i cluster.GroupInstance) bool { return strings.HasPrefix(i.Lifecycle, "Terminating") })
	for _, i := range out.Instances {
		if c.firstSeen[i.ID].IsZero() {
			c.firstSeen[i.ID] = c.Loop.Now()
		}
		if i.IsInService() || out.hosts[i.ID] != nil {
			c.liveAt = c.Loop.Now()
		}
	}
	if out.Desired != c.lastDesired {
		c.desiredChanges++
		c.lastDesired = out.Desired
	}
	return out
}

// checkBounds checks that the bounds are those of the operator.
func (c *scalingChecker) checkBounds() {
	if g := c.observeInstances(); g.Min != c.shape.Min || g.Max != c.shape.Max {
		c.checker.Fail("C7: the group's minimum and maximum were %d and %d, and are %d and %d", c.shape.Min,
			c.shape.Max, g.Min, g.Max)
	}
}

// staleness covers the error of a clock, and the time that a decision takes.
func (c *scalingChecker) staleness() time.Duration { return 4*time.Minute + c.checker.ClockSkew }

// checkSetDesired checks a desired capacity that managed scaling sets, given the group as it saw it last.
// A caller that was abandoned since may be suspended for any time in between.
func (c *scalingChecker) checkSetDesired(look groupLook, n int, abandonedSince bool) {
	described := look.group
	switch {
	case described == nil:
		c.checker.Fail("the desired capacity is set without reading the group")
		return
	case c.policy != nil && !(c.lateTracking && c.Loop.Now().Sub(c.trackingEnded) < renewalTime):
		c.checker.Fail("C1: two scalers are in charge: a target tracking policy sizes the group, and managed scaling sets it to %d", n)
	case (n < c.shape.Min || n > c.shape.Max) && !c.isRecent(c.boundsChangedAt):
		c.checker.Fail("C7: the desired capacity is set to %d, outside %d to %d", n, c.shape.Min, c.shape.Max)
	}
	is := c.describeGroup().Desired
	if n > is {
		if n-described.Desired > c.shape.MaxStep {
			c.checker.Fail("C2: the desired capacity goes from %d to %d, by more than the largest step of %d",
				described.Desired, n, c.shape.MaxStep)
		}
		for _, i := range described.Instances {
			if age := c.Loop.Now().Sub(c.firstSeen[i.ID]); c.isWarmingUp(i) &&
				age < cluster.DefaultScaling.Warmup-c.staleness() {
				c.checker.Fail("C3: scaled out to %d while instance %s, %s old, warms up", n, i.ID, age)
			}
		}
		c.raisedAt = c.Loop.Now()
	}
	if n < described.Desired-max(1, described.Desired/2) {
		c.checker.Fail("C5: scaled in from %d to %d, by more than half", described.Desired, n)
	}
	since := c.Loop.Now().Sub(c.raisedAt)
	// Auto Scaling knows no condition: what comes between the last look at the group and the call is undone,
	// and the next minute decides anew.
	crossed := is != described.Desired && !c.raisedAt.Before(look.at) && (abandonedSince || since < maxCrossing)
	if n < is && !c.raisedAt.IsZero() && since < cluster.DefaultScaling.Cooldown-c.staleness() && !crossed {
		c.checker.Fail("C8: scaled in to %d, %s after a scale-out", n, since)
	}
}

// renewalTime is by when a renewal has removed what a late call has made (shared/scaling).
const renewalTime = time.Hour + 10*time.Minute

// maxCrossing is how long a caller may be suspended between its last look at the group and the effect
// of its call: before the call and within it.
const maxCrossing = 2 * 2 * time.Second

// isRecent reports whether something happened so recently that a decision may not know of it.
func (c *scalingChecker) isRecent(at time.Time) bool {
	return !at.IsZero() && c.Loop.Now().Sub(at) < c.staleness()
}

// isWarmingUp reports whether a young instance blocks scaling out.
func (c *scalingChecker) isWarmingUp(i cluster.GroupInstance) bool {
	if strings.HasPrefix(i.Lifecycle, "Terminating") || c.firstSeen[i.ID].IsZero() {
		return false
	}
	return !c.shape.UntilRegistered
}

// beforeChange and checkChange are called around each call that changes the group. An instance that
// it terminates must have no tasks (invariant 7).
func (c *scalingChecker) beforeChange() { c.before = c.observeGroup() }

func (c *scalingChecker) checkChange(function, op string) {
	was, is := c.before, c.observeGroup()
	if from := max(2, c.shape.Min); function == "managed-scaling" && is.Desired > max(from, was.Desired) &&
		!c.isRecent(c.liveAt) && !c.isRecent(c.boundsChangedAt) {
		c.checker.Fail("C3: an empty group is scaled out to %d, with %d on their way", is.Desired, was.Desired)
	}
	if !c.shape.Protection {
		return
	}
	for _, i := range was.Instances {
		if slices.ContainsFunc(is.Instances, func(o cluster.GroupInstance) bool { return o.ID == i.ID }) ||
			c.isRecent(c.unprotectedAt[i.ID]) || was.hosts[i.ID] == nil || !was.hosts[i.ID].AgentConnected {
			continue
		}
		if n := c.withoutSecondStarts(was.tasks[i.ID]); len(n) > 0 {
			c.checker.Fail("invariant 7: %s by %s takes instance %s, on which tasks %v run", op, function, i.ID, n)
		}
	}
}

// withoutSecondStarts removes tasks that are second starts of another task. Those are stopped on
// any instance. So is one that was written off too early: a clock that has jumped ahead made the call
// that had started it look old, or a second attempt was refused while the first was still under way.
func (c *scalingChecker) withoutSecondStarts(ids []string) []string {
	if len(ids) == 0 {
		return nil
	}
	second := map[string]bool{}
	for _, t := range c.AWS.Machines.TaskTruths(clusterName) {
		owner, _ := cluster.ParseStartedBy(t.StartedBy)
		id := c.checker.TaskByAlias(cluster.TaskID(t.StartedBy, t.Instance))
		row, ok := c.readRow(state.TaskKey(clusterName, owner, id)).(*cluster.Task)
		if !ok || row == nil {
			second[t.ID] = c.checker.HasExpired(id) // it has ended, so this is not its only start
			continue
		}
		writtenOff := row.ECSID == "" && row.Last == cluster.TaskStopped &&
			(c.faults.hits[ClockJump] > 0 || row.StopCode == cluster.StopRefused && row.Attempt > 1)
		second[t.ID] = writtenOff || row.ECSID != "" && row.ECSID != t.ID
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return second[id] })
}

func (c *scalingChecker) readRow(key state.Key) state.Row {
	row, err := c.Store.Get(context.Background(), key)
	if err != nil {
		c.checker.Fail("reading %v: %v", key, err)
	}
	return row
}

// checkTermination checks the termination of an instance.
func (c *scalingChecker) checkTermination(id string, lower bool) {
	g := c.observeGroup()
	switch {
	case lower && len(c.withoutSecondStarts(g.tasks[id])) > 0:
		c.checker.Fail("invariant 7: instance %s is terminated, on which tasks %v run", id, g.tasks[id])
	case !lower && g.hosts[id] != nil:
		c.checker.Fail("instance %s is replaced although it has registered", id)
	case !lower && !c.shape.Replacing:
		c.checker.Fail("instance %s is replaced although no tag asks for it", id)
	case lower && !c.shape.Consolidating:
		c.checker.Fail("instance %s is terminated without consolidation", id)
	}
}

// checkDrain checks that an instance is drained only for consolidation.
func (c *scalingChecker) checkDrain(function, id string) {
	if function != "managed-scaling" || c.shape.Consolidating {
		return
	}
	for _, i := range c.describeGroup().Instances {
		if h := c.observeInstances().hosts[i.ID]; h != nil && h.ID == id && i.Lifecycle == "InService" {
			c.checker.Fail("instance %s is drained without consolidation", id)
		}
	}
}

// isLeftLow reports whether the desired capacity is below what is used because a target tracking policy
// has set it while a task was starting. Protection keeps all, and nothing is done until one is empty.
func (c *scalingChecker) isLeftLow(g *groupState) bool {
	return c.wasTracked && c.shape.Protection && g.Desired < len(g.Instances) &&
		!slices.ContainsFunc(g.Instances, func(i cluster.GroupInstance) bool { return !i.Protected })
}

// whyUnsettled says why the group does not have the size that its load requires, or "".
func (c *scalingChecker) whyUnsettled(packed bool) string {
	g := c.observeGroup()
	used, unregistered := 0, 0
	for _, i := range g.Instances {
		n := len(g.tasks[i.ID])
		used += countIf(n > 0)
		unregistered += countIf(g.hosts[i.ID] == nil)
		switch {
		case i.Lifecycle != "InService":
			return fmt.Sprintf("instance %s is %s", i.ID, i.Lifecycle)
		case c.shape.Protection && n > 0 != i.Protected:
			return fmt.Sprintf("instance %s has %d tasks, protected from scale-in: %t", i.ID, n, i.Protected)
		}
	}
	running := 0
	for _, t := range g.tasks {
		running += len(t)
	}
	wanted := min(max((used*100+c.shape.Target-1)/c.shape.Target, g.Min), g.Max)
	bound := (c.load + tasksPerInstance - 1) / tasksPerInstance
	metric := float64(c.shape.Target)
	if n := len(g.Instances); n > 0 {
		metric = float64(used) * 100 / float64(n)
	}
	// Unregistered instances that are not replaced count toward the group's minimum and target. If
	// tasks wait, others are added beside them, up to the group's maximum.
	if !c.shape.Replacing && unregistered > 0 {
		if running < c.load && g.Desired == g.Max && used+unregistered == g.Max {
			return ""
		}
		unregistered = 0
	}
	switch {
	case running != c.load:
		return fmt.Sprintf("%d of %d tasks run on %d instances", running, c.load, len(g.Instances))
	case g.Desired != wanted && !c.isLeftLow(g) || len(g.Instances) != wanted || unregistered > 0:
		return fmt.Sprintf("%d of %d instances are used, %d are wanted, %d have not registered, and the target of %d %% wants %d", used, len(g.Instances), g.Desired, unregistered, c.shape.Target, wanted)
	case packed && used > max(bound+1, min(g.Min, c.load)):
		return fmt.Sprintf("%d instances are used, and %d tasks fit on %d", used, c.load, bound)
	case math.Abs(c.publishedMetric-metric) > 0.01:
		return fmt.Sprintf("the metric is %g, should be %g", c.publishedMetric, metric)
	}
	return ""
}

func countIf(b bool) int {
	if b {
		return 1
	}
	return 0
}
