package scaling

import (
	"fmt"
	"strings"
	"time"
)

// fromZero is the metric where tasks wait and no instance runs: it has the group start two (C3).
const fromZero = 200

// measure works out the metric: how many instances are needed (M) of those that run (N), in percent (C1). Needed are those
// that are not empty, and what waiting tasks need beside those there are: then the empty ones, too, as they were of no help, and
// those that have not registered in time, unless they are replaced: the group is to have others beside them, up to its maximum.
// Nothing needed and nothing running is the neutral value, the target: 100 would have a group with a lower target start
// instances, find them empty, take them away, and so on (C8).
func (c *census) measure() {
	c.demands()
	n := c.running
	m := n
	if c.replaces() {
		m -= c.gone
	}
	if !c.waits() {
		m = n - c.empties()
	}
	m += c.add
	c.out.Published, c.out.Needed, c.out.Running = true, m, n
	switch {
	case n > 0:
		c.out.Reservation = float64(m) * 100 / float64(n)
	case m > 0:
		c.out.Reservation = fromZero
	default:
		c.out.Reservation = float64(c.settings.Target)
	}
	if c.Upgrading && c.settings.TargetTracking { // the update's new nodes are empty at first, and the policy must not take any
		c.out.Reservation = max(c.out.Reservation, float64(c.settings.Target))
	}
}

// waits reports whether tasks wait that count: for instances, or for placement to come to them.
func (c *census) waits() bool {
	for _, d := range c.out.Demands {
		if d.Fitting > 0 || d.Instances > 0 {
			return true
		}
	}
	return false
}

// want is the least desired capacity at which so many needed instances are no more than the target of it.
func (c *census) want(needed int) int {
	return (needed*100 + c.settings.Target - 1) / c.settings.Target
}

// within is n within the group's minimum and maximum, which are never changed (C7).
func (c *census) within(n int) int { return max(c.Group.Min, min(n, c.Group.Max)) }

// size decides on the desired capacity: up at once, down slowly.
func (c *census) size() {
	m, n, target := c.out.Needed, c.running, c.settings.Target
	low := m*100 < target*n
	c.count(low && !c.settings.TargetTracking)
	switch {
	case c.settings.TargetTracking:
		c.hold = "a target tracking policy sizes the group"
		c.out.Why = c.hold
	case n == 0 && m > 0, m*100 > target*n:
		c.hold = fmt.Sprintf("more are needed: %d where %d run", c.want(m), n)
		c.grow()
	case low:
		c.shrink()
		c.out.Why = c.hold
	default:
		c.hold = fmt.Sprintf("the group is as it should be: %s", c.ratio())
		c.out.Why = c.hold
	}
}

func (c *census) ratio() string {
	return fmt.Sprintf("%d needed of %d running, %d %% are to be in use", c.out.Needed, c.running, c.settings.Target)
}

// count takes in the minute's datapoint (C5). The minute counts once, however often it is looked at; after a gap the count
// begins anew, as nobody knows what was in between.
func (c *census) count(low bool) {
	h, minute := &c.next, c.Now.Truncate(time.Minute)
	passed := minute.Sub(h.Minute)
	if !low || c.Upgrading {
		h.Low, h.Minute = 0, time.Time{}
		return
	}
	switch {
	case h.Low > 0 && passed <= 0:
		return
	case passed > 2*time.Minute || h.Low == 0:
		h.Low = 1
	default:
		h.Low++
	}
	h.Minute = minute
}

