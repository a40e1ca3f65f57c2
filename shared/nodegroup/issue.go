package nodegroup

import (
	"cmp"
	"fmt"
	"strings"

	"berth/shared/cluster"
)

// ParseTemplate reads a launch template version given as ID:VERSION.
func ParseTemplate(s string) cluster.TemplateRef {
	id, version, _ := strings.Cut(s, ":")
	return cluster.TemplateRef{ID: id, Version: version}
}

// UnfitIssue says why an Auto Scaling group cannot be a node group's; nil if it can. Found has the
// group, if there is one.
func UnfitIssue(name string, found []*cluster.AutoScalingGroup) *cluster.NodeGroupIssue {
	issue := &cluster.NodeGroupIssue{Code: cluster.IssueGroup, Resources: []string{name}}
	switch {
	case len(found) == 0:
		issue.Code, issue.Message = cluster.IssueGroupNotFound, "There is no Auto Scaling group "+name
	case found[0].Template == "":
		issue.Message = fmt.Sprintf("The Auto Scaling group %s has no launch template", name)
	case ParseTemplate(found[0].Template).Version == "$Latest":
		// The version that an update makes would be the latest at once: before it is its time, and
		// after a failure.
		issue.Message = fmt.Sprintf(
			"The Auto Scaling group %s launches $Latest of its launch template; it must name a version", name)
	case found[0].OwnTemplates:
		issue.Message = OwnTemplatesMessage(name)
	default:
		return nil
	}
	return issue
}

// ElsewhereIssue says that an instance of the group belongs to another cluster.
func ElsewhereIssue(group, instance, clusterName string) *cluster.NodeGroupIssue {
	return &cluster.NodeGroupIssue{
		Code: cluster.IssueGroup, Resources: []string{group, instance},
		Message: fmt.Sprintf("Instance %s of the Auto Scaling group %s has registered with cluster "+
			"%s", instance, group, clusterName),
	}
}

// OwnTemplatesMessage says why a group with several launch templates is refused: an update changes
// only one of them, and nodes made from the others would never be up to date.
func OwnTemplatesMessage(group string) string {
	return fmt.Sprintf("Instance types of the mixed instances policy of the Auto Scaling group %s have "+
		"launch templates of their own; there must be one", group)
}

// GroupIssue returns an error of Auto Scaling as an issue if it is permanent, and otherwise the
// error itself.
func GroupIssue(err error, group string) (*cluster.NodeGroupIssue, error) {
	return permanentIssue(err, cluster.IssueGroup, group)
}

// TemplateIssue returns an error about a launch template as an issue if it is permanent, and
// otherwise the error itself.
func TemplateIssue(err error, template string) (*cluster.NodeGroupIssue, error) {
	code := cluster.IssueTemplate
	switch text := string(cluster.ErrorCode(err)); {
	case strings.HasPrefix(text, "InvalidLaunchTemplate") && strings.Contains(text, "Version"):
		code = cluster.IssueTemplateVersion
	case strings.HasPrefix(text, "InvalidLaunchTemplate"):
		code = cluster.IssueNoTemplate
	}
	return permanentIssue(err, code, template)
}

func permanentIssue(err error, code cluster.IssueCode, resource string) (*cluster.NodeGroupIssue, error) {
	why := cluster.PermanentError(err)
	if why == nil {
		return nil, err
	}
	if cluster.IsAccessDenied(why.Code) {
		code = cluster.IssueAccessDenied
	}
	return &cluster.NodeGroupIssue{
		Code: code, Message: fmt.Sprintf("%s: %s", why.Code, why.Message), Resources: []string{resource},
	}, nil
}

// RegularTarget completes the target of a new node group without a launch template of the user's
// own with the image that its machines have. It fails if the releaseVersion names another image by
// its id; names and parameters are not compared.
func RegularTarget(t cluster.UpdateTarget, lt *cluster.LaunchTemplate) (cluster.UpdateTarget, error) {
	if t.ReleaseVersion != lt.Image && IsImageID(t.ReleaseVersion) && IsImageID(lt.Image) {
		return t, cluster.Errorf(cluster.CodeInvalidParameter,
			"releaseVersion is %s, but version %d of launch template %s, from which the Auto Scaling group "+
				"launches, has %s. Leave it out, and update the node group to it once it is ACTIVE.",
			t.ReleaseVersion, lt.Version, lt.ID, lt.Image)
	}
	t.Image = lt.Image
	return t, nil
}

// IsImageID reports whether s is the id of an AMI, rather than a name or a parameter.
func IsImageID(s string) bool { return strings.HasPrefix(s, "ami-") }

// RefusalError returns a permanent refusal by another API as an update's error, with the resource
// that it is about.
func RefusalError(why *cluster.Error, resource string) cluster.UpdateError {
	e := cluster.UpdateError{Code: cluster.OperationNotPermitted, Message: fmt.Sprintf("%s: %s", why.Code, why.Message)}
	if cluster.IsAccessDenied(why.Code) {
		e.Code = cluster.UpdateAccessDenied
	}
	if resource != "" {
		e.Resources = []string{resource}
	}
	return e
}

// ActionError returns the error that an update fails with because an action failed; nil if the
// action is tried again. An action on a single node fails the update only for lack of permissions:
// the node may have terminated since.
func ActionError(group string, a Action, err error) *cluster.UpdateError {
	why := cluster.PermanentError(err)
	if why == nil || a.Instance != "" && !cluster.IsAccessDenied(why.Code) {
		return nil
	}
	e := RefusalError(why, cmp.Or(a.Instance, a.Template, group))
	e.Message = fmt.Sprintf("%s: %s", a, e.Message)
	return &e
}

// GroupGoneError is the error of an update whose Auto Scaling group was deleted.
func GroupGoneError(group string) cluster.UpdateError {
	return cluster.UpdateError{
		Code: cluster.OperationNotPermitted, Message: "The Auto Scaling group no longer exists",
		Resources: []string{group},
	}
}
