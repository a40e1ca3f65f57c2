package decide

import (
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/state"
)

// maxRequestRows is the most rows of one RunTask or StartTask answer: 10 tasks, each with an alias and an outbox row,
// the request and a due row.
const maxRequestRows = 10*rowsPerStart + 2

// request answers one RunTask or StartTask: tasks started, tasks that wait, and failures with their reason.
func (d *decider) request(r *state.Request) {
	def := d.snap.Definitions[r.TaskDefinition]
	if def == nil || r.Answered {
		return
	}
	d.plan.room(maxRequestRows)
	next := *r
	next.Answered, next.Rev, next.Expires = true, r.Rev+1, d.now.Add(d.settings.KeepRequests).Unix()
	if r.Kind == cluster.StartTask {
		d.startTask(&next, def)
	} else {
		d.runTask(&next, def)
	}
	d.plan.put(&next)
}

func (d *decider) standalone(r *state.Request, def *cluster.TaskDefinition) *cluster.Task {
	return &cluster.Task{
		Head: cluster.Head{Cluster: d.snap.Meta.Cluster}, Owner: d.snap.Meta.Short, Group: r.Group, Request: r.ID,
		TaskDefinition: def.Name(), Needs: r.Needs, Ports: def.Ports, Overrides: r.Overrides, Rules: r.Rules, Network: r.Network,
		StartedByUser: r.StartedBy, Tags: r.Tags, Desired: cluster.TaskRunning, CreatedAt: cluster.At(r.CreatedAt),
	}
}

// need asks for n standalone tasks of the shape.
func (d *decider) need(k shape, def *cluster.TaskDefinition, seed string, n int) placement.Request {
	return placement.Request{Spec: d.specs.Standalone(k, def, d.snap.Meta.Short), Count: n, Seed: d.seed(seed)}
}

// startTask starts one task on each instance named, or says per instance why not.
func (d *decider) startTask(r *state.Request, def *cluster.TaskDefinition) {
	for n, id := range r.Instances {
		if v := d.snap.Instances[id]; v == nil || v.Instance == nil || v.Gone() {
			r.Failures = append(r.Failures, cluster.Failure{ARN: id, Reason: "MISSING"})
			d.refused(r, def, n, "container instance "+id+" is missing.")
			continue
		}
		p := d.need(shapeOfRequest(r), def, r.ID, 1)
		p.Instances = []string{id}
		result := d.engine.Place(p)
		if len(result.Placed) == 0 {
			r.Failures = append(r.Failures, failure(result.Diagnosis, id))
			d.refused(r, def, n, result.Diagnosis.String())
			continue
		}
		d.accept(r, def, n, result.Placed[0])
	}
}

func failure(diagnosis *cluster.Diagnosis, instance string) cluster.Failure {
	out := cluster.Failure{Reason: diagnosis.Failure()}
	if diagnosis.Evaluated > 0 {
		out.Detail = diagnosis.String()
	}
	if diagnosis.Empty == "" && diagnosis.Evaluated > 0 {
		out.ARN = instance
	}
	return out
}

// runTask starts the tasks where they fit. What fits nowhere waits, if the request says so, or fails. Where the request has a
// capacity provider strategy each task has its provider.
func (d *decider) runTask(r *state.Request, def *cluster.TaskDefinition) {
	if r.Rules == nil || len(r.Rules.Providers) == 0 {
		part := *r
		d.runPart(r, &part, def, 0)
		return
	}
	count := map[string]int{}
	for _, p := range Allot(r.Rules.Providers, nil, r.Count) {
		count[p]++
	}
	n := 0
	for _, p := range r.Rules.Providers {
		part := *r
		part.Rules, part.Count = assigned(r.Rules, p.Provider), count[p.Provider]
		if part.Count > 0 {
			d.runPart(r, &part, def, n)
		}
		n += part.Count
	}
}

// runPart starts those of a request's tasks, from the n-th, that go to the same capacity provider.
func (d *decider) runPart(r, part *state.Request, def *cluster.TaskDefinition, n int) {
	result := d.placeWith(FirstProvider(part.Rules), d.need(shapeOfRequest(part), def, part.ID, part.Count))
	part.Tasks, part.Failures = nil, nil
	for k, where := range result.Placed {
		d.accept(part, def, n+k, where)
	}
	for k := n + len(result.Placed); k < n+part.Count; k++ {
		switch {
		case !r.Wait:
			part.Failures = append(part.Failures, failure(result.Diagnosis, result.Diagnosis.Closest))
			d.refused(part, def, k, result.Diagnosis.String())
		case d.full(FirstProvider(part.Rules) != ""):
			part.Failures = append(part.Failures, cluster.Failure{Reason: scaling.LimitExceeded, Detail: result.Diagnosis.String()})
			d.refused(part, def, k, scaling.LimitExceeded)
		default:
			t := d.standalone(part, def)
			t.WaitUntil = cluster.At(r.WaitUntil)
			d.provision(t, cluster.RequestedTaskID(t.Owner, r.ID, k))
			part.Tasks = append(part.Tasks, t.ID)
			if !t.WaitUntil.IsZero() {
				d.plan.due(state.DueWaiting, "", r.WaitUntil)
			}
			d.fallsBack(r, t.CreatedAt.Time())
		}
	}
	r.Tasks, r.Failures = append(r.Tasks, part.Tasks...), append(r.Failures, part.Failures...)
}

