package nodegroupupgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// A making is the making, or the deletion, of what a node group consists of that Berth makes.
type making struct{ *Handler }

// makeGroup makes what a CREATING node group consists of, and waits until its nodes have joined the
// cluster. Then it is ACTIVE. It is CREATE_FAILED with the reason if something is finally refused,
// or the nodes do not join; what was made stays until the node group is deleted.
//
// What exists is found by its name, so every round does only what is left. The row is written
// before anything is created: [nodegroup.MayForget] tells by it when nothing can appear any more.
func (h making) makeGroup(ctx context.Context, g *cluster.NodeGroup) error {
	g, err := h.restartWaits(ctx, g)
	if err != nil {
		return state.IgnoreConflict(err)
	}
	target, chosen, issue, err := h.resolveMachines(ctx, g)
	if issue != nil || err != nil {
		return h.endCreation(ctx, g, err, issue)
	}
	if err := h.writeEnds(ctx, g); err != nil {
		return err
	}
	if exists, err := h.awaitNodes(ctx, g); err != nil || exists {
		return err
	}
	next, machines := *g, chosen
	next.Rev++
	next.Target, machines.CreatingSince, next.Machines = target, h.Clock.Now(), &machines
	if _, err := h.State.Write(ctx, state.Write{Put: &next}); err != nil {
		return state.IgnoreConflict(err)
	}
	if issue, err := h.createParts(ctx, &next); issue != nil || err != nil {
		if nodegroup.AwaitsProfile(g, err, h.Clock.Now()) {
			err = errors.Join(err, writeDue(ctx, h.State, h.Clock, g, h.Clock.Now().Add(lookAfter)))
		}
		return h.endCreation(ctx, &next, err, issue)
	}
	_, err = h.awaitNodes(ctx, &next) // a group of no nodes has no event to wait for
	return err
}

// restartWaits restarts waits whose start lies ahead because a clock had jumped, and records that: see
// [nodegroup.RestartWaits].
func (h making) restartWaits(ctx context.Context, g *cluster.NodeGroup) (*cluster.NodeGroup, error) {
	next := nodegroup.RestartWaits(g, h.Clock.Now())
	if next == g {
		return g, nil
	}
	next.Rev++
	_, err := h.State.Write(ctx, state.Write{Put: next})
	return next, err
}

// lookAfter is how soon a made node group is looked at again that waits for something of which AWS
// sends no event: that EC2 knows a new instance profile, and that an Auto Scaling group without
// instances is gone.
const lookAfter = time.Second

// writeEnds writes due rows for the ends of the waits of a node group that Berth makes or deletes.
func (h making) writeEnds(ctx context.Context, g *cluster.NodeGroup) error {
	var failed []error
	for _, end := range nodegroup.MakingEnds(g) {
		if end.After(h.Clock.Now()) {
			failed = append(failed, writeDue(ctx, h.State, h.Clock, g, end))
		}
	}
	return errors.Join(failed...)
}

// resolveMachines reads which image and instance types the nodes of a new node group have, unless
// that is known. An issue says why there are none.
func (h making) resolveMachines(ctx context.Context, g *cluster.NodeGroup) (
	target cluster.UpdateTarget, machines cluster.Machines, issue *cluster.NodeGroupIssue, err error,
) {
	target, machines = g.Target, *g.Machines
	if target.Image != "" {
		return target, machines, nil, nil
	}
	if target.HasOwnTemplate() {
		target, err = completeTarget(ctx, h.Templates, target, nodegroup.SourceTemplate(target),
			func(t cluster.UpdateTarget, lt *cluster.LaunchTemplate) (cluster.UpdateTarget, error) {
				var err error
				if machines, err = nodegroup.MachinesOfTemplate(machines, g.Target.AMIType, lt); err != nil {
					return t, err
				}
				return nodegroup.OwnTemplateTarget(g, t, lt)
			})
		issue, err = nodegroup.TemplateIssue(err, cmp.Or(g.Target.SourceTemplate, g.Target.SourceName))
		if issue != nil || err != nil {
			return target, machines, issue, err
		}
	}
	target, err = publishedTarget(ctx, h.Parameters, target)
	issue, err = nodegroup.ImageIssue(err, target.AMIType)
	return target, machines, issue, err
}

