package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/placement/moves"
	"berth/shared/service"
	"berth/shared/state"
)

// A task that breaks a rule where it is moves: a replacement starts on another instance first, then
// the task stops, within the service's percentages (P8, P10). The rows alone say which moves are in
// progress, as a replacement names its predecessor; plans are not kept. While a move of a service
// is in progress, no other one is planned for the service, nor for the instances concerned. What
// comes next is planned from where the tasks then are.

// MaxMoves is how many tasks of a cluster move at once to repair rules (P15), how many may be planned to make
// room for one service (P11), and how many of one service begin to move in a decision that evens out its zones.
const MaxMoves = 20

// slowReplacement is how long other services wait for a replacement before they report that no
// moves repair their broken rules.
const slowReplacement = 15 * time.Minute

// targetsTimeout is how long a task that was stopped first waits for room on the planned instance.
const targetsTimeout = 5 * time.Minute

// needsMoves reports whether something happened to a service whose moves are in progress, or
// capacity was freed for services that no moves could help so far, or a service was due to be
// reconciled.
func needsMoves(view *clusterView, changes *Changes) bool {
	governed := view.snap.GovernedServices()
	if anyKey(changes.mayMove, func(name string) bool { return governed[name] != nil }) {
		return true
	}
	for _, s := range view.snap.AttachedServices() { // its tasks may have to follow
		if changes.services[s.Rules.Affinity] {
			return true
		}
	}
	if anyKey(changes.services, func(name string) bool { s := view.snap.Services[name]; return s != nil && s.Moving }) {
		return true
	}
	return len(changes.freed) > 0 && anyKey(governed, func(name string) bool {
		s := governed[name]
		return s.Unrepaired != "" || s.Blocked != nil && lacksMetric(s.Blocked)
	})
}

// moveTasks plans moves and starts those that the percentages and the room allow now. The rest is
// planned anew when the moves in progress have ended. retry also plans moves that failed before.
func moveTasks(view *clusterView, commits *plan.Builder, retry bool) {
	movers := newMovers(view, retry)
	inProgress := movesInProgress(view, commits, movers)
	if len(movers) == 0 || inProgress.replacements >= MaxMoves {
		return
	}
	wanted := moves.Request{Owners: map[string]moves.Owner{}, Most: MaxMoves - inProgress.replacements}
	if len(inProgress.owners) > 0 || slices.ContainsFunc(movers,
		func(m *mover) bool { return len(view.snap.Protections(m.service.Short)) > 0 }) {
		wanted.Keep = func(t *cluster.Task) bool {
			return inProgress.keepsInPlace(t) ||
				!view.protectedUntil(t).IsZero()
		}
	}
	for _, m := range movers {
		wanted.Owners[m.service.Short] = m.Owner
	}
	repairs := view.movePlanner.PlanMoves(wanted)
	if fixStuckMovers(view, commits, movers, repairs, &wanted) {
		repairs = view.movePlanner.PlanMoves(wanted)
	}
	steps := repairs.Moves
	if len(steps) == 0 {
		steps = planRoom(view, movers, inProgress, wanted)
	}
	for _, step := range steps {
		i := slices.IndexFunc(movers, func(m *mover) bool { return m.service.Short == step.Owner })
		if i >= 0 {
			beginMove(view, commits, movers[i], step)
		}
	}
	concludeMoves(view, commits, movers, inProgress, repairs)
}

// fixStuckMovers fixes the tasks of the services that are stuck, if the plan moves any of them, and reports whether
// it does. Another plan may then repair the same rules with tasks that can move. The moves that only make room
// for those of a stuck service must not begin: zones would be rebalanced by moving the tasks back, and the moves
// planned again, forever.
func fixStuckMovers(
	view *clusterView, commits *plan.Builder, movers []*mover, planned *moves.Plan, wanted *moves.Request,
) bool {
	moving := map[string]bool{}
	for _, step := range planned.Moves {
		moving[step.Owner] = true
	}
	stuck := func(m *mover) bool {
		m.allow(view, commits)
		may := m.allowed.Moves
		return may.StartFirst+may.StopFirst+may.InProgress == 0 && isAtRest(view, m)
	}
	if !slices.ContainsFunc(movers, func(m *mover) bool { return moving[m.service.Short] && stuck(m) }) {
		return false
	}
	for _, m := range movers {
		if stuck(m) {
			m.Fixed, m.stuck = true, true
			wanted.Owners[m.service.Short] = m.Owner
		}
	}
	return true
}

