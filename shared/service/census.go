package service

import (
	"cmp"
	"slices"
	"time"

	"berth/shared/cluster"
)

// state is what a task counts for, those first by whose end the least is lost.
type state uint8

const (
	waiting  state = iota // for an instance
	pending               // not RUNNING yet
	starting              // RUNNING, and checks have yet to say that it is healthy
	bad                   // UNHEALTHY, its grace period over, or on an instance that is lost
	settling              // RUNNING without checks, not long enough to count as healthy
	good                  // healthy
)

// member is an active task: not ended, not being stopped, not on an instance that is gone.
type member struct {
	*cluster.Task
	state     state
	leaving   bool // its instance is draining
	lost      bool // its instance is lost
	protected bool
	gone      bool    // the plan stops it, or may
	by        *member // the one that comes for it, as it has to leave its instance
	successor bool    // it comes for another
}

// up reports whether the task is RUNNING and nothing speaks against it.
func (m *member) up() bool { return m.state == settling || m.state == good }

// group is a deployment and its active tasks, in order of id.
type group struct {
	*cluster.Deployment
	primary bool
	listed  bool // in the service's row
	members []*member
	// count is how many of each state the plan leaves, out of them leavers those that have to leave their instance.
	count   [good + 1]int
	leavers [good + 1]int
	// abandoned reports that it is an older one that has failed, or never was completed and has nothing that works.
	abandoned bool
	ending    int // tasks that are being stopped and have not ended
	dying     int // tasks that ran and have only just ended: what takes their place has to wait
}

// left is how many members the plan leaves.
func (g *group) left() (n int) {
	for _, k := range g.count {
		n += k
	}
	return n
}

// leaving is how many of the members left have to leave their instance, for no fault of theirs.
func (g *group) leaving() (n int) {
	for s, k := range g.leavers {
		if state(s) != bad {
			n += k
		}
	}
	return n
}

// fresh is how many of the members left are to stay: a task and the one that comes for it are one.
func (g *group) fresh() int { return g.left() - g.count[bad] - g.leaving() - g.pairs() }

// unsettled is how many of those that are to stay may yet turn out either way.
func (g *group) unsettled() int {
	n := 0
	for s := waiting; s <= starting; s++ {
		n += g.count[s] - g.leavers[s]
	}
	return n + g.count[settling] - g.leavers[settling]
}

// census is the service's tasks by what they count for, and the plan that comes of it.
type census struct {
	Input
	plan      Plan
	next      *cluster.Service
	groups    []*group // PRIMARY first, then the newer first
	by        map[string]*group
	slab      []member        // has room for all tasks: members point into it
	active    int             // members the plan leaves
	ups       int             // of them up
	good      int             // of them good
	ending    int             // tasks that are being stopped and have not ended
	held      map[string]bool // instances with a task that holds capacity
	died      map[string]time.Time
	targets   []*cluster.Target
	failures  []*cluster.Task // that no circuit breaker has counted
	backoffs  map[string]cluster.Backoff
	ceiling   int
	floor     int
	said      map[string]bool // what there is cause to say
	later     time.Time
	unhealthy int  // bad members that were not replaced as too many are
	refused   bool // a stop that would leave too few healthy ones
}

func take(in Input) *census {
	next := *in.Service
	next.Older = slices.Clone(next.Older)
	if next.Strategy == cluster.Daemon && next.Status == cluster.ServiceActive {
		next.Desired = len(in.Eligible)
	}
	if next.Release != nil {
		next.Release = new(*next.Release)
	}
	c := &census{
		Input: in, next: &next, held: map[string]bool{}, died: map[string]time.Time{}, said: map[string]bool{},
		backoffs: Backoffs(in.Throttle, in.Tasks, in.Limits),
	}
	c.plan.ThrottleCleared = in.Throttle != nil && len(in.Throttle.Revisions) > 0 && len(c.backoffs) == 0
	c.plan.RefusedInstances, c.later = refusals(in.Tasks, in.Limits, in.Now)
	c.slab = make([]member, 0, len(in.Tasks))
	c.regroup()
	for _, t := range in.Tasks {
		c.count(t)
	}
	for _, g := range c.groups {
		slices.SortFunc(g.members, func(a, b *member) int { return cmp.Compare(a.ID, b.ID) })
		g.pair()
	}
	byID := func(a, b *cluster.Task) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(c.plan.LostTasks, byID)
	slices.SortFunc(c.failures, byID)
	slices.SortFunc(c.plan.RegisterTargets, byID)
	slices.SortFunc(c.plan.DeregisterTargets, byID)
	return c
}

