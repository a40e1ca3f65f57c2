package decide

import (
	"slices"
	"time"

	"berth/shared/cluster"
	service "berth/shared/service"
)

// input is what a decision about the service rests on.
func (d *decider) input(s *cluster.Service) service.Input {
	in := service.Input{
		Service: s, Tasks: d.concerning(s), InstanceState: d.host, Now: d.now, Seed: d.seed(s.Name),
		HealthChecked: func(name string) bool {
			def := d.snap.Definitions[name]
			return def != nil && def.HealthChecked
		},
		Throttle: d.snap.Throttle(s.Short), Alarms: d.snap.AlarmWatch(s.Short), DistrustChecks: d.mostUnhealthy(), Limits: d.settings.Limits(),
	}
	if len(d.snap.Targets(s.Short)) > 0 {
		in.Target = func(task string) *cluster.Target { return d.snap.Target(s.Short, task) }
	}
	in.ProtectedUntil = func(task string) time.Time {
		if p := d.snap.Protection(s.Short, task); p != nil {
			return p.Until
		}
		return time.Time{}
	}
	in.FitsEmptyInstance = func(name string) bool {
		def := d.snap.Definitions[name]
		return def != nil && slices.ContainsFunc(d.engine.Eligible(d.serviceRequest(s, def, 1).Spec), func(id string) bool {
			return d.couldHold(d.snap.Instances[id], s, def)
		})
	}
	def := d.snap.Definitions[s.Deployment.TaskDefinition]
	if s.Strategy == cluster.Daemon && def != nil {
		in.Eligible = d.eligible(s)
		held := d.specs.running(s, def)
		in.MeetsConstraints = func(instance string) bool {
			v := d.snap.Instances[instance]
			return v != nil && d.engine.Matches(v, held)
		}
		in.HasOtherTasks = func(instance string) bool {
			v := d.snap.Instances[instance]
			return v != nil && busy(d.snap, v)
		}
	}
	return in
}

// concerning are the service's tasks that its next plan can depend on. Those that ran and ended are history, but for those
// that have only just begun, that end a throttle, or that are registered somewhere.
func (d *decider) concerning(s *cluster.Service) []*cluster.Task {
	owned := d.snap.Owned(s.Short)
	var failing cluster.Instant
	for _, t := range owned {
		if (t.NeverRan() || t.Refused()) && (failing.IsZero() || t.Stopped < failing) {
			failing = t.Stopped
		}
	}
	throttled := d.snap.Throttle(s.Short) != nil
	recent := cluster.At(d.now.Add(-d.settings.RestartGap))
	var out []*cluster.Task
	for _, t := range owned {
		switch {
		case !t.Ended() || t.NeverRan() || t.Refused(), t.Started > recent, throttled && !t.Started.IsZero():
		case !failing.IsZero() && t.Started >= failing:
		case d.snap.Target(s.Short, t.ID) != nil:
		default:
			continue
		}
		out = append(out, t)
	}
	return out
}

// host is what an instance is to the tasks on it.
func (d *decider) host(instance string) service.InstanceState {
	v := d.snap.Instances[instance]
	switch {
	case v == nil || v.Instance == nil || v.Gone():
		return service.InstanceDeregistered
	case v.DisconnectedAt.IsZero() && v.Status != cluster.InstanceDraining:
		return service.InstanceUsable
	}
	if at := d.lostAt(v); !at.IsZero() && !at.After(d.now) {
		return service.InstanceTimedOut
	}
	if v.Status == cluster.InstanceDraining {
		return service.InstanceDraining
	}
	return service.InstanceUsable
}

// fewUnhealthy is how many tasks may look unhealthy at once before it is asked whether the checks are to be believed: in a
// small cluster one bad service is most of it.
const fewUnhealthy = 10

// mostUnhealthy reports whether so many of the cluster's tasks look unhealthy that the checks are not believed (S6).
func (d *decider) mostUnhealthy() bool {
	v := d.snap.Vitals()
	return v.Unhealthy > fewUnhealthy && 100*v.Unhealthy > d.settings.UnhealthyShare*v.Checked
}
