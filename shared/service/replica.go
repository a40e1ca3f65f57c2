package service

import (
	"cmp"
	"slices"
	"time"

	"berth/shared/cluster"
)

// replica brings a REPLICA service to its desired count: first what is stopped, then what is started.
func (c *census) replica() {
	desired := c.wants(c.Service.Desired)
	if c.Service.Status != cluster.ServiceActive {
		c.stopAll()
		return
	}
	c.floor, c.ceiling = c.Service.Bounds(desired)
	c.rescale(desired)
	c.overflow()
	c.evacuate()
	c.roll(desired)
	for i := len(c.groups) - 1; i > 0; i-- {
		c.maintain(c.groups[i], c.groups[i].Desired)
	}
	if over := c.active - c.ceiling; over > 0 && c.primary().State == cluster.RolloutFailed {
		// Fewer are desired since, and it starts none: of its tasks those go that maximumPercent leaves no room for,
		// those first that have to leave anyway.
		p := c.primary()
		c.stopBad(p, over, func(*member) string { return c.scaling(p) })
		c.stopLeaving(p, min(c.active-c.ceiling, p.leaving()))
		c.shrink(p, c.active-c.ceiling)
	}
	have := c.primary().fresh()
	c.plan.EndedPairs = c.primary().part(desired - have)
	c.settle(c.primary(), c.primary().fresh() > desired)
	c.maintain(c.primary(), desired)
	c.start(c.primary(), desired) // first: what the others took of its room would be stopped again
	for i := 1; i < len(c.groups); i++ {
		c.start(c.groups[i], c.groups[i].Desired)
	}
	c.moves(desired)
	if len(c.groups) > 1 || c.refused || c.Service.Moving || c.primary().pairs() > 0 || c.primary().count[bad]+c.primary().leaving() > 0 {
		c.awaitSettling()
	}
	c.plan.Steady = c.primary().steady() == desired && c.alone() && c.primary().count[bad] == 0
}

// stopAll stops what a service that is being deleted still has.
func (c *census) stopAll() {
	for _, g := range c.groups {
		for _, m := range g.members {
			c.stop(m, c.scaling(g))
		}
	}
}

// rescale has a changed desired count reach the older deployments: while a newer one has yet to take over, both grow.
func (c *census) rescale(desired int) {
	grown := 0
	if was := c.next.Deployment.Desired; was > 0 {
		grown = desired - was
	}
	c.next.Deployment.Desired = desired
	for _, g := range c.groups[1:] {
		if grown > 0 && g.Desired > 0 && g.State != cluster.RolloutFailed {
			g.Desired += grown
			grown = 0
		}
		g.abandoned = g.State == cluster.RolloutFailed || c.hopeless(g)
		if g.abandoned { // launches no new tasks
			g.Desired = min(g.Desired, g.left())
		}
	}
	// One that was replaced before it had taken over wants no more than those before it have left to it.
	for i := len(c.groups) - 1; i > 0; i-- {
		c.groups[i].Desired = min(c.groups[i].Desired, desired)
		desired -= c.groups[i].Desired
	}
}

// hopeless reports whether an older deployment, that was never completed, has nothing that works, and failed to get any: to
// keep trying would help nobody.
func (c *census) hopeless(g *group) bool {
	up := slices.ContainsFunc(g.members, (*member).up)
	return g.State == cluster.RolloutInProgress && !up && (c.backoffs[g.ID].Step > 0 || !c.DistrustChecks && g.count[bad]-g.lost() > 0)
}

// overflow stops tasks that wait for an instance and that maximumPercent leaves no room for: fewer are desired than when they
// were begun.
func (c *census) overflow() {
	for _, g := range c.groups {
		for _, m := range g.members {
			if m.state == waiting && c.active > c.ceiling {
				c.stop(m, c.scaling(g))
			}
		}
	}
}