// regroup makes the groups of next's deployments; members stay with theirs.
func (c *census) regroup() {
	old, were := c.by, c.groups
	c.by = map[string]*group{}
	c.groups = nil
	add := func(d *cluster.Deployment, primary bool) {
		g := &group{Deployment: d, primary: primary, listed: true}
		if was := old[d.ID]; was != nil {
			g.members, g.ending, g.dying, g.count, g.leavers = was.members, was.ending, was.dying, was.count, was.leavers
		}
		c.groups = append(c.groups, g)
		c.by[d.ID] = g
	}
	add(&c.next.Deployment, true)
	for i := range c.next.Older {
		add(&c.next.Older[i], false)
	}
	for _, g := range were {
		if c.by[g.ID] == nil {
			c.groups = append(c.groups, g)
			c.by[g.ID] = g
		}
	}
}

// primary is the group of the PRIMARY deployment.
func (c *census) primary() *group { return c.groups[0] }

// of is the group of a task; one whose deployment is not known any more is of an older one that wants none.
func (c *census) of(t *cluster.Task) *group {
	if g := c.by[t.Revision]; g != nil {
		return g
	}
	if t.Revision == "" {
		return c.primary()
	}
	stray := cluster.Deployment{Revision: cluster.Revision{ID: t.Revision, TaskDefinition: t.TaskDefinition}, State: cluster.RolloutFailed}
	g := &group{Deployment: &stray}
	c.groups = append(c.groups, g)
	c.by[t.Revision] = g
	return g
}

func (c *census) count(t *cluster.Task) {
	host := InstanceUsable
	if c.InstanceState != nil && t.Holds() {
		host = c.InstanceState(t.Instance)
	}
	if host == InstanceDeregistered {
		c.plan.LostTasks = append(c.plan.LostTasks, t)
		return
	}
	target := c.target(t)
	if target != nil {
		c.targets = append(c.targets, target)
	}
	if t.Ended() {
		if target != nil {
			c.plan.DeregisterTargets = append(c.plan.DeregisterTargets, t)
		}
		c.ended(t)
		return
	}
	if t.Holds() {
		c.held[t.Instance] = true
	}
	g := c.of(t)
	if !t.Active() {
		if host != InstanceTimedOut { // one that nobody hears of is not waited for: it ends when its agent is back
			c.ending++
			g.ending++
		}
		return
	}
	c.slab = append(c.slab, member{Task: t, leaving: host == InstanceDraining, lost: host == InstanceTimedOut, protected: c.protected(t)})
	m := &c.slab[len(c.slab)-1]
	m.state = c.condition(g, m, target)
	g.members = append(g.members, m)
	g.count[m.state]++
	if m.leaving {
		g.leavers[m.state]++
	}
	c.active++
	if c.serves(m) {
		c.ups++
	}
	unfit := m.state == bad && !m.lost || c.unregistered(t, target)
	if g.primary && unfit && !t.Counted && g.State != cluster.RolloutCompleted {
		c.failures = append(c.failures, t)
	}
	if m.state == good {
		c.good++
	}
	if target == nil && g.Balanced() && t.Last == cluster.TaskRunning && (!c.checked(t) || t.Health == cluster.Healthy) {
		c.plan.RegisterTargets = append(c.plan.RegisterTargets, t)
	}
}

// unregistered reports whether a target group has refused a task that has been RUNNING for a while: what is refused at once may
// be on an instance that is just going.
func (c *census) unregistered(t *cluster.Task, target *cluster.Target) bool {
	if !target.Failed() {
		return false
	}
	at := t.Started.Time().Add(refusedFor)
	if at.After(c.Now) {
		c.lookAgain(at)
		return false
	}
	return true
}

// refusedFor is how long a task that no target group takes is not held against its deployment.
const refusedFor = 2 * time.Minute

// ended takes in a task that is over: a failure, or one that has only just begun and ended.
func (c *census) ended(t *cluster.Task) {
	g := c.by[t.Revision]
	switch {
	case g == nil || t.Desired != cluster.TaskRunning:
	case t.NeverRan():
		if !t.Counted {
			c.failures = append(c.failures, t)
		}
	case t.Started.Time().Add(c.Limits.RestartGap).After(c.Now):
		at := t.Started.Time().Add(c.Limits.RestartGap)
		g.dying++
		c.died[t.Instance] = at
		c.lookAgain(at)
	}
}

