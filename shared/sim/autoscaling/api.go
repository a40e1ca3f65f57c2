package autoscaling

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// groupNotFound is Auto Scaling's error for a group that is not there. It has no code of its own:
// callers tell it by its text.
func groupNotFound(name string) error {
	return cluster.Errorf("ValidationError", "AutoScalingGroup name not found - AutoScalingGroup: %.255s not found",
		name)
}

// changeGroup changes a group and reconciles it, unless a fault prevents the call. A change that
// fails must have changed nothing.
func (e *Groups) changeGroup(operation, name string, change func(g *group, now time.Time) error) error {
	return e.kernel.Call(operation, name, func(now time.Time) error {
		g := e.byName[name]
		if g == nil {
			return groupNotFound(name)
		}
		if err := change(g, now); err != nil {
			return err
		}
		e.reconcileGroup(g, now)
		return nil
	})
}

// DescribeGroups returns those of the groups named that exist.
func (e *Groups) DescribeGroups(_ context.Context, names []string) (out []*cluster.AutoScalingGroup, err error) {
	err = e.kernel.CallView("DescribeAutoScalingGroups", fmt.Sprint(names), func(time.Time) error {
		for _, name := range names {
			if g := e.byName[name]; g != nil {
				out = append(out, e.forScheduler(g))
			}
		}
		return nil
	})
	return out, err
}

// forScheduler returns the group in Berth's terms, as a copy.
func (e *scaler) forScheduler(g *group) *cluster.AutoScalingGroup {
	d := &cluster.AutoScalingGroup{
		Name: g.Name, ARN: e.groupARN(g.Name), Min: g.Min, Max: g.Max, Desired: g.Desired, Protects: g.Protects,
		Tags:  maps.Clone(g.Tags),
		Zones: slices.Clone(g.Machine.ZonesIn(e.kernel.Account.Region)), Template: g.Template,
		Weighted: slices.ContainsFunc(g.Types, func(t weightedType) bool { return t.Weight != "" }),
	}
	for _, t := range g.Types {
		d.Types = append(d.Types, t.Type)
	}
	d.Instances = slices.Grow(d.Instances, len(g.Members))
	for k := range g.Members {
		m := &g.Members[k]
		d.Instances = append(d.Instances, cluster.GroupInstance{
			ID: m.EC2, Type: m.Type, Zone: m.Zone, Lifecycle: m.Lifecycle, Protected: m.Protected, Template: m.Template,
		})
	}
	return d
}

// SetDesired sets the desired capacity, within the group's minimum and maximum.
func (e *Groups) SetDesired(_ context.Context, name string, n int) error {
	return e.changeGroup("SetDesiredCapacity", name, func(g *group, _ time.Time) error {
		switch {
		case n > g.Max:
			return cluster.Errorf("ValidationError",
				"New SetDesiredCapacity value %d is above max value %d for the AutoScalingGroup.", n, g.Max)
		case n < g.Min:
			return cluster.Errorf("ValidationError",
				"New SetDesiredCapacity value %d is below min value %d for the AutoScalingGroup.", n, g.Min)
		}
		g.Desired = n
		return nil
	})
}

// SetSizes sets those of minimum, maximum and desired capacity that are given, in one change. A
// desired capacity that is not given is moved between minimum and maximum.
func (e *Groups) SetSizes(_ context.Context, name string, s cluster.SizesChange) error {
	return e.changeGroup("UpdateAutoScalingGroup", name, func(g *group, _ time.Time) error {
		least, most, desired := g.Min, g.Max, g.Desired
		for to, from := range map[*int]*int{&least: s.Min, &most: s.Max, &desired: s.Desired} {
			if from != nil {
				*to = *from
			}
		}
		if s.Desired == nil {
			desired = max(least, min(desired, most))
		}
		if err := checkSizes(least, most, desired); err != nil {
			return err
		}
		g.Min, g.Max, g.Desired = least, most, desired
		return nil
	})
}

// UseTemplate makes a group launch from a launch template version, given as ID:VERSION.
func (e *Groups) UseTemplate(_ context.Context, name, template string) error {
	return e.changeGroup("UpdateAutoScalingGroup", name, func(g *group, _ time.Time) error {
		return e.setTemplate(g, template)
	})
}

