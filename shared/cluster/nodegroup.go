package cluster

import (
	"math"
	"slices"
	"time"
)

// NodeGroup is the container instances that one Auto Scaling group launches, as in the EKS API.
type NodeGroup struct {
	Head
	Name       string          `json:"nm"`
	ID         string          `json:"id"` // the last part of its ARN
	Status     NodeGroupStatus `json:"st"`
	CreatedAt  time.Time       `json:"ca"`
	ModifiedAt time.Time       `json:"ma"`
	// AutoScalingGroup is the name of the group that launches the nodes. Of a group that Berth
	// makes it is that of the launch template and the instance profile, too.
	AutoScalingGroup string `json:"ag"`
	// Target is what the nodes are made of: the target of the last update that succeeded. While
	// CREATING it is the requested one.
	Target UpdateTarget `json:"ta"`
	Config UpdateConfig `json:"uc"`
	// Sizes is the user's scalingConfig. While CREATING, a Max of 0 means the sizes that the Auto
	// Scaling group has.
	Sizes Sizes `json:"sz"`
	// Issues says why the node group is CREATE_FAILED.
	Issues []NodeGroupIssue `json:"is,omitempty"`
	NodeLabels
	Tags map[string]string `json:"tg,omitempty"`
	// Update is the id of the update of the nodes that is in progress, or of the last one.
	// ConfigUpdate is the id of an update of sizes or labels while it is in progress, and
	// FailedConfigUpdate that of one that failed, until the next update.
	Update             string `json:"up,omitempty"`
	ConfigUpdate       string `json:"cu,omitempty"`
	FailedConfigUpdate string `json:"fc,omitempty"`
	// Subnets and Role are as the user gave them. Berth uses them for a group that it makes; for
	// another one, the Auto Scaling group and its launch template decide.
	Subnets []string `json:"sn,omitempty"`
	Role    string   `json:"ro,omitempty"`
	NodeGroupCreation
	// Machines is set if Berth makes the Auto Scaling group itself; nil for one of the user's.
	Machines *Machines `json:"mc,omitempty"`
}

// NodeGroupCreation identifies the request that created a node group: its clientRequestToken, and a
// digest of the other parameters.
type NodeGroupCreation struct {
	Token  string `json:"tk,omitempty"`
	Digest string `json:"dg,omitempty"`
}

// NodeGroupStatus is the status of a node group, in EKS's words.
type NodeGroupStatus string

// The node group statuses of the EKS API.
const (
	NodeGroupCreating     NodeGroupStatus = "CREATING"
	NodeGroupActive       NodeGroupStatus = "ACTIVE"
	NodeGroupUpdating     NodeGroupStatus = "UPDATING"
	NodeGroupDeleting     NodeGroupStatus = "DELETING"
	NodeGroupCreateFailed NodeGroupStatus = "CREATE_FAILED"
	NodeGroupDeleteFailed NodeGroupStatus = "DELETE_FAILED"
	NodeGroupDegraded     NodeGroupStatus = "DEGRADED"
)

// NodeGroupIssue is a problem of a node group (EKS API reference, Issue). Resources has the Auto
// Scaling group's name, or a launch template's id or name.
type NodeGroupIssue struct {
	Code      IssueCode `json:"c"`
	Message   string    `json:"m"`
	Resources []string  `json:"r,omitempty"`
}

// IssueCode is the code of an issue, in EKS's words.
type IssueCode string

