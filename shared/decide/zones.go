package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/placement"
	"berth/shared/placement/domain"
	"berth/shared/service"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Zone rebalancing (S13): when a steady service has its tasks unevenly over the zones, a task of
// the fullest zone from which one may move gets a replacement in the zone with the fewest, and stops once the
// replacement is healthy. No instance is started for it. Moves that repair rules come first.

// The eventNames of zone rebalancing.
const (
	rebalancingStarted   = "SERVICE_REBALANCING_STARTED"
	rebalancingCompleted = "SERVICE_REBALANCING_COMPLETED"
	rebalancingStopped   = "SERVICE_REBALANCING_STOPPED"
)

// addUnbalancedServices adds the services whose zones a changed instance may put out of balance,
// and those being rebalanced for which a zone with fewer tasks has room now.
func addUnbalancedServices(view *clusterView, changes *Changes) {
	for _, s := range view.snap.RebalancingServices() {
		if changes.allZones || anyKey(changes.freed, roomInPoorerZone(view, s)) {
			changes.services[s.Name] = true
		}
	}
	if !changes.allZones {
		return
	}
	for _, s := range view.snap.Services {
		if s.ZoneRebalancing && !changes.services[s.Name] && anyKey(changes.freed, inPoorerZone(view, s)) {
			changes.services[s.Name] = true
		}
	}
}

// inPoorerZone returns a test for instances that take tasks and are in a zone that should have more
// of the service's tasks.
func inPoorerZone(view *clusterView, s *cluster.Service) func(instance string) bool {
	most := 0
	for _, n := range view.snap.SpreadOf(s.Short, "").Zones() {
		most = max(most, n)
	}
	return inPoorerZoneThan(view, s, most)
}

// inPoorerZoneThan is inPoorerZone for tasks of a zone that has so many.
func inPoorerZoneThan(view *clusterView, s *cluster.Service, most int) func(instance string) bool {
	counts := view.snap.SpreadOf(s.Short, "").Zones()
	return func(instance string) bool {
		v := view.snap.Instances[instance]
		return v != nil && v.Instance != nil && v.Zone() != "" && v.IsAvailable() && most-counts[v.Zone()] > 1
	}
}

// roomInPoorerZone returns a test for instances of [inPoorerZone] that have room for a task.
func roomInPoorerZone(view *clusterView, s *cluster.Service) func(instance string) bool {
	return roomAmong(view, s, inPoorerZone(view, s), nil)
}

// roomAmong returns a test for instances of which isPoorer is true, that have room for a task and are not
// refused.
func roomAmong(
	view *clusterView, s *cluster.Service, isPoorer func(instance string) bool, refused []string,
) func(instance string) bool {
	def := view.snap.Definitions[s.Deployment.TaskDefinition]
	return func(instance string) bool {
		if def == nil || !isPoorer(instance) {
			return false
		}
		r := balancingRequest(serviceRequest(view, s, def, 1))
		r.Refused = refused
		return isFeasible(view, view.snap.Instances[instance], r)
	}
}

// keepsZonesBalanced reports whether the service's zones are kept in balance at all (section
// "Availability Zone rebalancing" of the ECS Developer Guide).
func keepsZonesBalanced(view *clusterView, s *cluster.Service, def *cluster.TaskDefinition) bool {
	_, most := s.TaskBounds(s.Desired)
	switch {
	case !s.ZoneRebalancing || s.Strategy != cluster.Replica || s.Status != cluster.ServiceActive || s.HasTaskSets():
		return false
	case most <= s.Desired: // no task can start before another one stops
		return false
	// the policy says where tasks go
	case (domain.Rule{Policy: serviceRequest(view, s, def, 1).Spec.DomainPolicy}).Governs():
		return false
	// another rule comes first
	case len(s.Rules.Strategies) > 0 && !spreadsOverZones(s.Rules.Strategies[0]) || s.Rules.Scoring != "":
		return false
	}
	return !slices.ContainsFunc(slices.Concat(def.Constraints, s.Rules.Constraints),
		func(c cluster.PlacementConstraint) bool {
			return strings.Contains(c.Expression, "attribute:"+cluster.AttributeZone)
		})
}

