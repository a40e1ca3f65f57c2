package nodegroupupgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/nodegroup"
	"berth/shared/observe"
	"berth/shared/state"
)

// templateOf reads ID:VERSION.
func templateOf(s string) cluster.TemplateRef {
	id, version, _ := strings.Cut(s, ":")
	return cluster.TemplateRef{ID: id, Version: version}
}

// act does what an update wants done, its row being written. What fails for now is done at the next look; what is refused
// for good ends the update's way forward.
func (n *Handler) act(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update, actions []nodegroup.Action, sizes cluster.Sizes) error {
	var failed []error
	var last *cluster.UpdateError
	refusals := map[string]string{} // of single nodes
	seen := sizes                   // and what this has made of them
	for _, a := range actions {
		// Somebody else may have taken the update further since: what it then wants, this must not undo.
		now, err := n.row(ctx, g, g.Update)
		if err != nil || now == nil || now.Rev != u.Rev {
			return errors.Join(append(failed, err)...)
		}
		err = n.do(ctx, g, u, a, &seen)
		why := refusedFor(g, a, err)
		if why != nil && u.Phase != cluster.PhaseRestore {
			return errors.Join(append(failed, n.refused(ctx, g, u, *why, &sizes))...)
		}
		last = cmp.Or(why, last)
		if e := cluster.ForGood(err); e != nil && a.Instance != "" {
			refusals[a.Instance] = fmt.Sprintf("%s: %s", e.Code, e.Message)
		}
		failed = append(failed, cluster.Wrap(err, "%s", a))
	}
	if last != nil {
		failed = append(failed, n.refused(ctx, g, u, *last, &sizes))
	} else {
		failed = append(failed, n.note(ctx, u, refusals))
	}
	return errors.Join(failed...)
}

// note writes why single nodes were refused what was wanted of them, once.
func (n *Handler) note(ctx context.Context, u *cluster.Update, refusals map[string]string) error {
	noted := nodegroup.Refuse(u, refusals)
	if noted == u {
		return nil
	}
	noted.Rev = u.Rev + 1
	_, err := n.State.Write(ctx, state.Write{Put: noted})
	return state.IgnoreConflict(err)
}

func (n *Handler) do(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update, a nodegroup.Action, seen *cluster.Sizes) error {
	switch a.Kind {
	case nodegroup.CreateTemplate:
		return n.createTemplate(ctx, g, u)
	case nodegroup.UseTemplate:
		return n.Updates.UseTemplate(ctx, g.AutoScalingGroup, a.Template)
	case nodegroup.Resize:
		return n.resize(ctx, g.AutoScalingGroup, a, seen)
	case nodegroup.Terminate:
		return n.terminate(ctx, g, u, a, seen)
	case nodegroup.StopTasks:
		return n.stop(ctx, g.Cluster, u, a)
	}
	return n.change(ctx, g.Cluster, u, a)
}

// change is an action on a container instance; the state learns of it without waiting for ECS's event.
func (n *Handler) change(ctx context.Context, clusterName string, u *cluster.Update, a nodegroup.Action) (err error) {
	switch a.Kind {
	case nodegroup.Mark:
		err = n.Hosts.PutAttribute(ctx, clusterName, a.Node, cluster.AttributeUnschedulable, u.ID)
	case nodegroup.Clear:
		err = n.Hosts.RemoveAttribute(ctx, clusterName, a.Node, cluster.AttributeUnschedulable)
	case nodegroup.Drain:
		err = n.ECS.DrainInstance(ctx, clusterName, a.Node)
	case nodegroup.Activate:
		err = n.Hosts.ActivateInstance(ctx, clusterName, a.Node)
	default:
		return fmt.Errorf("unknown action %s", a.Kind)
	}
	if err != nil {
		return err
	}
	return n.api().InstancesChanged(ctx, clusterName, []string{a.Node})
}

func (n *Handler) observer() *observe.Observer {
	return &observe.Observer{State: n.State, Now: n.Clock.Now(), Settings: n.Settings, Log: handler.Logger(n.Log)}
}

func (n *Handler) api() *api.Handler {
	return &api.Handler{State: n.State, ECS: n.ECS, Clock: n.Clock, Settings: n.Settings, Log: n.Log}
}

// createTemplate makes the launch template version of an update's target, of what the group launches now or of the user's
// own template.
func (n *Handler) createTemplate(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update) error {
	groups, err := n.Auto.DescribeGroups(ctx, []string{g.AutoScalingGroup})
	if err != nil || len(groups) == 0 {
		return err
	}
	from, err := n.source(ctx, u, groups[0])
	if err != nil {
		return err
	}
	version := cluster.NewTemplateVersion{Template: from.ID, From: from, Description: nodegroup.TemplateName(u, from.ID+":"+from.Version), Image: u.Target.Image}
	if u.Target.SourceTemplate != "" {
		version.From = cluster.TemplateRef{ID: u.Target.SourceTemplate, Version: u.Target.SourceVersion}
	}
	_, err = n.Templates.CreateVersion(ctx, version)
	return err
}

