package placement

import (
	"cmp"
	"math"
	"slices"

	"berth/shared/cluster"
)

// ChooseStops chooses Count of the candidates, all of the spec's owner, to stop (S5): those that
// wait for an instance first, then those not RUNNING yet, then one after the other where the
// strategies would place one last: from the fullest group of a spread, from the instance where
// binpack frees most, at random. Where domain rules hold, tasks that they can spare go first, from
// domains with a surplus. Between equals the youngest goes, then the one with the lower id.
// Candidates that have ended or are being stopped already are passed over.
func (e *Engine) ChooseStops(r Request, candidates []*cluster.Task) []*cluster.Task {
	e.sync()
	c := classFor(e, &r, relaxed(&e.snap.Configuration.Priorities, 0))
	e.placed.classes = append(e.placed.classes, c)
	s := &stops{class: c, request: &r, replacing: countReplacements(e, r.Spec.Owner)}
	var ranks [3][]*cluster.Task
	for _, t := range candidates {
		if t.IsActive() {
			ranks[rank(t)] = append(ranks[rank(t)], t)
		}
	}
	for _, tasks := range ranks {
		if n := min(r.Count-len(s.chosen), len(tasks)); n > 0 {
			s.choose(tasks, n)
		}
	}
	undoPlacements(e, r.Spec)
	return s.chosen
}

// rank orders tasks by how little is lost when they stop.
func rank(t *cluster.Task) int {
	switch {
	case t.IsProvisioning():
		return 0
	case t.Last != cluster.TaskRunning:
		return 1
	}
	return 2
}

// stops is one call of ChooseStops on its way. What it chose is taken off the instances for the
// rest of the call.
type stops struct {
	class   *class
	request *Request
	chosen  []*cluster.Task
	// replacing is how many replacements have come, by the id of the task that they are for.
	replacing map[string]int
	stirred   bool
}

// host is an instance with the candidates there, those to stop first first.
type host struct {
	instance int32 // -1 where it is unknown, or none
	region   int32 // -1 where the instance is in none
	tasks    []*cluster.Task
}

// choose chooses n of the tasks. In a region what is counted by group is the same for all, and so
// is what the domain rules can spare: only the best host of each is compared with the others.
func (s *stops) choose(tasks []*cluster.Task, n int) {
	regions := s.divide(tasks)
	for range n {
		var best *queue[*host]
		least := 0
		for _, q := range regions {
			if len(q.items) == 0 {
				continue
			}
			h := q.top()
			worth := s.worth(h)
			if best == nil || worth < least || worth == least && s.compare(h, best.top()) < 0 {
				best, least = q, worth
			}
		}
		h := best.top()
		s.take(h)
		if len(h.tasks) > 0 {
			best.fix()
		} else {
			best.pop()
		}
		if s.stirred { // another host's tasks count differently now
			s.stirred = false
			for _, q := range regions {
				q.init()
			}
		}
	}
}

// divide groups the tasks by instance and the instances by region.
func (s *stops) divide(tasks []*cluster.Task) []*queue[*host] {
	hosts, regions := map[string]*host{}, map[int32]*queue[*host]{}
	var out []*queue[*host]
	for _, t := range tasks {
		h := hosts[t.Instance]
		if h == nil {
			h = s.host(t.Instance)
			hosts[t.Instance] = h
			q := regions[h.region]
			if q == nil {
				q = &queue[*host]{less: func(a, b *host) bool { return s.compare(a, b) < 0 }}
				regions[h.region] = q
				out = append(out, q)
			}
			q.items = append(q.items, h)
		}
		h.tasks = append(h.tasks, t)
	}
	for _, h := range hosts {
		slices.SortFunc(h.tasks, func(a, b *cluster.Task) int {
			if h.region < 0 {
				return s.compareTasks(a, b)
			}
			return cmp.Or(s.compareNeeds(a, b), s.compareTasks(a, b))
		})
	}
	for _, q := range out {
		q.init()
	}
	return out
}

