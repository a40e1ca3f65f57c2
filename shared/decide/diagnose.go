package decide

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/decide/specs"
	"berth/shared/snapshot"
)

// DiagnoseBlocked returns why the tasks of each blocked service find no instance now, by service
// name. The diagnosis in a service's row is that of the last attempt, and placement makes the next
// one only when something changes that could help: what else changes meanwhile, such as an instance
// that joins and is too small, the row does not know. A service whose next task would find an
// instance is left out, and so is one beyond the first most of them.
func DiagnoseBlocked(snap *snapshot.Snapshot, most int) map[string]*cluster.Diagnosis {
	warm := NewWarmSnapshot(snap)
	view := &clusterView{snap: snap, engine: warm.engine, specs: warm.specs}
	reserveForDaemons(view, warm, nil)
	found := map[string]*cluster.Diagnosis{}
	for _, s := range sortedServices(snap) {
		if s.Blocked == nil || s.Status != cluster.ServiceActive || most == 0 {
			continue
		}
		most--
		WithOwnReservation(snap, s.Short, func() {
			if d := diagnose(view, s); d != nil && d.Feasible == 0 {
				d.Unplaced = s.Blocked.Unplaced
				found[s.Name] = d
			}
		})
	}
	return found
}

// diagnose returns why the next task of the service's PRIMARY deployment finds no instance; nil if it
// finds one.
func diagnose(view *clusterView, s *cluster.Service) *cluster.Diagnosis {
	def := view.snap.Definitions[s.Deployment.TaskDefinition]
	if def == nil || s.HasTaskSets() {
		return nil
	}
	provider := specs.NextProvider(view.snap, s)
	r := providerRequest(view, s, def, provider, 1)
	if s.Strategy == cluster.Daemon {
		r.Instances = slices.DeleteFunc(eligibleInstances(view, s), func(id string) bool {
			return slices.ContainsFunc(view.snap.Instances[id].Tasks, func(t *cluster.Task) bool {
				return t.Owner == s.Short && t.IsActive()
			})
		})
		if len(r.Instances) == 0 {
			return nil
		}
	}
	d := placeForProvider(view, provider, r).Diagnosis
	nameUnknown(view, &s.Rules, d)
	return d
}
