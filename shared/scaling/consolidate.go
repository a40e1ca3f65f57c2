package scaling

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

// maxTries is how many instances a decision tries to empty on the snapshot, the cheapest first.
const maxTries = 50

// Candidate is an instance that consolidation considered.
type Candidate struct {
	Instance      string // container instance id
	EC2InstanceID string
	// Cost is the sum of the move costs of its tasks (Zero 0, Low 1, Medium 15, High 40).
	Cost int
	// Moves are where placement would put the tasks.
	Moves []TaskMove
	// Fits reports that every task has room on another instance that is in use, Drain that the
	// instance is drained now.
	Fits, Drain bool
	Why         string
}

// TaskMove is where a task would go.
type TaskMove struct {
	Task, Owner string // id; short key
	To          string // container instance id
}

// whyConsolidationOff says why no instance may be emptied at all; empty if some may.
func (v *view) whyConsolidationOff() string {
	switch {
	case !v.settings.Consolidation.Enabled:
		return "consolidation is off"
	case v.settings.TargetTracking:
		return "a target tracking policy sizes the group"
	case v.Upgrading:
		return "the group's nodes are being upgraded"
	}
	return ""
}

// whyConsolidationDeferred says why no further instance is emptied now; empty if some may be.
func whyConsolidationDeferred(v *view, d demandPlan, m Metric, t terminations, lastOut time.Time) string {
	switch {
	case d.hasWaiting():
		return "tasks wait for instances"
	case m.exceedsTarget(v.settings.Target) && v.canGrow():
		return "more instances are needed"
	case isScalingIn(v, t):
		return "the group is being scaled in"
	case v.isCoolingDown(lastOut):
		return v.cooldownReason(lastOut)
	}
	return ""
}

// consolidationResult is what the search for instances to empty has found.
type consolidationResult struct {
	candidates []Candidate
	events     []Event
}

// findConsolidation drains the instances whose tasks fit elsewhere, the cheapest first, while
// the disruption budget allows (C5). Placement itself decides what fits, on the snapshot as it
// would be then. If deferred is not empty, it says why nothing may be drained now.
//
// New drains are added to the plan, and so are the reasons why other instances stay.
func findConsolidation(v *view, deferred string, drains *drainPlan) (r consolidationResult) {
	if deferred != "" {
		r.candidates = deferAll(v, deferred, drains.reasons)
	} else {
		r = searchConsolidation(v, drains)
	}
	slices.SortStableFunc(r.candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.EC2InstanceID, b.EC2InstanceID))
	})
	return r
}

// consolidationProgress says whether instances are being emptied, or are about to be: those that wait
// for the budget or for the end of a cooldown, and empty ones that scaling in is about to remove.
// Balancing waits for that: it would move tasks to instances that are emptied next.
func consolidationProgress(
	v *view, size sizing, t terminations, found *consolidationResult, drains *drainPlan,
) cluster.ConsolidationProgress {
	isDraining := func(d cluster.Drain) bool { return !d.Finished && !d.Cancelled }
	fits := func(c Candidate) bool { return c.Fits }
	isRemoving := size.low.Low > 0 && size.low.Low <= 2*v.settings.LowDatapoints && v.Group.Desired > v.Group.Min
	switch {
	case v.whyConsolidationOff() != "":
		return ""
	case slices.ContainsFunc(drains.drains, isDraining), slices.ContainsFunc(found.candidates, fits):
		return cluster.ConsolidationEmptying
	case v.Between:
		return cmp.Or(v.History.Progress, cluster.ConsolidationIdle)
	case isScalingIn(v, t), v.isCoolingDown(size.lastOut), isRemoving:
		return cluster.ConsolidationEmptying
	}
	return cluster.ConsolidationIdle
}