func spreadsOverZones(st cluster.PlacementStrategy) bool {
	return st.Type == cluster.StrategySpread && st.Field == "attribute:"+cluster.AttributeZone
}

// rebalanceZones starts replacements in zones that have too few of the service's tasks, and emits
// how that goes.
func rebalanceZones(
	view *clusterView, commits *plan.Builder, s *cluster.Service, p *service.Plan, draft *serviceDraft,
) {
	next := draft.row
	def := view.snap.Definitions[s.Deployment.TaskDefinition]
	if def == nil || !keepsZonesBalanced(view, s, def) || !next.Deployment.IsCompleted() || len(next.Older) > 0 {
		stopRebalancing(draft)
		return
	}
	if !p.Steady {
		return
	}
	seed := commits.SeedFor(s.Name)
	counts := countZones(view, s, def)
	switch {
	case !isUneven(counts):
		if next.Rebalancing && p.Moves.InProgress == 0 {
			next.Rebalancing = false
			draft.addZoneEvent("is AZ balanced with "+listZones(counts)+".", rebalancingCompleted)
		}
		return
	case draft.zonesWait || !s.Deployment.IsCompleted():
		// nothing moves in the decision that completes a deployment
		commits.ScheduleDue(state.DueService, s.Name, view.now)
		return
	case anyMoving(view):
		// Repairs come first: what they have freed is meant for their next step.
		commits.ScheduleDue(state.DueService, s.Name, view.now.Add(repairPause))
		return
	// all tasks are protected
	case p.Moves.InProgress == 0 && !isAnyMovable(view, commits, s, fullZones(counts)):
		stopRebalancing(draft)
		return
	}
	if !next.Rebalancing {
		next.Rebalancing = true
		draft.addZoneEvent("is not AZ balanced with "+listZones(counts)+". AZ Rebalancing in progress.",
			rebalancingStarted)
	}
	var started []*cluster.Task
	for range min(p.Moves.StartFirst, MaxMoves) {
		t := startInPoorerZone(view, commits, s, p.RefusedInstances, seed)
		if t == nil {
			break
		}
		started = append(started, t)
	}
	draft.events = append(draft.events, zoneEvents(view, s, started, startedInZone)...)
	if len(started) == 0 && p.Moves.InProgress == 0 && p.Moves.StartFirst > 0 {
		draft.emitOnce(zoneEventKey, view.now, service.Event{
			Message: "(service " + s.Name + ") is unable to place a task in " + emptiestZone(counts) + " because no " +
				"container instance met all of its requirements.",
			Name: placementFailed,
		})
	}
}

// makesRoomFirst reports whether the zones of s wait for the next decision, so that this one's moves can use
// the capacity that its changes freed for a service blocked on a metric (P11).
func makesRoomFirst(view *clusterView, changes *Changes, s *cluster.Service) bool {
	if len(changes.freed) == 0 || view.snap.Configuration.KeepInPlace || view.snap.GovernedServices()[s.Name] == nil {
		return false
	}
	blocked := view.snap.BlockedServices()
	return anyKey(blocked, func(name string) bool {
		of := blocked[name]
		return isMover(of, view.snap.Definitions[of.Deployment.TaskDefinition]) && lacksMetric(of.Blocked)
	})
}

// repairPause is how long zones wait before they look again whether repairs are over.
const repairPause = time.Minute

// anyMoving reports whether some service has moves in progress or planned that repair its rules.
func anyMoving(view *clusterView) bool {
	for _, s := range view.snap.GovernedServices() {
		if s.Moving {
			return true
		}
	}
	return false
}

// addZoneEvent appends an event about the balance of the service's zones.
func (d *serviceDraft) addZoneEvent(text, name string) {
	d.events = append(d.events, service.Event{Message: "(service " + d.row.Name + ") " + text, Name: name})
}

