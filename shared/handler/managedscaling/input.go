package managedscaling

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/handler"
	"berth/shared/placement"
	"berth/shared/scaling"
	"berth/shared/state"
)

// history is what is remembered of a provider; of Rev 0 where nothing is.
func (r *scalingRound) history(name string) (*cluster.ScalingHistory, error) {
	row, err := r.State.Get(r.ctx, state.ScalingHistoryKey(r.of.Cluster, name))
	if err != nil {
		return nil, fmt.Errorf("reading what is remembered: %w", err)
	}
	if old, ok := row.(*cluster.ScalingHistory); ok && old != nil {
		return old, nil
	}
	return &cluster.ScalingHistory{Head: cluster.Head{Cluster: r.of.Cluster}, Provider: name}, nil
}

// remember writes what is remembered, if it has changed. A race lost to another environment ends the round: it acts.
func (r *scalingRound) remember(old, next *cluster.ScalingHistory) error {
	next.Head = old.Head
	if reflect.DeepEqual(old, next) {
		return nil
	}
	next.Rev++
	_, err := r.State.Write(r.ctx, state.Write{Put: next})
	return cluster.Wrap(err, "remembering a decision")
}

// input is what a decision about the provider rests on.
func (r *scalingRound) input(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, history cluster.ScalingHistory) scaling.Input {
	update := r.busy[p.Group]
	if update != nil && update.Original != nil {
		own := *g // the surge has raised the maximum for as long as the update takes
		own.Max = min(g.Max, update.Original.Max)
		g = &own
	}
	in := scaling.Input{
		Provider: p, Group: g, Snapshot: r.snap, History: history, Now: r.Clock.Now(), Upgrading: update != nil,
		Waiting: r.waiting[p.Name], Daemons: r.daemons,
	}
	if p.Scaling.Consolidation.Enabled {
		in.Movers = decide.MoversOf(r.snap, r.specs, p.Name, r.owners(g))
	}
	return in
}

// owners are those of the tasks that may be moved, by short key: on the group's instances, and on any that drain.
func (r *scalingRound) owners(g *cluster.AutoScalingGroup) map[string]bool {
	member, out := map[string]bool{}, map[string]bool{}
	for _, i := range g.Instances {
		member[i.ID] = true
	}
	for _, v := range r.snap.Instances {
		if v.Instance == nil || !member[v.EC2InstanceID] && v.Status != cluster.InstanceDraining {
			continue
		}
		for _, t := range v.Tasks {
			out[t.Owner] = true
		}
	}
	return out
}

// daemonsOf are what the tasks of DAEMON services need.
func (r *scalingRound) daemonsOf() (out []*placement.Spec) {
	for _, name := range slices.Sorted(maps.Keys(r.snap.Services)) {
		s := r.snap.Services[name]
		if def := r.snap.Definitions[s.Deployment.TaskDefinition]; s.Status == cluster.ServiceActive && s.Strategy == cluster.Daemon && def != nil {
			out = append(out, r.specs.Service(s, def, ""))
		}
	}
	return out
}

// waitingOf are the tasks in PROVISIONING by the capacity provider that they go to; those of one by owner and what they need,
// the oldest first.
func (r *scalingRound) waitingOf() map[string][]scaling.Waiting {
	out := map[string][]scaling.Waiting{}
	type line struct {
		provider string
		spec     *placement.Spec
	}
	at := map[line]int{}
	add := func(provider, owner string, spec *placement.Spec, target int) {
		list := out[provider]
		i, known := at[line{provider, spec}]
		if !known {
			i = len(list)
			at[line{provider, spec}] = i
			list = append(list, scaling.Waiting{Name: owner, Spec: spec, Target: target})
			out[provider] = list
		}
		list[i].Count++
	}
	waiting := decide.SortedTasks(r.snap.Waiting())
	allotted := r.allot(waiting)
	for _, t := range waiting {
		def := r.snap.Definitions[t.TaskDefinition]
		switch s := r.snap.Services[t.Service]; {
		case def == nil:
		case t.Service == "":
			if name := decide.FirstProvider(t.Rules); name != "" {
				add(name, "standalone tasks of group "+t.Group, r.specs.Standalone(decide.ShapeOf(t), def, r.snap.Meta.Short), 0)
			}
		case allotted[t.ID] != "":
			name := allotted[t.ID]
			add(name, "service "+s.Name, r.specs.With(name, s, def, r.snap.Configuration.DomainPolicy), s.Desired)
		}
	}
	return out
}

// allot is the provider that each of the services' waiting tasks goes to, by id: of each revision one after the other.
func (r *scalingRound) allot(waiting []*cluster.Task) map[string]string {
	type revision struct{ short, name string }
	tasks := map[revision][]*cluster.Task{}
	var order []revision
	for _, t := range waiting {
		s := r.snap.Services[t.Service]
		if t.Service == "" || s == nil || s.Short != t.Owner || len(s.Providers) == 0 {
			continue
		}
		key := revision{s.Short, t.Revision}
		if tasks[key] == nil {
			order = append(order, key)
		}
		tasks[key] = append(tasks[key], t)
	}
	out := map[string]string{}
	for _, key := range order {
		of := tasks[key]
		have := decide.CountByProvider(r.snap, key.short, key.name)
		for n, provider := range decide.AssignProviders(r.snap.Services[of[0].Service].Providers, have, len(of)) {
			out[of[n].ID] = provider
		}
	}
	return out
}

// unheard are the events that were not told yet, and the topics that are then told of. An event without a topic is always
// news; a topic that no longer holds may be told of again.
func unheard(told []string, events []scaling.Event) (topics []string, news []scaling.Event) {
	for _, e := range events {
		if e.Topic != "" {
			topics = append(topics, e.Topic)
		}
		if e.Topic == "" || !slices.Contains(told, e.Topic) {
			news = append(news, e)
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics), news
}

// tell has users know: the services that it concerns by an event of theirs, the operator by the log.
func (r *scalingRound) tell(p *cluster.CapacityProvider, news []scaling.Event) error {
	for _, e := range news {
		handler.Logger(r.Log).Info("managed scaling", "cluster", r.of.Cluster, "provider", p.Name, "message", e.Message)
		name, ok := strings.CutPrefix(e.Owner, "service ")
		if !ok {
			continue
		}
		if err := r.serviceEvent(name, e.Message); err != nil {
			return err
		}
	}
	return nil
}

// serviceEvent adds an event to a service's.
func (r *scalingRound) serviceEvent(name, message string) error {
	return state.RetryRaces("telling service "+name, func() error {
		row, err := r.State.Get(r.ctx, state.ServiceKey(r.of.Cluster, name))
		if err != nil {
			return fmt.Errorf("reading service %s: %w", name, err)
		}
		s, ok := row.(*cluster.Service)
		if !ok || s == nil {
			return nil
		}
		next := *s
		next.Rev++
		next.Stamp = 0
		event := decide.NewServiceEvent(&next, message, r.Clock.Now())
		next.Events++
		return r.State.Commit(r.ctx, state.Commit{
			Cluster: r.of.Cluster, Version: state.NoVersion, Writes: []state.Write{{Put: &next}, {Put: event, Any: true}},
		})
	})
}
