package nodegroupupgrade

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/nodegroup"
	"berth/shared/state"
)

// scheduleUpgrade names the schedule of node-group-upgrade.
const scheduleUpgrade = "node-groups"

// Handler carries out what is asked of node groups, and labels their nodes. Of updates of the nodes (N1 to N6) it looks each minute at what is
// there, writes how far the update is, and then does what that says. Each of these can be lost or repeated.
type Handler struct {
	State     state.State
	ECS       handler.ECS
	Hosts     handler.Hosts
	Auto      handler.AutoScaling
	Updates   handler.GroupUpdates
	Templates handler.LaunchTemplates
	Clock     handler.Clock
	Settings  handler.Settings
	Log       *slog.Logger

	rotation handler.Rotation
	images   map[string]string // of launch template versions, which never change
}

// Schedule takes all that is in progress one look further, as far as its time goes.
func (n *Handler) Schedule(ctx context.Context, name string) error {
	if name != scheduleUpgrade {
		return &cluster.Drop{Reason: fmt.Sprintf("unknown schedule %q, expected %s", name, scheduleUpgrade)}
	}
	return n.rotation.Each(ctx, n.State, n.Clock.Now, n.Log, func(clusterName string) error {
		rows, err := n.State.List(ctx, state.Prefix(clusterName, state.PrefixNodeGroup))
		if err != nil {
			return fmt.Errorf("listing node groups: %w", err)
		}
		var failed []error
		var active []*cluster.NodeGroup
		for _, row := range rows {
			g, ok := row.(*cluster.NodeGroup)
			switch {
			case !ok:
			case g.Status == cluster.NodeGroupActive:
				active = append(active, g)
			default:
				failed = append(failed, cluster.Wrap(n.group(ctx, g), "node group %s", g.Name))
			}
		}
		return errors.Join(append(failed, n.tend(ctx, clusterName, active))...)
	})
}

func (n *Handler) group(ctx context.Context, g *cluster.NodeGroup) error {
	switch {
	case g.Status == cluster.NodeGroupCreating:
		return n.create(ctx, g)
	case g.Status == cluster.NodeGroupDeleting:
		return n.remove(ctx, g)
	case g.Status == cluster.NodeGroupUpdating && g.ConfigUpdate != "":
		return n.configure(ctx, g)
	case g.Status == cluster.NodeGroupUpdating:
		return n.advance(ctx, g)
	}
	return nil
}

// advance takes a node group's update one look further. A lost race is somebody else's look.
func (n *Handler) advance(ctx context.Context, g *cluster.NodeGroup) error {
	u, err := n.row(ctx, g, g.Update)
	if err != nil {
		return err
	}
	if u == nil {
		return n.finish(ctx, g, nil)
	}
	asked, err := n.resolve(ctx, u)
	if err != nil {
		return err
	}
	next, actions, in, err := n.decide(ctx, g, asked)
	if why := cluster.ForGood(err); why != nil {
		return n.refused(ctx, g, asked, updateError(why, g.AutoScalingGroup), in.sizes())
	}
	if err != nil {
		return err
	}
	if next.Ended() {
		return n.finish(ctx, g, next)
	}
	if next != u {
		next.Rev = u.Rev + 1
		if _, err := n.State.Write(ctx, state.Write{Put: next}); err != nil {
			return state.IgnoreConflict(err)
		}
	}
	return n.act(ctx, g, next, actions, in.group.Sizes)
}

// decide looks at what is there and decides what comes next. Before the end it asks ECS: what nobody has heard of, as of a call
// that timed out, is not left behind.
func (n *Handler) decide(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update) (next *cluster.Update, actions []nodegroup.Action, in *seen, err error) {
	for look := 0; ; look++ {
		if in, err = n.look(ctx, g, u); err != nil {
			return nil, nil, in, err
		}
		if in.gone {
			u = nodegroup.Fail(u, groupGone(g))
		}
		next, actions = nodegroup.Next(u, in.group, in.instances, n.Clock.Now())
		if in.gone || !next.Ended() || look > 0 {
			return next, actions, in, nil
		}
		if err := n.refresh(ctx, g.Cluster, in.instances); err != nil {
			return nil, nil, in, err
		}
	}
}

