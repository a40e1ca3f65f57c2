package state

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"berth/shared/cluster"
)

// Key names one row of the state: the cluster is the partition, Sort the place in it. All rows of
// one kind share a prefix, so that each listing is one range.
type Key struct{ Cluster, Sort string }

// Directory is the partition of the rows that belong to no one cluster: the list of clusters and
// the token buckets. No cluster can have this name.
const Directory = "#"

// The prefixes of sort keys.
const (
	PrefixMeta       = "meta"
	PrefixInstance   = "instance#"
	PrefixService    = "service#"
	PrefixTask       = "task#"
	PrefixAlias      = "alias#"
	PrefixDefinition = "taskdef#"
	PrefixOutbox     = "outbox#"
	PrefixRequest    = "request#"
	PrefixDue        = "due#"
	PrefixEvent      = "event#"
	PrefixCheckpoint = "checkpoint"
	PrefixEntry      = "cluster#"
	PrefixBucket     = "bucket#"
	PrefixLoad       = "load#"
	PrefixDeployment = "deployment#"
	PrefixRevision   = "revision#"
	PrefixTarget     = "target#"
	PrefixProtection = "protection#"
	PrefixThrottle   = "throttle#"
	PrefixAlarms     = "alarms#"
	PrefixNodeGroup  = "nodegroup#"
	PrefixUpdate     = "update#"
	PrefixProvider   = "provider#"
	PrefixScaling    = "scaling#"
	PrefixGroupUse   = "group#"
	// PrefixProviders is the whole key, as is PrefixConfiguration: there is one of each.
	PrefixProviders     = "providers"
	PrefixConfiguration = "configuration"
)

// Row is one item of the state.
type Row interface {
	// Header is the part that all rows share; never nil.
	Header() *cluster.Head
}

// Meta is a cluster as Berth knows it: every decision about the cluster moves Version on by one.
type Meta struct {
	cluster.Head
	Version   int64     `json:"v"` // the placement version
	CreatedAt time.Time `json:"ca"`
	Short     string    `json:"sh"` // owner of standalone tasks, see [ShortKey]
}

// Entry lists a cluster in the [Directory].
type Entry struct {
	cluster.Head
	Name string `json:"nm"`
}

// Alias leads from the id derived from an ECS task ([TaskID]) to the row of a task that had waited
// in PROVISIONING and so has another id; without an Owner, from the id of an EC2 instance to the
// container instance on it.
type Alias struct {
	cluster.Head
	Derived string `json:"dv"`
	Owner   string `json:"o"`
	ID      string `json:"id"`
}

// Outbox is what a commit wants done to the world: starts of one task definition and one batch, or
// stops. It is deleted when done.
type Outbox struct {
	cluster.Head
	ID             string           `json:"id"` // orders the rows: oldest first
	CreatedAt      time.Time        `json:"ca"`
	TaskDefinition string           `json:"td,omitempty"`
	Batch          string           `json:"ba,omitempty"` // startedBy at ECS
	Owner          string           `json:"o,omitempty"`
	Starts         []StartItem      `json:"st,omitempty"`
	Stops          []StopItem       `json:"so,omitempty"`
	Network        *cluster.Network `json:"nw,omitempty"` // of the starts
	Launch         *cluster.Launch  `json:"la,omitempty"` // of the starts
	// Targets are tasks whose registrations are to be made as their rows want them: made for a task
	// that is to run, ended for one that has stopped.
	Targets []TargetItem `json:"tg,omitempty"`
	// Publish are service events for the event bus.
	Publish []PublishedEvent `json:"pb,omitempty"`
	// NotBefore is set while all that is left has to settle.
	NotBefore time.Time `json:"nb,omitzero"`
}

// OutboxFirst begins the ids of outbox rows that have only Targets or Publish: they take no tokens
// of ECS's and need not wait behind those that do.
const OutboxFirst = "+"