func (s *stops) host(id string) *host {
	h := &host{instance: -1, region: -1}
	if v := s.class.engine.snap.Instances[id]; v != nil {
		h.instance = int32(v.Index)
		if s.class.engine.listed[v.Index] {
			h.region = s.class.layout.region[v.Index]
		}
	}
	return h
}

// worth is what the domain rules hold a task there worth: those of the lowest worth stop first.
func (s *stops) worth(h *host) int {
	if s.class.domains == nil || h.region < 0 {
		return 0
	}
	// all there are replaced already: to the rules that is as if they had stopped
	if s.class.tally.active[h.instance] == 0 {
		fault, upgrade := s.class.domains.Excess()
		return 2*(fault+upgrade) + 1
	}
	return s.class.domains.Worth(int(h.instance))
}

// compare is negative where a task had better stop on a than on b.
func (s *stops) compare(a, b *host) int {
	for at := range s.class.order.preferences {
		p := &s.class.order.steps[at]
		if x, y := s.value(p, a), s.value(p, b); x != y {
			return cmp.Compare(y, x)
		}
	}
	return s.compareTasks(a.tasks[0], b.tasks[0])
}

// value is what a step compares once the host's next task is gone.
func (s *stops) value(p *step, h *host) int64 {
	c := s.class
	switch {
	case p.kind == byCount && h.instance >= 0:
		return int64(c.tally.active[h.instance])
	case p.kind == byCount:
		return 0
	case h.region < 0:
		return math.MinInt64 // nobody knows what that would free
	}
	free := c.value(p, h.instance, h.region)
	switch p.column {
	case &c.engine.cpu:
		free += h.tasks[0].Needs.CPU
	case &c.engine.memory:
		free += h.tasks[0].Needs.Memory
	}
	return free
}

// compareNeeds orders the tasks of one instance by what they free, where binpack counts that.
func (s *stops) compareNeeds(a, b *cluster.Task) int {
	c := s.class
	for _, p := range c.order.steps[:c.order.preferences] {
		if p.column == &c.engine.cpu && a.Needs.CPU != b.Needs.CPU {
			return cmp.Compare(b.Needs.CPU, a.Needs.CPU)
		}
		if p.column == &c.engine.memory && a.Needs.Memory != b.Needs.Memory {
			return cmp.Compare(b.Needs.Memory, a.Needs.Memory)
		}
	}
	return 0
}

// compareTasks orders tasks that nothing about their instances tells apart: by chance where that
// decides, else the younger first.
func (s *stops) compareTasks(a, b *cluster.Task) int {
	if s.class.order.random {
		if x, y := chance(s.request.Seed, 0, digest(a.ID)), chance(s.request.Seed, 0, digest(b.ID)); x != y {
			return cmp.Compare(x, y)
		}
	}
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
}

// take chooses the host's next task. Where it and another are one, as it replaces that or is
// replaced, one of the two still counts.
func (s *stops) take(h *host) {
	t := h.tasks[0]
	h.tasks = h.tasks[1:]
	s.chosen = append(s.chosen, t)
	if h.instance >= 0 {
		if s.replacing[t.ID] > 0 {
			s.class.recount(int(h.instance), 1) // it did not count so far
		}
		s.class.remove(int(h.instance), t)
	}
	if t.Replaces == "" || !t.HoldsCapacity() {
		return
	}
	s.replacing[t.Replaces]--
	old := s.class.engine.snap.Task(t.Owner, t.Replaces)
	if s.replacing[t.Replaces] > 0 || old == nil || !old.IsActive() || !old.HoldsCapacity() ||
		slices.Contains(s.chosen, old) ||
		!s.class.tally.is(old) {
		return
	}
	s.class.recount(s.class.engine.snap.Instances[old.Instance].Index, 1)
	s.stirred = true
}

// countReplacements counts, by the id of the task that they are for, the replacements of the
// owner's tasks that have come.
func countReplacements(e *Engine, owner string) map[string]int {
	out := map[string]int{}
	for _, t := range e.snap.TasksOf(owner) {
		if t.Replaces != "" && t.IsActive() && t.HoldsCapacity() {
			out[t.Replaces]++
		}
	}
	return out
}