// grow raises the desired capacity to what is needed, from zero to two instances, by no more than the largest step. An
// instance in its warm-up blocks it (C3).
func (c *census) grow() {
	current := c.Group.Desired
	want := c.want(c.out.Needed)
	if c.running == 0 {
		want = 2
	}
	goal := min(c.within(want), max(current, c.Group.Min)+c.settings.MaxStep)
	restored := c.endDrains("more instances are needed")
	switch {
	case restored && c.waits():
		c.out.Why = fmt.Sprintf("%d instances are needed; first those that were being emptied take tasks again", want)
	case goal <= current && want > c.Group.Max && current >= c.Group.Max:
		c.out.Why = fmt.Sprintf("%d instances are needed, and the group is at its maximum of %d", want, c.Group.Max)
		c.event("", "at maximum", fmt.Sprintf("(capacity provider %s) %s. %s", c.Provider.Name, c.out.Why, c.ask()))
		c.hinders("at maximum")
	case goal <= current:
		c.out.Why = fmt.Sprintf("the group is on its way to %d instances", current)
	case c.asked() && c.Now.Sub(c.next.LastOut) < c.settings.Warmup:
		c.out.Why = fmt.Sprintf("%d instances are needed; those asked for at %s have yet to be launched, and block scaling out", want, stamp(c.next.LastOut))
		c.hinders("warms up")
	case len(c.warming) > 0:
		first := c.warming[0]
		c.out.Why = fmt.Sprintf("%d instances are needed; instance %s warms up until %s and blocks scaling out",
			want, first.ID, stamp(first.launched.Add(c.settings.Warmup)))
		c.hinders("warms up")
	default:
		c.out.Desired, c.next.LastOut = goal, c.Now
		c.out.Why = strings.TrimSpace(fmt.Sprintf("desired capacity from %d to %d. %s", current, goal, c.ask()))
		c.done("", fmt.Sprintf("(capacity provider %s) %s", c.Provider.Name, c.out.Why))
	}
}

// hinders tells those whose tasks wait for instances why there are no more of them.
func (c *census) hinders(topic string) {
	told := map[string]bool{}
	for _, d := range c.out.Demands {
		for _, owner := range d.Owners {
			if d.LeftOut != "" || d.Instances == 0 || told[owner] {
				continue
			}
			told[owner] = true
			c.event(owner, topic+" "+owner, fmt.Sprintf("(%s) tasks wait for capacity provider %s: %s.", owner, c.Provider.Name, c.out.Why))
		}
	}
}

// asked reports whether the group has yet to launch instances that its desired capacity counts.
func (c *census) asked() bool { return c.launched() < c.Group.Desired }

// launched is how many instances the group has, those included that are being launched.
func (c *census) launched() (n int) {
	for _, m := range c.members {
		if m.Running() || m.Launching() {
			n++
		}
	}
	return n
}

// ask says what the waiting tasks need, or that free instances are wanted.
func (c *census) ask() string {
	var out []string
	for _, d := range c.out.Demands {
		if d.LeftOut == "" && d.Instances > 0 {
			out = append(out, d.String()+".")
		}
	}
	if len(out) == 0 {
		return c.ratio() + "."
	}
	return strings.Join(out, " ")
}

// shrink lowers the desired capacity by what may go in a minute (C5), if nothing stands against it (C8). c.hold says what
// does, or what is done.
func (c *census) shrink() {
	s, current := &c.settings, c.Group.Desired
	goal := c.within(c.want(c.out.Needed))
	next := max(goal, current-c.step(), c.launched()-c.takeables())
	since := c.Now.Sub(c.next.LastOut)
	switch {
	case c.Upgrading:
		c.hold = "the group's nodes are being upgraded"
	case goal >= current && c.Group.Min >= current:
		c.hold = fmt.Sprintf("the group is at its minimum of %d", c.Group.Min)
	case goal >= current:
		c.hold = fmt.Sprintf("free instances are wanted: %s", c.ratio())
	case c.next.Low < s.Datapoints:
		c.hold = fmt.Sprintf("the metric has been low for %s of %d", counted(c.next.Low, "minute"), s.Datapoints)
	case !c.next.LastOut.IsZero() && since < s.Cooldown:
		c.hold = fmt.Sprintf("the group was scaled out at %s, and %s have to pass", stamp(c.next.LastOut), s.Cooldown)
	case sameMinute(c.next.LastIn, c.Now):
		c.hold = fmt.Sprintf("it was scaled in this minute already, and at most %d %% of the group, one at least, may go in one", s.Share)
	case next >= current:
		c.hold = "every instance without tasks is protected from scale-in"
	case c.exposed():
		c.hold = "instances without protection from scale-in are to be noted first"
	default:
		c.out.Desired, c.next.LastIn = next, c.Now
		c.hold = fmt.Sprintf("desired capacity from %d to %d: %s", current, next, c.ratio())
		c.done("", fmt.Sprintf("(capacity provider %s) %s.", c.Provider.Name, c.hold))
	}
}

// step is how many instances may go in a minute (C5).
func (c *census) step() int { return max(1, c.Group.Desired*c.settings.Share/100) }

func (c *census) takeables() (n int) {
	for _, m := range c.members {
		if c.takeable(m) {
			n++
		}
	}
	return n
}

func sameMinute(a, b time.Time) bool {
	return a.Truncate(time.Minute).Equal(b.Truncate(time.Minute))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
