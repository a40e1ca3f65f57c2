package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// OwnerTag is the tag of an Auto Scaling group that lets an installation of Berth change it. Its
// value is the installation's name. Only the owner of the group sets it: the roles of Berth's
// functions may not, and IAM lets them change only groups that have it (docs/security.md).
const OwnerTag = "berth:installation"

// OwnershipProblem says why the installation may not change the group, with the command that allows
// it to; empty if it may. An installation without a name owns every group: only tests have one.
func OwnershipProblem(g *cluster.AutoScalingGroup, installation string) string {
	if installation == "" || g.Tags[OwnerTag] == installation {
		return ""
	}
	return fmt.Sprintf("%s If it is yours, run: aws %s", DescribeUntagged(g.Name, installation),
		TagCommand(g.Name, installation))
}

// DescribeUntagged says that a group lacks the tag of the installation.
func DescribeUntagged(group, installation string) string {
	return fmt.Sprintf("The Auto Scaling group %s does not have the tag %s=%s, so Berth only reads it.", group,
		OwnerTag, installation)
}

// TagCommand returns the command of the AWS CLI that gives a group the tag of the installation, without
// the leading "aws".
func TagCommand(group, installation string) string {
	return "autoscaling create-or-update-tags --tags " + tagArgument(group, installation)
}

// tagArgument returns the argument --tags that sets the tag of ownership, for a shell. Names of
// groups may have any printable characters, so "x; reboot" must not become a command.
func tagArgument(group, installation string) string {
	const format = "ResourceId=%s,ResourceType=auto-scaling-group,Key=%s,Value=%s,PropagateAtLaunch=false"
	if plainNames.MatchString(group) {
		return fmt.Sprintf(format, group, OwnerTag, installation)
	}
	tag, _ := json.Marshal([]map[string]any{{"ResourceId": group, "ResourceType": "auto-scaling-group", "Key": OwnerTag,
		"Value": installation, "PropagateAtLaunch": false}}) // texts cannot fail
	return "'" + strings.ReplaceAll(string(tag), "'", `'\''`) + "'"
}

// plainNames matches names of groups that mean nothing else to a shell and to the AWS CLI.
var plainNames = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)

// OwnershipError returns [OwnershipProblem] as an error of the API.
func OwnershipError(g *cluster.AutoScalingGroup, installation string) error {
	if why := OwnershipProblem(g, installation); why != "" {
		return cluster.Errorf(cluster.CodeInvalidRequest, "%s", why)
	}
	return nil
}

// OwnedGroups is Amazon EC2 Auto Scaling as a function uses it: it reads every group, and changes
// only those that the installation owns. Every change reads the group's tags first. That costs one
// call more, but changes are rare, and a wrong decision elsewhere cannot reach somebody else's
// group.
type OwnedGroups struct {
	AutoScaling
	Updates      GroupUpdates // nil for a function that needs none
	Installation string

	groupOf map[string]string // group by EC2 instance id, as last described
}

// DescribeGroups describes groups of any owner, and notes which group each instance is in.
func (o *OwnedGroups) DescribeGroups(ctx context.Context, names []string) ([]*cluster.AutoScalingGroup, error) {
	found, err := o.AutoScaling.DescribeGroups(ctx, names)
	if o.groupOf == nil {
		o.groupOf = map[string]string{}
	}
	for _, g := range found {
		for _, i := range g.Instances {
			o.groupOf[i.ID] = g.Name
		}
	}
	return found, err
}

// own runs a change if the installation owns the group. Auto Scaling itself refuses the change of a
// group that does not exist.
func (o *OwnedGroups) own(ctx context.Context, name string, change func() error) error {
	found, err := o.DescribeGroups(ctx, []string{name})
	if err != nil {
		return fmt.Errorf("reading the tags of Auto Scaling group %s: %w", name, err)
	}
	for _, g := range found {
		if err := OwnershipError(g, o.Installation); err != nil {
			return err
		}
	}
	return change()
}

// SetDesired sets the desired capacity.
func (o *OwnedGroups) SetDesired(ctx context.Context, group string, n int) error {
	return o.own(ctx, group, func() error { return o.AutoScaling.SetDesired(ctx, group, n) })
}

// SetInstanceProtection protects instances from scale-in, or ends that.
func (o *OwnedGroups) SetInstanceProtection(ctx context.Context, group string, ids []string, protected bool) error {
	return o.own(ctx, group, func() error { return o.AutoScaling.SetInstanceProtection(ctx, group, ids, protected) })
}