// userData returns the user data of a node group's nodes that are made of a target. It is empty if
// the user's own launch template names the image: then the user data is that template's.
func (h *Handler) userData(ctx context.Context, g *cluster.NodeGroup, t cluster.UpdateTarget) (string, error) {
	if !t.HasOwnTemplate() {
		return nodegroup.UserData(g), nil
	}
	if !nodegroup.JoinsByBerth(t) {
		return "", nil
	}
	own, err := h.Templates.LaunchTemplate(ctx, nodegroup.SourceTemplate(t))
	if err != nil {
		return "", fmt.Errorf("describing the launch template: %w", err)
	}
	return nodegroup.MergeUserData(own.UserData, g)
}

// publishedTarget reads the image of a target from its public parameters, unless it is known.
func publishedTarget(
	ctx context.Context, parameters handler.Parameters, t cluster.UpdateTarget,
) (cluster.UpdateTarget, error) {
	if t.Image != "" {
		return t, nil
	}
	values, err := parameters.ReadParameters(ctx, nodegroup.ImageParameters(t))
	if err != nil {
		return t, fmt.Errorf("looking up the image of AMI type %s: %w", t.AMIType, err)
	}
	return nodegroup.PublishedTarget(t, values)
}

// createParts creates the instance profile, the launch template and the Auto Scaling group, as far
// as they are missing and there is time.
func (h making) createParts(ctx context.Context, g *cluster.NodeGroup) (*cluster.NodeGroupIssue, error) {
	plan := nodegroup.NewBlueprint(g, handler.OwnerTag, h.Settings.Installation)
	var err error
	if plan.Template.UserData, err = h.userData(ctx, g, g.Target); err != nil {
		return nodegroup.TemplateIssue(err, g.Target.SourceTemplate)
	}
	if !nodegroup.MayCreate(g, h.Clock.Now()) { // it was suspended since the row was written
		return nil, nil
	}
	if err := h.Maker.EnsureProfile(ctx, plan.Profile); err != nil || !nodegroup.MayCreate(g, h.Clock.Now()) {
		return nodegroup.ProfileIssue(err, plan.Profile.Name)
	}
	template, err := h.Maker.EnsureTemplate(ctx, plan.Template)
	if err != nil || !nodegroup.MayCreate(g, h.Clock.Now()) {
		return nodegroup.TemplateIssue(err, plan.Template.Name)
	}
	plan.Group.Template = nodegroup.ParseTemplate(template.String())
	return nodegroup.CreationIssue(g, h.Maker.EnsureGroup(ctx, plan.Group), h.Clock.Now())
}

// awaitNodes makes a node group ACTIVE once its nodes have joined, and CREATE_FAILED if they do
// not. It reports whether the Auto Scaling group exists.
func (h making) awaitNodes(ctx context.Context, g *cluster.NodeGroup) (exists bool, err error) {
	groups, err := h.Auto.DescribeGroups(ctx, []string{g.AutoScalingGroup})
	if err != nil {
		issue, err := nodegroup.GroupIssue(err, g.AutoScalingGroup)
		return false, h.endCreation(ctx, g, err, issue)
	}
	if len(groups) == 0 {
		return false, nil
	}
	auto := groups[0]
	if err := handler.OwnershipError(auto, h.Settings.Installation); err != nil {
		issue, err := nodegroup.GroupIssue(err, auto.Name)
		return true, h.endCreation(ctx, g, err, issue)
	}
	rows, err := readCluster(ctx, h.State, h.Clock.Now(), g.Cluster)
	if err != nil {
		return true, err
	}
	if err := h.adoptUnknown(ctx, g.Cluster, auto, rows); err != nil {
		return true, err
	}
	failed, err := h.Updates.FailedLaunches(ctx, auto.Name, g.CreatedAt)
	if err != nil {
		return true, fmt.Errorf("reading the activities of Auto Scaling group %s: %w", auto.Name, err)
	}
	group := nodegroup.Group{Name: auto.Name, Sizes: sizesOf(auto), Failures: launchFailures(failed)}
	joined, issues := nodegroup.JoinIssues(g, group, rows.Members(auto), h.Clock.Now())
	if !joined && len(issues) == 0 {
		return true, nil
	}
	return true, h.writeCreated(ctx, g, issues)
}

