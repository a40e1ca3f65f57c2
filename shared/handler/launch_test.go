package handler_test

import (
	"maps"
	"testing"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// What ECS acts on goes with the start of each task: StartTask knows no service from which to take
// it.
func TestServiceSettingsReachStartTask(t *testing.T) {
	for _, c := range []struct {
		name string
		spec operation.CreateService
		want *cluster.Launch
	}{
		{"Nothing", operation.CreateService{Tags: map[string]string{"team": "x"}}, nil},
		{"TagsOfTheService", operation.CreateService{PropagateTags: "SERVICE", Tags: map[string]string{"team": "x"}}, &cluster.Launch{Tags: map[string]string{"team": "x"}}},
		{"TagsOfTheDefinition", operation.CreateService{PropagateTags: "TASK_DEFINITION"}, &cluster.Launch{FromDefinition: true}},
		{"Options", operation.CreateService{ServiceParameters: operation.ServiceParameters{ManagedTags: new(true), ExecuteCommand: new(true)}},
			&cluster.Launch{ServiceOptions: cluster.ServiceOptions{ManagedTags: true, ExecuteCommand: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.instances("a", 1, 2048, 4096)
			n := 1
			c.spec.Cluster, c.spec.Name, c.spec.TaskDefinition, c.spec.Desired = prod, "web", "web", &n
			w.createAs(c.spec)
			w.pump()
			want(t, "starts", len(w.ecs.starts), 1)
			got := w.ecs.starts[0].Launch
			if (got == nil) != (c.want == nil) {
				t.Fatalf("launch %+v, want %+v", got, c.want)
			}
			if got != nil && (got.ServiceOptions != c.want.ServiceOptions || got.FromDefinition != c.want.FromDefinition || !maps.Equal(got.Tags, c.want.Tags)) {
				t.Errorf("launch %+v, want %+v", got, c.want)
			}
		})
	}
}