// TerminateInstance terminates an instance of a group that was described before.
func (o *OwnedGroups) TerminateInstance(ctx context.Context, id string, lower bool) error {
	group := o.groupOf[id]
	if group == "" {
		return cluster.Errorf(cluster.CodeInvalidRequest, "Instance %s is in no Auto Scaling group that Berth has "+
			"seen", id)
	}
	return o.own(ctx, group, func() error { return o.AutoScaling.TerminateInstance(ctx, id, lower) })
}

// TagGroup sets a tag on the group. It refuses [OwnerTag], which only the group's owner sets.
func (o *OwnedGroups) TagGroup(ctx context.Context, group, key, value string) error {
	if key == OwnerTag {
		return cluster.Errorf(cluster.CodeInvalidRequest, "Berth does not set the tag %s of an Auto Scaling group", key)
	}
	return o.own(ctx, group, func() error { return o.AutoScaling.TagGroup(ctx, group, key, value) })
}

// PutLifecycleHook makes terminations wait.
func (o *OwnedGroups) PutLifecycleHook(ctx context.Context, hook cluster.LifecycleHook) error {
	return o.own(ctx, hook.Group, func() error { return o.AutoScaling.PutLifecycleHook(ctx, hook) })
}

// DeleteLifecycleHook deletes a hook.
func (o *OwnedGroups) DeleteLifecycleHook(ctx context.Context, group, name string) error {
	return o.own(ctx, group, func() error { return o.AutoScaling.DeleteLifecycleHook(ctx, group, name) })
}

// CompleteLifecycleAction lets a termination continue.
func (o *OwnedGroups) CompleteLifecycleAction(ctx context.Context, group, hook, id string) error {
	return o.own(ctx, group, func() error { return o.AutoScaling.CompleteLifecycleAction(ctx, group, hook, id) })
}

// RecordHeartbeat lets a termination wait longer.
func (o *OwnedGroups) RecordHeartbeat(ctx context.Context, group, hook, id string) error {
	return o.own(ctx, group, func() error { return o.AutoScaling.RecordHeartbeat(ctx, group, hook, id) })
}

// PutTrackingPolicy makes a target tracking policy.
func (o *OwnedGroups) PutTrackingPolicy(ctx context.Context, policy cluster.TrackingPolicy) error {
	return o.own(ctx, policy.Group, func() error { return o.AutoScaling.PutTrackingPolicy(ctx, policy) })
}

// DeletePolicy deletes a policy.
func (o *OwnedGroups) DeletePolicy(ctx context.Context, group, name string) error {
	return o.own(ctx, group, func() error { return o.AutoScaling.DeletePolicy(ctx, group, name) })
}

// SetSizes sets minimum, maximum and desired capacity.
func (o *OwnedGroups) SetSizes(ctx context.Context, group string, s cluster.SizesChange) error {
	return o.own(ctx, group, func() error { return o.Updates.SetSizes(ctx, group, s) })
}

// UseTemplate makes the group launch from a launch template version.
func (o *OwnedGroups) UseTemplate(ctx context.Context, group, template string) error {
	return o.own(ctx, group, func() error { return o.Updates.UseTemplate(ctx, group, template) })
}

// FailedLaunches returns failed launches of a group of any owner.
func (o *OwnedGroups) FailedLaunches(
	ctx context.Context, group string, since time.Time,
) ([]cluster.FailedLaunch, error) {
	return o.Updates.FailedLaunches(ctx, group, since)
}

// OwnedMaker makes node groups, and deletes only Auto Scaling groups that the installation owns.
type OwnedMaker struct {
	GroupMaker
	Owned *OwnedGroups
}

// DeleteGroup deletes a group with its instances.
func (o *OwnedMaker) DeleteGroup(ctx context.Context, name string) (gone bool, err error) {
	err = o.Owned.own(ctx, name, func() (err error) {
		gone, err = o.GroupMaker.DeleteGroup(ctx, name)
		return err
	})
	return gone, err
}

// HasRegistered reports whether an EC2 instance has registered with a cluster and is still there,
// according to the state.
func HasRegistered(ctx context.Context, store state.Store, clusterName, ec2ID string) (bool, error) {
	row, err := store.Get(ctx, state.AliasKey(clusterName, ec2ID))
	if err != nil {
		return false, fmt.Errorf("looking for instance %s in cluster %s: %w", ec2ID, clusterName, err)
	}
	alias, ok := row.(*state.Alias)
	if !ok || alias == nil {
		return false, nil
	}
	row, err = store.Get(ctx, state.InstanceKey(clusterName, alias.ID))
	if err != nil {
		return false, fmt.Errorf("reading instance %s: %w", alias.ID, err)
	}
	i, ok := row.(*cluster.Instance)
	return ok && i != nil && !i.IsDeregistered(), nil
}
