package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
	service "berth/shared/service"
	"berth/shared/state"
)

// wish is what one of a service's revisions wants placed: tasks that wait, the oldest first, and new ones.
type wish struct {
	revision *cluster.Revision
	start    service.Start
	waiting  []*cluster.Task
}

func (w *wish) count() int { return w.start.Count + len(w.waiting) }

// wishes are what the plan wants placed, the more urgent first, without revisions that are held back.
func (d *decider) wishes(s *cluster.Service, p service.Plan) []*wish {
	by := map[string]*wish{}
	var out []*wish
	add := func(r *cluster.Revision) *wish {
		if by[r.ID] == nil {
			by[r.ID] = &wish{revision: r}
			out = append(out, by[r.ID])
		}
		return by[r.ID]
	}
	for _, start := range p.Starts {
		add(start.Revision).start = start
	}
	for _, t := range d.waitingOf(s) {
		if r := p.Next.Revision(t.Revision); r != nil && !p.HeldRevisions[r.ID] {
			w := add(r)
			w.waiting = append(w.waiting, t)
		}
	}
	if s.Strategy == cluster.Replica {
		d.failingLast(p.Next, out)
		out = d.within(s, p.Next, out)
	}
	return out
}

// failingLast has revisions of which no task comes to be healthy wait for the others: the only room there is would be theirs
// again and again.
func (d *decider) failingLast(s *cluster.Service, wishes []*wish) {
	if len(wishes) < 2 {
		return
	}
	backoffs := service.Backoffs(d.snap.Throttle(s.Short), d.concerning(s), d.settings.Limits())
	failing := map[string]int{}
	for _, on := range append([]cluster.Deployment{s.Deployment}, s.Older...) {
		if backoffs[on.ID].Step > 0 || on.Failed > 0 && on.Healthy == 0 {
			failing[on.ID] = 1
		}
	}
	slices.SortStableFunc(wishes, func(a, b *wish) int { return cmp.Compare(failing[a.revision.ID], failing[b.revision.ID]) })
}

// within are the wishes without tasks that wait and would now be more than maximumPercent allows: fewer are desired than when
// they were begun.
func (d *decider) within(s, next *cluster.Service, wishes []*wish) []*wish {
	_, room := next.Bounds(next.Desired)
	for _, t := range d.snap.Owned(s.Short) {
		if t.Active() && t.Holds() {
			room--
		}
	}
	for _, w := range wishes {
		w.waiting = w.waiting[:max(0, min(len(w.waiting), room-w.start.Count))]
		room -= w.count()
	}
	return slices.DeleteFunc(wishes, func(w *wish) bool { return w.count() == 0 })
}

// waitingOf are the service's tasks that look for an instance, the oldest first.
func (d *decider) waitingOf(s *cluster.Service) []*cluster.Task {
	if d.snap.WaitingOf(s.Short) == 0 {
		return nil
	}
	among := d.snap.Waiting()
	if own := d.snap.Owned(s.Short); len(own) < len(among) {
		among = own
	}
	var out []*cluster.Task
	for _, t := range among {
		if t.Owner == s.Short && t.Waiting() {
			out = append(out, t)
		}
	}
	return sortedByAge(out)
}

// starts places what waits and what is missing. What fits nowhere waits in PROVISIONING, as far as the limit allows;
// the rest is known by the service's diagnosis alone.
func (d *decider) starts(s *cluster.Service, p service.Plan, log *eventLog) {
	log.service.Blocked = nil
	if s.Status != cluster.ServiceActive {
		return
	}
	if s.Strategy == cluster.Daemon {
		d.snap.Reserve(s.Short, nil) // for whom it is kept free may have it
	}
	wishes := d.wishes(s, p)
	for _, w := range wishes {
		d.fulfil(s, w, log)
	}
	switch {
	case len(p.HeldRevisions) > 0 && log.service.Blocked == nil:
		log.service.Blocked = s.Blocked
	case len(wishes) == 0:
		log.service.Targets = nil
	}
}

