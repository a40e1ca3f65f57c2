package api

import (
	"context"
	"maps"
	"slices"

	"berth/shared/cluster"
	"berth/shared/state"
)

// Tags sets and reads the tags of services, tasks and capacity providers.
type Tags struct{ *Dependencies }

// TagResource sets and removes tags of a service or a task.
func (a *Tags) TagResource(ctx context.Context, of cluster.ResourceARN, set map[string]string, remove []string) error {
	rules := slices.ContainsFunc(cluster.RuleTags, func(key string) bool {
		_, is := set[key]
		return is || slices.Contains(remove, key)
	})
	if rules && of.Kind == "service" {
		return a.tagService(ctx, of, set, remove)
	}
	return state.RetryRaces("tagging "+of.Name, func() error {
		row, tags, err := a.findTagged(ctx, of)
		if err != nil {
			return err
		}
		if *tags, err = changedTags(of.Name, *tags, set, remove); err != nil {
			return err
		}
		row.Header().Rev++
		_, err = a.State.Write(ctx, state.Write{Put: row})
		return err
	})
}

// tagService sets and removes tags of a service. Those of Berth's own change its rules; one that is
// removed takes its part of the rules back to the default.
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
		return nil
	})
	return err
}

// ResourceTags are the tags of a service or a task.
func (a *Tags) ResourceTags(ctx context.Context, of cluster.ResourceARN) (map[string]string, error) {
	_, tags, err := a.findTagged(ctx, of)
	if err != nil {
		return nil, err
	}
	return *tags, nil
}

// findTagged is a copy of the row, and where its tags are.
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
	t, err := a.findTask(ctx, of.Cluster, of.Name)
	if err != nil {
		return nil, nil, err
	}
	if t == nil {
		return nil, nil, cluster.Errorf(cluster.CodeInvalidParameter, "The referenced task was not found.")
	}
	next := *t
	return &next, &next.Tags, nil
}

// changedTags are the tags after some were set and some removed.
func changedTags(name string, tags, set map[string]string, remove []string) (map[string]string, error) {
	next := map[string]string{}
	maps.Copy(next, tags)
	maps.Copy(next, set)
	for _, k := range remove {
		delete(next, k)
	}
	if len(next) > MaxTags {
		return nil, cluster.Errorf(cluster.CodeInvalidParameter, "%s would have %d tags, but at most %d are allowed.",
			name, len(next), MaxTags)
	}
	return next, nil
}

// MaxTags is the most tags of one resource.
const MaxTags = 50
