package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/nodegroup"
	"berth/shared/sim/autoscaling"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/invariant"
)

// An upgradeChecker checks what is done to a node group against invariants 6 and 7 and against N2
// to N5, without knowing how that is decided.
type upgradeChecker struct {
	*upgradeWorld
	// originalSizes are the group's sizes as the user set them, originalZones its nodes by zone,
	// before the first of a row of failed updates.
	originalSizes cluster.Sizes
	originalZones map[string]int
	// upToDate are the EC2 ids of nodes that were up to date when the update began.
	upToDate map[string]bool
	// takenNodes are the nodes that updates have taken out of service. drainingTime is how long
	// they have been DRAINING while the update was reconciled.
	takenNodes   map[string]bool
	drainingTime map[string]time.Duration
	mostServing  int // most nodes in service at once since the upgrade phase began
	// What would explain a failure: nodes that left by themselves, failed launches, tasks that do
	// not leave, denied calls. scaledAt is when managed scaling last changed the group, grewAt when
	// it last enlarged it.
	disturbed, launchFailed, drainBlocked, callDenied bool
	launchFailures                                    map[string]bool // of launches that failed
	scaledAt, grewAt                                  time.Time
	grewSinceEnd                                      bool // managed scaling has enlarged it since the last update
	// surged means that the update has enlarged the group. From then on only the update may shrink
	// it.
	surged bool
	// leftToScaling means that the last update ended with nodes that it left to managed scaling, which
	// had planned more and not enlarged the group yet. The desired capacity is managed scaling's then.
	leftToScaling bool
	// mustSucceed means that the update must not fail.
	mustSucceed    bool
	beganAt        time.Time
	phaseEnteredAt map[cluster.UpdatePhase]time.Time
}

func newUpgradeChecker(u *upgradeWorld) *upgradeChecker {
	return &upgradeChecker{
		upgradeWorld: u, takenNodes: map[string]bool{}, drainingTime: map[string]time.Duration{},
		launchFailures: map[string]bool{}, upToDate: map[string]bool{},
	}
}

// startChecking records the group's original state and checks it from now on.
func (c *upgradeChecker) startChecking() {
	c.originalSizes, c.originalZones = c.pool.sizes(), c.countByZone()
	c.Loop.After(time.Minute, c.checkEachMinute)
}

// checkEachMinute checks the group even if nothing is done to it.
func (c *upgradeChecker) checkEachMinute() {
	u := c.lastUpdate()
	for _, n := range c.listNodes() {
		if c.takenNodes[n.ID] && n.isDraining() && c.Loop.Now().Sub(u.ReconciledAt) < 150*time.Second {
			c.drainingTime[n.ID] += time.Minute
		} else if !n.isDraining() {
			delete(c.drainingTime, n.ID)
		}
	}
	c.checkAvailability()
	c.Loop.After(time.Minute, c.checkEachMinute)
}

// recordLaunchFault is called for each launch that goes wrong.
func (c *upgradeChecker) recordLaunchFault(f autoscaling.LaunchFault) {
	switch {
	case f.Reason != "":
		c.launchFailures[f.Reason] = true
	case f.Silent:
		c.launchFailures["silent"] = true
	}
	c.launchFailed = true
}

// findNode returns the node with that id of ECS or EC2, or nil.
func (c *upgradeChecker) findNode(id string) *node {
	for _, n := range c.listNodes() {
		if n.row != nil && n.row.ID == id || n.ID == id {
			return n
		}
	}
	return nil
}

// checkDrain is called before a container instance becomes DRAINING.
func (c *upgradeChecker) checkDrain(function, id string) {
	if c == nil || function != upgrader {
		return
	}
	n, u := c.findNode(id), c.lastUpdate()
	if n == nil || u == nil {
		return
	}
	if !n.isDraining() && !n.isLeavingGroup() {
		c.takenNodes[n.ID] = true
	}
	if u.Phase != cluster.PhaseUpgrade {
		return
	}
	if c.upToDate[n.ID] {
		c.checker.Fail("N3: node %s was up to date when update %s began, and is drained", n.ID, u.ID)
	}
	if u.Config.Strategy == cluster.UpdateMinimal || u.ByDomain {
		return
	}
	for _, o := range c.listNodes() {
		if _, marked := o.attribute(cluster.AttributeUnschedulable); o.isServing() && o.isOutdated(u) && !marked &&
			c.isSettledNode(o) {
			c.checker.Fail("N3: node %s is drained, and old node %s still takes tasks", n.ID, o.ID)
		}
	}
}