// fulfil places one revision's tasks.
func (d *decider) fulfil(s *cluster.Service, w *wish, log *eventLog) {
	def := d.snap.Definitions[w.revision.TaskDefinition]
	if def == nil {
		return
	}
	if len(s.Targets) > 0 && w.revision.ID == s.Deployment.ID {
		d.toTargets(s, def, w, log)
	}
	if w.count() == 0 {
		return
	}
	d.place(s, def, w, log)
	if s.Strategy == cluster.Daemon {
		return
	}
	for range w.start.Count {
		if d.full(len(s.Providers) > 0) {
			log.say(provisioningLimit, d.now, service.Event{Message: service.ProvisioningLimitMessage(s.Name)})
			log.limited = true
			break
		}
		d.provision(d.serviceTask(s, w.revision, def), d.waitingID(s, w.revision))
	}
}

// place starts the wish's tasks where they fit, each with its capacity provider where the service has such (S14).
func (d *decider) place(s *cluster.Service, def *cluster.TaskDefinition, w *wish, log *eventLog) {
	next := d.next(s, w)
	for len(next) > 0 {
		provider := next[0]
		n := len(next)
		next = slices.DeleteFunc(next, func(p string) bool { return p == provider })
		r := d.requestWith(provider, s, def, n-len(next))
		r.Instances = w.start.Instances
		result := d.placeWith(provider, r)
		d.startPlaced(s, def, w, result.Placed, log)
		if log.service.Blocked == nil && result.Diagnosis != nil {
			log.service.Blocked = result.Diagnosis
			d.nameRefusal(s, result.Diagnosis)
		}
	}
	d.fallBack(s, def, w, log)
}

// nameRefusal has the diagnosis say why ECS refused a task of the service where the closest instance is let alone for that:
// the last time, as long as its row is kept.
func (d *decider) nameRefusal(s *cluster.Service, g *cluster.Diagnosis) {
	if g.ClosestFilter != cluster.FilterRefused {
		return
	}
	var last cluster.Instant
	for _, t := range d.snap.Owned(s.Short) {
		if t.Refused() && t.Instance == g.Closest && t.Stopped > last {
			last, g.Refusal = t.Stopped, strings.TrimPrefix(t.Reason, cluster.StartFailed)
		}
	}
}

// toTargets starts tasks on the instances that tasks were stopped for, and holds back as many as have no room there yet,
// until their time is over. The wish is left with what is to be placed anywhere.
func (d *decider) toTargets(s *cluster.Service, def *cluster.TaskDefinition, w *wish, log *eventLog) {
	log.service.Targets = nil
	if !d.now.Before(s.TargetsUntil) {
		log.service.GaveUp = true
		return
	}
	left := slices.Clone(s.Targets)
	for _, unbuffered := range []bool{true, false} {
		r := d.serviceRequest(s, def, min(w.count(), len(left)))
		r.Instances, r.Unexplained, r.Unbuffered = left, true, unbuffered
		placed := d.engine.Place(r).Placed
		if len(placed) == 0 {
			continue
		}
		if unbuffered || !d.fitsUnbuffered(s, def) { // the rules may be others than those that the move was planned by
			d.startPlaced(s, def, w, placed, log)
		}
		for _, p := range placed {
			if i := slices.Index(left, p.Instance); i >= 0 {
				left = slices.Delete(left, i, i+1)
			}
		}
	}
	held := min(w.start.Count, len(left))
	if held > 0 {
		log.service.Targets = left[:held]
		d.plan.due(state.DueService, s.Name, s.TargetsUntil)
	}
	w.start.Count -= held
}

// fitsUnbuffered reports whether some instance has room for a task without its buffer (P14).
func (d *decider) fitsUnbuffered(s *cluster.Service, def *cluster.TaskDefinition) bool {
	r := d.serviceRequest(s, def, 1)
	r.Unbuffered, r.Unexplained = true, true
	return len(d.engine.Place(r).Placed) > 0
}

