package managedscaling

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/scaling"
)

// launchTypes returns the instance types that the group launches, from what is remembered or, if
// that is out of date, from EC2. Only waiting tasks make them worth a call.
//
// Without an answer of EC2 the decision is made from the group's instances alone. A refusal that
// repeating does not change, such as one for lack of permission, is remembered like an answer, so
// that EC2 is not asked each minute.
func (r *round) launchTypes(
	ctx context.Context, p *cluster.CapacityProvider, g *cluster.AutoScalingGroup, known cluster.LaunchTypes,
) cluster.LaunchTypes {
	now := r.Clock.Now()
	if r.Types == nil || len(r.waiting[p.Name]) == 0 || !scaling.AreLaunchTypesDue(g, known, now) {
		return known
	}
	found, err := r.readLaunchTypes(ctx, g)
	if err != nil {
		handler.Logger(r.Log).Warn("the instance types of a group are unknown", "cluster", r.of.Cluster,
			"provider", p.Name, "group", g.Name, "error", err)
		if cluster.PermanentError(err) == nil {
			return known
		}
	}
	found.Source, found.ReadAt = g.LaunchSource(), now
	return found
}

// readLaunchTypes asks EC2 for the types of the mixed instances policy, or, if it names none, of
// the launch template. A group with neither, whose instances are described by a launch
// configuration, has no types.
func (r *round) readLaunchTypes(
	ctx context.Context, g *cluster.AutoScalingGroup,
) (found cluster.LaunchTypes, err error) {
	names, selections := g.Types, g.Requirements
	if len(names)+len(selections) == 0 && g.Template != "" {
		id, version, _ := strings.Cut(g.Template, ":")
		template, err := r.Types.LaunchTemplate(ctx, cluster.TemplateRef{ID: id, Version: version})
		if err != nil {
			return found, err
		}
		if template.Type != "" {
			names = []string{template.Type}
		}
		if template.Requirements != "" {
			selections = []string{template.Requirements}
		}
	}
	found.ByAttributes = len(selections) > 0
	for _, s := range selections {
		matching, err := r.Types.MatchTypes(ctx, s)
		if err != nil {
			return cluster.LaunchTypes{}, err
		}
		names = slices.Concat(names, matching)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) == 0 {
		return found, nil
	}
	if found.Types, err = r.Types.DescribeTypes(ctx, names); err != nil {
		return cluster.LaunchTypes{}, err
	}
	if len(found.Types) < len(names) {
		return cluster.LaunchTypes{}, fmt.Errorf("EC2 describes %d of %d instance types", len(found.Types), len(names))
	}
	if found.ByAttributes {
		found.Types = scaling.ExtremeTypes(found.Types)
	}
	return found, nil
}
