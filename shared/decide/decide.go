package decide

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	service "berth/shared/service"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// decider turns a snapshot and what to look at into commits. It changes the snapshot as if they had been made, so the
// snapshot is of no more use if they are not.
type decider struct {
	warm     *Warm
	snap     *snapshot.Snapshot
	engine   *placement.Engine
	specs    *Specs
	now      time.Time
	settings Settings
	plan     *planner
	waiting  map[bool]int // tasks in PROVISIONING, by whether they have a capacity provider strategy
	placed   bool         // tasks of a service whose tasks a rule could make leave
	// shut are the instances that get no task of a service now, as ECS refused one there, by its short key.
	shut map[string][]string
}

// NewDecider returns a decider on the snapshot of warm.
func NewDecider(warm *Warm, now time.Time, settings Settings) *decider {
	snap := warm.Snap
	d := &decider{
		warm: warm, snap: snap, engine: warm.engine, specs: warm.specs, now: now, settings: settings, plan: newPlanner(warm, now),
		waiting: map[bool]int{}, shut: map[string][]string{},
	}
	for _, t := range snap.Waiting() {
		d.waiting[d.strategic(t)]++
	}
	return d
}

// Decide is the whole decision of one batch: daemons first, then what waits (the oldest first), then services, then
// requests. The answer is a chain of commits, each safe without those after it.
func Decide(warm *Warm, w *Work, now time.Time, settings Settings) []state.Commit {
	d := NewDecider(warm, now, settings)
	d.wake(w)
	d.away(w)
	d.ReserveAll(w)
	d.services(w, cluster.Daemon)
	d.writeOffUnserved(w)
	d.placeWaiting(w)
	d.services(w, cluster.Replica)
	for _, r := range d.SortedRequests() {
		if w.Requests[r.ID] {
			d.request(r)
		}
	}
	d.moves(w)
	return d.plan.commits()
}

// services decides about those that something has happened to, and then about those that had no room, as far as there is some
// left: with each that takes it there is less to ask.
func (d *decider) services(w *Work, strategy cluster.SchedulingStrategy) {
	done := map[string]bool{}
	decide := func(name string) {
		s := d.snap.Services[name]
		if s == nil || s.Strategy != strategy || done[name] {
			return
		}
		kept := d.snap.Reservations(s.Short)
		d.service(s)
		done[name] = true
		d.released(s, kept, w)
	}
	for _, name := range slices.Sorted(maps.Keys(w.Services)) {
		decide(name)
	}
	for again := true; again; {
		again = false
		for _, s := range d.hopeful(w, strategy) {
			if !w.Services[s.Name] && d.unblocked(s, w) {
				w.Services[s.Name], again = true, true
				decide(s.Name)
			}
		}
	}
}

// wake adds the services that a changed instance concerns whether it has room or not: daemons, and those whose zones may now be
// brought into balance.
func (d *decider) wake(w *Work) {
	for _, s := range d.snap.Daemons() {
		if w.daemons || d.misplaced(s, w) {
			w.Services[s.Name] = true
		}
	}
	d.wakeZones(w)
}