// StartItem is one task to start. Everything else stands in its row.
type StartItem struct {
	ID       string `json:"i,omitempty"` // empty where it is TaskID(Batch, Instance)
	Instance string `json:"n"`
	// ReleasedIn is the Auto Scaling group that may take the instance, EC2InstanceID what it calls
	// it: it is protected first (C6). Empty where that need not be.
	ReleasedIn    string `json:"rl,omitempty"`
	EC2InstanceID string `json:"ec2,omitempty"`
	// Alone starts the task by a call of its own, as its overrides are its own.
	Alone bool `json:"a,omitempty"`
}

// StopItem is one task to stop: a row's (ECSID where it was known at the commit), or an ECS task
// that no row wants.
type StopItem struct {
	Owner  string `json:"o,omitempty"`
	ID     string `json:"i,omitempty"`
	ECSID  string `json:"e,omitempty"`
	Reason string `json:"r,omitempty"`
	// Drain has the task's registrations ended, and their delay waited for, before it is stopped
	// (S9).
	Drain bool `json:"d,omitempty"`
}

// TargetItem names a task whose [Target] row is to be acted on; with Again registrations that have
// failed are tried once more.
type TargetItem struct {
	Owner string `json:"o"`
	ID    string `json:"i"`
	Again bool   `json:"a,omitempty"`
}

// PublishedEvent is a service event as it goes to the event bus (S12), with the source berth.ecs.
type PublishedEvent struct {
	DetailType string    `json:"t"`
	Service    string    `json:"s"` // name
	At         time.Time `json:"at"`
	Detail     string    `json:"d"` // JSON
}

// Request is a RunTask or StartTask on its way to placement, and its answer.
type Request struct {
	cluster.Head
	ID             string              `json:"id"`
	Kind           cluster.RequestKind `json:"k"`
	CreatedAt      time.Time           `json:"ca"`
	TaskDefinition string              `json:"td"`
	Count          int                 `json:"n,omitempty"`
	Instances      []string            `json:"in,omitempty"` // of StartTask
	Group          string              `json:"gr,omitempty"`
	StartedBy      string              `json:"su,omitempty"`
	Overrides      *cluster.Overrides  `json:"ov,omitempty"`
	Needs          cluster.Resources   `json:"ne"` // after overrides
	Rules          *cluster.Rules      `json:"ru,omitempty"`
	Network        *cluster.Network    `json:"nw,omitempty"`
	Tags           map[string]string   `json:"tg,omitempty"`
	// Wait lets tasks that fit nowhere wait in PROVISIONING until WaitUntil (zero: for ever);
	// otherwise they fail.
	Wait      bool      `json:"w,omitempty"`
	WaitUntil time.Time `json:"wu,omitzero"`
	Params    string    `json:"cp,omitempty"` // digest of the parameters, for clientToken

	RequestAnswer
}

// RequestAnswer is what placement has answered to a [Request].
type RequestAnswer struct {
	// Provisional is set by the API when it has answered with the ids of [RequestedTaskID]: they
	// then bind.
	Provisional bool              `json:"pr,omitempty"`
	Answered    bool              `json:"an,omitempty"`
	Tasks       []string          `json:"ts,omitempty"`
	Failures    []cluster.Failure `json:"fs,omitempty"`
}

// DueKind says who acts when a due row's time has come.
type DueKind string

// The kinds of due row.
const (
	// DueService has placement look at a service again.
	DueService DueKind = "service"
	// DueWaiting has placement look at the tasks that wait in PROVISIONING again, their time-outs
	// included.
	DueWaiting DueKind = "waiting"
	// DueRequest has placement look at a request again.
	DueRequest DueKind = "request"
	// DueOutbox has dispatch drain the outbox.
	DueOutbox DueKind = "outbox"
	// DueLoads has dispatch take in the loads that tasks have reported.
	DueLoads DueKind = "loads"
	// DueHost has placement look at the services that have tasks on an instance: its agent stayed
	// disconnected.
	DueHost DueKind = "host"
	// DueInstance has task-state-change ask ECS about an instance that is not available.
	DueInstance DueKind = "instance"
)