// isSettledNode reports whether the instance registered so long ago that every decision must know.
func (c *upgradeChecker) isSettledNode(n *node) bool {
	return n.row != nil && c.Loop.Now().Sub(n.row.RegisteredAt.Time()) >= invariant.MaxStaleness
}

// recordActivation is called when an update has put a node back into service. If the node is drained
// again, even at once, that drain has a time of its own.
func (c *upgradeChecker) recordActivation(id string) {
	if c == nil {
		return
	}
	if n := c.findNode(id); n != nil {
		delete(c.takenNodes, n.ID)
		delete(c.drainingTime, n.ID)
	}
}

// checkTermination is called before an instance is terminated through the group.
func (c *upgradeChecker) checkTermination(function, id string, lower bool) {
	if c == nil {
		return
	}
	if function != upgrader {
		c.recordScaling(false)
		return
	}
	n, u, g := c.findNode(id), c.lastUpdate(), c.describeGroup()
	if n == nil || u == nil || g == nil || n.isLeavingGroup() {
		return
	}
	w := u.RemovalOf(n.ID)
	// The update may have decided before the node registered, so this takes nothing out of service.
	hasJustJoined := w != nil && w.NeverInService && !c.isSettledNode(n)
	if c.isKnownConnected(n) && (n.isServing() || n.isDraining()) && !hasJustJoined {
		c.takenNodes[n.ID] = true
		wait := u.Timeouts.Terminate // the update waits no longer, from when it took this step
		if w != nil && w.Step == cluster.StepTerminate && !w.StepSince.IsZero() {
			wait -= c.Loop.Now().Sub(w.StepSince)
		}
		c.Loop.After(wait, func() { delete(c.takenNodes, n.ID) })
	}
	if lower && g.Desired <= c.originalSizes.Desired && c.scaledAt.IsZero() {
		c.checker.Fail("invariant 6: node %s is terminated, and the desired capacity falls to %d, below %d", n.ID,
			g.Desired-1, c.originalSizes.Desired)
	}
	if lower && !c.grewAt.IsZero() && c.isShrinking(u) && c.Loop.Now().Sub(c.grewAt) > invariant.MaxStaleness &&
		c.grewAt.After(c.beganAt) && c.grewAt.After(c.shrinkAt(u)) {
		c.checker.Fail("N5: managed scaling enlarged the group %s ago, and update %s goes on to shrink it",
			c.Loop.Now().Sub(c.grewAt), u.ID)
	}
	c.checkTasksOn(n, u)
}

// isKnownConnected reports whether Berth has recorded that the node's agent is connected. If the agent has
// only just connected again, the node is broken for Berth, and nothing is taken out of service.
func (c *upgradeChecker) isKnownConnected(n *node) bool {
	if n.row == nil {
		return false
	}
	row := c.checker.InstanceRows[n.row.ID]
	return row != nil && row.AgentConnected
}

// checkTasksOn checks that a terminated node has no tasks, unless by force (N4, invariant 7). A
// task that was only just started may be unknown.
func (c *upgradeChecker) checkTasksOn(n *node, u *cluster.Update) {
	for _, t := range n.tasks {
		row := c.checker.TaskByECSID(t.ID)
		switch {
		case !t.Alive || c.Loop.Now().Sub(t.Created) < c.checker.Staleness || t.Last == cluster.TaskRunning &&
			c.Loop.Now().Sub(t.Started) < c.checker.Staleness:
		case row != nil && c.checker.IsProtectedFor(row, time.Minute) && !u.ForceProtected:
			c.checker.Fail("invariant 7: node %s is terminated with task %s, which is protected", n.ID, row.ID)
		case !u.Force && n.row.AgentConnected:
			c.checker.Fail("N4: node %s is terminated with task %s (%s)", n.ID, t.ID, t.Last)
		}
	}
	const wait = time.Minute
	if c.faults.rates[ClockSkew] > 0 || c.faults.hits[ClockJump] > 0 || c.faults.rates[LateWrite] > 0 || u.Force ||
		!n.isLive() {
		return
	}
	if ago := c.Loop.Now().Sub(n.emptySince); !n.emptySince.IsZero() && ago < wait {
		c.checker.Fail("N4: node %s is terminated %s after its last task stopped, not %s", n.ID, ago, wait)
	}
}

// checkForcedStop checks a task that an update has stopped by force (invariant 7).
func (c *upgradeChecker) checkForcedStop(t *cluster.Task) {
	u := c.lastUpdate()
	if t.Desired != cluster.TaskStopped || u == nil || !strings.HasSuffix(t.Reason, "by update "+u.ID) {
		return
	}
	c.cover(coverage.Forced)
	if c.checker.IsProtectedFor(t, time.Minute) && !u.ForceProtected {
		c.checker.Fail("invariant 7: task %s, which is protected, is stopped by force", t.ID)
	}
}

