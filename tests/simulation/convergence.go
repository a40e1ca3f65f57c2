package simulation

import (
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/invariant"
	"berth/tests/simulation/model"
)

// checkConverged checks what must hold once faults have ended and time has passed (invariants 8 and
// 9).
func (w *World) checkConverged() {
	// Draining instances are checked every ten minutes; wait for such a check to end.
	for n := 0; n < 100 && !w.Runtime.IsIdle(); n++ {
		w.runUntil(w.Loop.Now().Add(100 * time.Millisecond))
	}
	w.checkNothingPending()
	w.checkAgainstECS()
	w.checkRegistrations()
	w.checkRepairs()
	w.client.checkAcknowledgedTasks()
	if c := w.client.configuration; c != nil && !sameConfiguration(c, w.checker.ConfigurationRow()) {
		w.checker.Fail("invariant 9: the configuration %+v was acknowledged and is %+v", c,
			w.checker.ConfigurationRow())
	}
	for _, s := range w.client.services {
		if !s.busy {
			w.checkAcknowledgedService(s)
		}
	}
}

// checkNothingPending checks that no work is left: no messages, no processes, no outbox rows, no
// unanswered requests, no overdue due rows, and no waiting task for which there is room.
func (w *World) checkNothingPending() {
	fail := w.checker.Fail
	if !w.Runtime.IsIdle() {
		fail("invariant 8: messages or records are still in progress")
	}
	for name, n := range w.runningByName {
		if n > 0 {
			fail("invariant 8: %d of %s are still in progress", n, name)
		}
	}
	for key, row := range w.checker.Rows {
		switch r := row.(type) {
		case *state.Outbox:
			fail("invariant 8: outbox row %s is left: %+v", key.Sort, r)
		case *state.Request:
			if !r.Answered {
				fail("invariant 8: request %s was never answered", r.ID)
			}
		case *state.Due:
			if w.Loop.Now().Sub(r.At) > 15*time.Minute {
				fail("invariant 8: due row %s is long overdue", key.Sort)
			}
		case *cluster.Task:
			if r.IsProvisioning() && !w.checker.IsOfFailedDeployment(r) && w.hasRoom(w.checker.SpecOfTask(r), "") {
				fail("invariant 8: task %s of %q waits for an instance, and there is room", r.ID, r.Service)
			}
			if r.IsProvisioning() && !r.WaitUntil.IsZero() && w.Loop.Now().Sub(r.WaitUntil.Time()) > 15*time.Minute {
				fail("invariant 8: task %s waits for an instance long after its wait limit", r.ID)
			}
		}
	}
}

// checkAgainstECS compares rows with what the simulated ECS runs. Each running ECS task must have
// exactly one row that holds it, and each row that holds capacity an ECS task in the same status.
func (w *World) checkAgainstECS() {
	fail := w.checker.Fail
	rows := map[string]*cluster.Task{}
	for _, on := range w.checker.ByInstance {
		for _, t := range on {
			if t.ECSID == "" {
				fail("invariant 8: row %s (%s) holds capacity on %s, and has no ECS task", t.ID, t.Status(), t.Instance)
			}
			rows[t.ECSID] = t
		}
	}
	for _, t := range w.AWS.Machines.TaskTruths(clusterName) {
		row := rows[t.ID]
		delete(rows, t.ID)
		switch {
		case t.Last == cluster.TaskStopped && row != nil:
			fail("invariant 8: ECS says task %s is STOPPED, its row %s says %s", t.ID, row.ID, row.Status())
		case t.Last != cluster.TaskStopped && row == nil:
			fail("invariant 2: ECS runs task %s (started by %s on %s), and no row wants it", t.ID, t.StartedBy,
				t.Instance)
		case t.Last == cluster.TaskRunning && row != nil && row.Last != cluster.TaskRunning:
			fail("invariant 8: ECS says task %s is RUNNING, its row %s says %s", t.ID, row.ID, row.Status())
		}
	}
	for _, t := range rows {
		fail("invariant 8: row %s (%s, ECS task %q) holds capacity on %s, and ECS has no such task", t.ID, t.Status(),
			t.ECSID, t.Instance)
	}
}

