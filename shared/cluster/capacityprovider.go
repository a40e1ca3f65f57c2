package cluster

import (
	"strings"
	"time"
)

// CapacityProvider is an Auto Scaling group that Berth sizes by what its cluster's tasks need (C1–C8; ECS API reference,
// CapacityProvider). It belongs to the account and Region, not to a cluster.
type CapacityProvider struct {
	Head
	Name     string `json:"nm"`
	Group    string `json:"gn"` // the Auto Scaling group's name
	GroupARN string `json:"ga"`
	// Protection is managedTerminationProtection ENABLED: instances with tasks are protected from scale-in (C6).
	Protection bool `json:"pr,omitempty"`
	// Draining is managedDraining ENABLED: a lifecycle hook holds an instance that is terminated until its tasks have left.
	Draining bool           `json:"dr,omitempty"`
	Scaling  ManagedScaling `json:"ms"`
	// Clusters have it among their capacity providers: one at most while managed scaling is on (C7).
	Clusters []string          `json:"cs,omitempty"`
	Tags     map[string]string `json:"tg,omitempty"`
	// Inactive reports that it was deleted: its row stays for a while.
	Inactive bool `json:"ia,omitempty"`
	// UpdateStatus says what became of the last change, UpdateReason why it failed (ECS API reference, CapacityProvider).
	UpdateStatus ProviderStatus `json:"us"`
	UpdateReason string         `json:"ur,omitempty"`
	// CheckPending has managed scaling look whether the group is fit for what was changed. Before is what then holds again if it is
	// not; nil of a new provider.
	CheckPending     bool              `json:"lk,omitempty"`
	PreviousSettings *ProviderSettings `json:"be,omitempty"`
	// GroupProblem says why the group of a new provider is not fit for it: it is not scaled.
	GroupProblem string `json:"uf,omitempty"`
}

// ProviderSettings are what an update of a capacity provider changes.
type ProviderSettings struct {
	Protection bool           `json:"pr,omitempty"`
	Draining   bool           `json:"dr,omitempty"`
	Scaling    ManagedScaling `json:"ms"`
}

// ProviderStatus is the updateStatus of a capacity provider, in ECS's words.
type ProviderStatus string

// The statuses of a change: IN_PROGRESS until managed scaling has looked at the group, where that must be asked. A deletion
// takes effect at once.
const (
	ProviderCreating     ProviderStatus = "CREATE_IN_PROGRESS"
	ProviderCreated      ProviderStatus = "CREATE_COMPLETE"
	ProviderCreateFailed ProviderStatus = "CREATE_FAILED"
	ProviderUpdating     ProviderStatus = "UPDATE_IN_PROGRESS"
	ProviderUpdated      ProviderStatus = "UPDATE_COMPLETE"
	ProviderUpdateFailed ProviderStatus = "UPDATE_FAILED"
	ProviderDeleted      ProviderStatus = "DELETE_COMPLETE"
	ProviderDeleteFailed ProviderStatus = "DELETE_FAILED"
)

// HasFailedCreation reports that the provider is CREATE_FAILED: its group was not fit for it, and nobody is looking again.
func (p *CapacityProvider) HasFailedCreation() bool { return p.GroupProblem != "" && !p.CheckPending }

// ClusterProviders are the capacity providers of a cluster (ECS API reference, PutClusterCapacityProviders).
type ClusterProviders struct {
	Head
	Providers []string        `json:"ps,omitempty"`
	Default   []ProviderShare `json:"df,omitempty"` // defaultCapacityProviderStrategy
	// Detaching were taken from the cluster; what managed scaling made for them has yet to be taken back.
	Detaching []string         `json:"lv,omitempty"`
	Status    AttachmentStatus `json:"as"`
	// RequestedAt is when they were last to be attached: it may last a while, but not keep users from changing them for ever.
	RequestedAt time.Time `json:"ak,omitzero"`
	// AttachmentProblems are the providers whose attachments failed, or could not be taken back, each with why.
	AttachmentProblems map[string]string `json:"fa,omitempty"`
}

// AttachmentStatus is the attachmentsStatus of a cluster, in ECS's words.
type AttachmentStatus string

// The statuses of a cluster's attachments: what managed scaling and managed draining need of each group.
const (
	AttachmentsInProgress AttachmentStatus = "UPDATE_IN_PROGRESS"
	AttachmentsComplete   AttachmentStatus = "UPDATE_COMPLETE"
	AttachmentsFailed     AttachmentStatus = "UPDATE_FAILED"
)

// ManagedTag is the tag of Auto Scaling groups that a capacity provider has (C7): it is set, and stays.
const ManagedTag = "AmazonECSManaged"

// DrainingHook is the name of the lifecycle hook of managed draining, PolicyPrefix and AlarmPrefix begin the names of the
// target tracking policies and alarms of managed scaling.
const (
	DrainingHook = "ecs-managed-draining-termination-hook"
	PolicyPrefix = "ECSManagedAutoScalingPolicy-"
	AlarmPrefix  = "berth-managed-scaling-"
)

