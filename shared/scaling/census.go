package scaling

import (
	"cmp"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// census is the group's instances by what they count for, and the decision that comes of it.
type census struct {
	Input
	settings cluster.ManagedScaling
	members  []*member // in order of EC2 id
	// running (N) is how many the group has, gone those of them that have not registered in time, foreign those that are not
	// the provider's to judge.
	running, gone, foreign int
	// warming are those that block scaling out, arriving those of the running that have yet to register.
	warming  []*member
	arriving int
	// hold is why an instance without tasks is not taken away now, or that it may be.
	hold   string
	add    int // instances that waiting tasks need beside those there are
	engine *placement.Engine
	next   cluster.ScalingHistory
	out    Decision
}

// member is one instance of the group.
type member struct {
	*cluster.GroupInstance
	view     *snapshot.InstanceView // nil where it has not registered
	load     []*cluster.Task        // that hold capacity and are no daemons', in order of id
	launched time.Time
	warming  bool
	overdue  bool // it has not registered in the time that it had
	counts   bool // it runs, and is not on its way out
	// foreign is why an instance that never registered here is none of the provider's: something that Berth does not see may
	// run there.
	foreign  string
	silent   time.Time // when it was first seen without having registered
	obstacle string
}

func take(in Input) *census {
	c := &census{Input: in, settings: in.Provider.Scaling, next: in.History}
	c.next.Provider = in.Provider.Name
	c.next.Drains = slices.Clone(in.History.Drains)
	c.next.FirstSeen, c.next.Launched, c.next.Spared = nil, nil, nil
	if c.next.Since.IsZero() {
		c.next.Since = in.Now
	}
	c.out.Desired = in.Group.Desired
	registered := c.registered()
	for _, i := range slices.SortedFunc(slices.Values(in.Group.Instances), byEC2ID) {
		m := &member{GroupInstance: &i, view: registered[i.ID]}
		c.members = append(c.members, m)
		c.join(m)
	}
	for id, until := range in.History.Spared {
		if until.After(in.Now) {
			put(&c.next.Spared, id, until)
		}
	}
	c.sample()
	return c
}

func byEC2ID(a, b cluster.GroupInstance) int { return cmp.Compare(a.ID, b.ID) }

func put(times *map[string]time.Time, id string, at time.Time) {
	if *times == nil {
		*times = map[string]time.Time{}
	}
	(*times)[id] = at
}

// registered are the container instances by EC2 id.
func (c *census) registered() map[string]*snapshot.InstanceView {
	out := make(map[string]*snapshot.InstanceView, len(c.Group.Instances))
	for _, i := range c.Group.Instances {
		out[i.ID] = nil
	}
	for _, v := range c.Snapshot.Instances {
		if v.Instance == nil || v.Gone() {
			continue
		}
		if old, ok := out[v.EC2InstanceID]; ok && (old == nil || v.Supersedes(old.Instance)) {
			out[v.EC2InstanceID] = v
		}
	}
	return out
}

// join works out what the instance counts as.
func (c *census) join(m *member) {
	if !m.Running() && !m.Launching() {
		return // Terminating, Standby, Warmed: the desired capacity does not count it
	}
	if m.view != nil {
		for _, t := range m.view.Tasks {
			if !c.daemon(t) {
				m.load = append(m.load, t)
			}
		}
		slices.SortFunc(m.load, func(a, b *cluster.Task) int { return cmp.Compare(a.ID, b.ID) })
	}
	c.date(m)
	m.warming = c.Now.Sub(m.launched) < c.settings.Warmup && (m.view == nil || !c.settings.UntilRegistered)
	if m.warming {
		c.warming = append(c.warming, m)
	}
	m.overdue = m.view == nil && c.Now.Sub(m.launched) >= c.patience()
	if m.counts = m.Running() || m.view != nil; !m.counts {
		return
	}
	c.running++
	switch {
	case m.view != nil:
	case !m.overdue:
		c.arriving++
	case c.stranger(m):
		c.foreign++
	default:
		c.gone++
	}
}

// daemon reports whether the task is a DAEMON service's: such are no load (C5), whatever holds the instance otherwise is.
func (c *census) daemon(t *cluster.Task) bool {
	s := c.Snapshot.Services[t.Service]
	return t.Service != "" && s != nil && s.Strategy == cluster.Daemon
}

// stranger reports whether the instance, which never registered here, is not the provider's: another cluster has it, or
// nobody saw it come while the cluster had the provider, or somebody else protects it. It counts as used, and stays.
func (c *census) stranger(m *member) bool {
	switch other := c.Elsewhere[m.ID]; {
	case other != "":
		m.foreign = "it has registered with cluster " + other
	case !m.silent.After(c.next.Since):
		m.foreign = "it has not registered with the cluster, and was in the group before the capacity provider was"
	case m.Protected && !c.Provider.Protection:
		m.foreign = "it has not registered with the cluster, and is protected from scale-in, not by Berth"
	}
	return m.foreign != ""
}

// date finds out when the instance was launched: what EC2 says, else when it was first seen or registered, if that was
// sooner. That is remembered for as long as the group has it, as registering is no launch; when one was first seen that has not
// registered, until it has.
func (c *census) date(m *member) {
	seen, ok := c.History.FirstSeen[m.ID]
	if !ok {
		seen = c.Now
	}
	if m.view == nil {
		m.silent = seen
		put(&c.next.FirstSeen, m.ID, seen)
	}
	if m.launched = m.LaunchedAt; !m.launched.IsZero() {
		return
	}
	if m.launched, ok = c.History.Launched[m.ID]; !ok {
		m.launched = seen
	}
	if m.view != nil && !m.view.RegisteredAt.IsZero() && m.view.RegisteredAt.Time().Before(m.launched) {
		m.launched = m.view.RegisteredAt.Time()
	}
	put(&c.next.Launched, m.ID, m.launched)
}

// lost reports whether the instance has had its time and never registered: nothing can run there.
func (m *member) lost() bool { return m.counts && m.overdue && m.foreign == "" }

// empty reports whether nothing but daemons would go with the instance (C5).
func (m *member) empty() bool {
	return m.counts && len(m.load) == 0 && (m.view != nil || m.lost())
}

// empties is how many instances are empty.
func (c *census) empties() (n int) {
	for _, m := range c.members {
		if m.empty() {
			n++
		}
	}
	return n
}

// protect has instances protected before their first task that is no daemon's starts, and released when none is left
// (C6). What still warms up is left as it was launched: tasks are about to come. That the group may take an instance is noted
// before, and only what a later look finds noted, and still without tasks, is let go of: whoever has placed a task since knows.
func (c *census) protect() {
	if !c.Provider.Protection {
		c.unprotect()
		return
	}
	c.next.Protecting = true
	for _, m := range c.members {
		switch {
		case !m.Running(): // the group refuses to change it
		case len(m.load) > 0 && !m.Protected:
			c.out.Protect = append(c.out.Protect, m.ID)
		case !m.empty() || m.warming && m.Protected:
		case !c.noted(m):
			c.out.Note = append(c.out.Note, m.view.ID)
			m.obstacle = "it is about to be released from protection"
		case m.Protected:
			c.out.Release = append(c.out.Release, m.ID)
		}
	}
}

// unprotect ends the protection of instances once, when it is Berth's no longer: what somebody protects later stays so.
func (c *census) unprotect() {
	c.next.Protecting = false
	for _, m := range c.members {
		if m.view != nil && m.view.ReleasedIn != "" {
			c.out.Forget = append(c.out.Forget, m.view.ID)
		}
		if c.History.Protecting && m.Running() && m.Protected {
			c.out.Release = append(c.out.Release, m.ID)
			c.next.Protecting = true // until they are seen without
		}
	}
}

// noted reports whether those who have a task started on the instance know that it has to be protected first.
func (c *census) noted(m *member) bool { return m.view == nil || m.view.ReleasedIn == c.Group.Name }

// takeable reports whether the group may take the instance in a scale-in without ending a task: it is empty and not
// protected, or released by this decision.
func (c *census) takeable(m *member) bool {
	switch {
	case !m.Running() || !m.empty():
		return false
	case !c.Provider.Protection:
		return !m.Protected
	}
	return c.noted(m) && (!m.Protected || !m.warming)
}

// exposed reports whether the group could take an instance of which nobody noted that it may.
func (c *census) exposed() bool {
	return c.Provider.Protection && slices.ContainsFunc(c.members, func(m *member) bool {
		return m.Running() && !m.Protected && !c.noted(m) && len(m.load) == 0
	})
}

func (c *census) engineOf() *placement.Engine {
	if c.engine == nil {
		c.engine = placement.New(c.Snapshot)
	}
	return c.engine
}

func (c *census) event(owner, topic, message string) {
	c.out.Events = append(c.out.Events, Event{Owner: owner, Topic: topic, Message: message})
}

// done adds an event that is true once what the decision says of replacing and of the desired capacity is done.
func (c *census) done(owner, message string) {
	c.out.Events = append(c.out.Events, Event{Owner: owner, Message: message, Done: true})
}
