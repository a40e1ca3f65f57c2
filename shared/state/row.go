package state

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"berth/shared/cluster"
)

// A Key names one row by its cluster and its sort key. All rows of one kind share a prefix of the
// sort key, so a listing is one range. [Key.PartitionKey] is where DynamoDB keeps it.
type Key struct{ Cluster, Sort string }

// Directory is the partition of rows that belong to no cluster, such as the list of clusters and
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
	PrefixInbox      = "inbox#"
	PrefixRequest    = "request#"
	PrefixDue        = "due#"
	PrefixEvent      = "event#"
	PrefixCheckpoint = "checkpoint"
	PrefixChangeSet  = "changes#"
	PrefixEntry      = "cluster#"
	PrefixBucket     = "bucket#"
	PrefixLoad       = "load#"
	PrefixLoadTimes  = "reported#"
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
	// PrefixDeregistration is of revisions of task definitions, which all clusters share.
	PrefixDeregistration = "deregistration#"
	// PrefixProviders and PrefixConfiguration are whole sort keys: a cluster has one row of each.
	PrefixProviders     = "providers"
	PrefixConfiguration = "configuration"
	// PrefixSettings is a whole sort key, too: an installation has one such row.
	PrefixSettings = "settings"
)

// A Row is one item of the table.
type Row interface {
	// Header returns the part that all rows share; never nil.
	Header() *cluster.Head
}

// Meta is the row of a cluster itself. Every decision about the cluster moves Version on by one.
type Meta struct {
	cluster.Head
	Version   int64     `json:"v"` // the placement version
	CreatedAt time.Time `json:"ca"`
	Short     string    `json:"sh"` // owner of standalone tasks, see [cluster.ShortKey]
	// HeldUntil is until when callers leave the placement version to placement, see
	// [HoldNarrowing]. Zero if placement has never had to ask for it.
	HeldUntil time.Time `json:"hu,omitzero"`
}

// An Entry lists a cluster in the [Directory].
type Entry struct {
	cluster.Head
	Name string `json:"nm"`
}

// An Alias leads from one id to another: from the id derived of an ECS task ([cluster.TaskID]) to
// that of a task which had its id before it had an instance. Without an Owner, it leads from the id
// of an EC2 instance to that of the container instance on it.
type Alias struct {
	cluster.Head
	Derived string `json:"dv"`
	Owner   string `json:"o"`
	ID      string `json:"id"`
}

// An Outbox row is what a commit asks dispatch to do: start tasks of one task definition and batch,
// or stop tasks. Dispatch deletes it when that is done.
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
	// Targets are tasks to register, or to deregister if they have stopped.
	Targets []TargetItem `json:"tg,omitempty"`
	// Publish are service events for the event bus.
	Publish []PublishedEvent `json:"pb,omitempty"`
	// NotBefore is when to try again what is left.
	NotBefore time.Time `json:"nb,omitzero"`
	// Deadline is until when a caller waits for this row; zero if none does. It comes before
	// others.
	Deadline time.Time `json:"dl,omitzero"`
}

// OutboxFirst begins the ids of outbox rows that have only Targets or Publish. These need no tokens
// for ECS's quotas, so they sort before the rows that wait for some.
const OutboxFirst = "+"

// OutboxStops begins the ids of outbox rows that have only Stops. They sort behind starts, so that
// starts are found without reading a thousand stops.
const OutboxStops = "stop"

// A StartItem is one task to start. Everything else is in the task's row.
type StartItem struct {
	ID       string `json:"i,omitempty"` // empty if it is TaskID(Batch, Instance)
	Instance string `json:"n"`
	// ReleasedIn is the Auto Scaling group that may terminate the instance, known there as
	// EC2InstanceID. Dispatch protects the instance before it starts the task (C6). Both are empty
	// if that is not necessary.
	ReleasedIn    string `json:"rl,omitempty"`
	EC2InstanceID string `json:"ec2,omitempty"`
	// Alone starts the task by a call of its own, because it has overrides.
	Alone bool `json:"a,omitempty"`
}

// A StopItem is one task to stop: that of a row, with ECSID if it was known at the commit, or an
// ECS task that no row wants.
type StopItem struct {
	Owner  string `json:"o,omitempty"`
	ID     string `json:"i,omitempty"`
	ECSID  string `json:"e,omitempty"`
	Reason string `json:"r,omitempty"`
	// Drain deregisters the task, and waits for the deregistration delay, before stopping it (S9).
	Drain bool `json:"d,omitempty"`
}

// A TargetItem names a task to register or deregister as its [cluster.Target] row says. Again
// retries registrations that have failed.
type TargetItem struct {
	Owner string `json:"o"`
	ID    string `json:"i"`
	Again bool   `json:"a,omitempty"`
}

