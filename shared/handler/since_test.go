package handler_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// Rows say since when what users are told of lasts, although nothing is decided by it.

func TestPlacement_SaysSinceWhenTasksAreUnhealthy(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	checked := definition("checked", 1, 256, 512)
	checked.HealthChecked = true
	w.ecs.define(checked)
	w.createAs(operation.CreateService{Cluster: prod, Name: "web", TaskDefinition: "checked", Desired: new(2),
		ServiceParameters: operation.ServiceParameters{Grace: new(7200)}})
	w.advance(time.Minute)
	report := func(h cluster.Health) {
		for _, id := range w.ecs.live() {
			w.ecs.turn(id, h)
		}
		w.pump()
	}
	report(cluster.Healthy)
	want(t, "healthy", w.service("web").UnhealthySince.IsZero(), true)
	w.advance(time.Minute)
	since := w.clock.now
	report(cluster.Unhealthy)
	want(t, "unhealthy since", w.service("web").UnhealthySince, since)
	w.advance(10 * time.Minute)
	report(cluster.Unhealthy)
	want(t, "unhealthy since, ten minutes later", w.service("web").UnhealthySince, since)
	report(cluster.Healthy)
	want(t, "healthy again", w.service("web").UnhealthySince.IsZero(), true)
}

func TestObserve_SaysSinceWhenAttributesAreSo(t *testing.T) {
	w := newWorld(t)
	id := w.instances("i", 1, 4096, 8192)[0]
	w.advance(time.Minute)
	want(t, "as registered", w.instance(id).AttributesChangedAt, cluster.Instant(0))
	since := w.clock.now
	w.attribute(id, "rack", "r1")
	want(t, "changed at", w.instance(id).AttributesChangedAt, cluster.At(since))
	w.advance(time.Minute)
	w.drain(id) // another report
	w.pump()
	want(t, "changed at, after another report", w.instance(id).AttributesChangedAt, cluster.At(since))
}

func TestAPI_SaysSinceWhenAServiceDemandsWhatItDoes(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 2, 4096, 8192)
	racked := definition("web", 3, 256, 512)
	racked.Constraints = []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:rack == r1"}}
	w.ecs.define(definition("web", 2, 256, 512))
	w.ecs.define(racked)
	w.create("web", "web:1", 1)
	change := func(c operation.UpdateService) time.Time {
		w.advance(time.Minute)
		c.Cluster, c.Name = prod, "web"
		if _, err := w.update(c); err != nil {
			t.Fatal(err)
		}
		return w.clock.now
	}
	change(operation.UpdateService{Desired: new(2)})
	change(operation.UpdateService{TaskDefinition: "web:2"})
	want(t, "nothing has changed", w.service("web").RulesChangedAt.IsZero(), true)
	at := change(operation.UpdateService{TaskDefinition: "web:3"})
	want(t, "a definition with a constraint", w.service("web").RulesChangedAt, at)
	change(operation.UpdateService{Desired: new(1)})
	want(t, "a desired count since", w.service("web").RulesChangedAt, at)
	at = change(operation.UpdateService{Constraints: &racked.Constraints})
	want(t, "a constraint", w.service("web").RulesChangedAt, at)
	w.advance(time.Minute)
	if _, err := w.api.Services.DeleteService(ctx, prod, "web", true); err != nil {
		t.Fatal(err)
	}
	want(t, "its end", w.service("web").RulesChangedAt, w.clock.now)
}

func TestManagedScaling_SaysSinceWhenProvidersFail(t *testing.T) {
	s := newScaled(t, nil)
	s.groups["h"] = &cluster.AutoScalingGroup{Name: "h", Max: 10} // new instances are not protected
	if _, err := s.api.CapacityProviders.CreateCapacityProvider(ctx, providerRow("bad", "h")); err != nil {
		t.Fatal(err)
	}
	s.advance(time.Minute)
	at := s.clock.now
	s.look(t)
	want(t, "status", s.described(t, "bad").UpdateStatus, cluster.ProviderCreateFailed)
	want(t, "failed at", s.described(t, "bad").FailedAt, at)
	s.advance(time.Minute)
	s.look(t)
	want(t, "failed at, a minute later", s.described(t, "bad").FailedAt, at)
	if _, err := s.api.CapacityProviders.UpdateCapacityProvider(ctx,
		operation.UpdateCapacityProvider{Name: "bad", Protection: new(false)}); err != nil {
		t.Fatal(err)
	}
	s.look(t)
	want(t, "mended", s.described(t, "bad").FailedAt.IsZero(), true)
	if _, err := s.api.CapacityProviders.DeleteCapacityProvider(ctx, "p"); err != nil {
		t.Fatal(err)
	}
	want(t, "could not be deleted", s.described(t, "p").FailedAt, s.clock.now)
}

func TestManagedScaling_SaysSinceWhenAGroupIsMissing(t *testing.T) {
	s := newScaled(t, nil)
	s.look(t)
	missing := func() time.Time {
		return rows[*cluster.ScalingHistory](s.world, state.PrefixScaling)[0].Attachment.MissingSince
	}
	want(t, "it exists", missing().IsZero(), true)
	group := s.groups["g"]
	delete(s.groups, "g")
	s.advance(time.Minute)
	at := s.clock.now
	for range 2 {
		if err := s.function.RunSchedule(ctx, "scaling"); err == nil {
			t.Error("no error without the group")
		}
		s.advance(time.Minute)
	}
	want(t, "missing since", missing(), at)
	s.groups["g"] = group
	s.advance(time.Minute)
	s.look(t)
	want(t, "it is back", missing().IsZero(), true)
}
