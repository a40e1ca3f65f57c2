package balancing

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/shared/sim/protocol"
)

type tagInput struct{ Key, Value string }

// xmlTags are the tags of one resource in an answer.
type xmlTags struct {
	ARN  string         `xml:"ResourceArn"`
	Tags []xmlAttribute `xml:"Tags>member"`
}

func tagMap(tags []tagInput) map[string]string {
	out := map[string]string{}
	for _, t := range tags {
		out[t.Key] = t.Value
	}
	return out
}

// tagActions are the operations about tags.
func (a *groupAPI) tagActions() map[string]protocol.Action {
	return map[string]protocol.Action{
		"AddTags":      protocol.StrictAction(a.addTags),
		"RemoveTags":   protocol.StrictAction(a.removeTags),
		"DescribeTags": protocol.StrictAction(a.describeTags),
	}
}

// changeTags changes the tags of every resource named, or of none if one does not exist.
func (a *groupAPI) changeTags(arns []string, change func(tags map[string]string)) error {
	return a.groups.kernel.Change(func(now time.Time) error {
		groups := make([]*targetGroup, 0, len(arns))
		for _, arn := range arns {
			g, err := a.groups.findTargetGroup(arn, now)
			if err != nil {
				return err
			}
			groups = append(groups, g)
		}
		for _, g := range groups {
			if g.Tags == nil {
				g.Tags = map[string]string{}
			}
			change(g.Tags)
			a.groups.kernel.SaveRow(g)
		}
		return nil
	})
}

func (a *groupAPI) addTags(_ context.Context, in *struct {
	ResourceArns []string
	Tags         []tagInput
}) (any, error) {
	return nil, a.changeTags(in.ResourceArns, func(tags map[string]string) { maps.Copy(tags, tagMap(in.Tags)) })
}

func (a *groupAPI) removeTags(_ context.Context, in *struct{ ResourceArns, TagKeys []string }) (any, error) {
	return nil, a.changeTags(in.ResourceArns, func(tags map[string]string) {
		for _, key := range in.TagKeys {
			delete(tags, key)
		}
	})
}

func (a *groupAPI) describeTags(_ context.Context, in *struct{ ResourceArns []string }) (any, error) {
	var out struct {
		Resources []xmlTags `xml:"TagDescriptions>member"`
	}
	err := a.groups.kernel.View(func(now time.Time) error {
		for _, arn := range in.ResourceArns {
			g, err := a.groups.findTargetGroup(arn, now)
			if err != nil {
				return err
			}
			described := xmlTags{ARN: arn}
			for _, key := range slices.Sorted(maps.Keys(g.Tags)) {
				described.Tags = append(described.Tags, xmlAttribute{key, g.Tags[key]})
			}
			out.Resources = append(out.Resources, described)
		}
		return nil
	})
	return out, err
}
