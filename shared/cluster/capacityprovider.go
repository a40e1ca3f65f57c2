package cluster

import (
	"slices"
	"strings"
	"time"
)

// CapacityProvider is an Auto Scaling group that Berth sizes by the needs of its cluster's tasks
// (C1–C8; ECS API reference, CapacityProvider). It belongs to the account and Region, not to a
// cluster.
type CapacityProvider struct {
	Head
	Name     string `json:"nm"`
	Group    string `json:"gn"` // the Auto Scaling group's name
	GroupARN string `json:"ga"`
	// Protection is managedTerminationProtection ENABLED: instances with tasks are protected from
	// scale-in (C6).
	Protection bool `json:"pr,omitempty"`
	// Draining is managedDraining ENABLED: a lifecycle hook holds an instance that is terminated
	// until its tasks have left.
	Draining bool           `json:"dr,omitempty"`
	Scaling  ManagedScaling `json:"ms"`
	// Clusters are the clusters that have the provider: at most one while managed scaling is on
	// (C7).
	Clusters []string          `json:"cs,omitempty"`
	Tags     map[string]string `json:"tg,omitempty"`
	// Inactive reports that the provider was deleted. Its row stays for a while.
	Inactive bool `json:"ia,omitempty"`
	// UpdateStatus is the outcome of the last change, UpdateReason why it failed (ECS API
	// reference, CapacityProvider).
	UpdateStatus ProviderStatus `json:"us"`
	UpdateReason string         `json:"ur,omitempty"`
	// FailedAt is when the last change failed; zero if it did not, and in rows from before Berth
	// noted it.
	FailedAt time.Time `json:"fl,omitzero"`
	// CheckPending reports that managed scaling must check whether the group allows the last
	// change. If it does not, PreviousSettings apply again; they are nil for a provider that never had
	// a group that can be scaled.
	CheckPending     bool              `json:"lk,omitempty"`
	PreviousSettings *ProviderSettings `json:"be,omitempty"`
	// GroupProblem says why the group of a provider that could not be created cannot be scaled; empty if
	// it can. While the group is examined again, it is the problem found before.
	GroupProblem string `json:"uf,omitempty"`
	// Untagged names the installation whose tag the group lacks, if that is why the last change failed.
	Untagged string `json:"ut,omitempty"`
}

// FargateProviders are the capacity providers of AWS Fargate, which every account has. A cluster
// may have them, but no task of Berth runs on one.
var FargateProviders = []string{"FARGATE", "FARGATE_SPOT"}

// IsFargateProvider reports whether a capacity provider is one of [FargateProviders].
func IsFargateProvider(name string) bool { return slices.Contains(FargateProviders, name) }

// ProviderSettings are what an update of a capacity provider changes.
type ProviderSettings struct {
	Protection bool           `json:"pr,omitempty"`
	Draining   bool           `json:"dr,omitempty"`
	Scaling    ManagedScaling `json:"ms"`
}

// ProviderStatus is the updateStatus of a capacity provider, in ECS's words.
type ProviderStatus string

// The statuses of a change: IN_PROGRESS until managed scaling has checked the group, if it must. A
// deletion is IN_PROGRESS while managed scaling takes the provider from a cluster.
const (
	ProviderCreating     ProviderStatus = "CREATE_IN_PROGRESS"
	ProviderCreated      ProviderStatus = "CREATE_COMPLETE"
	ProviderCreateFailed ProviderStatus = "CREATE_FAILED"
	ProviderUpdating     ProviderStatus = "UPDATE_IN_PROGRESS"
	ProviderUpdated      ProviderStatus = "UPDATE_COMPLETE"
	ProviderUpdateFailed ProviderStatus = "UPDATE_FAILED"
	ProviderDeleting     ProviderStatus = "DELETE_IN_PROGRESS"
	ProviderDeleted      ProviderStatus = "DELETE_COMPLETE"
	ProviderDeleteFailed ProviderStatus = "DELETE_FAILED"
)

// HasFailedCreation reports whether the provider could not be created: its group cannot be scaled, and
// no check is pending. It is CREATE_FAILED, or UPDATE_FAILED after an update that did not mend it.
func (p *CapacityProvider) HasFailedCreation() bool { return p.GroupProblem != "" && !p.CheckPending }

// IsUnattachable reports whether the provider could not be created and no cluster has it: none can.
func (p *CapacityProvider) IsUnattachable() bool {
	return p.HasFailedCreation() && !p.Inactive && len(p.Clusters) == 0
}

// Delete marks the provider as deleted until expires, the time-to-live of its row.
func (p *CapacityProvider) Delete(expires int64) {
	p.ChangeStatus(ProviderDeleted)
	p.Inactive, p.CheckPending, p.Expires = true, false, expires
}

