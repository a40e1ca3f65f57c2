package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/placement"
	"berth/shared/service"
	"berth/shared/spelling"
	"berth/shared/state"
)

// reconcileService brings one service closer to its spec: stops first, then provisioning tasks,
// then missing ones. It reports whether it started a task.
func reconcileService(
	view *clusterView, commits *plan.Builder, changes *Changes, s *cluster.Service,
) (placed bool) {
	p := service.Reconcile(reconcileInput(view, s, commits.SeedFor(s.Name)))
	draft := newDraft(s, p.Next)
	draft.zonesWait = makesRoomFirst(view, changes, s)
	// a rollback starts tasks with the strategy of the revision it returns to
	if !slices.Equal(s.Providers, p.Next.Providers) {
		rolledBack := *s
		rolledBack.Providers = p.Next.Providers
		s = &rolledBack
	}
	recordFindings(view, commits, s, &p, draft)
	stopTasks(view, commits, s, &p, draft)
	separateReplacements(view, commits, &p)
	updateRegistrations(view, commits, draft.row, &p)
	draft.started = startTasks(view, commits, s, &p, draft)
	finishService(view, commits, s, &p, draft)
	return draft.started.placed
}

// recordFindings writes what the plan has found out about the service's tasks: those that are lost,
// a throttle that is over, and failed starts.
func recordFindings(
	view *clusterView, commits *plan.Builder, s *cluster.Service, p *service.Plan, draft *serviceDraft,
) {
	for _, t := range p.LostTasks {
		markTaskLost(view, commits, t)
	}
	if view.snap.GovernedServices()[s.Name] == nil || p.Next.Status != cluster.ServiceActive {
		clearMoves(draft.row)
	}
	draft.emitted, draft.after, draft.events, draft.counted = p.EmittedTargets, p.EventsAfter, p.EventsBefore,
		p.CountedFailures
	if p.ThrottleCleared {
		endThrottle(view, commits, s)
	}
	writeManyCounted(commits, draft)
}

// separateReplacements makes replacements tasks like any others: their pairs have ended. Those that
// are being stopped stay as they are, because a commit writes a row once.
func separateReplacements(view *clusterView, commits *plan.Builder, p *service.Plan) {
	for _, t := range p.EndedPairs {
		if now := view.snap.Task(t.Owner, t.ID); now == nil || now.Desired != cluster.TaskRunning {
			continue
		}
		commits.KeepTogether(1)
		alone := *t
		alone.Replaces, alone.Rev = "", t.Rev+1
		commits.PutRow(&alone)
	}
}

// endThrottle writes that nothing slows the service's starts down any more.
func endThrottle(view *clusterView, commits *plan.Builder, s *cluster.Service) {
	next := *view.snap.Throttle(s.Short)
	next.Rev++
	next.Revisions, next.Expires = map[string]cluster.Backoff{}, view.now.Add(view.settings.KeepStopped).Unix()
	commits.KeepTogether(1)
	commits.PutRow(&next)
}

// stopTasks stops what the plan stops, in as many commits as it takes.
func stopTasks(view *clusterView, commits *plan.Builder, s *cluster.Service, p *service.Plan, draft *serviceDraft) {
	var running []string
	var rebalanced []*cluster.Task
	starting := 0
	stop := func(t *cluster.Task, reason string) {
		commits.KeepTogether(2)
		switch {
		case t.Last == cluster.TaskRunning && s.Rebalancing && view.snap.HasReplacement(t):
			rebalanced = append(rebalanced, t)
		case t.Last == cluster.TaskRunning:
			running = append(running, t.ID)
		default:
			starting++
		}
		if t.Instance == "" {
			commits.PutRow(endedTask(view, t, cluster.StopByScheduler, reason))
			return
		}
		commits.AddStop(t, cluster.StopByScheduler, reason)
	}
	for _, x := range p.Stops {
		stop(x.Task, x.Reason)
	}
	for _, c := range p.Choices {
		for _, t := range view.engine.ChooseStops(stopRequest(view, commits, s, c), c.Candidates) {
			stop(t, c.Reason)
		}
	}
	if len(running) > 0 {
		draft.addMessage(service.TasksStoppedMessage(s.Name, running))
	}
	if starting > 0 {
		draft.addMessage(service.PendingTasksStoppedMessage(s.Name, starting))
	}
	draft.events = append(draft.events, zoneEvents(view, s, rebalanced, stoppedInZone)...)
}

// stopRequest asks which of the candidates, all of one revision, to stop. If their task definition
// is unknown, no strategy chooses.
func stopRequest(view *clusterView, commits *plan.Builder, s *cluster.Service, c service.Choice) placement.Request {
	def := view.snap.Definitions[c.Candidates[0].TaskDefinition]
	if def == nil {
		def = &cluster.TaskDefinition{}
	}
	r := serviceRequest(view, s, def, c.Count)
	r.Seed = commits.SeedFor(s.Name)
	return r
}

