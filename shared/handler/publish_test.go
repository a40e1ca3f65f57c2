package handler_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
)

// told is an event of a service on the event bus.
type told struct {
	DetailType string `json:"-"`

	EventType, EventName, DeploymentID, Reason string
	CreatedAt, UpdatedAt, NextAttemptAt        time.Time
	Failures                                   int
}

func publishing(s *handler.Settings) { s.PublishEvents = true }

// told are the events published with a name, in order; each is sent once.
func (w *world) told(name string) (out []told) {
	w.t.Helper()
	for _, r := range w.changed {
		o, ok := r.New.(*cluster.Outbox)
		if !ok || r.Op != cluster.Insert {
			continue
		}
		for _, e := range o.Publish {
			d := told{DetailType: e.DetailType}
			if err := json.Unmarshal([]byte(e.Detail), &d); err != nil {
				w.t.Fatal(err)
			}
			if d.EventName == name {
				out = append(out, d)
			}
		}
	}
	return out
}

// The eventTypes are ECS's (section "Service action events" of the ECS Developer Guide).
func TestPlacement_PublishesUnderECSsTypes(t *testing.T) {
	w := newWorld(t, publishing)
	w.instances("i", 2, 4096, 8192)
	w.createAs(cluster.ServiceSpec{
		Cluster: prod, Name: "log", TaskDefinition: "web:1", Strategy: cluster.Daemon,
		Rules: cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:disk !exists"}}},
	})
	w.pump()
	w.ecs.change("i000", func(i *cluster.Instance) {
		i.Attributes = map[string]string{cluster.AttributeZone: i.Zone(), "disk": "slow"}
	})
	w.pump()
	for name, eventType := range map[string]string{"SERVICE_DAEMON_PLACEMENT_CONSTRAINT_VIOLATED": "ERROR", "SERVICE_DESIRED_COUNT_UPDATED": "INFO"} {
		got := w.told(name)
		wantCount(t, name, got[:min(len(got), 1)], 1)
		want(t, name, got[0].DetailType+"/"+got[0].EventType, "ECS Service Action/"+eventType)
	}
}

// The events of a deployment say why it is as it is, also where it is gone when they are sent.
func TestPlacement_PublishesADeploymentsReason(t *testing.T) {
	w := rolled(t, 2, cluster.ServiceSpec{
		ServiceParameters: cluster.ServiceParameters{Breaker: &cluster.CircuitBreaker{Enable: true, Rollback: true}},
	}, publishing)
	first := w.service("web").Deployment.ID
	w.ecs.onStart = func(_ int, c cluster.StartCall) fault {
		if c.TaskDefinition == "web:2" {
			return fault{err: denied}
		}
		return fault{}
	}
	w.deploy("web", "web:2")
	second := w.service("web").Deployment.ID
	w.advance(30 * time.Minute)
	for name, wanted := range map[string][]told{
		"SERVICE_DEPLOYMENT_IN_PROGRESS": {
			{EventType: "INFO", DeploymentID: first, Reason: "ECS deployment " + first + " in progress."},
			{EventType: "INFO", DeploymentID: second, Reason: "ECS deployment " + second + " in progress."},
			{EventType: "INFO", DeploymentID: first, Reason: "ECS deployment circuit breaker: rolling back to deploymentId " + first + "."},
		},
		"SERVICE_DEPLOYMENT_COMPLETED": {
			{EventType: "INFO", DeploymentID: first, Reason: "ECS deployment " + first + " completed."},
			{EventType: "INFO", DeploymentID: first, Reason: "ECS deployment " + first + " completed."},
		},
		"SERVICE_DEPLOYMENT_FAILED": {
			{EventType: "ERROR", DeploymentID: second, Reason: "ECS deployment circuit breaker: tasks failed to start."},
		},
	} {
		got := w.told(name)
		for n := range got {
			want(t, "created at", got[n].CreatedAt.IsZero(), true)
			want(t, "updated at", got[n].UpdatedAt.IsZero(), false)
			want(t, "detail-type", got[n].DetailType, "ECS Deployment State Change")
			got[n].UpdatedAt, got[n].DetailType, got[n].EventName = time.Time{}, "", ""
		}
		if !slices.Equal(got, wanted) {
			t.Errorf("%s: %+v\nwanted %+v", name, got, wanted)
		}
	}
}

