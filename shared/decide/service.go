package decide

import (
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	service "berth/shared/service"
	"berth/shared/state"
)

// rowsPerStart is the most rows that one start adds to a commit: the task, an alias and an outbox row.
const rowsPerStart = 3

// mostMarked is how many rows that a service's own refers to are written in one commit with it.
const mostMarked = 30

// rowsPerService are the service's own row, its service deployment's, an outbox row and a few service events.
const rowsPerService = 6

// service brings one service closer to what its row asks for: stops first, then what waits, then what is missing.
func (d *decider) service(s *cluster.Service) {
	p := service.Reconcile(d.input(s))
	d.shut[s.Short] = p.RefusedInstances
	log := newEventLog(s, p.Next)
	if !slices.Equal(s.Providers, p.Next.Providers) { // what a rollback starts goes by the strategy of that revision
		back := *s
		back.Providers = p.Next.Providers
		s = &back
	}
	for _, t := range p.LostTasks {
		d.plan.room(1)
		d.writeOff(t)
	}
	for _, t := range p.EndedPairs {
		d.plan.room(1)
		alone := *t
		alone.Replaces, alone.Rev = "", t.Rev+1
		d.plan.put(&alone)
	}
	next := log.service
	if d.snap.Governed()[s.Name] == nil || next.Status != cluster.ServiceActive {
		next.Moving, next.Unrepaired, next.Targets, next.GaveUp = false, "", nil, false // no rule asks for moves any more
	}
	log.told, log.coming, log.events = p.EmittedTargets, len(p.EventsAfter), p.EventsBefore
	if p.ThrottleCleared {
		d.unthrottle(s)
	}
	d.count(p.CountedFailures, log)
	d.stops(s, p, log)
	d.register(s, p, log)
	d.starts(s, p, log)
	d.finish(s, p, log)
}

// unthrottle has the throttle's row say that nothing is slowed down any more.
func (d *decider) unthrottle(s *cluster.Service) {
	next := *d.snap.Throttle(s.Short)
	next.Rev++
	next.Revisions, next.Expires = map[string]cluster.Backoff{}, d.now.Add(d.settings.KeepStopped).Unix()
	d.plan.room(1)
	d.plan.put(&next)
}

// count has failures marked as counted together with the row that counts them. Very many take commits of their own, each
// with a row that has counted as many.
func (d *decider) count(failures []*cluster.Task, log *eventLog) {
	for len(failures) > mostMarked {
		row := *log.base
		row.Deployment.Failed += mostMarked
		d.plan.room(mostMarked + 1)
		d.mark(failures[:mostMarked])
		row.Rev++
		row.Stamp = 0
		d.plan.put(&row)
		d.plan.close()
		log.base, log.service.Rev = new(row), row.Rev
		failures = failures[mostMarked:]
	}
	log.counted = failures
}

func (d *decider) mark(failures []*cluster.Task) {
	for _, t := range failures {
		next := *t
		next.Counted, next.Rev = true, t.Rev+1
		d.plan.put(&next)
	}
}

// stops carries out what the plan stops, as many commits as it takes.
func (d *decider) stops(s *cluster.Service, p service.Plan, log *eventLog) {
	var running, moved []*cluster.Task
	pending := 0
	stop := func(t *cluster.Task, reason string) {
		d.plan.room(2)
		switch {
		case t.Last == cluster.TaskRunning && s.Rebalancing && d.snap.Replaced(t):
			moved = append(moved, t)
		case t.Last == cluster.TaskRunning:
			running = append(running, t)
		default:
			pending++
		}
		if t.Instance == "" {
			d.plan.put(d.ended(t, cluster.StopByScheduler, reason))
			d.waiting[d.strategic(t)]--
			return
		}
		d.plan.stop(t, cluster.StopByScheduler, reason)
	}
	for _, x := range p.Stops {
		stop(x.Task, x.Reason)
	}
	for _, c := range p.Choices {
		for _, t := range d.engine.ChooseStops(d.stopRequest(s, c), c.Candidates) {
			stop(t, c.Reason)
		}
	}
	if len(running) > 0 {
		log.add(service.TasksStoppedMessage(s.Name, ids(running)))
	}
	if pending > 0 {
		log.add(service.PendingTasksStoppedMessage(s.Name, pending))
	}
	d.tellZones(moved, log, zoneStopped)
}

func ids(tasks []*cluster.Task) []string {
	out := make([]string, len(tasks))
	for i, t := range tasks {
		out[i] = t.ID
	}
	return out
}

// stopRequest asks which of the candidates, all of one revision, to stop. Without its task definition the service has no
// strategy.
func (d *decider) stopRequest(s *cluster.Service, c service.Choice) placement.Request {
	def := d.snap.Definitions[c.Candidates[0].TaskDefinition]
	if def == nil {
		def = &cluster.TaskDefinition{}
	}
	return d.serviceRequest(s, def, c.Count)
}

