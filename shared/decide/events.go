package decide

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/service"
	"berth/shared/state"
)

// placementFailed is the eventName for tasks that found no instance.
const placementFailed = "SERVICE_TASK_PLACEMENT_FAILURE"

// The keys in [cluster.Service.EmittedKeys] about placing. [NamesKeyPrefix] begins the key of the
// event about names that no instance has. [UnrepairedKey] has no event of its own: its time is since
// when the service breaks a rule.
const (
	ProvisioningLimitKey = service.PlacementKeyPrefix + "limit" // more tasks than may be provisioning
	NamesKeyPrefix       = service.PlacementKeyPrefix + "names/"
	UnrepairedKey        = service.PlacementKeyPrefix + "unrepaired"
	zoneEventKey         = service.PlacementKeyPrefix + "zone" // no room in the zone that should have the task
)

// The detail-types of ECS's service events.
const (
	serviceAction    = "ECS Service Action"
	deploymentChange = "ECS Deployment State Change"
)

// eventTypes has the eventType of the events that are not INFO.
var eventTypes = map[string]string{
	"SERVICE_TASK_START_IMPAIRED": "WARN", placementFailed: "ERROR", "SERVICE_DEPLOYMENT_FAILED": "ERROR",
	"SERVICE_DISCOVERY_INSTANCE_UNHEALTHY": "WARN", "SERVICE_DAEMON_PLACEMENT_CONSTRAINT_VIOLATED": "ERROR",
}

// eventDetail is the detail of a service event as ECS has it. The sender adds the ARN of the
// cluster. Failures and NextAttemptAt, which describe a throttle, are additions to ECS's fields.
type eventDetail struct {
	Type         string    `json:"eventType"`
	Name         string    `json:"eventName"`
	DeploymentID string    `json:"deploymentId,omitempty"`
	CreatedAt    time.Time `json:"createdAt,omitzero"`
	UpdatedAt    time.Time `json:"updatedAt,omitzero"`
	Reason       string    `json:"reason,omitempty"`

	Failures      int       `json:"failures,omitempty"`
	NextAttemptAt time.Time `json:"nextAttemptAt,omitzero"`
}

// writeEvents writes service events to the service's ring, counts them there, and publishes them if
// the installation wants that (S12).
func writeEvents(view *clusterView, commits *plan.Builder, s *cluster.Service, events []service.Event) {
	if view.settings.PublishEvents {
		publishEvents(view, commits, s, events)
	}
	for _, e := range events {
		if e.Message != "" {
			commits.AddWrite(state.Write{Any: true, Put: NewServiceEvent(s, e.Message, view.now)})
			s.Events++
		}
	}
}

// NewServiceEvent returns the next event of the service's ring. Its id follows from its content, so
// the same event made again has the same id.
func NewServiceEvent(s *cluster.Service, message string, at time.Time) *cluster.ServiceEvent {
	d := cluster.Digest(s.Cluster, s.Short, fmt.Sprint(s.Events))
	return &cluster.ServiceEvent{
		Head: cluster.Head{Cluster: s.Cluster}, Service: s.Short, Slot: s.Events % cluster.EventRing, Number: s.Events,
		ID:        fmt.Sprintf("%s-%s-4%s-8%s-%s", d[:8], d[8:12], d[13:16], d[17:20], d[20:32]),
		CreatedAt: at, Message: message,
	}
}

// publishEvents puts the events that have an eventName on the event bus.
func publishEvents(view *clusterView, commits *plan.Builder, s *cluster.Service, events []service.Event) {
	var published []state.PublishedEvent
	for _, e := range events {
		if e.Name != "" {
			published = append(published, publishedEvent(s, e, view.now))
		}
	}
	if len(published) > 0 {
		commits.PublishEvents(published...)
	}
}

func publishedEvent(s *cluster.Service, e service.Event, now time.Time) state.PublishedEvent {
	detail := eventDetail{
		Type: eventTypes[e.Name], Name: e.Name, DeploymentID: e.Deployment, Reason: e.Reason,
		Failures: e.Failures, NextAttemptAt: e.NextAttemptAt.UTC(),
	}
	if detail.Type == "" {
		detail.Type = "INFO"
	}
	event := state.PublishedEvent{DetailType: serviceAction, Service: s.Name, At: now}
	if strings.HasPrefix(e.Name, "SERVICE_DEPLOYMENT_") {
		event.DetailType = deploymentChange
		detail.UpdatedAt = now
	} else {
		detail.CreatedAt = now
	}
	text, _ := json.Marshal(detail) // it has only strings, numbers and times, so it cannot fail
	event.Detail = string(text)
	return event
}