// setTemplate sets the launch template of a group, if it can launch from it: the check is that of a
// launch, on a copy of the group, and that the instance profile exists. Instances that run keep the
// version that they were made from.
func (e *scaler) setTemplate(g *group, template string) error {
	next := *g
	next.Template = template
	plan, err := e.planLaunch(&next, template)
	if err == nil && plan.image == "" {
		err = cluster.Errorf("", "The request must contain the parameter ImageId")
	}
	if err == nil {
		err = checkProfile(e, template)
	}
	if err != nil {
		return cluster.Errorf("ValidationError", "You must use a valid fully-formed launch template. %s",
			errorMessage(err))
	}
	g.Template = template
	return nil
}

// checkProfile returns EC2's error for a launch template version whose instance profile IAM does not
// have.
func checkProfile(e *scaler, template string) error {
	id, version, _ := strings.Cut(template, ":")
	_, data, err := e.templates.ResolveTemplate(cluster.TemplateRef{ID: id, Version: version})
	if err != nil {
		return err
	}
	named, _ := data["IamInstanceProfile"].(map[string]any)
	for member, kind := range map[string]string{"Name": "name", "Arn": "ARN"} {
		if given, _ := named[member].(string); given != "" && !e.hasProfile(cluster.LastPart(given)) {
			return cluster.Errorf("InvalidParameterValue",
				"Value (%.300s) for parameter iamInstanceProfile.%s is invalid. Invalid IAM Instance Profile %s", given,
				strings.ToLower(member), kind)
		}
	}
	return nil
}

// SetInstanceProtection sets the scale-in protection of all the instances, or of none if one is not
// in service.
func (e *Groups) SetInstanceProtection(_ context.Context, name string, ids []string, protected bool) error {
	return e.changeGroup("SetInstanceProtection", name, func(g *group, _ time.Time) error {
		for _, id := range ids {
			switch m := g.findMember(id); {
			case m == nil:
				return cluster.Errorf("ValidationError", "The instance %.32s is not part of Auto Scaling group %s.", id,
					name)
			case m.Lifecycle != inService:
				return cluster.Errorf("ValidationError",
					"The instance %.32s is not in InService or EnteringStandby or Standby.", id)
			}
		}
		for _, id := range ids {
			g.findMember(id).Protected = protected
		}
		return nil
	})
}

// groupOfInstance returns the name of the group that an instance belongs to, or "".
func (e *Groups) groupOfInstance(ec2 string) (name string) {
	_ = e.kernel.View(func(time.Time) error {
		for _, g := range e.byName {
			if g.findMember(ec2) != nil {
				name = g.Name
			}
		}
		return nil
	})
	return name
}

// TerminateInstance terminates an instance. It is replaced, unless lower decrements the desired
// capacity.
func (e *Groups) TerminateInstance(_ context.Context, id string, lower bool) error {
	unknown := cluster.Errorf("ValidationError",
		"Instance Id not found - No managed instance found for instance ID: %.32s", id)
	name := e.groupOfInstance(id)
	if name == "" {
		if err := e.kernel.FaultOfCall("TerminateInstanceInAutoScalingGroup", id); err != nil {
			return err
		}
		return unknown
	}
	return e.changeGroup("TerminateInstanceInAutoScalingGroup", name, func(g *group, now time.Time) error {
		m := g.findMember(id)
		switch {
		case m == nil:
			return unknown
		case m.Lifecycle == terminatingWait:
			return nil
		case lower && g.Desired <= g.Min:
			return cluster.Errorf("ValidationError",
				"Currently, desiredSize equals minSize (%d). Terminating instance without replacement will violate "+
					"group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower "+
					"group's min size.", g.Min)
		case lower:
			g.Desired--
		}
		e.startTermination(g, m, now, "The instance was to be terminated.")
		return nil
	})
}

// TagGroup sets a tag of the group that its instances do not get.
func (e *Groups) TagGroup(_ context.Context, name, key, value string) error {
	return e.changeGroup("CreateOrUpdateTags", name, func(g *group, _ time.Time) error {
		return g.setGroupTag(key, value, false)
	})
}

// setGroupTag sets a tag, which new instances get as well if propagate is true. It refuses a launch
// fault that is not known ([LaunchFault]): a typing error would otherwise prevent the fault
// silently.
func (g *group) setGroupTag(key, value string, propagate bool) error {
	if key == "" || len(key) > 128 || len(value) > 256 {
		return cluster.Errorf("ValidationError", "A tag's key has 1 to 128 characters, its value at most 256")
	}
	if err := checkFaultTag(key, value); err != nil {
		return err
	}
	if g.Tags == nil {
		g.Tags = map[string]string{}
	}
	if g.Own == nil { // a group that was read from a file has no empty maps
		g.Own = map[string]bool{}
	}
	g.Tags[key], g.Own[key] = value, !propagate
	return nil
}

