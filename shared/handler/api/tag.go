package api

import (
	"context"
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/state"
)

// Tags reads and changes the tags of services, task sets and tasks.
type Tags struct{ *Dependencies }

// TagResource sets and removes tags of a service or task. Tags that stand for placement rules
// change a service's rules too.
func (a *Tags) TagResource(ctx context.Context, of cluster.ResourceARN, set map[string]string, remove []string) error {
	rules := slices.ContainsFunc(cluster.RuleTags, func(key string) bool {
		_, is := set[key]
		return is || slices.Contains(remove, key)
	})
	if rules && of.Kind == "service" {
		return a.tagService(ctx, of, set, remove)
	}
	return a.retryRaces(ctx, "tagging "+of.Name, func() error {
		row, tags, err := a.findTagged(ctx, of)
		if err != nil {
			return err
		}
		if *tags, err = changedTags(of.Name, *tags, set, remove); err != nil {
			return err
		}
		if s, is := row.(*cluster.Service); is {
			if err := checkGrownTags(s, set); err != nil {
				return err
			}
		}
		row.Header().Rev++
		_, err = a.State.Write(ctx, state.Write{Put: row})
		return err
	})
}

// tagService sets and removes tags of a service, some of which stand for rules. A removed one sets
// its rule back to the default. The changed service is checked like any other change of rules.
func (a *Tags) tagService(ctx context.Context, of cluster.ResourceARN, set map[string]string, remove []string) error {
	_, err := a.editServiceRules(ctx, of.Cluster, of.Name, func(s *cluster.Service) error {
		next, err := changedTags(of.Name, s.Tags, set, remove)
		if err != nil {
			return err
		}
		for _, key := range cluster.RuleTags {
			now, is := next[key]
			was, had := s.Tags[key]
			if is == had && now == was {
				continue
			}
			if err := cluster.ApplyRuleTag(&s.Rules, key, now); err != nil {
				return err
			}
		}
		s.Tags = next
		return checkGrownTags(s, set)
	})
	return err
}

// checkGrownTags refuses tags that a service has got if its volumes take them and would have too many.
// Tags can always be removed.
func checkGrownTags(s *cluster.Service, set map[string]string) error {
	if len(set) == 0 {
		return nil
	}
	return checkVolumeTags(s.Deployment.Volumes, s.Tags, nil)
}

// ResourceTags returns the tags of a service, task set or task.
func (a *Tags) ResourceTags(ctx context.Context, of cluster.ResourceARN) (map[string]string, error) {
	_, tags, err := a.findTagged(ctx, of)
	if err != nil {
		return nil, err
	}
	return *tags, nil
}

// findTagged returns a copy of the row to write, and a pointer to its tags. The copy of a service
// has no stamp: tags alone do not move the placement version.
func (a *Tags) findTagged(ctx context.Context, of cluster.ResourceARN) (state.Row, *map[string]string, error) {
	if of.Kind == "service" {
		s, err := a.requireService(ctx, of.Cluster, of.Name)
		if err != nil {
			return nil, nil, err
		}
		next := *s
		next.Stamp = 0
		return &next, &next.Tags, nil
	}
	if of.Kind == "task-set" {
		return a.findTaggedSet(ctx, of)
	}
	found, err := a.findTasks(ctx, of.Cluster, of.Name)
	if err != nil {
		return nil, nil, err
	}
	t := found[of.Name]
	if t == nil {
		return nil, nil, cluster.Errorf(cluster.CodeInvalidParameter, "The referenced task was not found.")
	}
	next := *t
	return &next, &next.Tags, nil
}

// findTaggedSet returns a copy of the row of the service that has the task set, and a pointer to
// the set's tags in it.
func (a *Tags) findTaggedSet(ctx context.Context, of cluster.ResourceARN) (state.Row, *map[string]string, error) {
	name, id, _ := strings.Cut(of.Name, "/")
	s, err := a.requireService(ctx, of.Cluster, name)
	if err != nil {
		return nil, nil, err
	}
	next, sets := *s, s.TaskSets()
	next.Stamp = 0
	i := slices.IndexFunc(sets, func(d cluster.Deployment) bool { return d.ID == id })
	if i < 0 {
		return nil, nil, taskSetNotFound()
	}
	set := *sets[i].Set
	sets[i].Set = &set
	next.SetTaskSets(sets, s.Deployment.ID)
	return &next, &set.Tags, nil
}

// changedTags returns tags with some set and some removed, refusing more than [MaxTags] of the
// resource called name.
func changedTags(name string, tags, set map[string]string, remove []string) (map[string]string, error) {
	next := map[string]string{}
	maps.Copy(next, tags)
	maps.Copy(next, set)
	for _, k := range remove {
		delete(next, k)
	}
	return next, checkTagCount(name, next)
}

// checkTagCount refuses more than [MaxTags] of the resource called name.
func checkTagCount(name string, tags map[string]string) error {
	if len(tags) > MaxTags {
		return cluster.Errorf(cluster.CodeInvalidParameter, "%s would have %d tags, but at most %d are allowed.",
			name, len(tags), MaxTags)
	}
	return nil
}

// checkVolumeTags refuses volumes with too many tags, propagated ones included. ECS would refuse each
// start of a task with them.
func checkVolumeTags(volumes []cluster.Volume, ofService, ofDefinition map[string]string) error {
	for _, v := range volumes {
		if v.Tags == nil {
			continue
		}
		name := "Volume " + v.Name + " with its propagated tags"
		if err := checkTagCount(name, v.Tags.Merge(ofService, ofDefinition)); err != nil {
			return err
		}
	}
	return nil
}

// MaxTags is how many tags a resource can have (ECS quota).
const MaxTags = 50