// evacuate stops what is not RUNNING yet on instances that are draining (S11), and what never will be of use: tasks of a
// deployment that was given up.
func (c *census) evacuate() {
	for _, g := range c.groups {
		for _, m := range g.members {
			switch {
			case m.state == pending && m.leaving:
				c.stop(m, drained)
			case g.abandoned && m.state < settling:
				if c.stop(m, c.scaling(g)) {
					g.Desired = max(0, g.Desired-1)
				}
			}
		}
	}
}

// roll stops tasks of older deployments, as many as the PRIMARY's healthy ones stand in for, and, where maximumPercent
// leaves no room to start those, as many as minimumHealthyPercent lets go. A deployment that has failed replaces nothing.
func (c *census) roll(desired int) {
	p := c.primary()
	old := 0
	for _, g := range c.groups[1:] {
		old += g.left()
	}
	if old == 0 || p.State == cluster.RolloutFailed {
		return
	}
	n := old - max(0, desired-(p.count[good]-p.leavers[good]))
	n = max(n, c.ready(p, desired-p.fresh())-max(0, c.ceiling-c.active))
	if k := c.stranded(p, desired); k > max(0, n) && c.crowded(p) {
		n = k
	}
	if c.early() {
		n = old // the rest comes up by and by
	}
	for i := len(c.groups) - 1; i > 0 && n > 0; i-- {
		n -= c.rollGroup(c.groups[i], n)
	}
	if n > 0 {
		for _, g := range c.groups[1:] {
			c.protection(g, n)
		}
	}
}

// rollGroup stops up to n of an older deployment's tasks, those first by which least is lost.
func (c *census) rollGroup(g *group, n int) int {
	stopped := 0
	for s := waiting; s <= good && stopped < n; s++ {
		if s == bad {
			stopped += c.stopBad(g, n-stopped, func(*member) string { return c.scaling(g) })
			continue
		}
		for _, leaving := range []bool{true, false} {
			stopped += c.choose(g.like(s, leaving), n-stopped, c.scaling(g))
		}
	}
	g.Desired = max(0, g.Desired-stopped)
	return stopped
}

// like are the members of a state, those that have to leave their instance or the others.
func (g *group) like(s state, leaving bool) (out []*member) {
	for _, m := range g.members {
		if m.state == s && m.leaving == leaving && !m.gone {
			out = append(out, m)
		}
	}
	return out
}

// protection tells that up to n tasks of a deployment that should go stay, as they are protected.
func (c *census) protection(g *group, n int) {
	protected := 0
	for _, m := range g.members {
		if m.protected && !m.gone {
			protected++
		}
	}
	if protected = min(protected, n); protected > 0 {
		c.say("protected", Event{Message: TasksProtectedMessage(c.Service.Name, g.ID, protected)})
	}
}

// maintain stops what a deployment has too many of, and what is unhealthy or has to leave its instance once others have
// come for it, or first where maximumPercent lets none come (S5, S6, S11).
func (c *census) maintain(g *group, want int) {
	c.shrink(g, g.fresh()-want)
	c.retire(g, want)
	c.makeRoom(g, want)
	settled := g.unsettled() == 0 && g.count[waiting] == 0 && c.ending == 0
	short, room := want-g.fresh(), max(0, c.ceiling-c.active)
	if short <= 0 || g.State == cluster.RolloutFailed && !g.primary {
		return
	}
	missing := max(0, short-g.count[bad]-g.leaving()) // what is started first, see start
	if settled && room == 0 && c.outgoing(g) > 0 {
		short -= c.stopBad(g, 1, c.ailment)
	}
	c.stopLeaving(g, min(short, g.leaving()-max(0, room-missing)))
}

