package handler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

func TestDispatch_Registers(t *testing.T) {
	t.Run("WhereTheInstancesPortLeadsToTheContainers", func(t *testing.T) {
		b := newBalanced(t, 3, inGroup(groupOne), inGroup(groupTwo))
		b.asks(state.Outbox{Targets: b.items()})
		for k, id := range b.ids {
			at := cluster.Address{Host: "i-" + b.task(id).Instance, Port: 32768 + k}
			for n, arn := range []string{groupOne, groupTwo} {
				if _, here := b.elb.groups[arn][at]; !here {
					t.Errorf("%s has %v, want %v", arn, b.elb.groups[arn], at)
				}
				g := b.target(id).Registrations[n]
				want(t, "state", g.State, cluster.Registered)
				want(t, "address", cluster.Address{Host: g.Address, Port: g.Port}, at)
			}
		}
		want(t, "calls", b.elb.count("RegisterTargets"), 2)
		wantCount(t, "outbox rows", b.outbox(), 0)
	})
	t.Run("AtATasksOwnAddress", func(t *testing.T) {
		b := newBalanced(t, 1, inGroup(groupOne), cluster.Registration{ARN: cloudMap, Registry: true, Port: 9000})
		b.ecs.tasks[b.task(b.ids[0]).ECSID].Address = "10.0.0.7"
		b.asks(state.Outbox{Targets: b.items()})
		if _, here := b.elb.groups[groupOne][cluster.Address{Host: "10.0.0.7", Port: 80}]; !here {
			t.Errorf("targets %v", b.elb.groups[groupOne])
		}
		want(t, "entry", b.elb.at[b.ids[0]], cluster.Address{Host: "10.0.0.7", Port: 9000})
	})
	t.Run("WithTheExternalIDOfATaskSet", func(t *testing.T) {
		b := newBalanced(t, 1, cluster.Registration{ARN: cloudMap, Registry: true, ExternalID: "release-7"})
		b.ecs.tasks[b.task(b.ids[0]).ECSID].Address = "10.0.0.7"
		b.asks(state.Outbox{Targets: b.items()})
		want(t, "entry", b.elb.at[b.ids[0]], cluster.Address{Host: "10.0.0.7", ExternalID: "release-7"})
	})
	t.Run("OnlyOnce", func(t *testing.T) {
		b := newBalanced(t, 2, inGroup(groupOne))
		b.asks(state.Outbox{Targets: b.items()})
		b.asks(state.Outbox{Targets: b.items()})
		want(t, "calls", b.elb.count("RegisterTargets"), 1)
	})
	t.Run("SkipsTasksNoLongerWanted", func(t *testing.T) {
		b := newBalanced(t, 1, inGroup(groupOne))
		b.stops(b.ids[0])
		b.asks(state.Outbox{Targets: b.items()})
		wantCount(t, "calls", b.elb.calls, 0)
		wantCount(t, "outbox rows", b.outbox(), 0)
	})
	t.Run("RefusalsOfTheTargetGroupFail", func(t *testing.T) {
		b := newBalanced(t, 3, inGroup(groupOne))
		bad := cluster.Address{Host: "i-" + b.task(b.ids[1]).Instance, Port: 32769}
		b.elb.before = func(call, _ string, n int) error {
			if _, tried := b.elb.groups[groupOne][bad]; call == "RegisterTargets" && n > 1 && !tried {
				return cluster.Errorf(cluster.CodeInvalidTarget, "one of them is bad")
			}
			return nil
		}
		b.ecs.tasks[b.task(b.ids[1]).ECSID].Bindings[1].HostPort = 0
		b.asks(state.Outbox{Targets: b.items()})
		for k, state := range []cluster.RegistrationState{cluster.Registered, cluster.RegistrationFailed, cluster.Registered} {
			want(t, fmt.Sprint("state of ", k), b.target(b.ids[k]).Registrations[0].State, state)
		}
		want(t, "reason", b.target(b.ids[1]).Registrations[0].Reason, "InvalidTarget: no port")
		wantCount(t, "outbox rows", b.outbox(), 0)
	})
	t.Run("AMissingTargetGroupFails", func(t *testing.T) {
		b := newBalanced(t, 2, inGroup(groupOne), inGroup(groupTwo))
		delete(b.elb.groups, groupOne)
		b.asks(state.Outbox{Targets: b.items()})
		for _, id := range b.ids {
			g := b.target(id).Registrations
			want(t, "state", g[0].State, cluster.RegistrationFailed)
			want(t, "reason", g[0].Reason, "TargetGroupNotFound: Target groups '"+groupOne+"' not found")
			want(t, "state in the other", g[1].State, cluster.Registered)
		}
	})
	t.Run("AnUnboundPortFails", func(t *testing.T) {
		b := newBalanced(t, 1, cluster.Registration{ARN: groupOne, Container: "app", ContainerPort: 81}, cluster.Registration{ARN: cloudMap, Registry: true})
		b.asks(state.Outbox{Targets: b.items()})
		g := b.target(b.ids[0]).Registrations
		want(t, "reason", g[0].Reason, "port 81 of container app is bound to no port of the instance")
		want(t, "state in Cloud Map", g[1].State, cluster.RegistrationFailed)
		wantCount(t, "calls", b.elb.calls, 0)
	})
	for _, c := range []struct {
		name string
		err  error
		wait time.Duration
	}{
		{"AgainWhenThrottled", cluster.Errorf(cluster.CodeThrottling, "Rate exceeded"), time.Second},
		{"AgainWhenTheOutcomeIsUnknown", errTimedOut, time.Second},
		{"LaterWhenItMayNot", cluster.Errorf(cluster.CodeAccessDenied, "not authorized"), 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBalanced(t, 2, inGroup(groupOne))
			failed := 0
			b.elb.before = func(string, string, int) error {
				if failed++; failed > 1 {
					return nil
				}
				return c.err
			}
			b.asks(state.Outbox{Targets: b.items()})
			want(t, "state", b.target(b.ids[0]).Registrations[0].State, "")
			b.advance(c.wait - time.Millisecond)
			want(t, "calls before it is time", b.elb.count("RegisterTargets"), 1)
			b.advance(2 * time.Second)
			want(t, "state", b.target(b.ids[0]).Registrations[0].State, cluster.Registered)
			wantCount(t, "outbox rows", b.outbox(), 0)
		})
	}
	t.Run("AHundredCallsARound", func(t *testing.T) {
		b := newBalanced(t, 12, slices.Repeat([]cluster.Registration{{ARN: cloudMap, Registry: true}}, 10)...)
		for _, id := range b.ids {
			b.ecs.tasks[b.task(id).ECSID].Address = "10.0.0.1"
		}
		b.asks(state.Outbox{Targets: b.items()})
		want(t, "calls", b.elb.count("RegisterInstance"), 100)
		b.advance(2 * time.Second)
		for _, id := range b.ids {
			want(t, "state", b.target(id).Registrations[9].State, cluster.Registered)
		}
	})
}

