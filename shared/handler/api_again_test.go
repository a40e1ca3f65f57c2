package handler_test

import (
	"testing"

	"berth/shared/cluster"
	"berth/shared/operation"
)

// The same clientToken with the same parameters gets the same answer, whatever has become of the
// things that they name.
func TestAPI_ClientTokensComeBeforeAllChecks(t *testing.T) {
	t.Run("OfAService", func(t *testing.T) {
		w := newWorld(t)
		spec := operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(2), Token: "t", Params: "p"}
		first := w.createAs(spec)
		w.ecs.definitions["web"].Inactive = true
		again, err := w.api.Services.CreateService(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "short key", again.Service.Short, first.Short)
		early, err := w.api.Services.FindCreatedService(ctx, spec)
		if err != nil || early == nil || early.Service.Short != first.Short {
			t.Fatalf("what was created before: %v, %v", early, err)
		}
		other := spec
		other.Params = "q"
		_, err = w.api.Services.CreateService(ctx, other)
		wantCode(t, err, cluster.CodeInvalidParameter, "Creation of service was not idempotent.")
		for _, fresh := range []operation.CreateService{{Cluster: prod, Name: "web", Token: "u"}, {Cluster: prod, Name: "web"}, {Cluster: prod, Name: "none", Token: "t"}} {
			if got, err := w.api.Services.FindCreatedService(ctx, fresh); got != nil || err != nil {
				t.Errorf("%s with token %q is %v, %v", fresh.Name, fresh.Token, got, err)
			}
		}
	})
	t.Run("TheNameOfADeletedServiceIsFree", func(t *testing.T) {
		w := newWorld(t)
		spec := operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "web", Desired: new(0), Token: "t", Params: "p"}
		first := w.createAs(spec)
		if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
			t.Fatal(err)
		}
		w.pump()
		want(t, "status", w.service("web").Service.Status, cluster.ServiceInactive)
		w.advance(1)
		if second := w.createAs(spec); second.Short == first.Short {
			t.Error("the deleted service was given again")
		}
	})
	t.Run("OfRunTask", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		w.clock.onSleep = w.pump
		spec := complete(operation.SubmitTasks{Count: 2, Token: "once", Params: "p"})
		first, _, err := w.api.Tasks.SubmitTasks(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		w.ecs.definitions[spec.TaskDefinition].Inactive = true
		again, _, err := w.api.Tasks.SubmitTasks(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		early, _, found, err := w.api.Tasks.FindSubmittedTasks(ctx, spec)
		if err != nil || !found {
			t.Fatalf("found %t, %v", found, err)
		}
		wantCount(t, "tasks", first, 2)
		for n := range first {
			want(t, "id", again[n].ID, first[n].ID)
			want(t, "id found before the checks", early[n].ID, first[n].ID)
		}
		other := spec
		other.Params = "q"
		_, _, err = w.api.Tasks.SubmitTasks(ctx, other)
		wantCode(t, err, cluster.CodeConflict, "clientToken")
		fresh := spec
		fresh.Token = "twice"
		if _, _, found, err := w.api.Tasks.FindSubmittedTasks(ctx, fresh); found || err != nil {
			t.Errorf("another token was found: %t, %v", found, err)
		}
		_, _, err = w.api.Tasks.SubmitTasks(ctx, fresh)
		wantCode(t, err, cluster.CodeClient, "TaskDefinition is inactive")
	})
}