// ChangeStatus sets the status of a change, and forgets why an earlier one failed.
func (p *CapacityProvider) ChangeStatus(status ProviderStatus) {
	p.UpdateStatus, p.UpdateReason, p.FailedAt, p.Untagged = status, "", time.Time{}, ""
}

// ClusterProviders are the capacity providers of a cluster (ECS API reference,
// PutClusterCapacityProviders).
type ClusterProviders struct {
	Head
	Providers []string        `json:"ps,omitempty"`
	Default   []ProviderShare `json:"df,omitempty"` // defaultCapacityProviderStrategy
	// Detaching are the providers that were taken from the cluster, and whose alarms, policies and
	// hooks must still be removed.
	Detaching []string         `json:"lv,omitempty"`
	Status    AttachmentStatus `json:"as"`
	// RequestedAt is when the providers were last changed. Attaching them may take a while, but
	// must not block users for ever.
	RequestedAt time.Time `json:"ak,omitzero"`
	// AttachmentProblems says why attachments could not be made or removed, by provider.
	AttachmentProblems map[string]string `json:"fa,omitempty"`
}

// ScaledProviders returns the providers that have Auto Scaling groups: all but those of Fargate.
func (p *ClusterProviders) ScaledProviders() []string {
	return slices.DeleteFunc(slices.Clone(p.Providers), IsFargateProvider)
}

// AttachmentStatus is the attachmentsStatus of a cluster, in ECS's words.
type AttachmentStatus string

// The statuses of a cluster's attachments, which are what managed scaling and managed draining need
// of each group.
const (
	AttachmentsInProgress AttachmentStatus = "UPDATE_IN_PROGRESS"
	AttachmentsComplete   AttachmentStatus = "UPDATE_COMPLETE"
	AttachmentsFailed     AttachmentStatus = "UPDATE_FAILED"
)

// ManagedTag is the tag of Auto Scaling groups that have a capacity provider (C7). It is never
// removed.
const ManagedTag = "AmazonECSManaged"

// DrainingHook is the name of the lifecycle hook of managed draining. The names of the target
// tracking policies and alarms of managed scaling begin with PolicyPrefix and AlarmPrefix.
const (
	DrainingHook = "ecs-managed-draining-termination-hook"
	PolicyPrefix = "ECSManagedAutoScalingPolicy-"
	AlarmPrefix  = "berth-managed-scaling-"
)

// ScalingPolicy returns the name of the target tracking policy of a capacity provider in a cluster.
func ScalingPolicy(cluster, provider string) string {
	return PolicyPrefix + Digest("policy", cluster, provider)[:32]
}

// ScalingAlarms returns the names of the low and the high alarm of a capacity provider in a
// cluster.
func ScalingAlarms(cluster, provider string) (low, high string) {
	id := AlarmPrefix + Digest("alarm", cluster, provider)[:32]
	return id + "-low", id + "-high"
}

// The metrics of managed scaling (C1), with the dimensions ClusterName and CapacityProviderName.
const (
	ReservationMetric     = "CapacityProviderReservation"
	DesiredCapacityMetric = "DesiredCapacity"
	DimensionCluster      = "ClusterName"
	DimensionProvider     = "CapacityProviderName"
	DefaultScalingSpace   = "Amazon/ECS/ManagedScaling"
)

// Datapoint is one value of [ReservationMetric], and one of [DesiredCapacityMetric].
type Datapoint struct {
	Namespace         string
	Cluster, Provider string
	Percent           float64 // of the group's instances that are needed
	Desired           int     // the desired capacity of the Auto Scaling group
	At                time.Time
}

// MetricAlarm is an alarm on [ReservationMetric]. It fires when the metric was above the threshold
// for Times minutes in a row, or, if Below is set, below it.
type MetricAlarm struct {
	Name              string
	Namespace         string
	Cluster, Provider string
	Below             bool
	Threshold         float64
	Times             int
}

// LifecycleHook is a hook that lets the instances of a group wait before they are terminated.
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

