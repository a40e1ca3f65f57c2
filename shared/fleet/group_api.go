package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

func noGroup(name string) error {
	return cluster.Errorf("ValidationError", "AutoScalingGroup name not found - AutoScalingGroup: %.255s not found", name)
}

// onGroup changes a group by a call of its API.
func (f *Fleet) onGroup(operation, name string, change func(g *group, now time.Time) error) error {
	apply := func() error {
		return f.change(func(now time.Time) error {
			g := f.groups[name]
			if g == nil {
				return noGroup(name)
			}
			if err := change(g, now); err != nil {
				return err
			}
			f.balance(g, now)
			return nil
		})
	}
	if proceed, err := f.faulty(operation, name, apply); !proceed {
		return err
	}
	return apply()
}

// DescribeGroups gives those of the groups named that are there.
func (f *Fleet) DescribeGroups(_ context.Context, names []string) (out []*cluster.AutoScalingGroup, err error) {
	if proceed, err := f.faulty("DescribeAutoScalingGroups", fmt.Sprint(names), func() error { return nil }); !proceed {
		return nil, err
	}
	err = f.look(func(time.Time) error {
		for _, name := range names {
			if g := f.groups[name]; g != nil {
				out = append(out, f.noun(g))
			}
		}
		return nil
	})
	return out, err
}

func (f *Fleet) noun(g *group) *cluster.AutoScalingGroup {
	d := &cluster.AutoScalingGroup{
		Name: g.Name, ARN: f.groupARN(g.Name), Min: g.Min, Max: g.Max, Desired: g.Desired, Protects: g.Protects, Tags: maps.Clone(g.Tags),
		Zones: slices.Clone(f.zones(g.Machine)), Template: g.Template,
		Weighted: slices.ContainsFunc(g.Types, func(t weightedType) bool { return t.Weight != "" }),
	}
	for k := range g.Members {
		m := &g.Members[k]
		d.Instances = append(d.Instances, cluster.GroupInstance{
			ID: m.EC2, Type: m.Type, Zone: m.Zone, Lifecycle: m.Lifecycle, Protected: m.Protected, Template: m.Template,
		})
	}
	return d
}

// SetDesired sets the desired capacity, within the group's minimum and maximum.
func (f *Fleet) SetDesired(_ context.Context, name string, n int) error {
	return f.onGroup("SetDesiredCapacity", name, func(g *group, _ time.Time) error {
		switch {
		case n > g.Max:
			return cluster.Errorf("ValidationError", "New SetDesiredCapacity value %d is above max value %d for the AutoScalingGroup.", n, g.Max)
		case n < g.Min:
			return cluster.Errorf("ValidationError", "New SetDesiredCapacity value %d is below min value %d for the AutoScalingGroup.", n, g.Min)
		}
		g.Desired = n
		return nil
	})
}

// SetSizes sets those of minimum, maximum and desired capacity of a group that are given, at once. A desired capacity that is
// not stays within the others.
func (f *Fleet) SetSizes(_ context.Context, name string, s cluster.SizesChange) error {
	return f.onGroup("UpdateAutoScalingGroup", name, func(g *group, _ time.Time) error {
		least, most, desired := g.Min, g.Max, g.Desired
		for to, from := range map[*int]*int{&least: s.Min, &most: s.Max, &desired: s.Desired} {
			if from != nil {
				*to = *from
			}
		}
		if s.Desired == nil {
			desired = max(least, min(desired, most))
		}
		if err := sizes(least, most, desired); err != nil {
			return err
		}
		g.Min, g.Max, g.Desired = least, most, desired
		return nil
	})
}

// UseTemplate has a group launch from a launch template version, ID:VERSION.
func (f *Fleet) UseTemplate(_ context.Context, name, template string) error {
	return f.onGroup("UpdateAutoScalingGroup", name, func(g *group, _ time.Time) error {
		return f.setTemplate(g, template)
	})
}

// setTemplate gives a group a launch template, by id, that it can launch from.
func (f *Fleet) setTemplate(g *group, template string) error {
	next := *g
	next.Template = template
	plan, err := f.launchPlan(&next, template)
	if err == nil && plan.image == "" {
		err = cluster.Errorf("", "The request must contain the parameter ImageId")
	}
	if err != nil {
		return cluster.Errorf("ValidationError", "You must use a valid fully-formed launch template. %s", message(err))
	}
	g.Template = template
	return nil
}

// SetInstanceProtection protects instances in service from scale-in, or releases them: all or none.
func (f *Fleet) SetInstanceProtection(_ context.Context, name string, ids []string, protected bool) error {
	return f.onGroup("SetInstanceProtection", name, func(g *group, _ time.Time) error {
		for _, id := range ids {
			switch m := g.member(id); {
			case m == nil:
				return cluster.Errorf("ValidationError", "The instance %.32s is not part of Auto Scaling group %s.", id, name)
			case m.Lifecycle != inService:
				return cluster.Errorf("ValidationError", "The instance %.32s is not in InService or EnteringStandby or Standby.", id)
			}
		}
		for _, id := range ids {
			g.member(id).Protected = protected
		}
		return nil
	})
}

// groupOf is the group that an instance belongs to; empty for none.
func (f *Fleet) groupOf(ec2 string) (name string) {
	_ = f.look(func(time.Time) error {
		for _, g := range f.groups {
			if g.member(ec2) != nil {
				name = g.Name
			}
		}
		return nil
	})
	return name
}

