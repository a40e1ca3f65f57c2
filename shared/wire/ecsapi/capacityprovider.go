package ecsapi

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
	"berth/shared/wire/shape"
)

// providerOperations answers the operations on capacity providers, which are Berth's own (C7).
type providerOperations struct {
	input.References
	providers CapacityProviders
}

func (o *providerOperations) operations() map[string]awsjson.Operation {
	return map[string]awsjson.Operation{
		"CreateCapacityProvider":    awsjson.TypedOperation(o.createCapacityProvider),
		"UpdateCapacityProvider":    awsjson.TypedOperation(o.updateCapacityProvider),
		"DeleteCapacityProvider":    awsjson.TypedOperation(o.deleteCapacityProvider),
		"DescribeCapacityProviders": awsjson.TypedOperation(o.describeCapacityProviders),
	}
}

// createCapacityProvider reads a provider of an Auto Scaling group. Without the block
// managedScaling, managed scaling is off; without managedDraining, draining is on. Both are ECS's
// defaults.
func (o *providerOperations) createCapacityProvider(
	ctx context.Context, in *ecs.CreateCapacityProviderInput,
) (*ecs.CreateCapacityProviderOutput, error) {
	if err := refuseUnserved(
		unserved{"managedInstancesProvider", in.ManagedInstancesProvider != nil},
		unserved{"cluster", input.Value(in.Cluster) != ""},
	); err != nil {
		return nil, err
	}
	g := in.AutoScalingGroupProvider
	if g == nil {
		return nil, input.Invalid("autoScalingGroupProvider must be given.")
	}
	p := &cluster.CapacityProvider{GroupARN: input.Value(g.AutoScalingGroupArn)}
	var err error
	if p.Name, err = o.CapacityProviderName(input.Value(in.Name)); err != nil {
		return nil, err
	}
	if p.Tags, err = checkTags(in.Tags, scalingTags); err != nil {
		return nil, err
	}
	if p.Group, err = o.AutoScalingGroupName(p.GroupARN); err != nil {
		return nil, err
	}
	change, err := parseProviderChange(p.Name, g.ManagedScaling, g.ManagedTerminationProtection, g.ManagedDraining)
	if err != nil {
		return nil, err
	}
	// What the block managedScaling leaves out has ECS's defaults (C3).
	base := cluster.DefaultScaling
	base.Enabled = g.ManagedScaling != nil // as with ECS: without the block managed scaling is off
	if p.Scaling, err = change.Scaling.ApplyTo(base); err != nil {
		return nil, err
	}
	p.Protection = input.Value(change.Protection)
	p.Draining = change.Draining == nil || *change.Draining
	made, err := o.providers.CreateCapacityProvider(ctx, p)
	if err != nil {
		return nil, err
	}
	return &ecs.CreateCapacityProviderOutput{CapacityProvider: capacityProviderShape(o.Account, made, true)}, nil
}

// updateCapacityProvider reads a change of settings. The group of a provider cannot be changed, as
// with ECS.
func (o *providerOperations) updateCapacityProvider(
	ctx context.Context, in *ecs.UpdateCapacityProviderInput,
) (*ecs.UpdateCapacityProviderOutput, error) {
	if err := refuseUnserved(
		unserved{"managedInstancesProvider", in.ManagedInstancesProvider != nil},
		unserved{"cluster", input.Value(in.Cluster) != ""},
	); err != nil {
		return nil, err
	}
	name, err := o.CapacityProviderName(input.Value(in.Name))
	if err != nil {
		return nil, err
	}
	g := in.AutoScalingGroupProvider
	if g == nil {
		return nil, input.Invalid("autoScalingGroupProvider must be given.")
	}
	change, err := parseProviderChange(name, g.ManagedScaling, g.ManagedTerminationProtection, g.ManagedDraining)
	if err != nil {
		return nil, err
	}
	p, err := o.providers.UpdateCapacityProvider(ctx, change)
	if err != nil {
		return nil, err
	}
	return &ecs.UpdateCapacityProviderOutput{CapacityProvider: capacityProviderShape(o.Account, p, true)}, nil
}

// deleteCapacityProvider answers with the provider: DELETE_FAILED if a cluster still uses it.
func (o *providerOperations) deleteCapacityProvider(
	ctx context.Context, in *ecs.DeleteCapacityProviderInput,
) (*ecs.DeleteCapacityProviderOutput, error) {
	if err := refuseUnserved(unserved{"cluster", input.Value(in.Cluster) != ""}); err != nil {
		return nil, err
	}
	name, err := o.CapacityProviderName(input.Value(in.CapacityProvider))
	if err != nil {
		return nil, err
	}
	p, err := o.providers.DeleteCapacityProvider(ctx, name)
	if err != nil {
		return nil, err
	}
	return &ecs.DeleteCapacityProviderOutput{CapacityProvider: capacityProviderShape(o.Account, p, true)}, nil
}

