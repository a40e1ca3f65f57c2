package nodegroupupgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/observe"
	"berth/shared/state"
)

// An execution carries out the actions of one upgrade, whose row is written.
type execution struct {
	*Handler
	group  *cluster.NodeGroup
	update *cluster.Update
	// seen is the group that the actions were decided on, current its sizes after those carried out
	// so far.
	seen    nodegroup.Group
	current cluster.Sizes
	// untried are the actions that something has changed for since they were decided on, or that it
	// is too early for. They are decided on again: at once if the group has changed, and at
	// retryAt.
	untried    []nodegroup.Action
	hasChanged bool
	retryAt    time.Time
}

// carryOutAll carries out the actions, and reports whether to decide again at once: what they have
// changed may allow the next step. What fails for now is tried again when its effect would show; a
// final refusal makes the update fail.
func (e *execution) carryOutAll(ctx context.Context, actions []nodegroup.Action) (again bool, err error) {
	var failed []error
	var last *cluster.UpdateError
	var denied []nodegroup.Action
	refusals := map[string]string{} // of single nodes
	for _, a := range actions {
		// Somebody else may have taken the update further since. What it wants now, this must not
		// undo.
		now, err := readUpdate(ctx, e.State, e.group, e.group.Update)
		if err != nil || now == nil || now.Rev != e.update.Rev {
			return false, errors.Join(append(failed, err)...)
		}
		err = e.carryOut(ctx, a)
		refused := nodegroup.ActionError(e.group.AutoScalingGroup, a, err)
		// The first refusal ends the way forward. While restoring, the other actions are still
		// carried out.
		if refused != nil && e.update.Phase != cluster.PhaseRestore {
			return true, errors.Join(append(failed, e.failUpdate(ctx, e.group, e.update, *refused, &e.seen))...)
		}
		if refused != nil {
			last, denied = refused, append(denied, a)
		}
		if why := cluster.PermanentError(err); why != nil && a.Instance != "" {
			refusals[a.Instance] = fmt.Sprintf("%s: %s", why.Code, why.Message)
		}
		failed = append(failed, cluster.Wrap(err, "%s", a))
	}
	switch {
	case last != nil:
		u := nodegroup.RecordDenied(e.update, denied, e.Clock.Now())
		failed = append(failed, e.failUpdate(ctx, e.group, u, *last, &e.seen))
	case len(refusals) > 0:
		failed = append(failed, e.writeNext(ctx, nodegroup.RecordRefusals(e.update, refusals)))
	case len(e.untried) > 0:
		failed = append(failed, e.writeNext(ctx, nodegroup.Withdraw(e.update, e.untried)))
	}
	err = errors.Join(failed...)
	if err != nil {
		e.decideBy(nodegroup.SettledAt(e.update, e.Clock.Now()))
	}
	again = err == nil && len(actions) > 0 && (len(e.untried) == 0 || e.hasChanged)
	return again, errors.Join(err, writeDue(ctx, e.State, e.Clock, e.group, e.retryAt))
}

// decideBy lets the update be decided on again at a time, or sooner. The zero time is none.
func (e *execution) decideBy(at time.Time) {
	if e.retryAt.IsZero() || !at.IsZero() && at.Before(e.retryAt) {
		e.retryAt = at
	}
}

// writeNext writes the update's row, if it has changed.
func (e *execution) writeNext(ctx context.Context, next *cluster.Update) error {
	if next == e.update {
		return nil
	}
	next.Rev = e.update.Rev + 1
	_, err := e.State.Write(ctx, state.Write{Put: next})
	return state.IgnoreConflict(err)
}

// carryOut carries out one action.
func (e *execution) carryOut(ctx context.Context, a nodegroup.Action) error {
	switch a.Kind {
	case nodegroup.CreateTemplate:
		return e.createTemplate(ctx)
	case nodegroup.UseTemplate:
		return e.Updates.UseTemplate(ctx, e.group.AutoScalingGroup, a.Template)
	case nodegroup.Resize:
		return e.changeSizes(ctx, a)
	case nodegroup.Terminate:
		return e.terminateNode(ctx, a)
	case nodegroup.StopTasks:
		return e.stopTasks(ctx, a)
	}
	return e.changeNode(ctx, a)
}

// changeNode changes a container instance, and reads it at once so that the state does not wait for
// ECS's event.
func (e *execution) changeNode(ctx context.Context, a nodegroup.Action) (err error) {
	switch a.Kind {
	case nodegroup.Cordon:
		err = e.Hosts.PutAttribute(ctx, e.group.Cluster, a.Node, cluster.AttributeUnschedulable, e.update.ID)
	case nodegroup.Uncordon:
		err = e.Hosts.RemoveAttribute(ctx, e.group.Cluster, a.Node, cluster.AttributeUnschedulable)
	case nodegroup.Drain:
		err = e.ECS.DrainInstance(ctx, e.group.Cluster, a.Node)
	case nodegroup.Activate:
		err = e.Hosts.ActivateInstance(ctx, e.group.Cluster, a.Node)
	default:
		return fmt.Errorf("unknown action %s", a.Kind)
	}
	if err != nil {
		return err
	}
	return e.newAPI().Clusters.InstancesChanged(ctx, e.group.Cluster, []string{a.Node})
}

