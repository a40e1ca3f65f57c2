package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	service "berth/shared/service"
	"berth/shared/state"
)

// Tasks that break a rule where they are move: a replacement on another instance first, then the stop, within the
// service's percentages (P8, P10). What is under way is known from the rows alone: a task that replaces another names it.
// Plans are not kept. Moves go in waves: while one of a service is under way, nothing new is planned for that service, nor
// for the instances concerned, and what the next one needs is seen from where the tasks then are.

// MaxMoves is how many tasks of a cluster move at once (P15), and how many may be planned to make room for one service
// (P11).
const MaxMoves = 20

// movePatience is how long a replacement may take before others no longer wait for what comes of it to be told that
// nothing mends what is broken.
const movePatience = 15 * time.Minute

// targetsHold is how long tasks that were stopped first wait for the instance that the plan has for them.
const targetsHold = 5 * time.Minute

// moves begins what moves are to be made. It costs nothing where nothing has changed that a rule could rest on.
func (d *decider) moves(w *Work) {
	if !w.moves && !d.stirred(w) {
		return
	}
	movers := d.movers(w.moves)
	busy := d.underWay(movers)
	if len(movers) == 0 || busy.replacements >= MaxMoves {
		return
	}
	ask := placement.Moves{Owners: map[string]placement.Mover{}, Most: MaxMoves - busy.replacements}
	if len(busy.owners) > 0 || slices.ContainsFunc(movers, func(m *mover) bool { return len(d.snap.Protections(m.service.Short)) > 0 }) {
		ask.Keep = func(t *cluster.Task) bool { return busy.holds(t) || d.protected(t) }
	}
	for _, m := range movers {
		ask.Owners[m.service.Short] = m.Mover
	}
	plan := d.engine.PlanMoves(ask)
	steps := plan.Moves
	if len(steps) == 0 {
		steps = d.makeRoom(movers, busy, ask)
	}
	for _, step := range steps {
		i := slices.IndexFunc(movers, func(m *mover) bool { return m.service.Short == step.Owner })
		if i >= 0 {
			d.move(movers[i], step)
		}
	}
	d.conclude(movers, busy, plan, w.moves)
}

// conclude writes what has become of each service's moves. Those of which some are under way stay as they are; others wait,
// as what is under way elsewhere may yet do something for them, or make room.
func (d *decider) conclude(movers []*mover, busy *wave, plan *placement.Plan, changed bool) {
	began := slices.ContainsFunc(movers, func(m *mover) bool { return len(m.moves) > 0 })
	for _, m := range movers {
		broken := d.unrepaired(plan, m.service.Short)
		if broken != "" && m.Fixed {
			broken += "; " + m.stays()
		}
		switch {
		case busy.owners[m.service.Short]:
			continue
		case busy.young && len(m.moves) == 0 && (broken != "" || m.moving):
			m.moving, broken = true, m.service.Unrepaired
		case m.moving && !began && d.resting(m): // nothing will come of it by itself
			m.moving = false
			broken = strings.TrimPrefix(broken+"; "+m.stuck, "; ")
		}
		d.moved(m, broken, changed)
	}
}

// protected reports whether the task may not be stopped, and so not moved (S5).
func (d *decider) protected(t *cluster.Task) bool {
	p := d.snap.Protection(t.Owner, t.ID)
	return p != nil && p.Until.After(d.now)
}

// unprotected is when the first protection of the service's tasks ends; zero where there is none.
func (d *decider) unprotected(s *cluster.Service) (first time.Time) {
	for id, p := range d.snap.Protections(s.Short) {
		t := d.snap.Task(s.Short, id)
		if t != nil && t.Active() && d.protected(t) && (first.IsZero() || p.Until.Before(first)) {
			first = p.Until
		}
	}
	return first
}

// stirred reports whether something has happened to a service whose moves are under way, or that room may have come free
// for those that nothing could mend, or that tasks were placed, perhaps into a buffer, or a service was to be looked at now.
func (d *decider) stirred(w *Work) bool {
	governed := d.snap.Governed()
	if d.placed || anyKey(w.revisit, func(name string) bool { return governed[name] != nil }) {
		return true
	}
	for name := range w.Services {
		if s := d.snap.Services[name]; s != nil && s.Moving {
			return true
		}
	}
	if len(w.freed) == 0 {
		return false
	}
	for _, s := range governed {
		if s.Unrepaired != "" || s.Blocked != nil && lacksMetric(s.Blocked) {
			return true
		}
	}
	return false
}

