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
	ID      string
	Name    string
	Version int64
	Image   string // the AMI's id; empty if the version names none
}

// String returns ID:VERSION.
func (t *LaunchTemplate) String() string { return t.ID + ":" + strconv.FormatInt(t.Version, 10) }

// NewTemplateVersion is a launch template version to create: a copy of another one, with another
// image.
type NewTemplateVersion struct {
	Template    string // id of the template that gets it
	From        TemplateRef
	Description string
	Image       string // the AMI, by id or by name
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