// makeRoom stops what is unhealthy, and what has to leave its instance, where that which comes for it has found no room for a
// while: that, too, minimumHealthyPercent lets go (S11).
func (c *census) makeRoom(g *group, want int) {
	c.plan.MakesRoom = c.plan.MakesRoom || !g.primary && g.left() > 0 || g.leaving()+c.outgoing(g) > 0
	n := c.stranded(g, want)
	if n > 0 && c.outgoing(g) > 0 && c.crowded(g) {
		n -= c.stopBad(g, 1, c.ailment)
	}
	c.stopLeaving(g, n)
}

// RoomTimeout is how long the tasks of a service wait for an instance before others make room for them: longer where managed
// scaling may bring one.
func RoomTimeout(s *cluster.Service) time.Duration {
	if len(s.Providers) > 0 {
		return 15 * time.Minute
	}
	return time.Minute
}

// stranded is how many of the tasks that a deployment wants have found no instance for so long that others have to make
// room, as minimumHealthyPercent lets them. What is being stopped makes room already.
func (c *census) stranded(g *group, want int) int {
	s, b := c.Service, c.backoffs[g.ID]
	if g.State == cluster.RolloutFailed || g.abandoned {
		return 0
	}
	if s.Blocked == nil || s.BlockedSince.IsZero() || c.Now.Sub(s.BlockedSince) < RoomTimeout(s) || b.Step > 0 && b.NextAttemptAt.After(c.Now) {
		return 0
	}
	n := g.count[waiting] + max(0, want-g.fresh()-g.leaving()-g.count[bad])
	if b.Step > 0 {
		n = min(n, 1)
	}
	return max(0, n-c.ending)
}

// crowded reports whether room is what the deployment's tasks lack that find no instance.
func (c *census) crowded(g *group) bool {
	return c.Service.Blocked.Crowded() && (c.FitsEmptyInstance == nil || c.FitsEmptyInstance(g.TaskDefinition))
}

// shrink stops n tasks that could stay.
func (c *census) shrink(g *group, n int) {
	want := n
	for s := waiting; s <= good && n > 0; s++ {
		if s == bad {
			continue
		}
		n -= c.choose(slices.DeleteFunc(g.like(s, false), func(m *member) bool { return m.successor || m.by != nil }), n, c.scaling(g))
	}
	if want > 0 && n > 0 {
		c.protection(g, n)
	}
}

// retire stops unhealthy tasks and those that have to leave their instance, as many as there are others in their place:
// RUNNING and known to be well.
func (c *census) retire(g *group, want int) {
	extra := g.fresh() + g.count[bad] + g.leaving() - want - g.unsettled()
	if extra <= 0 {
		return
	}
	extra -= c.stopBad(g, extra, c.ailment)
	c.stopLeaving(g, extra)
}

// stopBad stops up to n unhealthy tasks, at random, each for its reason; those first that have to leave their instance.
func (c *census) stopBad(g *group, n int, why func(*member) string) (stopped int) {
	sick := append(g.like(bad, true), g.like(bad, false)...)
	rank := func(m *member) int {
		if m.lost || m.leaving {
			return 0
		}
		return 1
	}
	slices.SortFunc(sick, func(a, b *member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(draw(c.Seed, a.ID), draw(c.Seed, b.ID)), cmp.Compare(a.ID, b.ID))
	})
	for _, m := range sick {
		if stopped == n {
			break
		}
		if c.stop(m, why(m)) {
			stopped++
		}
	}
	return stopped
}

// stopLeaving stops up to n tasks on instances that are draining.
func (c *census) stopLeaving(g *group, n int) {
	for _, s := range []state{starting, settling, good} {
		for _, m := range g.like(s, true) {
			if n > 0 && c.stop(m, drained) {
				n--
			}
		}
	}
	if n > 0 {
		c.protection(g, n)
	}
}

