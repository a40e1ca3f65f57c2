package nodegroupupgrade

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/shared/cluster"
	"berth/shared/decide/specs"
	"berth/shared/handler"
	"berth/shared/nodegroup"
	"berth/shared/placement/moves"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// An observation is what an upgrade is decided on.
type observation struct {
	group     nodegroup.Group
	instances []nodegroup.Instance
	isGone    bool // the Auto Scaling group was deleted
}

// seenGroup returns the group; nil if it could not be read.
func (o *observation) seenGroup() *nodegroup.Group {
	if o == nil {
		return nil
	}
	return &o.group
}

// observeGroup reads what an update is decided on. With an error it returns as much as was read.
//
// It also labels the nodes that were made by the update, or by an earlier one with its target. So
// users' own user data needs no change.
func (h *Handler) observeGroup(ctx context.Context, g *cluster.NodeGroup, u *cluster.Update) (*observation, error) {
	groups, err := h.Auto.DescribeGroups(ctx, []string{g.AutoScalingGroup})
	if err != nil {
		return nil, fmt.Errorf("describing Auto Scaling group %s: %w", g.AutoScalingGroup, err)
	}
	if len(groups) == 0 {
		return &observation{isGone: true}, nil
	}
	auto := groups[0]
	o := &observation{
		group: nodegroup.Group{Name: auto.Name, Sizes: sizesOf(auto), Zones: auto.Zones, Template: auto.Template},
	}
	if err := observeScaling(ctx, h.State, u, h.Clock, &o.group); err != nil {
		return nil, err
	}
	if err := handler.OwnershipError(auto, h.Settings.Installation); err != nil {
		return o, err
	}
	// A mixed instances policy with templates of its own would launch nodes that no update made.
	if auto.OwnTemplates && u.Phase != cluster.PhaseRestore {
		return o, cluster.Errorf(cluster.CodeInvalidRequest, "%s", nodegroup.OwnTemplatesMessage(auto.Name))
	}
	if err := h.readLaunches(ctx, u, auto, &o.group); err != nil {
		return o, err
	}
	rows, err := readCluster(ctx, h.State, h.Clock.Now(), g.Cluster)
	if err != nil {
		return o, err
	}
	o.group.Unhealthy, o.group.WhyNoRoom = rows.Unhealthy(), roomCheck(ctx, h.State, g.Cluster)
	if err := h.adoptUnknown(ctx, g.Cluster, auto, rows); err != nil {
		return o, err
	}
	o.instances = rows.Members(auto)
	err = labelling{h}.labelUpdated(ctx, g, u, nodegroup.LaunchTemplateOf(u, o.group), o.instances)
	if u.Phase == cluster.PhaseRestore && cluster.PermanentError(err) != nil {
		err = nil // restoring needs no labels
	}
	return o, err
}

// sizesOf returns the sizes of an Auto Scaling group.
func sizesOf(g *cluster.AutoScalingGroup) cluster.Sizes {
	return cluster.Sizes{Min: g.Min, Max: g.Max, Desired: g.Desired}
}

// readLaunches reads the launch template version for the update, and the launches that failed. An
// update that has failed needs neither.
func (h *Handler) readLaunches(
	ctx context.Context, u *cluster.Update, auto *cluster.AutoScalingGroup, to *nodegroup.Group,
) error {
	if u.Phase == cluster.PhaseRestore {
		return nil
	}
	if u.Template == "" && u.Target.Image != "" {
		var err error
		if to.PreparedTemplate, err = preparedTemplate(ctx, h.Templates, u, auto); err != nil {
			return err
		}
	}
	failed, err := h.Updates.FailedLaunches(ctx, auto.Name, u.CreatedAt)
	to.Failures = launchFailures(failed)
	return cluster.Wrap(err, "reading the activities of Auto Scaling group %s", auto.Name)
}

// preparedTemplate returns the launch template version for the update, empty if there is none yet:
// the user's own, if it is one of the template that the group uses already, or else one that a run
// which was cut off has made. That is found by its description.
func preparedTemplate(
	ctx context.Context, templates handler.LaunchTemplates, u *cluster.Update, auto *cluster.AutoScalingGroup,
) (string, error) {
	from, err := baseTemplate(ctx, templates, u, auto)
	if err != nil {
		return "", err
	}
	if t := u.Target; t.SourceTemplate == from.ID && t.ReleaseVersion == "" {
		return t.SourceTemplate + ":" + t.SourceVersion, nil
	}
	made, err := templates.FindVersion(ctx, from.ID, nodegroup.TemplateDescription(u, from.ID+":"+from.Version))
	if err != nil {
		return "", fmt.Errorf("looking for the launch template version: %w", err)
	}
	if made == nil {
		return "", nil
	}
	return made.String(), nil
}

