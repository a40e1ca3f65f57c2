package autoscaling

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// QueryService returns the operations of Auto Scaling that are simulated.
func (e *Groups) QueryService() protocol.QueryService {
	g, h, p := &groupAPI{e}, &hookAPI{e}, &policyAPI{e}
	return protocol.QueryService{Namespace: "http://autoscaling.amazonaws.com/doc/2011-01-01/",
		Actions: map[string]protocol.Action{
			"CompleteLifecycleAction":             protocol.LenientAction(h.completeLifecycleAction),
			"CreateAutoScalingGroup":              protocol.StrictAction(g.createGroup),
			"CreateOrUpdateTags":                  protocol.StrictAction(g.createOrUpdateTags),
			"DeleteAutoScalingGroup":              protocol.StrictAction(g.deleteGroup),
			"DeleteLifecycleHook":                 protocol.LenientAction(h.deleteLifecycleHook),
			"DeletePolicy":                        protocol.StrictAction(p.deletePolicy),
			"DeleteTags":                          protocol.StrictAction(g.deleteTags),
			"DescribeAccountLimits":               protocol.StrictAction(g.describeAccountLimits),
			"DescribeAutoScalingGroups":           protocol.StrictAction(g.describeGroups),
			"DescribeAutoScalingInstances":        protocol.StrictAction(g.describeInstances),
			"DescribeLifecycleHooks":              protocol.StrictAction(h.describeLifecycleHooks),
			"DescribePolicies":                    protocol.StrictAction(p.describePolicies),
			"DescribeScalingActivities":           protocol.StrictAction(g.describeActivities),
			"PutLifecycleHook":                    protocol.StrictAction(h.putLifecycleHook),
			"PutScalingPolicy":                    protocol.StrictAction(p.putScalingPolicy),
			"RecordLifecycleActionHeartbeat":      protocol.LenientAction(h.recordHeartbeat),
			"ResumeProcesses":                     protocol.StrictAction(g.resumeProcesses),
			"SetDesiredCapacity":                  protocol.StrictAction(g.setDesiredCapacity),
			"SetInstanceProtection":               protocol.StrictAction(g.setInstanceProtection),
			"SuspendProcesses":                    protocol.StrictAction(g.suspendProcesses),
			"TerminateInstanceInAutoScalingGroup": protocol.StrictAction(g.terminateInstance),
			"UpdateAutoScalingGroup":              protocol.StrictAction(g.updateGroup),
		}}
}

// groupAPI answers calls about groups and their instances.
type groupAPI struct{ groups *Groups }

type templateInput struct{ LaunchTemplateId, LaunchTemplateName, Version string }

// mixedInput is a MixedInstancesPolicy. How On-Demand and Spot instances are mixed is kept and
// described; the simulated instances are all alike.
type mixedInput struct {
	InstancesDistribution *distribution
	LaunchTemplate        struct {
		LaunchTemplateSpecification templateInput
		Overrides                   []overrideInput
	}
}

// overrideInput is an instance type of a MixedInstancesPolicy.
type overrideInput struct {
	InstanceType, WeightedCapacity                    string
	LaunchTemplateSpecification, InstanceRequirements protocol.Tree
}

// updateInput is the input of UpdateAutoScalingGroup. Absent members leave the group as it is.
type updateInput struct {
	AutoScalingGroupName              string
	MinSize, MaxSize, DesiredCapacity *int
	NewInstancesProtectedFromScaleIn  *bool
	LaunchTemplate                    templateInput
	MixedInstancesPolicy              *mixedInput `protocol:"strict"`
	AvailabilityZones                 []string
	VPCZoneIdentifier                 string
	keptSettings
}

// tagInput is one tag of one group.
type tagInput struct {
	Key, Value, ResourceId, ResourceType string
	PropagateAtLaunch                    string
}

