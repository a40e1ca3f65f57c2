package ec2

import (
	"context"
	"time"

	"berth/shared/cluster"
)

// xmlDone is the answer of an operation that returns nothing else.
type xmlDone struct {
	Return bool `xml:"return"`
}

type tagInput struct{ Key, Value string }

// createTags sets tags of launch templates, the only resources here that have tags. EC2 names
// several resources in one call and changes all or none.
func (a *api) createTags(_ context.Context, in *struct {
	ResourceId []string
	Tag        []tagInput
}) (any, error) {
	return a.changeTags(in.ResourceId, in.Tag, func(tags map[string]string, t tagInput) { tags[t.Key] = t.Value })
}

// deleteTags removes tags by key. A tag with a value is removed only if it has that value.
func (a *api) deleteTags(_ context.Context, in *struct {
	ResourceId []string
	Tag        []tagInput
}) (any, error) {
	return a.changeTags(in.ResourceId, in.Tag, func(tags map[string]string, t tagInput) {
		if t.Value == "" || tags[t.Key] == t.Value {
			delete(tags, t.Key)
		}
	})
}

func (a *api) changeTags(ids []string, tags []tagInput, change func(map[string]string, tagInput)) (any, error) {
	err := a.kernel.Change(func(time.Time) error {
		templates := make([]*launchTemplate, 0, len(ids))
		for _, id := range ids {
			t, err := a.templates.findTemplate(cluster.TemplateRef{ID: id})
			if err != nil {
				return err
			}
			templates = append(templates, t)
		}
		for _, t := range templates {
			if t.Tags == nil {
				t.Tags = map[string]string{}
			}
			for _, tag := range tags {
				change(t.Tags, tag)
			}
			a.kernel.SaveRow(t)
		}
		return nil
	})
	return xmlDone{err == nil}, err
}
