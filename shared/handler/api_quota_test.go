package handler_test

import (
	"fmt"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler/api"
	"berth/shared/operation"
	"berth/shared/state"
)

// another is another environment of the API.
func another(d *api.Dependencies) *api.Handler {
	return api.New(*d)
}

func TestAPI_ServiceQuota(t *testing.T) {
	w := newWorld(t)
	for n := range w.api.Settings.ServiceLimit {
		s := &cluster.Service{
			Head:            cluster.Head{Cluster: prod},
			ServiceIdentity: cluster.ServiceIdentity{Name: fmt.Sprintf("s%04d", n), Short: fmt.Sprint(n)},
			ServiceSpec:     cluster.ServiceSpec{Strategy: cluster.Replica},
			ServiceStatus:   cluster.ServiceStatus{Status: cluster.ServiceActive},
		}
		if n == 0 {
			s.Status = cluster.ServiceInactive
		}
		if _, err := w.store.Write(ctx, state.Write{Put: s, Any: true}); err != nil {
			t.Fatal(err)
		}
	}
	w.decide = nil
	spy := &spyState{Store: w.store}
	w.api.State = spy
	create := func(name string) error {
		_, err := w.api.Services.CreateService(ctx, operation.CreateService{Cluster: prod, Name: name, TaskDefinition: "web", Desired: new(0)})
		return err
	}
	want(t, "the last that there is room for", create("last"), nil)
	wantCode(t, create("more"), cluster.CodeInvalidParameter, "Cluster prod has 5000 services, and can have no more.")
	last := *w.service("last").Service
	last.Status = cluster.ServiceInactive
	last.Rev++
	if _, err := w.store.Write(ctx, state.Write{Put: &last}); err != nil {
		t.Fatal(err)
	}
	want(t, "once another has gone", create("more"), nil)
	w.clock.now = w.clock.now.Add(time.Minute)
	lists := spy.lists
	wantCode(t, create("again"), cluster.CodeInvalidParameter, "can have no more")
	want(t, "counted where it is full", spy.lists-lists, 1)
}

func TestAPI_ServicesAreCountedOnce(t *testing.T) {
	w := newWorld(t)
	spy := &spyState{Store: w.store}
	w.api.State = spy
	lists := func(name string) int {
		before := spy.lists
		w.create(name, "web", 0)
		return spy.lists - before
	}
	first := lists("a")
	want(t, "reads of a range for the next", lists("b"), first-1)
	want(t, "and for the one after", lists("c"), first-1)
}
