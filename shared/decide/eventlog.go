package decide

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	service "berth/shared/service"
	"berth/shared/state"
)

// eventLog is a service's row on its way, with the events that go with it.
type eventLog struct {
	service *cluster.Service
	base    *cluster.Service // as last read or written
	events  []service.Event
	// counted are failures that the row has counted, told registrations that the events tell of.
	counted []*cluster.Task
	told    []*cluster.Target
	coming  int  // events that are yet to come
	limited bool // tasks cannot even wait for an instance
	placed  bool // some found one
}

// rows is how many rows one commit has to take for the service's row and what goes with it. Very many events are written
// before the row: one that is not counted is written over by the next.
func (l *eventLog) rows() int {
	return rowsPerService + min(len(l.events)+l.coming, mostMarked) + len(l.counted) + min(len(l.told), mostMarked)
}

func newEventLog(base, next *cluster.Service) *eventLog {
	return &eventLog{service: new(*next), base: base}
}

// add appends what was done about tasks.
func (l *eventLog) add(message string) {
	l.events = append(l.events, service.Event{Message: message})
}

// changed reports whether the row has to be written: it differs from what is stored, or there is something to tell.
func (l *eventLog) changed() bool {
	now, old := *l.service, *l.base
	now.Head, old.Head = cluster.Head{}, cluster.Head{}
	return len(l.events)+len(l.counted)+len(l.told) > 0 || !reflect.DeepEqual(now, old)
}

// say appends an event if its cause is news.
func (l *eventLog) say(cause string, now time.Time, e service.Event) {
	if service.MarkEmitted(l.service, cause, now) {
		l.events = append(l.events, e)
	}
}

// forget forgets all that was said about placing but what is about these causes.
func (l *eventLog) forget(but ...string) {
	said := maps.Clone(l.service.Said)
	maps.DeleteFunc(said, func(cause string, _ time.Time) bool {
		return strings.HasPrefix(cause, service.PlacementKeyPrefix) && !slices.Contains(but, cause)
	})
	if len(said) == 0 {
		said = nil
	}
	l.service.Said = said
}

// ServiceEvent is the next event of the service's ring. Its id follows from what it is, so that it is the same however
// often it is made.
func ServiceEvent(s *cluster.Service, message string, at time.Time) *cluster.ServiceEvent {
	d := cluster.Digest(s.Cluster, s.Short, fmt.Sprint(s.Events))
	return &cluster.ServiceEvent{
		Head: cluster.Head{Cluster: s.Cluster}, Service: s.Short, Slot: s.Events % cluster.EventRing, Number: s.Events,
		ID:        fmt.Sprintf("%s-%s-4%s-8%s-%s", d[:8], d[8:12], d[13:16], d[17:20], d[20:32]),
		CreatedAt: at, Message: message,
	}
}

// placementFailed is the eventName of tasks that found no instance.
const placementFailed = "SERVICE_TASK_PLACEMENT_FAILURE"

// provisioningLimit is what is said of tasks that cannot even wait.
const provisioningLimit = service.PlacementKeyPrefix + "limit"

// The detail-types of ECS's service events.
const (
	serviceAction    = "ECS Service Action"
	deploymentChange = "ECS Deployment State Change"
)

// eventTypes are the eventTypes of events that are not INFO.
var eventTypes = map[string]string{
	"SERVICE_TASK_START_IMPAIRED": "WARN", placementFailed: "ERROR", "SERVICE_DEPLOYMENT_FAILED": "ERROR",
	"SERVICE_DISCOVERY_INSTANCE_UNHEALTHY": "WARN", "SERVICE_DAEMON_PLACEMENT_CONSTRAINT_VIOLATED": "ERROR",
}

// eventDetail is the detail of a service event as ECS has it; whoever sends it adds the ARN of the cluster. Failures and
// NextAttemptAt, of a throttle, are beyond ECS.
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

// publish has events sent to the event bus, where the installation wants that (S12): in at most one row.
func (d *decider) publish(s *cluster.Service, events []service.Event) {
	if !d.settings.PublishEvents {
		return
	}
	var out []state.PublishedEvent
	for _, e := range events {
		if e.Name != "" {
			out = append(out, d.published(s, e))
		}
	}
	if len(out) > 0 {
		d.plan.publish(out...)
	}
}

func (d *decider) published(s *cluster.Service, e service.Event) state.PublishedEvent {
	detail := eventDetail{
		Type: eventTypes[e.Name], Name: e.Name, DeploymentID: e.Deployment, Reason: e.Reason,
		Failures: e.Failures, NextAttemptAt: e.NextAttemptAt.UTC(),
	}
	if detail.Type == "" {
		detail.Type = "INFO"
	}
	out := state.PublishedEvent{DetailType: serviceAction, Service: s.Name, At: d.now}
	if strings.HasPrefix(e.Name, "SERVICE_DEPLOYMENT_") {
		out.DetailType = deploymentChange
		detail.UpdatedAt = d.now
	} else {
		detail.CreatedAt = d.now
	}
	text, _ := json.Marshal(detail) // strings and times: it cannot fail
	out.Detail = string(text)
	return out
}