func TestDispatch_Drains(t *testing.T) {
	registered := func(t *testing.T, n int, wanted ...cluster.Registration) *balanced {
		b := newBalanced(t, n, wanted...)
		b.asks(state.Outbox{Targets: b.items()})
		b.elb.calls = nil
		return b
	}
	t.Run("BeforeItStops", func(t *testing.T) {
		b := registered(t, 3, inGroup(groupOne), inGroup(groupTwo))
		gone := b.ids[0]
		b.asks(state.Outbox{Stops: []state.StopItem{b.stops(gone)}})
		wantCount(t, "targets left", slices.Collect(maps.Keys(b.elb.groups[groupOne])), 2)
		g := b.target(gone).Registrations
		want(t, "state", g[0].State, cluster.Deregistered)
		want(t, "drained", g[0].DrainedAt, b.clock.now.Add(time.Minute))
		want(t, "drained in the other", g[1].DrainedAt, b.clock.now.Add(2*time.Minute))
		b.advance(2*time.Minute - time.Second)
		wantCount(t, "StopTask calls before the connections are drained", b.ecs.stops, 0)
		want(t, "deregistrations", b.elb.count("DeregisterTargets"), 2)
		b.advance(2 * time.Second)
		wantCount(t, "StopTask calls", b.ecs.stops, 1)
		want(t, "status", b.task(gone).Status(), cluster.TaskStopped)
		wantCount(t, "outbox rows", b.outbox(), 0)
		b.asks(state.Outbox{Targets: b.items()[:1]})
		if left := b.target(gone); left != nil {
			t.Errorf("the row is still there: %+v", left)
		}
	})
	t.Run("BeforeAUserStopsIt", func(t *testing.T) {
		b := registered(t, 2, inGroup(groupOne))
		if _, err := b.api.Tasks.StopTask(ctx, prod, b.ids[0], ""); err != nil {
			t.Fatal(err)
		}
		b.pump()
		want(t, "state", b.target(b.ids[0]).Registrations[0].State, cluster.Deregistered)
		wantCount(t, "StopTask calls before the connections are drained", b.ecs.stops, 0)
		b.advance(2 * time.Minute)
		wantCount(t, "StopTask calls", b.ecs.stops, 1)
	})
	t.Run("OfOneTargetGroupInOneCall", func(t *testing.T) {
		b := registered(t, 4, inGroup(groupOne))
		var stops []state.StopItem
		for _, id := range b.ids {
			stops = append(stops, b.stops(id))
		}
		b.asks(state.Outbox{Stops: stops})
		want(t, "calls", len(b.elb.calls), 2)
		b.advance(2 * time.Minute)
		wantCount(t, "StopTask calls", b.ecs.stops, 4)
	})
	t.Run("WaitsForNothingWithoutRegistrations", func(t *testing.T) {
		b := newBalanced(t, 1, inGroup(groupOne))
		b.asks(state.Outbox{Stops: []state.StopItem{b.stops(b.ids[0])}})
		wantCount(t, "StopTask calls", b.ecs.stops, 1)
		wantCount(t, "calls", b.elb.calls, 0)
	})
	t.Run("WithoutADelayInCloudMap", func(t *testing.T) {
		b := newBalanced(t, 1, cluster.Registration{ARN: cloudMap, Registry: true})
		b.ecs.tasks[b.task(b.ids[0]).ECSID].Address = "10.0.0.7"
		b.asks(state.Outbox{Targets: b.items()})
		b.asks(state.Outbox{Stops: []state.StopItem{b.stops(b.ids[0])}})
		wantCount(t, "entries", slices.Collect(maps.Keys(b.elb.entries[cloudMap])), 0)
		wantCount(t, "StopTask calls", b.ecs.stops, 1)
	})
	t.Run("StopsEvenIfTheTargetGroupIsGone", func(t *testing.T) {
		b := registered(t, 1, inGroup(groupOne))
		delete(b.elb.groups, groupOne)
		b.asks(state.Outbox{Stops: []state.StopItem{b.stops(b.ids[0])}})
		wantCount(t, "StopTask calls", b.ecs.stops, 1)
	})
	t.Run("OneByOneIfOneIsRefused", func(t *testing.T) {
		b := registered(t, 3, inGroup(groupOne))
		b.elb.before = func(call, _ string, n int) error {
			if call == "DeregisterTargets" && n > 1 {
				return cluster.Errorf(cluster.CodeInvalidTarget, "one of them is not registered")
			}
			return nil
		}
		before := b.elb.count("DeregisterTargets")
		b.asks(state.Outbox{Stops: []state.StopItem{b.stops(b.ids[0]), b.stops(b.ids[1]), b.stops(b.ids[2])}})
		want(t, "calls", b.elb.count("DeregisterTargets")-before, 1+3)
		for _, id := range b.ids {
			want(t, "state", b.target(id).Registrations[0].State, cluster.Deregistered)
		}
	})
	t.Run("StopsEvenIfDeregisteringFails", func(t *testing.T) {
		b := registered(t, 1, inGroup(groupOne))
		b.elb.before = func(string, string, int) error { return cluster.Errorf(cluster.CodeAccessDenied, "not authorized") }
		b.asks(state.Outbox{Stops: []state.StopItem{b.stops(b.ids[0])}})
		b.advance(4 * time.Minute)
		wantCount(t, "StopTask calls", b.ecs.stops, 0)
		b.advance(2 * time.Minute)
		wantCount(t, "StopTask calls", b.ecs.stops, 1)
	})
	t.Run("StopsEndedTasksAtOnce", func(t *testing.T) {
		b := registered(t, 2, inGroup(groupOne))
		item := b.stops(b.ids[0])
		b.ecs.exit(item.ECSID, 1)
		b.observe(b.ecs.events...)
		b.ecs.events = nil
		b.asks(state.Outbox{Stops: []state.StopItem{item}})
		wantCount(t, "outbox rows", b.outbox(), 0)
	})
	t.Run("IsNoAgeOfTheOutbox", func(t *testing.T) {
		b := registered(t, 1, inGroup(groupTwo))
		b.asks(state.Outbox{Stops: []state.StopItem{b.stops(b.ids[0])}})
		b.dispatch.Telemetry.Collect()
		b.advance(3 * time.Minute)
		figures, _ := b.dispatch.Telemetry.Collect()
		if age := figures[handler.OutboxAge]; age > 2 {
			t.Errorf("the outbox is %v s old", age)
		}
	})
}

