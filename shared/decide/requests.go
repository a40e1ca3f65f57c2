package decide

import (
	"cmp"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// maxRequestRows is the most rows of the answer to a request of RunTask or StartTask: each task with an
// outbox row, and with an alias if it has its id already, the request and a due row.
func maxRequestRows(r *state.Request) int {
	rows := plan.RowsPerStart
	if !r.Provisional {
		rows--
	}
	return max(r.Count, len(r.Instances))*rows + 2
}

// SortedRequests returns the requests that the snapshot has, oldest first.
func SortedRequests(snap *snapshot.Snapshot) []*state.Request {
	return slices.SortedFunc(maps.Values(snap.Requests), func(a, b *state.Request) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
}

// answerRequests answers the requests of RunTask and StartTask named by id, oldest first.
func answerRequests(view *clusterView, commits *plan.Builder, ids map[string]bool) {
	for _, r := range SortedRequests(view.snap) {
		if !ids[r.ID] || view.snap.Definitions[r.TaskDefinition] == nil || r.Answered {
			continue
		}
		commits.KeepTogether(maxRequestRows(r))
		next := *r
		next.Answered, next.Rev, next.Expires = true, r.Rev+1, view.now.Add(view.settings.KeepRequests).Unix()
		if r.Kind == cluster.StartTask {
			startOnInstances(view, commits, &next)
		} else {
			runTasks(view, commits, &next)
		}
		commits.PutRow(&next)
	}
}

// standaloneRequest asks for n standalone tasks of the shape.
func standaloneRequest(view *clusterView, k specs.Shape, n int) placement.Request {
	def := view.snap.Definitions[k.Definition]
	return placement.Request{Spec: view.specs.ForStandalone(k, def, view.snap.Meta.Short), Count: n}
}

// startOnInstances answers StartTask: it starts one task on each instance named, or records for
// each instance why not.
func startOnInstances(view *clusterView, commits *plan.Builder, r *state.Request) {
	for n, id := range r.Instances {
		if v := view.snap.Instances[id]; v == nil || v.Instance == nil || v.IsDeregistered() {
			r.Failures = append(r.Failures, cluster.Failure{ARN: id, Reason: "MISSING"})
			failProvisional(view, commits, r, n, "container instance "+id+" is missing.")
			continue
		}
		p := standaloneRequest(view, specs.ShapeOfRequest(r), 1)
		p.Instances, p.Seed = []string{id}, commits.SeedFor(r.ID)
		result := view.engine.Place(p)
		if len(result.Placed) == 0 {
			nameUnknown(view, r.Rules, result.Diagnosis)
			r.Failures = append(r.Failures, placementFailure(result.Diagnosis, id))
			failProvisional(view, commits, r, n, result.Diagnosis.String())
			continue
		}
		startRequested(view, commits, r, n, result.Placed[0])
	}
}

// placementFailure returns the diagnosis as a failure of RunTask or StartTask.
func placementFailure(diagnosis *cluster.Diagnosis, instance string) cluster.Failure {
	out := cluster.Failure{Reason: diagnosis.FailureReason()}
	if diagnosis.Evaluated > 0 {
		out.Detail = diagnosis.String()
	}
	if diagnosis.Empty == "" && diagnosis.Evaluated > 0 {
		out.ARN = instance
	}
	return out
}

// runTasks answers RunTask: it starts tasks where they fit. What fits nowhere is provisioned if the
// request says so, and fails otherwise. If the request has a capacity provider strategy, each task
// has its provider.
func runTasks(view *clusterView, commits *plan.Builder, r *state.Request) {
	if r.Rules == nil || len(r.Rules.Providers) == 0 {
		part := *r
		runPart(view, commits, r, &part, 0)
		return
	}
	counts := map[string]int{}
	for _, p := range specs.AssignProviders(r.Rules.Providers, nil, r.Count) {
		counts[p]++
	}
	n := 0
	for _, p := range r.Rules.Providers {
		part := *r
		part.Rules, part.Count = specs.WithFirstProvider(r.Rules, p.Provider), counts[p.Provider]
		if part.Count > 0 {
			runPart(view, commits, r, &part, n)
		}
		n += part.Count
	}
}

// runPart runs those of a request's tasks, from the n-th on, that have the same capacity provider.
func runPart(view *clusterView, commits *plan.Builder, r, part *state.Request, n int) {
	provider := specs.FirstProvider(part.Rules)
	p := standaloneRequest(view, specs.ShapeOfRequest(part), part.Count)
	p.Seed = commits.SeedFor(part.ID)
	result := placeForProvider(view, provider, p)
	nameUnknown(view, part.Rules, result.Diagnosis)
	part.Tasks, part.Failures = nil, nil
	for k, where := range result.Placed {
		startRequested(view, commits, part, n+k, where)
	}
	for k := n + len(result.Placed); k < n+part.Count; k++ {
		switch {
		case !r.Wait:
			part.Failures = append(part.Failures, placementFailure(result.Diagnosis, result.Diagnosis.Closest))
			failProvisional(view, commits, part, k, result.Diagnosis.String())
		case admitProvisioning(view, provider != "", 1) == 0:
			part.Failures = append(part.Failures, cluster.Failure{Reason: scaling.LimitExceeded,
				Detail: result.Diagnosis.String()})
			failProvisional(view, commits, part, k, scaling.LimitExceeded)
		default:
			t := newStandaloneTask(view, part)
			t.WaitUntil = cluster.At(r.WaitUntil)
			provisionTask(commits, t, cluster.RequestedTaskID(t.Owner, r.ID, k))
			part.Tasks = append(part.Tasks, t.ID)
			if !t.WaitUntil.IsZero() {
				commits.ScheduleDue(state.DueWaiting, "", r.WaitUntil)
			}
			scheduleFallback(view, commits, r, t.CreatedAt.Time())
		}
	}
	r.Tasks, r.Failures = append(r.Tasks, part.Tasks...), append(r.Failures, part.Failures...)
}

// startRequested starts the n-th task of a request. If the caller was given an id for it, the task
// has that id.
func startRequested(view *clusterView, commits *plan.Builder, r *state.Request, n int, where placement.Placement) {
	t := newStandaloneTask(view, r)
	if r.Provisional {
		t.ID = cluster.RequestedTaskID(t.Owner, r.ID, n)
	}
	startTask(view, commits, t, where, view.snap.Definitions[r.TaskDefinition])
	r.Tasks = append(r.Tasks, t.ID)
}

// failProvisional leaves a STOPPED task behind if the caller was already given an id for the n-th
// task.
func failProvisional(view *clusterView, commits *plan.Builder, r *state.Request, n int, why string) {
	if !r.Provisional {
		return
	}
	t := newStandaloneTask(view, r)
	t.ID = cluster.RequestedTaskID(t.Owner, r.ID, n)
	commits.PutRow(endedTask(view, t, cluster.StopFailedToStart, cluster.StartFailed+why))
	r.Tasks = append(r.Tasks, t.ID)
}