// finish writes the service's row if anything about it changed.
func (d *decider) finish(s *cluster.Service, p service.Plan, log *eventLog) {
	next := log.service
	if next.Status == cluster.ServiceInactive && next.Expires == 0 {
		// Long enough for a sweep to retire its events with it.
		next.Expires = d.now.Add(2*d.settings.KeepStopped + time.Hour).Unix()
	}
	if s.Strategy == cluster.Daemon {
		d.reserve(s)
	}
	d.recount(next)
	d.waits(s, p, log)
	d.tellPlacement(s, log)
	log.events = append(log.events, p.EventsAfter...)
	d.rebalance(s, p, log)
	d.tellSteady(s, p, log)
	if !p.ReconsiderAt.IsZero() {
		d.plan.due(state.DueService, s.Name, p.ReconsiderAt)
	}
	if log.changed() {
		d.flush(log)
	}
}

// waits notes since when tasks find no instance, and has the service looked at when others are to make room for them.
func (d *decider) waits(s *cluster.Service, p service.Plan, log *eventLog) {
	next := log.service
	switch {
	case next.Blocked == nil:
		next.BlockedSince = time.Time{}
		return
	case s.BlockedSince.IsZero() || log.placed || len(p.Stops)+len(p.Choices) > 0:
		next.BlockedSince = d.now
	}
	if at := next.BlockedSince.Add(service.RoomTimeout(s)); p.MakesRoom && at.After(d.now) {
		d.plan.due(state.DueService, s.Name, at)
	}
}

// recount has the service's row show the tasks as the plan leaves them.
func (d *decider) recount(s *cluster.Service) {
	s.Running, s.Pending, s.Deployment.Running, s.Deployment.Pending = 0, 0, 0, 0
	by := map[string]*cluster.Deployment{"": &s.Deployment, s.Deployment.ID: &s.Deployment}
	s.Older = slices.Clone(s.Older)
	for i := range s.Older {
		s.Older[i].Running, s.Older[i].Pending = 0, 0
		by[s.Older[i].ID] = &s.Older[i]
	}
	for _, t := range d.snap.Owned(s.Short) {
		if !t.Active() || t.Holds() && d.host(t.Instance) == service.InstanceDeregistered {
			continue
		}
		of := by[t.Revision]
		if of == nil {
			of = &cluster.Deployment{}
		}
		if t.Last == cluster.TaskRunning {
			s.Running, of.Running = s.Running+1, of.Running+1
		} else {
			s.Pending, of.Pending = s.Pending+1, of.Pending+1
		}
	}
}

// tellPlacement tells of tasks that found no instance: again only when it is for another reason, or for the same after 6
// hours.
func (d *decider) tellPlacement(s *cluster.Service, log *eventLog) {
	next := log.service
	about := service.PlacementKeyPrefix + cause(next.Blocked)
	lasting := []string{about}
	if log.limited {
		lasting = append(lasting, provisioningLimit)
	}
	if next.Rebalancing {
		lasting = append(lasting, noRoomInZone)
	}
	log.forget(lasting...)
	if next.Blocked == nil {
		return
	}
	log.say(about, d.now, service.Event{
		Message: service.UnableToPlaceMessage(s.Name, next.Blocked), Name: placementFailed, Reason: next.Blocked.Failure(),
	})
}

// tellSteady tells that a service has come to rest.
func (d *decider) tellSteady(s *cluster.Service, p service.Plan, log *eventLog) {
	if p.Steady && !s.Steady && s.Status == cluster.ServiceActive {
		log.events = append(log.events, service.Event{Message: service.SteadyStateMessage(s.Name), Name: "SERVICE_STEADY_STATE"})
		if d.snap.Governed()[s.Name] != nil { // those that went may have left the others where a rule is broken
			d.plan.due(state.DueService, s.Name, d.now)
		}
	}
	log.service.Steady = p.Steady
}

// flush writes the service's row, its new events and the rows that go with it into the open commit.
func (d *decider) flush(log *eventLog) {
	next := *log.service
	if d.plan.keys[state.KeyOf(&next)] {
		d.plan.close() // the open commit has the row already
	}
	for len(log.told) > mostMarked {
		d.tell(log.told[:mostMarked])
		log.told = log.told[mostMarked:]
	}
	for len(log.events) > mostMarked {
		d.plan.room(mostMarked + 1)
		d.events(&next, log.events[:mostMarked])
		log.events = log.events[mostMarked:]
	}
	d.plan.room(log.rows())
	d.mark(log.counted)
	d.tell(log.told)
	d.events(&next, log.events)
	if r := next.Release; r != nil && (log.base.Release == nil || log.base.Release.ID != r.ID || log.base.Release.Status != r.Status) {
		d.plan.add(state.Write{Any: true, Put: d.history(&next)})
	}
	next.Rev++
	next.Stamp = 0
	d.plan.put(&next)
	log.service, log.base = new(next), new(next) // what is planned must not change any more
	log.events, log.counted, log.told = nil, nil, nil
}

// events writes service events, to the ring and where it is wanted to the event bus, and counts them.
func (d *decider) events(s *cluster.Service, events []service.Event) {
	d.publish(s, events)
	for _, e := range events {
		if e.Message != "" {
			d.plan.add(state.Write{Any: true, Put: ServiceEvent(s, e.Message, d.now)})
			s.Events++
		}
	}
}

// history is the row of the service's current service deployment.
func (d *decider) history(s *cluster.Service) *cluster.ServiceDeployment {
	return &cluster.ServiceDeployment{
		Head:    cluster.Head{Cluster: s.Cluster, Expires: d.now.Add(KeepHistory).Unix()},
		Service: s.Name, Short: s.Short, Release: *s.Release,
	}
}