// ScalingPolicy names the target tracking policy of a capacity provider in a cluster.
func ScalingPolicy(cluster, provider string) string {
	return PolicyPrefix + Digest("policy", cluster, provider)[:32]
}

// ScalingAlarms names the low and the high alarm of a capacity provider in a cluster.
func ScalingAlarms(cluster, provider string) (low, high string) {
	id := AlarmPrefix + Digest("alarm", cluster, provider)[:32]
	return id + "-low", id + "-high"
}

// The metric of managed scaling (C1): CapacityProviderReservation, with the dimensions ClusterName and
// CapacityProviderName.
const (
	ReservationMetric   = "CapacityProviderReservation"
	DimensionCluster    = "ClusterName"
	DimensionProvider   = "CapacityProviderName"
	DefaultScalingSpace = "Amazon/ECS/ManagedScaling"
)

// Datapoint is one value of [ReservationMetric].
type Datapoint struct {
	Namespace         string
	Cluster, Provider string
	Percent           float64
	At                time.Time
}

// MetricAlarm is an alarm on [ReservationMetric] that fires when Times minutes in a row were above the threshold, or where
// Below is set, below it.
type MetricAlarm struct {
	Name              string
	Namespace         string
	Cluster, Provider string
	Below             bool
	Threshold         float64
	Times             int
}

// LifecycleHook holds instances of a group that are being terminated.
type LifecycleHook struct {
	Group, Name string
	Heartbeat   time.Duration
}

// TrackingPolicy is a target tracking policy on [ReservationMetric] (C1).
type TrackingPolicy struct {
	Group, Name       string
	Namespace         string
	Cluster, Provider string
	Target            float64
	Warmup            time.Duration
}

// ManagedScaling is a capacity provider's managedScaling with what Berth adds to it. Rows have every value filled in:
// [DefaultScaling] has those of who says nothing.
type ManagedScaling struct {
	Enabled bool          `json:"en,omitempty"`
	Target  int           `json:"tc"`           // targetCapacity: percent of the instances that are to be in use, 1 to 100 (C3)
	MinStep int           `json:"mi"`           // minimumScalingStepSize: the fewest instances that waiting tasks add at once (C2)
	MaxStep int           `json:"ma"`           // maximumScalingStepSize: the most that are added at once
	Warmup  time.Duration `json:"wu,omitempty"` // instanceWarmupPeriod: how long a launched instance blocks scaling out (C3)

	// What follows is beyond ECS, and its defaults are what ECS does.

	// UntilRegistered ends an instance's warm-up when it has registered with the cluster, if that is sooner.
	UntilRegistered bool `json:"wr,omitempty"`
	// ReplaceUnregistered has instances terminated and launched anew that have not registered in time, while tasks wait (C5).
	ReplaceUnregistered bool `json:"ru,omitempty"`
	// LowDatapoints is how many minutes in a row the metric must be below the target before instances are taken away; Share
	// the percentage of the group that may go in one minute, at least one instance; Cooldown how long after scaling out
	// none goes (C5, C8).
	LowDatapoints     int           `json:"dp"`
	MaxScaleInPercent int           `json:"sh"`
	Cooldown          time.Duration `json:"cd,omitempty"`
	// TargetTracking leaves the desired capacity to a target tracking policy on the group: Berth only publishes the metric
	// and protects instances (C1).
	TargetTracking bool          `json:"tt,omitempty"`
	Consolidation  Consolidation `json:"co,omitzero"`
}

// Consolidation is how lightly used instances are emptied (C5): those whose tasks fit elsewhere are drained, and then
// terminated.
type Consolidation struct {
	Enabled bool `json:"en,omitempty"`
	// BudgetPercent is the disruption budget: the percentage of the group's instances, at least one, whose draining may begin
	// within any Window.
	BudgetPercent int           `json:"sh,omitempty"`
	BudgetWindow  time.Duration `json:"wi,omitempty"`
}

// DefaultScaling are the defaults of the ECS API (managed scaling itself is not among them), and of what Berth adds.
var DefaultScaling = ManagedScaling{
	Target: 100, MinStep: 1, MaxStep: 10000, Warmup: 300 * time.Second,
	LowDatapoints: 15, MaxScaleInPercent: 50, Cooldown: 15 * time.Minute,
	Consolidation: Consolidation{BudgetPercent: 10, BudgetWindow: 10 * time.Minute},
}

// AutoScalingGroup is a group as Amazon EC2 Auto Scaling describes it.
type AutoScalingGroup struct {
	Name              string
	ARN               string
	Min, Max, Desired int
	Zones             []string
	// Template is the launch template version that it launches from, as ID:VERSION; the version is a number, $Latest or
	// $Default. It is empty where there is none.
	Template  string
	Instances []GroupInstance
	// Protects reports that new instances are protected from scale-in; Weighted that instance types have weights, which
	// managed scaling refuses (C7).
	Protects, Weighted bool
	// OwnTemplates reports that instance types of its mixed instances policy have launch templates of their own: an update of a
	// node group does not change those.
	OwnTemplates bool
	Tags         map[string]string
}