// describeCapacityProviders answers a page of providers by name, in order. Providers that were
// named come in one page.
func (o *providerOperations) describeCapacityProviders(
	ctx context.Context, in *ecs.DescribeCapacityProvidersInput,
) (*ecs.DescribeCapacityProvidersOutput, error) {
	if len(in.CapacityProviders) > 100 {
		return nil, input.Invalid("capacityProviders cannot have more than 100 items.")
	}
	if err := refuseUnserved(unserved{"cluster", input.Value(in.Cluster) != ""}); err != nil {
		return nil, err
	}
	for _, field := range in.Include {
		if err := input.CheckOneOf("include", field); err != nil {
			return nil, err
		}
	}
	names, err := input.ReadEach(in.CapacityProviders, o.CapacityProviderName)
	if err != nil {
		return nil, err
	}
	most, err := input.PageSize(in.MaxResults, max(describedProviders, len(names)))
	if err != nil {
		return nil, err
	}
	begin, err := input.PageStart("DescribeCapacityProviders", input.Value(in.NextToken))
	if err != nil {
		return nil, err
	}
	found, missing, err := o.providers.DescribeCapacityProviders(ctx, names)
	if err != nil {
		return nil, err
	}
	// The page token names the last provider of a page, so pages need an order.
	slices.SortFunc(found, func(a, b *cluster.CapacityProvider) int { return strings.Compare(a.Name, b.Name) })
	out := &ecs.DescribeCapacityProvidersOutput{}
	for _, p := range found {
		if p.Name <= begin {
			continue
		}
		if len(out.CapacityProviders) == most {
			out.NextToken = new(input.PageToken("DescribeCapacityProviders", *out.CapacityProviders[most-1].Name))
			break
		}
		out.CapacityProviders = append(out.CapacityProviders,
			*capacityProviderShape(o.Account, p, slices.Contains(in.Include, types.CapacityProviderFieldTags)))
	}
	for _, f := range missing {
		out.Failures = append(out.Failures, types.Failure{Arn: new(o.Account.ARN("capacity-provider", f.ARN)),
			Reason: shape.TextOrNil(f.Reason)})
	}
	return out, nil
}

// scalingTags are the checks of the provider tags of Berth's own, by tag.
var scalingTags = func() map[string]func(types.Tag) error {
	out := map[string]func(types.Tag) error{}
	for _, key := range cluster.ScalingTags {
		out[key] = func(t types.Tag) error {
			return cluster.ApplyScalingTag(&cluster.ManagedScaling{}, key, input.Value(t.Value))
		}
	}
	return out
}()

// parseProviderChange reads the settings that CreateCapacityProvider and UpdateCapacityProvider
// share. What is not given is nil. Bounds are checked where the change is applied
// ([operation.ScalingChange.ApplyTo]).
func parseProviderChange(name string, scaling *types.ManagedScaling, protection types.ManagedTerminationProtection,
	draining types.ManagedDraining) (c operation.UpdateCapacityProvider, err error) {
	c.Name = name
	if c.Protection, err = parseEnabled("managedTerminationProtection", string(protection)); err != nil {
		return c, err
	}
	if c.Draining, err = parseEnabled("managedDraining", string(draining)); err != nil {
		return c, err
	}
	if scaling == nil {
		return c, nil
	}
	if c.Scaling.Enabled, err = parseEnabled("managedScaling.status", string(scaling.Status)); err != nil {
		return c, err
	}
	c.Scaling.Target, c.Scaling.MinStep = intOrNil(scaling.TargetCapacity), intOrNil(scaling.MinimumScalingStepSize)
	c.Scaling.MaxStep = intOrNil(scaling.MaximumScalingStepSize)
	if w := scaling.InstanceWarmupPeriod; w != nil {
		c.Scaling.Warmup = new(time.Duration(*w) * time.Second)
	}
	return c, nil
}

// parseEnabled reads ENABLED or DISABLED; nil if nothing is given.
func parseEnabled(member, s string) (*bool, error) {
	switch s {
	case "":
		return nil, nil
	case "ENABLED", "DISABLED":
		return new(s == "ENABLED"), nil
	}
	return nil, input.Invalid("%s is %.64q, %s", member, s, choice.Expected(s, []string{"ENABLED", "DISABLED"}))
}

// describedProviders is how many providers a page has at most, unless more are named (ECS API
// reference, DescribeCapacityProviders).
const describedProviders = 10

// capacityProviderShape returns a provider as the API shows it, its tags only if asked for. One of
// Fargate has neither settings nor tags.
func capacityProviderShape(account cluster.Account, p *cluster.CapacityProvider, tags bool) *types.CapacityProvider {
	if cluster.IsFargateProvider(p.Name) {
		return &types.CapacityProvider{
			CapacityProviderArn: new(account.ARN("capacity-provider", p.Name)), Name: &p.Name,
			Type: types.CapacityProviderType(p.Name), Status: types.CapacityProviderStatusActive, Tags: []types.Tag{},
		}
	}
	sc := p.Scaling
	out := &types.CapacityProvider{
		CapacityProviderArn: new(account.ARN("capacity-provider", p.Name)), Name: &p.Name,
		Type:   types.CapacityProviderTypeEc2Autoscaling,
		Status: types.CapacityProviderStatusActive, UpdateStatus: types.CapacityProviderUpdateStatus(p.UpdateStatus),
		UpdateStatusReason: shape.TextOrNil(p.UpdateReason),
		AutoScalingGroupProvider: &types.AutoScalingGroupProvider{
			AutoScalingGroupArn: &p.GroupARN,
			ManagedScaling: &types.ManagedScaling{
				Status: types.ManagedScalingStatus(enabledText(sc.Enabled)), TargetCapacity: new(int32(sc.Target)),
				MinimumScalingStepSize: new(int32(sc.MinStep)), MaximumScalingStepSize: new(int32(sc.MaxStep)),
				InstanceWarmupPeriod: new(int32(sc.Warmup / time.Second)),
			},
			ManagedTerminationProtection: types.ManagedTerminationProtection(enabledText(p.Protection)),
			ManagedDraining:              types.ManagedDraining(enabledText(p.Draining)),
		},
	}
	switch {
	case p.Inactive:
		out.Status = types.CapacityProviderStatusInactive
	case p.HasFailedCreation(): // no cluster can use it
		out.Status = types.CapacityProviderStatusProvisioning
	}
	if tags {
		out.Tags = shape.TagShapes(p.Tags)
	}
	return out
}

// enabledText returns ENABLED or DISABLED.
func enabledText(on bool) string {
	if on {
		return "ENABLED"
	}
	return "DISABLED"
}