// full reports whether no more tasks of the cluster may wait for an instance (C4): of those that have a capacity provider strategy, or
// of those that have none. ECS lets only the former wait; as many of the latter, for which nothing is scaled, never take their places.
func (d *decider) full(strategic bool) bool {
	_, err := scaling.Admit(d.waiting[strategic], 1, d.settings.ProvisioningLimit)
	return err != nil
}

// strategic reports whether the task has a capacity provider strategy: its service's, or its own.
func (d *decider) strategic(t *cluster.Task) bool {
	if t.Service == "" {
		return FirstProvider(t.Rules) != ""
	}
	s := d.snap.Services[t.Service]
	return s != nil && s.Short == t.Owner && len(s.Providers) > 0
}

// accept starts the n-th task of a request. Its id is the one the caller was given, if the caller was given one.
func (d *decider) accept(r *state.Request, def *cluster.TaskDefinition, n int, where placement.Placement) {
	t := d.standalone(r, def)
	if r.Provisional {
		t.ID = cluster.RequestedTaskID(t.Owner, r.ID, n)
	}
	d.begin(t, where, def)
	r.Tasks = append(r.Tasks, t.ID)
}

// refused leaves a STOPPED task behind where the caller was already given its id.
func (d *decider) refused(r *state.Request, def *cluster.TaskDefinition, n int, why string) {
	if !r.Provisional {
		return
	}
	t := d.standalone(r, def)
	t.ID = cluster.RequestedTaskID(t.Owner, r.ID, n)
	d.plan.put(d.ended(t, cluster.StopFailedToStart, cluster.StartFailed+why))
	r.Tasks = append(r.Tasks, t.ID)
}

// placeWaiting starts standalone tasks that waited, the oldest first, on instances that were freed (on all where w
// says so), and ends those whose time is over. Placement is asked once per shape until it refuses.
func (d *decider) placeWaiting(w *Work) {
	if !w.waiting && len(w.freed)+len(w.came) == 0 {
		return
	}
	refused := map[shape]bool{}
	for _, t := range d.candidates(w) {
		if d.overdue(t) {
			d.plan.room(1)
			d.plan.put(d.ended(t, cluster.StopFailedToStart, cluster.StartFailed+"no instance could take the task in time."))
			d.waiting[d.strategic(t)]--
			continue
		}
		if where := d.placeOne(t, refused); where != nil {
			d.plan.room(rowsPerStart)
			next := *t
			d.begin(&next, *where, d.snap.Definitions[t.TaskDefinition])
			d.waiting[d.strategic(t)]--
		}
	}
}

// placeOne is where a standalone task that waits may be started; nil for nowhere. Shapes that found no place are not tried
// again.
func (d *decider) placeOne(t *cluster.Task, refused map[shape]bool) *placement.Placement {
	def := d.snap.Definitions[t.TaskDefinition]
	if def == nil {
		return nil
	}
	for _, k := range d.shapes(t) {
		if refused[k] {
			continue
		}
		if result := d.engine.Place(d.need(k, def, t.ID, 1)); len(result.Placed) > 0 {
			return &result.Placed[0]
		}
		refused[k] = true
	}
	return nil
}

// overdue reports whether the task has waited as long as it may.
func (d *decider) overdue(t *cluster.Task) bool {
	return !t.WaitUntil.IsZero() && !d.now.Before(t.WaitUntil.Time())
}

// candidates are the standalone tasks that wait and that the work may concern, the oldest first: all of them, or those
// of a shape that a changed instance has room for.
func (d *decider) candidates(w *Work) []*cluster.Task {
	out := d.waitingStandalone()
	if w.waiting {
		return sortedByAge(out)
	}
	fit := map[shape]bool{}
	out = slices.DeleteFunc(out, func(t *cluster.Task) bool {
		return !slices.ContainsFunc(d.shapes(t), func(k shape) bool {
			ok, known := fit[k]
			if !known {
				def := d.snap.Definitions[t.TaskDefinition]
				ok = def != nil && d.opened(w, d.need(k, def, t.ID, 1))
				fit[k] = ok
			}
			return ok
		})
	})
	return sortedByAge(out)
}

func (d *decider) waitingStandalone() []*cluster.Task {
	out := make([]*cluster.Task, 0, len(d.snap.Waiting()))
	for _, t := range d.snap.Waiting() {
		if t.Service == "" {
			out = append(out, t)
		}
	}
	return out
}

// WaitingDiffers reports whether a standalone task that waits would now fit, or has waited long enough.
func (d *decider) WaitingDiffers() bool {
	refused := map[shape]bool{}
	for _, t := range d.waitingStandalone() {
		if d.overdue(t) || d.placeOne(t, refused) != nil {
			return true
		}
	}
	return false
}
