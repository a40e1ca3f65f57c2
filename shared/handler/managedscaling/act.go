package managedscaling

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/scaling"
	"berth/shared/snapshot"
)

// An execution carries out a decision about one provider.
type execution struct {
	*round
	provider *cluster.CapacityProvider
	group    *cluster.AutoScalingGroup
	decision *scaling.Decision
}

// carryOut carries out the decision in the order in which each step is safe if the next one never
// happens:
//
//  1. Instances that get tasks are protected.
//  2. It is recorded which instances may be terminated, so that dispatch protects one before
//     a task starts there.
//  3. Instances without tasks are released.
//  4. Instances are activated or drained.
//  5. The group is resized.
//
// A failure ends it, and the next minute decides anew. resized reports whether everything was done.
func (e *execution) carryOut(ctx context.Context) (resized bool, err error) {
	h, d, clusterName := e.round.Handler, e.decision, e.of.Cluster
	if err := e.protectInstances(ctx, d.Protect); err != nil {
		return false, err
	}
	err = errors.Join(h.markReleasable(ctx, clusterName, d.UnmarkReleasable, ""),
		h.markReleasable(ctx, clusterName, d.MarkReleasable, e.group.Name))
	if err != nil {
		return false, err
	}
	if released, err := e.releaseInstances(ctx, d.Release); err != nil || !released {
		return false, err
	}
	for _, id := range d.Undrain {
		if err := h.Hosts.ActivateInstance(ctx, clusterName, id); err != nil {
			return false, fmt.Errorf("activating instance %s: %w", id, err)
		}
	}
	if err := e.refreshSnapshot(ctx, d.Undrain); err != nil {
		return false, err
	}
	for _, id := range d.Drain {
		if err := h.ECS.DrainInstance(ctx, clusterName, id); err != nil {
			return false, fmt.Errorf("draining instance %s: %w", id, err)
		}
	}
	if err := e.refreshSnapshot(ctx, d.Drain); err != nil { // the decision about the next provider sees it
		return false, err
	}
	return e.resizeGroup(ctx)
}

// resizeGroup terminates instances and sets the desired capacity, if the group is still as the
// decision saw it. Terminating an instance lowers the desired capacity by itself, so only the rest
// of the difference is set.
func (e *execution) resizeGroup(ctx context.Context) (resized bool, err error) {
	h, d, g := e.round.Handler, e.decision, e.group
	if d.Desired == g.Desired && len(d.Replace) == 0 {
		return true, nil
	}
	if same, err := e.isUnchanged(ctx); err != nil || !same {
		return false, err
	}
	registered := instancesByEC2ID(e.snap)
	for _, id := range d.Terminate {
		if busy, err := e.isBusyAtECS(ctx, registered[id]); err != nil || busy {
			return false, err
		}
		if err := h.Groups.TerminateInstance(ctx, id, true); err != nil {
			return false, fmt.Errorf("terminating instance %s: %w", id, err)
		}
	}
	for _, id := range d.Replace { // the group launches others
		if err := h.Groups.TerminateInstance(ctx, id, false); err != nil {
			return false, fmt.Errorf("replacing instance %s: %w", id, err)
		}
	}
	if d.Desired == g.Desired-len(d.Terminate) {
		return true, nil
	}
	handler.Logger(h.Log).Info("setting the desired capacity",
		"cluster", e.of.Cluster, "provider", e.provider.Name, "from", g.Desired, "to", d.Desired, "why", d.Why)
	err = h.Groups.SetDesired(ctx, g.Name, d.Desired)
	return err == nil, cluster.Wrap(err, "setting the desired capacity of group %s to %d", g.Name, d.Desired)
}

// isBusyAtECS reports whether ECS has tasks on an instance that has none in the state, and records them: their
// events may be late. v is nil if the instance is not registered.
func (e *execution) isBusyAtECS(ctx context.Context, v *snapshot.InstanceView) (bool, error) {
	if v == nil {
		return false, nil
	}
	h := e.round.Handler
	return h.newObserver().RecordUnreportedTasks(ctx, h.ECS, e.of.Cluster, v.ID)
}