func (c *census) target(t *cluster.Task) *cluster.Target {
	if c.Target == nil {
		return nil
	}
	return c.Target(t.ID)
}

// protected reports whether a task may not be stopped.
func (c *census) protected(t *cluster.Task) bool {
	if c.ProtectedUntil == nil || c.Service.Status != cluster.ServiceActive {
		return false
	}
	return c.ProtectedUntil(t.ID).After(c.Now)
}

func (c *census) checked(t *cluster.Task) bool {
	return c.HealthChecked != nil && c.HealthChecked(t.TaskDefinition)
}

// condition says what a task counts for (S6, and minimumHealthyPercent of the ECS API).
func (c *census) condition(g *group, m *member, target *cluster.Target) state {
	checked, balanced := c.checked(m.Task), g.Balanced()
	switch {
	case m.Waiting():
		return waiting
	case m.lost:
		return bad
	case m.Last != cluster.TaskRunning:
		return pending
	case m.Health == cluster.Unhealthy || target != nil && target.Health() == cluster.Unhealthy:
		if end := m.Started.Time().Add(time.Duration(c.Service.Grace) * time.Second); end.After(c.Now) {
			c.lookAgain(end)
			return starting
		}
		return bad
	case checked && m.Health != cluster.Healthy || balanced && (target == nil || target.Health() != cluster.Healthy):
		return starting
	case !checked && !balanced && m.Started.Time().Add(c.Limits.StabilizeFor).After(c.Now):
		return settling
	}
	return good
}

// lookAgain has the service looked at at a time, or earlier.
func (c *census) lookAgain(at time.Time) {
	if c.later.IsZero() || at.Before(c.later) {
		c.later = at
	}
}

// wants reports how many tasks there are to be: none of a service that is being deleted.
func (c *census) wants(desired int) int {
	if c.Service.Status != cluster.ServiceActive {
		return 0
	}
	return desired
}

// may reports whether a task may be stopped now.
func (c *census) may(m *member) bool {
	if m.gone || c.shielded(m) {
		return false
	}
	if c.spare(m) > 0 {
		return true
	}
	c.refused = true
	return false
}

// shielded reports whether a task that is to be stopped is protected, and has the end of that looked at.
func (c *census) shielded(m *member) bool {
	if m.protected {
		c.lookAgain(c.ProtectedUntil(m.ID))
	}
	return m.protected
}

// spare is how many tasks like m may go without fewer than the floor being healthy.
func (c *census) spare(m *member) int {
	switch {
	case m.state == good:
		return min(c.good, c.ups) - c.floor
	case c.serves(m):
		return c.ups - c.floor
	}
	return c.active
}

// stop has the plan stop a task, if it may.
func (c *census) stop(m *member, reason string) bool {
	if !c.may(m) {
		return false
	}
	c.plan.Stops = append(c.plan.Stops, Stop{m.Task, reason})
	m.gone = true
	c.leave(m, 1)
	return true
}

// leave takes n tasks like m out of the counts.
func (c *census) leave(m *member, n int) {
	g := c.of(m.Task)
	g.count[m.state] -= n
	if m.leaving {
		g.leavers[m.state] -= n
	}
	c.active -= n
	if m.state == good {
		c.good -= n
	}
	if c.serves(m) {
		c.ups -= n
	}
}

// serves reports whether a task is taken to do its work: it is up, or looks unhealthy where that is not believed.
func (c *census) serves(m *member) bool {
	return m.up() || c.DistrustChecks && m.state == bad && !m.lost
}

// choose has placement stop up to n of tasks that are all of one state and one deployment, as far as they may go, and returns how many.
func (c *census) choose(members []*member, n int, reason string) int {
	if n <= 0 {
		return 0
	}
	members = slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return m.gone || c.shielded(m) })
	if len(members) == 0 {
		return 0
	}
	n = min(n, len(members))
	if spare := c.spare(members[0]); spare < n {
		n, c.refused = spare, true
	}
	if n <= 0 {
		return 0
	}
	if n == len(members) {
		for _, m := range members {
			c.stop(m, reason)
		}
		return n
	}
	choice := Choice{Count: n, Reason: reason}
	for _, m := range members {
		choice.Candidates = append(choice.Candidates, m.Task)
		m.gone = true
	}
	c.plan.Choices = append(c.plan.Choices, choice)
	c.leave(members[0], n)
	return n
}
