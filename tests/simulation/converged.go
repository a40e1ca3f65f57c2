package simulation

import (
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
	"berth/tests/simulation/model"
)

// converged checks what has to hold once faults have stopped and time has passed (invariants 8 and 9).
func (w *World) converged() {
	// A draining instance is looked at every ten minutes: not at that moment.
	for n := 0; n < 100 && !w.Runtime.IsIdle(); n++ {
		w.until(w.Loop.Now().Add(100 * time.Millisecond))
	}
	w.atRest()
	w.truth()
	w.registered()
	w.mended()
	w.client.kept()
	if c := w.client.config; c != nil && !sameConfiguration(c, w.checker.configuration()) {
		w.checker.fail("invariant 9: the configuration %+v was acknowledged and is %+v", c, w.checker.configuration())
	}
	for _, s := range w.client.services {
		if !s.busy {
			w.acknowledged(s)
		}
	}
}

// atRest checks that nothing is left to be done.
func (w *World) atRest() {
	fail := w.checker.fail
	if !w.Runtime.IsIdle() {
		fail("invariant 8: messages or records are still under way")
	}
	for name, n := range w.alive {
		if n > 0 {
			fail("invariant 8: %d of %s are still under way", n, name)
		}
	}
	for key, row := range w.checker.rows {
		switch r := row.(type) {
		case *state.Outbox:
			fail("invariant 8: outbox row %s is still there: %+v", key.Sort, r)
		case *state.Request:
			if !r.Answered {
				fail("invariant 8: request %s was never answered", r.ID)
			}
		case *state.Due:
			if w.Loop.Now().Sub(r.At) > 15*time.Minute {
				fail("invariant 8: due row %s is long past", key.Sort)
			}
		case *cluster.Task:
			if r.IsProvisioning() && !w.checker.ofFailed(r) && w.room(w.checker.lawOf(r), "") {
				fail("invariant 8: task %s of %q waits for an instance, and there is room for it", r.ID, r.Service)
			}
			if r.IsProvisioning() && !r.WaitUntil.IsZero() && w.Loop.Now().Sub(r.WaitUntil.Time()) > 15*time.Minute {
				fail("invariant 8: task %s waits for an instance long after its time was up", r.ID)
			}
		}
	}
}

// ofFailed reports whether a task is of a deployment that has failed: that starts none any more.
func (c *checker) ofFailed(t *cluster.Task) bool {
	s, ok := c.rows[state.ServiceKey(clusterName, t.Service)].(*cluster.Service)
	return ok && s.Deployment.ID == t.Revision && s.Deployment.State == cluster.RolloutFailed
}