// refresh has the state know what ECS says of nodes.
func (n *Handler) refresh(ctx context.Context, clusterName string, instances []nodegroup.Instance) error {
	var ids []string
	for _, i := range instances {
		if i.Row != nil && !i.Row.Gone() {
			ids = append(ids, i.Row.ID)
		}
	}
	for batch := range slices.Chunk(ids, cluster.DescribeBatch) {
		if err := n.api().InstancesChanged(ctx, clusterName, batch); err != nil {
			return err
		}
	}
	return nil
}

// refused ends an update's way forward where something was refused for good. What is then put back may be refused, too: for
// that there is a time.
func (n *Handler) refused(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update, why cluster.UpdateError, sizes *cluster.Sizes) error {
	next := *u
	if u.Phase == cluster.PhaseRestore {
		next = *nodegroup.GiveUp(u, why.Message, sizes, n.Clock.Now())
	} else {
		next = *nodegroup.Fail(u, why)
	}
	if next.Ended() {
		return n.finish(ctx, g, &next)
	}
	next.Rev = u.Rev + 1
	_, err := n.State.Write(ctx, state.Write{Put: &next})
	return state.IgnoreConflict(err)
}

// resolve reads the launch template of the user's own that an update is made from, once; one that cannot be read ends the
// update's way forward.
func (n *Handler) resolve(ctx context.Context, u *cluster.Update) (*cluster.Update, error) {
	if u.Target.Image != "" || u.Phase == cluster.PhaseRestore {
		return u, nil
	}
	target, err := n.custom(ctx, u.Target)
	if why := cluster.ForGood(err); why != nil {
		return nodegroup.Fail(u, updateError(why, u.Target.SourceTemplate)), nil
	}
	if err != nil {
		return nil, err
	}
	return nodegroup.Resolve(u, target), nil
}

func (n *Handler) row(ctx context.Context, g *cluster.NodeGroup, id string) (*cluster.Update, error) {
	row, err := n.State.Get(ctx, state.UpdateKey(g.Cluster, g.Name, id))
	if err != nil {
		return nil, fmt.Errorf("reading update %s: %w", id, err)
	}
	u, _ := row.(*cluster.Update)
	return u, nil
}

// finish commits the end of an update together with its node group, which is ACTIVE again, and what the update made of it.
func (n *Handler) finish(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update) error {
	next := *g
	next.Rev++
	next.Status, next.ConfigUpdate, next.ModifiedAt = cluster.NodeGroupActive, "", n.Clock.Now()
	writes := []state.Write{{Put: &next}}
	if u != nil {
		if u.Status == cluster.UpdateSuccessful && u.Type == cluster.UpdateVersion {
			next.Target = u.Target
		}
		ended := *u
		ended.Rev++
		ended.Expires = n.Clock.Now().Add(api.KeepUpdate).Unix()
		writes = append(writes, state.Write{Put: &ended})
		handler.Logger(n.Log).Info("node group update ended", "cluster", g.Cluster, "nodeGroup", g.Name, "update", u.ID, "status", u.Status, "errors", u.Errors)
	}
	return state.IgnoreConflict(n.State.Commit(ctx, state.Commit{Cluster: g.Cluster, Version: state.NoVersion, Writes: writes}))
}

// seen is what an update is decided on.
type seen struct {
	group     nodegroup.Group
	instances []nodegroup.Instance
	gone      bool // the Auto Scaling group
}

// sizes are the group's, nil where it was not seen.
func (s *seen) sizes() *cluster.Sizes {
	if s == nil {
		return nil
	}
	return &s.group.Sizes
}

