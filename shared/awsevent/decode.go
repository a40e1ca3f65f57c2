package awsevent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
)

// MaxSize is the largest event in bytes that EventBridge and SQS carry.
const MaxSize = 1 << 20

// SourceECS is the source of ECS's own events.
const SourceECS = "aws.ecs"

// An Event is one decoded event.
type Event struct {
	ID         string
	Source     string // who sent it, such as aws.ecs
	DetailType string
	Account    string
	Region     string
	Time       time.Time
	Resources  []string // ARNs
	// Detail is a *cluster.ECSTask, *cluster.Instance, *Load, *Alarm, *Lifecycle, *GroupMember,
	// *SpotWarning or *Schedule. It is nil for a kind that Berth does not need.
	Detail any
}

// Decoder reads events. Account and Region say where the installation runs: events of any other
// account or Region are dropped, because somebody else may have sent them (docs/security.md). Empty
// values accept every origin.
//
// The other fields name the sources that are trusted, so that an installation can add that of a
// simulated AWS. An empty field trusts only the AWS service itself.
type Decoder struct {
	Account, Region string

	ECSSources     []string // task and instance events
	AlarmSources   []string // alarms of CloudWatch
	ScalingSources []string // lifecycle actions, launches and terminations of Auto Scaling
}

// Decode reads an event with a decoder that trusts only AWS itself.
func Decode(data []byte) (Event, error) { return Decoder{}.Decode(data) }

// The sources of events, as AWS names its services. The decoder may trust others in their place.
const (
	fromECS         = SourceECS
	fromCloudWatch  = "aws.cloudwatch"
	fromAutoScaling = "aws.autoscaling"
	fromEC2         = "aws.ec2"
	fromEvents      = "aws.events"
	fromTasks       = SourceLoad
)

// A kind of event has a source and a function that reads its detail.
type kind struct {
	source string
	read   func(*envelope) (any, error)
}

// kinds has the kinds of events that Berth needs, by detail-type.
var kinds = map[string]kind{
	"ECS Task State Change":                   {fromECS, readTask},
	"ECS Container Instance State Change":     {fromECS, readInstance},
	"CloudWatch Alarm State Change":           {fromCloudWatch, readAlarm},
	"EC2 Instance-launch Lifecycle Action":    {fromAutoScaling, readLifecycle},
	"EC2 Instance-terminate Lifecycle Action": {fromAutoScaling, readLifecycle},
	"EC2 Instance Launch Successful":          {fromAutoScaling, readGroupMember},
	"EC2 Instance Terminate Successful":       {fromAutoScaling, readGroupMember},
	"EC2 Spot Instance Interruption Warning":  {fromEC2, readSpotWarning},
	"EC2 Instance Rebalance Recommendation":   {fromEC2, readSpotWarning},
	"Scheduled Event":                         {fromEvents, readSchedule},
	DetailLoad:                                {fromTasks, readLoad},
}

// Decode reads one event, or the input {"schedule": NAME} of Berth's own schedules.
//
// It ignores unknown fields, and returns an unknown kind with a nil Detail. An event that is
// malformed, too large, lacks a required field or comes from another account or Region gives a
// *cluster.Drop that names the field: no retry can help.
func (d Decoder) Decode(data []byte) (Event, error) {
	if len(data) > MaxSize {
		return Event{}, malformed("event", "%d bytes, the most is %d", len(data), MaxSize)
	}
	if data = bytes.TrimSpace(data); len(data) == 0 || data[0] != '{' {
		return Event{}, malformed("event", "not a JSON object")
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return Event{}, malformed("event", "%v", err)
	}
	event := Event{
		ID: e.ID, Source: e.Source, DetailType: e.DetailType, Account: e.Account, Region: e.Region, Time: e.Time,
		Resources: e.Resources,
	}
	k := kinds[e.DetailType]
	switch {
	case e.Schedule != "" && e.Source == "":
		event.Detail = &Schedule{Name: e.Schedule}
		return event, nil
	case e.Source == "" || e.DetailType == "":
		return Event{}, malformed("event", "source or detail-type is missing")
	case k.read == nil || !slices.Contains(d.trustedSources(k.source), e.Source):
		return event, nil
	}
	if err := d.checkOrigin(&e); err != nil {
		return Event{}, err
	}
	var err error
	if event.Detail, err = k.read(&e); err != nil {
		return Event{}, err
	}
	return event, nil
}

// trustedSources returns the sources whose events are taken for those of an AWS service.
func (d Decoder) trustedSources(service string) []string {
	configured := map[string][]string{
		fromECS: d.ECSSources, fromCloudWatch: d.AlarmSources, fromAutoScaling: d.ScalingSources,
	}[service]
	if len(configured) > 0 {
		return configured
	}
	return []string{service}
}

// checkOrigin refuses events of another account or Region.
func (d Decoder) checkOrigin(e *envelope) error {
	switch {
	case d.Account != "" && e.Account != d.Account:
		return foreign(e, "account", e.Account, d.Account)
	case d.Region != "" && e.Region != d.Region:
		return foreign(e, "Region", e.Region, d.Region)
	}
	return nil
}

func foreign(e *envelope, what, got, want string) error {
	return &cluster.Drop{Reason: fmt.Sprintf("foreign %.100s: it comes from %s %.40q, this installation is in %s",
		e.DetailType, what, got, want)}
}