// isUnchanged reports whether the group is still as the decision saw it: its sizes, whether its
// nodes are being upgraded, and no new instance. A desired capacity is set as a number, so without
// this check it would undo what an update or the group's owner has changed.
func (e *execution) isUnchanged(ctx context.Context) (bool, error) {
	h, g := e.round.Handler, e.group
	wasUpgrading := e.updates[g.Name] != nil
	updates, err := readUpdates(ctx, h.State, e.of.Cluster)
	if err != nil {
		return false, err
	}
	e.round.updates = updates
	found, err := h.Groups.DescribeGroups(ctx, []string{g.Name})
	if err != nil {
		return false, fmt.Errorf("describing Auto Scaling group %s again: %w", g.Name, err)
	}
	isSame := len(found) == 1 && found[0].Desired == g.Desired && found[0].Min == g.Min && found[0].Max == g.Max &&
		wasUpgrading == (updates[g.Name] != nil)
	if isSame {
		// A new instance may have got tasks, or be about to, that the decision did not count.
		known := map[string]bool{}
		for _, i := range g.Instances {
			known[i.ID] = true
		}
		isSame = !slices.ContainsFunc(found[0].Instances, func(i cluster.GroupInstance) bool { return !known[i.ID] })
	}
	if !isSame {
		handler.Logger(h.Log).
			Info("the group has changed meanwhile: its size is decided on anew", "cluster", e.of.Cluster, "group",
				g.Name)
	}
	return isSame, nil
}

// protectInstances protects instances that have tasks. A group refuses for all if one is leaving it at this
// moment: the others are then protected one by one.
func (e *execution) protectInstances(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	h := e.round.Handler
	err := h.Groups.SetInstanceProtection(ctx, e.group.Name, ids, true)
	if cluster.PermanentError(err) == nil || len(ids) == 1 {
		return cluster.Wrap(err, "protecting instances")
	}
	for _, id := range ids {
		if err := h.Groups.SetInstanceProtection(ctx, e.group.Name, []string{id}, true); err != nil {
			if cluster.PermanentError(err) == nil {
				return fmt.Errorf("protecting instances: %w", err)
			}
			handler.Logger(h.Log).Warn("an instance is not protected", "cluster", e.of.Cluster, "instance", id,
				"error", err)
		}
	}
	return nil
}

// releaseInstances removes the protection of instances without tasks, so that the group may
// terminate them. Dispatch may have cleared the record of one meanwhile, and protected the instance
// just before this call. So the records are read again; if one is cleared, the instance is
// protected again and nothing is released this time (C6). The records are read again after an error,
// too: it may have left some of the instances released.
func (e *execution) releaseInstances(ctx context.Context, ids []string) (released bool, err error) {
	if len(ids) == 0 {
		return true, nil
	}
	err = cluster.Wrap(e.round.Groups.SetInstanceProtection(ctx, e.group.Name, ids, false), "releasing instances")
	if !e.provider.Protection {
		return err == nil, err
	}
	inUse, failed := e.listInUse(ctx, ids)
	if len(inUse) > 0 {
		handler.Logger(e.round.Log).
			Info("tasks have come to instances that were released", "cluster", e.of.Cluster, "instances", inUse)
		failed = errors.Join(failed, e.protectInstances(ctx, inUse))
	}
	err = errors.Join(err, failed)
	return err == nil && len(inUse) == 0, err
}

// listInUse returns the instances that are not free any more. With an error it returns those that it
// has found.
func (e *execution) listInUse(ctx context.Context, ids []string) (inUse []string, err error) {
	registered := instancesByEC2ID(e.snap)
	var failed []error
	for _, id := range ids {
		free, err := e.isStillFree(ctx, id, registered[id])
		switch {
		case err != nil:
			failed = append(failed, err)
		case !free:
			inUse = append(inUse, id)
		}
	}
	return inUse, errors.Join(failed...)
}

// isStillFree reports whether the record still says that the group may terminate the instance. An
// instance that is not registered is free until it registers.
func (e *execution) isStillFree(ctx context.Context, ec2ID string, v *snapshot.InstanceView) (bool, error) {
	store, clusterName := e.round.State, e.of.Cluster
	if v == nil {
		known, err := handler.HasRegistered(ctx, store, clusterName, ec2ID)
		return !known, err
	}
	i, err := readInstance(ctx, store, clusterName, v.ID)
	return i == nil || i.ReleasedIn == e.group.Name, err
}

// addDatapoint adds the values of the provider's metrics to those that the round publishes. The
// desired capacity is the group's present one.
func (e *execution) addDatapoint(resized bool) {
	if !e.decision.Published {
		return
	}
	desired := e.group.Desired
	if resized {
		desired = e.decision.Desired
	}
	e.pass.points = append(e.pass.points, datapoint{cluster.Datapoint{
		Namespace: e.round.Settings.ScalingNamespace, Cluster: e.of.Cluster, Provider: e.provider.Name,
		Percent: e.decision.Reservation, Desired: desired, At: e.round.Clock.Now(),
	}, e.decision.Reservation == float64(e.provider.Scaling.Target)})
}