// isUnbalanced reports whether a steady service has its zones out of balance, and something can be
// done about it.
func isUnbalanced(view *clusterView, s *cluster.Service, p *service.Plan) bool {
	def := view.snap.Definitions[s.Deployment.TaskDefinition]
	if !p.Steady || p.Moves.InProgress > 0 || p.Moves.StartFirst == 0 || def == nil || !s.Deployment.IsCompleted() ||
		len(s.Older) > 0 || !keepsZonesBalanced(view, s, def) {
		return false
	}
	counts := countZones(view, s, def)
	if !isUneven(counts) {
		return false
	}
	zones := fullZones(counts)
	n := slices.IndexFunc(zones, func(zone string) bool {
		movable, _ := movableTasks(view, s, zone)
		return len(movable) > 0
	})
	if n < 0 {
		return false
	}
	isPoorer := inPoorerZoneThan(view, s, counts[zones[n]])
	return !s.Rebalancing || anyKey(view.snap.Instances, roomAmong(view, s, isPoorer, p.RefusedInstances))
}

// stopRebalancing ends a rebalancing that cannot be completed.
func stopRebalancing(draft *serviceDraft) {
	if draft.row.Rebalancing {
		draft.row.Rebalancing = false
		draft.events = append(draft.events, service.Event{Name: rebalancingStopped})
	}
}

// countZones counts the service's tasks in each zone that has some or could run some. A replacement
// counts, the task that it replaces does not.
func countZones(view *clusterView, s *cluster.Service, def *cluster.TaskDefinition) map[string]int {
	tasks, spec := view.snap.SpreadOf(s.Short, "").Zones(), serviceRequest(view, s, def, 1).Spec
	counts := map[string]int{}
	for _, z := range view.snap.Zones() {
		if z.Name == "" {
			continue
		}
		usable := slices.ContainsFunc(z.Instances, func(v *snapshot.InstanceView) bool {
			return v.IsAvailable() && view.engine.MatchesInstance(v, spec)
		})
		if n := tasks[z.Name]; n > 0 || usable {
			counts[z.Name] = n
		}
	}
	return counts
}

// isUneven reports whether the counts of two zones differ by more than one.
func isUneven(counts map[string]int) bool { return len(fullZones(counts)) > 0 }

