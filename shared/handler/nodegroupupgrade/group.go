package nodegroupupgrade

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// create looks at what a CREATING node group is to be made of, sets the sizes that it is to have, and says what became of
// it.
func (n *Handler) create(ctx context.Context, g *cluster.NodeGroup) error {
	next := *g
	next.Rev++
	issue, err := n.made(ctx, &next)
	if err != nil {
		return err
	}
	next.Status, next.Issues, next.ModifiedAt = cluster.NodeGroupActive, nil, n.Clock.Now()
	if issue != nil {
		next.Status, next.Issues = cluster.NodeGroupCreateFailed, []cluster.NodeGroupIssue{*issue}
	}
	_, err = n.State.Write(ctx, state.Write{Put: &next})
	return state.IgnoreConflict(err)
}

// made completes a new node group: its sizes and target. An issue says why it cannot be, an error why it cannot be yet.
func (n *Handler) made(ctx context.Context, g *cluster.NodeGroup) (*cluster.NodeGroupIssue, error) {
	groups, err := n.Auto.DescribeGroups(ctx, []string{g.AutoScalingGroup})
	if err != nil {
		return groupIssue(err, g.AutoScalingGroup)
	}
	if why := unfit(g.AutoScalingGroup, groups); why != nil {
		return why, nil
	}
	auto := groups[0]
	target, of := g.Target, cmp.Or(g.Target.SourceTemplate, g.Target.SourceName)
	if of != "" {
		target, err = n.custom(ctx, target)
	} else {
		of = templateOf(auto.Template).ID
		target, err = n.regular(ctx, target, templateOf(auto.Template))
	}
	if err != nil {
		return templateIssue(err, of)
	}
	g.Target = target
	if g.Sizes.Max == 0 {
		g.Sizes = cluster.Sizes{Min: auto.Min, Max: auto.Max, Desired: auto.Desired}
		return nil, nil
	}
	return groupIssue(n.Updates.SetSizes(ctx, auto.Name, cluster.SizesChange{Min: &g.Sizes.Min, Max: &g.Sizes.Max, Desired: &g.Sizes.Desired}), auto.Name)
}

// unfit says why an Auto Scaling group cannot be a node group's.
func unfit(name string, found []*cluster.AutoScalingGroup) *cluster.NodeGroupIssue {
	issue := &cluster.NodeGroupIssue{Code: cluster.IssueGroup, Resources: []string{name}}
	switch {
	case len(found) == 0:
		issue.Code, issue.Message = cluster.IssueGroupNotFound, "There is no Auto Scaling group "+name
	case found[0].Template == "":
		issue.Message = fmt.Sprintf("The Auto Scaling group %s has no launch template", name)
	case templateOf(found[0].Template).Version == "$Latest":
		// The version that an update makes would be the latest at once, before its time and after its failure.
		issue.Message = fmt.Sprintf("The Auto Scaling group %s launches $Latest of its launch template; it must name a version", name)
	case found[0].OwnTemplates:
		issue.Message = ownTemplates(name)
	default:
		return nil
	}
	return issue
}

// ownTemplates says why a group with several launch templates is refused: nodes made from those of instance types would never
// be up to date.
func ownTemplates(name string) string {
	return fmt.Sprintf("Instance types of the mixed instances policy of the Auto Scaling group %s have launch templates of their own; there must be one", name)
}

// groupIssue is what Auto Scaling refuses for good as an issue, and any other error as it is.
func groupIssue(err error, group string) (*cluster.NodeGroupIssue, error) {
	return issueOf(err, cluster.IssueGroup, group)
}

// templateIssue is the same of a launch template.
func templateIssue(err error, template string) (*cluster.NodeGroupIssue, error) {
	code := cluster.IssueTemplate
	switch text := string(cluster.ErrorCode(err)); {
	case strings.HasPrefix(text, "InvalidLaunchTemplate") && strings.Contains(text, "Version"):
		code = cluster.IssueTemplateVersion
	case strings.HasPrefix(text, "InvalidLaunchTemplate"):
		code = cluster.IssueNoTemplate
	}
	return issueOf(err, code, template)
}

func issueOf(err error, code cluster.IssueCode, resource string) (*cluster.NodeGroupIssue, error) {
	why := cluster.ForGood(err)
	if why == nil {
		return nil, err
	}
	if cluster.Denies(why.Code) {
		code = cluster.IssueAccessDenied
	}
	return &cluster.NodeGroupIssue{Code: code, Message: fmt.Sprintf("%s: %s", why.Code, why.Message), Resources: []string{resource}}, nil
}

// custom is a target of a launch template version of the user's own.
func (n *Handler) custom(ctx context.Context, t cluster.UpdateTarget) (cluster.UpdateTarget, error) {
	lt, err := n.Templates.LaunchTemplate(ctx, nodegroup.SourceOf(t))
	if err != nil {
		return t, fmt.Errorf("describing the launch template: %w", err)
	}
	return nodegroup.FromTemplate(t, lt)
}

