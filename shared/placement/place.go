// Package placement decides where a task may run and where it should, and which of many had better stop. It never
// decides how many there are, and it changes nothing: a snapshot and a request in, instances or the reason why not out.
package placement

import (
	"slices"

	"berth/shared/cluster"
)

// Request is a number of identical tasks that look for instances.
type Request struct {
	Spec  *Spec
	Count int
	// Target is the desired count of the service that wants them (P5).
	Target int
	// Instances, where not nil, are the only ones in question: one task on each, in this order of wish, before any
	// gets a second.
	Instances []string
	// Seed decides what chance decides: the same seed, the same choice.
	Seed uint64
	// Unbuffered forbids the buffer and overbooking (P14).
	Unbuffered bool
}

// Placement is where one task goes: the instance, and the positions of the GPU devices it is given.
type Placement struct {
	Instance string
	GPUs     []int
}

// Result is where the tasks go. Diagnosis says why the rest found no instance; nil when all were placed.
type Result struct {
	Placed    []Placement
	Diagnosis *cluster.Diagnosis
}

// Engine answers requests on one snapshot, whatever rows come in between. It is for one goroutine.
type Engine struct {
	snap *cluster.Snapshot
}

// New is an engine on the snapshot.
func New(s *cluster.Snapshot) *Engine { return &Engine{snap: s} }

// Place chooses instances for the tasks of a request, one after the other, each accounting for those before it (S2):
// of the instances that pass every filter the zone with the fewest tasks of the owner, in it the instance with the
// fewest, of those the one that [room.compare] holds the better packing. The snapshot stays as it is; the same
// snapshot and request always give the same answer.
func (e *Engine) Place(r Request) Result {
	s := e.snap
	if r.Count <= 0 {
		return Result{}
	}
	p := &pass{spec: r.Spec, request: &r, crowd: s.Crowd(r.Spec.Owner, r.Spec.Group)}
	if r.Instances != nil {
		p.regions = []*region{wished(s, r.Instances)}
	} else {
		p.regions = p.byZone(s)
	}
	if r.Count == 1 {
		p.one()
	} else {
		p.many()
	}
	if rest := r.Count - len(p.placed); rest > 0 {
		return Result{Placed: p.placed, Diagnosis: p.diagnose(rest)}
	}
	return Result{Placed: p.placed}
}

// pass is one call of Place on its way.
type pass struct {
	spec    *Spec
	request *Request
	crowd   cluster.Crowd
	regions []*region // those with the fewest tasks first
	placed  []Placement
	used    map[string]*room // instances that were given a task
	spare   room             // to look at those that were not
}

// region is a zone, or the instances that a request names.
type region struct {
	views  []*cluster.InstanceView
	wished bool // views are in order of wish, and what runs there does not count
	tasks  int  // of the owner
	rooms  queue[*room]
}

func (p *pass) byZone(s *cluster.Snapshot) []*region {
	zones := s.Zones()
	out := make([]*region, len(zones))
	for i, z := range zones {
		out[i] = &region{views: z.Instances, tasks: p.crowd.Zones[z.Name]}
	}
	slices.SortStableFunc(out, func(a, b *region) int { return a.tasks - b.tasks })
	return out
}

func wished(s *cluster.Snapshot, ids []string) *region {
	g := &region{wished: true}
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if v := s.Instances[id]; v != nil && listed(v) && !seen[id] {
			seen[id] = true
			g.views = append(g.views, v)
		}
	}
	return g
}

// listed reports whether the instance is in the cluster: one that is unknown or gone is no candidate at all.
func listed(v *cluster.InstanceView) bool { return v.Instance != nil && !v.Gone() }

// enter makes m the room of the region's i-th instance, the filters not asked yet.
func (p *pass) enter(g *region, i int, m *room) {
	m.reset(g.views[i])
	if g.wished {
		m.wish = i
	} else {
		m.tasks = p.crowd.On(m.view)
	}
}

// one places a single task, without the queues that many need: the most common case, in one look at each instance of
// the zones with the fewest tasks, and at other zones only where these have no room.
func (p *pass) one() {
	var best *room
	tasks := 0
	for _, g := range p.regions {
		if best != nil && g.tasks > tasks {
			break
		}
		if m := p.best(g); m != nil && (best == nil || m.before(best)) {
			best, tasks = m, g.tasks
		}
	}
	if best != nil {
		p.take(best)
	}
}

// best is the best room of the region, nil if there is none. The filters are asked of those only that are better than
// what was found; the views are in order of id, so of equals the first stays.
func (p *pass) best(g *region) *room {
	best, m := new(room), new(room)
	for i := range g.views {
		p.enter(g, i, m)
		if (best.view == nil || m.compare(best) < 0) && m.refusal(p.spec) == nil {
			best, m = m, best
		}
	}
	if best.view == nil {
		return nil
	}
	return best
}

// many places task after task: the queues keep at hand the best region and in each its best instance, so that a task
// costs the logarithm of the number of instances.
func (p *pass) many() {
	open := queue[*region]{less: regionBefore}
	for _, g := range p.regions {
		if p.fill(g); len(g.rooms.items) > 0 {
			open.items = append(open.items, g)
		}
	}
	open.init()
	for len(p.placed) < p.request.Count && len(open.items) > 0 {
		g := open.top()
		best := g.rooms.top()
		p.take(best)
		g.tasks++
		if best.refusal(p.spec) == nil {
			g.rooms.fix()
		} else {
			g.rooms.pop()
		}
		if len(g.rooms.items) > 0 {
			open.fix()
		} else {
			open.pop()
		}
	}
}

func (p *pass) fill(g *region) {
	rooms := make([]room, len(g.views))
	g.rooms = queue[*room]{less: (*room).before, items: make([]*room, 0, len(rooms))}
	for i := range rooms {
		p.enter(g, i, &rooms[i])
		if rooms[i].refusal(p.spec) == nil {
			g.rooms.items = append(g.rooms.items, &rooms[i])
		}
	}
	g.rooms.init()
}

func regionBefore(a, b *region) bool {
	if a.tasks != b.tasks {
		return a.tasks < b.tasks
	}
	return a.rooms.top().before(b.rooms.top())
}

// take gives the next task the room.
func (p *pass) take(m *room) {
	devices := m.take(p.spec)
	p.placed = append(p.placed, Placement{Instance: m.view.ID, GPUs: devices})
	if p.used == nil {
		p.used = map[string]*room{}
	}
	p.used[m.view.ID] = m
}
