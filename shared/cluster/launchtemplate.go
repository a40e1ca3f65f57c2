package cluster

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// TemplateRef names a version of a launch template, by id or by name. The version is a number,
// $Latest or $Default.
type TemplateRef struct{ ID, Name, Version string }

// LaunchTemplate is one version of an EC2 launch template.
type LaunchTemplate struct {
	ID       string
	Name     string
	Version  int64
	Image    string // the AMI's id; empty if the version names none
	UserData string // plain, not base64
	// Type is the instance type, or empty. Requirements is the attribute-based selection of
	// instance types that the version has instead, as JSON, or empty.
	Type, Requirements string
	// Settings are those present of [NodeGroupSettings], separated by commas.
	Settings string
}

// Settings that a launch template cannot have from which Berth makes a node group, by the names of
// EC2's members: the node group says it, or it would break an update (EKS user guide, launch
// templates).
const (
	SettingProfile     = "IamInstanceProfile"
	SettingSpot        = "InstanceMarketOptions"
	SettingHibernation = "HibernationOptions"
	SettingShutdown    = "InstanceInitiatedShutdownBehavior"
	SettingSubnet      = "NetworkInterfaces.SubnetId"
)

// NodeGroupSettings are all of those settings.
var NodeGroupSettings = []string{SettingProfile, SettingSpot, SettingHibernation, SettingShutdown, SettingSubnet}

// String returns ID:VERSION.
func (t *LaunchTemplate) String() string { return t.ID + ":" + strconv.FormatInt(t.Version, 10) }

// NewTemplateVersion is a launch template version to create: a copy of another one, with another
// image or other user data.
type NewTemplateVersion struct {
	Template    string // id of the template that gets it
	From        TemplateRef
	Description string
	Image       string // the AMI, by id or by name; empty: that of From
	UserData    string // plain, not base64; empty: that of From
	Profile     string // name of the instance profile; empty: that of From
}

// FailedLaunch is an instance that an Auto Scaling group could not launch.
type FailedLaunch struct {
	At      time.Time
	Zone    string // empty if the activity names none
	Code    string // EC2's error code; empty if the activity has only a message
	Message string
}

// ParseLaunchFailure parses a status message of Auto Scaling: "Could not launch On-Demand
// Instances. InsufficientInstanceCapacity - We currently do not have sufficient capacity ..." has
// the code InsufficientInstanceCapacity. Without a code, the whole text is the message.
func ParseLaunchFailure(message string) FailedLaunch {
	before, after, ok := strings.Cut(message, " - ")
	code := before[strings.LastIndexByte(before, ' ')+1:]
	if !ok || code == "" || strings.ContainsFunc(code, func(r rune) bool { return !unicode.IsLetter(r) && r != '.' }) {
		return FailedLaunch{Message: message}
	}
	return FailedLaunch{Code: code, Message: after}
}

// InstanceType is an EC2 instance type and its size, as EC2 describes it.
type InstanceType struct {
	Name   string `json:"n"`
	VCPUs  int    `json:"c"`
	Memory int64  `json:"m"` // MiB, including what the kernel keeps
	// GPUs are those of NVIDIA, the only ones that ECS gives to tasks.
	GPUs int `json:"g,omitempty"`
	// Interfaces is how many network interfaces an instance can have, including its own.
	Interfaces int `json:"i,omitempty"`
	// Architecture is x86_64 or arm64.
	Architecture string `json:"a,omitempty"`
}

// LaunchTypes are the instance types that an Auto Scaling group launches, as last read.
type LaunchTypes struct {
	// Types are empty if they are unknown.
	Types []InstanceType `json:"t,omitempty"`
	// ByAttributes reports that the group selects types by attributes. Then Types has only those
	// with the least or the most of something.
	ByAttributes bool `json:"a,omitempty"`
	// Source is the group's [AutoScalingGroup.LaunchSource] that they were read from.
	Source string    `json:"s,omitempty"`
	ReadAt time.Time `json:"at,omitzero"`
}

// NewTemplate is a launch template to create.
type NewTemplate struct {
	Name string
	// From is a version of another template that this one copies, except for image, profile, and
	// user data if there is some; empty for none. The volume is that of From then.
	From     TemplateRef
	Image    string // the AMI's id
	Profile  string // name of the instance profile
	UserData string // plain, not base64
	// DiskSize is the size in GiB of the volume that is attached as Device.
	DiskSize int
	Device   string
	Tags     map[string]string
}

// NewAutoScalingGroup is an Auto Scaling group to create. Its instances do not inherit its tags.
type NewAutoScalingGroup struct {
	Name     string
	Template TemplateRef // with a numbered version
	Types    []string    // instance types in order of preference
	Spot     bool
	Subnets  []string
	Sizes    Sizes
	Tags     map[string]string
}

// NewProfile is an instance profile to create, with the one role that it has.
type NewProfile struct {
	Name string
	Role string // name
	Tags map[string]string
}

// Machines says what the nodes of a node group are made of that Berth makes itself: its Auto
// Scaling group, its launch template and its instance profile, which all have the name
// [NodeGroup.AutoScalingGroup].
type Machines struct {
	InstanceTypes []string     `json:"it"`           // in order of preference
	DiskSize      int          `json:"ds,omitempty"` // GiB
	CapacityType  CapacityType `json:"ct"`
	// CreatingSince is when node-group-upgrade last began to create what was missing. A call that
	// was made then may take effect later, so nothing is forgotten for a while.
	CreatingSince time.Time `json:"cs,omitzero"`
	// LaunchTemplate is the launch template version that the last change of labels or nodes has the
	// group launch from; empty before the first.
	LaunchTemplate string `json:"lt,omitempty"`
}

// CapacityType says how the nodes are paid for, in EKS's words.
type CapacityType string

// The capacity types that Berth serves.
const (
	OnDemand CapacityType = "ON_DEMAND"
	Spot     CapacityType = "SPOT"
)

// IsMade reports whether Berth makes the node group's Auto Scaling group, and so also deletes it.
func (g *NodeGroup) IsMade() bool { return g.Machines != nil }

// HasOwnTemplate reports whether nodes are made from a launch template of the user's own.
func (t UpdateTarget) HasOwnTemplate() bool { return t.SourceTemplate != "" || t.SourceName != "" }

// MadeName returns the name of everything that an installation makes for a node group. Its role may
// create only what is named so.
func MadeName(installation, nodeGroup string) string {
	return "berth-" + installation + "-" + nodeGroup
}
