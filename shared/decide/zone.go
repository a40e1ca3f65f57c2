package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/domain"
	service "berth/shared/service"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Zone rebalancing (S13): a service that has come to rest with its tasks unevenly over the zones gets a replacement in the
// poorest zone first, for a task of the richest, which stops once the replacement is healthy. No instance is started for it.

// The eventNames of zone rebalancing.
const (
	rebalancingStarted   = "SERVICE_REBALANCING_STARTED"
	rebalancingCompleted = "SERVICE_REBALANCING_COMPLETED"
	rebalancingStopped   = "SERVICE_REBALANCING_STOPPED"
)

// wakeZones adds the services whose zones a changed instance may help, or put out of balance, and those that are being
// rebalanced for which room has come free in a zone with fewer tasks.
func (d *decider) wakeZones(w *Work) {
	for _, s := range d.snap.Rebalancing() {
		if w.zones || d.poorer(s, w.freed, true) {
			w.Services[s.Name] = true
		}
	}
	if !w.zones {
		return
	}
	for _, s := range d.snap.Services {
		if s.ZoneRebalancing && !w.Services[s.Name] && d.poorer(s, w.freed, false) {
			w.Services[s.Name] = true
		}
	}
}

// poorer reports whether one of the instances takes tasks and is in a zone that should have more of the service's; with
// room only if it has room for one.
func (d *decider) poorer(s *cluster.Service, freed map[string]bool, room bool) bool {
	zones := d.snap.Crowd(s.Short, "").Zones
	most := 0
	for _, n := range zones {
		most = max(most, n)
	}
	if most < 2 {
		return false
	}
	def := d.snap.Definitions[s.Deployment.TaskDefinition]
	return anyKey(freed, func(id string) bool {
		v := d.snap.Instances[id]
		if v == nil || v.Instance == nil || v.Zone() == "" || !v.Available() || most-zones[v.Zone()] <= 1 {
			return false
		}
		return !room || def != nil && d.fits(v, d.serviceRequest(s, def, 1))
	})
}

// rebalances reports whether a service is one whose zones are kept in balance (section "Availability Zone rebalancing" of
// the ECS Developer Guide).
func (d *decider) rebalances(s *cluster.Service, def *cluster.TaskDefinition) bool {
	_, most := s.Bounds(s.Desired)
	switch {
	case !s.ZoneRebalancing || s.Strategy != cluster.Replica || s.Status != cluster.ServiceActive:
		return false
	case most <= s.Desired: // no task can be started before another stops
		return false
	case d.snap.Governed()[s.Name] != nil && d.scattered(): // its tasks may be where they are to make room
		return false
	case (domain.Rule{Policy: d.serviceRequest(s, def, 1).Spec.DomainPolicy}).Governs(): // it says where the tasks go
		return false
	case len(s.Rules.Strategies) > 0 && !byZone(s.Rules.Strategies[0]) || s.Rules.Scoring != "": // another rule goes first
		return false
	}
	return !slices.ContainsFunc(slices.Concat(def.Constraints, s.Rules.Constraints), func(c cluster.PlacementConstraint) bool {
		return strings.Contains(c.Expression, "attribute:"+cluster.AttributeZone)
	})
}

// scattered reports whether a REPLICA service lacks capacity of a metric: tasks move to make room for it (P11).
func (d *decider) scattered() bool {
	for _, s := range d.snap.Blocked() {
		if s.Strategy == cluster.Replica && lacksMetric(s.Blocked) {
			return true
		}
	}
	return false
}

func byZone(st cluster.PlacementStrategy) bool {
	return st.Type == cluster.StrategySpread && st.Field == "attribute:"+cluster.AttributeZone
}

