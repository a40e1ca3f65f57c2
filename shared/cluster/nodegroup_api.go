package cluster

import (
	"strconv"
	"strings"
	"time"
	"unicode"
)

// AutoScalingTag is the tag of CreateNodegroup that names the Auto Scaling group whose instances are the node group's.
// Berth launches no group of its own: those that a cluster's container instances come from are there already.
const AutoScalingTag = "berth:auto-scaling-group"

// TemplateRef names a version of a launch template: by id or by name; the version is a number, $Latest or $Default.
type TemplateRef struct{ ID, Name, Version string }

// LaunchTemplate is one version of an EC2 launch template.
type LaunchTemplate struct {
	ID      string
	Name    string
	Version int64
	Image   string // the AMI's id; empty where the version names none
}

// String is the version as [Update.Template] has it, ID:VERSION.
func (t *LaunchTemplate) String() string { return t.ID + ":" + strconv.FormatInt(t.Version, 10) }

// NewTemplateVersion is a launch template version to be made: like another, of this or another template, but for the image.
type NewTemplateVersion struct {
	Template    string // id of the template that gets it
	From        TemplateRef
	Description string
	Image       string // the AMI, by id or by name
}

// NodeGroupSpec is what CreateNodegroup was given.
type NodeGroupSpec struct {
	Cluster          string
	Name             string
	AutoScalingGroup string
	Sizes            *Sizes // nil leaves the Auto Scaling group's
	Config           UpdateConfig
	Version          string
	ReleaseVersion   string       // the AMI's name; empty: what the Auto Scaling group launches
	Template         *TemplateRef // the user's own
	Subnets          []string
	Role             string
	Labels           map[string]string
	Tags             map[string]string
	Token            string // clientRequestToken
	Params           string // digest of all parameters, see [Digest]
}

// NodeGroupChange is what UpdateNodegroupConfig was given; nil leaves a part.
type NodeGroupChange struct {
	Cluster   string
	NodeGroup string
	Sizes     *SizesChange
	Config    *UpdateConfig
	Token     string
	Params    string
}

// SizesChange are the members of a scalingConfig; nil leaves one.
type SizesChange struct {
	Min     *int `json:"mi,omitempty"`
	Max     *int `json:"ma,omitempty"`
	Desired *int `json:"de,omitempty"`
}

// Apply is s after the change; a desired capacity that was not given stays within the others, as with Auto Scaling. Sizes that
// cannot be are an InvalidParameterException.
func (c SizesChange) Apply(s Sizes) (Sizes, error) {
	for _, m := range []struct{ to, from *int }{{&s.Min, c.Min}, {&s.Max, c.Max}, {&s.Desired, c.Desired}} {
		if m.from != nil {
			*m.to = *m.from
		}
	}
	if c.Desired == nil {
		s.Desired = max(s.Min, min(s.Desired, s.Max))
	}
	return s, s.Check()
}

// Check refuses, with InvalidParameterException, sizes that a node group cannot have (EKS API reference,
// NodegroupScalingConfig).
func (s Sizes) Check() error {
	switch {
	case s.Min < 0 || s.Max < 1:
		return Errorf(CodeInvalidParameter, "minSize must be at least 0 and maxSize at least 1")
	case s.Min > s.Max:
		return Errorf(CodeInvalidParameter, "Minimum capacity %d can't be greater than maximum size %d", s.Min, s.Max)
	case s.Desired < s.Min:
		return Errorf(CodeInvalidParameter, "Minimum capacity %d can't be greater than desired size %d", s.Min, s.Desired)
	case s.Desired > s.Max:
		return Errorf(CodeInvalidParameter, "desired capacity %d can't be greater than max size %d", s.Desired, s.Max)
	}
	return nil
}

// VersionChange is what UpdateNodegroupVersion was given.
type VersionChange struct {
	Cluster        string
	NodeGroup      string
	Version        string
	ReleaseVersion string
	Template       *TemplateRef
	Force          bool
	ForceProtected bool
	// DryRun has the update made and not begun.
	DryRun bool
	Token  string
	Params string
}

// NodeGroupQuery selects node groups in order of name, or the updates of a node group in order of id.
type NodeGroupQuery struct {
	Cluster   string
	NodeGroup string // of updates
	After     string
	Limit     int
}

// FailedLaunch is an instance that an Auto Scaling group could not launch.
type FailedLaunch struct {
	At      time.Time
	Zone    string // empty where the activity names none
	Code    string // of EC2; empty where the activity has only a message
	Message string
}

// LaunchFailure reads a status message of Auto Scaling's, such as "Could not launch On-Demand Instances.
// InsufficientInstanceCapacity - We currently do not have sufficient capacity ...": the code is the word before the dash.
func LaunchFailure(message string) FailedLaunch {
	before, after, ok := strings.Cut(message, " - ")
	code := before[strings.LastIndexByte(before, ' ')+1:]
	if !ok || code == "" || strings.ContainsFunc(code, func(r rune) bool { return !unicode.IsLetter(r) && r != '.' }) {
		return FailedLaunch{Message: message}
	}
	return FailedLaunch{Code: code, Message: after}
}