// source is the version that a group launched when the update began, by number: what $Default is may change, and EC2 makes a
// version of one with a number only (EC2 API reference, CreateLaunchTemplateVersion).
func (n *Handler) source(ctx context.Context, u *cluster.Update, auto *cluster.AutoScalingGroup) (cluster.TemplateRef, error) {
	ref := templateOf(cmp.Or(u.OriginalTemplate, auto.Template))
	if _, err := strconv.Atoi(ref.Version); err == nil {
		return ref, nil
	}
	lt, err := n.Templates.LaunchTemplate(ctx, ref)
	if err != nil {
		return ref, fmt.Errorf("describing the launch template: %w", err)
	}
	ref.Version = strconv.FormatInt(lt.Version, 10)
	return ref, nil
}

// undisturbed is a group as it is now; nil where its sizes are not those any more that an action was decided on: what somebody
// else has made of them since, the next look sees.
func (n *Handler) undisturbed(ctx context.Context, group string, seen cluster.Sizes) (*cluster.AutoScalingGroup, error) {
	groups, err := n.Auto.DescribeGroups(ctx, []string{group})
	if err != nil || len(groups) == 0 || sizesOf(groups[0]) != seen {
		return nil, cluster.Wrap(err, "describing Auto Scaling group %s again", group)
	}
	return groups[0], nil
}

func sizesOf(g *cluster.AutoScalingGroup) cluster.Sizes {
	return cluster.Sizes{Min: g.Min, Max: g.Max, Desired: g.Desired}
}

// resize sets what is to change of maximum and desired capacity. The rest is not sent, so that it stays what others make of it.
func (n *Handler) resize(ctx context.Context, group string, a nodegroup.Action, seen *cluster.Sizes) error {
	if auto, err := n.undisturbed(ctx, group, *seen); err != nil || auto == nil {
		return err
	}
	var c cluster.SizesChange
	if a.Max != seen.Max {
		c.Max = &a.Max
	}
	if a.Desired != seen.Desired {
		c.Desired = &a.Desired
	}
	err := n.Updates.SetSizes(ctx, group, c)
	if err == nil {
		seen.Max, seen.Desired = a.Max, a.Desired
	}
	return err
}

// terminate terminates an instance that is in the group and not on its way out already: twice would lower the desired capacity
// twice. One that is to have no tasks and has some after all goes once they have left.
func (n *Handler) terminate(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update, a nodegroup.Action, seen *cluster.Sizes) error {
	if a.Node != "" {
		if empty, err := n.empty(ctx, g.Cluster, a.Node, u.Waits.Cordon); err != nil || !empty {
			return err
		}
	}
	auto, err := n.undisturbed(ctx, g.AutoScalingGroup, *seen)
	if err != nil || auto == nil || !slices.ContainsFunc(auto.Instances, func(i cluster.GroupInstance) bool {
		return i.ID == a.Instance && lifecycle(i.Lifecycle) != nodegroup.Terminating
	}) {
		return err
	}
	err = n.Auto.TerminateInstance(ctx, a.Instance, a.Decrement)
	if err == nil && a.Decrement {
		seen.Desired--
	}
	return err
}

// empty reports whether, by what ECS says, a node has had no task for so long (N4).
func (n *Handler) empty(ctx context.Context, clusterName, node string, since time.Duration) (bool, error) {
	if busy, err := n.observer().Unheard(ctx, n.ECS, clusterName, node); err != nil || busy {
		return false, err
	}
	empty := true
	err := observe.EachTask(ctx, n.ECS, cluster.TaskFilter{Cluster: clusterName, Instance: node, Desired: cluster.TaskStopped}, func(t cluster.ECSTask) error {
		empty = empty && t.Last == cluster.TaskStopped && n.Clock.Now().Sub(t.Stopped) >= since
		return nil
	})
	return empty, err
}

// stop stops tasks by force, through the outbox as any other stop.
func (n *Handler) stop(ctx context.Context, clusterName string, u *cluster.Update, a nodegroup.Action) error {
	for _, id := range a.Tasks {
		if _, err := n.api().StopKnownTask(ctx, clusterName, id, "The node is replaced by update "+u.ID); err != nil {
			return err
		}
	}
	return nil
}

// refusedFor is the error that an update ends with where an action was refused for good; nil where it is tried again. Of
// single nodes only a lack of rights is for good: they may have gone meanwhile.
func refusedFor(g *cluster.NodeGroup, a nodegroup.Action, err error) *cluster.UpdateError {
	why := cluster.ForGood(err)
	if why == nil || a.Instance != "" && !cluster.Denies(why.Code) {
		return nil
	}
	out := updateError(why, cmp.Or(a.Instance, a.Template, g.AutoScalingGroup))
	out.Message = fmt.Sprintf("%s: %s", a, out.Message)
	return &out
}

// updateError is a refusal as an update's error, in EKS's codes, with the resource that it is about.
func updateError(why *cluster.Error, resource string) cluster.UpdateError {
	out := cluster.UpdateError{Code: cluster.OperationNotPermitted, Message: fmt.Sprintf("%s: %s", why.Code, why.Message)}
	if cluster.Denies(why.Code) {
		out.Code = cluster.UpdateAccessDenied
	}
	if resource != "" {
		out.Resources = []string{resource}
	}
	return out
}
