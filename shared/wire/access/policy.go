package access

import (
	"slices"
	"strings"

	"berth/shared/cluster"
)

// Right is what an operation needs.
type Right string

// The rights. Each allows its own operations and no others.
const (
	Read             Right = "read"
	Write            Right = "write"
	ManageNodeGroups Right = "manage node groups"
)

// nodeGroupOperations change Auto Scaling groups: directly, or through managed scaling.
var nodeGroupOperations = map[string]bool{
	"CreateNodegroup":        true,
	"UpdateNodegroupConfig":  true,
	"UpdateNodegroupVersion": true,
	"DeleteNodegroup":        true,
	"CreateCapacityProvider": true,
	"UpdateCapacityProvider": true,
	"DeleteCapacityProvider": true,
}

// RightFor returns the right that an operation needs, by its plain name such as "CreateService". An
// operation that is not known to be harmless needs [Write].
func RightFor(operation string) Right {
	switch {
	case nodeGroupOperations[operation]:
		return ManageNodeGroups
	case strings.HasPrefix(operation, "Describe"), strings.HasPrefix(operation, "List"),
		strings.HasPrefix(operation, "Get"), strings.HasPrefix(operation, "Plan"):
		return Read
	}
	return Write
}

// Policy says who has which right. The zero Policy lets every identified caller read, and change
// nothing. A nil *Policy checks nothing: a server on loopback without credentials has none.
type Policy struct {
	// Writers and NodeGroupManagers are the ARNs of users and roles; * stands for any text. The ARN
	// of a role stands for all sessions of that role.
	Writers, NodeGroupManagers []string
}

// Check returns nil if the principal may call the operation, else an AccessDeniedException that
// names both. The principal is the ARN of a user or of a role's session.
func (p *Policy) Check(principal, operation string) error {
	return p.CheckRight(principal, operation, RightFor(operation))
}

// CheckRight returns nil if the principal has the right, else an AccessDeniedException that names
// both and the operation. It is for requests that need more than their operation's own right.
func (p *Policy) CheckRight(principal, operation string, right Right) error {
	if p == nil {
		return nil
	}
	if principal == "" {
		return cluster.Errorf(cluster.CodeAccessDenied, "The request does not say who calls %.100s.", operation)
	}
	if right == Read || matchesAny(p.allowed(right), principal) {
		return nil
	}
	return cluster.Errorf(cluster.CodeAccessDenied,
		"User: %.2048s is not authorized to perform: %.100s. It needs the right to %s: the stack's parameter %s gives "+
			"it, or `rights` in the file of berth up --credentials.",
		principal, operation, right, parameters[right])
}

// parameters are the parameters of template.yaml that list who has a right.
var parameters = map[Right]string{Write: "WriterArns", ManageNodeGroups: "NodeGroupManagerArns"}

func (p *Policy) allowed(right Right) []string {
	if right == ManageNodeGroups {
		return p.NodeGroupManagers
	}
	return p.Writers
}

func matchesAny(patterns []string, principal string) bool {
	if principal == "" {
		return false
	}
	role := roleOf(principal)
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if role != "" && !strings.Contains(pattern, ":sts:") {
			// Who assumes a role chooses the session's name, so *deployer must not match it.
			return matchesPattern(withoutPath(pattern), role)
		}
		return matchesPattern(pattern, principal)
	})
}

// roleOf returns the ARN of the role behind a session, without the role's path, which the session's
// ARN does not have: arn:aws:sts::123456789012:assumed-role/deployer/ci gives
// arn:aws:iam::123456789012:role/deployer. It is empty for any other principal.
func roleOf(principal string) string {
	parts := strings.SplitN(principal, ":", 6)
	if len(parts) != 6 || parts[2] != "sts" {
		return ""
	}
	rest, assumed := strings.CutPrefix(parts[5], "assumed-role/")
	name, _, session := strings.Cut(rest, "/")
	if !assumed || !session || name == "" {
		return ""
	}
	return strings.Join([]string{parts[0], parts[1], "iam", "", parts[4], "role/" + name}, ":")
}

// WithoutSession returns the ARN of the role behind a session or the role itself, without its path;
// any other principal as it is.
func WithoutSession(principal string) string {
	if role := roleOf(principal); role != "" {
		return role
	}
	return withoutPath(principal)
}

// withoutPath returns the ARN of a role without its path: role/ci/deployer becomes role/deployer.
// Role names are unique in an account, regardless of their paths. A pattern stays as it is: without
// its path, role/ci/* would be every role.
func withoutPath(arn string) string {
	before, rest, ok := strings.Cut(arn, ":role/")
	if !ok || strings.Contains(arn, "*") {
		return arn
	}
	return before + ":role/" + rest[strings.LastIndexByte(rest, '/')+1:]
}

// matchesPattern reports whether the text is the pattern, in which * stands for any text.
func matchesPattern(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
