package scaling

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// patience is how long an instance has to register before it counts as empty: its warm-up, and never less than ECS's own.
func (c *census) patience() time.Duration {
	return max(c.settings.Warmup, cluster.DefaultScaling.Warmup)
}

// replaces reports whether instances that never registered are replaced, so that the group needs none beside them. While
// its nodes are upgraded they are not.
func (c *census) replaces() bool { return c.settings.ReplaceUnregistered && !c.Upgrading }

// replace has instances terminated and launched anew that never registered, where that is set, as far as the group has too few
// without them. What is not needed is left to the scale-in. In the time that an instance has to register no more are replaced than
// may be taken in a minute (C5), one at least: who launches what never works should not do it faster. Never is one replaced that
// is protected from scale-in, that was not seen to come while the cluster had the provider, or that another cluster has.
func (c *census) replace() {
	short := c.within(c.want(c.out.Needed)) - (c.running - c.gone)
	left := min(short, max(1, c.running*c.settings.Share/100))
	if !c.settings.ReplaceUnregistered {
		short, left = 0, 0
	}
	why := ""
	switch since := c.Now.Sub(c.next.LastReplaced); {
	case c.Upgrading:
		why = "the group's nodes are being upgraded"
	case !c.next.LastReplaced.IsZero() && since < c.patience():
		why = fmt.Sprintf("others were replaced at %s, and %s have to pass", stamp(c.next.LastReplaced), c.patience())
	}
	var replaced []*member
	for _, m := range c.members {
		switch age := c.Now.Sub(m.launched); {
		case m.foreign != "":
			m.obstacle = m.foreign + ": it counts as used, and is left alone"
			c.event("", "not of the provider "+m.ID, fmt.Sprintf("(capacity provider %s) instance %s: %s.", c.Provider.Name, m.ID, m.obstacle))
		case !m.lost():
		case m.Running() && !m.Protected && left > 0 && why == "" && min(age, c.Now.Sub(m.silent)) >= c.patience():
			left--
			replaced = append(replaced, m)
			m.obstacle = "it never registered with the cluster: it is replaced"
		default:
			c.out.Silent = append(c.out.Silent, m.ID)
			switch {
			case short > 0 && why != "":
				m.obstacle = "it never registered with the cluster, and is not replaced yet: " + why
			case short > 0 && m.Protected:
				m.obstacle = "it never registered with the cluster, and is no longer protected from scale-in before it is replaced"
			}
			c.event("", "never registered "+m.ID, fmt.Sprintf("(capacity provider %s) instance %s has not registered with the cluster %s after it was launched: %s.",
				c.Provider.Name, m.ID, age.Truncate(time.Second), c.fate()))
		}
	}
	c.tellReplaced(replaced)
}

// fate is what becomes of an instance that has not registered in time.
func (c *census) fate() string {
	if c.settings.ReplaceUnregistered {
		return "it counts as empty, and is replaced while tasks wait"
	}
	return "while tasks wait the group is to have another beside it, else it counts as empty; with the tag " + cluster.TagReplaceUnregistered + " it would be replaced"
}

// tellReplaced says which instances are replaced: to the operator, and to those whose tasks wait.
func (c *census) tellReplaced(replaced []*member) {
	if len(replaced) == 0 {
		return
	}
	c.next.LastReplaced = c.Now
	var names []string
	for _, m := range replaced {
		c.out.Replace, c.out.Silent = append(c.out.Replace, m.ID), append(c.out.Silent, m.ID)
		if len(names) < maxNamed {
			names = append(names, m.ID)
		}
	}
	text := fmt.Sprintf("%s of capacity provider %s did not register with the cluster within %s, and %s replaced: %s",
		counted(len(replaced), "instance"), c.Provider.Name, c.patience(), map[bool]string{true: "is", false: "are"}[len(replaced) == 1], strings.Join(names, ", "))
	if more := len(replaced) - len(names); more > 0 {
		text += fmt.Sprintf(", %d more", more)
	}
	c.done("", text+".")
	var owners []string
	for _, w := range c.Waiting {
		if w.Count > 0 && !slices.Contains(owners, w.Name) {
			owners = append(owners, w.Name)
			c.done(w.Name, fmt.Sprintf("(%s) tasks wait: %s.", w.Name, text))
		}
	}
}
