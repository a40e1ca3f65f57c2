package decide

import (
	"cmp"
	"slices"

	"berth/shared/cluster"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/service"
)

// A demand is the part of one revision's tasks that is left to place: provisioning tasks and new
// ones.
type demand struct {
	service      *cluster.Service // as the revision's tasks see it
	revision     *cluster.Revision
	definition   *cluster.TaskDefinition // nil if it is unknown
	refused      []string                // instances that get none of the tasks
	start        service.Start
	provisioning []*cluster.Task // oldest first
}

func (d *demand) taskCount() int { return d.start.Count + len(d.provisioning) }

// request asks for n of the demand's tasks with a capacity provider, or on any instance if the
// provider is empty.
func (d *demand) request(view *clusterView, provider string, n int) placement.Request {
	r := providerRequest(view, d.service, d.definition, provider, n)
	r.Spec = view.specs.ForRollout(r.Spec, d.service, d.revision.ID)
	r.Refused = d.refused
	return r
}

// demandProviders returns the capacity provider of each task of the demand.
func demandProviders(view *clusterView, d *demand) []string {
	if len(d.service.Providers) == 0 {
		return make([]string, d.taskCount())
	}
	counts := map[string]int{}
	for _, t := range view.snap.TasksOf(d.service.Short) {
		if t.IsActive() && t.HoldsCapacity() && t.Revision == d.revision.ID {
			counts[view.providerOf(d.service, t)]++
		}
	}
	return specs.AssignProviders(d.service.Providers, counts, d.taskCount())
}

// serviceDemands returns what the service's plan wants placed, most urgent first, without revisions
// that are held back.
func serviceDemands(view *clusterView, s *cluster.Service, p *service.Plan) []*demand {
	var demands []*demand
	of := func(r *cluster.Revision) *demand {
		i := slices.IndexFunc(demands, func(d *demand) bool { return d.revision.ID == r.ID })
		if i < 0 {
			i = len(demands)
			demands = append(demands, &demand{service: s.OfRevision(r.ID), revision: r,
				definition: view.snap.Definitions[r.TaskDefinition], refused: p.RefusedInstances})
		}
		return demands[i]
	}
	for _, start := range p.Starts {
		of(start.Revision).start = start
	}
	for _, t := range provisioningTasks(view, s) {
		if r := p.Next.Revision(t.Revision); r != nil && !p.HeldRevisions[r.ID] {
			d := of(r)
			d.provisioning = append(d.provisioning, t)
		}
	}
	if s.Strategy == cluster.Replica {
		putFailingLast(view, p.Next, demands)
		demands = withinMaximum(view, p.Next, demands)
	}
	return demands
}

// putFailingLast puts revisions whose tasks never become healthy behind the others. Otherwise they
// would take the only room there is again and again.
func putFailingLast(view *clusterView, s *cluster.Service, demands []*demand) {
	if len(demands) < 2 {
		return
	}
	backoffs := service.Backoffs(view.snap.Throttle(s.Short), relevantTasks(view, s), view.settings.Limits(), view.now)
	failing := map[string]int{}
	for _, on := range append([]cluster.Deployment{s.Deployment}, s.Older...) {
		if backoffs[on.ID].Step > 0 || on.Failed > 0 && on.Healthy == 0 {
			failing[on.ID] = 1
		}
	}
	slices.SortStableFunc(demands, func(a, b *demand) int {
		return cmp.Compare(failing[a.revision.ID],
			failing[b.revision.ID])
	})
}

// withinMaximum drops provisioning tasks that would exceed maximumPercent now, because fewer tasks
// are desired than when they began to wait. It returns the demands that are left.
func withinMaximum(view *clusterView, next *cluster.Service, demands []*demand) []*demand {
	_, room := next.TaskBounds(next.Desired)
	for _, t := range view.snap.TasksOf(next.Short) {
		if t.IsActive() && t.HoldsCapacity() {
			room--
		}
	}
	for _, d := range demands {
		if next.HasTaskSets() {
			room = roomOfTaskSet(view, d)
		}
		d.provisioning = d.provisioning[:max(0, min(len(d.provisioning), room-d.start.Count))]
		room -= d.taskCount()
	}
	return slices.DeleteFunc(demands, func(d *demand) bool { return d.taskCount() == 0 })
}

// roomOfTaskSet returns how many more tasks maximumPercent allows the demand's task set to have on
// instances.
func roomOfTaskSet(view *clusterView, d *demand) int {
	_, room := d.service.TaskBounds(d.service.Desired)
	for _, t := range view.snap.TasksOf(d.service.Short) {
		if t.IsActive() && t.HoldsCapacity() && t.Revision == d.revision.ID {
			room--
		}
	}
	return room
}

// provisioningTasks returns the service's tasks that wait for an instance, oldest first.
func provisioningTasks(view *clusterView, s *cluster.Service) []*cluster.Task {
	if view.snap.ProvisioningCount(s.Short) == 0 {
		return nil
	}
	among := view.snap.ProvisioningTasks()
	if own := view.snap.TasksOf(s.Short); len(own) < len(among) {
		among = own
	}
	var tasks []*cluster.Task
	for _, t := range among {
		if t.Owner == s.Short && t.IsProvisioning() {
			tasks = append(tasks, t)
		}
	}
	return sortByAge(tasks)
}
