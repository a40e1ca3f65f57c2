package decide

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/decide/specs"
	"berth/shared/state"
)

// useFallbackProviders starts those of the demand's tasks that have waited too long for their
// capacity provider with any provider of the strategy (S14). It wakes placement when the next ones
// will have waited that long.
func useFallbackProviders(view *clusterView, commits *plan.Builder, d *demand, draft *serviceDraft) (placed bool) {
	s := d.service
	if len(s.Providers) < 2 || view.settings.ProviderFallback <= 0 || d.taskCount() == 0 {
		return false
	}
	timedOut := 0
	for _, t := range d.provisioning { // oldest first
		if mayUseFallback(view, t) {
			timedOut++
		}
	}
	if timedOut < d.taskCount() {
		since := view.now
		if timedOut < len(d.provisioning) {
			since = d.provisioning[timedOut].CreatedAt.Time()
		}
		commits.ScheduleDue(state.DueService, s.Name, since.Add(view.settings.ProviderFallback))
	}
	for _, provider := range specs.ProvidersOf(s) {
		if timedOut == 0 {
			break
		}
		r := d.request(view, provider, timedOut)
		r.Seed, r.Unexplained = commits.SeedFor(s.Name), true
		found := view.engine.Place(r).Placed
		startPlaced(view, commits, d, found, draft)
		timedOut -= len(found)
		placed = placed || len(found) > 0
	}
	return placed
}

// mayUseFallback reports whether a task has waited for its capacity provider for
// [Settings.ProviderFallback].
func mayUseFallback(view *clusterView, t *cluster.Task) bool {
	longest := view.settings.ProviderFallback
	return longest > 0 && cluster.RemainingWait(t.CreatedAt.Time().Add(longest), view.now, longest) == 0
}

// scheduleFallback wakes placement when the waiting tasks of a request may use another capacity
// provider.
func scheduleFallback(view *clusterView, commits *plan.Builder, r *state.Request, since time.Time) {
	if view.settings.ProviderFallback > 0 && r.Rules != nil && len(r.Rules.Providers) > 1 {
		commits.ScheduleDue(state.DueWaiting, "", since.Add(view.settings.ProviderFallback))
	}
}

// fallbackShapes returns the shapes in which a provisioning standalone task may be placed: with its
// own capacity provider and, once it has waited long enough, with the others of its strategy.
func fallbackShapes(view *clusterView, t *cluster.Task) []specs.Shape {
	shapes := []specs.Shape{specs.ShapeOf(t)}
	if t.Rules == nil || len(t.Rules.Providers) < 2 || !mayUseFallback(view, t) {
		return shapes
	}
	for _, other := range specs.ProviderShapes(t) {
		if !slices.Contains(shapes, other) {
			shapes = append(shapes, other)
		}
	}
	return shapes
}