// emptyingUntil returns until when the progress holds that instances are emptied. It is renewed when half of
// its time is over, so that what is remembered does not change each minute.
func emptyingUntil(v *view, p cluster.ConsolidationProgress) time.Time {
	if p != cluster.ConsolidationEmptying {
		return time.Time{}
	}
	was := v.History.EmptyingUntil
	if cluster.RemainingWait(was, v.Now, cluster.EmptyingTime) > cluster.EmptyingTime/2 {
		return was
	}
	return v.Now.Add(cluster.EmptyingTime)
}

// deferAll leaves all instances as they are.
func deferAll(v *view, deferred string, why reasons) (candidates []Candidate) {
	for _, m := range v.instances {
		if len(m.load) == 0 || why[m.ID] != "" {
			continue
		}
		why[m.ID] = deferred
		if v.settings.Consolidation.Enabled {
			candidates = append(candidates, v.newCandidate(m, deferred))
		}
	}
	return candidates
}

func (v *view) newCandidate(m *instance, why string) Candidate {
	return Candidate{Instance: m.node.ID, EC2InstanceID: m.ID, Cost: v.moveCost(m), Why: why}
}

func (v *view) moveCost(m *instance) (cost int) {
	for _, t := range m.load {
		if mover, ok := v.Movers[t.Owner]; ok && t.IsActive() {
			cost += mover.Spec.MoveCost.Units()
		}
	}
	return cost
}

// consolidation is the search for instances that can be emptied.
type consolidation struct {
	view   *view
	drains *drainPlan
	try    *simulation
	// budget is how many drains may still begin, and budgetEnds when there will be one more.
	budget     int
	budgetEnds time.Time
	tries      int
	// leaving counts the instances that are being emptied, including those of this plan. Each was
	// in use, so as many free instances stay as the target asks for.
	leaving int
	// immovable says why a service's tasks must stay, by its name; empty if they need not.
	immovable map[string]string
	// receivers are instances that take tasks of another one, by container instance id: the EC2 id
	// of the other.
	receivers map[string]string
}

func searchConsolidation(v *view, drains *drainPlan) (r consolidationResult) {
	c := &consolidation{view: v, drains: drains, immovable: map[string]string{}, receivers: map[string]string{}}
	c.try = &simulation{snap: v.Snapshot, engine: v.engine()}
	c.budget, c.budgetEnds = drainBudget(v, drains.drains)
	defer c.try.undoSteps(0)
	c.reserveForDraining()
	emptyable, refused := c.emptyableInstances()
	r.candidates = refused
	for _, m := range emptyable {
		candidate := c.tryInstance(m)
		drains.reasons[m.ID] = candidate.Why
		r.candidates = append(r.candidates, candidate)
		if candidate.Drain {
			r.events = append(r.events, v.providerEvent("", "instance %s is being drained: %s.", m.ID, candidate.Why))
		}
	}
	return r
}

// drainBudget returns how many drains may begin now, and when there will be one more.
func drainBudget(v *view, drains []cluster.Drain) (left int, ends time.Time) {
	s := v.settings.Consolidation
	left = max(1, s.BudgetPercent*v.running/100)
	for _, d := range drains {
		if end := d.At.Add(s.BudgetWindow); end.After(v.Now) {
			left--
			if ends.IsZero() {
				ends = end
			}
		}
	}
	return left, ends
}

// reserveForDraining places the tasks of instances that are drained already or are about to be,
// whichever group these belong to: they need room, too.
func (c *consolidation) reserveForDraining() {
	for _, d := range c.drains.drains {
		if m := c.view.instanceOf(d.Instance); !d.Finished && !d.Cancelled && m != nil && m.counts {
			c.leaving++
			if len(m.load) > 0 {
				c.try.drainInstance(m.node)
			}
		}
	}
	var draining []string
	for id, node := range c.view.Snapshot.Instances {
		if node.Instance != nil && node.Status == cluster.InstanceDraining {
			draining = append(draining, id)
		}
	}
	slices.Sort(draining)
	for _, id := range draining {
		node := c.view.Snapshot.Instances[id]
		for _, t := range slices.SortedFunc(slices.Values(node.Tasks), compareTasks) {
			if isDaemon(c.view.Snapshot, t) {
				continue
			}
			if to, problem := c.moveElsewhere(t); problem == "" {
				c.receivers[to] = node.EC2InstanceID
			}
		}
	}
}

