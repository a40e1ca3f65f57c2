package nodegroup

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
)

// advanceDomain decides which upgrade domain is replaced (N7), and reports whether nodes of it may be taken now.
//
// Before a domain begins, the others must be able to hold its load. After it the update waits for a set time, and until
// nothing is unhealthy that was not unhealthy before.
func advanceDomain(u *cluster.Update, v *view) (mayTake bool, failed []cluster.UpdateError) {
	if u.Domain != "" && !isDomainReplaced(u, v) {
		return true, nil
	}
	if u.Domain != "" {
		if u.DomainDone.IsZero() {
			u.DomainDone = v.now
		}
		if !v.hasElapsed(u.DomainDone, u.Waits.Domain) {
			return false, nil
		}
		if sick := newlyUnhealthy(u, v); len(sick) > 0 {
			if v.hasElapsed(u.DomainDone, u.Waits.Domain+u.Waits.Health) {
				return false, []cluster.UpdateError{healthError(u, v, sick)}
			}
			return false, nil
		}
	}
	return beginDomain(u, v, nextDomain(v))
}

// isDomainReplaced reports whether all nodes of the current domain have been replaced.
func isDomainReplaced(u *cluster.Update, v *view) bool {
	return len(domainNodes(v, u.Domain)) == 0 && len(u.Work) == 0 && countMissing(u, v) == 0
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
		if u.Since.IsZero() {
			u.Since = v.now
		}
		if v.hasElapsed(u.Since, u.Waits.Drain) {
			return false, []cluster.UpdateError{{
				Code: cluster.PodEvictionFailure, Resources: nodeIDs(domainNodes(v, domain)),
				Message: fmt.Sprintf("The other upgrade domains cannot hold the load of %s: %s", domain, why),
			}}
		}
		return false, nil
	}
	u.Domain, u.DomainDone, u.Since = domain, time.Time{}, time.Time{}
	u.Sick = slices.Sorted(maps.Keys(v.group.Sick))
	return true, nil
}

// newlyUnhealthy describes what is unhealthy and was not when the domain began.
func newlyUnhealthy(u *cluster.Update, v *view) (descriptions []string) {
	for name, why := range v.group.Sick {
		if !slices.Contains(u.Sick, name) {
			descriptions = append(descriptions, why)
		}
	}
	slices.Sort(descriptions)
	return descriptions
}

// noRoomFor says why the other domains cannot hold a domain's load; empty if they can.
func noRoomFor(v *view, domain string) string {
	if v.group.Room == nil {
		return ""
	}
	var leaving []string
	for _, n := range domainNodes(v, domain) {
		if id := n.nodeID(); id != "" {
			leaving = append(leaving, id)
		}
	}
	return v.group.Room(leaving)
}

func healthError(u *cluster.Update, v *view, unhealthy []string) cluster.UpdateError {
	return cluster.UpdateError{Code: cluster.PodEvictionFailure, Resources: []string{v.group.Name}, Message: fmt.Sprintf(
		"Unhealthy after upgrade domain %s was updated: %s", u.Domain, listFirst(unhealthy))}
}

// domainWaitingFor says what keeps the next domain from its turn.
func domainWaitingFor(u *cluster.Update, v *view) []string {
	settling := u.Domain != "" && !u.DomainDone.IsZero()
	switch sick := newlyUnhealthy(u, v); {
	case !u.ByDomain:
	case settling && len(sick) > 0:
		return []string{"what is unhealthy after upgrade domain " + u.Domain + ": " + listFirst(sick)}
	case settling && u.Since.IsZero():
		return []string{"upgrade domain " + u.Domain + " to settle"}
	case !u.Since.IsZero():
		next := nextDomain(v)
		return []string{"room for the load of upgrade domain " + next + ": " + noRoomFor(v, next)}
	}
	return nil
}