// GroupInstance is one instance of an Auto Scaling group.
type GroupInstance struct {
	ID        string // EC2's
	Type      string // instance type
	Zone      string
	Lifecycle string // LifecycleState, such as InService or Terminating:Wait
	Template  string // launch template version that it was made from, as ID:VERSION; empty where it was made from none
	Protected bool   // from scale-in
	// LaunchedAt is zero where it is not known: the group does not say.
	LaunchedAt time.Time
}

// IsInService reports whether the group counts the instance as one that runs.
func (i *GroupInstance) IsInService() bool { return i.Lifecycle == "InService" }

// IsLaunching reports whether the instance is on its way into the group.
func (i *GroupInstance) IsLaunching() bool {
	return i.Lifecycle == "Pending" || strings.HasPrefix(i.Lifecycle, "Pending:")
}

// InstanceSample is what a new instance of a group will be like, as far as one is known that the group has or had: an
// instance type in a zone.
type InstanceSample struct {
	AgentVersion string            `json:"av,omitempty"`
	Registered   Capacity          `json:"r"`
	Attributes   map[string]string `json:"a,omitempty"`
	// Template is the launch template version that it was made from, as [GroupInstance] has it.
	Template string `json:"t,omitempty"`
}

// ScalingHistory is what managed scaling remembers of one capacity provider in one cluster from minute to minute; written
// by it alone.
type ScalingHistory struct {
	Head
	Provider string `json:"nm"`
	// LowMinutes is how many minutes in a row the metric was below the target, Minute the last that was counted (C5).
	LowMinutes    int       `json:"lo,omitempty"`
	LastLowMinute time.Time `json:"mi,omitzero"`
	// LastScaleOut and LastIn are when the desired capacity was last raised and lowered (C8).
	LastScaleOut time.Time `json:"ou,omitzero"`
	LastScaleIn  time.Time `json:"in,omitzero"`
	// LastReplacement is when instances that never registered were last replaced.
	LastReplacement time.Time `json:"re,omitzero"`
	// FirstReconciledAt is when the group was first looked at.
	FirstReconciledAt time.Time `json:"si,omitzero"`
	// UnregisteredSince is when instances were first seen that have not registered, Launched when instances of the group are taken to
	// have been launched of which it does not say; both by EC2 id.
	UnregisteredSince map[string]time.Time `json:"fs,omitempty"`
	LaunchTimes       map[string]time.Time `json:"la,omitempty"`
	// Samples are what the group's instances are like: for a while the last ones known, where there has been none since NoneSince.
	Samples    []InstanceSample `json:"sm,omitempty"`
	EmptySince time.Time        `json:"ns,omitzero"`
	// Drains are those that consolidation began, while they last and count for its budget, the oldest first. Spared are
	// instances that could not be emptied, with when they may be tried again.
	Drains        []Drain              `json:"dr,omitempty"`
	DeferredUntil map[string]time.Time `json:"sr,omitempty"`
	// Protecting reports that instances may be protected from scale-in that are to be released when that ends.
	Protecting bool `json:"pr,omitempty"`
	// Attachment is what was made for the provider at CloudWatch and Auto Scaling.
	Attachment Attachment `json:"at,omitzero"`
	// EmittedKeys are the topics of events that were told, and still hold.
	EmittedKeys []string `json:"to,omitempty"`
	// Heartbeats are when the lifecycle hook of instances that are being terminated was last told to wait on, by EC2 id.
	Heartbeats map[string]time.Time `json:"be,omitempty"`
}

// Attachment is what was made for a capacity provider, so that it is made once and taken back.
type Attachment struct {
	Group  string `json:"gn,omitempty"`
	ARN    string `json:"ar,omitempty"` // of the group: another one of the name has none of it
	Alarms string `json:"al,omitempty"` // digest of what the alarms were made of; empty for none
	Policy string `json:"po,omitempty"` // the same of the target tracking policy
	Hook   bool   `json:"ho,omitempty"`
	// Incomplete reports that a change was begun: what there is besides the group's name is not known.
	Incomplete bool `json:"bg,omitempty"`
	// RenewedAt is when all of it was last made, whether it was there already or not.
	RenewedAt time.Time `json:"mt,omitzero"`
}

// Drain is an instance that consolidation empties.
type Drain struct {
	Instance string    `json:"i"` // container instance id
	At       time.Time `json:"at"`
	// Cancelled reports that the instance is to take tasks again, Over that nothing is left to do: it counts for the budget only.
	Cancelled bool `json:"en,omitempty"`
	Finished  bool `json:"ov,omitempty"`
}

// Key of each kind of row.

// ProviderKey, ClusterProvidersKey and ScalingHistoryKey name rows that are read singly.
