package handler_test

import (
	"fmt"
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
		{"TagsOfTheService", operation.CreateService{PropagateTags: "SERVICE", Tags: map[string]string{"team": "x"}},
			&cluster.Launch{Tags: map[string]string{"team": "x"}}},
		{"TagsOfTheDefinition", operation.CreateService{PropagateTags: "TASK_DEFINITION"},
			&cluster.Launch{FromDefinition: true}},
		{"Options", operation.CreateService{ServiceParameters: operation.ServiceParameters{ManagedTags: new(true),
			ExecuteCommand: new(true)}},
			&cluster.Launch{ServiceOptions: cluster.ServiceOptions{ManagedTags: true, ExecuteCommand: true}}},
		{"Volumes",
			operation.CreateService{ServiceParameters: operation.ServiceParameters{Volumes: &[]cluster.Volume{dataVolume}}},
			&cluster.Launch{Volumes: []cluster.Volume{dataVolume}}},
		{"TagsOfVolumes", operation.CreateService{Tags: map[string]string{"team": "x", "a": "service"},
			ServiceParameters: operation.ServiceParameters{
				Volumes: &[]cluster.Volume{{Name: "data",
					Tags: &cluster.VolumeTags{Propagate: "SERVICE", Own: map[string]string{"a": "b"}}}}}},
			&cluster.Launch{Volumes: []cluster.Volume{{Name: "data",
				Tags: &cluster.VolumeTags{Propagate: "NONE", Own: map[string]string{"a": "b", "team": "x"}}}}}},
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
			if got != nil && (got.ServiceOptions != c.want.ServiceOptions ||
				got.FromDefinition != c.want.FromDefinition || !maps.Equal(got.Tags, c.want.Tags) ||
				!cluster.EqualVolumes(got.Volumes, c.want.Volumes)) {
				t.Errorf("launch %+v, want %+v", got, c.want)
			}
		})
	}
}

var dataVolume = cluster.Volume{Name: "data", Role: "arn:aws:iam::123456789012:role/r", GiB: 20}

// A change of the volumes is a change of what tasks are made of: it starts a deployment. The same
// volumes again change nothing.
func TestVolumesOfAServiceChange(t *testing.T) {
	w := newWorld(t)
	w.instances("a", 2, 4096, 8192)
	w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(1)})
	w.pump()
	update := func(volumes ...cluster.Volume) string {
		t.Helper()
		d, err := w.api.Services.UpdateService(t.Context(), operation.UpdateService{Cluster: prod, Name: "web",
			ServiceParameters: operation.ServiceParameters{Volumes: &volumes}})
		if err != nil {
			t.Fatal(err)
		}
		w.pump()
		return d.Service.Deployment.ID
	}
	first := update()
	second := update(dataVolume)
	want(t, "a new deployment", second != first, true)
	want(t, "the same deployment", update(dataVolume), second)
	want(t, "volumes", fmt.Sprint(w.ecs.starts[len(w.ecs.starts)-1].Launch.Volumes),
		fmt.Sprint([]cluster.Volume{dataVolume}))
	want(t, "a third deployment", update() != second, true)
	if l := w.ecs.starts[len(w.ecs.starts)-1].Launch; l != nil {
		t.Errorf("launch %+v after the volumes were removed", l)
	}
}

// Options of a standalone task go with its start, also if it is started by a call of its own.
func TestOptionsOfStandaloneTasks(t *testing.T) {
	w := newWorld(t)
	w.instances("a", 1, 4096, 8192)
	w.run(t, operation.SubmitTasks{Count: 1, Options: &cluster.TaskOptions{ExecuteCommand: true,
		Volumes: []cluster.Volume{dataVolume}}})
	wantCount(t, "StartTask calls", w.ecs.starts, 1)
	l := w.ecs.starts[0].Launch
	if l == nil || !l.ExecuteCommand || !cluster.EqualVolumes(l.Volumes, []cluster.Volume{dataVolume}) {
		t.Errorf("launch %+v", l)
	}
}
