package handler_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/healthcheck"
	"berth/shared/state"
)

// checked is a balanced world whose tasks are registered, with a health check.
func checked(t *testing.T, n int, wanted ...cluster.Registration) (*balanced, *healthcheck.Handler) {
	t.Helper()
	b := newBalanced(t, n, wanted...)
	b.asks(state.Outbox{Targets: b.items()})
	b.elb.calls = nil
	return b, b.healthCheck()
}

func (b *balanced) healthCheck() *healthcheck.Handler {
	return &healthcheck.Handler{
		State: b.store, LoadBalancers: b.elb, Registries: b.elb, Alarms: b.elb, Clock: b.clock, Settings: handler.DefaultSettings(),
		Decoder: awsevent.Decoder{}, Telemetry: &handler.Telemetry{},
	}
}

// retryInterval is how often failed registrations are retried.
const retryInterval = 5 * time.Minute

// runHealthCheck runs the health-check function once.
func (b *balanced) runHealthCheck(h *healthcheck.Handler) {
	b.t.Helper()
	if err := h.RunSchedule(ctx, "health"); err != nil {
		b.t.Fatal(err)
	}
}

// reportHealth makes the load balancer report a health of a task.
func (b *balanced) reportHealth(id string, health cluster.TargetHealth) {
	for _, g := range b.target(id).Registrations {
		if g.Registry {
			b.elb.entries[g.ARN][id] = health
		} else {
			b.elb.groups[g.ARN][cluster.Address{Host: g.Address, Port: g.Port}] = health
		}
	}
}

var (
	healthy   = cluster.TargetHealth{Health: cluster.Healthy}
	failing50 = cluster.TargetHealth{Health: cluster.Unhealthy, Reason: "Health checks failed with these codes: [503]"}
)