// checkAcknowledgedTasks checks that no acknowledged task is lost, and that acknowledged stops
// happened.
func (c *apiClient) checkAcknowledgedTasks() {
	there := map[string]*cluster.Task{}
	for _, owned := range c.world.checker.ByOwner {
		for _, t := range owned {
			there[t.ID] = t
		}
	}
	for _, id := range c.taskIDs {
		t, ended := there[id], c.world.checker.StoppedIDs[id]
		switch {
		case t == nil && !ended:
			c.world.checker.Fail("invariant 9: task %s was acknowledged and does not exist", id)
		case c.stoppedIDs[id] && !ended:
			c.world.checker.Fail("invariant 9: stopping task %s was acknowledged, and it is %s", id, t.Status())
		case !ended && !t.IsProvisioning() && t.Status() != cluster.TaskRunning:
			c.world.checker.Fail("invariant 8: task %s stays %s", id, t.Status())
		}
	}
}

// checkAcknowledgedService checks that a service has what the API last acknowledged, and runs its
// tasks or says why not.
func (w *World) checkAcknowledgedService(s *expectedService) {
	row, ok := w.serviceRow(s.name)
	if !s.exists {
		if ok && row.Status != cluster.ServiceInactive {
			w.checker.Fail("invariant 8: service %s was deleted and is %s", s.name, row.Status)
		}
		return
	}
	if !ok || row.Status != cluster.ServiceActive {
		w.checker.Fail("invariant 9: service %s was acknowledged and is gone", s.name)
		return
	}
	if s.rules != nil && !sameRules(row.Rules, *s.rules) {
		w.checker.Fail("invariant 9: service %s was given the rules %+v and has %+v", s.name, *s.rules, row.Rules)
	}
	if s.daemon {
		w.checkDaemons(row, w.runningPerInstance(row), s.rulesChanged)
	}
	w.checkServiceAtRest(s, row)
}

func (w *World) runningPerInstance(s *cluster.Service) map[string]int {
	on := map[string]int{}
	for _, t := range w.checker.ByOwner[s.Short] {
		if t.IsActive() && t.Last == cluster.TaskRunning {
			on[t.Instance]++
		}
	}
	return on
}

// checkServiceAtRest compares a service at rest with the model.
func (w *World) checkServiceAtRest(s *expectedService, row *cluster.Service) {
	if s.external {
		w.checkTaskSetsAtRest(s, row)
		return
	}
	history := w.checker.Deployments[row.Short]
	if history == nil {
		w.checker.Fail("invariant 8: no commit created service %s", s.name)
		return
	}
	service := invariant.ModelService(row)
	if s.desired != unknownCount && !s.daemon {
		service.Desired = s.desired
	}
	for _, why := range service.CheckAtRest(history, w.modelSurroundings(row), w.observeService(row)) {
		w.checker.Fail("invariant 8: service %s: %s", s.name, why)
	}
	if row.Strategy == cluster.Replica && row.Blocked != nil && row.Running < row.Desired {
		w.checkBlockedEvent(row)
	}
	if history.Primary.State == model.Completed && row.Running == row.Desired && row.Pending == 0 && !row.Steady {
		w.checker.Fail("invariant 8: service %s runs all its %d tasks and is not steady", s.name, row.Running)
	}
}