// rebalance begins what is to be done about the service's zones, and tells how that goes.
func (d *decider) rebalance(s *cluster.Service, p service.Plan, log *eventLog) {
	next := log.service
	def := d.snap.Definitions[s.Deployment.TaskDefinition]
	if def == nil || !d.rebalances(s, def) || !next.Deployment.Completed() || len(next.Older) > 0 {
		d.endRebalancing(log)
		return
	}
	if !p.Steady {
		return
	}
	r := d.serviceRequest(s, def, 1)
	counts := d.zones(s, r)
	if !uneven(counts) {
		if next.Rebalancing && p.Moves.InProgress == 0 {
			next.Rebalancing = false
			log.events = append(log.events, service.Event{
				Message: "(service " + s.Name + ") is AZ balanced with " + listZones(counts) + ".", Name: rebalancingCompleted,
			})
		}
		return
	}
	if !s.Deployment.Completed() {
		d.plan.due(state.DueService, s.Name, d.now) // nothing moves in the decision that completes a deployment
		return
	}
	if p.Moves.InProgress == 0 && len(d.movable(s, richest(counts))) == 0 { // all are protected
		d.endRebalancing(log)
		return
	}
	if !next.Rebalancing {
		next.Rebalancing = true
		log.events = append(log.events, service.Event{
			Message: "(service " + s.Name + ") is not AZ balanced with " + listZones(counts) + ". AZ Rebalancing in progress.",
			Name:    rebalancingStarted,
		})
	}
	var started []*cluster.Task
	for range min(p.Moves.StartFirst, MaxMoves) {
		t := d.toPoorerZone(s, def, r)
		if t == nil {
			break
		}
		started = append(started, t)
	}
	d.tellZones(started, log, zoneStarted)
	if len(started) == 0 && p.Moves.InProgress == 0 && p.Moves.StartFirst > 0 {
		log.say(noRoomInZone, d.now, service.Event{
			Message: "(service " + s.Name + ") is unable to place a task in " + poorest(counts) + " because no container instance met all of its requirements.",
			Name:    placementFailed,
		})
	}
}

// unbalanced reports whether the service has come to rest with its zones out of balance, and something could be done about it.
func (d *decider) unbalanced(s *cluster.Service, p service.Plan) bool {
	def := d.snap.Definitions[s.Deployment.TaskDefinition]
	if !p.Steady || p.Moves.InProgress > 0 || p.Moves.StartFirst == 0 || def == nil || !s.Deployment.Completed() || len(s.Older) > 0 || !d.rebalances(s, def) {
		return false
	}
	counts := d.zones(s, d.serviceRequest(s, def, 1))
	if !uneven(counts) || len(d.movable(s, richest(counts))) == 0 {
		return false
	}
	if !s.Rebalancing {
		return true
	}
	for id := range d.snap.Instances {
		if d.poorer(s, map[string]bool{id: true}, true) {
			return true
		}
	}
	return false
}

// endRebalancing ends what was begun and cannot be brought to its end.
func (d *decider) endRebalancing(log *eventLog) {
	if log.service.Rebalancing {
		log.service.Rebalancing = false
		log.events = append(log.events, service.Event{Name: rebalancingStopped})
	}
}

// noRoomInZone is what is said of a zone that should have more tasks and has no room.
const noRoomInZone = service.PlacementKeyPrefix + "zone"

// poorest is the zone with the fewest tasks.
func poorest(counts map[string]int) string {
	least := ""
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if least == "" || counts[name] < counts[least] {
			least = name
		}
	}
	return least
}

// zones are how many of the service's tasks each zone has in which some could run. A replacement counts, the task that it
// is for does not.
func (d *decider) zones(s *cluster.Service, r placement.Request) map[string]int {
	crowd := d.snap.Crowd(s.Short, "")
	out := map[string]int{}
	for _, z := range d.snap.Zones() {
		if z.Name == "" {
			continue
		}
		usable := slices.ContainsFunc(z.Instances, func(v *snapshot.InstanceView) bool {
			return v.Available() && d.engine.Matches(v, r.Spec)
		})
		if n := crowd.Zones[z.Name]; n > 0 || usable {
			out[z.Name] = n
		}
	}
	return out
}

// uneven reports whether the counts of two zones differ by more than one.
func uneven(counts map[string]int) bool {
	least, most := -1, 0
	for _, n := range counts {
		if least < 0 || n < least {
			least = n
		}
		most = max(most, n)
	}
	return most-max(0, least) > 1
}