// regular is the target of a new node group without a launch template of its own: the image that its machines have. Another by
// the releaseVersion would be said of machines that do not have it.
func (n *Handler) regular(ctx context.Context, t cluster.UpdateTarget, of cluster.TemplateRef) (cluster.UpdateTarget, error) {
	lt, err := n.Templates.LaunchTemplate(ctx, of)
	if err != nil {
		return t, fmt.Errorf("describing the launch template: %w", err)
	}
	if t.ReleaseVersion != lt.Image && imageID(t.ReleaseVersion) && imageID(lt.Image) { // not by name, or as a parameter
		return t, cluster.Errorf(cluster.CodeInvalidParameter, "releaseVersion is %s, but version %d of launch template %s, from which the Auto Scaling group launches, has %s. Leave it out, and update the node group to it once it is ACTIVE.",
			t.ReleaseVersion, lt.Version, lt.ID, lt.Image)
	}
	t.Image = lt.Image
	return t, nil
}

func imageID(s string) bool { return strings.HasPrefix(s, "ami-") }

// configure carries out an update of the sizes.
func (n *Handler) configure(ctx context.Context, g *cluster.NodeGroup) error {
	u, err := n.row(ctx, g, g.ConfigUpdate)
	if err != nil || u == nil || u.Sizes == nil {
		if err != nil {
			return err
		}
		return n.finish(ctx, g, nil)
	}
	ended, next := *u, *g
	ended.EndedAt = n.Clock.Now()
	sizes, err := n.resized(ctx, g, *u.Sizes)
	if why := cluster.ForGood(err); why != nil {
		ended.Status, ended.Errors = cluster.UpdateFailed, []cluster.UpdateError{updateError(why, g.AutoScalingGroup)}
		return n.finish(ctx, &next, &ended)
	}
	if err != nil {
		return err
	}
	ended.Status, next.Sizes, next.Config = cluster.UpdateSuccessful, sizes, u.Config
	return n.finish(ctx, &next, &ended)
}

// resized gives the group its new sizes. What managed scaling has made of the desired capacity stays unless the caller says
// otherwise.
func (n *Handler) resized(ctx context.Context, g *cluster.NodeGroup, c cluster.SizesChange) (s cluster.Sizes, err error) {
	groups, err := n.Auto.DescribeGroups(ctx, []string{g.AutoScalingGroup})
	if err != nil {
		return s, fmt.Errorf("describing Auto Scaling group %s: %w", g.AutoScalingGroup, err)
	}
	if len(groups) == 0 {
		return s, cluster.Errorf(cluster.CodeResourceNotFound, "The Auto Scaling group is not there any more")
	}
	auto := groups[0]
	if s, err = c.Apply(cluster.Sizes{Min: auto.Min, Max: auto.Max, Desired: auto.Desired}); err != nil {
		return s, err
	}
	return s, cluster.Wrap(n.Updates.SetSizes(ctx, auto.Name, c), "resizing Auto Scaling group %s", auto.Name)
}

// groupGone is the error of an update whose Auto Scaling group was deleted.
func groupGone(g *cluster.NodeGroup) cluster.UpdateError {
	return cluster.UpdateError{
		Code: cluster.OperationNotPermitted, Message: "The Auto Scaling group is not there any more", Resources: []string{g.AutoScalingGroup},
	}
}

// remove deletes the rows of a DELETING node group, its own last, as it was read: what is left over is found again, and one that
// somebody made since under the same name stays.
func (n *Handler) remove(ctx context.Context, g *cluster.NodeGroup) error {
	updates, err := n.State.List(ctx, state.Prefix(g.Cluster, state.PrefixUpdate+g.Name+"#"))
	if err != nil {
		return fmt.Errorf("listing its updates: %w", err)
	}
	// Another may have deleted it meanwhile, and somebody made one of the same name.
	row, err := n.State.Get(ctx, state.KeyOf(g))
	if now, ok := row.(*cluster.NodeGroup); err != nil || !ok || now.ID != g.ID {
		return cluster.Wrap(err, "reading it again")
	}
	for _, row := range updates {
		key := state.KeyOf(row)
		if _, err := n.State.Write(ctx, state.Write{Delete: &key}); err != nil {
			return fmt.Errorf("deleting %s: %w", key.Sort, err)
		}
	}
	writes, err := handler.LetGoOf(ctx, n.State, g.AutoScalingGroup, func(u *state.GroupUse) (was bool) {
		was = u.NodeGroup == g.Ref()
		u.NodeGroup = cluster.NodeGroupRef{}
		return was
	})
	if err != nil {
		return err
	}
	key := state.KeyOf(g)
	writes = append(writes, state.Write{Delete: &key, Rev: g.Rev})
	return state.IgnoreConflict(n.State.Commit(ctx, state.Commit{Cluster: g.Cluster, Version: state.NoVersion, Writes: writes}))
}
