package nodegroupupgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// scheduleName is the schedule that runs the function.
const scheduleName = "node-groups"

// Handler is the node-group-upgrade function: its ports and settings, and the images of launch
// template versions, which it remembers.
type Handler struct {
	State     state.Store
	ECS       handler.ECS
	Hosts     handler.Hosts
	Auto      handler.AutoScaling
	Updates   handler.GroupUpdates
	Templates handler.LaunchTemplates
	// Maker and Parameters are for node groups whose Auto Scaling group Berth makes.
	Maker      handler.GroupMaker
	Parameters handler.Parameters
	Clock      handler.Clock
	Settings   handler.Settings
	Log        *slog.Logger
	Decoder    awsevent.Decoder
	// Telemetry counts what operators watch; nil counts nothing.
	Telemetry *handler.Telemetry

	rotation handler.Rotation
	images   imageCache
	looks    handler.Looks
}

// RunSchedule reconciles the node groups of all clusters until the invocation's time ends.
func (h *Handler) RunSchedule(ctx context.Context, name string) error {
	if name != scheduleName {
		return &cluster.Drop{Reason: fmt.Sprintf("unknown schedule %q, expected %s", name, scheduleName)}
	}
	all, err := readOverview(ctx, h.State)
	if err != nil {
		return err
	}
	err = h.rotation.ForEachCluster(ctx, h.State, h.Clock.Now, h.Log, func(clusterName string) error {
		return all.reconcileScheduled(ctx, h, clusterName)
	})
	return errors.Join(err, all.failed)
}

// reconcileCluster reconciles the node groups of one cluster.
func (h *Handler) reconcileCluster(ctx context.Context, clusterName string) error {
	groups, err := state.ListRows[*cluster.NodeGroup](
		ctx, h.State, state.Prefix(clusterName, state.PrefixNodeGroup), "node groups")
	if err != nil {
		return err
	}
	active, err := reconcileGroups(ctx, h, groups)
	return errors.Join(err, h.labelActiveGroups(ctx, clusterName, active))
}

// reconcileGroups reconciles node groups of one cluster. The failure of one does not hold up the
// others. It returns the ACTIVE ones, which only need their nodes labelled: that is done for all of
// them together.
func reconcileGroups(
	ctx context.Context, h *Handler, groups []*cluster.NodeGroup,
) (active []*cluster.NodeGroup, err error) {
	var failed []error
	for _, g := range groups {
		if g.Status == cluster.NodeGroupActive {
			active = append(active, g)
		} else {
			failed = append(failed, cluster.Wrap(h.reconcileGroup(ctx, g), "node group %s", g.Name))
		}
	}
	return active, errors.Join(failed...)
}

// reconcileGroup does what a node group's status demands. CREATE_FAILED ones wait for somebody to
// delete them.
func (h *Handler) reconcileGroup(ctx context.Context, g *cluster.NodeGroup) error {
	switch {
	case g.Status == cluster.NodeGroupCreating && g.IsMade():
		return making{h}.makeGroup(ctx, g)
	case g.Status == cluster.NodeGroupDeleting && g.IsMade():
		return making{h}.removeGroup(ctx, g)
	case g.Status == cluster.NodeGroupCreating:
		return h.createGroup(ctx, g)
	case g.Status == cluster.NodeGroupDeleting:
		return deleteGroup(ctx, h.State, g)
	case g.Status == cluster.NodeGroupUpdating && g.ConfigUpdate != "":
		return h.updateConfig(ctx, g)
	case g.Status == cluster.NodeGroupUpdating:
		return h.advanceUpdate(ctx, g)
	}
	return nil
}

// maxRounds bounds how often an invocation advances one update. Setting up and enlarging the group
// takes four rounds, and the last one finds nothing to do.
const maxRounds = 10

// advanceUpdate advances an upgrade of nodes until it must wait: what an action has changed may
// allow the next step. It stops when nothing new is to be done, and when the invocation's time is
// nearly up.
func (h *Handler) advanceUpdate(ctx context.Context, g *cluster.NodeGroup) error {
	var last []nodegroup.Action
	for round := range maxRounds {
		done, again, err := h.advanceOnce(ctx, g)
		if err != nil || !again || round > 0 && reflect.DeepEqual(done, last) {
			return err
		}
		if end, limited := ctx.Deadline(); limited && end.Sub(h.Clock.Now()) < handler.Reserve {
			return nil
		}
		last = done
	}
	return nil
}

