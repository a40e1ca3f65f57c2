package handler_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/state"
)

// publishedEvent is an event of a service on the event bus.
type publishedEvent struct {
	DetailType string `json:"-"`

	EventType, EventName, DeploymentID, Reason string
	CreatedAt, UpdatedAt, NextAttemptAt        time.Time
	Failures                                   int
}

func publishing(s *handler.Settings) { s.PublishEvents = true }

// publishedEvents returns the events published with a name, in order; each is sent once.
func (w *world) publishedEvents(name string) (out []publishedEvent) {
	w.t.Helper()
	for _, r := range w.changed {
		o, ok := r.New.(*state.Outbox)
		if !ok || r.Op != state.Insert {
			continue
		}
		for _, e := range o.Publish {
			d := publishedEvent{DetailType: e.DetailType}
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

const (
	action     = "ECS Service Action"
	deployment = "ECS Deployment State Change"
)

// Every published event has ECS's detail-type and eventType (section "Service action events" of the
// ECS Developer Guide), with its deployment and the reason, if it has them.
func TestPlacement_PublishesUnderECSsTypes(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(t *testing.T) (w *world, ids map[string]string)
		want  []publishedEvent
	}{
		{"Daemon", publishesOfADaemon, []publishedEvent{
			{DetailType: action, EventType: "ERROR", EventName: "SERVICE_DAEMON_PLACEMENT_CONSTRAINT_VIOLATED"},
			{DetailType: action, EventType: "INFO", EventName: "SERVICE_DESIRED_COUNT_UPDATED"},
		}},
		{"NoRoom", publishesWithoutRoom, []publishedEvent{
			{DetailType: action, EventType: "ERROR", EventName: "SERVICE_TASK_PLACEMENT_FAILURE", Reason: "RESOURCE:CPU"},
		}},
		{"Rollback", publishesOfARollback, []publishedEvent{
			{DetailType: action, EventType: "INFO", EventName: "SERVICE_STEADY_STATE"},
			{DetailType: action, EventType: "WARN", EventName: "SERVICE_TASK_START_IMPAIRED", DeploymentID: "NEW", Reason: denial},
			{DetailType: deployment, EventType: "INFO", EventName: "SERVICE_DEPLOYMENT_IN_PROGRESS", DeploymentID: "OLD", Reason: "ECS deployment circuit breaker: rolling back to deploymentId OLD."},
			{DetailType: deployment, EventType: "ERROR", EventName: "SERVICE_DEPLOYMENT_FAILED", DeploymentID: "NEW", Reason: "ECS deployment circuit breaker: tasks failed to start."},
			{DetailType: deployment, EventType: "INFO", EventName: "SERVICE_DEPLOYMENT_COMPLETED", DeploymentID: "OLD", Reason: "ECS deployment OLD completed."},
		}},
		{"Zones", publishesOfZones, []publishedEvent{
			{DetailType: action, EventType: "INFO", EventName: "SERVICE_REBALANCING_STARTED"},
			{DetailType: action, EventType: "INFO", EventName: "TASKS_STARTED"},
			{DetailType: action, EventType: "INFO", EventName: "TASKS_STOPPED"},
			{DetailType: action, EventType: "INFO", EventName: "SERVICE_REBALANCING_COMPLETED"},
		}},
		{"ZonesWhereADeploymentComes", publishesOfZonesDeployed, []publishedEvent{
			{DetailType: action, EventType: "INFO", EventName: "SERVICE_REBALANCING_STOPPED"},
		}},
		{"Discovery", publishesOfDiscovery, []publishedEvent{
			{DetailType: action, EventType: "WARN", EventName: "SERVICE_DISCOVERY_INSTANCE_UNHEALTHY"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, ids := c.begin(t)
			for _, wanted := range c.want {
				got := w.publishedEvents(wanted.EventName)
				if len(got) == 0 {
					t.Errorf("no %s", wanted.EventName)
					continue
				}
				last := got[len(got)-1]
				if of := ids[wanted.DeploymentID]; of != "" {
					wanted.Reason = strings.ReplaceAll(wanted.Reason, wanted.DeploymentID, of)
					wanted.DeploymentID = of
				}
				at := map[string]time.Time{action: last.CreatedAt, deployment: last.UpdatedAt}[last.DetailType]
				want(t, "is of a time", at.IsZero(), false)
				last.CreatedAt, last.UpdatedAt, last.NextAttemptAt, last.Failures = time.Time{}, time.Time{}, time.Time{}, 0
				want(t, wanted.EventName, last, wanted)
			}
		})
	}
}
func publishesOfADaemon(t *testing.T) (*world, map[string]string) {
	w := newWorld(t, publishing)
	w.instances("i", 2, 4096, 8192)
	w.createAs(operation.CreateService{
		Cluster: prod, Name: "log", TaskDefinition: "web:1", Strategy: cluster.Daemon,
		Rules: cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:disk !exists"}}},
	})
	w.pump()
	w.ecs.change("i000", func(i *cluster.Instance) {
		i.Attributes = map[string]string{cluster.AttributeZone: i.Zone(), "disk": "slow"}
	})
	w.pump()
	return w, nil
}

func publishesWithoutRoom(t *testing.T) (*world, map[string]string) {
	w := newWorld(t, publishing)
	w.instances("i", 1, 512, 8192)
	w.create("web", "web", 3)
	w.pump()
	return w, nil
}

// denial is the reason of tasks that ECS refuses to start.
const denial = "TaskFailedToStart: ClientException: TaskDefinition is inactive"

func publishesOfARollback(t *testing.T) (*world, map[string]string) {
	w := rolled(t, 2, operation.CreateService{
		ServiceParameters: operation.ServiceParameters{Breaker: &cluster.CircuitBreaker{Enable: true, Rollback: true}},
	}, publishing)
	ids := map[string]string{"OLD": w.service("web").Service.Deployment.ID}
	w.ecs.onStart = func(_ int, c cluster.StartCall) fault {
		if c.TaskDefinition == "web:2" {
			return fault{err: denied}
		}
		return fault{}
	}
	w.deploy("web", "web:2")
	ids["NEW"] = w.service("web").Service.Deployment.ID
	w.advance(30 * time.Minute)
	return w, ids
}

// publishesOfZones lets a service learn of another zone.
func publishesOfZones(t *testing.T) (*world, map[string]string) {
	w := newWorld(t, publishing)
	w.ecs.register(zoned("a", "zone-a"))
	w.pump()
	w.create("web", "web", 4)
	w.advance(2 * time.Minute)
	w.ecs.register(zoned("b", "zone-b"))
	w.advance(5 * time.Minute)
	return w, nil
}

func publishesOfZonesDeployed(t *testing.T) (*world, map[string]string) {
	w := newWorld(t, publishing)
	w.ecs.register(zoned("a", "zone-a"))
	w.pump()
	w.create("web", "web", 4)
	w.advance(2 * time.Minute)
	w.ecs.frozen = true
	w.ecs.register(zoned("b", "zone-b"))
	w.advance(time.Minute)
	want(t, "rebalancing", w.service("web").Service.Rebalancing, true)
	if _, err := w.update(operation.UpdateService{Name: "web", Force: true}); err != nil {
		t.Fatal(err)
	}
	w.pump()
	return w, nil
}

func publishesOfDiscovery(t *testing.T) (*world, map[string]string) {
	w := newWorld(t, publishing)
	w.instances("i", 1, 4096, 8192)
	w.behind(1, func(s *operation.CreateService) {
		s.LoadBalancers, s.Registries = nil, &[]cluster.Registry{{ARN: cloudMap}}
	})
	for _, health := range []cluster.Health{cluster.Healthy, cluster.Unhealthy} {
		w.set(func(_ *cluster.Target, r *cluster.Registration) { r.State, r.Health = cluster.Registered, health })
	}
	w.pump()
	return w, nil
}

// The events of a deployment say why it is in its state, even if it no longer exists when they are
// sent.
func TestPlacement_PublishesADeploymentsReason(t *testing.T) {
	w, ids := publishesOfARollback(t)
	first, second := ids["OLD"], ids["NEW"]
	for name, wanted := range map[string][]publishedEvent{
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
		got := w.publishedEvents(name)
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

// What kept tasks from being placed is said in ECS's words, in the service's events and on the bus.
func TestPlacement_PublishesWhyTasksWereNotPlaced(t *testing.T) {
	one := []cluster.ProviderShare{{Provider: "spot", Weight: 1}}
	for _, c := range []struct {
		name, text, reason string
		spec               operation.CreateService
	}{
		{"Memory", "(container-instance i000) has insufficient memory available.", "RESOURCE:MEMORY", operation.CreateService{TaskDefinition: "huge"}},
		{"Constraint", `(container-instance i000) encountered error "MemberOf placement constraint unsatisfied.".`, "MemberOf placement constraint unsatisfied.",
			operation.CreateService{Rules: cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:disk == fast"}}}}},
		{"DistinctInstance", `(container-instance i000) encountered error "DistinctInstance placement constraint unsatisfied.".`, "DistinctInstance placement constraint unsatisfied.",
			operation.CreateService{Desired: new(2), Rules: cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.DistinctInstance}}}}},
		{"EmptyProvider", "all of its requirements. Reason: No Container Instances were found in your capacity provider.", "EMPTY CAPACITY PROVIDER",
			operation.CreateService{ServiceParameters: operation.ServiceParameters{Providers: &one}}},
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
			got := w.publishedEvents("SERVICE_TASK_PLACEMENT_FAILURE")
			wantCount(t, "events", got, 1)
			want(t, "types", got[0].DetailType+"/"+got[0].EventType, "ECS Service Action/ERROR")
			want(t, "reason", got[0].Reason, c.reason)
		})
	}
}

// That starts are slowed down is emitted at once, with what the operation about the throttle says.
func TestPlacement_PublishesTheThrottle(t *testing.T) {
	w := newWorld(t, publishing)
	w.instances("i", 1, 4096, 8192)
	w.ecs.onStart = func(int, cluster.StartCall) fault { return fault{err: denied} }
	w.create("web", "web", 1)
	w.advance(20 * time.Second)
	s, throttle, err := w.api.Services.ServiceThrottle(ctx, prod, "web")
	if err != nil || throttle == nil {
		t.Fatal(throttle, err)
	}
	b := throttle.Revisions[s.Deployment.ID]
	want(t, "step", b.Step, 1)
	got := w.publishedEvents("SERVICE_TASK_START_IMPAIRED")
	wantCount(t, "events", got, 1)
	want(t, "types", got[0].DetailType+"/"+got[0].EventType, "ECS Service Action/WARN")
	want(t, "deployment", got[0].DeploymentID, s.Deployment.ID)
	want(t, "reason", got[0].Reason, denial)
	want(t, "reason in the operation", got[0].Reason, b.Reason)
	want(t, "failures", got[0].Failures, 1)
	want(t, "failures in the operation", b.Failures, 1)
	want(t, "next attempt", got[0].NextAttemptAt.Equal(b.NextAttemptAt) && b.NextAttemptAt.After(w.clock.now), true)
	w.minutes(60)
	wantCount(t, "events within six hours", w.publishedEvents("SERVICE_TASK_START_IMPAIRED"), 1)
}