// start plans the starts that a deployment is short of, as far as maximumPercent, its throttle and the bound on
// replacements of unhealthy tasks allow.
func (c *census) start(g *group, want int) {
	if g.State == cluster.RolloutFailed || g.abandoned || g.primary && c.exhausted() {
		c.hold(g)
		return
	}
	short := want - g.fresh()
	missing := max(0, short-g.count[bad]-g.leaving())
	// Unhealthy ones that are not believed to be so count as those that work: what has come for some of them is to spare.
	leaving := max(0, min(g.leaving(), short-missing-(g.count[bad]-c.outgoing(g))))
	sick := max(0, min(g.count[bad], short-missing-leaving))
	replaced := g.count[bad] - sick
	if doubted := sick - c.outgoing(g); doubted > 0 {
		c.unhealthy += doubted
		sick -= doubted
	}
	// That an instance is lost says nothing of the tasks: those there are replaced first, all at once.
	lost := min(sick, max(0, g.lost()-replaced))
	wave := max(1, (want*c.Limits.ReplacePercent+99)/100)
	sick = max(0, min(sick-lost, wave-max(0, replaced-g.lost())))
	n := min(c.ready(g, missing+leaving+lost+sick), c.ceiling-c.active)
	if n <= 0 {
		return
	}
	c.plan.Starts = append(c.plan.Starts, Start{Revision: &g.Revision, Count: n, ReplacesUnhealthy: min(n, sick)})
	c.active += n
}

// outgoing is how many of the unhealthy members are to be replaced: where checks are not believed, those whose instance is lost
// or drains.
func (c *census) outgoing(g *group) int {
	if c.DistrustChecks {
		return g.lost() + g.leavers[bad]
	}
	return g.count[bad]
}

// lost is how many of the members left are on instances that are lost.
func (g *group) lost() (n int) {
	for _, m := range g.members {
		if m.lost && !m.gone && m.state == bad {
			n++
		}
	}
	return n
}

// hold keeps a deployment's waiting tasks from being placed.
func (c *census) hold(g *group) {
	if c.plan.HeldRevisions == nil {
		c.plan.HeldRevisions = map[string]bool{}
	}
	c.plan.HeldRevisions[g.ID] = true
}

// ready is how many of n starts of a deployment may be made now: one at a time after an attempt that failed, none while
// its delay lasts, and none for a task that has only just begun and ended (S6, S7).
func (c *census) ready(g *group, n int) int {
	b := c.backoffs[g.ID]
	if b.Step > 0 && b.NextAttemptAt.After(c.Now) {
		c.hold(g)
		c.lookAgain(b.NextAttemptAt)
		return 0
	}
	if n = max(0, n-g.dying); b.Step > 0 {
		n = min(n, max(0, 1-g.count[waiting]-g.count[pending]))
	}
	return n
}

// moves says how many tasks may be moved to other instances: none while anything else is to be done, or starts are held back,
// and one at a time after an attempt that failed (S7).
func (c *census) moves(desired int) {
	p := c.primary()
	c.plan.Moves.InProgress = p.pairs()
	doubted := p.count[bad] - c.outgoing(p) // they stay, and count as those that work
	if len(c.plan.RefusedInstances) > 0 || !c.alone() || !c.idle() || p.fresh()+doubted != desired || c.outgoing(p)+p.leaving() > 0 {
		return
	}
	most := desired
	switch b := c.backoffs[p.ID]; {
	case b.Step > 0 && b.NextAttemptAt.After(c.Now):
		c.lookAgain(b.NextAttemptAt)
		return
	case b.Step > 0:
		most = max(0, 1-p.count[waiting]-p.count[pending])
	}
	c.plan.Moves.StartFirst = min(most, max(0, c.ceiling-c.active))
	c.plan.Moves.StopFirst = min(most, max(0, min(c.good, c.ups)-c.floor))
}

// awaitSettling has the service looked at when a RUNNING task counts as healthy by its age, where something waits for that.
func (c *census) awaitSettling() {
	for _, g := range c.groups {
		for _, m := range g.members {
			if m.state == settling && !m.gone {
				c.lookAgain(m.Started.Time().Add(c.Limits.StabilizeFor))
			}
		}
	}
}
