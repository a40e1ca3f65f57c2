package handler

import (
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/service"
)

// rowsPerStart is the most rows that one start adds to a commit: the task, an alias and an outbox row.
const rowsPerStart = 3

// rowsPerService are the service's own row and up to three service events.
const rowsPerService = 5

// service brings one service closer to what its row asks for: stops first, then what waits, then what is missing.
func (d *decider) service(s *cluster.Service) {
	p := service.Reconcile(d.input(s))
	next := *s
	log := &eventLog{service: &next, base: s}
	for _, t := range p.Lost {
		d.plan.room(1)
		d.writeOff(t)
	}
	for _, t := range p.Parted {
		d.plan.room(1)
		alone := *t
		alone.Replaces, alone.Rev = "", t.Rev+1
		d.plan.put(&alone)
	}
	next.Status, next.NotBefore = p.Status, p.NotBefore
	if d.snap.Governed()[s.Name] == nil || p.Status != cluster.ServiceActive {
		next.Moving, next.Unrepaired, next.Targets, next.GaveUp = false, "", nil, false // no rule asks for moves any more
	}
	d.stops(s, p, log)
	d.starts(s, p, log)
	d.finish(s, p, log)
}

// stops carries out what the plan stops, as many commits as it takes, the service's row with the last.
func (d *decider) stops(s *cluster.Service, p service.Plan, log *eventLog) {
	stop := p.Stop
	if p.Surplus > 0 {
		stop = append(stop, d.engine.ChooseStops(d.stopRequest(s, p.Surplus), p.Candidates)...)
	}
	reason := "Scaling activity initiated by (deployment " + s.Deployment.ID + ")"
	var running, pending []string
	for _, t := range stop {
		d.plan.room(2)
		switch {
		case t.Instance == "":
			d.plan.put(d.ended(t, cluster.StopByScheduler, reason))
			d.waiting--
		default:
			d.plan.stop(t, cluster.StopByScheduler, reason)
		}
		if t.Last == cluster.TaskRunning {
			running = append(running, t.ID)
		} else {
			pending = append(pending, t.ID)
		}
	}
	if len(running) > 0 {
		log.add(service.Stopped(s.Name, running))
	}
	if len(pending) > 0 {
		log.add(service.StoppedPending(s.Name, len(pending)))
	}
}

// stopRequest asks which n tasks of the service to stop. Without its task definition the service has no strategy.
func (d *decider) stopRequest(s *cluster.Service, n int) placement.Request {
	def := d.snap.Definitions[s.Deployment.TaskDefinition]
	if def == nil {
		def = &cluster.TaskDefinition{}
	}
	return d.serviceRequest(s, def, n)
}

// starts places what waits and what is missing. What fits nowhere waits in PROVISIONING, as far as the limit allows;
// the rest is known by the service's diagnosis alone.
func (d *decider) starts(s *cluster.Service, p service.Plan, log *eventLog) {
	log.service.Blocked = nil
	def := d.snap.Definitions[s.Deployment.TaskDefinition]
	if s.Status != cluster.ServiceActive || def == nil {
		return
	}
	waiting := d.waitingOf(s)
	missing := p.Start + len(p.StartOn)
	if d.now.Before(p.NotBefore) {
		log.service.Blocked = s.Blocked
		return
	}
	if missing+len(waiting) == 0 {
		log.service.Targets = nil
		return
	}
	if len(s.Targets) > 0 {
		waiting, missing = d.toTargets(s, def, waiting, missing, log)
	}
	if missing+len(waiting) == 0 {
		return
	}
	r := d.serviceRequest(s, def, missing+len(waiting))
	r.Instances = p.StartOn
	result := d.engine.Place(r)
	d.startPlaced(s, def, waiting, result.Placed, log)
	log.service.Blocked = result.Diagnosis
	if s.Strategy == cluster.Daemon {
		return
	}
	for range max(0, missing-max(0, len(result.Placed)-len(waiting))) {
		if d.waiting >= d.settings.ProvisioningLimit {
			break
		}
		d.provision(d.serviceTask(s, def), d.waitingID(s))
	}
}

