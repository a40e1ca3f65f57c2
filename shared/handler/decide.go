package handler

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/service"
)

// work is what a batch of stream records asks placement to look at.
type work struct {
	services map[string]bool
	requests map[string]bool
	// freed are instances that may now take what fitted nowhere before.
	freed map[string]bool
	// daemons looks at all DAEMON services, waiting at all tasks without an instance, moves at where all tasks are that
	// a rule could make leave.
	daemons, waiting, moves bool
}

func newWork() *work {
	return &work{services: map[string]bool{}, requests: map[string]bool{}, freed: map[string]bool{}}
}

// add takes in one record, after the snapshot has seen it.
func (w *work) add(r cluster.Record, snap *cluster.Snapshot) {
	switch row := r.Row().(type) {
	case *cluster.Service:
		w.services[row.Name] = true
		w.moves = true
	case *cluster.Configuration:
		w.configured(snap)
	case *cluster.Request:
		w.requests[row.ID] = true
	case *cluster.Instance:
		w.instance(row, snap)
	case *cluster.Task:
		if row.Service != "" {
			w.services[row.Service] = true
		}
		if !row.Holds() && row.Instance != "" {
			w.freed[row.Instance] = true
		}
		// A foreign task may put its instance above what it has.
		old, known := r.Old.(*cluster.Task)
		if known && !maps.Equal(old.Reported, row.Reported) || row.Foreign && row.Holds() {
			w.moves = true
		}
	case *cluster.Due:
		if r.Op == cluster.Remove {
			w.due(row)
		}
	}
}

// configured looks at everything: any instance may now take what it did not, or have too much.
func (w *work) configured(snap *cluster.Snapshot) {
	w.daemons, w.waiting, w.moves = true, true, true
	for id := range snap.Instances {
		w.freed[id] = true
	}
}

func (w *work) instance(i *cluster.Instance, snap *cluster.Snapshot) {
	w.daemons, w.moves = true, true
	w.freed[i.ID] = true
	v := snap.Instances[i.ID]
	if v == nil {
		return
	}
	for _, t := range v.Tasks {
		if t.Service != "" {
			w.services[t.Service] = true
		}
		w.waiting = w.waiting || i.Gone()
	}
}

func (w *work) due(d *cluster.Due) {
	switch d.Kind {
	case cluster.DueService:
		w.services[d.Subject] = true
	case cluster.DueRequest:
		w.requests[d.Subject] = true
	case cluster.DueWaiting:
		w.waiting = true
	}
}

// decider turns a snapshot and what to look at into commits. It changes the snapshot as if they had been made, so the
// snapshot is of no more use if they are not.
type decider struct {
	snap     *cluster.Snapshot
	engine   *placement.Engine
	specs    *specs
	now      time.Time
	settings Settings
	plan     *planner
	waiting  int // tasks in PROVISIONING
}

func newDecider(warm *warmSnapshot, now time.Time, settings Settings) *decider {
	snap := warm.snap
	return &decider{
		snap: snap, engine: warm.engine, specs: warm.specs, now: now, settings: settings, plan: newPlanner(snap, now),
		waiting: len(snap.Waiting()),
	}
}

// decide is the whole decision of one batch: daemons first, then what waits (the oldest first), then services, then
// requests. The answer is a chain of commits, each safe without those after it.
func decide(warm *warmSnapshot, w *work, now time.Time, settings Settings) []cluster.Commit {
	d := newDecider(warm, now, settings)
	d.wake(w)
	d.services(w, cluster.Daemon)
	d.writeOffStandalone(w)
	d.placeWaiting(w)
	d.services(w, cluster.Replica)
	for _, r := range d.sortedRequests() {
		if w.requests[r.ID] {
			d.request(r)
		}
	}
	d.moves(w)
	return d.plan.commits()
}

func (d *decider) services(w *work, strategy cluster.SchedulingStrategy) {
	for _, name := range sortedKeys(w.services) {
		if s := d.snap.Services[name]; s != nil && s.Strategy == strategy {
			d.service(s)
		}
	}
}

// wake adds the services that a changed instance concerns: all daemons, and those whose next task would now fit there.
func (d *decider) wake(w *work) {
	if w.daemons {
		for _, s := range d.snap.Daemons() {
			w.services[s.Name] = true
		}
	}
	for _, s := range d.snap.Blocked() {
		if w.services[s.Name] {
			continue
		}
		def := d.snap.Definitions[s.Deployment.TaskDefinition]
		for id := range w.freed {
			if v := d.snap.Instances[id]; def != nil && v != nil && d.fits(v, d.serviceRequest(s, def, 1)) {
				w.services[s.Name] = true
				break
			}
		}
	}
}

func (d *decider) fits(v *cluster.InstanceView, r placement.Request) bool {
	_, rejected := d.engine.Check(v, r)
	return rejected == nil
}

