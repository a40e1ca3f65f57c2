package cluster_test

import (
	"maps"
	"testing"

	"berth/shared/cluster"
)

func TestTaskTags(t *testing.T) {
	definition := &cluster.TaskDefinition{Tags: map[string]string{"of": "definition"}}
	for name, c := range map[string]struct {
		from    string
		managed bool
		want    map[string]string
	}{
		"None":       {"NONE", false, nil},
		"Definition": {"TASK_DEFINITION", false, map[string]string{"of": "definition"}},
		"Service":    {"SERVICE", false, map[string]string{"of": "service", "Team": "blue"}},
		"Managed": {"", true, map[string]string{"aws:ecs:clusterName": "prod",
			"aws:ecs:serviceName": "web"}},
		"Both": {"TASK_DEFINITION", true, map[string]string{"of": "definition", "aws:ecs:clusterName": "prod",
			"aws:ecs:serviceName": "web"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &cluster.Service{
				Head: cluster.Head{Cluster: "prod"}, ServiceIdentity: cluster.ServiceIdentity{Name: "web"},
				ServiceSpec: cluster.ServiceSpec{
					PropagateTags: c.from, Options: cluster.ServiceOptions{ManagedTags: c.managed},
					Tags: map[string]string{"of": "service", "Team": "blue", "berth:strategy": "spread"},
				},
			}
			if got := s.TaskTags(definition); !maps.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if l := s.LaunchSettings(nil); l != nil && l.Tags["berth:strategy"] != "" {
				t.Errorf("ECS would get %v", l.Tags)
			}
		})
	}
	if len(definition.Tags) != 1 {
		t.Errorf("the definition has got tags: %v", definition.Tags)
	}
}

func TestLaunchSettingsOfStandaloneTask(t *testing.T) {
	of := func(tags map[string]string) *cluster.Launch {
		return (&cluster.Task{TaskSpec: cluster.TaskSpec{Tags: tags}}).LaunchSettings()
	}
	if l := of(map[string]string{"berth:wait": "1m"}); l != nil {
		t.Errorf("a tag of Berth's own makes %v", l)
	}
	l := of(map[string]string{"a": "b", "berth:wait": "1m", "aws:ecs:clusterName": "prod"})
	if l == nil || !l.ManagedTags || !maps.Equal(l.Tags, map[string]string{"a": "b"}) {
		t.Errorf("got %v", l)
	}
	if !l.Equal(l) || l.Equal(nil) || l.Equal(of(map[string]string{"a": "b"})) || !(*cluster.Launch)(nil).Equal(nil) {
		t.Error("launches are not compared by their settings")
	}
}
