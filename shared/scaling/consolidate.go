package scaling

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/snapshot"
)

const (
	// drainPatience is how long an instance may take to become empty, spareFor how long one that did not is left alone.
	drainPatience = 15 * time.Minute
	spareFor      = time.Hour
	// orderPatience is how long an instance may take to become DRAINING.
	orderPatience = 2 * time.Minute
	// maxTries is how many instances a decision tries to empty on the snapshot, those first that cost least.
	maxTries = 50
)

// Candidate is an instance that consolidation looked at.
type Candidate struct {
	Instance      string // container instance id
	EC2InstanceID string
	// Cost is the move cost of its tasks (Zero 0, Low 1, Medium 15, High 40), Moves where placement would have each.
	Cost  int
	Moves []Relocation
	// Fits reports that every task finds room on other instances that are in use; Drain that the draining begins now.
	Fits, Drain bool
	Why         string
}

// Relocation is where a task would go.
type Relocation struct {
	Task, Owner string // id; short key
	To          string // container instance id
}

// refusal is why no instance is emptied, and none goes on being emptied; empty where some may be.
func (c *census) refusal() string {
	switch {
	case !c.settings.Consolidation.Enabled:
		return "consolidation is off"
	case c.settings.TargetTracking:
		return "a target tracking policy sizes the group"
	case c.Upgrading:
		return "the group's nodes are being upgraded"
	}
	return ""
}

// consolidate empties instances, and has those go that are empty.
func (c *census) consolidate() {
	why := c.refusal()
	if why != "" {
		c.endDrains(why)
	}
	c.finishDrains()
	if why == "" {
		why = c.postponed()
	}
	if why == "" {
		c.beginDrains()
	} else {
		c.postpone(why)
	}
	slices.SortStableFunc(c.out.Consolidation, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.EC2InstanceID, b.EC2InstanceID))
	})
}

// postpone leaves all instances as they are.
func (c *census) postpone(why string) {
	for _, m := range c.members {
		if !m.counts || len(m.load) == 0 || m.obstacle != "" {
			continue
		}
		m.obstacle = why
		if c.settings.Consolidation.Enabled {
			c.out.Consolidation = append(c.out.Consolidation, Candidate{Instance: m.view.ID, EC2InstanceID: m.ID, Cost: c.cost(m), Why: why})
		}
	}
}

func (c *census) member(instance string) *member {
	for _, m := range c.members {
		if m.view != nil && m.view.ID == instance {
			return m
		}
	}
	return nil
}

// resume sees to it that what is to take tasks again does, and forgets what counts for nothing any more.
func (c *census) resume() {
	c.next.Drains = slices.DeleteFunc(c.next.Drains, func(d cluster.Drain) bool {
		return d.Over && c.Now.Sub(d.At) >= c.settings.Consolidation.Window
	})
	for n := range c.next.Drains {
		d := &c.next.Drains[n]
		if d.Over || !d.Ended {
			continue
		}
		if m := c.member(d.Instance); m != nil && m.counts && m.view.Status == cluster.InstanceDraining && !c.upgrades(m) {
			c.out.Undrain = append(c.out.Undrain, d.Instance)
			m.obstacle = "it is to take tasks again"
		} else {
			d.Over = true
		}
	}
}

// upgrades reports whether an update of the group's nodes has marked the instance: it drains and ends it.
func (c *census) upgrades(m *member) bool {
	_, marked := m.view.Attributes[cluster.AttributeUnschedulable]
	return c.Upgrading && marked
}

// endDrains has what is being emptied take tasks again, and reports whether there was anything.
func (c *census) endDrains(why string) bool {
	any := false
	for n := range c.next.Drains {
		d := &c.next.Drains[n]
		switch m := c.member(d.Instance); {
		case d.Ended || d.Over || m == nil || !m.counts:
		case c.upgrades(m):
			d.Over = true
		default:
			c.undrain(d, m, why)
			any = true
		}
	}
	return any
}

// undrain has the instance take tasks again, whether or not it is seen as DRAINING yet.
func (c *census) undrain(d *cluster.Drain, m *member, why string) {
	d.Ended = true
	c.out.Undrain = append(c.out.Undrain, d.Instance)
	m.obstacle = "it takes tasks again: " + why
}