// endCreation ends a round of creation: with the issue, if there is one, the node group is
// CREATE_FAILED. An error is returned as it is.
func (h making) endCreation(
	ctx context.Context, g *cluster.NodeGroup, err error, issue *cluster.NodeGroupIssue,
) error {
	if issue == nil {
		return err
	}
	return h.writeCreated(ctx, g, []cluster.NodeGroupIssue{*issue})
}

// writeCreated makes a node group ACTIVE, or CREATE_FAILED if there are issues.
func (h making) writeCreated(ctx context.Context, g *cluster.NodeGroup, issues []cluster.NodeGroupIssue) error {
	next := *g
	next.Rev++
	next.Status, next.Issues, next.ModifiedAt = cluster.NodeGroupActive, issues, h.Clock.Now()
	if len(issues) > 0 {
		next.Status = cluster.NodeGroupCreateFailed
	}
	_, err := h.State.Write(ctx, state.Write{Put: &next})
	return state.IgnoreConflict(err)
}

// removeGroup takes down what Berth has made for a DELETING node group, then deletes its rows. The
// nodes are drained first: their tasks have some time to leave. Everything is deleted in each
// round, because a call of the creation may take effect after all was gone.
func (h making) removeGroup(ctx context.Context, g *cluster.NodeGroup) error {
	g, err := h.restartWaits(ctx, g)
	if err != nil {
		return state.IgnoreConflict(err)
	}
	if err := h.writeEnds(ctx, g); err != nil {
		return err
	}
	busy, instances, err := h.drainNodes(ctx, g)
	if err != nil || busy {
		return err
	}
	gone, err := h.Maker.DeleteGroup(ctx, g.AutoScalingGroup)
	if err == nil && !gone { // without instances it is gone at once
		gone, err = h.Maker.DeleteGroup(ctx, g.AutoScalingGroup)
	}
	if err != nil || !gone {
		if err == nil && instances == 0 {
			err = writeDue(ctx, h.State, h.Clock, g, h.Clock.Now().Add(lookAfter))
		}
		return err
	}
	if err := h.Maker.DeleteTemplate(ctx, g.AutoScalingGroup); err != nil {
		return err
	}
	if err := h.Maker.DeleteProfile(ctx, g.AutoScalingGroup); err != nil {
		return err
	}
	if !nodegroup.MayForget(g, h.Clock.Now()) {
		return nil
	}
	return deleteGroup(ctx, h.State, g)
}

// drainNodes makes the nodes of a node group that is being deleted DRAINING, and reports whether
// their tasks are to be waited for, and how many instances there are. A node that ECS refuses to
// drain does not hold up the rest.
func (h making) drainNodes(ctx context.Context, g *cluster.NodeGroup) (busy bool, instances int, err error) {
	groups, err := h.Auto.DescribeGroups(ctx, []string{g.AutoScalingGroup})
	if err != nil || len(groups) == 0 {
		return false, 0, cluster.Wrap(err, "describing Auto Scaling group %s", g.AutoScalingGroup)
	}
	instances = len(groups[0].Instances)
	for range 2 { // the second time with the nodes as they are then
		rows, err := readCluster(ctx, h.State, h.Clock.Now(), g.Cluster)
		if err != nil {
			return false, instances, err
		}
		var drain []string
		drain, busy = nodegroup.DrainAll(rows.Members(groups[0]), g.ModifiedAt, h.Clock.Now())
		for _, node := range drain {
			err := h.ECS.DrainInstance(ctx, g.Cluster, node)
			if why := cluster.PermanentError(err); why != nil {
				handler.Logger(h.Log).Warn("a node cannot be drained", "cluster", g.Cluster, "nodeGroup", g.Name,
					"node", node, "error", err)
			} else if err != nil {
				return false, instances, fmt.Errorf("draining node %s: %w", node, err)
			}
		}
		if len(drain) == 0 {
			return busy, instances, nil
		}
		if err := h.newAPI().Clusters.InstancesChanged(ctx, g.Cluster, drain); err != nil {
			return false, instances, err
		}
	}
	return busy, instances, nil
}

// launchFailures returns failed launches as package nodegroup takes them.
func launchFailures(failed []cluster.FailedLaunch) (out []nodegroup.LaunchFailure) {
	for _, f := range failed {
		out = append(out, nodegroup.LaunchFailure{Zone: f.Zone, Code: f.Code, Message: f.Message})
	}
	return out
}