// finishService completes the service's row and writes it if anything about it changed.
func finishService(view *clusterView, commits *plan.Builder, s *cluster.Service, p *service.Plan, draft *serviceDraft) {
	next := draft.row
	if next.Status == cluster.ServiceInactive && next.Expires == 0 {
		// Long enough for a sweep to set the expiry of its events first.
		next.Expires = view.now.Add(2*view.settings.KeepStopped + time.Hour).Unix()
	}
	if s.Strategy == cluster.Daemon {
		reserveForDaemon(view, s)
	}
	countTasks(view, next)
	next.UnhealthySince = unhealthySince(view, next)
	setBlockedSince(s, next, view.now, len(p.Stops)+len(p.Choices) > 0)
	if at := next.BlockedSince.Add(service.RoomTimeout(s)); next.Blocked != nil && p.MakesRoom && at.After(view.now) {
		commits.ScheduleDue(state.DueService, s.Name, at)
	}
	emitBlocked(view, draft)
	draft.events, draft.after = append(draft.events, draft.after...), nil
	rebalanceZones(view, commits, s, p, draft)
	if p.Steady && !s.Steady && s.Status == cluster.ServiceActive {
		draft.events = append(draft.events, service.Event{Message: service.SteadyStateMessage(s.Name),
			Name: "SERVICE_STEADY_STATE"})
		// the tasks that left may have left others where they break a rule
		if view.snap.GovernedServices()[s.Name] != nil {
			commits.ScheduleDue(state.DueService, s.Name, view.now)
		}
	}
	next.Steady, next.EnoughHealthy = p.Steady, next.HasEnoughHealthy()
	if !p.ReconsiderAt.IsZero() {
		commits.ScheduleDue(state.DueService, s.Name, p.ReconsiderAt)
	}
	if draft.isChanged() {
		writeDraft(view, commits, draft)
	}
}

// setBlockedSince sets since when the service's tasks have found no room: since the service last stopped a
// task, or fewer were left than ever since. A task that ends and is started again, again and again, changes
// nothing for those that wait.
func setBlockedSince(s, next *cluster.Service, now time.Time, stops bool) {
	if next.Blocked == nil {
		next.BlockedSince = time.Time{}
		return
	}
	blocked := *next.Blocked
	if s.Blocked == nil || s.BlockedSince.IsZero() || stops || blocked.Unplaced < s.Blocked.Least {
		next.BlockedSince, blocked.Least = now, blocked.Unplaced
	} else {
		blocked.Least = s.Blocked.Least
	}
	next.Blocked = &blocked
}

// countTasks sets the counts of the service and its deployments to the tasks as the plan leaves
// them.
func countTasks(view *clusterView, s *cluster.Service) {
	s.Running, s.Pending, s.Deployment.Running, s.Deployment.Pending = 0, 0, 0, 0
	deployments := map[string]*cluster.Deployment{"": &s.Deployment, s.Deployment.ID: &s.Deployment}
	s.Older = slices.Clone(s.Older)
	for i := range s.Older {
		s.Older[i].Running, s.Older[i].Pending = 0, 0
		deployments[s.Older[i].ID] = &s.Older[i]
	}
	for _, t := range view.snap.TasksOf(s.Short) {
		if !t.IsActive() || t.HoldsCapacity() && view.instanceState(t.Instance) == service.InstanceDeregistered {
			continue
		}
		deployment := deployments[t.Revision]
		if deployment == nil {
			deployment = &cluster.Deployment{}
		}
		if t.Last == cluster.TaskRunning {
			s.Running, deployment.Running = s.Running+1, deployment.Running+1
		} else {
			s.Pending, deployment.Pending = s.Pending+1, deployment.Pending+1
		}
	}
}

// unhealthySince returns since when tasks of the service are RUNNING and unhealthy, zero if none is.
func unhealthySince(view *clusterView, s *cluster.Service) time.Time {
	targets := view.snap.Targets(s.Short)
	for _, t := range view.snap.TasksOf(s.Short) {
		if !t.IsActive() || t.Last != cluster.TaskRunning {
			continue
		}
		if t.Health != cluster.Unhealthy &&
			(len(targets) == 0 || targets[t.ID] == nil || targets[t.ID].WorstHealth() != cluster.Unhealthy) {
			continue
		}
		if s.UnhealthySince.IsZero() {
			return view.now
		}
		return s.UnhealthySince
	}
	return time.Time{}
}

// emitBlocked emits that tasks found no instance. It repeats the event only if the reason changes,
// or after some hours.
func emitBlocked(view *clusterView, draft *serviceDraft) {
	next := draft.row
	key := service.PlacementKeyPrefix + blockedCause(next.Blocked)
	kept := []string{key}
	if draft.started.limited {
		kept = append(kept, ProvisioningLimitKey)
	}
	if next.Rebalancing {
		kept = append(kept, zoneEventKey)
	}
	if next.Unrepaired != "" {
		kept = append(kept, UnrepairedKey)
	}
	names := idleNames(view, next)
	if names != "" {
		kept = append(kept, NamesKeyPrefix+names)
	}
	draft.keepPlacementKeys(kept...)
	if names != "" && service.MarkEmitted(next, NamesKeyPrefix+names, view.now) {
		unknown := spelling.List(spelling.CheckIdle(view.snap, next.Rules))
		draft.addMessage(service.UnknownNamesMessage(next.Name, unknown))
	}
	if next.Blocked == nil {
		return
	}
	draft.emitOnce(key, view.now, service.Event{
		Message: service.UnableToPlaceMessage(next.Name, next.Blocked), Name: placementFailed,
		Reason: next.Blocked.FailureReason(),
	})
}

// idleNames returns the names in the service's strategy and metrics that no instance has. They stop
// no task: they only have no effect.
func idleNames(view *clusterView, s *cluster.Service) string {
	if s.Status != cluster.ServiceActive || s.Desired == 0 && s.Strategy == cluster.Replica {
		return ""
	}
	return strings.Join(spelling.IdleNames(view.snap, s.Rules), " ")
}

// blockedCause returns why tasks found no instance, without the numbers that change all the time.
func blockedCause(d *cluster.Diagnosis) string {
	if d == nil {
		return ""
	}
	var filters []string
	for _, r := range d.Rejected {
		filters = append(filters, string(r.Filter)+r.Detail)
	}
	slices.Sort(filters)
	return fmt.Sprint(d.ClosestFilter, filters)
}