// emptyableInstances returns the instances that may be emptied, the cheapest first. For the others
// it records why not.
func (c *consolidation) emptyableInstances() (members []*instance, refused []Candidate) {
	costs := map[*instance]int{}
	for _, m := range c.view.instances {
		if len(m.load) == 0 || c.drains.reasons[m.ID] != "" {
			continue
		}
		if why := c.whyNotEmptied(m); why != "" {
			c.drains.reasons[m.ID] = why
			refused = append(refused, c.view.newCandidate(m, why))
			continue
		}
		costs[m] = c.view.moveCost(m)
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b *instance) int {
		return cmp.Or(cmp.Compare(costs[a], costs[b]), cmp.Compare(len(a.load), len(b.load)), cmp.Compare(a.ID, b.ID))
	})
	return members, refused
}

// whyNotEmptied says why an instance cannot be emptied, before that is tried; empty if it may be.
func (c *consolidation) whyNotEmptied(m *instance) string {
	switch until, spared := c.drains.deferredUntil[m.node.ID]; {
	case !m.node.IsAvailable():
		return "it cannot receive tasks: it is " + describeStatus(m.node)
	case m.isWarming:
		return "it is warming up"
	case m.Protected && !c.view.Provider.Protection:
		return "it is protected from scale-in"
	case spared:
		return "it could not be drained before, and is not tried again until " + formatTime(until)
	}
	hasActive := false
	for _, t := range m.load {
		if why := c.whyTaskImmovable(t); why != "" {
			return why
		}
		hasActive = hasActive || t.IsActive()
	}
	if !hasActive {
		return "its last tasks are being stopped"
	}
	return ""
}

func describeStatus(node *snapshot.InstanceView) string {
	if node.Status == cluster.InstanceActive {
		return "disconnected"
	}
	return string(node.Status)
}

// whyTaskImmovable says why a task must stay where it is; empty if it need not.
func (c *consolidation) whyTaskImmovable(t *cluster.Task) string {
	switch protection := c.view.Snapshot.Protection(t.Owner, t.ID); {
	case t.Foreign:
		return "task " + t.ID + " was not started by Berth"
	case !t.IsActive():
		return ""
	case t.Service == "":
		return "task " + t.ID + " belongs to no service: nothing would replace it"
	case protection.IsActive(c.view.Now):
		return fmt.Sprintf("task %s of service %s is protected until %s", t.ID, t.Service, formatTime(protection.Until))
	}
	why, known := c.immovable[t.Service]
	if !known {
		why = whyServiceImmovable(c.view, t)
		c.immovable[t.Service] = why
	}
	return why
}

// whyServiceImmovable says why tasks of the task's service must not be moved now; empty if they
// may.
func whyServiceImmovable(v *view, t *cluster.Task) string {
	s := v.Snapshot.Services[t.Service]
	if _, ok := v.Movers[t.Owner]; !ok || s == nil || s.Short != t.Owner || s.Status != cluster.ServiceActive {
		return "service " + t.Service + " does not allow its tasks to move"
	}
	healthy := 0
	for _, o := range v.Snapshot.TasksOf(s.Short) {
		if o.IsActive() && o.Last == cluster.TaskRunning && o.Health != cluster.Unhealthy {
			healthy++
		}
	}
	least, most := s.TaskBounds(s.Desired)
	switch {
	case len(s.Older) > 0:
		return "a deployment of service " + s.Name + " is under way"
	case healthy < s.Desired:
		return fmt.Sprintf("service %s has %d of %d tasks healthy", s.Name, healthy, s.Desired)
	case least >= s.Desired && most <= s.Desired:
		return fmt.Sprintf("minimumHealthyPercent %d and maximumPercent %d leave service %s no room to move a task",
			s.MinHealthy, s.MaxPercent, s.Name)
	}
	return ""
}

