package decide

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/placement/eligibility"
	"berth/shared/placement/moves"
	"berth/shared/service"
	"berth/shared/snapshot"
)

// clusterView is what a decision reads besides the changes: the snapshot with its indexes, the time
// and the settings. What the decision writes goes into a [plan.Builder], which keeps the snapshot
// as it will be after the commits.
type clusterView struct {
	snap        *snapshot.Snapshot
	engine      *placement.Engine
	movePlanner *moves.Planner
	specs       *specs.Cache
	now         time.Time
	settings    Settings
}

func newView(warm *WarmSnapshot, now time.Time, settings Settings) *clusterView {
	return &clusterView{snap: warm.Snap, engine: warm.engine, movePlanner: warm.movePlanner, specs: warm.specs,
		now: now, settings: settings}
}

// instanceState returns what an instance means for the tasks on it.
func (view *clusterView) instanceState(instance string) service.InstanceState {
	v := view.snap.Instances[instance]
	switch {
	case v == nil || v.Instance == nil || v.IsDeregistered():
		return service.InstanceDeregistered
	case v.DisconnectedAt.IsZero() && v.Status != cluster.InstanceDraining:
		return service.InstanceUsable
	}
	if at := view.disconnectDeadline(v); !at.IsZero() &&
		cluster.RemainingWait(at, view.now, view.settings.DisconnectTimeout) == 0 {
		return service.InstanceTimedOut
	}
	if v.Status == cluster.InstanceDraining {
		return service.InstanceDraining
	}
	return service.InstanceUsable
}

// instanceStateFor returns instanceState for tasks of a service: those that do not tolerate a taint
// NO_EXECUTE leave their instance as if it were DRAINING.
func (view *clusterView) instanceStateFor(s *cluster.Service) func(instance string) service.InstanceState {
	return func(instance string) service.InstanceState {
		state := view.instanceState(instance)
		if state == service.InstanceUsable && eligibility.Evicts(view.snap.Instances[instance], s.Rules.Tolerations) {
			return service.InstanceDraining
		}
		return state
	}
}

// disconnectDeadline returns when the tasks of a disconnected instance are lost, or zero while its
// agent is connected (S11).
func (view *clusterView) disconnectDeadline(v *snapshot.InstanceView) time.Time {
	if v.Instance == nil || v.DisconnectedAt.IsZero() || v.AgentConnected {
		return time.Time{}
	}
	return v.DisconnectedAt.Time().Add(view.settings.DisconnectTimeout)
}

// hasTaskOf reports whether a task of the owner is on the instance.
func (view *clusterView) hasTaskOf(owner, instance string) bool {
	v := view.snap.Instances[instance]
	return v != nil && slices.ContainsFunc(v.Tasks, func(t *cluster.Task) bool { return t.Owner == owner })
}

// zoneOf returns the zone of the task's instance, or the empty string.
func (view *clusterView) zoneOf(t *cluster.Task) string {
	if v := view.snap.Instances[t.Instance]; v != nil {
		return v.Zone()
	}
	return ""
}

// providerOf returns the capacity provider that the task runs with, or the empty string if its
// service has no strategy.
func (view *clusterView) providerOf(s *cluster.Service, t *cluster.Task) string {
	v := view.snap.Instances[t.Instance]
	if len(s.Providers) == 0 || v == nil || v.Instance == nil {
		return ""
	}
	return v.CapacityProvider()
}

// protectedUntil returns when the task's scale-in protection expires, or zero if it has none now
// (S5).
func (view *clusterView) protectedUntil(t *cluster.Task) time.Time {
	return view.snap.Protection(t.Owner, t.ID).ActiveUntil(view.now)
}