// mover is a service whose tasks may have to move, and how they may.
type mover struct {
	placement.Mover
	service *cluster.Service
	def     *cluster.TaskDefinition
	allowed *service.Plan // what its percentages allow, once asked for
	moving  bool
	moves   []service.Move // begun
	targets []string       // of those that were stopped first
	stuck   string         // why nothing of what is planned begins, and nothing is under way that will allow it
}

// MoverOf is a service as moves of its tasks are planned. What its percentages never allow is not planned at all, so that it
// stands in nobody's way; gaveUp reports that stopping a task first has come to nothing, and is not tried.
func MoverOf(s *cluster.Service, spec *placement.Spec, gaveUp bool) placement.Mover {
	least, most := s.Bounds(s.Desired)
	startFirst := gaveUp || least >= s.Desired
	return placement.Mover{Name: "service " + s.Name, Spec: spec, Target: s.Desired, StartFirst: startFirst, Fixed: startFirst && most <= s.Desired}
}

// stays says why none of the service's tasks may move.
func (m *mover) stays() string {
	if least, _ := m.service.Bounds(m.service.Desired); least < m.service.Desired {
		return "a task that was stopped to move found no room in time"
	}
	return fmt.Sprintf("minimumHealthyPercent %d and maximumPercent %d leave no room to move a task", m.service.MinHealthy, m.service.MaxPercent)
}

// movers are the governed services, in order of name. What was stopped first once and came to nothing is not tried for ever:
// only when something has changed.
func (d *decider) movers(changed bool) []*mover {
	governed := d.snap.Governed()
	if len(governed) == 0 {
		return nil
	}
	var out []*mover
	for _, name := range slices.Sorted(maps.Keys(governed)) {
		s := governed[name]
		def := d.snap.Definitions[s.Deployment.TaskDefinition]
		if def != nil && s.Status == cluster.ServiceActive && s.Strategy == cluster.Replica {
			out = append(out, &mover{Mover: MoverOf(s, d.serviceRequest(s, def, 1).Spec, s.GaveUp && !changed), service: s, def: def})
		}
	}
	return out
}

// resting reports whether the service will not change by itself: what is not RUNNING waits for an instance.
func (d *decider) resting(m *mover) bool {
	p := m.allowed
	return len(p.Stops)+len(p.Choices)+len(p.Starts)+len(p.LostTasks) == 0 && p.ReconsiderAt.IsZero() && len(p.Next.Older) == 0 &&
		p.Next.Pending == d.snap.WaitingOf(m.service.Short)
}

// wave is what is under way: the owners of tasks that are being replaced, and the instances these leave and go to.
type wave struct {
	owners, instances map[string]bool
	replacements      int
	young             bool // some have not taken long
}

// holds reports whether the task has to stay until what is under way is over.
func (v *wave) holds(t *cluster.Task) bool { return v.owners[t.Owner] || v.instances[t.Instance] }

// underWay are the services of which a replacement has yet to take over, or a task that it took over from to stop.
func (d *decider) underWay(movers []*mover) *wave {
	out := &wave{owners: map[string]bool{}, instances: map[string]bool{}}
	for _, m := range movers {
		if !m.service.Moving {
			continue
		}
		replacing := service.Reconcile(d.input(m.service)).Moves.InProgress > 0
		if replacing {
			out.owners[m.service.Short] = true
		}
		for _, t := range d.snap.Owned(m.service.Short) {
			old := d.snap.Task(m.service.Short, t.Replaces)
			if !t.Active() || old == nil || !old.Holds() || !replacing && old.Active() {
				continue
			}
			out.owners[m.service.Short], out.instances[t.Instance], out.instances[old.Instance] = true, true, true
			out.replacements++
			out.young = out.young || d.now.Sub(t.CreatedAt.Time()) < movePatience
		}
	}
	return out
}

// makeRoom plans moves for the first service that has tasks which fit nowhere only as the metrics' capacity is scattered
// (P11).
func (d *decider) makeRoom(movers []*mover, busy *wave, ask placement.Moves) []placement.Move {
	if d.snap.Configuration.KeepInPlace {
		return nil
	}
	for _, m := range movers {
		if m.service.Blocked == nil || !lacksMetric(m.service.Blocked) || busy.owners[m.service.Short] {
			continue
		}
		r := d.serviceRequest(m.service, m.def, m.service.Blocked.Unplaced)
		if plan := d.engine.MakeRoom(r, ask); len(plan.Moves) > 0 {
			return plan.Moves
		}
	}
	return nil
}

func lacksMetric(diagnosis *cluster.Diagnosis) bool {
	return slices.ContainsFunc(diagnosis.Rejected, func(r cluster.Rejection) bool { return r.Filter == cluster.FilterMetric })
}