// finishDrains sees to what is being emptied: what is empty is terminated, what takes too long takes tasks again.
func (c *census) finishDrains() {
	for n := range c.next.Drains {
		if d := &c.next.Drains[n]; !d.Over && !d.Ended {
			c.finish(d, c.member(d.Instance))
		}
	}
}

func (c *census) finish(d *cluster.Drain, m *member) {
	age := c.Now.Sub(d.At)
	switch {
	case m == nil || !m.counts:
		d.Over = true
	case m.view.Status != cluster.InstanceDraining && age < orderPatience:
		c.out.Drain = append(c.out.Drain, d.Instance)
		m.obstacle = "it is being drained"
	case m.view.Status != cluster.InstanceDraining:
		d.Over = true
		c.spare(m)
	case !m.empty() && age < drainPatience:
		m.obstacle = fmt.Sprintf("it has been drained since %s, and waits for them to leave", stamp(d.At))
	case !m.empty():
		c.undrain(d, m, fmt.Sprintf("it was not empty after %s, but has %s", drainPatience, c.tasks(m)))
		c.spare(m)
		c.event("", "", fmt.Sprintf("(capacity provider %s) instance %s: %s.", c.Provider.Name, m.ID, m.obstacle))
	case c.out.Desired != c.Group.Desired-len(c.out.Terminate), sameMinute(c.History.LastIn, c.Now), len(c.out.Terminate) >= c.step():
		m.obstacle = "it is emptied, and goes once the scale-in of this minute is over"
	case !c.spareable(c.out.Needed, c.out.Desired-1):
		c.undrain(d, m, "it is wanted as a free instance")
		c.spare(m)
	case !c.takeable(m):
		m.obstacle = "it is protected from scale-in"
	default:
		c.out.Terminate = append(c.out.Terminate, m.ID)
		c.out.Desired--
		c.next.LastIn = c.Now
		m.obstacle = "its tasks run elsewhere: terminated"
		c.out.Why = fmt.Sprintf("desired capacity from %d to %d: emptied instances go", c.Group.Desired, c.out.Desired)
	}
}

// spare leaves the instance alone for a while.
func (c *census) spare(m *member) { put(&c.next.Spared, m.view.ID, c.Now.Add(spareFor)) }

// spareable reports whether the group may have so few instances when so many are needed.
func (c *census) spareable(needed, desired int) bool {
	return desired >= c.Group.Min && c.want(needed) <= desired
}

// beginDrains drains the instances whose tasks fit elsewhere, the cheapest first, as far as the budget goes (C5). What
// fits is judged by placement itself, on the snapshot as it would be then.
func (c *census) beginDrains() {
	p := &consolidation{census: c, rest: map[string]string{}, full: map[string]string{}}
	p.try = &trial{snap: c.Snapshot, engine: c.engineOf()}
	p.budget, p.until = c.budget()
	p.leaving()
	defer p.try.undo(0)
	for _, m := range p.candidates() {
		p.consider(m)
	}
}

// postponed is why no instance begins to be emptied now, whichever; empty where some may.
func (c *census) postponed() string {
	since := c.Now.Sub(c.next.LastOut)
	switch {
	case c.waits() || c.out.Needed*100 > c.settings.Target*c.running:
		return "tasks wait for instances"
	case c.out.Desired != c.Group.Desired-len(c.out.Terminate):
		return "the group is being scaled in"
	case !c.next.LastOut.IsZero() && since < c.settings.Cooldown:
		return fmt.Sprintf("the group was scaled out at %s, and %s have to pass", stamp(c.next.LastOut), c.settings.Cooldown)
	}
	return ""
}

// budget is how many drains may begin now, and when there will be one more.
func (c *census) budget() (left int, until time.Time) {
	s := c.settings.Consolidation
	left = max(1, s.Share*c.running/100)
	for _, d := range c.next.Drains {
		if end := d.At.Add(s.Window); end.After(c.Now) {
			left--
			if until.IsZero() {
				until = end
			}
		}
	}
	return left, until
}

// consolidation is the look for instances that can be emptied.
type consolidation struct {
	*census
	try    *trial
	budget int
	until  time.Time
	tries  int
	// leave is how many instances are to go: those being emptied, and those of this plan. That leaves as many free as the
	// target wants: with each goes one that was in use.
	leave int
	rest  map[string]string // by service: why its tasks must stay, empty where they need not
	full  map[string]string // instances that take tasks of another, by container instance id
}