// toPoorerZone starts a replacement for a task of the richest zone, in the poorest that has room; nil where that would not
// help. A task keeps its capacity provider: where one has no room, a task of another may move.
func (d *decider) toPoorerZone(s *cluster.Service, def *cluster.TaskDefinition, r placement.Request) *cluster.Task {
	counts := d.zones(s, r)
	if !uneven(counts) {
		return nil
	}
	from := richest(counts)
	for there := d.movable(s, from); len(there) > 0; {
		old := d.engine.ChooseStops(r, there)
		if len(old) == 0 {
			return nil
		}
		provider := d.providerOf(s, old[0])
		if where := d.inPoorerZone(s, def, provider, counts, counts[from]); where != nil {
			next := d.serviceTask(s, &s.Deployment.Revision, def)
			next.Replaces = old[0].ID
			d.plan.room(rowsPerStart)
			d.begin(next, *where, def)
			return next
		}
		there = slices.DeleteFunc(there, func(t *cluster.Task) bool { return d.providerOf(s, t) == provider })
	}
	return nil
}

// inPoorerZone is a place with the provider in a zone that has at least two tasks fewer than most; nil where there is none.
func (d *decider) inPoorerZone(s *cluster.Service, def *cluster.TaskDefinition, provider string, counts map[string]int, most int) *placement.Placement {
	one := d.requestWith(provider, s, def, 1)
	one.Unbuffered = true // the buffer is not for balance (P14)
	where := d.engine.Place(one)
	if len(where.Placed) == 0 {
		return nil
	}
	if to := d.snap.Instances[where.Placed[0].Instance].Zone(); to == "" || most-counts[to] <= 1 {
		return nil
	}
	return &where.Placed[0]
}

// richest is the zone with the most tasks.
func richest(counts map[string]int) string {
	most := ""
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if most == "" || counts[name] > counts[most] {
			most = name
		}
	}
	return most
}

// movable are the service's RUNNING tasks of a zone that may be replaced: not protected, and no part of a pair already. Where
// that is for their protection alone they are looked at again when it ends.
func (d *decider) movable(s *cluster.Service, zone string) (out []*cluster.Task) {
	var until time.Time
	for _, t := range d.snap.Owned(s.Short) {
		if t.Last != cluster.TaskRunning || !t.Active() || d.zoneOf(t) != zone || d.snap.Replaced(t) || d.replaces(t) {
			continue
		}
		if p := d.snap.Protection(t.Owner, t.ID); p != nil && p.Until.After(d.now) {
			if until.IsZero() || p.Until.Before(until) {
				until = p.Until
			}
			continue
		}
		out = append(out, t)
	}
	if len(out) == 0 && !until.IsZero() {
		d.plan.due(state.DueService, s.Name, until)
	}
	return out
}

// replaces reports whether the task has come for one that is still there.
func (d *decider) replaces(t *cluster.Task) bool {
	old := d.snap.Task(t.Owner, t.Replaces)
	return t.Replaces != "" && old != nil && !old.Ended()
}

func (d *decider) zoneOf(t *cluster.Task) string {
	if v := d.snap.Instances[t.Instance]; v != nil {
		return v.Zone()
	}
	return ""
}

// zoneStarted and zoneStopped are the events of tasks started and stopped to balance the zones, and their eventNames.
var (
	zoneStarted = zoneEvent{"has started %d tasks in %s to AZ Rebalance:", "TASKS_STARTED"}
	zoneStopped = zoneEvent{"has stopped %d running tasks in %s due to AZ rebalancing:", "TASKS_STOPPED"}
)

type zoneEvent struct{ text, name string }

// tellZones tells of tasks started or stopped to balance the zones, zone by zone.
func (d *decider) tellZones(tasks []*cluster.Task, log *eventLog, e zoneEvent) {
	by := map[string][]*cluster.Task{}
	for _, t := range tasks {
		by[d.zoneOf(t)] = append(by[d.zoneOf(t)], t)
	}
	for _, zone := range slices.Sorted(maps.Keys(by)) {
		text := "(service " + log.service.Name + ") " + fmt.Sprintf(e.text, len(by[zone]), zone)
		for _, t := range by[zone] {
			text += " (task " + t.ID + ")"
		}
		log.events = append(log.events, service.Event{Message: text + ".", Name: e.name})
	}
}

// listZones is "3 tasks in AZ, 1 tasks in AZ", the richest first.
func listZones(counts map[string]int) string {
	names := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(names, func(a, b string) int { return counts[b] - counts[a] })
	var out []string
	for _, name := range names {
		out = append(out, fmt.Sprintf("%d tasks in %s", counts[name], name))
	}
	return strings.Join(out, ", ")
}