// toTargets starts tasks on the instances that tasks were stopped for, and holds back as many as have no room there yet,
// until their time is over. It returns what is left to be placed anywhere.
func (d *decider) toTargets(
	s *cluster.Service, def *cluster.TaskDefinition, waiting []*cluster.Task, missing int, log *eventLog,
) ([]*cluster.Task, int) {
	log.service.Targets = nil
	if !d.now.Before(s.TargetsUntil) {
		log.service.GaveUp = true
		return waiting, missing
	}
	r := d.serviceRequest(s, def, min(missing+len(waiting), len(s.Targets)))
	r.Instances, r.Unexplained = s.Targets, true
	placed := d.engine.Place(r).Placed
	d.startPlaced(s, def, waiting, placed, log)
	left := slices.Clone(s.Targets)
	for _, p := range placed {
		if i := slices.Index(left, p.Instance); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	gone := min(len(placed), len(waiting))
	waiting, missing = waiting[gone:], missing-(len(placed)-gone)
	held := min(missing, len(left))
	if held > 0 {
		log.service.Targets = left[:held]
		d.plan.room(1)
		d.plan.due(cluster.DueService, s.Name, s.TargetsUntil)
	}
	return waiting, missing - held
}

// waitingID is the id of a service's next task that waits. It differs from all others: no other commit makes the same
// placement version, and within one the service's tasks only become more.
func (d *decider) waitingID(s *cluster.Service) string {
	return cluster.RequestedTaskID(s.Short, fmt.Sprintf("%s/%d", s.Deployment.ID, d.plan.next), len(d.snap.Owned(s.Short)))
}

func (d *decider) waitingOf(s *cluster.Service) []*cluster.Task {
	var out []*cluster.Task
	for _, t := range d.snap.Waiting() {
		if t.Owner == s.Short {
			out = append(out, t)
		}
	}
	return sortedByAge(out)
}

func (d *decider) serviceTask(s *cluster.Service, def *cluster.TaskDefinition) *cluster.Task {
	return &cluster.Task{
		Head: cluster.Head{Cluster: s.Cluster}, Owner: s.Short, Service: s.Name, Group: "service:" + s.Name,
		Revision: s.Deployment.ID, TaskDefinition: def.Name(), Needs: def.Needs, Ports: def.Ports,
		Desired: cluster.TaskRunning, CreatedAt: cluster.At(d.now),
	}
}

// startPlaced starts tasks where placement put them, those that waited first, and says so in the service's events
// commit by commit.
func (d *decider) startPlaced(
	s *cluster.Service, def *cluster.TaskDefinition, waiting []*cluster.Task, placed []placement.Placement, log *eventLog,
) {
	var ids []string
	for i, where := range placed {
		if d.plan.left() < rowsPerStart+rowsPerService && len(ids) > 0 {
			log.add(service.Started(s.Name, ids))
			d.flush(log)
			ids = nil
		}
		if d.plan.left() < rowsPerStart+rowsPerService {
			d.plan.close()
		}
		t := d.serviceTask(s, def)
		if i < len(waiting) {
			old := *waiting[i]
			t = &old
			d.waiting--
		}
		d.begin(t, where, def)
		ids = append(ids, t.ID)
	}
	if len(ids) > 0 {
		log.add(service.Started(s.Name, ids))
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
	d.waiting++
}

// finish writes the service's row if anything about it changed.
func (d *decider) finish(s *cluster.Service, p service.Plan, log *eventLog) {
	next := log.service
	after := p
	if len(p.Lost)+len(p.Stop)+p.Surplus+p.Start+len(p.StartOn) > 0 || len(d.waitingOf(s)) > 0 {
		after = service.Reconcile(d.input(s))
	}
	next.Running, next.Pending, next.Deployment.Failed = after.Running, after.Pending, p.Failed
	if after.Status != next.Status {
		next.Status = after.Status
	}
	if s.Strategy == cluster.Daemon && next.Status == cluster.ServiceActive {
		next.Desired = len(d.input(s).Eligible)
	}
	if next.Status == cluster.ServiceInactive && next.Expires == 0 {
		// Long enough for a sweep to retire its events with it.
		next.Expires = d.now.Add(2*d.settings.KeepStopped + time.Hour).Unix()
	}
	d.tell(s, after.Steady, log)
	if p.LookAgain.IsZero() && len(d.waitingOf(s)) > 0 {
		p.LookAgain = p.NotBefore // the delay holds back what waits, too
	}
	if !p.LookAgain.IsZero() {
		d.plan.room(1)
		d.plan.due(cluster.DueService, s.Name, p.LookAgain)
	}
	if log.changed() {
		d.flush(log)
	}
}

// tell adds the events that follow from where the service now stands.
func (d *decider) tell(s *cluster.Service, steady bool, log *eventLog) {
	next := log.service
	acted := len(log.messages) > 0
	if next.Blocked != nil && cause(next.Blocked) != cause(s.Blocked) {
		log.add(service.UnableToPlace(s.Name, next.Blocked))
	}
	if steady && !next.Deployment.Completed() && s.Status == cluster.ServiceActive {
		next.Deployment.State, next.Deployment.UpdatedAt = cluster.RolloutCompleted, d.now
		log.add(service.DeploymentCompleted(s.Name, s.Deployment.ID))
	}
	// A service that was scaled in was steady before and is at once steady again: that is news, too.
	if steady && (acted || !s.Steady) && s.Status == cluster.ServiceActive {
		log.add(service.SteadyState(s.Name))
	}
	next.Steady = steady
}

// flush writes the service's row and its new events into the open commit.
func (d *decider) flush(log *eventLog) {
	d.plan.room(1 + len(log.messages))
	next := *log.service
	for _, m := range log.messages {
		d.plan.add(cluster.Write{Any: true, Put: serviceEvent(&next, m, d.now)})
		next.Events++
	}
	next.Rev++
	next.Stamp = 0
	d.plan.put(&next)
	log.service, log.base, log.messages = new(next), new(next), nil // what is planned must not change any more
}
