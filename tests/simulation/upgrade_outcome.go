package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/tests/simulation/coverage"
	"berth/tests/simulation/invariant"
)

// checkEnd checks what an update leaves.
func (c *upgradeChecker) checkEnd(u *cluster.Update) {
	c.grewSinceEnd = false
	c.logf("update %s: %s, zones %v of %v, sizes %+v, errors %+v, stopped %q", u.ID, u.Status, c.countByZone(), u.Zones,
		u.FinalSizes, u.Errors, u.SizesReason)
	c.cover(coverage.Point("upgrade: " + string(u.Status)))
	for _, e := range u.Errors {
		c.cover(coverage.Point("upgrade: " + string(e.Code)))
		c.checkErrorJustified(u, e)
	}
	if u.SizesReason != "" {
		c.cover(coverage.Stopped)
	}
	if c.mustSucceed && u.Status != cluster.UpdateSuccessful {
		c.checker.Fail("invariant 8: update %s failed without faults: %+v", u.ID, u.Errors)
	}
	g := c.describeGroup()
	if g == nil {
		return
	}
	c.checkFinalSizes(u, cluster.Sizes{Min: g.Min, Max: g.Max, Desired: g.Desired})
	if u.Status == cluster.UpdateSuccessful {
		c.checkSuccess(u)
	}
	c.Loop.After(5*time.Minute, func() { // late calls have taken effect
		if c.lastUpdate() == u && (u.SizesReason == "" || !c.callDenied) && !c.groupLost {
			c.checkUsable()
		}
	})
}

// checkFinalSizes checks that the group has its original sizes again, or that there is a reason and
// the update gives it.
func (c *upgradeChecker) checkFinalSizes(u *cluster.Update, now cluster.Sizes) {
	if now == c.originalSizes {
		return
	}
	kept := len(u.RetainedNodes) > 0 && slices.ContainsFunc(u.Errors, func(e cluster.UpdateError) bool {
		return e.Code == cluster.PodEvictionFailure && slices.Equal(e.Resources, u.RetainedNodes)
	})
	switch {
	case kept && (c.drainBlocked || c.lacksNodes() || c.faults.hasStruck()), c.groupLost && u.SizesReason != "",
		c.callDenied && u.SizesReason != "", !c.scaledAt.IsZero() && u.SizesReason != "":
	case u.SizesReason != "" && c.plannedScaleOut(
		c.beganAt.Add(-invariant.MaxStaleness-cluster.DefaultScaling.Warmup-2*c.checker.ClockSkew)): // by two clocks
		c.leftToScaling = true
	case !c.scaledAt.IsZero() && c.Loop.Now().Sub(c.scaledAt) < invariant.MaxStaleness: // just now
	// it was scaled before the update first read it
	case !c.scaledAt.IsZero() && u.OriginalSizes != nil && now == *u.OriginalSizes:
	default:
		c.checker.Fail("invariant 6: the sizes are %+v, were %+v, and nothing justifies that: %q, kept %v, errors %+v",
			now, c.originalSizes, u.SizesReason, u.RetainedNodes, u.Errors)
	}
}

// checkSuccess checks that every node was replaced, and that the zones have as many nodes as
// before.
func (c *upgradeChecker) checkSuccess(u *cluster.Update) {
	for _, n := range c.listNodes() {
		if n.isOutdated(u) && !n.isLeavingGroup() && c.isSettledNode(n) {
			c.checker.Fail("N4: update %s is Successful, and node %s is from %s", u.ID, n.ID, n.Template)
		}
	}
	had := 0 // more than desired if an earlier update, which failed, left a maximum that this one has lowered
	for _, n := range c.originalZones {
		had += n
	}
	if now := c.countByZone(); !c.disturbed && !c.launchFailed && len(u.RetainedNodes) == 0 && c.scaledAt.IsZero() &&
		!maps.Equal(now, c.originalZones) && c.describeGroup().Desired == c.originalSizes.Desired &&
		had <= c.originalSizes.Desired {
		c.checker.Fail("N2: the zones have %v, had %v", now, c.originalZones)
	}
}

// lacksNodes reports whether tasks wait for an instance although the group had as many as it may have:
// then the tasks of a node have nowhere to go.
func (c *upgradeChecker) lacksNodes() bool {
	if c.originalSizes.Desired < c.originalSizes.Max {
		return false
	}
	for _, row := range c.checker.Rows {
		if t, ok := row.(*cluster.Task); ok && t.IsProvisioning() {
			return true
		}
	}
	return false
}

// checkErrorJustified checks that an update's error has a cause and names it. An update may only
// fail for something that really went wrong in this run: a failed launch, a blocked drain, a denied
// call, or some other fault that struck.
func (c *upgradeChecker) checkErrorJustified(u *cluster.Update, e cluster.UpdateError) {
	chaotic := c.faults.hasStruck()
	switch e.Code {
	case cluster.NodeCreationFailure:
		if len(c.launchFailures) == 0 && !c.disturbed && !chaotic {
			c.checker.Fail("N2: update %s failed although every launch succeeded: %s", u.ID, e.Message)
		}
	case cluster.PodEvictionFailure:
		if !c.drainBlocked && !c.lacksNodes() && !chaotic {
			c.checker.Fail("N4: update %s failed, and nothing kept tasks: %s", u.ID, e.Message)
		}
	case cluster.UpdateAccessDenied:
		if !c.callDenied && c.faults.hits[ECSDenied] == 0 {
			c.checker.Fail("update %s failed although no call was denied: %s", u.ID, e.Message)
		}
	case cluster.UnknownUpdateError:
		if !chaotic {
			c.checker.Fail("update %s failed: %s", u.ID, e.Message)
		}
	default:
		if refused := chaotic && strings.HasPrefix(e.Message, "Nodes cannot be made unschedulable"); !c.groupLost &&
			!refused {
			c.checker.Fail("update %s failed by %s: %s", u.ID, e.Code, e.Message)
		}
	}
	if len(e.Resources) == 0 {
		c.checker.Fail("N6: the error %+v names no resource", e)
	}
}

// checkNodesAtRest checks the node group after a successful update.
func (c *upgradeChecker) checkNodesAtRest() {
	c.checkUsable()
	c.checkLabels()
	if image, u := c.nodeGroup().Target.Image, c.lastUpdate(); image != u.Target.Image {
		c.checker.Fail("N6: the node group's image is %s, the update's was %s", image, u.Target.Image)
	}
}

// checkUsable checks that an update left nothing unschedulable or DRAINING.
func (c *upgradeChecker) checkUsable() {
	ng, u := c.nodeGroup(), c.lastUpdate()
	if ng.Status != cluster.NodeGroupActive || !u.HasEnded() {
		c.checker.Fail("invariant 8: the node group is %s, its update %s", ng.Status, u.Status)
		return
	}
	for _, n := range c.listNodes() {
		if by, marked := n.attribute(cluster.AttributeUnschedulable); marked {
			c.checker.Fail("N6: node %s is left unschedulable by %s", n.ID, by)
		}
		if c.takenNodes[n.ID] && n.isDraining() {
			c.checker.Fail("N6: node %s is left DRAINING", n.ID)
		}
	}
}