// A PublishedEvent is a service event for the event bus (S12), with the source berth.ecs.
type PublishedEvent struct {
	DetailType string    `json:"t"`
	Service    string    `json:"s"` // name
	At         time.Time `json:"at"`
	Detail     string    `json:"d"` // JSON
}

// A Request is a call of RunTask or StartTask that placement is to answer, and the answer.
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
	// Wait lets tasks that find no instance wait in PROVISIONING until WaitUntil (zero: for ever).
	// Without it they fail.
	Wait      bool      `json:"w,omitempty"`
	WaitUntil time.Time `json:"wu,omitzero"`
	Params    string    `json:"cp,omitempty"` // digest of the parameters, for clientToken

	RequestAnswer
}

// RequestAnswer is placement's answer to a [Request].
type RequestAnswer struct {
	// Provisional is set once the API has answered the caller with the ids of
	// [cluster.RequestedTaskID]. Placement must use these.
	Provisional bool              `json:"pr,omitempty"`
	Answered    bool              `json:"an,omitempty"`
	Tasks       []string          `json:"ts,omitempty"`
	Failures    []cluster.Failure `json:"fs,omitempty"`
}

// A DueKind says who acts when a due row's time has come.
type DueKind string

// The kinds of due row.
const (
	// DueService makes placement reconcile a service.
	DueService DueKind = "service"
	// DueWaiting makes placement place the tasks in PROVISIONING, and end those whose wait is over.
	DueWaiting DueKind = "waiting"
	// DueRequest makes placement answer a request.
	DueRequest DueKind = "request"
	// DueOutbox makes dispatch drain the outbox.
	DueOutbox DueKind = "outbox"
	// DueLoads makes dispatch apply the loads that tasks have reported.
	DueLoads DueKind = "loads"
	// DueHost makes placement reconcile the services with tasks on an instance whose agent may have
	// been disconnected for too long.
	DueHost DueKind = "host"
	// DueBalance makes placement look at the balance of the cluster. Its subject is empty,
	// BalanceConsolidated or BalanceOnce.
	DueBalance DueKind = "balance"
	// DueLoadScaling makes placement look at the load that a service's desired count follows.
	DueLoadScaling DueKind = "load-scaling"
	// DueScaling makes managed scaling decide on a capacity provider that scales out at once.
	DueScaling DueKind = "scaling"
	// DueInstance makes task-state-change ask ECS about an instance that is not available.
	DueInstance DueKind = "instance"
	// DueSweep makes placement load the cluster anew and look at all of it: a sweep has recorded
	// tasks, and may have been cut off before it told placement.
	DueSweep DueKind = "sweep"
	// DueNodeGroup makes dispatch wake node-group-upgrade: a wait of a node group's update is over.
	DueNodeGroup DueKind = "node-group"
)

// BalanceOnce is the subject of a DueBalance row by which a caller asks for balancing, whether it
// is switched on or not.
const BalanceOnce = "once"

// BalanceConsolidated is the subject of a DueBalance row for a look at which consolidation has judged
// the changes before it.
const BalanceConsolidated = "consolidated"

// A Due row is something to do at a time. Dispatch deletes it then, and the stream record of the
// deletion wakes placement.
type Due struct {
	cluster.Head
	At      time.Time `json:"at"`
	Kind    DueKind   `json:"k"`
	Subject string    `json:"s,omitempty"` // name of a service or node group, request or instance id
	// Generation counts how often the same thing was put off without progress. It is -1 if a sweep
	// wrote the row.
	Generation int `json:"g,omitempty"`
	// WrittenAt is when the row was written, by the writer's clock; zero in rows of before this was
	// kept.
	WrittenAt time.Time `json:"w,omitzero"`
}

// IsDue reports whether the row's time has come. A row that was written in the future has the time
// of a clock that had jumped ahead, so it is due at once: whoever it wakes sets the time again.
func (d *Due) IsDue(now time.Time) bool { return !d.At.After(now) || cluster.IsAhead(d.WrittenAt, now) }

// NewDue returns a row that is due at a time, written now.
func NewDue(clusterName string, kind DueKind, subject string, at, now time.Time) *Due {
	return &Due{Head: cluster.Head{Cluster: clusterName}, At: at, Kind: kind, Subject: subject, WrittenAt: now.UTC()}
}

// A Checkpoint says which environment of the placement function handled the cluster's last batch.
// Only that one may trust its warm snapshot.
type Checkpoint struct {
	cluster.Head
	Environment string `json:"en"`
	Batch       int64  `json:"b"`
}