// mover is a REPLICA service whose tasks may have to move, and what of it begins in this decision.
type mover struct {
	moves.Owner
	service    *cluster.Service
	definition *cluster.TaskDefinition
	gaveUp     bool          // a task that was stopped first found no room in time
	allowed    *service.Plan // what its percentages allow; nil until needed

	balances bool // the moves only balance the cluster
	stuck    bool // none of its tasks may be replaced, and that will not change by itself

	begun       []service.Move
	targets     []string // instances of the tasks that are stopped first
	moving      bool     // moves are planned, begun or not
	whyNotBegun string   // why its planned moves do not begin
}

// newMovers returns the governed REPLICA services, sorted by name.
func newMovers(view *clusterView, retry bool) []*mover {
	governed := view.snap.GovernedServices()
	if len(governed) == 0 {
		return nil
	}
	var movers []*mover
	for _, name := range slices.Sorted(maps.Keys(governed)) {
		s := governed[name]
		def := view.snap.Definitions[s.Deployment.TaskDefinition]
		if isMover(s, def) {
			gaveUp := s.MoveGaveUp && !retry
			of := specs.MoverOf(s, serviceRequest(view, s, def, 1).Spec, gaveUp)
			movers = append(movers, &mover{Owner: of, service: s, definition: def, gaveUp: gaveUp})
		}
	}
	return movers
}

// isMover reports whether moves are planned for the service's tasks, if rules govern where they are. def is
// that of its deployment, nil if there is none.
func isMover(s *cluster.Service, def *cluster.TaskDefinition) bool {
	return def != nil && s.Status == cluster.ServiceActive && s.Strategy == cluster.Replica && !s.HasTaskSets()
}

// allow works out what the service's percentages allow.
func (m *mover) allow(view *clusterView, commits *plan.Builder) {
	if m.allowed == nil {
		m.allowed = new(service.Reconcile(reconcileInput(view, m.service, commits.SeedFor(m.service.Name))))
	}
}

// whyNotReplaced says why none of the service's tasks may be replaced now.
func (m *mover) whyNotReplaced() string {
	switch {
	case m.allowed.Next.Deployment.State == cluster.RolloutFailed:
		return "its deployment has failed, and starts no tasks"
	case len(m.allowed.Next.Older) > 0:
		return "its deployment comes first"
	}
	return "none of its tasks may be replaced now"
}

// whyImmovable says why none of the service's tasks may move.
func (m *mover) whyImmovable() string {
	if m.stuck {
		return m.whyNotReplaced()
	}
	if least, _ := m.service.TaskBounds(m.service.Desired); least < m.service.Desired {
		return "a task that was stopped in order to move did not find room in time"
	}
	return fmt.Sprintf("minimumHealthyPercent %d and maximumPercent %d leave no room to move a task",
		m.service.MinHealthy, m.service.MaxPercent)
}

// progress says which moves are in progress.
type progress struct {
	owners, instances map[string]bool // of the replaced tasks; that these leave and go to
	replacements      int
	recent            bool // some began less than [slowReplacement] ago
}

// keepsInPlace reports whether the task must stay until the moves in progress are over.
func (p *progress) keepsInPlace(t *cluster.Task) bool {
	return p.owners[t.Owner] || p.instances[t.Instance]
}

// movesInProgress returns the moves whose replacement has yet to take over, or whose replaced task
// has yet to stop.
func movesInProgress(view *clusterView, commits *plan.Builder, movers []*mover) *progress {
	out := &progress{owners: map[string]bool{}, instances: map[string]bool{}}
	for _, m := range movers {
		s := m.service
		if !s.Moving {
			continue
		}
		replacing := service.Reconcile(reconcileInput(view, s, commits.SeedFor(s.Name))).Moves.InProgress > 0
		if replacing {
			out.owners[s.Short] = true
		}
		for _, t := range view.snap.TasksOf(s.Short) {
			old := view.snap.Task(s.Short, t.Replaces)
			if !t.IsActive() || old == nil || !old.HoldsCapacity() || !replacing && old.IsActive() {
				continue
			}
			out.owners[s.Short], out.instances[t.Instance], out.instances[old.Instance] = true, true, true
			out.replacements++
			out.recent = out.recent ||
				cluster.RemainingWait(t.CreatedAt.Time().Add(slowReplacement), view.now, slowReplacement) > 0
		}
	}
	return out
}