// tryInstance tries to empty an instance. If that works, its tasks stay moved for all instances
// that are tried after it.
func (c *consolidation) tryInstance(m *instance) Candidate {
	out := c.view.newCandidate(m, "")
	switch from, receives := c.receivers[m.node.ID]; {
	case receives:
		out.Why = "it receives tasks of " + from
	case c.view.Group.Desired-c.leaving-1 < c.view.Group.Min:
		out.Why = fmt.Sprintf("the group must keep at least %d instances", c.view.Group.Min)
	case c.tries >= maxTries:
		out.Why = fmt.Sprintf("%d other instances cost less to drain and were tried first", maxTries)
	default:
		c.tries++
		if out.Moves, out.Why = c.moveAllElsewhere(m); out.Why == "" {
			out.Fits = true
			c.drainWithinBudget(m, &out)
		}
	}
	return out
}

// drainWithinBudget drains an instance that can be emptied, if the disruption budget has one left.
func (c *consolidation) drainWithinBudget(m *instance, out *Candidate) {
	c.leaving++
	for _, move := range out.Moves {
		c.receivers[move.To] = m.ID
	}
	s := c.view.settings.Consolidation
	out.Why = fmt.Sprintf("there is room for its %s elsewhere, at a cost of %d", pluralize(len(out.Moves), "task"),
		out.Cost)
	if c.budget <= 0 {
		out.Why += fmt.Sprintf("; the disruption budget of %d %% in %s is used up until %s", s.BudgetPercent,
			s.BudgetWindow, formatTime(c.budgetEnds))
		return
	}
	c.budget--
	if c.budgetEnds.IsZero() {
		c.budgetEnds = c.view.Now.Add(s.BudgetWindow)
	}
	out.Drain = true
	c.drains.beginDrain(m.node.ID, c.view.Now)
}

// moveAllElsewhere moves all tasks of an instance to others that are in use. If one does not fit,
// it undoes all moves and says why.
func (c *consolidation) moveAllElsewhere(m *instance) (moves []TaskMove, why string) {
	mark := len(c.try.steps)
	c.try.drainInstance(m.node)
	for _, t := range slices.SortedFunc(slices.Values(m.load), compareHardToPlace) {
		if !t.IsActive() {
			continue
		}
		to, problem := c.moveElsewhere(t)
		if problem != "" {
			c.try.undoSteps(mark)
			return nil, problem
		}
		moves = append(moves, TaskMove{Task: t.ID, Owner: t.Owner, To: to})
	}
	return moves, ""
}

// moveElsewhere puts a replacement of the task where placement would put it. That must be an
// instance in use: moving a task to an empty one gains nothing.
func (c *consolidation) moveElsewhere(t *cluster.Task) (to, problem string) {
	mover, ok := c.view.Movers[t.Owner]
	if !ok || !t.IsActive() {
		return "", "task " + t.ID + " stays"
	}
	at, why := c.try.findPlacement(mover, t)
	if why != nil {
		return "", fmt.Sprintf("task %s of service %s fits nowhere else: %s", t.ID, t.Service, why)
	}
	inUse := slices.ContainsFunc(c.view.Snapshot.Instances[at.Instance].Tasks, func(t *cluster.Task) bool {
		return t.IsActive() && !isDaemon(c.view.Snapshot, t)
	})
	if !inUse {
		return "", fmt.Sprintf("task %s of service %s would go to %s, which is empty", t.ID, t.Service, at.Instance)
	}
	c.try.addTask(mover.Spec, at, t)
	return at.Instance, ""
}
