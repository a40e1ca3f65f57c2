package decide

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/service"
)

// reconcileInput returns what [service.Reconcile] needs to know about the service.
func reconcileInput(view *clusterView, s *cluster.Service, seed uint64) service.Input {
	snap := view.snap
	in := service.Input{
		Service: s, Tasks: relevantTasks(view, s), InstanceState: view.instanceStateFor(s), Now: view.now, Seed: seed,
		HealthChecked: func(name string) bool {
			def := snap.Definitions[name]
			return def != nil && def.HealthChecked
		},
		Throttle: snap.Throttle(s.Short), Alarms: snap.AlarmWatch(s.Short), DistrustChecks: distrustsHealth(view),
		Limits: view.settings.Limits(),
	}
	if len(snap.Targets(s.Short)) > 0 {
		in.Target = func(task string) *cluster.Target { return snap.Target(s.Short, task) }
	}
	in.ProtectedUntil = func(task string) time.Time {
		return snap.Protection(s.Short, task).ActiveUntil(view.now)
	}
	in.FitsEmptyInstance = func(name string) bool {
		def, of := snap.Definitions[name], s
		for _, d := range s.TaskSets() {
			if d.TaskDefinition == name {
				of = s.OfTaskSet(d)
			}
		}
		return def != nil && slices.ContainsFunc(view.engine.EligibleInstances(serviceRequest(view, of, def, 1).Spec),
			func(id string) bool {
				return fitsWhenEmpty(view, snap.Instances[id], of, def)
			})
	}
	if def := snap.Definitions[s.Deployment.TaskDefinition]; s.Strategy == cluster.Daemon && def != nil {
		addDaemonInput(view, &in, def)
	}
	return in
}

// addDaemonInput adds what only DAEMON services need: which instances should have a task, and which
// may.
func addDaemonInput(view *clusterView, in *service.Input, def *cluster.TaskDefinition) {
	in.Eligible = eligibleInstances(view, in.Service)
	runningSpec := view.specs.ForRunningDaemon(in.Service, def)
	in.MeetsConstraints = func(instance string) bool {
		v := view.snap.Instances[instance]
		return v != nil && view.engine.MatchesInstance(v, runningSpec)
	}
	in.HasOtherTasks = func(instance string) bool {
		v := view.snap.Instances[instance]
		return v != nil && hasNonDaemonTasks(view.snap, v)
	}
}

// relevantTasks returns the tasks that the service's next plan can depend on. Tasks that ran and
// ended are history, unless they started within the restart gap, may end a throttle, or still have
// a registration.
func relevantTasks(view *clusterView, s *cluster.Service) []*cluster.Task {
	owned := view.snap.TasksOf(s.Short)
	var firstFailure cluster.Instant
	for _, t := range owned {
		if (t.NeverRan() || t.WasRefused()) && (firstFailure.IsZero() || t.Stopped < firstFailure) {
			firstFailure = t.Stopped
		}
	}
	throttled := view.snap.Throttle(s.Short) != nil
	recent := cluster.At(view.now.Add(-view.settings.RestartGap))
	var relevant []*cluster.Task
	for _, t := range owned {
		switch {
		case !t.HasEnded() || t.NeverRan() || t.WasRefused(), t.Started > recent, throttled && !t.Started.IsZero():
		case !firstFailure.IsZero() && t.Started >= firstFailure:
		case view.snap.Target(s.Short, t.ID) != nil:
		default:
			continue
		}
		relevant = append(relevant, t)
	}
	return relevant
}

// fewUnhealthy is how many tasks may be unhealthy at once before their health checks are
// distrusted. In a small cluster one bad service is already a large share.
const fewUnhealthy = 10

// distrustsHealth reports whether so many of the cluster's tasks are unhealthy at once that the
// checks are more likely to be wrong than the tasks (S6).
func distrustsHealth(view *clusterView) bool {
	v := view.snap.HealthCounts()
	return v.Unhealthy > fewUnhealthy && 100*v.Unhealthy > view.settings.MaxUnhealthyPercent*v.Checked
}