// createInput is an updateInput with required members, and tags.
type createInput struct {
	AutoScalingGroupName             string `protocol:"required"`
	MinSize                          *int   `protocol:"required"`
	MaxSize                          *int   `protocol:"required"`
	DesiredCapacity                  *int
	NewInstancesProtectedFromScaleIn *bool
	LaunchTemplate                   templateInput
	MixedInstancesPolicy             *mixedInput `protocol:"strict"`
	AvailabilityZones                []string
	VPCZoneIdentifier                string
	Tags                             []tagInput
	keptSettings
}

// createGroup applies the input to an empty group like an update, and then checks what only a new
// group needs: zones or subnets, and something to launch.
func (a *groupAPI) createGroup(_ context.Context, in *createInput) (any, error) {
	e := a.groups
	g := &group{Name: in.AutoScalingGroupName, Rebalances: true, Tags: map[string]string{}, Own: map[string]bool{}}
	for _, t := range in.Tags {
		if err := g.setGroupTag(t.Key, t.Value, t.PropagateAtLaunch == "true"); err != nil {
			return nil, err
		}
	}
	return nil, e.kernel.Call("CreateAutoScalingGroup", g.Name, func(now time.Time) error {
		err := a.applyUpdate(g, &updateInput{
			in.AutoScalingGroupName, in.MinSize, in.MaxSize, in.DesiredCapacity, in.NewInstancesProtectedFromScaleIn,
			in.LaunchTemplate,
			in.MixedInstancesPolicy, in.AvailabilityZones, in.VPCZoneIdentifier, in.keptSettings,
		})
		if err != nil {
			return err
		}
		if len(g.Machine.Zones) == 0 {
			return cluster.Errorf("ValidationError", "At least one Availability Zone or VPC Subnet is required.")
		}
		if g.Template == "" {
			return cluster.Errorf("ValidationError",
				"Valid requests must contain either LaunchTemplate or MixedInstancesPolicy parameter.")
		}
		if err := e.checkNewGroup(g); err != nil {
			return err
		}
		e.insertGroup(g, now)
		return nil
	})
}

// updateGroup changes a copy, so that a refused update leaves the group as it was.
func (a *groupAPI) updateGroup(_ context.Context, in *updateInput) (any, error) {
	return nil, a.groups.changeGroup("UpdateAutoScalingGroup", in.AutoScalingGroupName,
		func(g *group, _ time.Time) error {
			next := *g
			if err := a.applyUpdate(&next, in); err != nil {
				return err
			}
			*g = next
			return nil
		})
}

// applyUpdate applies the members that the input has.
func (a *groupAPI) applyUpdate(g *group, in *updateInput) error {
	for to, from := range map[*int]*int{&g.Min: in.MinSize, &g.Max: in.MaxSize, &g.Desired: in.DesiredCapacity} {
		if from != nil {
			*to = *from
		}
	}
	if in.DesiredCapacity == nil {
		g.Desired = max(g.Min, min(g.Max, g.Desired))
	}
	if err := checkSizes(g.Min, g.Max, g.Desired); err != nil {
		return err
	}
	g.keptSettings.update(in.keptSettings)
	if in.NewInstancesProtectedFromScaleIn != nil {
		g.Protects = *in.NewInstancesProtectedFromScaleIn
	}
	if err := g.setZones(in, a.groups.kernel.Account.Region); err != nil {
		return err
	}
	return a.updateTemplate(g, in)
}

// setZones reads the zones of a group, or its subnets. There are no simulated networks: the first
// subnet is in the Region's zone a, the second in b, and so on.
func (g *group) setZones(in *updateInput, region string) error {
	zones := in.AvailabilityZones
	for _, zone := range zones {
		if letter, ok := strings.CutPrefix(zone, region); !ok || len(letter) != 1 || letter < "a" || letter > "f" {
			return cluster.Errorf("ValidationError", "Invalid availability zones: [%.64s]", zone)
		}
	}
	if in.VPCZoneIdentifier != "" {
		g.Subnets = in.VPCZoneIdentifier
		for n, subnet := range strings.Split(g.Subnets, ",") {
			if !strings.HasPrefix(strings.TrimSpace(subnet), "subnet-") || n >= 6 {
				return cluster.Errorf("ValidationError", "The subnet ID '%.64s' does not exist", subnet)
			}
			if len(in.AvailabilityZones) == 0 {
				zones = append(zones, region+string(rune('a'+n)))
			}
		}
	}
	if len(zones) > 0 {
		g.Machine.Zones = zones
	}
	return nil
}