func TestDispatch_DeregistersStoppedTasks(t *testing.T) {
	t.Run("TasksThatHaveEnded", func(t *testing.T) {
		b := newBalanced(t, 2, inGroup(groupOne))
		b.asks(state.Outbox{Targets: b.items()})
		b.placementAsleep = true
		b.ecs.exit(b.task(b.ids[0]).ECSID, 1)
		b.pump()
		b.asks(state.Outbox{Targets: b.items()})
		wantCount(t, "targets left", slices.Collect(maps.Keys(b.elb.groups[groupOne])), 1)
		if b.target(b.ids[0]) != nil || b.target(b.ids[1]) == nil {
			t.Error("the wrong rows are left")
		}
	})
	t.Run("RepeatsForWhatMayHaveBeenRegisteredMeanwhile", func(t *testing.T) {
		b := newBalanced(t, 1, inGroup(groupOne))
		b.asks(state.Outbox{Targets: b.items()})
		b.placementAsleep, b.dispatchAsleep = true, true
		b.leaves(state.Outbox{Targets: b.items()})
		row := b.target(b.ids[0])
		row.Registrations[0].State = cluster.Deregistered
		if _, err := b.store.Write(ctx, state.Write{Put: row, Any: true}); err != nil {
			t.Fatal(err)
		}
		b.ecs.exit(b.task(b.ids[0]).ECSID, 1)
		b.pump()
		b.advance(time.Minute)
		b.dispatchAsleep = false
		b.minute()
		wantCount(t, "targets left", slices.Collect(maps.Keys(b.elb.groups[groupOne])), 0)
	})
	t.Run("WhatAnotherDispatchRegisteredSinceTheRowWasRead", func(t *testing.T) {
		b := newBalanced(t, 1, inGroup(groupOne))
		b.placementAsleep = true
		b.ecs.exit(b.task(b.ids[0]).ECSID, 1)
		b.pump()
		spy, at := &spyState{Store: b.store}, cluster.Address{Host: "10.0.0.7", Port: 80}
		spy.beforeWrite = func(write state.Write) error {
			if write.Delete == nil || *write.Delete != state.KeyOf(b.target(b.ids[0])) {
				return nil
			}
			spy.beforeWrite = nil
			row := b.target(b.ids[0])
			row.Registrations[0].Address, row.Registrations[0].Port = at.Host, at.Port
			row.Registrations[0].State = cluster.Registered
			b.elb.groups[groupOne] = map[cluster.Address]cluster.TargetHealth{at: {}}
			_, err := b.store.Write(ctx, state.Write{Put: row, Any: true})
			return err
		}
		b.dispatch.State = spy
		b.asks(state.Outbox{Targets: b.items()})
		b.advance(2 * time.Second)
		b.minute()
		wantCount(t, "targets left", slices.Collect(maps.Keys(b.elb.groups[groupOne])), 0)
		if b.target(b.ids[0]) != nil || spy.beforeWrite != nil {
			t.Error("the row is left, or was never deleted")
		}
		wantCount(t, "outbox rows", b.outbox(), 0)
	})
	t.Run("ButNotAnAddressThatAnotherTaskHasByNow", func(t *testing.T) {
		b := newBalanced(t, 2, inGroup(groupOne))
		b.asks(state.Outbox{Targets: b.items()})
		b.placementAsleep = true
		b.ecs.exit(b.task(b.ids[0]).ECSID, 1)
		b.pump()
		row := b.target(b.ids[1])
		old := b.target(b.ids[0]).Registrations[0]
		row.Registrations[0].Address, row.Registrations[0].Port = old.Address, old.Port
		if _, err := b.store.Write(ctx, state.Write{Put: row, Any: true}); err != nil {
			t.Fatal(err)
		}
		b.asks(state.Outbox{Targets: b.items()[:1]})
		want(t, "deregistrations", b.elb.count("DeregisterTargets"), 0)
	})
}