// checkPromptStarts checks that a new revision starts at once if it can, regardless of the failures
// of the previous one (S7).
func (w *World) checkPromptStarts() {
	for _, s := range w.client.services {
		row, ok := w.serviceRow(s.name)
		if !ok || s.busy || !s.exists || s.external || row.Strategy != cluster.Replica || w.LoseEvents ||
			row.Deployment.CreatedAt.Before(epoch.Add(w.historySpan)) ||
			w.Loop.Now().Sub(row.Deployment.CreatedAt) < promptStart {
			continue
		}
		service, active, started, protected := invariant.ModelService(row), 0, 0, 0
		for _, t := range w.checker.ByOwner[row.Short] {
			if t.IsActive() {
				active++
			}
			if t.IsActive() && w.checker.IsProtected(t) {
				protected++
			}
			if t.Revision == row.Deployment.ID {
				started++
			}
		}
		mayStart := active < max(service.Ceiling(service.Desired), service.Desired) || active > max(protected, service.Floor(service.Desired))
		if started == 0 && service.Desired > 0 && mayStart && !w.checker.LastFailedStart(row).IsZero() &&
			w.hasRoom(w.checker.SpecOfService(row), "") {
			w.checker.Fail("invariant 8: service %s was given a new revision %s ago, and no task of that revision was started", row.Name, promptStart)
		}
	}
}

// promptStart is how soon after an update, without faults, its first task must be started.
const promptStart = 8 * time.Minute

// modelSurroundings describes the service's cluster for the model.
func (w *World) modelSurroundings(s *cluster.Service) model.Surroundings {
	spec := w.checker.SpecOfService(s)
	out := model.Surroundings{HasRoom: w.hasRoom(spec, ""), TrustsHealth: w.checker.TrustsHealth()}
	if spec == nil {
		return out
	}
	if s.Strategy == cluster.Replica && invariant.BalancesZones(s, spec) && !w.checker.IsLimited(spec) {
		out.Zones = map[string]bool{}
	}
	toStart, moves := w.checker.SpecToStart(s), *spec
	moves.Providers = w.checker.ProvidersInFullestZones(s)
	for _, i := range w.instances() {
		if out.Zones != nil && i.IsAvailable() { // rebalancing relaxes no rule and uses no buffer (P14)
			out.Zones[i.Zone()] = out.Zones[i.Zone()] ||
				w.checker.WhyRejected(&moves, i, invariant.RoomQuery{Unbuffered: true}) == ""
		}
		if !spec.Daemon {
			continue
		}
		if suits := invariant.MissingAttribute(i, spec.Def) == "" &&
			spec.UntoleratedTaint(i, invariant.NoExecute) == ""; suits && i.Status == cluster.InstanceActive {
			out.Eligible = append(out.Eligible, i.ID)
			if toStart != nil && w.checker.WhyRejected(toStart, i, invariant.RoomQuery{}) == "" {
				out.WithRoom = append(out.WithRoom, i.ID)
			}
		} else if suits && i.Status == cluster.InstanceDraining && w.checker.HasOtherTasks(i, s.Short) {
			out.KeepingTask = append(out.KeepingTask, i.ID)
		}
	}
	return out
}

// observeService describes the service's row and tasks for the model, or the PRIMARY task set and
// its tasks. Of a task and its replacement only the replacement counts, unless both are wanted.
func (w *World) observeService(s *cluster.Service) model.Observed {
	_, stuck := s.EmittedKeys["stuck"]
	out := model.Observed{
		Status: string(s.Status), Deployments: []string{s.Deployment.ID}, State: string(s.Deployment.State),
		Desired: s.Desired,
		ByZone:  map[string]int{}, Explained: s.Blocked != nil || stuck || len(s.Unrepaired) > 0,
		Crowded: s.Blocked != nil && s.Blocked.StopsWouldHelp() && w.fitsEmptyInstance(w.checker.SpecOfService(s)),
	}
	for _, d := range s.Older {
		out.Deployments = append(out.Deployments, d.ID)
	}
	if s.Release != nil {
		out.Release = string(s.Release.Status)
	}
	moving, pairs := w.checker.ReplacedTasks(s.Short, nil), w.checker.CountPairsAsOne(s)
	for _, t := range w.checker.ByOwner[s.Short] {
		switch {
		case !t.IsActive() || t.IsProvisioning() || s.Deployment.Set != nil && t.Revision != s.Deployment.ID:
			continue
		case moving[t.ID] && pairs > 0:
			pairs--
			continue
		}
		out.Tasks = append(out.Tasks, w.checker.ModelTask(s, t))
		out.InstanceOf = append(out.InstanceOf, t.Instance)
		if i := w.checker.InstanceRows[t.Instance]; i != nil {
			out.ByZone[i.Zone()]++
		}
	}
	return out
}

