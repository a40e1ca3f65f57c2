package nodegroup

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
)

// advanceDomain decides which upgrade domain is replaced (N7), and reports whether nodes of it may
// be taken now.
//
// Before a domain begins, the others must be able to hold its load. After it the update waits for a
// set time, and until nothing is unhealthy that was not unhealthy before.
func advanceDomain(u *cluster.Update, v *view) (mayTake bool, failed []cluster.UpdateError) {
	if u.CurrentDomain != "" && !isDomainReplaced(u, v) {
		return true, nil
	}
	if u.CurrentDomain != "" {
		if u.DomainReplacedAt.IsZero() {
			u.DomainReplacedAt = v.now
		}
		if !v.hasElapsed(u.DomainReplacedAt, u.Timeouts.Domain) {
			return false, nil
		}
		if unhealthy := newlyUnhealthy(u, v); len(unhealthy) > 0 {
			if v.hasElapsed(u.DomainReplacedAt, u.Timeouts.Domain+u.Timeouts.Health) {
				return false, []cluster.UpdateError{healthError(u, v, unhealthy)}
			}
			return false, nil
		}
	}
	return beginDomain(u, v, nextDomain(v))
}

// AwaitsServices reports whether the update waits after an upgrade domain, and so for services that
// have become unhealthy.
func AwaitsServices(u *cluster.Update) bool {
	return !u.HasEnded() && u.Phase == cluster.PhaseUpgrade && u.ByDomain && !u.DomainReplacedAt.IsZero()
}

// AwaitsRoom reports whether the update waits for room for the load of the next upgrade domain.
func AwaitsRoom(u *cluster.Update) bool {
	return !u.HasEnded() && u.Phase == cluster.PhaseUpgrade && u.ByDomain && !u.WaitingSince.IsZero()
}

// isDomainReplaced reports whether all nodes of the current domain have been replaced.
func isDomainReplaced(u *cluster.Update, v *view) bool {
	return len(domainNodes(v, u.CurrentDomain)) == 0 && len(u.Removals) == 0 && countMissing(u, v) == 0
}

func domainNodes(v *view, domain string) []*node {
	return slices.DeleteFunc(slices.Clone(v.old), func(n *node) bool { return n.UpgradeDomain() != domain })
}

// nextDomain returns the first domain that has old nodes; empty if none has.
func nextDomain(v *view) (next string) {
	for _, n := range v.old {
		if d := n.UpgradeDomain(); next == "" || compareNumbered(d, next) < 0 {
			next = d
		}
	}
	return next
}

// beginDomain gives a domain its turn once the others can hold its load.
// They have as long for that as tasks have to leave a node.
func beginDomain(u *cluster.Update, v *view, domain string) (mayTake bool, failed []cluster.UpdateError) {
	if domain == "" {
		return true, nil
	}
	if why := noRoomFor(v, domain); why != "" && !u.Force {
		if u.WaitingSince.IsZero() {
			u.WaitingSince = v.now
		}
		if v.hasElapsed(u.WaitingSince, u.Timeouts.Drain) {
			return false, []cluster.UpdateError{{
				Code: cluster.PodEvictionFailure, Resources: nodeIDs(domainNodes(v, domain)),
				Message: fmt.Sprintf("The other upgrade domains cannot hold the load of %s: %s", domain, why),
			}}
		}
		return false, nil
	}
	u.CurrentDomain, u.DomainReplacedAt, u.WaitingSince = domain, time.Time{}, time.Time{}
	u.UnhealthyBefore = slices.Sorted(maps.Keys(v.group.Unhealthy))
	return true, nil
}

// newlyUnhealthy describes what is unhealthy and was not when the domain began.
func newlyUnhealthy(u *cluster.Update, v *view) (descriptions []string) {
	for name, why := range v.group.Unhealthy {
		if !slices.Contains(u.UnhealthyBefore, name) {
			descriptions = append(descriptions, why)
		}
	}
	slices.Sort(descriptions)
	return descriptions
}

// noRoomFor says why the other domains cannot hold a domain's load; empty if they can.
func noRoomFor(v *view, domain string) string {
	if v.group.WhyNoRoom == nil {
		return ""
	}
	var leaving []string
	for _, n := range domainNodes(v, domain) {
		if id := n.nodeID(); id != "" {
			leaving = append(leaving, id)
		}
	}
	return v.group.WhyNoRoom(leaving)
}

func healthError(u *cluster.Update, v *view, unhealthy []string) cluster.UpdateError {
	return cluster.UpdateError{
		Code: cluster.PodEvictionFailure, Resources: []string{v.group.Name},
		Message: fmt.Sprintf("Unhealthy after upgrade domain %s was updated: %s", u.CurrentDomain,
			listFirst(unhealthy)),
	}
}

// domainWaitingFor says what keeps the next domain from its turn.
func domainWaitingFor(u *cluster.Update, v *view) []string {
	settling := u.CurrentDomain != "" && !u.DomainReplacedAt.IsZero()
	switch unhealthy := newlyUnhealthy(u, v); {
	case !u.ByDomain:
	case settling && len(unhealthy) > 0:
		return []string{"services to recover that are unhealthy since upgrade " +
			"domain " + u.CurrentDomain + ": " + listFirst(unhealthy)}
	case settling && u.WaitingSince.IsZero():
		return []string{"upgrade domain " + u.CurrentDomain + " to settle"}
	case !u.WaitingSince.IsZero():
		next := nextDomain(v)
		return []string{"room for the load of upgrade domain " + next + ": " + noRoomFor(v, next)}
	}
	return nil
}

// countMissing returns how many nodes have gone since the first old one was taken out and have no
// Ready one in their place. If the desired capacity was lowered since, the difference is not
// missing.
func countMissing(u *cluster.Update, v *view) int {
	return max(0, min(u.RequiredNodes, v.group.Desired)-len(v.old)-len(v.ready))
}