// advanceOnce decides what an upgrade needs and carries it out. It returns the actions, and whether
// to decide again at once. Losing a race for its row is harmless: the winner carries it on.
func (h *Handler) advanceOnce(
	ctx context.Context, g *cluster.NodeGroup,
) (done []nodegroup.Action, again bool, err error) {
	u, err := readUpdate(ctx, h.State, g, g.Update)
	if err != nil {
		return nil, false, err
	}
	if u == nil {
		return nil, false, h.finishUpdate(ctx, g, nil)
	}
	// Not written yet: it is written together with what is decided next.
	resolved, err := h.resolveTarget(ctx, g, u)
	if err != nil {
		return nil, false, err
	}
	next, actions, seen, err := h.decideNext(ctx, g, resolved)
	if why := cluster.PermanentError(err); why != nil {
		err := h.failUpdate(ctx, g, resolved, nodegroup.RefusalError(why, g.AutoScalingGroup), seen.seenGroup())
		return nil, u.Phase != cluster.PhaseRestore, err
	}
	if err != nil {
		return nil, false, err
	}
	if next.HasEnded() {
		return nil, false, h.finishUpdate(ctx, g, next)
	}
	if next == u && len(actions) == 0 {
		return nil, false, writeDue(ctx, h.State, h.Clock, g, nodegroup.SettledAt(u, h.Clock.Now()))
	}
	// Before any action, so that a crash loses no intent.
	if next != u {
		next.Rev = u.Rev + 1
		if err := writeUpdate(ctx, h.State, h.Clock, u, next); err != nil {
			return nil, false, state.IgnoreConflict(err)
		}
	}
	e := execution{Handler: h, group: g, update: next, seen: seen.group, current: seen.group.Sizes}
	again, err = e.carryOutAll(ctx, actions)
	// What frees room between the reading of the cluster and the writing of this wait wakes
	// nothing.
	return actions, again || err == nil && nodegroup.AwaitsRoom(next) && !nodegroup.AwaitsRoom(u), err
}

// decideNext decides what comes next. Before the update ends, or takes a node for back in service, it
// asks ECS about the nodes and decides again: a change that no event has reported, such as one by a
// call that timed out, must not be left behind.
func (h *Handler) decideNext(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update) (
	next *cluster.Update, actions []nodegroup.Action, seen *observation, err error,
) {
	for attempt := 0; ; attempt++ {
		if seen, err = h.observeGroup(ctx, g, u); err != nil {
			return nil, nil, seen, err
		}
		if seen.isGone {
			return nodegroup.EndWithoutGroup(u, g.AutoScalingGroup, h.Clock.Now()), nil, seen, nil
		}
		next, actions = nodegroup.Next(u, seen.group, seen.instances, h.Clock.Now())
		if !next.HasEnded() && !nodegroup.EndsRelease(u, next, seen.instances) || attempt > 0 {
			return next, actions, seen, nil
		}
		if err := h.refreshNodes(ctx, g.Cluster, seen.instances); err != nil {
			return nil, nil, seen, err
		}
	}
}

// refreshNodes records the nodes as ECS describes them now.
func (h *Handler) refreshNodes(ctx context.Context, clusterName string, instances []nodegroup.Instance) error {
	var ids []string
	for _, i := range instances {
		if i.Row != nil && !i.Row.IsDeregistered() {
			ids = append(ids, i.Row.ID)
		}
	}
	for batch := range slices.Chunk(ids, cluster.DescribeBatch) {
		if err := h.newAPI().Clusters.InstancesChanged(ctx, clusterName, batch); err != nil {
			return err
		}
	}
	return nil
}

// resolveTarget reads the user's own launch template that an upgrade is made from, or the published
// image, once: what a version such as $Latest means, or the newest image, must not change during
// the upgrade. The upgrade fails if the template or the image cannot be read.
func (h *Handler) resolveTarget(
	ctx context.Context, g *cluster.NodeGroup, u *cluster.Update,
) (*cluster.Update, error) {
	if u.Target.Image != "" || u.Phase == cluster.PhaseRestore {
		return u, nil
	}
	target, complete := u.Target, nodegroup.TargetFromTemplate
	if g.IsMade() {
		complete = func(t cluster.UpdateTarget, lt *cluster.LaunchTemplate) (cluster.UpdateTarget, error) {
			return nodegroup.OwnTemplateTarget(g, t, lt)
		}
	}
	var err error
	if !g.IsMade() || target.HasOwnTemplate() {
		target, err = completeTarget(ctx, h.Templates, target, nodegroup.SourceTemplate(target), complete)
	}
	if err == nil && g.IsMade() {
		target, err = publishedTarget(ctx, h.Parameters, target)
	}
	if why := cluster.PermanentError(err); why != nil {
		return nodegroup.Fail(u, nodegroup.RefusalError(why, cmp.Or(u.Target.SourceTemplate, u.Target.AMIType))), nil
	}
	if err != nil {
		return nil, err
	}
	return nodegroup.ResolveTarget(u, target), nil
}