// planRoom plans moves for the first service with tasks that fit nowhere only because the capacity
// of a metric is scattered (P11).
func planRoom(view *clusterView, movers []*mover, inProgress *progress, wanted moves.Request) []moves.Move {
	if view.snap.Configuration.KeepInPlace {
		return nil
	}
	for _, m := range movers {
		blocked := m.service.Blocked
		if blocked == nil || !lacksMetric(blocked) || inProgress.owners[m.service.Short] {
			continue
		}
		r := serviceRequest(view, m.service, m.definition, blocked.Unplaced)
		if planned := view.movePlanner.MakeRoom(r, wanted); len(planned.Moves) > 0 {
			return planned.Moves
		}
	}
	return nil
}

// lacksMetric reports whether instances were rejected for their capacity of a metric.
func lacksMetric(diagnosis *cluster.Diagnosis) bool {
	return slices.ContainsFunc(diagnosis.Rejected,
		func(r cluster.Rejection) bool { return r.Filter == cluster.FilterMetric })
}

// beginMove begins one planned move if the service's percentages and the room there is allow it
// now.
func beginMove(view *clusterView, commits *plan.Builder, m *mover, step moves.Move) {
	t := view.snap.Task(m.service.Short, step.Task)
	m.allow(view, commits)
	mayStop := m.allowed.Moves.StopFirst > 0 && !m.StartFirst
	mayStart := m.allowed.Moves.StartFirst > 0 && step.Mode != moves.StopFirst
	m.moving, m.whyNotBegun = true, "no instance has room for the moves that must come first"
	if !mayStop && m.allowed.Moves.StartFirst == 0 {
		m.whyNotBegun = m.whyNotReplaced()
	}
	switch {
	case t == nil || t.Last != cluster.TaskRunning || len(step.After) > 0:
	case mayStart:
		if to := startReplacement(view, commits, m, t, step); to != "" {
			m.allowed.Moves.StartFirst--
			m.begun = append(m.begun, service.Move{Task: t.ID, From: t.Instance, To: to, Why: step.Why})
		}
	case mayStop && (step.Mode == moves.StopFirst || m.allowed.Moves.StartFirst == 0):
		commits.KeepTogether(2)
		commits.AddStop(t, cluster.StopByScheduler, "Moved: "+step.Why)
		m.allowed.Moves.StopFirst--
		m.targets = append(m.targets, step.To)
		m.begun = append(m.begun, service.Move{Task: t.ID, From: step.From, To: step.To, Why: step.Why})
	}
}

// startReplacement starts the task's replacement on the planned instance and returns that. It
// returns the empty string if the instance lacks room, because moves begun earlier still hold it.
func startReplacement(view *clusterView, commits *plan.Builder, m *mover, t *cluster.Task, step moves.Move) string {
	to := step.To
	if step.Mode == moves.Via {
		to = step.Via
	}
	apart := m.Spec.Affinity != "" &&
		view.snap.SpreadOf(m.Spec.Affinity, "").TasksOn(view.snap.Instances[t.Instance]) == 0
	if !placement.KeepsNodes(view.engine, m.Spec, view.snap.Instances[t.Instance], view.snap.Instances[to]) {
		return ""
	}
	loads := specs.LoadsTakenAlong(t, m.Spec)
	devices, rejected := view.engine.CheckInstance(view.snap.Instances[to], placement.Request{
		Spec: view.specs.ForPlannedMove(m.Spec, &view.snap.Configuration, apart, loads), Count: 1,
		Unbuffered: step.Mode != moves.IntoBuffer,
	})
	if rejected != nil {
		return ""
	}
	next := newServiceTask(view, m.service, &m.service.Deployment.Revision, m.definition)
	next.Replaces, next.Balances, next.Reported = t.ID, m.balances, loads
	commits.KeepTogether(plan.RowsPerStart)
	startTask(view, commits, next, placement.Placement{Instance: to, GPUs: devices}, m.definition)
	return to
}