func TestHealthCheck_Targets(t *testing.T) {
	t.Run("OneCallForEachTargetGroup", func(t *testing.T) {
		b, h := checked(t, 5, inGroup(groupOne), inGroup(groupTwo))
		for _, id := range b.ids[1:] {
			b.reportHealth(id, healthy)
		}
		b.reportHealth(b.ids[0], failing50)
		b.runHealthCheck(h)
		want(t, "calls", b.elb.count("TargetHealth"), 2)
		for k, health := range []cluster.Health{cluster.Unhealthy, cluster.Healthy, cluster.Healthy} {
			want(t, "health", b.target(b.ids[k]).WorstHealth(), health)
		}
		want(t, "reason", b.target(b.ids[0]).Registrations[0].Reason, failing50.Reason)
		b.reportHealth(b.ids[0], healthy)
		b.runHealthCheck(h)
		want(t, "reason", b.target(b.ids[0]).Registrations[0].Reason, "")
		want(t, "health", b.target(b.ids[0]).WorstHealth(), cluster.Healthy)
	})
	t.Run("WritesOnlyWhatChanges", func(t *testing.T) {
		b, h := checked(t, 4, inGroup(groupOne))
		b.reportHealth(b.ids[0], healthy)
		b.runHealthCheck(h)
		b.pump()
		before := b.units()
		b.runHealthCheck(h)
		want(t, "write units", b.units(), before)
	})
	t.Run("InCloudMap", func(t *testing.T) {
		b := newBalanced(t, 1, cluster.Registration{ARN: cloudMap, Registry: true})
		b.ecs.tasks[b.task(b.ids[0]).ECSID].Address = "10.0.0.1"
		b.asks(state.Outbox{Targets: b.items()})
		h := b.healthCheck()
		delete(b.elb.entries[cloudMap], b.ids[0]) // Cloud Map answers first, and registers then
		b.runHealthCheck(h)
		want(t, "health at first", b.target(b.ids[0]).WorstHealth(), cluster.UnknownHealth)
		b.reportHealth(b.ids[0], healthy)
		b.runHealthCheck(h)
		want(t, "health", b.target(b.ids[0]).WorstHealth(), cluster.Healthy)
	})
	t.Run("NothingWhereNothingIsRegistered", func(t *testing.T) {
		b, h := checked(t, 0, inGroup(groupOne))
		spy := &spyState{Store: b.store}
		h.State = spy
		b.runHealthCheck(h)
		lists := spy.lists
		b.runHealthCheck(h)
		want(t, "reads of a range, the clusters' included", spy.lists-lists, 2)
		wantCount(t, "calls", b.elb.calls, 0)
	})
	t.Run("AFailureDoesNotHoldUpTheRest", func(t *testing.T) {
		b, h := checked(t, 1, inGroup(groupOne), inGroup(groupTwo))
		b.reportHealth(b.ids[0], healthy)
		b.elb.before = func(_, arn string, _ int) error {
			if arn == groupOne {
				return throttled
			}
			return nil
		}
		if err := h.RunSchedule(ctx, "health"); !errors.Is(err, throttled) {
			t.Fatalf("error %v", err)
		}
		g := b.target(b.ids[0]).Registrations
		want(t, "health there", g[0].Health, cluster.UnknownHealth)
		want(t, "health in the other", g[1].Health, cluster.Healthy)
	})
	t.Run("OfADeletedTargetGroupIsUnknown", func(t *testing.T) {
		b, h := checked(t, 1, inGroup(groupOne))
		b.reportHealth(b.ids[0], healthy)
		b.runHealthCheck(h)
		delete(b.elb.groups, groupOne)
		b.runHealthCheck(h)
		want(t, "health", b.target(b.ids[0]).WorstHealth(), cluster.UnknownHealth)
		want(t, "state", b.target(b.ids[0]).Registrations[0].State, cluster.Registered)
	})
	t.Run("RestoresRegistrationsThatSomebodyRemoved", func(t *testing.T) {
		b, h := checked(t, 2, inGroup(groupOne))
		clear(b.elb.groups[groupOne])
		b.runHealthCheck(h)
		want(t, "state", b.target(b.ids[0]).Registrations[0].State, "")
		b.pump()
		want(t, "state", b.target(b.ids[0]).Registrations[0].State, cluster.Registered)
		want(t, "targets", len(b.elb.groups[groupOne]), 2)
	})
	t.Run("FailedOnesAreRetriedOnceTheTargetGroupExists", func(t *testing.T) {
		b := newBalanced(t, 2, inGroup(groupOne), inGroup(groupTwo))
		delete(b.elb.groups, groupOne)
		b.asks(state.Outbox{Targets: b.items()})
		h := b.healthCheck()
		b.runHealthCheck(h)
		b.advance(5 * time.Minute)
		before := b.units()
		for range 12 {
			b.advance(time.Minute)
			b.runHealthCheck(h)
		}
		want(t, "write units where there is none", b.units(), before)
		want(t, "state", b.target(b.ids[0]).Registrations[0].State, cluster.RegistrationFailed)
		b.elb.groups[groupOne] = map[cluster.Address]cluster.TargetHealth{}
		b.advance(retryInterval)
		b.runHealthCheck(h)
		b.pump()
		for _, id := range b.ids {
			g := b.target(id)
			want(t, "state", g.Registrations[0].State, cluster.Registered)
			want(t, "reason", g.Registrations[0].Reason, "")
		}
		want(t, "targets", len(b.elb.groups[groupOne]), 2)
	})
	t.Run("FailedOnesAreRetriedAfterTheClockWentBack", func(t *testing.T) {
		b := newBalanced(t, 1, inGroup(groupOne))
		b.ecs.tasks[b.task(b.ids[0]).ECSID].Bindings[1].HostPort = 0
		b.asks(state.Outbox{Targets: b.items()})
		h := b.healthCheck()
		b.runHealthCheck(h)
		b.pump()
		b.clock.now = b.clock.now.Add(-3 * time.Hour)
		calls := b.elb.count("RegisterTargets")
		b.runHealthCheck(h)
		b.pump()
		want(t, "tried again", b.elb.count("RegisterTargets")-calls, 1)
	})
	t.Run("RepeatedRefusalsAreNotWrittenAgain", func(t *testing.T) {
		b := newBalanced(t, 1, inGroup(groupOne))
		b.ecs.tasks[b.task(b.ids[0]).ECSID].Bindings[1].HostPort = 0
		b.asks(state.Outbox{Targets: b.items()})
		h := b.healthCheck()
		calls, rev := b.elb.count("RegisterTargets"), b.target(b.ids[0]).Rev
		for range 10 {
			b.runHealthCheck(h)
			b.pump()
			b.advance(time.Minute)
		}
		want(t, "tried again", b.elb.count("RegisterTargets")-calls, 2)
		want(t, "row", b.target(b.ids[0]).Rev, rev)
		want(t, "state", b.target(b.ids[0]).Registrations[0].State, cluster.RegistrationFailed)
		wantCount(t, "outbox rows", b.outbox(), 0)
	})
	t.Run("APortThatComesToBeBoundIsFoundAgain", func(t *testing.T) {
		b := newBalanced(t, 1, inGroup(groupOne))
		bindings := b.ecs.tasks[b.task(b.ids[0]).ECSID].Bindings
		b.ecs.tasks[b.task(b.ids[0]).ECSID].Bindings = nil
		b.asks(state.Outbox{Targets: b.items()})
		want(t, "state at first", b.target(b.ids[0]).Registrations[0].State, cluster.RegistrationFailed)
		b.ecs.tasks[b.task(b.ids[0]).ECSID].Bindings = bindings
		b.runHealthCheck(b.healthCheck())
		b.pump()
		want(t, "state", b.target(b.ids[0]).Registrations[0].State, cluster.Registered)
		wantEvent(t, b.world.events("web"), "(service web) registered 1 targets in (target-group "+groupOne+")")
	})
	t.Run("LosesARaceAgainstDispatch", func(t *testing.T) {
		b, h := checked(t, 1, inGroup(groupOne))
		b.reportHealth(b.ids[0], healthy)
		spy := &spyState{Store: b.store}
		h.State = spy
		raced := false
		spy.beforeWrite = func(state.Write) error {
			if !raced {
				raced = true
				b.asks(state.Outbox{Stops: []state.StopItem{b.stops(b.ids[0])}})
			}
			return nil
		}
		b.runHealthCheck(h)
		want(t, "raced", raced, true)
		g := b.target(b.ids[0]).Registrations[0]
		want(t, "state", g.State, cluster.Deregistered)
		want(t, "health", g.Health, cluster.UnknownHealth)
	})
	t.Run("UnknownSchedule", func(t *testing.T) {
		_, h := checked(t, 0)
		var drop *cluster.Drop
		if err := h.RunSchedule(ctx, "sweep"); !errors.As(err, &drop) {
			t.Errorf("error %v", err)
		}
	})
}