// move begins one move, if the service's percentages and the room there is now allow it: else it is planned anew when
// the service has come to rest, or when what it waits for is over.
func (d *decider) move(m *mover, step placement.Move) {
	t := d.snap.Task(m.service.Short, step.Task)
	if m.allowed == nil {
		m.allowed = new(service.Reconcile(d.input(m.service)))
	}
	stops := m.allowed.Moves.StopFirst > 0 && !m.StartFirst
	starts := m.allowed.Moves.StartFirst > 0 && step.Mode != placement.MoveStopFirst
	m.moving, m.stuck = true, "no instance has room for what has to be done first"
	if !stops && m.allowed.Moves.StartFirst == 0 {
		m.stuck = "none of its tasks may be replaced now"
	}
	switch {
	case t == nil || t.Last != cluster.TaskRunning || len(step.After) > 0:
	case starts:
		if d.replace(m, t, step) {
			m.allowed.Moves.StartFirst--
		}
	case stops && (step.Mode == placement.MoveStopFirst || m.allowed.Moves.StartFirst == 0):
		d.plan.room(2)
		d.plan.stop(t, cluster.StopByScheduler, "Moved: "+step.Why)
		m.allowed.Moves.StopFirst--
		m.targets = append(m.targets, step.To)
		m.moves = append(m.moves, service.Move{Task: t.ID, From: step.From, To: step.To, Why: step.Why})
	}
}

// replace starts the task's replacement where the plan has it. The instance may have less room than the plan took it to
// have, as moves begun before are still there twice.
func (d *decider) replace(m *mover, t *cluster.Task, step placement.Move) bool {
	to := step.To
	if step.Mode == placement.MoveVia {
		to = step.Via
	}
	devices, rejected := d.engine.Check(d.snap.Instances[to], placement.Request{
		Spec: d.specs.alone(m.Spec, &d.snap.Configuration), Count: 1, Unbuffered: step.Mode != placement.MoveIntoBuffer,
	})
	if rejected != nil {
		return false
	}
	next := d.serviceTask(m.service, &m.service.Deployment.Revision, m.def)
	next.Replaces = t.ID
	d.plan.room(rowsPerStart)
	d.begin(next, placement.Placement{Instance: to, GPUs: devices}, m.def)
	m.moves = append(m.moves, service.Move{Task: t.ID, From: t.Instance, To: to, Why: step.Why})
	return true
}

// moved writes into the service's row whether moves are under way or wait, and what none can mend, and tells of both.
func (d *decider) moved(m *mover, broken string, changed bool) {
	s := d.snap.Services[m.service.Name]
	next := *s
	next.Moving, next.Unrepaired = m.moving, broken
	next.GaveUp = s.GaveUp && !changed
	if end := d.unprotected(s); broken != "" && !end.IsZero() {
		d.plan.due(state.DueService, s.Name, end)
	}
	if len(m.targets) > 0 {
		next.Targets, next.TargetsUntil = slices.Concat(s.Targets, m.targets), d.now.Add(targetsHold)
	}
	log := newEventLog(s, &next)
	if len(m.moves) > 0 {
		log.add(service.MovingTasksMessage(s.Name, m.moves))
	}
	if broken != "" && broken != s.Unrepaired {
		log.events = append(log.events, service.Event{Message: service.CannotMoveMessage(s.Name, broken)})
	}
	if !log.changed() {
		return
	}
	d.flush(log)
}

// unrepaired says which rules stay broken after the plan that are the owner's, or an instance's that has tasks of it.
func (d *decider) unrepaired(plan *placement.Plan, owner string) string {
	var out []string
	for _, v := range plan.Unrepaired {
		if text := v.String(); (v.Owner == owner || v.Owner == "" && d.has(v.Instance, owner)) && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return strings.Join(out, "; ")
}

func (d *decider) has(instance, owner string) bool {
	v := d.snap.Instances[instance]
	return v != nil && slices.ContainsFunc(v.Tasks, func(t *cluster.Task) bool { return t.Owner == owner })
}

// Unmoved are the services whose row a look at moves would change, in order of name: the sweep asks, as the change that a
// rule is broken by may have been missed.
func (d *decider) Unmoved() (names []string) {
	w, were := NewWork(), map[string]int64{}
	for name, s := range d.snap.Governed() {
		w.revisit[name], were[name] = true, s.Rev
	}
	d.moves(w)
	for _, name := range slices.Sorted(maps.Keys(were)) {
		if s := d.snap.Services[name]; s != nil && s.Rev != were[name] {
			names = append(names, name)
		}
	}
	return names
}
