package nodegroup

import (
	"slices"

	"berth/shared/cluster"
)

// scaleUp waits for the surplus nodes: one at least in each zone that has nodes, and all of them Ready with their labels
// (N2). Where the time is up it makes do with fewer if each zone has one, or no other zone has more nodes: a group that
// balances its zones launches none there. Otherwise it fails.
func (w *work) scaleUp() {
	if want := w.enlarged(); w.group.Max < want.Max || w.group.Desired < want.Desired {
		w.noteGrowth()
		return
	}
	w.SeenDesired = w.group.Desired
	if w.Since.IsZero() {
		w.Since = w.now
	}
	unproven := w.unproven()
	switch {
	case len(unproven) == 0 && w.count() >= w.group.Desired:
		w.beginUpgrade()
	case !w.over(w.Since, w.Waits.Launch):
	case all(unproven, w.crowded):
		w.beginUpgrade()
	default:
		w.fail(w.creationErrors()...)
	}
}

// enlarged are the sizes with the surplus.
func (w *work) enlarged() cluster.Sizes {
	desired := w.Original.Desired + w.Added + w.Surge
	return cluster.Sizes{Min: w.Original.Min, Max: max(w.Original.Max+w.Surge, desired), Desired: desired}
}

func (w *work) actScaleUp() []Action {
	want := w.enlarged()
	if w.group.Max >= want.Max && w.group.Desired >= want.Desired {
		return nil
	}
	return []Action{{Kind: Resize, Max: max(want.Max, w.group.Max), Desired: max(want.Desired, w.group.Desired)}}
}

// crowded reports whether no other zone has more nodes than one, though the surplus is there.
func (w *work) crowded(zone string) bool {
	if !slices.Contains(w.group.Zones, zone) || w.count() < w.group.Desired {
		return false
	}
	count := map[string]int{}
	for _, m := range w.members {
		if m.Lifecycle != Terminating {
			count[m.Zone]++
		}
	}
	return all(w.group.Zones, func(other string) bool { return count[other] <= count[zone] })
}

// unproven are the zones with old nodes and no new one that is Ready, and the new nodes that are not
// Ready; those that were not before the update began do not count.
func (w *work) unproven() (out []string) {
	ready := map[string]bool{}
	for i := range w.members {
		m := &w.members[i]
		switch {
		case m.Lifecycle == Terminating || !w.updated(m):
		case w.ready(m):
			ready[m.Zone] = true
		case slices.Contains(w.Unready, m.ID):
		default:
			out = append(out, m.ID)
		}
	}
	for _, zone := range w.oldZones() {
		if !ready[zone] {
			out = append(out, zone)
		}
	}
	return out
}
