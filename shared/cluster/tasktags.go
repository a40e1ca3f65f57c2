package cluster

import (
	"maps"
	"strings"
)

// Prefixes of tags: of those that Berth acts on, and of AWS's own.
const (
	OwnTags = "berth:"
	AWSTags = "aws:"
)

// The tags that enableECSManagedTags puts on tasks (ECS developer guide, tagging).
const (
	TagClusterName = "aws:ecs:clusterName"
	TagServiceName = "aws:ecs:serviceName"
)

// UserTags returns the tags that are neither Berth's own nor AWS's: m itself if it has no others.
// Only these mean something on another resource, and only these may be sent to AWS.
func UserTags(m map[string]string) map[string]string {
	other := func(key, _ string) bool {
		lower := strings.ToLower(key)
		return strings.HasPrefix(lower, OwnTags) || strings.HasPrefix(lower, AWSTags)
	}
	for key := range m {
		if !other(key, "") {
			continue
		}
		out := maps.Clone(m)
		maps.DeleteFunc(out, other)
		return out
	}
	return m
}

// ManagedTags are the tags of ECS's own for a task; service is empty for a standalone one.
func ManagedTags(cluster, service string) map[string]string {
	out := map[string]string{TagClusterName: cluster}
	if service != "" {
		out[TagServiceName] = service
	}
	return out
}

// MergeTags returns the tags of all, later ones first where keys are equal; nil if there are none.
func MergeTags(all ...map[string]string) (out map[string]string) {
	for _, m := range all {
		switch {
		case len(m) == 0:
		case len(out) == 0:
			out = m
		default:
			out = maps.Clone(out)
			maps.Copy(out, m)
		}
	}
	return out
}

// TaskTags returns the tags of a new task of the service: those of propagateTags, and ECS's own.
func (s *Service) TaskTags(d *TaskDefinition) map[string]string {
	var propagated, managed map[string]string
	switch s.PropagateTags {
	case "SERVICE":
		propagated = UserTags(s.Tags)
	case "TASK_DEFINITION":
		propagated = d.Tags
	}
	if s.Options.ManagedTags {
		managed = ManagedTags(s.Cluster, s.Name)
	}
	return MergeTags(propagated, managed)
}

// LaunchSettings returns the launch settings of a standalone task, nil if there are none.
func (t *Task) LaunchSettings() *Launch {
	_, managed := t.Tags[TagClusterName]
	l := &Launch{ServiceOptions: ServiceOptions{ManagedTags: managed}, Tags: UserTags(t.Tags)}
	if o := t.Overrides; o != nil && o.Options != nil {
		l.ExecuteCommand, l.Volumes = o.Options.ExecuteCommand, o.Options.Volumes
	}
	if l.ServiceOptions == (ServiceOptions{}) && len(l.Tags)+len(l.Volumes) == 0 {
		return nil
	}
	return l
}

// Equal reports whether two launches have the same settings; nil equals nil alone.
func (l *Launch) Equal(o *Launch) bool {
	if l == nil || o == nil {
		return l == o
	}
	return l.ServiceOptions == o.ServiceOptions && l.FromDefinition == o.FromDefinition && maps.Equal(l.Tags, o.Tags) &&
		EqualVolumes(l.Volumes, o.Volumes)
}