// createTemplate makes the launch template version of the update's target, from what the group
// launches now or from the user's own template.
func (e *execution) createTemplate(ctx context.Context) error {
	groups, err := e.Auto.DescribeGroups(ctx, []string{e.group.AutoScalingGroup})
	if err != nil || len(groups) == 0 {
		return err
	}
	from, err := baseTemplate(ctx, e.Templates, e.update, groups[0])
	if err != nil {
		return err
	}
	target := e.update.Target
	version := cluster.NewTemplateVersion{
		Template: from.ID, From: from, Image: target.Image,
		Description: nodegroup.TemplateDescription(e.update, from.ID+":"+from.Version),
	}
	// The user's own template is the base then, with nothing of the group's present one.
	if target.SourceTemplate != "" {
		version.From = cluster.TemplateRef{ID: target.SourceTemplate, Version: target.SourceVersion}
		if e.group.IsMade() {
			version.Profile = e.group.AutoScalingGroup
			if version.UserData, err = e.userData(ctx, e.group, target); err != nil {
				return err
			}
		}
	}
	_, err = e.Templates.CreateVersion(ctx, version)
	return err
}

// describeUnchanged returns the group as it is now. It returns nil if its sizes are not those any
// more that the action was decided on: the next decision sees what somebody else has made of them.
func (e *execution) describeUnchanged(ctx context.Context) (*cluster.AutoScalingGroup, error) {
	name := e.group.AutoScalingGroup
	groups, err := e.Auto.DescribeGroups(ctx, []string{name})
	if err != nil || len(groups) == 0 || sizesOf(groups[0]) != e.current {
		return nil, cluster.Wrap(err, "describing Auto Scaling group %s again", name)
	}
	return groups[0], nil
}

// changeSizes sets what changes of the maximum and the desired capacity. Other sizes are not sent,
// so that they stay as others set them.
func (e *execution) changeSizes(ctx context.Context, a nodegroup.Action) error {
	if auto, err := e.describeUnchanged(ctx); err != nil || auto == nil {
		e.untried, e.hasChanged = append(e.untried, a), true
		return err
	}
	var change cluster.SizesChange
	if a.Max != e.current.Max {
		change.Max = &a.Max
	}
	if a.Desired != e.current.Desired {
		change.Desired = &a.Desired
	}
	err := e.Updates.SetSizes(ctx, e.group.AutoScalingGroup, change)
	if err == nil {
		e.current.Max, e.current.Desired = a.Max, a.Desired
	}
	return err
}

// terminateNode terminates an instance that is in the group and not leaving it yet: doing it twice
// would lower the desired capacity twice. A node that must have no tasks and has some after all is
// terminated later, when they have left.
func (e *execution) terminateNode(ctx context.Context, a nodegroup.Action) error {
	if a.Node != "" {
		if emptyAt, err := e.nodeEmptyAt(ctx, a.Node); err != nil || emptyAt.After(e.Clock.Now()) {
			e.untried = append(e.untried, a)
			e.decideBy(emptyAt)
			return err
		}
	}
	auto, err := e.describeUnchanged(ctx)
	if err != nil || auto == nil || !slices.ContainsFunc(auto.Instances, func(i cluster.GroupInstance) bool {
		return i.ID == a.Instance && nodegroup.LifecycleOf(i.Lifecycle) != nodegroup.Terminating
	}) {
		e.untried, e.hasChanged = append(e.untried, a), true
		return err
	}
	err = e.Auto.TerminateInstance(ctx, a.Instance, a.Decrement)
	if err == nil && a.Decrement {
		e.current.Desired--
	}
	return err
}

// nodeEmptyAt returns when a node will have had no task for as long as it must be kept empty (N4),
// according to ECS too; zero if it has had none for much longer. With tasks on it that is no sooner
// than if they stopped now. Stopped tasks are listed for an hour, much longer than that.
func (e *execution) nodeEmptyAt(ctx context.Context, node string) (at time.Time, err error) {
	now := e.Clock.Now()
	observer := &observe.Observer{State: state.NewFeed(e.State, e.Clock), Clock: e.Clock, Now: now,
		Settings: e.Settings.Settings, Log: handler.Logger(e.Log)}
	if busy, err := observer.RecordUnreportedTasks(ctx, e.ECS, e.group.Cluster, node); err != nil || busy {
		return now.Add(e.update.Timeouts.Cordon), err
	}
	stopped := cluster.TaskFilter{Cluster: e.group.Cluster, Instance: node, Desired: cluster.TaskStopped}
	err = observe.ForEachTask(ctx, e.ECS, stopped, func(t cluster.ECSTask) error {
		since := now
		if t.Last == cluster.TaskStopped {
			since = t.Stopped
		}
		if end := since.Add(e.update.Timeouts.Cordon); end.After(at) {
			at = end
		}
		return nil
	})
	return at, err
}

// stopTasks stops tasks by force, through the outbox like any other stop.
func (e *execution) stopTasks(ctx context.Context, a nodegroup.Action) error {
	for _, id := range a.Tasks {
		if _, err := e.newAPI().Tasks.StopKnownTask(ctx, e.group.Cluster, id,
			"The node is replaced by update "+e.update.ID); err != nil {
			return err
		}
	}
	return nil
}