// ManagedScaling is a capacity provider's managedScaling, with what Berth adds to it. In rows every
// field is set, by default to [DefaultScaling].
type ManagedScaling struct {
	Enabled bool `json:"en,omitempty"`
	// targetCapacity: the percentage of instances that should be in use, 1 to 100 (C3)
	Target int `json:"tc"`
	// minimumScalingStepSize: the fewest instances that waiting tasks add at once (C2)
	MinStep int `json:"mi"`
	MaxStep int `json:"ma"` // maximumScalingStepSize: the most that are added at once
	// instanceWarmupPeriod: how long a launched instance blocks scaling out (C3)
	Warmup time.Duration `json:"wu,omitempty"`

	// The following settings are beyond ECS. Their defaults are what ECS does.

	// UntilRegistered ends an instance's warm-up when it has registered with the cluster, if that
	// is sooner.
	UntilRegistered bool `json:"wr,omitempty"`
	// Immediate scales out as soon as tasks wait, instead of at the minute's next look (C3).
	Immediate bool `json:"im,omitempty"`
	// ReplaceUnregistered replaces instances that have not registered in time, while tasks wait
	// (C5).
	ReplaceUnregistered bool `json:"ru,omitempty"`
	// LowDatapoints is how many minutes in a row the metric must be below the target before a
	// scale-in. MaxScaleInPercent is the percentage of the group that may go in one minute, and is
	// at least one instance. Cooldown is how long after a scale-out none goes (C5, C8).
	LowDatapoints     int           `json:"dp"`
	MaxScaleInPercent int           `json:"sh"`
	Cooldown          time.Duration `json:"cd,omitempty"`
	// TargetTracking leaves the desired capacity to a target tracking policy on the group. Berth
	// only publishes the metric and protects instances (C1).
	TargetTracking bool          `json:"tt,omitempty"`
	Consolidation  Consolidation `json:"co,omitzero"`
}

// Consolidation are the settings for emptying lightly used instances (C5): those whose tasks fit
// elsewhere are drained, and then terminated.
type Consolidation struct {
	Enabled bool `json:"en,omitempty"`
	// BudgetPercent is the disruption budget: the percentage of the group's instances, at least
	// one, that may begin to drain within any BudgetWindow.
	BudgetPercent int           `json:"sh,omitempty"`
	BudgetWindow  time.Duration `json:"wi,omitempty"`
}

// DefaultScaling has the defaults of the ECS API and of what Berth adds. Managed scaling itself has
// no default.
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
	// Template is the launch template version that the group launches from, as ID:VERSION. The
	// version is a number, $Latest or $Default. It is empty if the group has no launch template.
	Template string
	// Types are the instance types of the mixed instances policy. Requirements are its
	// attribute-based selections of instance types, as JSON. If both are empty the launch template
	// has the type.
	Types, Requirements []string
	Instances           []GroupInstance
	// Protects reports that new instances are protected from scale-in. Weighted reports that
	// instance types have weights, which managed scaling refuses (C7).
	Protects, Weighted bool
	// OwnTemplates reports that instance types of the mixed instances policy have launch templates
	// of their own. An update of a node group does not change those.
	OwnTemplates bool
	Tags         map[string]string
}

// LaunchSource returns a text that changes when the group is configured to launch something else.
func (g *AutoScalingGroup) LaunchSource() string {
	return Digest(append(append([]string{g.Template}, g.Types...), g.Requirements...)...)
}

// GroupInstance is one instance of an Auto Scaling group.
type GroupInstance struct {
	ID        string // EC2's
	Type      string // instance type
	Zone      string
	Lifecycle string // LifecycleState, such as InService or Terminating:Wait
	Template  string // launch template version that it was made from, as ID:VERSION; empty if it was made from none
	Protected bool   // from scale-in
	// LaunchedAt is often zero, because Auto Scaling does not return it.
	LaunchedAt time.Time
}

// IsInService reports whether the instance is in service in its group.
func (i *GroupInstance) IsInService() bool { return i.Lifecycle == "InService" }

// IsLaunching reports whether the instance is entering the group.
func (i *GroupInstance) IsLaunching() bool {
	return i.Lifecycle == "Pending" || strings.HasPrefix(i.Lifecycle, "Pending:")
}

// InstanceSample describes what a new instance of a group will be like, as one that the group has
// or had: an instance type in a zone.
type InstanceSample struct {
	AgentVersion string            `json:"av,omitempty"`
	Registered   Capacity          `json:"r"`
	Attributes   map[string]string `json:"a,omitempty"`
	// Template is the launch template version that it was made from, as [GroupInstance] has it.
	Template string `json:"t,omitempty"`
}