// Due is something to do at a time. Its deletion is the wake-up: the stream record carries it to
// placement.
type Due struct {
	cluster.Head
	At      time.Time `json:"at"`
	Kind    DueKind   `json:"k"`
	Subject string    `json:"s,omitempty"` // service name, request or instance id
	// Generation counts how often the same thing was put off without progress; -1 marks what a
	// sweep found.
	Generation int `json:"g,omitempty"`
}

// Checkpoint says which environment of the placement function handled the cluster's last batch:
// only that one may trust its warm snapshot.
type Checkpoint struct {
	cluster.Head
	Environment string `json:"en"`
	Batch       int64  `json:"b"`
}

// Bucket is a token bucket shared by everything that calls one group of ECS's operations in this
// account and Region.
type Bucket struct {
	cluster.Head
	Name   string    `json:"nm"`
	Tokens float64   `json:"tk"`
	At     time.Time `json:"at"`
}

// EmptyRow is a row of the kind that the sort key names, to decode into; nil for no known kind.
func EmptyRow(sort string) Row {
	for _, k := range kinds {
		if strings.HasPrefix(sort, k.prefix) {
			return k.make()
		}
	}
	return nil
}

var kinds = []struct {
	prefix string
	make   func() Row
}{
	{PrefixTask, func() Row { return new(cluster.Task) }},
	{PrefixInstance, func() Row { return new(cluster.Instance) }},
	{PrefixService, func() Row { return new(cluster.Service) }},
	{PrefixEvent, func() Row { return new(cluster.ServiceEvent) }},
	{PrefixOutbox, func() Row { return new(Outbox) }},
	{PrefixDue, func() Row { return new(Due) }},
	{PrefixRequest, func() Row { return new(Request) }},
	{PrefixCheckpoint, func() Row { return new(Checkpoint) }},
	{PrefixMeta, func() Row { return new(Meta) }},
	{PrefixDefinition, func() Row { return new(cluster.TaskDefinition) }},
	{PrefixAlias, func() Row { return new(Alias) }},
	{PrefixLoad, func() Row { return new(PendingLoad) }},
	{PrefixConfiguration, func() Row { return new(cluster.Configuration) }},
	{PrefixDeployment, func() Row { return new(cluster.ServiceDeployment) }},
	{PrefixRevision, func() Row { return new(cluster.ServiceRevision) }},
	{PrefixTarget, func() Row { return new(cluster.Target) }},
	{PrefixProtection, func() Row { return new(cluster.Protection) }},
	{PrefixThrottle, func() Row { return new(cluster.Throttle) }},
	{PrefixAlarms, func() Row { return new(cluster.AlarmWatch) }},
	{PrefixNodeGroup, func() Row { return new(cluster.NodeGroup) }},
	{PrefixUpdate, func() Row { return new(cluster.Update) }},
	{PrefixProvider, func() Row { return new(cluster.CapacityProvider) }},
	{PrefixProviders, func() Row { return new(cluster.ClusterProviders) }},
	{PrefixScaling, func() Row { return new(cluster.ScalingHistory) }},
	{PrefixGroupUse, func() Row { return new(GroupUse) }},
	{PrefixEntry, func() Row { return new(Entry) }},
	{PrefixBucket, func() Row { return new(Bucket) }},
}

// EncodeRow is the row as JSON; [DecodeRow] reads it back.
func EncodeRow(r Row) ([]byte, error) { return json.Marshal(r) }

// DecodeRow reads what [EncodeRow] wrote, the kind told by the sort key.
func DecodeRow(sort string, data []byte) (Row, error) {
	r := EmptyRow(sort)
	if r == nil {
		return nil, fmt.Errorf("decoding row %q: no such kind", sort)
	}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("decoding row %q: %w", sort, err)
	}
	return r, nil
}