// hopeful are the services that had no room and may have some by now, in order of name: those for whose tasks an instance that
// changed has as much left. Most have not, and the whole look costs more.
func (d *decider) hopeful(w *Work, strategy cluster.SchedulingStrategy) (out []*cluster.Service) {
	if len(w.freed)+len(w.came) == 0 {
		return nil
	}
	room := map[string]bool{} // by task definition: services share them, and they may be many
	for _, s := range d.snap.Blocked() {
		if s.Strategy == strategy && !w.Services[s.Name] && (strategy == cluster.Daemon || d.roomFor(s, w, room)) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *cluster.Service) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// roomFor reports whether an instance that changed has as much left as a task of any of the service's revisions needs; room
// remembers the answers.
func (d *decider) roomFor(s *cluster.Service, w *Work, room map[string]bool) bool {
	for n := -1; n < len(s.Older); n++ {
		revision := &s.Deployment.Revision
		if n >= 0 {
			revision = &s.Older[n].Revision
		}
		has, known := room[revision.TaskDefinition]
		if !known {
			has = d.roomForDefinition(revision.TaskDefinition, w)
			room[revision.TaskDefinition] = has
		}
		if has {
			return true
		}
	}
	return false
}

// roomForDefinition is the same of one task definition.
func (d *decider) roomForDefinition(name string, w *Work) bool {
	def := d.snap.Definitions[name]
	if def == nil {
		return false
	}
	has := func(id string) bool {
		v := d.snap.Instances[id]
		return v != nil && v.HasFree(def.Needs)
	}
	return anyKey(w.freed, has) || anyKey(w.came, has)
}

// misplaced reports whether the constraints of a DAEMON service look at what runs on an instance, and now want a task on one
// that has none, or none on one that has.
func (d *decider) misplaced(s *cluster.Service, w *Work) bool {
	def := d.snap.Definitions[s.Deployment.TaskDefinition]
	if def == nil || s.Status != cluster.ServiceActive {
		return false
	}
	spec, held := d.specs.Service(s, def, ""), d.specs.running(s, def)
	if !dynamic(spec) && !dynamic(held) {
		return false
	}
	wrong := func(id string) bool {
		v := d.snap.Instances[id]
		if v == nil || v.Instance == nil || !v.Available() {
			return false
		}
		if d.has(id, s.Short) {
			return !d.engine.Matches(v, held)
		}
		return d.engine.Matches(v, spec)
	}
	return anyKey(w.freed, wrong) || anyKey(w.came, wrong)
}

func anyKey(m map[string]bool, f func(string) bool) bool {
	for k := range m {
		if f(k) {
			return true
		}
	}
	return false
}

// dynamic reports whether where a task may go depends on the tasks that are there.
func dynamic(spec *placement.Spec) bool {
	return slices.ContainsFunc(spec.Constraints, func(x *constraint.Expression) bool { return !x.Static() })
}

// unblocked reports whether a task of any of the service's revisions fits on one of the instances that changed.
func (d *decider) unblocked(s *cluster.Service, w *Work) bool {
	if s.Strategy == cluster.Daemon && anyKey(w.freed, func(id string) bool { return d.roomKept(s, id) }) {
		return true
	}
	for _, revision := range s.Revisions() {
		def := d.snap.Definitions[revision.TaskDefinition]
		if def == nil {
			continue
		}
		for _, provider := range providersOf(s) {
			if d.opened(w, d.requestWith(provider, s, def, 1)) {
				return true
			}
		}
	}
	return false
}

// opened reports whether one of the instances that changed has room for a task.
func (d *decider) opened(w *Work, r placement.Request) bool {
	fits := func(id string) bool {
		v := d.snap.Instances[id]
		return v != nil && v.HasFree(r.Spec.Needs) && d.fits(v, r) // most have not: a whole look costs more
	}
	return anyKey(w.freed, fits) || dynamic(r.Spec) && anyKey(w.came, fits)
}

func (d *decider) fits(v *snapshot.InstanceView, r placement.Request) bool {
	_, rejected := d.engine.Check(v, r)
	return rejected == nil
}

// writeOffUnserved ends tasks of no service that is there whose instance has left the cluster, and has the registrations wound
// up of those that have ended; services see to their own.
func (d *decider) writeOffUnserved(w *Work) {
	for _, id := range slices.Sorted(maps.Keys(w.freed)) {
		v := d.snap.Instances[id]
		if v == nil || v.Instance == nil || !v.Gone() {
			continue
		}
		for _, t := range SortedTasks(v.Tasks) {
			if !d.served(t) {
				d.plan.room(1)
				d.writeOff(t)
				w.ended = append(w.ended, t)
			}
		}
	}
	for _, t := range w.ended {
		if !d.served(t) && d.snap.Target(t.Owner, t.ID) != nil {
			d.windUp(t.Owner, t.ID)
		}
	}
}

// served reports whether the task's service is there: one that was made again under its name is another.
func (d *decider) served(t *cluster.Task) bool {
	s := d.snap.Services[t.Service]
	return s != nil && s.Short == t.Owner
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

func (d *decider) SortedServices() []*cluster.Service {
	out := make([]*cluster.Service, 0, len(d.snap.Services))
	for _, s := range d.snap.Services {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *cluster.Service) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (d *decider) SortedRequests() []*state.Request {
	out := make([]*state.Request, 0, len(d.snap.Requests))
	for _, r := range d.snap.Requests {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *state.Request) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// SortedTasks returns the tasks, oldest first, in a new slice.
func SortedTasks(tasks []*cluster.Task) []*cluster.Task { return sortedByAge(slices.Clone(tasks)) }

func sortedByAge(tasks []*cluster.Task) []*cluster.Task {
	slices.SortFunc(tasks, func(a, b *cluster.Task) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return tasks
}

// serviceRequest asks for n tasks of the service with any capacity provider of its strategy; with any instance where it has none.
func (d *decider) serviceRequest(s *cluster.Service, def *cluster.TaskDefinition, n int) placement.Request {
	return d.requestWith(strings.Join(providersOf(s), "|"), s, def, n)
}

// requestWith asks for n tasks of the service with a capacity provider, or several with | between them; with any instance where
// it is empty.
func (d *decider) requestWith(provider string, s *cluster.Service, def *cluster.TaskDefinition, n int) placement.Request {
	return placement.Request{
		Spec: d.specs.With(provider, s, def, d.snap.Configuration.DomainPolicy), Count: n, Target: s.Desired, Seed: d.seed(s.Name),
		Refused: d.shut[s.Short],
	}
}

// seed is what decides by chance in this commit: it differs from one to the next, and is the same if the decision is
// made again.
func (d *decider) seed(of string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d", of, d.plan.next)
	return h.Sum64()
}

// Differs reports whether the service's rows ask for something to be done that could be done.
func (d *decider) Differs(s *cluster.Service) bool {
	p := service.Reconcile(d.input(s))
	d.shut[s.Short] = p.RefusedInstances
	if len(p.Stops)+len(p.Choices)+len(p.LostTasks)+len(p.CountedFailures)+len(p.RegisterTargets)+len(p.DeregisterTargets)+len(p.EmittedTargets)+len(p.EventsBefore)+len(p.EventsAfter) > 0 ||
		p.Next.Status != s.Status || p.Steady != s.Steady || p.Next.Running != s.Running || p.Next.Pending != s.Pending || d.unbalanced(s, p) {
		return true
	}
	if s.Strategy == cluster.Daemon {
		d.snap.Reserve(s.Short, nil) // for whom it is kept free may have it
		defer d.reserve(s)
	}
	for _, wish := range d.wishes(s, p) {
		def := d.snap.Definitions[wish.revision.TaskDefinition]
		if def == nil || s.Blocked == nil {
			return true
		}
		for _, provider := range d.next(s, wish)[:1] {
			r := d.requestWith(provider, s, def, 1)
			r.Instances, r.Unexplained = wish.start.Instances, true
			if len(d.engine.Place(r).Placed) > 0 {
				return true
			}
		}
	}
	return false
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
