package placement

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
)

// ChooseStops chooses Count of the candidates, all of one owner, to stop (S5 without a strategy): those that wait for an
// instance first, then those not RUNNING yet, then one after the other from the zone where the owner has the most
// tasks, there from the instance with the most. Between equals the youngest goes, then the one with the lower id.
// Candidates that have ended or are being stopped already are passed over.
func (e *Engine) ChooseStops(r Request, candidates []*cluster.Task) []*cluster.Task {
	n := r.Count
	var classes [3][]*cluster.Task
	for _, t := range candidates {
		if t.Active() {
			classes[class(t)] = append(classes[class(t)], t)
		}
	}
	var out []*cluster.Task
	c := &choice{snap: e.snap, zones: map[string]int{}, hosts: map[string]int{}}
	for _, tasks := range classes {
		if take := min(n-len(out), len(tasks)); take > 0 {
			out = append(out, c.stops(tasks, take)...)
		}
	}
	return out
}

// class orders tasks by how little is lost when they stop.
func class(t *cluster.Task) int {
	switch {
	case t.Waiting():
		return 0
	case t.Last != cluster.TaskRunning:
		return 1
	}
	return 2
}

// choice is one call of ChooseStops on its way: what was chosen so far is no longer among the owner's tasks.
type choice struct {
	snap  *cluster.Snapshot
	zones map[string]int // chosen so far
	hosts map[string]int
}

// zone and host are a zone and an instance with the candidates there.
type zone struct {
	name  string
	tasks int // of the owner, candidates or not
	hosts queue[*host]
	index map[string]*host
}

type host struct {
	id    string
	tasks int             // of the owner, candidates or not
	order []*cluster.Task // candidates, those to stop first first
}

func (c *choice) stops(tasks []*cluster.Task, n int) []*cluster.Task {
	zones := c.group(tasks)
	out := make([]*cluster.Task, 0, n)
	for len(out) < n {
		z := zones.top()
		h := z.hosts.top()
		out = append(out, h.order[0])
		h.order = h.order[1:]
		h.tasks--
		z.tasks--
		c.zones[z.name]++
		c.hosts[h.id]++
		if len(h.order) > 0 {
			z.hosts.fix()
		} else {
			z.hosts.pop()
		}
		if len(z.hosts.items) > 0 {
			zones.fix()
		} else {
			zones.pop()
		}
	}
	return out
}

// group sorts the tasks by zone and instance, the fullest at the top of each queue.
func (c *choice) group(tasks []*cluster.Task) *queue[*zone] {
	crowd := c.snap.Crowd(tasks[0].Owner, "")
	index := map[string]*zone{}
	out := &queue[*zone]{less: zoneFuller}
	for _, t := range tasks {
		name := c.zoneOf(t)
		z := index[name]
		if z == nil {
			z = &zone{name: name, tasks: crowd.Zones[name] - c.zones[name], index: map[string]*host{}}
			z.hosts.less = hostFuller
			index[name] = z
			out.items = append(out.items, z)
		}
		z.add(t, crowd.On(c.snap.Instances[t.Instance])-c.hosts[t.Instance])
	}
	for _, z := range out.items {
		for _, h := range z.hosts.items {
			slices.SortFunc(h.order, stopOrder)
		}
		z.hosts.init()
	}
	out.init()
	return out
}

// nowhere is the zone of tasks that wait or whose instance is unknown: no instance's zone can have this name.
const nowhere = "\x00"

func (c *choice) zoneOf(t *cluster.Task) string {
	if v := c.snap.Instances[t.Instance]; v != nil && listed(v) {
		return v.Zone()
	}
	return nowhere
}

func (z *zone) add(t *cluster.Task, tasks int) {
	h := z.index[t.Instance]
	if h == nil {
		h = &host{id: t.Instance, tasks: tasks}
		z.index[t.Instance] = h
		z.hosts.items = append(z.hosts.items, h)
	}
	h.order = append(h.order, t)
}

func zoneFuller(a, b *zone) bool {
	if a.tasks != b.tasks {
		return a.tasks > b.tasks
	}
	return hostFuller(a.hosts.top(), b.hosts.top())
}

func hostFuller(a, b *host) bool {
	if a.tasks != b.tasks {
		return a.tasks > b.tasks
	}
	return stopOrder(a.order[0], b.order[0]) < 0
}

func stopOrder(a, b *cluster.Task) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
}