// ScalingHistory is what managed scaling remembers of one capacity provider in one cluster from
// minute to minute. Only managed scaling writes it.
type ScalingHistory struct {
	Head
	Provider string `json:"nm"`
	// LowMinutes is how many minutes in a row the metric was below the target. LastLowMinute is the
	// last one counted (C5).
	LowMinutes    int       `json:"lo,omitempty"`
	LastLowMinute time.Time `json:"mi,omitzero"`
	// LastScaleOut and LastScaleIn are when the desired capacity was last raised and lowered (C8).
	LastScaleOut time.Time `json:"ou,omitzero"`
	LastScaleIn  time.Time `json:"in,omitzero"`
	// ScaleOuts counts how often the desired capacity was raised. Unlike LastScaleOut, it tells
	// whether that has happened since, whatever the clocks say.
	ScaleOuts int `json:"oc,omitempty"`
	// LookAgainAt is when what blocks an immediate scale-out has ended; zero if nothing does. A due
	// row asks for a decision then.
	LookAgainAt time.Time `json:"lk,omitzero"`
	// LastReplacement is when instances that never registered were last replaced.
	LastReplacement time.Time `json:"re,omitzero"`
	// FirstReconciledAt is when managed scaling first saw the group.
	FirstReconciledAt time.Time `json:"si,omitzero"`
	// UnregisteredSince is when unregistered instances were first seen. LaunchTimes is when
	// instances are assumed to have been launched, if the group does not say. Both are by EC2 id.
	UnregisteredSince map[string]time.Time `json:"fs,omitempty"`
	LaunchTimes       map[string]time.Time `json:"la,omitempty"`
	// Samples describes the group's instances. If there have been none since EmptySince, it
	// describes the last ones for a while.
	Samples    []InstanceSample `json:"sm,omitempty"`
	EmptySince time.Time        `json:"ns,omitzero"`
	// Launches are the types that the group launches. They are read while tasks wait.
	Launches LaunchTypes `json:"lt,omitzero"`
	ConsolidationHistory
	// Protecting reports that instances may be protected from scale-in, and must be released when
	// protection ends.
	Protecting bool `json:"pr,omitempty"`
	// Attachment is what managed scaling has made for the provider at CloudWatch and Auto Scaling.
	Attachment Attachment `json:"at,omitzero"`
	// EmittedKeys has the keys of events that were emitted and still hold.
	EmittedKeys []string `json:"to,omitempty"`
	// Heartbeats is when the waits of terminating instances' lifecycle hooks were last extended, by
	// EC2 id.
	Heartbeats map[string]time.Time `json:"be,omitempty"`
}

// Attachment records what was made for a capacity provider, so that it is made once and can be
// removed.
type Attachment struct {
	Group  string `json:"gn,omitempty"`
	ARN    string `json:"ar,omitempty"` // of the group: another group of the same name has nothing attached
	Alarms string `json:"al,omitempty"` // digest of the alarms; empty if there are none
	Policy string `json:"po,omitempty"` // digest of the target tracking policy; empty if there is none
	Hook   bool   `json:"ho,omitempty"`
	// Incomplete reports that a change was begun and may not have finished. Then only Group is
	// certain.
	Incomplete bool `json:"bg,omitempty"`
	// RenewedAt is when everything was last made again.
	RenewedAt time.Time `json:"mt,omitzero"`
	// MissingSince is when managed scaling first found that the group does not exist; zero while it
	// does.
	MissingSince time.Time `json:"mx,omitzero"`
}

// ConsolidationHistory is the part of ScalingHistory about consolidation.
type ConsolidationHistory struct {
	// Drains has the drains that consolidation began, as long as they last or count for its budget,
	// the oldest first. DeferredUntil says when instances that could not be emptied may be tried
	// again, by container instance id.
	Drains        []Drain               `json:"dr,omitempty"`
	DeferredUntil map[string]time.Time  `json:"sr,omitempty"`
	Progress      ConsolidationProgress `json:"co,omitempty"`
	// EmptyingUntil is until when the progress is that instances are emptied, if managed scaling does
	// not say so again.
	EmptyingUntil time.Time `json:"cu,omitzero"`
}

// ProgressAt returns the progress as far as it still holds. A group that managed scaling can no longer
// decide about empties nothing.
func (h *ConsolidationHistory) ProgressAt(now time.Time) ConsolidationProgress {
	if h.Progress == ConsolidationEmptying && RemainingWait(h.EmptyingUntil, now, EmptyingTime) == 0 {
		return ConsolidationIdle
	}
	return h.Progress
}

// EmptyingTime is how long a progress holds that instances are emptied.
const EmptyingTime = 20 * time.Minute

// ConsolidationProgress says whether consolidation has instances to empty. It is empty if
// consolidation is off.
type ConsolidationProgress string

// The kinds of progress, in the order of their weight where a cluster has several groups.
const (
	ConsolidationIdle     ConsolidationProgress = "1"
	ConsolidationEmptying ConsolidationProgress = "2"
)

// Drain is an instance that consolidation is emptying.
type Drain struct {
	Instance string    `json:"i"` // container instance id
	At       time.Time `json:"at"`
	// Cancelled reports that the instance must take tasks again. Finished reports that nothing is
	// left to do, and that the drain only counts for the budget.
	Cancelled bool `json:"en,omitempty"`
	Finished  bool `json:"ov,omitempty"`
}