// TerminateInstance terminates an instance; lower takes it off the desired capacity, else it is replaced.
func (f *Fleet) TerminateInstance(_ context.Context, id string, lower bool) error {
	unknown := cluster.Errorf("ValidationError", "Instance Id not found - No managed instance found for instance ID: %.32s", id)
	name := f.groupOf(id)
	if name == "" {
		if proceed, err := f.faulty("TerminateInstanceInAutoScalingGroup", id, func() error { return nil }); !proceed {
			return err
		}
		return unknown
	}
	return f.onGroup("TerminateInstanceInAutoScalingGroup", name, func(g *group, now time.Time) error {
		m := g.member(id)
		switch {
		case m == nil:
			return unknown
		case m.Lifecycle == terminatingWait:
			return nil
		case lower && g.Desired <= g.Min:
			return cluster.Errorf("ValidationError", "Currently, desiredSize equals minSize (%d). Terminating instance without replacement will violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.", g.Min)
		case lower:
			g.Desired--
		}
		f.leave(g, m, now, "The instance was to be terminated.")
		return nil
	})
}

// TagGroup sets a tag of the group, which its instances do not get.
func (f *Fleet) TagGroup(_ context.Context, name, key, value string) error {
	return f.onGroup("CreateOrUpdateTags", name, func(g *group, _ time.Time) error {
		return g.setTag(key, value, false)
	})
}

func (g *group) setTag(key, value string, propagate bool) error {
	if key == "" || len(key) > 128 || len(value) > 256 {
		return cluster.Errorf("ValidationError", "A tag's key has 1 to 128 characters, its value at most 256")
	}
	if err := checkFaultTag(key, value); err != nil {
		return err
	}
	g.Tags[key], g.Own[key] = value, !propagate
	return nil
}

// PutLifecycleHook holds up terminations from now on.
func (f *Fleet) PutLifecycleHook(_ context.Context, h cluster.LifecycleHook) error {
	return f.putHook(h.Group, h.Name, lifecycleHook{Heartbeat: h.Heartbeat, Result: "CONTINUE"})
}

func (f *Fleet) putHook(name, hook string, h lifecycleHook) error {
	if hook == "" || len(hook) > 255 || h.Heartbeat < 30*time.Second || h.Heartbeat > 2*time.Hour {
		return cluster.Errorf("ValidationError", "A lifecycle hook has a name, and a heartbeat timeout of 30 to 7200 seconds")
	}
	return f.onGroup("PutLifecycleHook", name, func(g *group, _ time.Time) error {
		g.Hooks[hook] = h
		return nil
	})
}

// DeleteLifecycleHook no longer does; what the hook holds up goes on.
func (f *Fleet) DeleteLifecycleHook(_ context.Context, name, hook string) error {
	return f.onGroup("DeleteLifecycleHook", name, func(g *group, now time.Time) error {
		delete(g.Hooks, hook)
		for k := range g.Members {
			if m := &g.Members[k]; m.Lifecycle == terminatingWait && !m.Waits[hook].IsZero() {
				f.release(m, hook, now)
			}
		}
		return nil
	})
}

// held is the member whose termination a hook holds up.
func (g *group) held(hook, id string) (*member, error) {
	m := g.member(id)
	if m == nil || m.Lifecycle != terminatingWait || m.Waits[hook].IsZero() {
		return nil, cluster.Errorf("ValidationError", "No active Lifecycle Action found with instance ID %.32s", id)
	}
	return m, nil
}

// CompleteLifecycleAction lets a termination go on.
func (f *Fleet) CompleteLifecycleAction(_ context.Context, name, hook, id string) error {
	return f.onGroup("CompleteLifecycleAction", name, func(g *group, now time.Time) error {
		m, err := g.held(hook, id)
		if err == nil {
			f.release(m, hook, now)
		}
		return err
	})
}

// mostHeld is the longest that hooks hold up a termination (Auto Scaling, lifecycle hooks), or a hundred heartbeats.
const mostHeld = 48 * time.Hour

// RecordHeartbeat has a termination wait for another heartbeat's time.
func (f *Fleet) RecordHeartbeat(_ context.Context, name, hook, id string) error {
	return f.onGroup("RecordLifecycleActionHeartbeat", name, func(g *group, now time.Time) error {
		m, err := g.held(hook, id)
		if err != nil {
			return err
		}
		beat := g.Hooks[hook].Heartbeat
		until, last := now.Add(beat), m.LeavingAt.Add(min(mostHeld, 100*beat))
		if last.Before(until) {
			until = last
		}
		m.Waits[hook] = until
		f.opt.Clock.After(max(0, until.Sub(now)), func() { f.overdue(g, id) })
		return nil
	})
}

// FailedLaunches are those of a group since a time, the newest first.
func (f *Fleet) FailedLaunches(_ context.Context, name string, since time.Time) (out []cluster.FailedLaunch, err error) {
	if proceed, err := f.faulty("DescribeScalingActivities", name, func() error { return nil }); !proceed {
		return nil, err
	}
	err = f.look(func(time.Time) error {
		g := f.groups[name]
		if g == nil {
			return noGroup(name)
		}
		for _, a := range slices.Backward(g.Activities) {
			if a.Status == activityFailed && strings.HasPrefix(a.Description, "Launching") && !a.Start.Before(since) {
				l := cluster.LaunchFailure(a.Message)
				l.At, l.Zone = a.Start, a.Zone
				out = append(out, l)
			}
		}
		return nil
	})
	return out, err
}
