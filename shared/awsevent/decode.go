package awsevent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// MaxSize is the largest event in bytes that EventBridge and SQS carry.
const MaxSize = 1 << 20

// SourceECS is the source of ECS's own events.
const SourceECS = "aws.ecs"

// Event is one event. Detail is a *cluster.ECSTask, *cluster.Instance, *Load, *Alarm, *Lifecycle,
// *SpotWarning or *Schedule. It is nil for a kind that Berth does not need.
type Event struct {
	ID         string
	Source     string
	DetailType string
	Account    string
	Region     string
	Time       time.Time
	Resources  []string
	Detail     any
}

// Decoder reads events. Its fields name the sources that are trusted, so that an installation can
// add that of a simulated AWS. An empty field trusts only the AWS service itself.
type Decoder struct {
	ECSSources     []string // task and instance events
	AlarmSources   []string // alarms of CloudWatch
	ScalingSources []string // lifecycle actions of Auto Scaling
}

// Decode reads an event with a decoder that trusts only AWS itself.
func Decode(data []byte) (Event, error) { return Decoder{}.Decode(data) }

type envelope struct {
	ID         string          `json:"id"`
	Source     string          `json:"source"`
	DetailType string          `json:"detail-type"`
	Account    string          `json:"account"`
	Region     string          `json:"region"`
	Time       time.Time       `json:"time"`
	Resources  []string        `json:"resources"`
	Detail     json.RawMessage `json:"detail"`
	// Schedule is the whole input of Berth's own schedules.
	Schedule string `json:"schedule"`
}

// origin is who sends a kind of event. The decoder maps sources to ECS, CloudWatch and Auto
// Scaling.
type origin string

const (
	fromECS         origin = "ecs"
	fromCloudWatch  origin = "aws.cloudwatch"
	fromAutoScaling origin = "aws.autoscaling"
	fromEC2         origin = "aws.ec2"
	fromEvents      origin = "aws.events"
	fromTasks       origin = SourceLoad
)

type kind struct {
	origin     origin
	detailType string
}

// table has every kind of event that Berth needs, with the function that reads its detail.
var table = map[kind]func(*envelope) (any, error){
	{fromECS, "ECS Task State Change"}:                           readTask,
	{fromECS, "ECS Container Instance State Change"}:             readInstance,
	{fromCloudWatch, "CloudWatch Alarm State Change"}:            readAlarm,
	{fromAutoScaling, "EC2 Instance-launch Lifecycle Action"}:    readLifecycle,
	{fromAutoScaling, "EC2 Instance-terminate Lifecycle Action"}: readLifecycle,
	{fromEC2, "EC2 Spot Instance Interruption Warning"}:          readSpotWarning,
	{fromEC2, "EC2 Instance Rebalance Recommendation"}:           readSpotWarning,
	{fromTasks, DetailLoad}:                                      readLoad,
	{fromEvents, "Scheduled Event"}:                              readSchedule,
}

// Decode reads one event, or the input {"schedule": NAME} of Berth's own schedules.
//
// It ignores unknown fields, and returns an unknown kind with a nil Detail. An event that is
// malformed, too large or lacks a required field gives a *cluster.Drop that names the field: no
// retry can help.
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
	if e.Schedule != "" && e.Source == "" {
		event.Detail = &Schedule{Name: e.Schedule}
		return event, nil
	}
	if e.Source == "" || e.DetailType == "" {
		return Event{}, malformed("event", "source or detail-type is missing")
	}
	read := d.readerOf(e.Source, e.DetailType)
	if read == nil {
		return event, nil
	}
	detail, err := read(&e)
	if err != nil {
		return Event{}, err
	}
	event.Detail = detail
	return event, nil
}

// readerOf returns the function that reads the detail of a kind of event, or nil for a kind that
// Berth does not need.
func (d Decoder) readerOf(source, detailType string) func(*envelope) (any, error) {
	for _, o := range []struct {
		origin  origin
		sources []string
		own     string
	}{
		{fromECS, d.ECSSources, SourceECS}, {fromCloudWatch, d.AlarmSources, string(fromCloudWatch)},
		{fromAutoScaling, d.ScalingSources, string(fromAutoScaling)},
	} {
		read := table[kind{o.origin, detailType}]
		if read != nil && (slices.Contains(o.sources, source) || len(o.sources) == 0 && source == o.own) {
			return read
		}
	}
	switch o := origin(source); o {
	case fromEC2, fromEvents, fromTasks:
		return table[kind{o, detailType}]
	}
	return nil
}

// readDetail decodes the event's detail.
func (e *envelope) readDetail(detail any) error {
	if err := json.Unmarshal(e.Detail, detail); err != nil {
		return malformed(e.DetailType, "%v", err)
	}
	return nil
}

func malformed(kind, format string, args ...any) error {
	return &cluster.Drop{Reason: "malformed " + kind + ": " + fmt.Sprintf(format, args...)}
}

// parseARN returns the name in an ARN of the wanted kind, and the cluster in it; that is empty in
// the short form.
func parseARN(e *envelope, field, arn, wanted string) (clusterName, name string, err error) {
	a, ok := cluster.ParseARN(arn)
	if !ok || a.Kind != wanted || !isName(a.Name) {
		return "", "", malformed(e.DetailType, "%s %.200q is no %s ARN", field, arn, wanted)
	}
	return a.Cluster, a.Name, nil
}

// isName reports whether s can be an id or the name of a cluster: what ECS allows there, and safe
// in the key of a row.
func isName(s string) bool {
	return s != "" && len(s) <= 255 && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune(nameCharacters, r)
	})
}

const nameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