// The issue codes of the EKS API for a node group that cannot be created.
const (
	IssueGroupNotFound   IssueCode = "AutoScalingGroupNotFound"
	IssueGroup           IssueCode = "AutoScalingGroupInvalidConfiguration"
	IssueNoTemplate      IssueCode = "Ec2LaunchTemplateNotFound"
	IssueTemplateVersion IssueCode = "Ec2LaunchTemplateVersionMismatch"
	IssueTemplate        IssueCode = "Ec2LaunchTemplateInvalidConfiguration"
	IssueAccessDenied    IssueCode = "AccessDenied"
	IssueImage           IssueCode = "AmiIdNotFound"
	IssueSubnet          IssueCode = "Ec2SubnetNotFound"
	IssueNodeRole        IssueCode = "IamNodeRoleNotFound"
	IssueIAMLimit        IssueCode = "IamLimitExceeded"
	IssueLaunches        IssueCode = "AsgInstanceLaunchFailures"
	IssueNodes           IssueCode = "NodeCreationFailure"
)

// Sizes are the sizes of an Auto Scaling group, in instances.
type Sizes struct {
	Min     int `json:"mi,omitempty"`
	Max     int `json:"ma,omitempty"`
	Desired int `json:"de,omitempty"`
}

// UpdateConfig says how many nodes an update may take out of service at once (N1). At most one of
// the two numbers is set, from 1 to 100. If neither is, one node may be.
type UpdateConfig struct {
	MaxUnavailable           int            `json:"mu,omitempty"`
	MaxUnavailablePercentage int            `json:"mp,omitempty"`
	Strategy                 UpdateStrategy `json:"sg,omitempty"` // empty: DEFAULT
}

// MergedWith returns the configuration with what a caller gave. A number that is given replaces
// both.
func (c UpdateConfig) MergedWith(given UpdateConfig) UpdateConfig {
	if given.MaxUnavailable != 0 || given.MaxUnavailablePercentage != 0 {
		c.MaxUnavailable, c.MaxUnavailablePercentage = given.MaxUnavailable, given.MaxUnavailablePercentage
	}
	if given.Strategy != "" {
		c.Strategy = given.Strategy
	}
	return c
}

// UpdateStrategy says whether new nodes are launched before old ones go, in EKS's words.
type UpdateStrategy string

// The update strategies of the EKS API. DEFAULT launches new nodes first. MINIMAL terminates old
// nodes first, and needs no more nodes than there are.
const (
	UpdateDefault UpdateStrategy = "DEFAULT"
	UpdateMinimal UpdateStrategy = "MINIMAL"
)

// UpdateTarget is what nodes must be made of.
type UpdateTarget struct {
	Image          string `json:"im"` // the AMI; empty until it is read from SourceTemplate
	Version        string `json:"ve,omitempty"`
	ReleaseVersion string `json:"rv,omitempty"`
	// SourceTemplate and SourceName are the id and the name of the user's own launch template, and
	// SourceVersion is its version. They are empty for a regular node group. Until the template is
	// read, one of id and name may be missing, and the version may be empty, $Latest or $Default.
	SourceTemplate string `json:"lt,omitempty"`
	SourceName     string `json:"ln,omitempty"`
	SourceVersion  string `json:"lv,omitempty"`
	// AMIType is the kind of published image, in EKS's words, that the nodes have in a node group
	// that Berth makes. Until the image is read, an empty ReleaseVersion is the newest one.
	AMIType string `json:"at,omitempty"`
}

// UpdateStatus is the status of an update, in EKS's words.
type UpdateStatus string

// The update statuses of the EKS API.
const (
	UpdateInProgress UpdateStatus = "InProgress"
	UpdateFailed     UpdateStatus = "Failed"
	UpdateCancelled  UpdateStatus = "Cancelled"
	UpdateSuccessful UpdateStatus = "Successful"
)

// UpdateType says what an update changes, in EKS's words.
type UpdateType string

// The update types of the EKS API that a node group has.
const (
	UpdateVersion       UpdateType = "VersionUpdate"
	UpdateConfiguration UpdateType = "ConfigUpdate"
)

// UpdateParam is a parameter of an update, as DescribeUpdate shows it.
type UpdateParam struct {
	Type  string `json:"t"`
	Value string `json:"v"`
}