// writeOffStandalone ends standalone tasks whose instance has left the cluster; services end their own.
func (d *decider) writeOffStandalone(w *work) {
	for _, id := range sortedKeys(w.freed) {
		v := d.snap.Instances[id]
		if v == nil || v.Instance == nil || !v.Gone() {
			continue
		}
		for _, t := range sortedTasks(v.Tasks) {
			if t.Service == "" {
				d.plan.room(1)
				d.writeOff(t)
			}
		}
	}
}

func (d *decider) gone(instance string) bool {
	v := d.snap.Instances[instance]
	return v == nil || v.Instance == nil || v.Gone()
}

// writeOff ends a task whose instance has left the cluster: ECS's own report of it may never come.
func (d *decider) writeOff(t *cluster.Task) {
	next := d.ended(t, cluster.StopInfrastructure, "Host EC2 ("+d.hostName(t.Instance)+") terminated.")
	next.Version = t.Version + 1
	d.plan.put(next)
}

func (d *decider) hostName(id string) string {
	if v := d.snap.Instances[id]; v != nil && v.Instance != nil && v.EC2InstanceID != "" {
		return "instance " + v.EC2InstanceID
	}
	return "container-instance " + id
}

// ended is the task as STOPPED by Berth, without ECS having a part in it.
func (d *decider) ended(t *cluster.Task, code, reason string) *cluster.Task {
	next := *t
	next.Rev++
	next.Desired, next.Last, next.Stopped = cluster.TaskStopped, cluster.TaskStopped, cluster.At(d.now)
	next.StopCode, next.Reason = code, reason
	next.Expires = d.now.Add(d.settings.KeepStopped).Unix()
	return &next
}

func (d *decider) sortedServices() []*cluster.Service {
	out := make([]*cluster.Service, 0, len(d.snap.Services))
	for _, s := range d.snap.Services {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *cluster.Service) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (d *decider) sortedRequests() []*cluster.Request {
	out := make([]*cluster.Request, 0, len(d.snap.Requests))
	for _, r := range d.snap.Requests {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *cluster.Request) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func sortedTasks(tasks []*cluster.Task) []*cluster.Task { return sortedByAge(slices.Clone(tasks)) }

func sortedByAge(tasks []*cluster.Task) []*cluster.Task {
	slices.SortFunc(tasks, func(a, b *cluster.Task) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return tasks
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (d *decider) serviceRequest(s *cluster.Service, def *cluster.TaskDefinition, n int) placement.Request {
	return placement.Request{Spec: d.specs.service(s, def, d.snap.Configuration.DomainPolicy), Count: n, Target: s.Desired, Seed: d.seed(s.Name)}
}

// seed is what decides by chance in this commit: it differs from one to the next, and is the same if the decision is
// made again.
func (d *decider) seed(of string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d", of, d.plan.next)
	return h.Sum64()
}

// concerning are the service's tasks that its next plan can depend on: those that have ended well are history.
func (d *decider) concerning(s *cluster.Service) []*cluster.Task {
	var out []*cluster.Task
	for _, t := range d.snap.Owned(s.Short) {
		if !t.Ended() || t.NeverRan() {
			out = append(out, t)
		}
	}
	return out
}

func (d *decider) input(s *cluster.Service) service.Input {
	in := service.Input{
		Service: s, Tasks: d.concerning(s), Gone: d.gone, Now: d.now,
		RestartDelay: d.settings.RestartDelay,
	}
	def := d.snap.Definitions[s.Deployment.TaskDefinition]
	in.HealthChecked = def != nil && def.HealthChecked
	if s.Strategy == cluster.Daemon && def != nil {
		spec := d.specs.service(s, def, d.snap.Configuration.DomainPolicy)
		in.Eligible = d.engine.Eligible(spec)
		in.Matches = func(instance string) bool {
			v := d.snap.Instances[instance]
			return v != nil && d.engine.Matches(v, spec)
		}
	}
	return in
}

// differs reports whether the service's rows ask for something to be done that could be done.
func (d *decider) differs(s *cluster.Service) bool {
	p := service.Reconcile(d.input(s))
	if len(p.Stop)+len(p.Lost)+p.Surplus > 0 || p.Status != s.Status || p.Steady != s.Steady ||
		p.Running != s.Running || p.Pending != s.Pending {
		return true
	}
	def := d.snap.Definitions[s.Deployment.TaskDefinition]
	if p.Start+len(p.StartOn)+len(d.waitingOf(s)) == 0 || d.now.Before(p.NotBefore) || def == nil {
		return def == nil && s.Status == cluster.ServiceActive && s.Desired > 0
	}
	r := d.serviceRequest(s, def, 1)
	r.Instances = p.StartOn
	return len(d.engine.Place(r).Placed) > 0 || s.Blocked == nil
}

// cause is what kept tasks from being placed, without the numbers that change all the time.
func cause(d *cluster.Diagnosis) string {
	if d == nil {
		return ""
	}
	var filters []string
	for _, r := range d.Rejected {
		filters = append(filters, string(r.Filter)+r.Detail)
	}
	slices.Sort(filters)
	return fmt.Sprint(d.ClosestFilter, filters)
}