// fitsEmptyInstance reports whether some instance would take a task of the spec if it were empty.
// It answers false for specs with domain rules, metrics or an application's limits.
func (w *World) fitsEmptyInstance(spec *invariant.TaskSpec) bool {
	if spec == nil || spec.Policy != "" || len(spec.Rules.Metrics) > 0 || w.checker.IsLimited(spec) {
		return false
	}
	return slices.ContainsFunc(w.instances(), func(i *cluster.Instance) bool {
		r := i.Registered
		return i.Status == cluster.InstanceActive && !invariant.IsCordoned(i) &&
			invariant.MissingAttribute(i, spec.Def) == "" &&
			spec.UntoleratedTaint(i, invariant.NoSchedule, invariant.NoExecute) == "" &&
			spec.UnmetConstraint(w.checker.EvaluationOf(i, nil)) == "" &&
			spec.Needs.CPU <= r.CPU && spec.Needs.Memory <= r.Memory && spec.Needs.GPUs <= len(r.GPUs) &&
			spec.Needs.ENIs == 0
	})
}

// checkBlockedEvent checks that an event says why tasks are missing.
func (w *World) checkBlockedEvent(s *cluster.Service) {
	if s.Events > cluster.EventRing {
		return // the event may have been emitted and expired since
	}
	var messages []string
	for _, row := range w.checker.Rows {
		e, ok := row.(*cluster.ServiceEvent)
		if ok && e.Service == s.Short && strings.Contains(e.Message, "unable to place a task") {
			return
		}
		if ok && e.Service == s.Short {
			messages = append(messages, e.Message)
		}
	}
	w.checker.Fail("invariant 8: service %s misses tasks (%s) and no event says why, only %q", s.Name, s.Blocked, messages)
}

// checkDaemons checks that a DAEMON service runs one task on each instance where it should and can,
// and none elsewhere. Constraints changed while they run apply to new tasks until the next
// deployment (S4).
func (w *World) checkDaemons(s *cluster.Service, running map[string]int, reruled bool) {
	spec := w.checker.SpecOfService(s)
	if spec == nil {
		return
	}
	toStart := w.checker.SpecToStart(s)
	for _, i := range w.instances() {
		n := running[i.ID]
		if n > 1 || n == 0 && w.hasRoom(toStart, i.ID) && w.hasRoom(spec, i.ID) {
			w.checker.Fail("invariant 8: daemon %s runs %d tasks on instance %s", s.Name, n, i.ID)
		}
		if n > 0 && invariant.MissingAttribute(i, spec.Def) != "" {
			w.checker.Fail("invariant 4: daemon %s runs on instance %s without attribute %s", s.Name, i.ID,
				invariant.MissingAttribute(i, spec.Def))
		}
		if x := spec.UnmetConstraint(w.checker.EvaluationOf(i, nil)); n > 0 && x != "" && !reruled &&
			w.checker.ConfigurationRow().Priorities.Placement == 0 {
			w.checker.Fail("invariant 4: daemon %s runs on instance %s, where %q does not hold", s.Name, i.ID, x)
		}
	}
}

// hasRoom reports whether some instance, or the one given, could take a task. It asks the checker
// about each instance as ECS has it.
func (w *World) hasRoom(spec *invariant.TaskSpec, instance string) bool {
	if spec == nil {
		return false
	}
	for _, i := range w.instances() {
		if (instance == "" || i.ID == instance) && w.checker.WhyRejected(spec, i,
			invariant.RoomQuery{Relaxed: !spec.Daemon, Reserved: !spec.Daemon}) == "" {
			return true
		}
	}
	return false
}