// TestDispatch_RegistersThroughCrashes lets dispatch die at its n-th step, before or after it, for
// every n; then another one continues.
func TestDispatch_RegistersThroughCrashes(t *testing.T) {
	for n := 1; ; n++ {
		reached := false
		for _, late := range []bool{false, true} {
			b := newBalanced(t, 3, inGroup(groupOne), inGroup(groupTwo))
			b.dispatchAsleep = true
			b.leaves(state.Outbox{Targets: b.items()})
			died := b.dies(n, late)
			reached = reached || died
			b.dispatch, b.dispatchAsleep = b.another(), false
			b.minute()
			b.advance(5 * time.Second)
			for _, id := range b.ids {
				for _, g := range b.target(id).Registrations {
					want(t, fmt.Sprint("state after a death at ", n), g.State, cluster.Registered)
				}
			}
			wantCount(t, "targets", slices.Collect(maps.Keys(b.elb.groups[groupOne])), 3)
			wantCount(t, "outbox rows", b.outbox(), 0)
		}
		if !reached {
			if n < 10 {
				t.Fatalf("it takes only %d steps", n)
			}
			return
		}
	}
}

// TestDispatch_DrainsThroughCrashes: a task is stopped only after its connections have drained,
// whenever dispatch dies.
func TestDispatch_DrainsThroughCrashes(t *testing.T) {
	for n := 1; ; n++ {
		reached := false
		for _, late := range []bool{false, true} {
			b := newBalanced(t, 2, inGroup(groupOne), inGroup(groupTwo))
			b.asks(state.Outbox{Targets: b.items()})
			b.dispatchAsleep = true
			b.leaves(state.Outbox{Stops: []state.StopItem{b.stops(b.ids[0])}, Targets: b.items()})
			begun := b.clock.now
			b.ecs.onStop = func(int, string) error {
				if drained := begun.Add(2 * time.Minute); b.clock.now.Before(drained) {
					t.Errorf("stopped %s too early, after a death at %d", drained.Sub(b.clock.now), n)
				}
				return nil
			}
			died := b.dies(n, late)
			reached = reached || died
			b.dispatch, b.dispatchAsleep = b.another(), false
			for range 6 {
				b.minute()
				b.advance(time.Minute)
			}
			want(t, fmt.Sprint("status after a death at ", n), b.task(b.ids[0]).Status(), cluster.TaskStopped)
			wantCount(t, "targets left", slices.Collect(maps.Keys(b.elb.groups[groupOne])), 1)
			wantCount(t, "outbox rows", b.outbox(), 0)
		}
		if !reached {
			return
		}
	}
}

