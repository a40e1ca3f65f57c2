package handler_test

import (
	"fmt"
	"maps"
	"testing"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
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

// Tags that a task or a volume would get together are counted when they are given: ECS refuses every
// start of a task that has too many.
func TestPropagatedTagsAreCounted(t *testing.T) {
	numbered := func(key string, n int) map[string]string {
		out := map[string]string{}
		for i := range n {
			out[fmt.Sprint(key, i)] = "x"
		}
		return out
	}
	volume := func(from string, own int) *[]cluster.Volume {
		return &[]cluster.Volume{{Name: "data",
			Tags: &cluster.VolumeTags{Propagate: from, Own: numbered("own", own)}}}
	}
	newTagged := func(t *testing.T) *world {
		w := newWorld(t)
		w.instances("a", 2, 4096, 8192)
		d := definition("tagged", 1, 256, 512)
		d.Tags = numbered("definition", 40)
		w.ecs.define(d)
		return w
	}
	wantRefusal := func(t *testing.T, err error, tags int) {
		t.Helper()
		if tags <= 50 {
			want(t, "error", err, nil)
			return
		}
		wantCode(t, err, cluster.CodeInvalidParameter, fmt.Sprintf("would have %d tags, but at most 50", tags))
	}
	t.Run("OfATask", func(t *testing.T) {
		for _, c := range []struct {
			own  int
			spec operation.SubmitTasks
			tags int
		}{
			{40, operation.SubmitTasks{PropagateTags: true}, 80},
			{10, operation.SubmitTasks{PropagateTags: true, ManagedTags: true}, 50},
			{40, operation.SubmitTasks{}, 40},
			{0, operation.SubmitTasks{Options: &cluster.TaskOptions{Volumes: *volume("TASK_DEFINITION", 20)}}, 60},
			{0, operation.SubmitTasks{Options: &cluster.TaskOptions{Volumes: *volume("NONE", 20)}}, 20},
		} {
			c.spec.TaskDefinition, c.spec.Tags = "tagged", numbered("task", c.own)
			c.spec.Tags["berth:wait"], c.spec.Wait = "1m", "1m" // Berth's own are not sent to ECS
			_, err := newTagged(t).api.Tasks.SubmitRequest(ctx, complete(c.spec))
			wantRefusal(t, err, c.tags)
		}
	})
	create := func(w *world, volumes *[]cluster.Volume, tags int) error {
		_, err := w.api.Services.CreateService(ctx, operation.CreateService{Cluster: prod, Name: "web",
			TaskDefinition: "tagged", Desired: new(1), Tags: numbered("service", tags),
			ServiceParameters: operation.ServiceParameters{Volumes: volumes}})
		return err
	}
	t.Run("OfANewService", func(t *testing.T) {
		for tags, volumes := range map[int]*[]cluster.Volume{
			60: volume("SERVICE", 30), 50: volume("SERVICE", 20), 61: volume("TASK_DEFINITION", 21),
			49: volume("NONE", 49),
		} {
			wantRefusal(t, create(newTagged(t), volumes, 30), tags)
		}
	})
	t.Run("OfAChangedService", func(t *testing.T) {
		w := newTagged(t)
		want(t, "error", create(w, volume("SERVICE", 20), 30), nil)
		update := func(volumes *[]cluster.Volume) error {
			_, err := w.api.Services.UpdateService(ctx, operation.UpdateService{Cluster: prod, Name: "web",
				ServiceParameters: operation.ServiceParameters{Volumes: volumes}})
			return err
		}
		wantRefusal(t, update(volume("SERVICE", 21)), 51)
		web := resource("service", "web")
		wantRefusal(t, w.api.Tags.TagResource(ctx, web, map[string]string{"another": "x"}, nil), 51)
		wantRefusal(t, w.api.Tags.TagResource(ctx, web,
			map[string]string{"another": "x", cluster.TagMoveCost: "High"}, nil), 51)
		wantRefusal(t, w.api.Tags.TagResource(ctx, web, map[string]string{"service0": "y"}, nil), 50)

		// A service from before tags were counted can be scaled, and tags be removed from it.
		s := *w.service("web").Service
		s.Tags = numbered("service", 40)
		s.Rev++
		_, err := w.state.Write(ctx, state.Write{Put: &s})
		want(t, "error of the write", err, nil)
		w.scale("web", 0)
		want(t, "error of removing", w.api.Tags.TagResource(ctx, web, nil, []string{"service0"}), nil)
	})
}
