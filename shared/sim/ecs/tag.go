package ecs

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/cluster"
	"berth/shared/sim/kernel"
)

// ECS's limits of tags: how many a resource has, and the characters of keys and values.
const (
	maxTags     = 50
	maxTagKey   = 128
	maxTagValue = 256
)

// checkTags checks tags that are to be added to others. A key may change its value, but not come
// twice in one call.
func checkTags(add, have []types.Tag) error {
	seen := map[string]bool{}
	for _, t := range add {
		key := value(t.Key)
		switch {
		case key == "" || utf8.RuneCountInString(key) > maxTagKey:
			return invalidParameter("Tag keys must have 1 to %d characters.", maxTagKey)
		case utf8.RuneCountInString(value(t.Value)) > maxTagValue:
			return invalidParameter("The value of tag %s has more than %d characters.", key, maxTagValue)
		case strings.HasPrefix(strings.ToLower(key), "aws:"):
			return invalidParameter("The tag key %s has the reserved prefix aws:.", key)
		case seen[key]:
			return invalidParameter("Duplicate tag key %s.", key)
		}
		seen[key] = true
	}
	if len(mergeTags(have, add)) > maxTags {
		return invalidParameter("A resource can have at most %d tags.", maxTags)
	}
	return nil
}

// mergeTags returns the tags with others added or changed. It does not change the slices.
func mergeTags(have, add []types.Tag) []types.Tag {
	out := slices.Clone(have)
	for _, t := range add {
		at := slices.IndexFunc(out, func(o types.Tag) bool { return *o.Key == *t.Key })
		if at < 0 {
			out = append(out, t)
		} else {
			out[at] = t
		}
	}
	return out
}

// findTags returns the tags of the resource with the ARN, and the row that stores them. Tasks and
// instances that are only still visible cannot be tagged any more.
func (e *Tags) findTags(arn string) (*[]types.Tag, kernel.Row, error) {
	a, ok := cluster.ParseARN(arn)
	if !ok {
		return nil, nil, invalidParameter("Invalid ARN %.200s.", arn)
	}
	switch a.Kind {
	case "cluster":
		if c, err := e.findCluster(a.Name); err == nil {
			return &c.info.Tags, c, nil
		}
	case "task":
		if t := e.tasks[a.Name]; t != nil && t.Last != cluster.TaskStopped {
			return &t.Tags, t, nil
		}
	case "container-instance":
		if i := e.instances[a.Name]; i != nil && i.Status != cluster.InstanceInactive {
			return &i.Tags, i, nil
		}
	case "task-definition":
		if d := e.findDefinition(a.Name); d != nil {
			return &d.Tags, d, nil
		}
	}
	return nil, nil, invalidParameter("The specified resource was not found: %.200s.", arn)
}

// TagResource adds tags, or changes their values.
func (e *Tags) TagResource(_ context.Context, in *ecs.TagResourceInput) (*ecs.TagResourceOutput, error) {
	err := e.kernel.Change(func(time.Time) error {
		tags, row, err := e.findTags(value(in.ResourceArn))
		if err != nil {
			return err
		}
		if err := checkTags(in.Tags, *tags); err != nil {
			return err
		}
		*tags = mergeTags(*tags, in.Tags)
		e.kernel.SaveRow(row)
		return nil
	})
	return &ecs.TagResourceOutput{}, err
}

// UntagResource removes tags, if the resource has them.
func (e *Tags) UntagResource(_ context.Context, in *ecs.UntagResourceInput) (*ecs.UntagResourceOutput, error) {
	err := e.kernel.Change(func(time.Time) error {
		tags, row, err := e.findTags(value(in.ResourceArn))
		if err != nil {
			return err
		}
		*tags = slices.DeleteFunc(slices.Clone(*tags),
			func(t types.Tag) bool { return slices.Contains(in.TagKeys, *t.Key) })
		e.kernel.SaveRow(row)
		return nil
	})
	return &ecs.UntagResourceOutput{}, err
}

// ListTagsForResource lists a resource's tags.
func (e *Tags) ListTagsForResource(
	_ context.Context, in *ecs.ListTagsForResourceInput,
) (*ecs.ListTagsForResourceOutput, error) {
	var out ecs.ListTagsForResourceOutput
	err := e.kernel.View(func(time.Time) error {
		tags, _, err := e.findTags(value(in.ResourceArn))
		if err == nil {
			out.Tags = *tags
		}
		return err
	})
	return &out, err
}
