package managedscaling

import (
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/decide/specs"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/snapshot"
)

// ScalingInput returns what a decision about a capacity provider depends on, for callers who only
// ask what would be decided (`berth whatif`). It does not know whether the group's nodes are being
// upgraded. history may be nil.
func ScalingInput(
	snap *snapshot.Snapshot, p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, history *cluster.ScalingHistory,
	now time.Time,
) scaling.Input {
	if history == nil {
		history = &cluster.ScalingHistory{Provider: p.Name}
	}
	cache := specs.NewCache(snap)
	return scaling.Input{
		Provider: p, Group: g, Snapshot: snap, History: *history, Now: now,
		Waiting: waitingTasks(snap, cache)[p.Name], Daemons: daemonSpecs(snap, cache),
		Movers: specs.MoversTo(snap, cache, p.Name, taskOwners(snap, g)), // also if consolidation is off
	}
}

// decisionInput returns what a decision about the provider depends on. The movers, which take long
// to find, are left out unless consolidation may use them (C5).
func (r *round) decisionInput(
	p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, history cluster.ScalingHistory,
) scaling.Input {
	update := r.updates[p.Group]
	if update != nil && update.OriginalSizes != nil {
		original := *g // the update has raised the maximum for as long as it takes
		original.Max = min(g.Max, update.OriginalSizes.Max)
		g = &original
	}
	in := scaling.Input{
		Provider: p, Group: g, Snapshot: r.snap, History: history, Now: r.Clock.Now(), Upgrading: update != nil,
		Waiting: r.waiting[p.Name], Daemons: r.daemons, Between: r.between,
	}
	if p.Scaling.Consolidation.Enabled {
		in.Movers = specs.MoversTo(r.snap, r.specs, p.Name, taskOwners(r.snap, g))
	}
	return in
}

// taskOwners returns the short keys of owners whose tasks may be moved: those with tasks on the
// group's instances, or on an instance that drains.
func taskOwners(snap *snapshot.Snapshot, g *cluster.AutoScalingGroup) map[string]bool {
	inGroup, owners := map[string]bool{}, map[string]bool{}
	for _, i := range g.Instances {
		inGroup[i.ID] = true
	}
	for _, v := range snap.Instances {
		if v.Instance == nil || !inGroup[v.EC2InstanceID] && v.Status != cluster.InstanceDraining {
			continue
		}
		for _, t := range v.Tasks {
			owners[t.Owner] = true
		}
	}
	return owners
}

// daemonSpecs returns what tasks of DAEMON services need. A new instance must have room for them
// besides the waiting tasks (S4).
func daemonSpecs(snap *snapshot.Snapshot, cache *specs.Cache) (daemons []*placement.Spec) {
	for _, name := range slices.Sorted(maps.Keys(snap.Services)) {
		s := snap.Services[name]
		def := snap.Definitions[s.Deployment.TaskDefinition]
		if s.Status == cluster.ServiceActive && s.Strategy == cluster.Daemon && def != nil {
			daemons = append(daemons, cache.ForService(s, def, ""))
		}
	}
	return daemons
}

// waitingTasks groups the tasks in PROVISIONING by the capacity provider that they wait for, and
// then by what they need (C2). Groups and tasks come oldest first, so the same state gives the same
// decision.
func waitingTasks(snap *snapshot.Snapshot, cache *specs.Cache) map[string][]scaling.WaitingTasks {
	type line struct {
		provider string
		spec     *placement.Spec
	}
	byProvider, index := map[string][]scaling.WaitingTasks{}, map[line]int{}
	add := func(t *cluster.Task, provider, owner string, spec *placement.Spec, target int) {
		list := byProvider[provider]
		i, known := index[line{provider, spec}]
		if !known {
			i = len(list)
			index[line{provider, spec}] = i
			list = append(list, scaling.WaitingTasks{Name: owner, Spec: spec, Target: target})
			byProvider[provider] = list
		}
		list[i].Count++
		list[i].Since = append(list[i].Since, t.CreatedAt.Time())
	}
	waiting := decide.SortedTasks(snap.ProvisioningTasks())
	allotted := assignWaitingTasks(snap, waiting)
	for _, t := range waiting {
		def := snap.Definitions[t.TaskDefinition]
		switch s := snap.Services[t.Service]; {
		case def == nil:
		case t.Service == "":
			if name := specs.FirstProvider(t.Rules); name != "" {
				add(t, name, "standalone tasks of group "+t.Group,
					cache.ForStandalone(specs.ShapeOf(t), def, snap.Meta.Short), 0)
			}
		case allotted[t.ID] != "":
			name := allotted[t.ID]
			of := s.OfRevision(t.Revision)
			spec := cache.ForProvider(name, of, def, snap.Configuration.DomainPolicy)
			add(t, name, "service "+s.Name, spec, s.WantedTasks())
		}
	}
	return byProvider
}

// assignWaitingTasks returns the provider that each of the services' waiting tasks goes to, by task
// id. Base and weights apply to each revision of a service separately (S14).
func assignWaitingTasks(snap *snapshot.Snapshot, waiting []*cluster.Task) map[string]string {
	type revision struct{ short, name string }
	tasks := map[revision][]*cluster.Task{}
	var order []revision
	for _, t := range waiting {
		s := snap.Services[t.Service]
		if t.Service == "" || s == nil || s.Short != t.Owner || len(s.OfRevision(t.Revision).Providers) == 0 {
			continue
		}
		if t.Revision == s.Deployment.ID && s.Deployment.State == cluster.RolloutFailed {
			continue // it starts nothing
		}
		key := revision{s.Short, t.Revision}
		if tasks[key] == nil {
			order = append(order, key)
		}
		tasks[key] = append(tasks[key], t)
	}
	allotted := map[string]string{}
	for _, key := range order {
		of := tasks[key]
		have := specs.CountByProvider(snap, key.short, key.name)
		s := snap.Services[of[0].Service].OfRevision(key.name)
		for n, provider := range specs.AssignProviders(s.Providers, have, len(of)) {
			allotted[of[n].ID] = provider
		}
	}
	return allotted
}