// A Bucket is a token bucket. All callers of one group of ECS's operations in this account and
// Region share it, see package quota.
type Bucket struct {
	cluster.Head
	Name   string    `json:"nm"`
	Tokens float64   `json:"tk"`
	At     time.Time `json:"at"`
	// Starts is how many of the Tokens are the starts' own. The others are the stops'.
	Starts float64 `json:"st,omitempty"`
	// StartsWait and StopsWait are when starts and stops last got fewer tokens than they wanted;
	// zero if they got all.
	StartsWait time.Time `json:"sw,omitzero"`
	StopsWait  time.Time `json:"ow,omitzero"`
}

// A PendingLoad is a load report that waits for its window to end. If a task reports several times
// in a window, the last value of each metric counts.
type PendingLoad struct {
	cluster.Head
	Window time.Time        `json:"w"` // end of the window
	Owner  string           `json:"o"`
	ID     string           `json:"id"`
	Loads  map[string]int64 `json:"l"`
	// Times says when each load was reported: of two reports that are stored at the same time, the
	// later one counts. Rows of older versions have none.
	Times map[string]cluster.Instant `json:"at,omitempty"`
}

// LoadTimes says when each load of a task was last reported, so that a report that comes late or
// again changes nothing. The row expires an hour after the last report; reports older than that are
// refused.
type LoadTimes struct {
	cluster.Head
	Owner string                     `json:"o"`
	ID    string                     `json:"id"`
	Times map[string]cluster.Instant `json:"t"` // per metric
}

// A GroupUse says who uses an Auto Scaling group: at most one node group and one capacity provider,
// of any cluster, and often both. It is written together with the row of the user, so two users
// cannot take the same group. A user whose own row is gone does not count.
type GroupUse struct {
	cluster.Head
	Group     string               `json:"gn"`
	Provider  string               `json:"pr,omitempty"` // name of the capacity provider
	NodeGroup cluster.NodeGroupRef `json:"ng,omitzero"`
}

// AccountSettings are the account settings that Berth acts on, by principal and name. The defaults
// are those of the root user.
type AccountSettings struct {
	cluster.Head
	Principals map[string]map[string]string `json:"p,omitempty"`
}

// A Deregistration is that of a revision of a task definition through Berth, while services may still
// use it: ECS would start no more tasks of it for them. Berth treats the revision as INACTIVE. The sweep
// deregisters it at ECS once no cluster uses it.
type Deregistration struct {
	cluster.Head
	Family   string    `json:"f"`
	Revision int       `json:"r"`
	At       time.Time `json:"at"`
	// DeleteAt is when its deletion was requested, too; zero if it was not. Deletion follows the
	// deregistration.
	DeleteAt time.Time `json:"da,omitzero"`
	// Unused are the clusters in which a sweep found that nothing uses the revision. As nothing new
	// may use it, that stays so.
	Unused []string `json:"un,omitempty"`
	// EndedAt is when ECS had deregistered it. The row stays for [KeepDeregistration]: a call that
	// found the revision ACTIVE at ECS a moment before still finds the row.
	EndedAt time.Time `json:"ea,omitzero"`
}

// KeepDeregistration is how long the row of a [Deregistration] stays after its end.
const KeepDeregistration = time.Hour

// Ended returns the row as ECS's deregistration leaves it.
func (d *Deregistration) Ended(now time.Time) *Deregistration {
	next := *d
	next.Rev++
	next.EndedAt, next.Expires = now, now.Add(KeepDeregistration).Unix()
	return &next
}

// Name returns family:revision.
func (d *Deregistration) Name() string { return cluster.TaskDefinitionName(d.Family, d.Revision) }

// EmptyRow returns a row to decode into, of the kind that the sort key names. It returns nil for an
// unknown kind.
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
	{PrefixInbox, func() Row { return new(Inbox) }},
	{PrefixDue, func() Row { return new(Due) }},
	{PrefixRequest, func() Row { return new(Request) }},
	{PrefixCheckpoint, func() Row { return new(Checkpoint) }},
	{PrefixChangeSet, func() Row { return new(ChangeSet) }},
	{PrefixMeta, func() Row { return new(Meta) }},
	{PrefixDefinition, func() Row { return new(cluster.TaskDefinition) }},
	{PrefixAlias, func() Row { return new(Alias) }},
	{PrefixLoad, func() Row { return new(PendingLoad) }},
	{PrefixLoadTimes, func() Row { return new(LoadTimes) }},
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
	{PrefixSettings, func() Row { return new(AccountSettings) }},
	{PrefixDeregistration, func() Row { return new(Deregistration) }},
}

// EncodeRow returns the row as JSON, for [DecodeRow].
func EncodeRow(r Row) ([]byte, error) { return json.Marshal(r) }

// DecodeRow reads what [EncodeRow] wrote. The sort key says which kind of row it is.
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