// UpdateErrorCode is the code of an update's error, in EKS's words.
type UpdateErrorCode string

// The error codes of the EKS API that an update of a node group ends with.
const (
	NodeCreationFailure   UpdateErrorCode = "NodeCreationFailure"
	PodEvictionFailure    UpdateErrorCode = "PodEvictionFailure"
	UpdateAccessDenied    UpdateErrorCode = "AccessDenied"
	OperationNotPermitted UpdateErrorCode = "OperationNotPermitted"
	UnknownUpdateError    UpdateErrorCode = "Unknown"
)

// UpdateError is why an update failed. Resources has EC2 instance ids, or the Auto Scaling group's
// name if no instance is the cause.
type UpdateError struct {
	Code      UpdateErrorCode `json:"c"`
	Message   string          `json:"m"`
	Resources []string        `json:"r,omitempty"`
}

// UpdatePhase is the stage of an update.
type UpdatePhase string

// The phases of an update (N1, N2, N4, N5). In PhaseRestore a failed update restores what it had
// changed.
const (
	PhaseSetup     UpdatePhase = "setup"
	PhaseScaleUp   UpdatePhase = "scale up"
	PhaseUpgrade   UpdatePhase = "upgrade"
	PhaseScaleDown UpdatePhase = "scale down"
	PhaseRestore   UpdatePhase = "restore"
)

// NodeStep is the stage of a node's removal.
type NodeStep string

// The steps of a removal (N4). StepStop follows StepDrain only if the update is forced. StepRelease
// puts a node back into service.
const (
	StepDrain     NodeStep = "drain"
	StepStop      NodeStep = "stop"
	StepCordon    NodeStep = "cordon"
	StepTerminate NodeStep = "terminate"
	StepRelease   NodeStep = "release"
)

// NodeRemoval is a node that an update is taking out of service.
type NodeRemoval struct {
	Instance string   `json:"i"`           // EC2 instance id
	Node     string   `json:"n,omitempty"` // container instance id; empty where it never registered
	Step     NodeStep `json:"s"`
	// StepSince is when the step began to wait; zero until it does. StepDrain waits again once the
	// node is DRAINING.
	StepSince time.Time `json:"at,omitzero"`
	// DrainingAt is when the node was first seen DRAINING.
	DrainingAt time.Time `json:"da,omitzero"`
	// Forced reports that its tasks are stopped regardless of their services' percentages.
	Forced bool `json:"f,omitempty"`
	// Foreign reports that somebody else had made it DRAINING before. Then it is not made ACTIVE
	// again.
	Foreign bool `json:"fo,omitempty"`
	// Surplus reports that the group's desired capacity falls by one with the node.
	Surplus bool `json:"su,omitempty"`
	// NeverInService reports that the node never came into service, so that nothing is lost with
	// it.
	NeverInService bool `json:"b,omitempty"`
}

// UpdateTimeouts says how long an update waits.
type UpdateTimeouts struct {
	Launch    time.Duration `json:"l"`  // for nodes launched to be Ready
	Drain     time.Duration `json:"d"`  // for tasks to leave a DRAINING node
	Stop      time.Duration `json:"s"`  // for tasks stopped by force
	Cordon    time.Duration `json:"c"`  // between the end of the last task and the termination
	Terminate time.Duration `json:"t"`  // for a node being terminated to be gone
	Domain    time.Duration `json:"dm"` // after each upgrade domain
	Health    time.Duration `json:"h"`  // after that, for what is unhealthy to recover
}