// waitingID is the id of a service's next task that waits. It differs from all others: no other commit makes the same
// placement version, and within one the service's tasks only become more.
func (d *decider) waitingID(s *cluster.Service, r *cluster.Revision) string {
	return cluster.RequestedTaskID(s.Short, fmt.Sprintf("%s/%d", r.ID, d.plan.next), len(d.snap.Owned(s.Short)))
}

func (d *decider) serviceTask(s *cluster.Service, r *cluster.Revision, def *cluster.TaskDefinition) *cluster.Task {
	return &cluster.Task{
		Head: cluster.Head{Cluster: s.Cluster}, Owner: s.Short, Service: s.Name, Group: "service:" + s.Name,
		Revision: r.ID, TaskDefinition: def.Name(), Needs: def.Needs, Ports: def.Ports,
		Desired: cluster.TaskRunning, CreatedAt: cluster.At(d.now),
	}
}

// startPlaced starts the wish's tasks where placement put them, those that waited first, and says so in the service's events
// commit by commit. What it starts is wished for no more.
func (d *decider) startPlaced(s *cluster.Service, def *cluster.TaskDefinition, w *wish, placed []placement.Placement, log *eventLog) {
	var started []string
	replaced := 0
	log.placed = log.placed || len(placed) > 0
	for _, where := range placed {
		if d.plan.left() < rowsPerStart+log.rows() && len(started) > 0 {
			log.add(service.TasksStartedMessage(s.Name, started, replaced))
			d.flush(log)
			started, replaced = nil, 0
		}
		if d.plan.left() < rowsPerStart+log.rows() {
			d.plan.close()
		}
		t := d.serviceTask(s, w.revision, def)
		if len(w.waiting) > 0 {
			old := *w.waiting[0]
			t, w.waiting = &old, w.waiting[1:]
			d.waiting[d.strategic(t)]--
		} else {
			if w.start.Count--; w.start.ReplacesUnhealthy > w.start.Count {
				w.start.ReplacesUnhealthy--
				replaced++
			}
		}
		d.begin(t, where, def)
		started = append(started, t.ID)
	}
	if len(started) > 0 {
		log.add(service.TasksStartedMessage(s.Name, started, replaced))
		d.placed = d.placed || d.snap.Governed()[s.Name] != nil
	}
}

// begin starts a task on the instance and devices that placement chose.
func (d *decider) begin(t *cluster.Task, where placement.Placement, def *cluster.TaskDefinition) {
	t.Instance, t.GPUs, t.WaitUntil = where.Instance, where.GPUs, 0
	if t.Needs.GPUMilli > 0 && t.Needs.GPUMilli < cluster.WholeGPU {
		t.Overrides = d.pinned(t, def)
	}
	d.plan.start(t)
}

// pinned is the task's overrides with the devices it shares made the only ones that its containers see: ECS knows no
// shares, the NVIDIA runtime does as it is told.
func (d *decider) pinned(t *cluster.Task, def *cluster.TaskDefinition) *cluster.Overrides {
	next := cluster.Overrides{}
	if t.Overrides != nil {
		next = *t.Overrides
	}
	devices := ""
	for i, g := range t.GPUs {
		if i > 0 {
			devices += ","
		}
		devices += d.snap.Instances[t.Instance].Registered.GPUs[g]
	}
	pin := cluster.Variable{Name: "NVIDIA_VISIBLE_DEVICES", Value: devices}
	given := map[string]cluster.ContainerOverride{}
	for _, c := range next.Containers {
		given[c.Name] = c
	}
	next.Containers = nil
	for _, name := range def.Containers {
		c := given[name]
		c.Name = name
		c.Environment = append(append([]cluster.Variable(nil), c.Environment...), pin)
		next.Containers = append(next.Containers, c)
	}
	return &next
}

// provision writes a task that waits for an instance.
func (d *decider) provision(t *cluster.Task, id string) {
	d.plan.room(1)
	t.ID, t.Rev = id, 1
	d.plan.put(t)
	d.waiting[d.strategic(t)]++
}
