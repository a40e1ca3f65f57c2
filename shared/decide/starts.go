package decide

import (
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/placement"
	"berth/shared/service"
	"berth/shared/state"
)

// startResult is the outcome of a service's demands.
type startResult struct {
	placed  bool // at least one task found an instance
	limited bool // too many tasks of the cluster are provisioning for the rest to wait, too
}

// startTasks places the service's provisioning tasks and the missing ones. Tasks that fit nowhere
// are provisioned, within the cluster's limit. For those beyond it, the draft has only the
// diagnosis.
func startTasks(
	view *clusterView, commits *plan.Builder, s *cluster.Service, p *service.Plan, draft *serviceDraft,
) (out startResult) {
	draft.row.Blocked = nil
	if s.Status != cluster.ServiceActive {
		return out
	}
	if s.Strategy == cluster.Daemon {
		view.snap.Reserve(s.Short, nil) // the service itself may use what is reserved for it
	}
	demands := serviceDemands(view, s, p)
	for _, d := range demands {
		if d.definition == nil {
			continue
		}
		if len(s.MoveTargets) > 0 && d.revision.ID == s.Deployment.ID {
			out.placed = startOnTargets(view, commits, d, draft) || out.placed
		}
		if d.taskCount() == 0 {
			continue
		}
		out.placed = placeDemand(view, commits, d, draft) || out.placed
		out.placed = useFallbackProviders(view, commits, d, draft) || out.placed
		if s.Strategy == cluster.Replica {
			out.limited = provisionRest(view, commits, d, draft) || out.limited
		}
	}
	switch {
	case len(p.HeldRevisions) > 0 && draft.row.Blocked == nil && p.Next.Deployment.State != cluster.RolloutFailed:
		draft.row.Blocked = s.Blocked
	case len(demands) == 0:
		draft.row.MoveTargets = nil
	}
	return out
}

// placeDemand starts the demand's tasks where they fit, each with the capacity provider that the
// strategy assigns to it (S14).
func placeDemand(view *clusterView, commits *plan.Builder, d *demand, draft *serviceDraft) (placed bool) {
	s, providers := d.service, demandProviders(view, d)
	for len(providers) > 0 {
		provider, left := providers[0], len(providers)
		providers = slices.DeleteFunc(providers, func(p string) bool { return p == provider })
		r := d.request(view, provider, left-len(providers))
		r.Instances, r.Seed = d.start.Instances, commits.SeedFor(s.Name)
		result := placeForProvider(view, provider, r)
		startPlaced(view, commits, d, result.Placed, draft)
		placed = placed || len(result.Placed) > 0
		if draft.row.Blocked == nil && result.Diagnosis != nil {
			draft.row.Blocked = result.Diagnosis
			addRefusal(view, s, result.Diagnosis)
			nameUnknown(view, &s.Rules, result.Diagnosis)
		}
	}
	return placed
}

// provisionRest lets the demand's new tasks wait for an instance. It reports whether the cluster's
// limit stops it before all do.
func provisionRest(view *clusterView, commits *plan.Builder, d *demand, draft *serviceDraft) (limited bool) {
	s := d.service
	admitted := admitProvisioning(view, len(s.Providers) > 0, d.start.Count)
	for range admitted {
		provisionTask(commits, newServiceTask(view, s, d.revision, d.definition),
			provisionedID(view, commits, s, d.revision))
	}
	if admitted == d.start.Count {
		return false
	}
	draft.emitOnce(ProvisioningLimitKey, view.now, service.Event{Message: service.ProvisioningLimitMessage(s.Name)})
	return true
}

// provisionedID returns the id of a service's next provisioning task. It differs from all others:
// no other commit makes the same placement version, and within one the service's tasks only
// increase.
func provisionedID(view *clusterView, commits *plan.Builder, s *cluster.Service, r *cluster.Revision) string {
	return cluster.RequestedTaskID(s.Short, fmt.Sprintf("%s/%d", r.ID, commits.OpenVersion()),
		len(view.snap.TasksOf(s.Short)))
}

// addRefusal adds to the diagnosis why ECS refused a task of the service on the closest instance,
// the last time, if that is why the instance gets none now.
func addRefusal(view *clusterView, s *cluster.Service, g *cluster.Diagnosis) {
	if g.ClosestFilter != cluster.FilterRefused {
		return
	}
	var last cluster.Instant
	for _, t := range view.snap.TasksOf(s.Short) {
		if t.WasRefused() && t.Instance == g.Closest && t.Stopped > last {
			last, g.Refusal = t.Stopped, strings.TrimPrefix(t.Reason, cluster.StartFailed)
		}
	}
}

// startOnTargets starts tasks on the instances for which moves have stopped others. Tasks that
// still lack room there are held back until the service's move targets expire. The rest of the
// demand may be placed anywhere.
func startOnTargets(view *clusterView, commits *plan.Builder, d *demand, draft *serviceDraft) (placed bool) {
	s := d.service
	draft.row.MoveTargets = nil
	if cluster.RemainingWait(s.MoveTargetsUntil, view.now, targetsTimeout) == 0 {
		draft.row.MoveGaveUp = true
		return false
	}
	left := slices.Clone(s.MoveTargets)
	for _, concession := range []concession{noConcession, useBuffer, relaxRules} {
		r := d.request(view, anyProvider(s), min(d.taskCount(), len(left)))
		r.Instances, r.Unexplained, r.Seed = left, true, commits.SeedFor(s.Name)
		concession.apply(&r)
		found := view.engine.Place(r).Placed
		if len(found) == 0 {
			continue
		}
		// Since the move was planned, others may have taken the room, or the rules have changed.
		if concession == noConcession || !fitsSomewhere(view, d, concession-1) {
			startPlaced(view, commits, d, found, draft)
			placed = true
		}
		for _, p := range found {
			if i := slices.Index(left, p.Instance); i >= 0 {
				left = slices.Delete(left, i, i+1)
			}
		}
	}
	held := min(d.start.Count, len(left))
	if held > 0 {
		draft.row.MoveTargets = left[:held]
		commits.ScheduleDue(state.DueService, s.Name, s.MoveTargetsUntil)
	}
	d.start.Count -= held
	return placed
}

// A concession is what a task gives up to start on an instance. Each includes those before it.
type concession int

const (
	noConcession concession = iota
	useBuffer               // the node buffer, or overbooking (P14)
	relaxRules              // soft rules
)

// apply makes a request with the concession.
func (c concession) apply(r *placement.Request) {
	r.Unbuffered, r.Strict = c < useBuffer, c < relaxRules
}

// fitsSomewhere reports whether some instance takes a task of the demand with the concession.
func fitsSomewhere(view *clusterView, d *demand, c concession) bool {
	r := d.request(view, anyProvider(d.service), 1)
	c.apply(&r)
	return canPlace(view, r)
}