// leaving takes in what is on its way: tasks of instances that drain already, or are about to, will want room, too, whichever
// group the instances are of.
func (p *consolidation) leaving() {
	for _, d := range p.next.Drains {
		if m := p.member(d.Instance); !d.Over && !d.Ended && m != nil && m.counts {
			p.leave++
			if len(m.load) > 0 {
				p.try.drain(m.view)
			}
		}
	}
	var drained []string
	for id, v := range p.Snapshot.Instances {
		if v.Instance != nil && v.Status == cluster.InstanceDraining {
			drained = append(drained, id)
		}
	}
	slices.Sort(drained)
	for _, id := range drained {
		load := slices.SortedFunc(slices.Values(p.Snapshot.Instances[id].Tasks), func(a, b *cluster.Task) int { return cmp.Compare(a.ID, b.ID) })
		for _, t := range load {
			if p.daemon(t) {
				continue
			}
			if to, problem := p.relocate(t); problem == "" {
				p.full[to] = p.Snapshot.Instances[id].EC2InstanceID
			}
		}
	}
}

// candidates are the instances that may be emptied, the cheapest first; of the others it notes why not.
func (p *consolidation) candidates() (out []*member) {
	costs := map[*member]int{}
	for _, m := range p.members {
		if !m.counts || m.view == nil || len(m.load) == 0 || m.obstacle != "" {
			continue
		}
		if m.obstacle = p.blocked(m); m.obstacle != "" {
			p.out.Consolidation = append(p.out.Consolidation, Candidate{
				Instance: m.view.ID, EC2InstanceID: m.ID, Cost: p.cost(m), Why: m.obstacle,
			})
			continue
		}
		costs[m] = p.cost(m)
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *member) int {
		return cmp.Or(cmp.Compare(costs[a], costs[b]), cmp.Compare(len(a.load), len(b.load)), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func (c *census) cost(m *member) (sum int) {
	for _, t := range m.load {
		if mover, ok := c.Movers[t.Owner]; ok && t.Active() {
			sum += mover.Spec.MoveCost.Units()
		}
	}
	return sum
}

// blocked is why the instance cannot be emptied, before it is tried.
func (p *consolidation) blocked(m *member) string {
	switch spared, ok := p.next.Spared[m.view.ID]; {
	case !m.view.Available():
		return "it takes no tasks itself: it is " + status(m.view)
	case m.warming:
		return "it warms up"
	case m.Protected && !p.Provider.Protection:
		return "it is protected from scale-in"
	case ok:
		return "it could not be emptied before, and is left alone until " + stamp(spared)
	}
	active := false
	for _, t := range m.load {
		if why := p.stays(t); why != "" {
			return why
		}
		active = active || t.Active()
	}
	if !active {
		return "its last tasks are being stopped"
	}
	return ""
}

func status(v *snapshot.InstanceView) string {
	if v.Status == cluster.InstanceActive {
		return "disconnected"
	}
	return string(v.Status)
}

// stays is why the task must stay where it is; empty where it need not.
func (p *consolidation) stays(t *cluster.Task) string {
	switch protection := p.Snapshot.Protection(t.Owner, t.ID); {
	case t.Foreign:
		return "task " + t.ID + " was started by somebody else"
	case !t.Active():
		return ""
	case t.Service == "":
		return "task " + t.ID + " belongs to no service: nothing would replace it"
	case protection != nil && protection.Until.After(p.Now):
		return fmt.Sprintf("task %s of service %s is protected until %s", t.ID, t.Service, stamp(protection.Until))
	}
	why, known := p.rest[t.Service]
	if !known {
		why = p.resting(t)
		p.rest[t.Service] = why
	}
	return why
}

// resting is why tasks of the task's service must not be moved now; empty where they may.
func (p *consolidation) resting(t *cluster.Task) string {
	s := p.Snapshot.Services[t.Service]
	if _, ok := p.Movers[t.Owner]; !ok || s == nil || s.Short != t.Owner || s.Status != cluster.ServiceActive {
		return "service " + t.Service + " is not one whose tasks can be moved"
	}
	healthy := 0
	for _, o := range p.Snapshot.Owned(s.Short) {
		if o.Active() && o.Last == cluster.TaskRunning && o.Health != cluster.Unhealthy {
			healthy++
		}
	}
	least, most := s.Bounds(s.Desired)
	switch {
	case len(s.Older) > 0:
		return "a deployment of service " + s.Name + " is under way"
	case healthy < s.Desired:
		return fmt.Sprintf("service %s has %d of %d tasks healthy", s.Name, healthy, s.Desired)
	case least >= s.Desired && most <= s.Desired:
		return fmt.Sprintf("minimumHealthyPercent %d and maximumPercent %d leave service %s no room to move a task", s.MinHealthy, s.MaxPercent, s.Name)
	}
	return ""
}

// consider tries to empty the instance; where that works out its tasks are elsewhere for all that are tried after it.
func (p *consolidation) consider(m *member) {
	out := Candidate{Instance: m.view.ID, EC2InstanceID: m.ID, Cost: p.cost(m)}
	switch of, taken := p.full[m.view.ID]; {
	case taken:
		out.Why = "it takes tasks of " + of
	case p.Group.Desired-p.leave-1 < p.Group.Min:
		out.Why = fmt.Sprintf("the group is to have %d instances at least", p.Group.Min)
	case p.tries >= maxTries:
		out.Why = fmt.Sprintf("%d others cost less to empty and were tried first", maxTries)
	default:
		p.tries++
		out.Moves, out.Why = p.empty(m)
		out.Fits = out.Why == ""
	}
	if out.Fits {
		p.begin(m, &out)
	}
	m.obstacle = out.Why
	p.out.Consolidation = append(p.out.Consolidation, out)
}

// begin drains the instance if the budget has one left.
func (p *consolidation) begin(m *member, out *Candidate) {
	p.leave++
	for _, move := range out.Moves {
		p.full[move.To] = m.ID
	}
	out.Why = fmt.Sprintf("there is room for its %s elsewhere, at a cost of %d", counted(len(out.Moves), "task"), out.Cost)
	if p.budget <= 0 {
		out.Why += fmt.Sprintf("; the disruption budget of %d %% in %s is used up until %s",
			p.settings.Consolidation.Share, p.settings.Consolidation.Window, stamp(p.until))
		return
	}
	p.budget--
	if p.until.IsZero() {
		p.until = p.Now.Add(p.settings.Consolidation.Window)
	}
	out.Drain = true
	p.out.Drain = append(p.out.Drain, m.view.ID)
	p.next.Drains = append(p.next.Drains, cluster.Drain{Instance: m.view.ID, At: p.Now})
	p.event("", "", fmt.Sprintf("(capacity provider %s) instance %s is emptied: %s.", p.Provider.Name, m.ID, out.Why))
}

// empty tries to have all tasks of the instance on others that are in use. Why is empty where that works out; else
// everything is as before.
func (p *consolidation) empty(m *member) (moves []Relocation, why string) {
	mark := len(p.try.steps)
	p.try.drain(m.view)
	for _, t := range slices.SortedFunc(slices.Values(m.load), hardest) {
		if !t.Active() {
			continue
		}
		to, problem := p.relocate(t)
		if problem != "" {
			p.try.undo(mark)
			return nil, problem
		}
		moves = append(moves, Relocation{Task: t.ID, Owner: t.Owner, To: to})
	}
	return moves, ""
}

// relocate has a replacement of the task where placement would put it. That must be an instance in use: from one that is
// empty nothing would be gained.
func (p *consolidation) relocate(t *cluster.Task) (to, problem string) {
	mover, ok := p.Movers[t.Owner]
	if !ok || !t.Active() {
		return "", "task " + t.ID + " stays"
	}
	at, why := p.try.find(mover)
	if why != nil {
		return "", fmt.Sprintf("task %s of service %s fits nowhere else: %s", t.ID, t.Service, why)
	}
	if !p.used(p.Snapshot.Instances[at.Instance]) {
		return "", fmt.Sprintf("task %s of service %s would go to %s, which is empty", t.ID, t.Service, at.Instance)
	}
	p.try.task(mover.Spec, at, t)
	return at.Instance, ""
}

// used reports whether a task that is no daemon's is on the instance, and will be there.
func (p *consolidation) used(v *snapshot.InstanceView) bool {
	return slices.ContainsFunc(v.Tasks, func(t *cluster.Task) bool { return t.Active() && !p.daemon(t) })
}