// look reads what is there; with an error comes as much as was read. Nodes made by the update, or by an
// earlier one with its target, get its labels here, so that users' own user data stays as it is.
func (n *Handler) look(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update) (*seen, error) {
	groups, err := n.Auto.DescribeGroups(ctx, []string{g.AutoScalingGroup})
	if err != nil {
		return nil, fmt.Errorf("describing Auto Scaling group %s: %w", g.AutoScalingGroup, err)
	}
	if len(groups) == 0 {
		gone := &seen{gone: true, group: nodegroup.Group{Name: g.AutoScalingGroup, Template: u.OriginalTemplate}}
		if u.Original != nil {
			gone.group.Sizes = *u.Original
		}
		return gone, nil
	}
	auto := groups[0]
	in := &seen{group: nodegroup.Group{
		Name: auto.Name, Sizes: cluster.Sizes{Min: auto.Min, Max: auto.Max, Desired: auto.Desired}, Zones: auto.Zones, Template: auto.Template,
	}}
	if auto.OwnTemplates && u.Phase != cluster.PhaseRestore {
		return in, cluster.Errorf(cluster.CodeInvalidRequest, "%s", ownTemplates(auto.Name))
	}
	if err := n.launches(ctx, u, auto, &in.group); err != nil {
		return in, err
	}
	world, err := n.world(ctx, g.Cluster)
	if err != nil {
		return in, err
	}
	in.group.Growing, err = n.growing(ctx, u, auto.Name)
	if err != nil {
		return in, err
	}
	in.group.Sick, in.group.Room = world.sick(), n.room(ctx, g.Cluster)
	if err := n.introduce(ctx, g.Cluster, auto, world); err != nil {
		return in, err
	}
	for k := range auto.Instances {
		in.instances = append(in.instances, world.member(&auto.Instances[k]))
	}
	err = n.label(ctx, g, u, nodegroup.Template(u, in.group), in.instances)
	if u.Phase == cluster.PhaseRestore && cluster.ForGood(err) != nil {
		err = nil // what is to be put back needs no labels
	}
	return in, err
}

// launches notes the launch template version that was made, and the launches that failed: an update that has failed needs
// neither.
func (n *Handler) launches(ctx context.Context, u *cluster.Update, auto *cluster.AutoScalingGroup, to *nodegroup.Group) error {
	if u.Phase == cluster.PhaseRestore {
		return nil
	}
	if u.Template == "" && u.Target.Image != "" {
		from, err := n.source(ctx, u, auto)
		if err != nil {
			return err
		}
		made, err := n.Templates.FindVersion(ctx, from.ID, nodegroup.TemplateName(u, from.ID+":"+from.Version))
		if err != nil {
			return fmt.Errorf("looking for the launch template version: %w", err)
		}
		if made != nil {
			to.Made = made.String()
		}
	}
	failed, err := n.Updates.FailedLaunches(ctx, auto.Name, u.CreatedAt)
	for _, f := range failed {
		to.Failures = append(to.Failures, nodegroup.LaunchFailure{Zone: f.Zone, Code: f.Code, Message: f.Message})
	}
	return cluster.Wrap(err, "reading the activities of Auto Scaling group %s", auto.Name)
}

// saidFor is how long after managed scaling has written that it scales out the desired capacity may have yet to follow.
const saidFor = time.Minute

// growing reports whether managed scaling is raising the group's desired capacity: it said so just now, or since the surplus
// is being taken back (N5). What it added before is counted with the sizes to come back to.
func (n *Handler) growing(ctx context.Context, u *cluster.Update, group string) (bool, error) {
	use, err := handler.GroupUse(ctx, n.State, group)
	if err != nil || use.Provider == "" {
		return false, err
	}
	p, err := api.Provider(ctx, n.State, use.Provider)
	if err != nil || p == nil || p.Group != group || !p.Scaling.Enabled {
		return false, err
	}
	row, err := n.State.Get(ctx, state.ScalingHistoryKey(u.Cluster, p.Name))
	if err != nil {
		return false, fmt.Errorf("reading what scaled %s: %w", p.Name, err)
	}
	h, ok := row.(*cluster.ScalingHistory)
	if !ok || h == nil || h.LastOut.IsZero() {
		return false, nil
	}
	since := u.Floor != nil && h.LastOut.After(u.FloorAt)
	return since || n.Clock.Now().Before(h.LastOut.Add(saidFor)), nil
}
