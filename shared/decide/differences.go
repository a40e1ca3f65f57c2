package decide

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/decide/specs"
	"berth/shared/service"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// A Difference is something that placement would do if it were woken for the subject.
type Difference struct {
	Kind    state.DueKind
	Subject string
}

// Differences returns what placement would do about the snapshot: services to reconcile, then
// services whose tasks would move, then provisioning standalone tasks. The sweep wakes placement
// for each, because the event that should have done so may be lost. It changes the snapshot, which
// must not be used afterwards.
func Differences(snap *snapshot.Snapshot, now time.Time, settings Settings) []Difference {
	warm := NewWarmSnapshot(snap)
	view, commits := newView(warm, now, settings), plan.NewBuilder(snap, warm.requested, now)
	reserveForDaemons(view, warm, nil)
	var found []Difference
	for _, s := range sortedServices(snap) {
		if needsReconciling(view, s, commits.SeedFor(s.Name)) {
			found = append(found, Difference{state.DueService, s.Name})
		}
	}
	for _, name := range unmovedServices(view, commits) {
		found = append(found, Difference{state.DueService, name})
	}
	if canPlaceProvisioning(view) {
		found = append(found, Difference{Kind: state.DueWaiting})
	}
	return found
}

func sortedServices(snap *snapshot.Snapshot) []*cluster.Service {
	return slices.SortedFunc(maps.Values(snap.Services),
		func(a, b *cluster.Service) int { return cmp.Compare(a.Name, b.Name) })
}

// needsReconciling reports whether reconciling the service would change anything.
func needsReconciling(view *clusterView, s *cluster.Service, seed uint64) bool {
	p := service.Reconcile(reconcileInput(view, s, seed))
	changes := len(p.Stops) + len(p.Choices) + len(p.LostTasks) + len(p.CountedFailures) + len(p.RegisterTargets) +
		len(p.DeregisterTargets) + len(p.EmittedTargets) + len(p.EventsBefore) + len(p.EventsAfter)
	if changes > 0 ||
		p.Next.Status != s.Status || p.Steady != s.Steady || p.Next.Running != s.Running ||
		p.Next.Pending != s.Pending || !slices.EqualFunc(p.Next.TaskSets(), s.TaskSets(), isSameTaskSet) ||
		isUnbalanced(view, s, &p) {
		return true
	}
	if s.Strategy == cluster.Daemon {
		view.snap.Reserve(s.Short, nil) // the service itself may use what is reserved for it
		defer reserveForDaemon(view, s)
	}
	for _, d := range serviceDemands(view, s, &p) {
		if d.definition == nil || s.Blocked == nil {
			return true
		}
		for _, provider := range slices.Compact(slices.Sorted(slices.Values(demandProviders(view, d)))) {
			r := d.request(view, provider, 1)
			r.Instances = d.start.Instances
			if canPlace(view, r) {
				return true
			}
		}
	}
	return false
}

// isSameTaskSet reports whether reconciling left a task set as it was: there, and as stable.
func isSameTaskSet(next, now cluster.Deployment) bool {
	return next.ID == now.ID && next.Set.Steady == now.Set.Steady
}

// unmovedServices returns the services whose row [moveTasks] would change, sorted by name.
func unmovedServices(view *clusterView, commits *plan.Builder) (names []string) {
	revisions := map[string]int64{}
	for name, s := range view.snap.GovernedServices() {
		revisions[name] = s.Rev
	}
	if len(revisions) > 0 {
		moveTasks(view, commits, false)
	}
	for _, name := range slices.Sorted(maps.Keys(revisions)) {
		if s := view.snap.Services[name]; s != nil && s.Rev != revisions[name] {
			names = append(names, name)
		}
	}
	return names
}

// canPlaceProvisioning reports whether a provisioning standalone task would find an instance now,
// or has waited long enough.
func canPlaceProvisioning(view *clusterView) bool {
	unplaceable := map[specs.Shape]bool{}
	return slices.ContainsFunc(provisioningStandalone(view), func(t *cluster.Task) bool {
		return hasWaitedTooLong(view, t) || findInstance(view, t, 0, unplaceable) != nil
	})
}