// baseTemplate returns the version that the group launched when the update began, by number: what
// $Default is may change, and EC2 makes a version only from a numbered one (EC2 API reference,
// CreateLaunchTemplateVersion).
func baseTemplate(
	ctx context.Context, templates handler.LaunchTemplates, u *cluster.Update, auto *cluster.AutoScalingGroup,
) (cluster.TemplateRef, error) {
	ref := nodegroup.ParseTemplate(cmp.Or(u.OriginalTemplate, auto.Template))
	if _, err := strconv.Atoi(ref.Version); err == nil {
		return ref, nil
	}
	lt, err := templates.LaunchTemplate(ctx, ref)
	if err != nil {
		return ref, fmt.Errorf("describing the launch template: %w", err)
	}
	ref.Version = strconv.FormatInt(lt.Version, 10)
	return ref, nil
}

// adoptUnknown asks ECS about instances that are in service and have no row: the event of their
// registration may be lost. Without an answer nothing is decided, unless ECS refuses to give one.
func (h *Handler) adoptUnknown(
	ctx context.Context, clusterName string, auto *cluster.AutoScalingGroup, rows *nodegroup.Rows,
) error {
	isUnknown := func(i cluster.GroupInstance) bool {
		return nodegroup.LifecycleOf(i.Lifecycle) == nodegroup.InService && rows.Instance(i.ID) == nil
	}
	if !slices.ContainsFunc(auto.Instances, isUnknown) {
		return nil
	}
	ids, err := h.ECS.ListInstances(ctx, clusterName)
	if err == nil {
		ids = slices.DeleteFunc(ids, rows.HasInstance)
		err = h.newAPI().Clusters.InstancesChanged(ctx, clusterName, ids)
	}
	if err == nil && len(ids) > 0 {
		var found []state.Row
		found, err = readRows(ctx, h.State, clusterName, state.PrefixInstance)
		rows.AddAll(found, h.Clock.Now())
	}
	if cluster.PermanentError(err) != nil {
		handler.Logger(h.Log).
			Warn("looking for unknown instances", "cluster", clusterName, "group", auto.Name, "error",
				err)
		return nil
	}
	return cluster.Wrap(err, "looking for unknown instances of Auto Scaling group %s", auto.Name)
}

// observeScaling records how often managed scaling has raised the group's desired capacity, and
// whether it is doing so, see [nodegroup.IsGrowing].
func observeScaling(
	ctx context.Context, store state.Store, u *cluster.Update, clock handler.Clock, g *nodegroup.Group,
) error {
	use, err := handler.ReadGroupUse(ctx, store, g.Name)
	if err != nil || use.Provider == "" {
		return err
	}
	p, err := handler.FindProvider(ctx, store, use.Provider)
	if err != nil || p == nil || p.Group != g.Name {
		return err
	}
	history, err := state.ReadRow[*cluster.ScalingHistory](
		ctx, store, state.ScalingHistoryKey(u.Cluster, p.Name), "the scaling history of "+p.Name)
	if history != nil {
		g.ScaleOuts = history.ScaleOuts
		g.IsGrowing = p.Scaling.Enabled && nodegroup.IsGrowing(u, history.LastScaleOut, clock.Now())
	}
	return err
}

// roomCheck returns a function that says why the rest of the cluster has no room for the load of
// some nodes (N7).
//
// The function reads the cluster when it is first called, because only updates of nodes in upgrade
// domains call it. If the cluster cannot be read, that is the answer: the update waits.
func roomCheck(ctx context.Context, store state.Store, clusterName string) func(leaving []string) string {
	var snap *snapshot.Snapshot
	var movers map[string]moves.Owner
	answers := map[string]string{}
	return func(leaving []string) string {
		key := strings.Join(slices.Sorted(slices.Values(leaving)), " ")
		if why, known := answers[key]; known {
			return why
		}
		if snap == nil {
			loaded, err := snapshot.Load(ctx, store, clusterName)
			if err != nil {
				return "the cluster could not be read: " + err.Error()
			}
			snap, movers = loaded, specs.Movers(loaded)
		}
		answers[key] = scaling.WhyNoRoom(snap, movers, leaving)
		return answers[key]
	}
}