// PutLifecycleHook makes a hook hold up the group's terminations from now on.
func (e *Groups) PutLifecycleHook(_ context.Context, h cluster.LifecycleHook) error {
	return e.putHook(h.Group, h.Name, lifecycleHook{Heartbeat: h.Heartbeat, Result: "CONTINUE"})
}

// putHook puts a hook of any result. Terminations that are under way do not wait for it.
func (e *Groups) putHook(name, hook string, h lifecycleHook) error {
	if hook == "" || len(hook) > 255 || h.Heartbeat < 30*time.Second || h.Heartbeat > 2*time.Hour {
		return cluster.Errorf("ValidationError",
			"A lifecycle hook has a name, and a heartbeat timeout of 30 to 7200 seconds")
	}
	return e.changeGroup("PutLifecycleHook", name, func(g *group, _ time.Time) error {
		g.Hooks[hook] = h
		return nil
	})
}

// DeleteLifecycleHook deletes a hook. The terminations that it holds up go on.
func (e *Groups) DeleteLifecycleHook(_ context.Context, name, hook string) error {
	return e.changeGroup("DeleteLifecycleHook", name, func(g *group, now time.Time) error {
		delete(g.Hooks, hook)
		for k := range g.Members {
			if m := &g.Members[k]; m.Lifecycle == terminatingWait && !m.Waits[hook].IsZero() {
				e.releaseHook(m, hook, now)
			}
		}
		return nil
	})
}

// heldMember returns the instance if a hook holds its termination up.
func (g *group) heldMember(hook, id string) (*member, error) {
	m := g.findMember(id)
	if m == nil || m.Lifecycle != terminatingWait || m.Waits[hook].IsZero() {
		return nil, cluster.Errorf("ValidationError", "No active Lifecycle Action found with instance ID %.32s", id)
	}
	return m, nil
}

// CompleteLifecycleAction lets a termination that a hook holds up go on, unless another hook holds
// it up too.
func (e *Groups) CompleteLifecycleAction(_ context.Context, name, hook, id string) error {
	return e.changeGroup("CompleteLifecycleAction", name, func(g *group, now time.Time) error {
		m, err := g.heldMember(hook, id)
		if err == nil {
			e.releaseHook(m, hook, now)
		}
		return err
	})
}

// longestHold bounds how long hooks hold a termination up. So do a hundred heartbeats, if they are
// shorter (Auto Scaling, lifecycle hooks).
const longestHold = 48 * time.Hour

// RecordHeartbeat makes a termination wait for another heartbeat timeout from now, up to the
// longest hold. The timers of earlier heartbeats still fire, and find that it is not time yet.
func (e *Groups) RecordHeartbeat(_ context.Context, name, hook, id string) error {
	return e.changeGroup("RecordLifecycleActionHeartbeat", name, func(g *group, now time.Time) error {
		m, err := g.heldMember(hook, id)
		if err != nil {
			return err
		}
		beat := g.Hooks[hook].Heartbeat
		until, last := now.Add(beat), m.LeavingAt.Add(min(longestHold, 100*beat))
		if last.Before(until) {
			until = last
		}
		m.Waits[hook] = until
		e.kernel.After(max(0, until.Sub(now)), func() { e.expireHooks(g, id) })
		return nil
	})
}

// FailedLaunches returns the failed launches of a group since a time, the newest first.
func (e *Groups) FailedLaunches(
	_ context.Context, name string, since time.Time,
) (out []cluster.FailedLaunch, err error) {
	err = e.kernel.CallView("DescribeScalingActivities", name, func(time.Time) error {
		g := e.byName[name]
		if g == nil {
			return groupNotFound(name)
		}
		for _, a := range slices.Backward(g.Activities) {
			if a.Status == activityFailed && strings.HasPrefix(a.Description, "Launching") && !a.Start.Before(since) {
				l := cluster.ParseLaunchFailure(a.Message)
				l.At, l.Zone = a.Start, a.Zone
				out = append(out, l)
			}
		}
		return nil
	})
	return out, err
}

// errorMessage returns the text of an error without its code.
func errorMessage(err error) string {
	e, _ := protocol.AsAPIError(err)
	return e.Message
}