// updateTemplate reads the launch template of a group, or its mixed instances policy: the later
// replaces the earlier. Launch templates per instance type, and selections by attributes
// in place of a type, are not simulated, and refused.
func (a *groupAPI) updateTemplate(g *group, in *updateInput) error {
	spec := in.LaunchTemplate
	var types []weightedType
	if in.MixedInstancesPolicy != nil {
		spec = in.MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification
		for n, o := range in.MixedInstancesPolicy.LaunchTemplate.Overrides {
			member := fmt.Sprintf("MixedInstancesPolicy.LaunchTemplate.Overrides.member.%d.", n+1)
			if o.LaunchTemplateSpecification != nil {
				return protocol.UnknownParameter(member + "LaunchTemplateSpecification")
			}
			if o.InstanceRequirements != nil {
				return protocol.UnknownParameter(member + "InstanceRequirements")
			}
			types = append(types, weightedType{o.InstanceType, o.WeightedCapacity})
		}
	}
	ref := cluster.TemplateRef{ID: spec.LaunchTemplateId, Name: spec.LaunchTemplateName}
	if ref.ID+ref.Name == "" {
		return nil
	}
	t, _, err := a.groups.templates.ResolveTemplate(ref)
	if err != nil {
		return cluster.Errorf("ValidationError", "You must use a valid fully-formed launch template. %s",
			errorMessage(err))
	}
	g.Mixed, g.Types = in.MixedInstancesPolicy != nil, types
	if !g.Mixed {
		g.Distribution = nil
	} else if given := in.MixedInstancesPolicy.InstancesDistribution; given != nil || g.Distribution == nil {
		g.Distribution = given.withDefaults()
	}
	return a.groups.setTemplate(g, t.ID+":"+cmp.Or(spec.Version, "$Default"))
}

type deleteInput struct {
	AutoScalingGroupName string
	ForceDelete          bool
}

// deleteGroup terminates the instances at once, without hooks. ForceDelete is needed if there are
// any. The group's policies and their alarms go with it, its launch template stays.
func (a *groupAPI) deleteGroup(_ context.Context, in *deleteInput) (any, error) {
	e := a.groups
	return nil, e.kernel.Call("DeleteAutoScalingGroup", in.AutoScalingGroupName, func(now time.Time) error {
		g := e.byName[in.AutoScalingGroupName]
		if g == nil {
			return groupNotFound(in.AutoScalingGroupName)
		}
		if len(g.Members) > 0 && !in.ForceDelete {
			return cluster.Errorf("ResourceInUse",
				"You cannot delete an AutoScalingGroup while there are instances or pending Spot instance "+
					"request(s) still in the group.")
		}
		delete(e.byName, g.Name)
		e.kernel.DeleteRow(g)
		for k := range g.Members {
			e.terminateMember(&g.Members[k], now)
		}
		for _, p := range g.Policies {
			e.alarms.RemoveAlarms(p.trackingAlarmNames(g))
		}
		return nil
	})
}

// setDesiredCapacity ignores HonorCooldown: no group is ever in a cooldown here.
func (a *groupAPI) setDesiredCapacity(ctx context.Context, in *struct {
	AutoScalingGroupName string
	DesiredCapacity      int `protocol:"required"`
	HonorCooldown        string
}) (any, error) {
	return nil, a.groups.SetDesired(ctx, in.AutoScalingGroupName, in.DesiredCapacity)
}

// maxProtect is how many instances one call protects (Auto Scaling API, SetInstanceProtection).
const maxProtect = 50