// deploys puts the service's deployment in progress since a time, with alarms.
func (b *balanced) deploys(id string, since time.Time, alarms ...string) {
	b.t.Helper()
	row, err := b.store.Get(ctx, state.ServiceKey(prod, "web"))
	if err != nil {
		b.t.Fatal(err)
	}
	s := *row.(*cluster.Service)
	s.Alarms = cluster.DeploymentAlarms{Names: alarms, Enable: len(alarms) > 0, Rollback: true}
	s.Deployment.ID, s.Deployment.CreatedAt, s.Deployment.State = id, since, cluster.RolloutInProgress
	if id == "" {
		s.Deployment.State = cluster.RolloutCompleted
	}
	if _, err := b.store.Write(ctx, state.Write{Put: &s, Any: true}); err != nil {
		b.t.Fatal(err)
	}
	b.bump() // a deployment's beginning narrows
}

func (b *balanced) watch() *cluster.AlarmWatch {
	b.t.Helper()
	row, err := b.store.Get(ctx, state.AlarmWatchKey(prod, b.service.Short))
	if err != nil {
		b.t.Fatal(err)
	}
	w, _ := row.(*cluster.AlarmWatch)
	return w
}

func (b *balanced) alarm(name string, fires bool, since time.Time) {
	b.elb.alarms[name] = cluster.Alarm{Name: name, InAlarm: fires, Since: since, Window: 3 * time.Minute}
}