// Update is the row of one update of a node group (N6). It holds all that the update needs to
// continue after a crash at any point.
//
// The row is in parts, so that each phase has the fields that it alone writes in one place. The
// parts are embedded and their order is fixed: rows are stored as JSON objects whose keys come in
// the order of the fields, and the state's hash is taken over those bytes.
type Update struct {
	Head
	NodeGroup string        `json:"ng"` // name
	ID        string        `json:"id"`
	Status    UpdateStatus  `json:"st"`
	Type      UpdateType    `json:"ty"`
	Params    []UpdateParam `json:"pa,omitempty"`
	Errors    []UpdateError `json:"er,omitempty"`
	CreatedAt time.Time     `json:"ca"`
	EndedAt   time.Time     `json:"ea,omitzero"`
	// Digest is a digest of the request, to recognise a repeated clientRequestToken.
	Digest string `json:"dg,omitempty"`

	UpdateSpec
	UpdateProgress
	UpdateBaseline
	NodeReplacement
	SurplusRemoval
}

// UpdateSpec is what an update was asked to do. Nothing in it changes once the update has its
// target.
type UpdateSpec struct {
	Target UpdateTarget `json:"ta"`
	Config UpdateConfig `json:"uc"`
	Force  bool         `json:"fo,omitempty"`
	// Sizes and Labels are the requested changes of the group's sizes and of its nodes' labels;
	// both are nil in an update of the nodes.
	Sizes  *SizesChange  `json:"sz,omitempty"`
	Labels *LabelsChange `json:"lc,omitempty"`
	// ForceProtected lets Force stop protected tasks, too.
	ForceProtected bool           `json:"fp,omitempty"`
	Seed           uint64         `json:"se,omitempty"` // of all random choices
	Timeouts       UpdateTimeouts `json:"wa"`
	// UnrestoredSizes and LeftSizes are set if an earlier update ended without restoring the
	// group's sizes. The former are those that it should have restored, the latter those that it
	// left. LeftScaleOuts is the ScaleOuts of the group's provider when it left them; nil if unknown.
	UnrestoredSizes *Sizes `json:"be,omitempty"`
	LeftSizes       *Sizes `json:"lf,omitempty"`
	LeftScaleOuts   *int   `json:"lo,omitempty"`
}

// UpdateProgress says where an update is, and what it waits for.
type UpdateProgress struct {
	Phase UpdatePhase `json:"ph"`
	// WaitingSince is when the phase began to wait; zero until it does.
	WaitingSince time.Time `json:"si,omitzero"`
	// ReconciledAt is when the update was last reconciled, to the minute.
	// Time in which it was not reconciled does not count as waiting.
	ReconciledAt time.Time `json:"la,omitzero"`
	// WaitingFor is what the update waits for, in words.
	WaitingFor string `json:"wt,omitempty"`
	// Asked has the changes that the update has asked for and has not seen yet. It continues when it
	// sees them, or a minute later: until then a call whose answer was lost may still take effect.
	Asked []AskedChange `json:"ak,omitempty"`
	// Denied has the changes that a failed update needs to restore the group, and that AWS
	// has denied since WaitingSince.
	Denied []AskedChange `json:"dn,omitempty"`
}

// AskedChange is one change of the group or of a node that an update has asked for.
type AskedChange struct {
	Kind     string    `json:"k"`
	Instance string    `json:"i,omitempty"` // EC2 instance id; empty for the group
	Template string    `json:"t,omitempty"`
	Max      int       `json:"m,omitempty"`
	Desired  int       `json:"d,omitempty"`
	At       time.Time `json:"at"`
}

