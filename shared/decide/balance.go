package decide

import (
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/decide/specs"
	"berth/shared/placement/moves"
	"berth/shared/placement/rebalance"
	"berth/shared/service"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Balancing (P15): some time after something has changed, tasks move so that the cluster comes
// nearer to its goals. A replacement starts on another instance first, as in every move. Plans are
// not kept: each look plans anew from where the tasks are, begins the first moves that the limits
// allow, and looks again later. Without a change, or with balancing off, nothing is looked at.

// The steps of a search are limited so that a look takes less than a second.
const (
	fewestBalanceSteps  = 5_000
	balanceStepsPerTask = 200
	mostBalanceSteps    = 100_000
)

// consolidationTime is how long it takes from a change until consolidation has judged it: managed scaling
// looks every minute.
const consolidationTime = 90 * time.Second

// balanceDue says that it is time to look; with [state.BalanceConsolidated] after it, that consolidation
// has judged the changes; with [state.BalanceOnce], whether balancing is switched on or not.
const balanceDue = "due"

// considerMoves begins moves that repair something, and then those that balance the cluster. placed
// says that tasks were started that a rule could move.
func considerMoves(view *clusterView, commits *plan.Builder, changes *Changes, placed bool) {
	if changes.moves || placed || needsMoves(view, changes) {
		moveTasks(view, commits, changes.moves)
	}
	considerBalance(view, commits, changes)
}

// considerBalance begins moves that balance the cluster if it is time to look, and otherwise plans
// to look when the changes have settled.
func considerBalance(view *clusterView, commits *plan.Builder, changes *Changes) {
	settings, on := view.snap.Configuration.RebalancingOrDefault(), isBalancingOn(view)
	if changes.balance == "" {
		if on && changes.mayUnbalance() && !commits.IsScheduled(state.DueBalance, "") &&
			!commits.IsScheduled(state.DueBalance, state.BalanceConsolidated) {
			commits.ScheduleDue(state.DueBalance, "", view.now.Add(settings.SettleTime()))
		}
		return
	}
	subject := strings.TrimPrefix(changes.balance, balanceDue)
	once := subject == state.BalanceOnce
	if !on && !once {
		return
	}
	wait := time.Duration(0)
	switch {
	case view.snap.Consolidation != "" && subject == "": // it may empty instances because of the change
		wait, subject = consolidationTime, state.BalanceConsolidated
	case view.snap.Consolidation == cluster.ConsolidationEmptying:
		wait = settings.IntervalTime()
	default:
		wait = balanceTasks(view, commits, settings, once)
	}
	if wait > 0 {
		commits.ScheduleDue(state.DueBalance, subject, view.now.Add(wait))
	}
}

// isBalancingOn reports whether balancing is switched on for the cluster or for one of its
// services.
func isBalancingOn(view *clusterView) bool {
	if view.snap.Configuration.Rebalances() {
		return true
	}
	for _, s := range view.snap.GovernedServices() {
		if s.Rules.Rebalancing == cluster.SwitchOn {
			return true
		}
	}
	return false
}

// mayUnbalance reports whether something has changed that counts for the balance.
func (c *Changes) mayUnbalance() bool {
	return c.moves || c.allZones || len(c.services)+len(c.freed)+len(c.joined) > 0
}

// balanceTasks begins moves that balance the cluster. It returns how long to wait before looking
// again: some have begun, or the limits allow none now, or others need the room first. It returns 0
// if nothing is left to do until something changes. With once, it was asked for: it does not rely
// on changes, so it looks again while what it began settles, and balances services that do not have
// it switched on as well.
func balanceTasks(
	view *clusterView, commits *plan.Builder, settings *cluster.Rebalancing, once bool,
) (wait time.Duration) {
	if makesWay(view) {
		if once {
			return settings.IntervalTime()
		}
		return 0
	}
	if wait = waitForRoom(view); wait > 0 {
		return wait
	}
	used := countBalanceMoves(view, settings.WindowTime())
	inWindow, _ := settings.WindowLimits()
	most := min(settings.MostAtOnce()-used.atOnce, inWindow-used.inWindow)
	if most <= 0 {
		return settings.IntervalTime()
	}
	owners := specs.Balancers(view.snap, view.specs, once)
	found, err := view.movePlanner.Balance(moves.BalanceRequest{
		Request: moves.Request{Owners: owners, Keep: func(t *cluster.Task) bool {
			return !view.protectedUntil(t).IsZero()
		}},
		Budget: rebalance.Budget{Steps: int64(min(mostBalanceSteps,
			fewestBalanceSteps+balanceStepsPerTask*view.snap.TaskCount()))},
		Seed: commits.SeedFor("balance"), Continues: used.inWindow > 0,
	})
	if err != nil { // numbers are too large to be compared
		return 0
	}
	if len(found.Moves) == 0 {
		if once && used.isRecent && len(specs.UnsteadyServices(view.snap, owners)) > 0 {
			return settings.IntervalTime()
		}
		return 0
	}
	movers := balanceMovers(view, owners)
	for _, step := range found.Moves {
		if m := movers[step.Owner]; m != nil && most > 0 &&
			beginBalanceMove(view, commits, m, step.Move, used) {
			most--
		}
	}
	for _, s := range sortedMovers(movers) {
		m := movers[s]
		if len(m.begun) == 0 {
			continue
		}
		row := view.snap.Services[m.service.Name]
		draft := newDraft(row, row)
		draft.addMessage(service.MovingTasksMessage(row.Name, m.begun))
		writeDraft(view, commits, draft)
	}
	return settings.IntervalTime()
}

// makesWay reports whether balancing makes way for standalone tasks that wait for an instance, or
// for an instance that is being emptied.
func makesWay(view *clusterView) bool {
	return len(provisioningStandalone(view)) > 0 || slices.ContainsFunc(view.snap.InstancesByIndex(),
		func(v *snapshot.InstanceView) bool {
			return v != nil && v.Instance != nil && v.Status == cluster.InstanceDraining &&
				hasNonDaemonTasks(view.snap, v)
		})
}

// waitForRoom returns how long it takes until each service that waits for an instance has waited so
// long that other tasks may be stopped to make room ([service.RoomTimeout]). Those that still wait
// then do not hold up balancing: an instance with a missing attribute may never come.
func waitForRoom(view *clusterView) (longest time.Duration) {
	for _, s := range view.snap.BlockedServices() {
		if s.Blocked != nil {
			longest = max(longest, service.RoomWait(s, view.now))
		}
	}
	return longest
}

// settlingTime is how long balancing that was asked for waits at most, after it has begun a move,
// for services to be steady: one whose tasks always fail never is.
const settlingTime = 15 * time.Minute

// balanceUse is what balancing has used of its limits, and whether a move has begun within
// settlingTime.
type balanceUse struct {
	isRecent                       bool
	atOnce, inWindow               int
	serviceAtOnce, serviceInWindow map[string]int // by short key
}

// countBalanceMoves counts all moves in progress, and those that balancing has
// begun within the window. The rows of the tasks alone say so: a decision that is made again counts
// the same.
func countBalanceMoves(view *clusterView, window time.Duration) *balanceUse {
	out := &balanceUse{serviceAtOnce: map[string]int{}, serviceInWindow: map[string]int{}}
	for t := range view.snap.Tasks() {
		if t.IsActive() && isReplacing(view, t) {
			out.atOnce++
			out.serviceAtOnce[t.Owner]++
		}
		if t.Balances && cluster.RemainingWait(t.CreatedAt.Time().Add(settlingTime), view.now, settlingTime) > 0 {
			out.isRecent = true
		}
		if t.Balances && cluster.RemainingWait(t.CreatedAt.Time().Add(window), view.now, window) > 0 {
			out.inWindow++
			out.serviceInWindow[t.Owner]++
		}
	}
	return out
}

// balanceMovers returns the services whose tasks may move, by short key.
func balanceMovers(view *clusterView, owners map[string]moves.Owner) map[string]*mover {
	out := map[string]*mover{}
	for _, s := range view.snap.Services {
		def := view.snap.Definitions[s.Deployment.TaskDefinition]
		if o, known := owners[s.Short]; known && !o.Fixed && def != nil {
			out[s.Short] = &mover{Owner: o, service: s, definition: def, balances: true}
		}
	}
	return out
}

// sortedMovers returns the short keys of the movers in the order of the services' names.
func sortedMovers(movers map[string]*mover) []string {
	keys := slices.Collect(maps.Keys(movers))
	slices.SortFunc(keys, func(a, b string) int {
		return strings.Compare(movers[a].service.Name, movers[b].service.Name)
	})
	return keys
}

// beginBalanceMove starts the replacement of one planned move, if the limits, the service's
// percentages and the room there is allow it now. Of a service with a domain policy one task moves
// at a time: the plan keeps its rules after each move, not while several are in progress.
func beginBalanceMove(
	view *clusterView, commits *plan.Builder, m *mover, step moves.Move, used *balanceUse,
) bool {
	short, settings := m.service.Short, view.snap.Configuration.RebalancingOrDefault()
	_, inWindow := settings.WindowLimits()
	atOnce := settings.MostOfService(m.service.Desired)
	if m.Spec.IsGoverned() {
		atOnce = 1
	}
	t := view.snap.Task(short, step.Task)
	if t == nil || t.Last != cluster.TaskRunning || used.serviceAtOnce[short] >= atOnce ||
		used.serviceInWindow[short] >= inWindow {
		return false
	}
	if m.allowed == nil {
		m.allowed = new(service.Reconcile(reconcileInput(view, m.service, commits.SeedFor(m.service.Name))))
	}
	if m.allowed.Moves.StartFirst <= 0 || startReplacement(view, commits, m, t, step) == "" {
		return false
	}
	m.allowed.Moves.StartFirst--
	used.serviceAtOnce[short]++
	used.serviceInWindow[short]++
	m.begun = append(m.begun, service.Move{Task: t.ID, From: step.From, To: step.To, Why: step.Why})
	return true
}