// concludeMoves records how each service's moves stand. A service with moves in progress keeps what
// its row says. Others wait while some are in progress, because those may repair something for them
// or make room.
func concludeMoves(
	view *clusterView, commits *plan.Builder, movers []*mover, inProgress *progress, repairs *moves.Plan,
) {
	begun := slices.ContainsFunc(movers, func(m *mover) bool { return len(m.begun) > 0 })
	for _, m := range movers {
		unrepaired := describeUnrepaired(view, repairs, m.service.Short)
		if unrepaired != "" && m.Fixed {
			unrepaired += "; " + m.whyImmovable()
		}
		switch {
		case inProgress.owners[m.service.Short]:
			continue
		case inProgress.recent && len(m.begun) == 0 && (unrepaired != "" || m.moving):
			m.moving, unrepaired = true, m.service.Unrepaired
		case m.moving && !begun && isAtRest(view, m): // its moves will not begin by themselves
			m.moving = false
			unrepaired = strings.TrimPrefix(unrepaired+"; "+m.whyNotBegun, "; ")
		}
		recordMoves(view, commits, m, unrepaired)
	}
}

// isAtRest reports whether the service will not change by itself: its tasks that are not RUNNING
// have no instance, and a deployment, if there is one, waits for room or has failed.
func isAtRest(view *clusterView, m *mover) bool {
	p := m.allowed
	return len(p.Stops)+len(p.Choices)+len(p.Starts)+len(p.LostTasks) == 0 && p.ReconsiderAt.IsZero() &&
		(len(p.Next.Older) == 0 || p.Next.Blocked != nil || p.Next.Deployment.State == cluster.RolloutFailed) &&
		p.Next.Pending == view.snap.ProvisioningCount(m.service.Short)
}

// recordMoves writes into the service's row whether it has moves, and what no moves repair, and
// emits both.
func recordMoves(view *clusterView, commits *plan.Builder, m *mover, unrepaired string) {
	s := view.snap.Services[m.service.Name]
	next := *s
	next.Moving, next.Unrepaired = m.moving, unrepaired
	next.MoveGaveUp = m.gaveUp
	switch _, marked := s.EmittedKeys[UnrepairedKey]; {
	case unrepaired != "" && !marked:
		service.MarkEmitted(&next, UnrepairedKey, view.now)
	case unrepaired == "" && marked:
		next.EmittedKeys = maps.Clone(s.EmittedKeys)
		delete(next.EmittedKeys, UnrepairedKey)
	}
	if end := firstProtectionEnd(view, s); unrepaired != "" && !end.IsZero() {
		commits.ScheduleDue(state.DueService, s.Name, end)
	}
	if len(m.targets) > 0 {
		next.MoveTargets, next.MoveTargetsUntil = slices.Concat(s.MoveTargets, m.targets), view.now.Add(targetsTimeout)
	}
	draft := newDraft(s, &next)
	if len(m.begun) > 0 {
		draft.addMessage(service.MovingTasksMessage(s.Name, m.begun))
	}
	if unrepaired != "" && unrepaired != s.Unrepaired {
		draft.addMessage(service.CannotMoveMessage(s.Name, unrepaired))
	}
	if draft.isChanged() {
		writeDraft(view, commits, draft)
	}
}

// clearMoves clears the fields about moves in the row of a service that no rule can move any more.
func clearMoves(s *cluster.Service) {
	s.Moving, s.Unrepaired, s.MoveTargets, s.MoveGaveUp = false, "", nil, false
}

// firstProtectionEnd returns when the first protection of the service's tasks expires, or zero if
// none is protected.
func firstProtectionEnd(view *clusterView, s *cluster.Service) (first time.Time) {
	for id := range view.snap.Protections(s.Short) {
		t := view.snap.Task(s.Short, id)
		if t == nil || !t.IsActive() {
			continue
		}
		if until := view.protectedUntil(t); !until.IsZero() && (first.IsZero() || until.Before(first)) {
			first = until
		}
	}
	return first
}

// mostUnrepaired is how many broken rules a service's row names: a service may have thousands of tasks.
const mostUnrepaired = 3

// describeUnrepaired says which rules stay broken after the plan: the owner's, or those of an
// instance that has its tasks.
func describeUnrepaired(view *clusterView, repairs *moves.Plan, owner string) string {
	var texts []string
	named, more := map[string]bool{}, 0
	for _, v := range repairs.Unrepaired {
		concerns := v.Owner == owner || v.Owner == "" && view.hasTaskOf(owner, v.Instance)
		if v.Application != "" {
			concerns = v.Application == view.snap.ApplicationOf(owner)
		}
		text := v.String()
		if !concerns || named[text] {
			continue
		}
		if named[text] = true; len(texts) < mostUnrepaired {
			texts = append(texts, text)
		} else {
			more++
		}
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more violations", more))
	}
	return strings.Join(texts, "; ")
}
