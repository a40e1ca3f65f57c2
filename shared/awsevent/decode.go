// Package awsevent reads EventBridge events into the nouns of package cluster: one decode table,
// keyed by source and detail-type. It decides nothing about them, and never reads a clock, the
// environment or the network.
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

// MaxSize is how many bytes an event may have: what EventBridge and SQS carry.
const MaxSize = 1 << 20

// SourceECS is the source of ECS's own events.
const SourceECS = "aws.ecs"

// Event is one event. Detail is one of *cluster.ECSTask, *cluster.Instance, *Load, *Alarm,
// *Lifecycle, *SpotWarning and *Schedule, or nil for a kind that is not in the table: nothing is
// wrong with it, and nobody here needs it.
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

// Decoder reads events. ECSSources are the sources whose task and instance events count; where
// empty, ECS's alone. An installation with a simulated fleet names the fleet's source too.
// AlarmSources are the same for alarms, CloudWatch's own where empty, and ScalingSources for Auto
// Scaling's lifecycle actions.
type Decoder struct{ ECSSources, AlarmSources, ScalingSources []string }

// Decode is [Decoder.Decode] of a decoder that knows ECS's own source only.
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

// origin is who sends a kind of event; which sources stand for ECS, CloudWatch and Auto Scaling is
// configured.
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

// table is every kind of event that means something to Berth.
var table = map[kind]func(*envelope) (any, error){
	{fromECS, "ECS Task State Change"}:                           task,
	{fromECS, "ECS Container Instance State Change"}:             instance,
	{fromCloudWatch, "CloudWatch Alarm State Change"}:            alarm,
	{fromAutoScaling, "EC2 Instance-launch Lifecycle Action"}:    lifecycle,
	{fromAutoScaling, "EC2 Instance-terminate Lifecycle Action"}: lifecycle,
	{fromEC2, "EC2 Spot Instance Interruption Warning"}:          spotWarning,
	{fromEC2, "EC2 Instance Rebalance Recommendation"}:           spotWarning,
	{fromTasks, DetailLoad}:                                      load,
	{fromEvents, "Scheduled Event"}:                              scheduled,
}

// Decode reads one event, or the input {"schedule": NAME} of Berth's own schedules. Fields and
// kinds it does not know pass, the latter with a nil Detail. What is malformed, too large or lacks
// what its kind must have gives a *cluster.Drop that names the field: no retry can help.
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
	read := d.reader(e.Source, e.DetailType)
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

// reader is how the detail of a kind of event is read; nil where it means nothing.
func (d Decoder) reader(source, detailType string) func(*envelope) (any, error) {
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

// into reads the event's detail.
func (e *envelope) into(detail any) error {
	if err := json.Unmarshal(e.Detail, detail); err != nil {
		return malformed(e.DetailType, "%v", err)
	}
	return nil
}

func malformed(kind, format string, args ...any) error {
	return &cluster.Drop{Reason: "malformed " + kind + ": " + fmt.Sprintf(format, args...)}
}

// nameOf is the name in an ARN of the kind wanted, and the cluster that the ARN names (empty in the
// short form).
func nameOf(e *envelope, field, arn, wanted string) (clusterName, name string, err error) {
	a, ok := cluster.ParseARN(arn)
	if !ok || a.Kind != wanted || !plain(a.Name) {
		return "", "", malformed(e.DetailType, "%s %.200q is no %s ARN", field, arn, wanted)
	}
	return a.Cluster, a.Name, nil
}

// plain reports whether s can be an id or the name of a cluster: what ECS allows there, and safe in
// the key of a row.
func plain(s string) bool {
	return s != "" && len(s) <= 255 && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune(nameCharacters, r)
	})
}

const nameCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