// fullZones returns the zones with at least two tasks more than the emptiest one. Those with the most tasks
// come first, and equals by name.
func fullZones(counts map[string]int) (zones []string) {
	least := counts[emptiestZone(counts)]
	for zone, n := range counts {
		if n-least > 1 {
			zones = append(zones, zone)
		}
	}
	slices.SortFunc(zones, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	return zones
}

// emptiestZone returns the zone with the fewest tasks: the first by name between equals.
func emptiestZone(counts map[string]int) string {
	if len(counts) == 0 {
		return ""
	}
	return slices.MinFunc(slices.Sorted(maps.Keys(counts)), func(a, b string) int { return counts[a] - counts[b] })
}

// startInPoorerZone starts a replacement for a task of the fullest zone of which one may move, in the emptiest
// that has room. It returns nil if that would not help. A task keeps its capacity provider: if its provider
// has no room, a task of another one may move.
func startInPoorerZone(
	view *clusterView, commits *plan.Builder, s *cluster.Service, refused []string, seed uint64,
) *cluster.Task {
	def := view.snap.Definitions[s.Deployment.TaskDefinition]
	counts := countZones(view, s, def)
	choice := serviceRequest(view, s, def, 1)
	choice.Seed = seed
	for _, zone := range fullZones(counts) {
		for movable, _ := movableTasks(view, s, zone); len(movable) > 0; {
			chosen := view.engine.ChooseStops(choice, movable)
			if len(chosen) == 0 {
				break
			}
			old := chosen[0]
			provider := view.providerOf(s, old)
			r := balancingRequest(providerRequest(view, s, def, provider, 1))
			r.Refused, r.Seed = refused, commits.SeedFor(s.Name)
			if where := placeInPoorerZone(view, r, counts, counts[zone]); where != nil {
				next := newServiceTask(view, s, &s.Deployment.Revision, def)
				next.Replaces = old.ID
				commits.KeepTogether(plan.RowsPerStart)
				startTask(view, commits, next, *where, def)
				return next
			}
			isOfProvider := func(t *cluster.Task) bool { return view.providerOf(s, t) == provider }
			movable = slices.DeleteFunc(movable, isOfProvider)
		}
	}
	return nil
}

// balancingRequest returns the request of a task that only evens out zones: it uses no node buffer
// (P14) and breaks no soft rule.
func balancingRequest(r placement.Request) placement.Request {
	r.Unbuffered, r.Strict = true, true
	return r
}

// placeInPoorerZone returns where the request's task goes, if that is in a zone with at least two
// tasks fewer than most.
func placeInPoorerZone(view *clusterView, r placement.Request, counts map[string]int, most int) *placement.Placement {
	result := view.engine.Place(r)
	if len(result.Placed) == 0 {
		return nil
	}
	if to := view.snap.Instances[result.Placed[0].Instance].Zone(); to == "" || most-counts[to] <= 1 {
		return nil
	}
	return &result.Placed[0]
}

// isAnyMovable reports whether one of the zones has tasks of [movableTasks]. If only their protection keeps
// tasks from moving, it wakes placement when the first protection expires.
func isAnyMovable(view *clusterView, commits *plan.Builder, s *cluster.Service, zones []string) bool {
	var first time.Time
	for _, zone := range zones {
		movable, protectedUntil := movableTasks(view, s, zone)
		if len(movable) > 0 {
			return true
		}
		if first.IsZero() || !protectedUntil.IsZero() && protectedUntil.Before(first) {
			first = protectedUntil
		}
	}
	if !first.IsZero() {
		commits.ScheduleDue(state.DueService, s.Name, first)
	}
	return false
}

// movableTasks returns the service's RUNNING tasks of a zone that may be replaced: they are not
// protected, and neither are nor have a replacement. It also returns when the first protection of
// the others expires.
func movableTasks(
	view *clusterView, s *cluster.Service, zone string,
) (movable []*cluster.Task, protectedUntil time.Time) {
	for _, t := range view.snap.TasksOf(s.Short) {
		if t.Last != cluster.TaskRunning || !t.IsActive() || view.zoneOf(t) != zone || view.snap.HasReplacement(t) ||
			isReplacing(view, t) {
			continue
		}
		until := view.protectedUntil(t)
		if until.IsZero() {
			movable = append(movable, t)
		} else if protectedUntil.IsZero() || until.Before(protectedUntil) {
			protectedUntil = until
		}
	}
	return movable, protectedUntil
}

// isReplacing reports whether the task replaces one that has not ended yet.
func isReplacing(view *clusterView, t *cluster.Task) bool {
	old := view.snap.Task(t.Owner, t.Replaces)
	return t.Replaces != "" && old != nil && !old.HasEnded()
}

// startedInZone and stoppedInZone are the events of tasks started and stopped to balance the zones.
var (
	startedInZone = zoneAction{"has started %d tasks in %s to AZ Rebalance:", "TASKS_STARTED"}
	stoppedInZone = zoneAction{"has stopped %d running tasks in %s due to AZ rebalancing:", "TASKS_STOPPED"}
)

type zoneAction struct{ text, name string }

// zoneEvents returns one event for each zone in which the tasks were started or stopped.
func zoneEvents(
	view *clusterView, s *cluster.Service, tasks []*cluster.Task, action zoneAction,
) (events []service.Event) {
	byZone := map[string][]*cluster.Task{}
	for _, t := range tasks {
		byZone[view.zoneOf(t)] = append(byZone[view.zoneOf(t)], t)
	}
	for _, zone := range slices.Sorted(maps.Keys(byZone)) {
		text := "(service " + s.Name + ") " + fmt.Sprintf(action.text, len(byZone[zone]), zone)
		for _, t := range byZone[zone] {
			text += " (task " + t.ID + ")"
		}
		events = append(events, service.Event{Message: text + ".", Name: action.name})
	}
	return events
}

// listZones returns the counts as "3 tasks in AZ, 1 tasks in AZ", fullest zone first.
func listZones(counts map[string]int) string {
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return counts[b] - counts[a] })
	var out []string
	for _, name := range names {
		out = append(out, fmt.Sprintf("%d tasks in %s", counts[name], name))
	}
	return strings.Join(out, ", ")
}