// mayStopByForce reports whether an update may stop any task on a container instance.
func (u *upgradeWorld) mayStopByForce(id string) bool {
	if u == nil || u.lastUpdate() == nil || !u.lastUpdate().Force {
		return false
	}
	n := u.nodeChecker.findNode(id)
	return n != nil && u.nodeChecker.takenNodes[n.ID]
}

// plannedScaleOut reports whether managed scaling has recorded a scale-out since a time. It records
// one before it enlarges the group.
func (c *upgradeChecker) plannedScaleOut(since time.Time) bool {
	for _, row := range c.checker.Rows {
		if h, ok := row.(*cluster.ScalingHistory); ok && h.LastScaleOut.After(since) {
			return true
		}
	}
	return false
}

// checkSetDesired is called before a function sets the desired capacity.
func (c *upgradeChecker) checkSetDesired(function string, n int) {
	if c == nil || function == upgrader {
		return
	}
	g := c.describeGroup()
	if g == nil || g.Desired == n {
		return
	}
	c.recordScaling(n > g.Desired)
	ng, u := c.nodeGroup(), c.lastUpdate()
	if n < g.Desired && u != nil && ng.Status == cluster.NodeGroupUpdating &&
		(c.surged || c.Loop.Now().Sub(c.beganAt) > c.checker.Staleness) {
		c.checker.Fail("C1: managed scaling takes nodes of a group under update, from %d to %d", g.Desired, n)
	}
}

func (c *upgradeChecker) recordScaling(grew bool) {
	c.scaledAt = c.Loop.Now()
	if grew {
		c.grewAt, c.grewSinceEnd = c.scaledAt, true
		c.cover(coverage.ScaledOut)
	}
}

// checkSetSizes is called after the sizes were set.
func (c *upgradeChecker) checkSetSizes(function string) {
	if c == nil || function != upgrader {
		return
	}
	s := c.describeGroup()
	if s == nil {
		return
	}
	surge := c.pool.surge(c.originalSizes.Desired)
	if s.Max > c.originalSizes.Max+surge || s.Desired > c.originalSizes.Desired+surge && c.scaledAt.IsZero() {
		c.checker.Fail("N2: the group is %d of %d; with a surge of %d, %+v may be enlarged", s.Desired, s.Max, surge,
			c.originalSizes)
	}
	if u := c.lastUpdate(); u != nil && u.Phase == cluster.PhaseScaleUp {
		c.surged = true
	}
	c.checkAvailability()
}

// afterAction is called after a call that changed something.
func (c *upgradeChecker) afterAction(function string) {
	if c != nil && function == upgrader {
		c.checkAvailability()
	}
}

// checkAvailability checks invariant 6.
func (c *upgradeChecker) checkAvailability() {
	g, u := c.describeGroup(), c.lastUpdate()
	if g == nil || u == nil || c.beganAt.IsZero() {
		return
	}
	if g.Min != c.originalSizes.Min {
		c.checker.Fail("invariant 6: the group's minimum is %d, was %d", g.Min, c.originalSizes.Min)
	}
	out, serving := 0, 0
	for _, n := range c.listNodes() {
		if c.takenNodes[n.ID] && (n.isDraining() || n.isLeavingGroup()) {
			out++
		}
		if n.isServing() {
			serving++
		}
		if c.drainingTime[n.ID] > c.maxDrainTime() && !u.Force {
			c.checker.Fail("N4: node %s has been DRAINING for %s", n.ID, c.drainingTime[n.ID])
		}
	}
	most := c.pool.maxUnavailable(c.originalSizes.Desired)
	if out > most {
		c.checker.Fail("invariant 6: %d nodes are out of service at once, at most %d may be (%s)", out, most, u.Phase)
	}
	if u.HasEnded() || u.Phase != cluster.PhaseUpgrade {
		c.mostServing = 0
		return
	}
	c.mostServing = max(c.mostServing, serving)
	if !c.disturbed && serving < c.mostServing-most {
		c.checker.Fail("invariant 6: %d nodes are in service, of %d at most %d may be missing", serving, c.mostServing,
			most)
	}
}

