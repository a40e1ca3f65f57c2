package nodegroup

import (
	"fmt"
	"slices"

	"berth/shared/cluster"
)

// scaleUpPhase waits for the surplus nodes (N2): all of them must be Ready, and each zone that has
// nodes must have one.
//
// After the timeout it makes do with fewer if each zone has one, or if no other zone has more
// nodes: a group that balances its zones launches none there. Otherwise the update fails.
type scaleUpPhase struct{}

func (scaleUpPhase) advance(u *cluster.Update, v *view) transition {
	if want := enlargedSizes(u); v.group.Max < want.Max || v.group.Desired < want.Desired {
		recordGrowth(u, v.group.Desired)
		return noTransition
	}
	u.ObservedDesired = v.group.Desired
	if u.WaitingSince.IsZero() {
		u.WaitingSince = v.now
	}
	missing := missingProof(u, v)
	switch {
	case len(missing) == 0 && v.countPresent() >= v.group.Desired:
		return enterOnly(cluster.PhaseUpgrade)
	case !v.hasElapsed(u.WaitingSince, u.Timeouts.Launch):
		return noTransition
	case allOf(missing, func(zone string) bool { return isFullestZone(v, zone) }):
		return enterOnly(cluster.PhaseUpgrade)
	}
	return failWith(creationErrors(u, v)...)
}

func (scaleUpPhase) actions(u *cluster.Update, v *view) []Action {
	actions, want := templateActions(u, v), enlargedSizes(u)
	if v.group.Max >= want.Max && v.group.Desired >= want.Desired {
		return actions
	}
	return append(actions,
		Action{Kind: Resize, Max: max(want.Max, v.group.Max), Desired: max(want.Desired, v.group.Desired)})
}

func (scaleUpPhase) waitingFor(u *cluster.Update, v *view) string {
	if want := enlargedSizes(u); v.group.Desired < want.Desired {
		return "the Auto Scaling group to be enlarged"
	}
	names := missingProof(u, v)
	if n := v.group.Desired - v.countPresent(); n > 0 {
		names = slices.Insert(names, 0, fmt.Sprintf("%d not launched", n))
		names = append(names, launchCauses(v.group.Failures)...)
	}
	return "new nodes to be Ready: " + listFirst(names)
}

// enlargedSizes returns the sizes with the surplus.
func enlargedSizes(u *cluster.Update) cluster.Sizes {
	desired := u.OriginalSizes.Desired + u.AddedByOthers + u.Surge
	return cluster.Sizes{Min: u.OriginalSizes.Min, Max: max(u.OriginalSizes.Max+u.Surge, desired), Desired: desired}
}

// isFullestZone reports whether no other zone has more nodes than this one, although all surplus
// nodes were launched.
func isFullestZone(v *view, zone string) bool {
	if !slices.Contains(v.group.Zones, zone) || v.countPresent() < v.group.Desired {
		return false
	}
	count := v.countByZone()
	return allOf(v.group.Zones, func(other string) bool { return count[other] <= count[zone] })
}

func allOf[T any](of []T, is func(T) bool) bool {
	return !slices.ContainsFunc(of, func(x T) bool { return !is(x) })
}