func alarmEvent(name, state string, at time.Time) []byte {
	data, err := json.Marshal(object{
		"source": "aws.cloudwatch", "detail-type": "CloudWatch Alarm State Change", "detail": object{
			"alarmName": name, "state": object{"value": state, "timestamp": at.Format("2006-01-02T15:04:05.000-0700")},
		},
	})
	if err != nil {
		panic(err)
	}
	return data
}

func TestHealthCheck_Alarms(t *testing.T) {
	asleep := func(t *testing.T) (*balanced, *healthcheck.Handler) {
		b := newBalanced(t, 0)
		b.placementAsleep = true
		return b, b.healthCheck()
	}
	t.Run("ThatFireDuringADeployment", func(t *testing.T) {
		b, h := asleep(t)
		b.alarm("errors", false, epoch)
		b.alarm("slow", false, epoch)
		b.deploys("ecs-svc/1", epoch, "errors", "slow", "nobody's")
		b.runHealthCheck(h)
		want(t, "bake", b.watch().Bake, 3*time.Minute)
		want(t, "in alarm", len(b.watch().InAlarm), 0)
		b.alarm("slow", true, epoch.Add(time.Minute))
		b.runHealthCheck(h)
		b.alarm("slow", false, epoch.Add(2*time.Minute))
		b.runHealthCheck(h)
		b.alarm("errors", true, epoch.Add(3*time.Minute))
		b.runHealthCheck(h)
		want(t, "since", b.watch().Since, epoch.Add(time.Minute))
		w := b.watch()
		if diff := cmp.Diff([]string{"errors", "slow"}, w.InAlarm); diff != "" || w.Ignored || w.Deployment != "ecs-svc/1" {
			t.Errorf("%+v %s", w, diff)
		}
	})
	t.Run("ThatFiredBeforeItBeganAreIgnored", func(t *testing.T) {
		b, h := asleep(t)
		b.alarm("errors", true, epoch.Add(-time.Minute))
		b.deploys("ecs-svc/1", epoch, "errors")
		b.runHealthCheck(h)
		want(t, "ignored", b.watch().Ignored, true)
		b.alarm("errors", false, epoch.Add(time.Minute))
		b.runHealthCheck(h)
		want(t, "still ignored", b.watch().Ignored, true)
		b.deploys("ecs-svc/2", epoch.Add(2*time.Minute), "errors")
		b.runHealthCheck(h)
		want(t, "ignored by the next", b.watch().Ignored, false)
		want(t, "in alarm", len(b.watch().InAlarm), 0)
	})
	t.Run("ThatFiredBeforeTheFirstCheckCount", func(t *testing.T) {
		b, h := asleep(t)
		b.deploys("ecs-svc/1", epoch, "errors")
		b.alarm("errors", true, epoch.Add(30*time.Second))
		b.runHealthCheck(h)
		want(t, "ignored", b.watch().Ignored, false)
		want(t, "in alarm", len(b.watch().InAlarm), 1)
	})
	t.Run("UnknownOnesAreNamed", func(t *testing.T) {
		b, h := asleep(t)
		b.alarm("errors", false, epoch)
		b.deploys("ecs-svc/1", epoch, "slow", "errors", "erors")
		b.runHealthCheck(h)
		want(t, "missing", fmt.Sprint(b.watch().Missing), "[erors slow]")
		before := b.units()
		b.runHealthCheck(h)
		want(t, "write units where nothing is new", b.units(), before)
		b.alarm("slow", false, epoch)
		b.runHealthCheck(h)
		want(t, "missing", fmt.Sprint(b.watch().Missing), "[erors]")
	})
	t.Run("AreNotAskedForWhereNoDeploymentIsUnderWay", func(t *testing.T) {
		b, h := asleep(t)
		b.alarm("errors", true, epoch)
		b.deploys("", epoch, "errors")
		b.runHealthCheck(h)
		want(t, "calls", b.elb.count("DescribeAlarms"), 0)
	})
	t.Run("WriteOnlyWhatChanges", func(t *testing.T) {
		b, h := asleep(t)
		b.alarm("errors", true, epoch.Add(time.Second))
		b.deploys("ecs-svc/1", epoch, "errors")
		b.runHealthCheck(h)
		before := b.units()
		b.runHealthCheck(h)
		want(t, "write units", b.units(), before)
	})
	t.Run("ByEvent", func(t *testing.T) {
		b, h := asleep(t)
		b.alarm("errors", false, epoch)
		b.deploys("ecs-svc/1", epoch, "errors")
		b.runHealthCheck(h)
		calls := len(b.elb.calls)
		if again := h.HandleMessages(ctx, messages(alarmEvent("others", "ALARM", epoch), alarmEvent("errors", "OK", epoch))); len(again) > 0 {
			t.Fatalf("wanted again: %v", again)
		}
		want(t, "calls for an alarm that nobody watches", len(b.elb.calls), calls)
		// The alarm is OK again when CloudWatch is asked, but it fired all the same.
		if again := h.HandleMessages(ctx, messages(alarmEvent("errors", "ALARM", epoch.Add(time.Minute)))); len(again) > 0 {
			t.Fatalf("wanted again: %v", again)
		}
		if w := b.watch(); !slices.Equal(w.InAlarm, []string{"errors"}) || w.Ignored {
			t.Errorf("%+v", w)
		}
	})
	t.Run("ByAnEventThatCannotBeHandled", func(t *testing.T) {
		b, h := asleep(t)
		b.alarm("errors", true, epoch.Add(time.Minute))
		b.deploys("ecs-svc/1", epoch, "errors")
		b.elb.before = func(string, string, int) error { return throttled }
		event := alarmEvent("errors", "ALARM", epoch.Add(time.Minute))
		if again := h.HandleMessages(ctx, messages([]byte("{"), event)); !slices.Equal(again, []string{"m1"}) {
			t.Errorf("wanted again: %v", again)
		}
	})
	t.Run("AreForgottenWithTheirService", func(t *testing.T) {
		b, h := asleep(t)
		b.alarm("errors", true, epoch.Add(time.Second))
		b.deploys("ecs-svc/1", epoch, "errors")
		b.runHealthCheck(h)
		b.deploys("ecs-svc/1", epoch)
		b.runHealthCheck(h)
		want(t, "expires", b.watch().Expires, b.clock.now.Add(time.Hour).Unix())
		b.deploys("ecs-svc/1", epoch, "errors")
		b.runHealthCheck(h)
		want(t, "expires where alarms are back", b.watch().Expires, 0)
	})
}