// maxDrainTime returns the drain timeout of 15 minutes plus the last steps. It is longer if calls
// fail, and a clock that jumps makes waits begin again.
func (c *upgradeChecker) maxDrainTime() time.Duration {
	if c.faults.hits[ClockJump] > 0 {
		return 45*time.Minute + clockJump
	}
	if c.faults.hasStruck() || c.callDenied {
		return 45 * time.Minute
	}
	return 18 * time.Minute
}

func (c *upgradeChecker) isShrinking(u *cluster.Update) bool {
	return u.Phase == cluster.PhaseScaleDown || u.Phase == cluster.PhaseRestore
}

// shrinkAt returns when the update entered its phase.
func (c *upgradeChecker) shrinkAt(u *cluster.Update) time.Time { return c.phaseEnteredAt[u.Phase] }

// observeUpdate is called when the row of an update changes.
func (c *upgradeChecker) observeUpdate(old, now *cluster.Update) {
	if now.Type != cluster.UpdateVersion {
		return
	}
	if old == nil {
		c.recordStart(now)
	}
	if old == nil || old.Phase != now.Phase {
		c.phaseEnteredAt[now.Phase] = c.Loop.Now()
		c.logf("update %s: %s", now.ID, now.Phase)
	}
	c.checkOneDomain(now)
	if now.HasEnded() && (old == nil || !old.HasEnded()) {
		c.checkEnd(now)
	}
}

// checkOneDomain checks that the nodes being replaced are of one upgrade domain (N7).
func (c *upgradeChecker) checkOneDomain(u *cluster.Update) {
	if !u.ByDomain || u.Phase != cluster.PhaseUpgrade {
		return
	}
	of := map[string]bool{}
	for _, w := range u.Removals {
		if n := c.findNode(w.Instance); n != nil {
			if d, known := n.attribute(cluster.AttributeUpgrade); known {
				of[d] = true
			}
		}
	}
	if len(of) > 1 {
		c.checker.Fail("N7: nodes of upgrade domains %v are replaced at once", slices.Sorted(maps.Keys(of)))
	}
}

// isLeftover reports whether the group has the surplus that the last update left: the same sizes, and
// managed scaling has not come back to them.
func (c *upgradeChecker) isLeftover(u *cluster.Update, g *cluster.AutoScalingGroup) bool {
	return u.UnrestoredSizes != nil && u.UnrestoredSizes.Desired < u.LeftSizes.Desired &&
		*u.LeftSizes == cluster.Sizes{Min: g.Min, Max: g.Max, Desired: g.Desired} &&
		!c.hasScaledOutSinceEnd(u)
}

// hasScaledOutSinceEnd reports whether managed scaling has enlarged the group since the last update
// ended, or has recorded that it does.
func (c *upgradeChecker) hasScaledOutSinceEnd(u *cluster.Update) bool {
	return c.grewSinceEnd || u.LeftScaleOuts != nil && c.countScaleOuts() > *u.LeftScaleOuts
}

// countScaleOuts returns how many scale-outs managed scaling has recorded, also those whose call was
// lost.
func (c *upgradeChecker) countScaleOuts() (n int) {
	for _, row := range c.checker.Rows {
		if h, ok := row.(*cluster.ScalingHistory); ok {
			n = max(n, h.ScaleOuts)
		}
	}
	return n
}

func (c *upgradeChecker) recordStart(u *cluster.Update) {
	c.surged = false
	c.beganAt, c.mostServing, c.phaseEnteredAt = c.Loop.Now(), 0, map[cluster.UpdatePhase]time.Time{}
	clear(c.upToDate)
	for _, n := range c.listNodes() {
		if label, _ := n.attribute(nodegroup.LabelImage); label == u.Target.Image {
			c.upToDate[n.ID] = true
		}
	}
	c.cover(coverage.Update)
	isScaled := !c.scaledAt.IsZero() || c.leftToScaling
	if g := c.describeGroup(); g != nil && c.isLeftover(u, g) && isScaled {
		// What managed scaling had added when the sizes were left to it is no surplus.
		c.originalSizes.Desired = max(c.originalSizes.Desired, min(u.UnrestoredSizes.Desired, c.originalSizes.Max))
	} else if g != nil && !c.isLeftover(u, g) {
		if isScaled {
			c.originalSizes.Desired = min(g.Desired, c.originalSizes.Max) // an update may have left a higher maximum
		}
		if u.UnrestoredSizes == nil || u.LeftSizes.Desired != g.Desired ||
			u.UnrestoredSizes.Desired == u.LeftSizes.Desired || c.hasScaledOutSinceEnd(u) {
			c.originalZones = c.countByZone()
		}
	}
	c.scaledAt, c.grewAt, c.leftToScaling = time.Time{}, time.Time{}, false
}
