package scaling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/domain"
)

// Demand is a group of waiting tasks that all need the same, and what that asks of the capacity provider (C2).
type Demand struct {
	Owners []string // as [Waiting] names them, in order
	Count  int
	// Fitting have room on the instances there are, and only wait for placement to come to it.
	Fitting int
	// PerInstance is how many fit on an empty instance with the most of each parameter that the group's types have, and
	// Limit what keeps out the next; empty where there is none.
	PerInstance int
	Limit       string
	// Instances is the least number of new ones that the rest need.
	Instances int
	// LeftOut is why the tasks count for nothing: not one fits an empty instance with the least of each parameter. Empty
	// where they do count.
	LeftOut string
}

// group is a demand in the making.
type group struct {
	Demand
	spec   *placement.Spec
	target int
}

// demands works out what the waiting tasks need (C2): grouped by identical requirements, less those that fit where there is
// room, per group the least number of instances of the largest size; of all groups the largest number. c.add is that,
// within the step sizes, less the instances that are about to register.
func (c *census) demands() {
	if len(c.Waiting) == 0 {
		return
	}
	groups := c.groups()
	if len(c.next.Samples) == 0 {
		c.guess(groups)
		return
	}
	big, small := c.blankOf(largest(c.next.Samples)), c.blankOf(smallest(c.next.Samples))
	most := 0
	for _, g := range groups {
		c.bound(g, big, small)
		most = max(most, g.Instances)
		c.out.Demands = append(c.out.Demands, g.Demand)
	}
	if most -= c.arriving; most > 0 {
		c.add = min(max(most, c.settings.MinStep), c.settings.MaxStep)
	}
}

// guess is for a group of which no instance is known that takes tasks: at least one is needed, and then it will be seen. Where one
// is on its way, that will be it.
func (c *census) guess(groups []*group) {
	for _, g := range groups {
		g.Instances = 1
		c.out.Demands = append(c.out.Demands, g.Demand)
	}
	if c.arriving == 0 && !c.registering() {
		c.add = min(c.settings.MinStep, c.settings.MaxStep)
	}
}

// registering reports whether an instance is about to take tasks that ECS knows already, and still may in time.
func (c *census) registering() bool {
	return slices.ContainsFunc(c.members, func(m *member) bool {
		return m.counts && m.view != nil && m.view.Status == cluster.InstanceRegistering && c.Now.Sub(m.launched) < c.patience()
	})
}

// groups are the waiting tasks by what they need, those first that find room less easily; of each is known how many fit as
// things are.
func (c *census) groups() []*group {
	order := slices.SortedStableFunc(slices.Values(c.Waiting), func(a, b Waiting) int {
		return cmp.Or(harder(a.Spec.Needs, b.Spec.Needs), cmp.Compare(a.Name, b.Name))
	})
	open := c.open()
	try := &trial{snap: c.Snapshot, engine: c.engineOf()}
	defer try.undo(0)
	byNeed := map[string]*group{}
	var out []*group
	for _, w := range order {
		if w.Count <= 0 {
			continue
		}
		key := requirements(w.Spec)
		g := byNeed[key]
		if g == nil {
			g = &group{spec: w.Spec, target: w.Target}
			byNeed[key] = g
			out = append(out, g)
		}
		g.Owners = append(g.Owners, w.Name)
		g.Count += w.Count
		if len(open) > 0 {
			g.Fitting += try.settle(w, open)
		}
	}
	return out
}

// open are the container instances that take tasks.
func (c *census) open() (out []string) {
	for _, m := range c.members {
		if m.counts && m.view != nil && m.view.Available() {
			out = append(out, m.view.ID)
		}
	}
	return out
}

// requirements is the same text for tasks that need the same. Of tasks that may not share an instance with their like,
// those of another owner are others.
func requirements(s *placement.Spec) string {
	ports := slices.Clone(s.Ports)
	slices.SortFunc(ports, func(a, b cluster.Port) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol))
	})
	var rules []string
	for _, x := range s.Constraints {
		rules = append(rules, x.String())
	}
	slices.Sort(rules)
	owner := ""
	if s.PerInstance > 0 || governed(s) {
		owner = s.Owner + " " + s.Group
	}
	return fmt.Sprintf("%+v %v %q %q %v %s", s.Needs, ports, slices.Sorted(slices.Values(s.Attributes)), rules, s.Loads, owner)
}

func governed(s *placement.Spec) bool { return domain.Rule{Policy: s.DomainPolicy}.Governs() }

// bound is the least number of instances that the group's tasks need beside the room there is.
func (c *census) bound(g *group, big, small *blank) {
	spec := *g.spec
	spec.AllOrNothing = false
	if governed(&spec) { // which domains new instances will be in is not known
		spec.DomainPolicy, spec.PerInstance = "", 1
	}
	one := placement.Request{Spec: &spec, Count: 1, Target: g.target, Unexplained: true}
	if fits, why := small.holds(one); fits == 0 {
		g.LeftOut = "not one fits an empty instance that has the least of everything that the group's instance types have"
		if why != nil {
			g.LeftOut += ": " + reason(why)
		}
		c.leaveOut(g)
		return
	}
	all := one
	all.Count = g.Count
	var why *cluster.Diagnosis
	g.PerInstance, why = big.holds(all)
	if why != nil {
		g.Limit = reason(why)
	}
	if rest := g.Count - g.Fitting; rest > 0 && g.PerInstance > 0 {
		g.Instances = (rest + g.PerInstance - 1) / g.PerInstance
	}
}

// reason is the one rejection of the diagnosis in words, without its count.
func reason(d *cluster.Diagnosis) string { return strings.TrimPrefix(d.Rejected[0].String(), "1 ") }

func (c *census) leaveOut(g *group) {
	for _, owner := range g.Owners {
		c.event(owner, "left out "+c.Provider.Name+" "+owner, fmt.Sprintf(
			"(%s) tasks are left out when capacity provider %s is scaled out: %s.", owner, c.Provider.Name, g.LeftOut))
	}
}

// String is the demand in words: "12 tasks of service web need 3 instances, 5 fit on one at most (insufficient CPU ...)".
func (d *Demand) String() string {
	whose := strings.Join(d.Owners, ", ")
	switch {
	case d.LeftOut != "":
		return fmt.Sprintf("%s of %s: left out, as %s", counted(d.Count, "task"), whose, d.LeftOut)
	case d.Instances == 0:
		return fmt.Sprintf("%s of %s: there is room, which placement has yet to come to", counted(d.Count, "task"), whose)
	}
	rest, verb := d.Count-d.Fitting, "need"
	if rest == 1 {
		verb = "needs"
	}
	out := fmt.Sprintf("%s of %s %s %s", counted(rest, "task"), whose, verb, counted(d.Instances, "instance"))
	if d.PerInstance == 0 {
		return out + " at least, as none is known yet"
	}
	out += fmt.Sprintf(", %d fit on one at most", d.PerInstance)
	if d.Limit != "" {
		out += " (" + d.Limit + ")"
	}
	return out
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