// UpdateBaseline is the group as an update found it, and what the update derives from that for its
// whole run.
type UpdateBaseline struct {
	// OriginalSizes has the sizes that the update restores at its end; nil until it has read them.
	OriginalSizes    *Sizes         `json:"or,omitempty"`
	OriginalTemplate string         `json:"ot,omitempty"` // launch template version
	Zones            map[string]int `json:"zo,omitempty"` // nodes by availability zone
	// PreviousTemplate is the launch template version that the update before made for the same
	// target; empty if it made none.
	PreviousTemplate string `json:"pv,omitempty"`
	// Template is the launch template version that new nodes are made from.
	Template string `json:"te,omitempty"`
	// InitiallyUnready has the EC2 instance ids of nodes that were made from Template before the
	// update began and were not connected. They do not show that the template works.
	InitiallyUnready []string `json:"ur,omitempty"`
	MaxUnavailable   int      `json:"mu,omitempty"`
	// Surge is how many nodes the update adds while it replaces old ones.
	Surge int `json:"su,omitempty"`
	// AddedByOthers is how many nodes others added before the update had enlarged the group.
	AddedByOthers int `json:"ad,omitempty"`
	// KnownMaxima has the group's maximum at the start, and every one that the update has set.
	// UserMax is a maximum that somebody else has set since, and that the update therefore leaves;
	// nil if there is none.
	KnownMaxima []int `json:"mx,omitempty"`
	UserMax     *int  `json:"ux,omitempty"`
}

// NodeReplacement is what PhaseUpgrade remembers about the nodes that it replaces.
type NodeReplacement struct {
	// RequiredNodes is how many nodes were in service when the first old one was taken out.
	// As many must be in service again before the next one is.
	RequiredNodes int `json:"no,omitempty"`
	// Shortage is set while fewer nodes than that are in service.
	Shortage NodeShortage `json:"sh,omitzero"`
	// StalledSince is since when no old node can be taken: they do not become unschedulable, or are
	// neither in service nor gone.
	StalledSince time.Time `json:"sw,omitzero"`
	// Refusals is why ECS refused the last change of a node, by EC2 instance id.
	Refusals map[string]string `json:"rf,omitempty"`
	// Removals has the nodes that are being taken out of service.
	Removals []NodeRemoval `json:"wo,omitempty"`
	// DrainedNodes has the EC2 instance ids of the group's nodes that the update has asked ECS to
	// drain. The others that are DRAINING were drained by somebody else.
	DrainedNodes []string `json:"dr,omitempty"`
	// ByDomain is set if the nodes have upgrade domains (N7).
	// CurrentDomain is the one being replaced, DomainReplacedAt when its last node was replaced.
	ByDomain         bool      `json:"bd,omitempty"`
	CurrentDomain    string    `json:"do,omitempty"`
	DomainReplacedAt time.Time `json:"dd,omitzero"`
	// UnhealthyBefore names what was unhealthy already when the domain began.
	UnhealthyBefore []string `json:"ss,omitempty"`
}

// SurplusRemoval is what PhaseScaleDown and PhaseRestore remember while they restore the group.
type SurplusRemoval struct {
	// RevertTemplate is set if the group must launch from its original template again.
	RevertTemplate bool `json:"rt,omitempty"`
	// DesiredFloor is the desired capacity to restore, and ScaleDownSince when that began; nil
	// before.
	DesiredFloor   *int      `json:"fl,omitempty"`
	ScaleDownSince time.Time `json:"fa,omitzero"`
	// ObservedDesired is the desired capacity at the last reconciliation, while a change of it by
	// others matters: before the group is enlarged, and while the surplus is removed.
	ObservedDesired int `json:"de,omitempty"`
	// RetainedNodes has the EC2 instance ids of surplus nodes that could not be emptied,
	// RetainedReasons why not.
	RetainedNodes   []string `json:"ke,omitempty"`
	RetainedReasons []string `json:"bl,omitempty"`
	// ReleasingSince is since when nothing is left to do but to put nodes back into service.
	// AbandonedNodes has the EC2 instance ids of those for which ECS refuses it.
	ReleasingSince time.Time `json:"un,omitzero"`
	AbandonedNodes []string  `json:"ab,omitempty"`
	// SizesReason is why the group keeps sizes other than the original ones although nothing failed
	// (N5). FinalSizes has the sizes that it keeps, nil if the group was deleted. FinalScaleOuts has
	// the ScaleOuts of the group's provider at that time. Both are nil in rows of earlier versions.
	SizesReason    string `json:"sd,omitempty"`
	FinalSizes     *Sizes `json:"fi,omitempty"`
	FinalScaleOuts *int   `json:"fs,omitempty"`
}

