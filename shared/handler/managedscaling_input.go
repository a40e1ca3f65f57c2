package handler

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/scaling"
)

// history is what is remembered of a provider; of Rev 0 where nothing is.
func (r *scalingRound) history(name string) (*cluster.ScalingHistory, error) {
	row, err := r.State.Get(r.ctx, cluster.ScalingHistoryKey(r.of.Cluster, name))
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
	_, err := r.State.Write(r.ctx, cluster.Write{Put: next})
	return wrap(err, "remembering a decision")
}

// input is what a decision about the provider rests on.
func (r *scalingRound) input(p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, history cluster.ScalingHistory) scaling.Input {
	in := scaling.Input{
		Provider: p, Group: g, Snapshot: r.snap, History: history, Now: r.Clock.Now(), Upgrading: r.busy[p.Group],
		Movers: moversOf(r.snap, r.specs, p.Name), Waiting: r.waiting(p.Name),
	}
	for _, name := range sortedKeys(r.snap.Services) {
		s := r.snap.Services[name]
		if def := r.snap.Definitions[s.Deployment.TaskDefinition]; s.Status == cluster.ServiceActive && s.Strategy == cluster.Daemon && def != nil {
			in.Daemons = append(in.Daemons, r.specs.service(s, def, ""))
		}
	}
	return in
}

// shareOf is the provider's name if the strategy has it, else empty.
func shareOf(shares []cluster.ProviderShare, name string) string {
	if slices.ContainsFunc(shares, func(s cluster.ProviderShare) bool { return s.Provider == name }) {
		return name
	}
	return ""
}

// waiting are the tasks in PROVISIONING that go to the provider, by owner and what they need, in order of what they need.
func (r *scalingRound) waiting(name string) []scaling.Waiting {
	var out []scaling.Waiting
	add := func(owner string, spec *placement.Spec, target int) {
		i := slices.IndexFunc(out, func(w scaling.Waiting) bool { return w.Spec == spec })
		if i < 0 {
			i = len(out)
			out = append(out, scaling.Waiting{Name: owner, Spec: spec, Target: target})
		}
		out[i].Count++
	}
	revisions := map[string]int{} // of services: how many of each revision wait
	for _, t := range sortedTasks(r.snap.Waiting()) {
		def := r.snap.Definitions[t.TaskDefinition]
		switch s := r.snap.Services[t.Service]; {
		case def == nil:
		case t.Service == "":
			if firstProvider(t.Rules) == name {
				add("standalone tasks of group "+t.Group, r.specs.standalone(shapeOf(t), def, r.snap.Meta.Short), 0)
			}
		case s != nil && s.Short == t.Owner && len(s.Providers) > 0:
			key := s.Short + "#" + t.Revision
			n := revisions[key]
			revisions[key]++
			if r.allotted(s, t.Revision, n) == name {
				add("service "+s.Name, r.specs.with(name, s, def, r.snap.Configuration.DomainPolicy), s.Desired)
			}
		}
	}
	return out
}

// allotted is the provider that the n-th of a service's waiting tasks of a revision goes to.
func (r *scalingRound) allotted(s *cluster.Service, revision string, n int) string {
	have := map[string]int{}
	for _, t := range r.snap.Owned(s.Short) {
		if v := r.snap.Instances[t.Instance]; t.Active() && t.Holds() && t.Revision == revision && v != nil && v.Instance != nil {
			have[v.CapacityProvider()]++
		}
	}
	return allot(s.Providers, have, n+1)[n]
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
		logger(r.Log).Info("managed scaling", "cluster", r.of.Cluster, "provider", p.Name, "message", e.Message)
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
	return retry("telling service "+name, func() error {
		row, err := r.State.Get(r.ctx, cluster.ServiceKey(r.of.Cluster, name))
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
		event := serviceEvent(&next, message, r.Clock.Now())
		next.Events++
		return r.State.Commit(r.ctx, cluster.Commit{
			Cluster: r.of.Cluster, Version: cluster.NoVersion, Writes: []cluster.Write{{Put: &next}, {Put: event, Any: true}},
		})
	})
}