// errDied ends a dispatch.
var errDied = errors.New("died")

// dies runs dispatch on what there is and lets it die at its n-th write or call of a load balancer:
// after it if late, else before. It returns false if dispatch does not get that far.
func (b *balanced) dies(n int, late bool) (died bool) {
	b.t.Helper()
	d := b.another()
	step := func() {
		if n--; n == 0 {
			panic(errDied)
		}
	}
	spy := &spyState{Store: b.store}
	spy.beforeWrite = func(state.Write) error {
		if !late {
			step()
		}
		return nil
	}
	d.State = lateState{spy, func() {
		if late {
			step()
		}
	}}
	at := func(when bool) func(string, string, int) error {
		return func(string, string, int) error {
			if late == when {
				step()
			}
			return nil
		}
	}
	b.elb.before, b.elb.after = at(false), at(true)
	defer func() {
		b.elb.before, b.elb.after = nil, nil
		if p := recover(); p != nil && p != errDied { //nolint:errorlint // it is the very one
			panic(p)
		} else if p != nil {
			died = true
		}
	}()
	if err := d.RunSchedule(ctx, "due"); err != nil {
		b.t.Fatal(err)
	}
	return false
}

// lateState reports each write after it was made.
type lateState struct {
	*spyState
	wrote func()
}