// NodeShortage is since when nodes have been missing, and how many new ones were Ready when one
// last became so.
type NodeShortage struct {
	Since time.Time `json:"s"`
	Ready int       `json:"r"`
}

// HasEnded reports whether the update is over, successful or not.
func (u *Update) HasEnded() bool { return u.Status != UpdateInProgress }

// RemovalOf returns the removal of the node with an EC2 instance id, or nil.
func (u *Update) RemovalOf(instance string) *NodeRemoval {
	i := slices.IndexFunc(u.Removals, func(n NodeRemoval) bool { return n.Instance == instance })
	if i < 0 {
		return nil
	}
	return &u.Removals[i]
}

// IsUpgrading reports whether an update of the nodes is in progress. An update of the sizes adds no
// surplus nodes.
func (g *NodeGroup) IsUpgrading() bool { return g.Status == NodeGroupUpdating && g.ConfigUpdate == "" }

// NodeGroupRef names a node group. The id tells it from earlier ones of the same name.
type NodeGroupRef struct {
	Cluster string `json:"c"`
	Name    string `json:"n"`
	ID      string `json:"i"`
}

// Ref returns the reference to the node group that a group's use has.
func (g *NodeGroup) Ref() NodeGroupRef { return NodeGroupRef{g.Cluster, g.Name, g.ID} }

// AutoScalingTag is the tag of CreateNodegroup that names the node group's Auto Scaling group.
// Without it Berth makes one.
const AutoScalingTag = "berth:auto-scaling-group"

// SizesChange has the members of a scalingConfig. Nil leaves a size as it is.
type SizesChange struct {
	Min     *int `json:"mi,omitempty"`
	Max     *int `json:"ma,omitempty"`
	Desired *int `json:"de,omitempty"`
}

// ApplyTo returns the sizes after the change. As with EKS, the desired size does not follow a minimum
// or a maximum: a change that it contradicts is an InvalidParameterException, as impossible sizes are.
func (c SizesChange) ApplyTo(s Sizes) (Sizes, error) {
	for _, m := range []struct{ to, from *int }{{&s.Min, c.Min}, {&s.Max, c.Max}, {&s.Desired, c.Desired}} {
		if m.from != nil {
			*m.to = *m.from
		}
	}
	return s, s.Validate()
}

// Validate returns an InvalidParameterException for a change that no group's sizes allow. Sizes that
// are not given are taken as those that fit best.
func (c SizesChange) Validate() error {
	fitting := Sizes{Max: math.MaxInt32}
	if c.Min != nil {
		fitting.Desired = *c.Min
	}
	_, err := c.ApplyTo(fitting)
	return err
}

// Validate returns an InvalidParameterException for sizes that a node group cannot have (EKS API
// reference, NodegroupScalingConfig). The sizes of an Auto Scaling group are integers of 32 bits.
func (s Sizes) Validate() error {
	switch {
	case s.Min < 0 || s.Max < 1:
		return Errorf(CodeInvalidParameter, "minSize must be at least 0 and maxSize at least 1")
	case max(s.Min, s.Max, s.Desired) > math.MaxInt32:
		return Errorf(CodeInvalidParameter, "minSize, maxSize and desiredSize must be at most %d", math.MaxInt32)
	case s.Min > s.Max:
		return Errorf(CodeInvalidParameter, "Minimum capacity %d can't be greater than maximum size %d", s.Min, s.Max)
	case s.Desired < s.Min:
		return Errorf(CodeInvalidParameter, "Minimum capacity %d can't be greater than desired size %d", s.Min,
			s.Desired)
	case s.Desired > s.Max:
		return Errorf(CodeInvalidParameter, "desired capacity %d can't be greater than max size %d", s.Desired, s.Max)
	}
	return nil
}
