package handler_test

import (
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

func TestTelemetry(t *testing.T) {
	t.Run("StartsStopsAndRefusals", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 2, 4096, 8192)
		refused := false
		w.ecs.onStart = func(_ int, c cluster.StartCall) fault {
			if refused {
				return fault{}
			}
			refused = true
			return fault{refuse: map[string]string{c.Instances[0]: "AGENT"}}
		}
		w.create("web", "web", 4)
		w.advance(2 * time.Minute)
		w.scale("web", 1)
		w.advance(time.Minute)
		got, _ := w.dispatch.Telemetry.Collect()
		want(t, "started", got[handler.TasksStarted], 4)
		want(t, "refused", got[handler.TasksRefused], 1)
		want(t, "stopped", got[handler.TasksStopped], 3)
		want(t, "turns", got[handler.IdleRounds], 0)
		if got[handler.RecordsHandled] == 0 || got[handler.EventsHandled] == 0 {
			t.Errorf("figures %v", got)
		}
		again, _ := w.dispatch.Telemetry.Collect()
		want(t, "figures taken twice", len(again), 0)
	})
	t.Run("ALostRace", func(t *testing.T) {
		w := newWorld(t)
		w.placement.Telemetry = &handler.Telemetry{}
		w.instances("i", 1, 4096, 8192)
		w.pump()
		lost := false
		w.state.beforeCommit = func(state.Commit) error {
			if lost {
				return nil
			}
			lost = true
			return &state.Conflict{Key: state.Key{Cluster: prod, Sort: state.PrefixMeta}, Version: true}
		}
		w.create("web", "web", 1)
		w.pump()
		got, _ := w.placement.Telemetry.Collect()
		want(t, "commits lost", got[handler.CommitsLost], 1)
	})
	t.Run("WhatASweepFinds", func(t *testing.T) {
		w := newWorld(t)
		w.instances("i", 1, 4096, 8192)
		w.pump()
		w.placementAsleep = true
		w.create("web", "web", 1)
		w.sweep()
		got, _ := w.observer.Telemetry.Collect()
		want(t, "left undone", got[handler.LeftUndone], 1)
	})
}

// TestIdleRounds: a chain of due rows that makes no progress counts its hops, and begins anew when
// something is done.
func TestIdleRounds(t *testing.T) {
	w := newWorld(t)
	w.instances("i", 1, 4096, 8192)
	w.pump()
	throttle := true
	w.ecs.onStart = func(int, cluster.StartCall) fault {
		if throttle {
			return fault{err: throttled}
		}
		return fault{}
	}
	w.create("web", "web", 1)
	w.advance(30 * time.Second)
	got, _ := w.dispatch.Telemetry.Collect()
	if turns := got[handler.IdleRounds]; turns < 10 || turns > 31 {
		t.Fatalf("%g turns in 30 s", turns)
	}
	if age := got[handler.OutboxAge]; age < 25 || age > 30 {
		t.Fatalf("the outbox is %g s old after 30 s", age)
	}
	dues := w.dues()
	wantCount(t, "due rows", dues, 1)
	want(t, "generation", float64(dues[0].Generation), got[handler.IdleRounds])
	w.advance(30 * time.Second)
	more, _ := w.dispatch.Telemetry.Collect()
	if more[handler.IdleRounds] <= got[handler.IdleRounds] {
		t.Fatalf("%g turns after %g", more[handler.IdleRounds], got[handler.IdleRounds])
	}
	throttle = false
	w.advance(30 * time.Second)
	want(t, "running", w.service("web").Service.Running, 1)
	_, _ = w.dispatch.Telemetry.Collect()
	w.advance(time.Minute)
	rest, _ := w.dispatch.Telemetry.Collect()
	want(t, "turns when all is done", rest[handler.IdleRounds], 0)
	want(t, "outbox age when all is done", rest[handler.OutboxAge], 0)
}