// What kept tasks from being placed is said in ECS's words, in the service's events as on the bus.
func TestPlacement_PublishesWhatKeptTasksFromBeingPlaced(t *testing.T) {
	one := []cluster.ProviderShare{{Provider: "spot", Weight: 1}}
	for _, c := range []struct {
		name, text, reason string
		spec               cluster.ServiceSpec
	}{
		{"Memory", "(container-instance i000) has insufficient memory available.", "RESOURCE:MEMORY", cluster.ServiceSpec{TaskDefinition: "huge"}},
		{"Constraint", `(container-instance i000) encountered error "MemberOf placement constraint unsatisfied.".`, "MemberOf placement constraint unsatisfied.",
			cluster.ServiceSpec{Rules: cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:disk == fast"}}}}},
		{"DistinctInstance", `(container-instance i000) encountered error "DistinctInstance placement constraint unsatisfied.".`, "DistinctInstance placement constraint unsatisfied.",
			cluster.ServiceSpec{Desired: new(2), Rules: cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.DistinctInstance}}}}},
		{"EmptyProvider", "all of its requirements. Reason: No Container Instances were found in your capacity provider.", "EMPTY CAPACITY PROVIDER",
			cluster.ServiceSpec{ServiceParameters: cluster.ServiceParameters{Providers: &one}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, publishing)
			w.associate("spot")
			w.ecs.define(definition("huge", 1, 256, 65536))
			w.instances("i", 1, 4096, 8192)
			spec := c.spec
			spec.Cluster, spec.Name = prod, "web"
			if spec.TaskDefinition == "" {
				spec.TaskDefinition = "web"
			}
			if spec.Desired == nil {
				spec.Desired = new(1)
			}
			w.createAs(spec)
			w.advance(time.Minute)
			wantEvent(t, w.events("web"), c.text)
			got := w.told("SERVICE_TASK_PLACEMENT_FAILURE")
			wantCount(t, "events", got, 1)
			want(t, "types", got[0].DetailType+"/"+got[0].EventType, "ECS Service Action/ERROR")
			want(t, "reason", got[0].Reason, c.reason)
		})
	}
}

// That starts are slowed down is told as soon as they are, with what the throttle's own operation says.
func TestPlacement_PublishesTheThrottle(t *testing.T) {
	w := newWorld(t, publishing)
	w.instances("i", 1, 4096, 8192)
	w.ecs.onStart = func(int, cluster.StartCall) fault { return fault{err: denied} }
	w.create("web", "web", 1)
	w.advance(20 * time.Second)
	s, throttle, err := w.api.ServiceThrottle(ctx, prod, "web")
	if err != nil || throttle == nil {
		t.Fatal(throttle, err)
	}
	b := throttle.Revisions[s.Deployment.ID]
	want(t, "step", b.Step, 1)
	got := w.told("SERVICE_TASK_START_IMPAIRED")
	wantCount(t, "events", got, 1)
	want(t, "types", got[0].DetailType+"/"+got[0].EventType, "ECS Service Action/WARN")
	want(t, "deployment", got[0].DeploymentID, s.Deployment.ID)
	want(t, "reason", got[0].Reason, "TaskFailedToStart: ClientException: TaskDefinition is inactive")
	want(t, "reason in the operation", got[0].Reason, b.Reason)
	want(t, "failures", got[0].Failures, 1)
	want(t, "failures in the operation", b.Failures, 1)
	want(t, "next attempt", got[0].NextAttemptAt.Equal(b.NextAttemptAt) && b.NextAttemptAt.After(w.clock.now), true)
	w.minutes(60)
	wantCount(t, "events within six hours", w.told("SERVICE_TASK_START_IMPAIRED"), 1)
}