// An alarm that was in ALARM when a deployment began, and was OK again before anybody looked, makes all of them
// ignored (S8).
func TestHealthCheck_AlarmEventOfAnAlarmThatEndedSince(t *testing.T) {
	b := newBalanced(t, 0)
	b.placementAsleep = true
	h := b.healthCheck()
	b.alarm("errors", false, epoch.Add(5*time.Second))
	b.deploys("ecs-svc/1", epoch, "errors")
	late := h.HandleMessages(ctx, messages(alarmEvent("errors", "ALARM", epoch.Add(-10*time.Second))))
	wantCount(t, "messages that failed", late, 0)
	want(t, "ignored", b.watch().Ignored, true)
}

// Events come late and twice: one of an alarm that was over before a deployment began says nothing about it.
func TestHealthCheck_AlarmEventsOfBeforeTheDeployment(t *testing.T) {
	for name, isWatched := range map[string]bool{"WhileItIsWatched": true, "AsTheFirstThingThatIsSeen": false} {
		t.Run(name, func(t *testing.T) {
			b := newBalanced(t, 0)
			b.placementAsleep = true
			h := b.healthCheck()
			b.alarm("errors", false, epoch.Add(-9*time.Minute)) // OK since then
			b.deploys("ecs-svc/1", epoch, "errors")
			if isWatched {
				b.runHealthCheck(h)
			}
			late := h.HandleMessages(ctx, messages(alarmEvent("errors", "ALARM", epoch.Add(-10*time.Minute))))
			wantCount(t, "messages that failed", late, 0)
			b.runHealthCheck(h)
			want(t, "in alarm", len(b.watch().InAlarm), 0)
			want(t, "ignored", b.watch().Ignored, false)
		})
	}
}