// truth compares rows with what really runs.
func (w *World) truth() {
	fail := w.checker.fail
	rows := map[string]*cluster.Task{}
	for _, on := range w.checker.on {
		for _, t := range on {
			if t.ECSID == "" {
				fail("invariant 8: row %s (%s) holds capacity on %s, and no ECS task is known", t.ID, t.Status(), t.Instance)
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
			fail("invariant 2: ECS runs task %s (started by %s on %s), and no row wants it", t.ID, t.StartedBy, t.Instance)
		case t.Last == cluster.TaskRunning && row != nil && row.Last != cluster.TaskRunning:
			fail("invariant 8: ECS says task %s is RUNNING, its row %s says %s", t.ID, row.ID, row.Status())
		}
	}
	for _, t := range rows {
		fail("invariant 8: row %s (%s, ECS task %q) holds capacity on %s, and ECS has no such task", t.ID, t.Status(), t.ECSID, t.Instance)
	}
}

// kept checks that no task that a caller was given is lost, and that what was to be stopped did.
func (c *customer) kept() {
	there := map[string]*cluster.Task{}
	for _, owned := range c.world.checker.owned {
		for _, t := range owned {
			there[t.ID] = t
		}
	}
	for _, id := range c.tasks {
		t, ended := there[id], c.world.checker.ended[id]
		switch {
		case t == nil && !ended:
			c.world.checker.fail("invariant 9: task %s was acknowledged and is not there", id)
		case c.stops[id] && !ended:
			c.world.checker.fail("invariant 9: stopping task %s was acknowledged, and it is %s", id, t.Status())
		case !ended && !t.IsProvisioning() && t.Status() != cluster.TaskRunning:
			c.world.checker.fail("invariant 8: task %s is %s for good", id, t.Status())
		}
	}
}

// acknowledged checks that a service is as the API last said, and runs what it should or says why not.
func (w *World) acknowledged(s *wanted) {
	row, ok := w.checker.rows[state.ServiceKey(clusterName, s.name)].(*cluster.Service)
	if !s.exists {
		if ok && row.Status != cluster.ServiceInactive {
			w.checker.fail("invariant 8: service %s was deleted and is %s", s.name, row.Status)
		}
		return
	}
	if !ok || row.Status != cluster.ServiceActive {
		w.checker.fail("invariant 9: service %s was acknowledged and is gone", s.name)
		return
	}
	if s.rules != nil && !sameRules(row.Rules, *s.rules) {
		w.checker.fail("invariant 9: service %s was given the rules %+v and has %+v", s.name, *s.rules, row.Rules)
	}
	if s.daemon {
		w.daemons(row, w.runningOf(row), s.reruled)
	}
	w.rested(s, row)
}

func (w *World) runningOf(s *cluster.Service) map[string]int {
	on := map[string]int{}
	for _, t := range w.checker.owned[s.Short] {
		if t.IsActive() && t.Last == cluster.TaskRunning {
			on[t.Instance]++
		}
	}
	return on
}

// rested holds a service that is at rest against the model.
func (w *World) rested(s *wanted, row *cluster.Service) {
	course := w.checker.courses[row.Short]
	if course == nil {
		w.checker.fail("invariant 8: nobody saw service %s come", s.name)
		return
	}
	is := asked(row)
	if s.desired != unknown && !s.daemon {
		is.Desired = s.desired
	}
	for _, why := range is.Rest(course, w.around(row), w.seen(row)) {
		w.checker.fail("invariant 8: service %s: %s", s.name, why)
	}
	if row.Strategy == cluster.Replica && row.Blocked != nil && row.Running < row.Desired {
		w.said(row)
	}
	if course.Primary.State == model.Completed && row.Running == row.Desired && row.Pending == 0 && !row.Steady {
		w.checker.fail("invariant 8: service %s runs all its %d tasks and is not said to be steady", s.name, row.Running)
	}
}

// prompt checks that a new revision starts at once where it can, whatever became of the one before (S7).
func (w *World) prompt() {
	for _, s := range w.client.services {
		row, ok := w.checker.rows[state.ServiceKey(clusterName, s.name)].(*cluster.Service)
		if !ok || s.busy || !s.exists || row.Strategy != cluster.Replica || w.LoseEvents || row.Deployment.CreatedAt.Before(epoch.Add(w.span)) ||
			w.Loop.Now().Sub(row.Deployment.CreatedAt) < promptly {
			continue
		}
		is, active, own, fixed := asked(row), 0, 0, 0
		for _, t := range w.checker.owned[row.Short] {
			if t.IsActive() {
				active++
			}
			if t.IsActive() && w.checker.protected(t) {
				fixed++
			}
			if t.Revision == row.Deployment.ID {
				own++
			}
		}
		open := active < max(is.Ceiling(is.Desired), is.Desired) || active > max(fixed, is.Floor(is.Desired))
		if own == 0 && is.Desired > 0 && open && !w.checker.lastFailure(row).IsZero() && w.room(w.checker.serviceLaw(row), "") {
			w.checker.fail("invariant 8: service %s was given a new revision %s ago, and nothing of it was started", row.Name, promptly)
		}
	}
}

// promptly is how soon after an update, without faults, its first task is started.
const promptly = 8 * time.Minute

// around is what the service finds around it.
func (w *World) around(s *cluster.Service) model.Surroundings {
	law := w.checker.serviceLaw(s)
	out := model.Surroundings{Room: w.room(law, ""), Believed: w.checker.believed()}
	if law == nil {
		return out
	}
	if s.Strategy == cluster.Replica && zonal(s, law) {
		out.Zones = map[string]bool{}
	}
	starts, moves := w.checker.launches(s), *law
	moves.providers = w.checker.movedWith(s)
	for _, i := range w.instances() {
		if out.Zones != nil && i.IsAvailable() { // no rule is given up for balance, and no buffer used (P14)
			out.Zones[i.Zone()] = out.Zones[i.Zone()] || w.checker.refuses(&moves, i, posture{unbuffered: true}) == ""
		}
		if !law.daemon {
			continue
		}
		if suits := lacking(i, law.def) == ""; suits && i.Status == cluster.InstanceActive {
			out.Eligible = append(out.Eligible, i.ID)
			if starts != nil && w.checker.refuses(starts, i, posture{}) == "" {
				out.Roomy = append(out.Roomy, i.ID)
			}
		} else if suits && i.Status == cluster.InstanceDraining && w.checker.others(i, s.Short) {
			out.Kept = append(out.Kept, i.ID)
		}
	}
	return out
}

// launches is the law of the tasks that a DAEMON service starts: of a deployment that has failed none, but of the one before,
// unless that never was completed and has nothing that runs.
func (l *ledger) launches(s *cluster.Service) *law {
	switch {
	case s.Deployment.State != cluster.RolloutFailed:
		return l.serviceLaw(s)
	case len(s.Older) > 0 && (s.Older[0].State == cluster.RolloutCompleted || s.Older[0].State != cluster.RolloutFailed && l.runs(s.Older[0].ID)):
		return l.revisionLaw(s, s.Older[0].ID, s.Older[0].TaskDefinition)
	}
	return nil
}

// runs reports whether a task of the deployment is RUNNING.
func (l *ledger) runs(deployment string) bool {
	for _, owned := range l.owned {
		for _, t := range owned {
			if t.Revision == deployment && t.IsActive() && t.Last == cluster.TaskRunning {
				return true
			}
		}
	}
	return false
}

// zonal reports that the service's zones are balanced (S13).
func zonal(s *cluster.Service, law *law) bool {
	if !s.ZoneRebalancing || law.policy != "" || law.rules.Scoring != "" || s.MaxPercent <= 100 {
		return false
	}
	for _, c := range law.constraints() {
		if strings.Contains(c.Expression, cluster.AttributeZone) {
			return false
		}
	}
	first := law.rules.Strategies
	return len(first) == 0 || first[0].Type == cluster.StrategySpread && first[0].Field == "attribute:"+cluster.AttributeZone
}

// others reports that tasks of others than the daemon's run on the instance, that are no daemon's.
func (l *ledger) others(i *cluster.Instance, daemon string) bool {
	for _, t := range l.on[i.ID] {
		if s := l.service(t); t.Owner != daemon && (s == nil || s.Strategy != cluster.Daemon) {
			return true
		}
	}
	return false
}

// seen is the service as the model looks at it. Of a task and its replacement on another instance the first does not
// count, unless two are wanted.
func (w *World) seen(s *cluster.Service) model.Seen {
	_, stuck := s.EmittedKeys["stuck"]
	out := model.Seen{
		Status: string(s.Status), Deployments: []string{s.Deployment.ID}, State: string(s.Deployment.State), Desired: s.Desired,
		ByZone: map[string]int{}, Explained: s.Blocked != nil || stuck || len(s.Unrepaired) > 0,
		Crowded: s.Blocked != nil && s.Blocked.StopsWouldHelp() && w.holds(w.checker.serviceLaw(s)),
	}
	for _, d := range s.Older {
		out.Deployments = append(out.Deployments, d.ID)
	}
	if s.Release != nil {
		out.Release = string(s.Release.Status)
	}
	moving, pairs := w.checker.moving(s.Short, nil), w.checker.pairsLeft(s)
	for _, t := range w.checker.owned[s.Short] {
		switch {
		case !t.IsActive() || t.IsProvisioning():
			continue
		case moving[t.ID] && pairs > 0:
			pairs--
			continue
		}
		out.Tasks = append(out.Tasks, w.checker.told(s, t))
		out.On = append(out.On, t.Instance)
		if i := w.checker.known[t.Instance]; i != nil {
			out.ByZone[i.Zone()]++
		}
	}
	return out
}

// holds reports whether some instance, were it empty, would take a task of the law: as far as that is plain to see.
func (w *World) holds(law *law) bool {
	if law == nil || law.policy != "" || len(law.rules.Metrics) > 0 {
		return false
	}
	return slices.ContainsFunc(w.instances(), func(i *cluster.Instance) bool {
		r := i.Registered
		return i.Status == cluster.InstanceActive && !cordoned(i) && lacking(i, law.def) == "" && law.unmet(w.checker.scene(i, nil)) == "" &&
			law.needs.CPU <= r.CPU && law.needs.Memory <= r.Memory && law.needs.GPUs <= len(r.GPUs) && law.needs.ENIs == 0
	})
}

// said checks that the user was told why tasks are missing.
func (w *World) said(s *cluster.Service) {
	if s.Events > cluster.EventRing {
		return // it may have been said and pushed out since
	}
	var said []string
	for _, row := range w.checker.rows {
		e, ok := row.(*cluster.ServiceEvent)
		if ok && e.Service == s.Short && strings.Contains(e.Message, "unable to place a task") {
			return
		}
		if ok && e.Service == s.Short {
			said = append(said, e.Message)
		}
	}
	w.checker.fail("invariant 8: service %s is short of tasks (%s) and no event says why, only %q", s.Name, s.Blocked, said)
}

// daemons checks that a DAEMON service has its task wherever it should and could, and nowhere else.
// Constraints that changed while they ran count for new tasks only, until the next deployment (S4).
func (w *World) daemons(s *cluster.Service, running map[string]int, reruled bool) {
	law := w.checker.serviceLaw(s)
	if law == nil {
		return
	}
	starts := w.checker.launches(s)
	for _, i := range w.instances() {
		n := running[i.ID]
		if n > 1 || n == 0 && w.room(starts, i.ID) && w.room(law, i.ID) {
			w.checker.fail("invariant 8: daemon %s runs %d tasks on instance %s", s.Name, n, i.ID)
		}
		if n > 0 && lacking(i, law.def) != "" {
			w.checker.fail("invariant 4: daemon %s runs on instance %s without attribute %s", s.Name, i.ID, lacking(i, law.def))
		}
		if x := law.unmet(w.checker.scene(i, nil)); n > 0 && x != "" && !reruled && w.checker.configuration().Priorities.Placement == 0 {
			w.checker.fail("invariant 4: daemon %s runs on instance %s, where %q does not hold", s.Name, i.ID, x)
		}
	}
}

// room reports whether some instance (or the one named) could take a task: a full scan with rules of its own, over the
// instances as ECS has them.
func (w *World) room(law *law, instance string) bool {
	if law == nil {
		return false
	}
	for _, i := range w.instances() {
		if (instance == "" || i.ID == instance) && w.checker.refuses(law, i, posture{soft: !law.daemon}) == "" {
			return true
		}
	}
	return false
}