// setInstanceProtection changes all instances or none.
func (a *groupAPI) setInstanceProtection(ctx context.Context, in *struct {
	AutoScalingGroupName string
	InstanceIds          []string
	ProtectedFromScaleIn bool `protocol:"required"`
}) (any, error) {
	if len(in.InstanceIds) > maxProtect {
		return nil, cluster.Errorf("ValidationError",
			"1 validation error detected: Value at 'instanceIds' failed to satisfy constraint: Member must have "+
				"length less than or equal to %d", maxProtect)
	}
	return nil, a.groups.SetInstanceProtection(ctx, in.AutoScalingGroupName, in.InstanceIds, in.ProtectedFromScaleIn)
}

// terminateInstance answers with the activity of the termination. That of an instance which was
// terminating already is the earlier one.
func (a *groupAPI) terminateInstance(ctx context.Context, in *struct {
	InstanceId                     string `protocol:"required"`
	ShouldDecrementDesiredCapacity bool   `protocol:"required"`
}) (any, error) {
	name := a.groups.groupOfInstance(in.InstanceId)
	if err := a.groups.TerminateInstance(ctx, in.InstanceId, in.ShouldDecrementDesiredCapacity); err != nil {
		return nil, err
	}
	var out struct {
		Activity *xmlActivity
	}
	err := a.groups.kernel.View(func(time.Time) error {
		g := a.groups.byName[name]
		if g == nil {
			return nil
		}
		for _, activity := range slices.Backward(g.Activities) {
			if strings.HasSuffix(activity.Description, in.InstanceId) {
				out.Activity = new(activity.describeActivity(g))
				break
			}
		}
		return nil
	})
	return out, err
}

type tagsInput struct{ Tags []tagInput }

// changeTags calls change with the group of each tag. The tags before one that is refused stay
// changed.
func (a *groupAPI) changeTags(operation string, in *tagsInput, change func(g *group, t tagInput) error) (any, error) {
	for _, t := range in.Tags {
		if t.ResourceType != "" && t.ResourceType != "auto-scaling-group" {
			return nil, cluster.Errorf("ValidationError", "%.64s is not a valid resource type", t.ResourceType)
		}
		err := a.groups.changeGroup(operation, t.ResourceId, func(g *group, _ time.Time) error { return change(g, t) })
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// createOrUpdateTags changes launch faults as well, which are tags with a prefix of their own.
func (a *groupAPI) createOrUpdateTags(_ context.Context, in *tagsInput) (any, error) {
	return a.changeTags("CreateOrUpdateTags", in, func(g *group, t tagInput) error {
		return g.setGroupTag(t.Key, t.Value, t.PropagateAtLaunch == "true")
	})
}

// deleteTags ignores values, and tags that the group does not have.
func (a *groupAPI) deleteTags(_ context.Context, in *tagsInput) (any, error) {
	return a.changeTags("DeleteTags", in, func(g *group, t tagInput) error {
		delete(g.Tags, t.Key)
		delete(g.Own, t.Key)
		return nil
	})
}

type processesInput struct {
	AutoScalingGroupName string
	ScalingProcesses     []string
}

// setProcesses suspends or resumes AZRebalance, the only process that can be.
func (a *groupAPI) setProcesses(in *processesInput, rebalances bool) (any, error) {
	if !slices.Equal(in.ScalingProcesses, []string{"AZRebalance"}) {
		return nil, cluster.Errorf("ValidationError",
			"The simulated AWS suspends and resumes the process AZRebalance alone, not %.128s",
			strings.Join(in.ScalingProcesses, ", "))
	}
	return nil, a.groups.changeGroup("SuspendProcesses", in.AutoScalingGroupName, func(g *group, _ time.Time) error {
		g.Rebalances = rebalances
		return nil
	})
}

func (a *groupAPI) suspendProcesses(_ context.Context, in *processesInput) (any, error) {
	return a.setProcesses(in, false)
}

func (a *groupAPI) resumeProcesses(_ context.Context, in *processesInput) (any, error) {
	return a.setProcesses(in, true)
}