func (s lateState) Write(c context.Context, w state.Write) (state.Row, error) {
	row, err := s.spyState.Write(c, w)
	if err == nil {
		s.wrote()
	}
	return row, err
}

func TestDispatch_DeregistersWhatWasRegisteredMeanwhile(t *testing.T) {
	b := newBalanced(t, 1, inGroup(groupOne))
	raced := false
	b.elb.after = func(call, _ string, _ int) error {
		if call == "RegisterTargets" && !raced {
			raced = true // while the call is under way the task is stopped, and drained by another dispatch
			b.leaves(state.Outbox{Stops: []state.StopItem{b.stops(b.ids[0])}})
			if err := b.another().RunSchedule(ctx, "due"); err != nil {
				t.Fatal(err)
			}
			for _, arn := range []string{groupOne} { // the registration arrives only now
				b.elb.groups[arn][cluster.Address{Host: "i-" + b.task(b.ids[0]).Instance, Port: 32768}] = cluster.TargetHealth{}
			}
		}
		return nil
	}
	b.asks(state.Outbox{Targets: b.items()})
	want(t, "raced", raced, true)
	wantCount(t, "targets left", slices.Collect(maps.Keys(b.elb.groups[groupOne])), 0)
	want(t, "state", b.target(b.ids[0]).Registrations[0].State, cluster.Deregistered)
	b.advance(2 * time.Minute)
	wantCount(t, "StopTask calls", b.ecs.stops, 1)
}

// fakeBus keeps the events that it accepts.
type fakeBus struct {
	events []string
	refuse int // of the next ones, to send again
}

func (f *fakeBus) PutEvents(_ context.Context, events [][]byte) (left [][]byte, err error) {
	for _, e := range events {
		if f.refuse > 0 {
			f.refuse--
			left, err = append(left, e), errors.New("throttled")
			continue
		}
		f.events = append(f.events, string(e))
	}
	return left, err
}

func TestDispatch_Publishes(t *testing.T) {
	events := []state.PublishedEvent{
		{DetailType: "ECS Service Action", Service: "web", At: epoch, Detail: `{"eventType":"INFO","eventName":"SERVICE_STEADY_STATE"}`},
		{DetailType: "ECS Task State Change", Service: "web", At: epoch, Detail: `{"taskArn":"arn:t","clusterArn":"arn:c"}`},
	}
	t.Run("InTheShapeOfECSsEvents", func(t *testing.T) {
		b, bus := newBalanced(t, 1), &fakeBus{refuse: 1}
		b.dispatch.Bus = bus
		b.asks(state.Outbox{Publish: events})
		wantCount(t, "events taken at first", bus.events, 1)
		b.advance(2 * time.Second)
		want(t, "events", strings.Join(bus.events, "\n"), `{"account":"123456789012","detail":{"clusterArn":"arn:c","taskArn":"arn:t"},"detail-type":"ECS Task State Change","region":"eu-central-1","resources":["arn:t"],"source":"berth.ecs","time":"2026-11-21T09:00:00Z"}
{"account":"123456789012","detail":{"clusterArn":"arn:aws:ecs:eu-central-1:123456789012:cluster/prod","eventName":"SERVICE_STEADY_STATE","eventType":"INFO"},"detail-type":"ECS Service Action","region":"eu-central-1","resources":["arn:aws:ecs:eu-central-1:123456789012:service/prod/web"],"source":"berth.ecs","time":"2026-11-21T09:00:00Z"}`)
		wantCount(t, "outbox rows", b.outbox(), 0)
	})
	t.Run("PublishesNothingWithoutABus", func(t *testing.T) {
		b := newBalanced(t, 1)
		b.asks(state.Outbox{Publish: events})
		wantCount(t, "outbox rows", b.outbox(), 0)
	})
}
