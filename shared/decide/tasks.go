package decide

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/service"
	"berth/shared/state"
)

// newServiceTask returns a task of one of the service's revisions, which has no id and no instance
// yet.
func newServiceTask(
	view *clusterView, s *cluster.Service, r *cluster.Revision, def *cluster.TaskDefinition,
) *cluster.Task {
	return &cluster.Task{
		Head: cluster.Head{Cluster: s.Cluster},
		TaskSpec: cluster.TaskSpec{
			Owner: s.Short, Service: s.Name, Group: "service:" + s.Name, Revision: r.ID,
			TaskDefinition: def.Name(), Needs: def.Needs, Ports: def.Ports, CreatedAt: cluster.At(view.now),
			Tags: s.TaskTags(def),
		},
		TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning},
	}
}

// newStandaloneTask returns a task of the request, which has no id and no instance yet.
func newStandaloneTask(view *clusterView, r *state.Request) *cluster.Task {
	def := view.snap.Definitions[r.TaskDefinition]
	return &cluster.Task{
		Head: cluster.Head{Cluster: view.snap.Meta.Cluster},
		TaskSpec: cluster.TaskSpec{
			Owner: view.snap.Meta.Short, Group: r.Group, Request: r.ID, TaskDefinition: def.Name(),
			Needs: r.Needs, Ports: def.Ports, Overrides: r.Overrides, Rules: r.Rules, Network: r.Network,
			StartedByUser: r.StartedBy, Tags: r.Tags, CreatedAt: cluster.At(r.CreatedAt),
		},
		TaskAssignment: cluster.TaskAssignment{Desired: cluster.TaskRunning},
	}
}

// startTask starts a task on the instance and devices that placement chose.
func startTask(
	view *clusterView, commits *plan.Builder, t *cluster.Task, where placement.Placement, def *cluster.TaskDefinition,
) {
	t.Instance, t.GPUs, t.WaitUntil = where.Instance, where.GPUs, 0
	if t.Needs.GPUMilli > 0 && t.Needs.GPUMilli < cluster.WholeGPU {
		t.Overrides = withVisibleDevices(view, t, def)
	}
	commits.AddStart(t)
}

// provisionTask writes a task that waits for an instance.
func provisionTask(commits *plan.Builder, t *cluster.Task, id string) {
	commits.KeepTogether(1)
	t.ID, t.Rev = id, 1
	commits.PutRow(t)
}

// endedTask returns the task as STOPPED, for a task that ECS never had or will not report.
func endedTask(view *clusterView, t *cluster.Task, code, reason string) *cluster.Task {
	next := *t
	next.Rev++
	next.Desired, next.Last, next.Stopped = cluster.TaskStopped, cluster.TaskStopped, cluster.At(view.now)
	next.StopCode, next.Reason = code, reason
	next.Expires = view.now.Add(view.settings.KeepStopped).Unix()
	return &next
}

// withVisibleDevices returns the task's overrides with the environment variable by which the NVIDIA
// runtime shows its containers only the task's own GPUs. ECS itself knows no parts of a GPU.
func withVisibleDevices(view *clusterView, t *cluster.Task, def *cluster.TaskDefinition) *cluster.Overrides {
	next := cluster.Overrides{}
	if t.Overrides != nil {
		next = *t.Overrides
	}
	devices := ""
	for i, g := range t.GPUs {
		if i > 0 {
			devices += ","
		}
		devices += view.snap.Instances[t.Instance].Registered.GPUs[g]
	}
	visible := cluster.Variable{Name: "NVIDIA_VISIBLE_DEVICES", Value: devices}
	given := map[string]cluster.ContainerOverride{}
	for _, c := range next.Containers {
		given[c.Name] = c
	}
	next.Containers = nil
	for _, name := range def.Containers {
		c := given[name]
		c.Name = name
		c.Environment = append(append([]cluster.Variable(nil), c.Environment...), visible)
		next.Containers = append(next.Containers, c)
	}
	return &next
}

// admitProvisioning returns how many of the asked tasks may wait for an instance (C4). Tasks with a
// capacity provider strategy and tasks without are limited apart. ECS lets only the former wait,
// and nothing is scaled out for the latter, so they must not take the former's places.
func admitProvisioning(view *clusterView, withStrategy bool, asked int) int {
	provisioning := 0
	for _, t := range view.snap.ProvisioningTasks() {
		if hasStrategy(view, t) == withStrategy {
			provisioning++
		}
	}
	admitted, _ := scaling.AdmitWaiting(provisioning, asked, view.settings.ProvisioningLimit)
	return admitted
}

// hasStrategy reports whether the task has a capacity provider strategy: its service's, or its own.
func hasStrategy(view *clusterView, t *cluster.Task) bool {
	if t.Service == "" {
		return specs.FirstProvider(t.Rules) != ""
	}
	s := view.snap.Services[t.Service]
	return s != nil && s.Short == t.Owner && len(s.OfRevision(t.Revision).Providers) > 0
}

// SortedTasks returns the tasks, oldest first, in a new slice.
func SortedTasks(tasks []*cluster.Task) []*cluster.Task { return sortByAge(slices.Clone(tasks)) }

func sortByAge(tasks []*cluster.Task) []*cluster.Task {
	slices.SortFunc(tasks, func(a, b *cluster.Task) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return tasks
}

// startPlaced starts the demand's tasks where placement put them, provisioning tasks first, and
// takes them off the demand. Each commit has the service event for its own starts.
func startPlaced(
	view *clusterView, commits *plan.Builder, d *demand, placed []placement.Placement, draft *serviceDraft,
) {
	var started []string
	replacing := 0
	for _, where := range placed {
		if commits.RowsLeft() < plan.RowsPerStart+draft.rowsNeeded() {
			if len(started) > 0 {
				draft.addMessage(service.TasksStartedMessage(d.service.Name, started, replacing))
				writeDraft(view, commits, draft)
				started, replacing = nil, 0
			}
			commits.KeepTogether(plan.RowsPerStart + draft.rowsNeeded())
		}
		t := newServiceTask(view, d.service, d.revision, d.definition)
		if len(d.provisioning) > 0 {
			*t = *d.provisioning[0]
			d.provisioning = d.provisioning[1:]
		} else if d.start.Count--; d.start.ReplacesUnhealthy > d.start.Count {
			d.start.ReplacesUnhealthy--
			replacing++
		}
		startTask(view, commits, t, where, d.definition)
		started = append(started, t.ID)
	}
	if len(started) > 0 {
		draft.addMessage(service.TasksStartedMessage(d.service.Name, started, replacing))
	}
}
