package decide

import (
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/service"
	"berth/shared/state"
)

// scaleServices changes the desired counts of services by their load. What follows from that is
// decided as if a caller had changed them.
func scaleServices(view *clusterView, commits *plan.Builder, changes *Changes) {
	for _, name := range slices.Sorted(maps.Keys(changes.services)) {
		s := view.snap.Services[name]
		if s == nil || s.Rules.Scaling == nil || s.Status != cluster.ServiceActive {
			continue
		}
		scale, began := scaleByLoad(view, commits, s)
		if scale.Why == "" {
			continue
		}
		draft := newDraft(s, s)
		draft.row.Desired, draft.row.ScaledAt = scale.Desired, began
		draft.addMessage(service.LoadScaledMessage(s.Name, s.Desired, scale.Desired, scale.Why))
		writeDraft(view, commits, draft)
	}
}

// scaleByLoad returns the desired count that the service's load asks for, with a reason if that is
// another one, and when the present interval began. It plans the next look. In the interval in which
// a service is created its load is not looked at, and in each later one the count changes at most
// once.
func scaleByLoad(
	view *clusterView, commits *plan.Builder, s *cluster.Service,
) (scale service.LoadScale, began time.Time) {
	l, began := s.Rules.Scaling, service.LoadInterval(s, view.now)
	commits.ScheduleDue(state.DueLoadScaling, s.Name, began.Add(l.Interval()))
	def := view.snap.Definitions[s.Deployment.TaskDefinition]
	if def == nil || !began.After(s.CreatedAt) ||
		!began.After(s.ScaledAt) && !cluster.IsAhead(s.ScaledAt, view.now) {
		return scale, began
	}
	instances := 0
	if l.Max < 0 {
		instances = len(view.engine.EligibleInstances(serviceRequest(view, s, def, 1).Spec))
	}
	return service.ScaleByLoad(l, s.Desired, reportedLoads(view, s, l.Metric), instances), began
}

// reportedLoads returns the loads of the service's RUNNING tasks, by default or as reported.
func reportedLoads(view *clusterView, s *cluster.Service, metric string) (loads []int64) {
	index := view.snap.MetricIndex(metric)
	for _, t := range view.snap.TasksOf(s.Short) {
		if t.Last != cluster.TaskRunning || !t.IsActive() {
			continue
		}
		total := int64(0)
		view.snap.LoadsOf(t, func(m int, load int64) {
			if m == index {
				total = load
			}
		})
		loads = append(loads, total)
	}
	return loads
}
