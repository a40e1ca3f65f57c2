package handler_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/shared/cluster"
)

// fakeGroups are CloudWatch, and Auto Scaling groups whose instances come and go when
// [fakeGroups.step] runs.
type fakeGroups struct {
	w      *world
	groups map[string]*cluster.AutoScalingGroup
	hooks  map[string]cluster.LifecycleHook
	policy map[string]cluster.TrackingPolicy
	alarms map[string]cluster.MetricAlarm
	points []cluster.Datapoint
	calls  []string
	puts   int   // of hooks, policies and alarms
	refuse error // of the next call that protects
	// untaggable is the error of the next call that sets a tag.
	untaggable error
	release    func()
	n          int
	silent     map[string]bool         // instances that never register
	deaf       bool                    // no event says that instances register
	overdue    map[string]bool         // instances that another hook than managed scaling's holds up
	failing    func(call string) error // of CloudWatch's calls
}

func (f *fakeGroups) fails(call string) error {
	if f.failing == nil {
		return nil
	}
	return f.failing(call)
}

func newGroups(w *world) *fakeGroups {
	return &fakeGroups{
		w: w, groups: map[string]*cluster.AutoScalingGroup{}, hooks: map[string]cluster.LifecycleHook{},
		policy: map[string]cluster.TrackingPolicy{}, alarms: map[string]cluster.MetricAlarm{},
	}
}

func (f *fakeGroups) note(format string, args ...any) {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fakeGroups) group(name string) (*cluster.AutoScalingGroup, error) {
	if g := f.groups[name]; g != nil {
		return g, nil
	}
	return nil, cluster.Errorf("ValidationError", "AutoScalingGroup name not found - %s", name)
}

func (f *fakeGroups) DescribeGroups(_ context.Context, names []string) (out []*cluster.AutoScalingGroup, err error) {
	for _, name := range names {
		if g := f.groups[name]; g != nil {
			copied := *g
			copied.Instances = slices.Clone(g.Instances)
			out = append(out, &copied)
		}
	}
	return out, nil
}

func (f *fakeGroups) SetDesired(_ context.Context, name string, n int) error {
	g, err := f.group(name)
	if err != nil {
		return err
	}
	if n < g.Min || n > g.Max {
		return cluster.Errorf("ValidationError", "New SetDesiredCapacity value %d is out of bounds", n)
	}
	f.note("desired %d", n)
	g.Desired = n
	return nil
}

func (f *fakeGroups) SetInstanceProtection(_ context.Context, name string, ids []string, protected bool) error {
	g, err := f.group(name)
	if err != nil {
		return err
	}
	if err := f.refuse; err != nil {
		f.refuse = nil
		return err
	}
	if !protected && f.release != nil {
		f.release()
	}
	for _, i := range g.Instances {
		if slices.Contains(ids, i.ID) && !i.IsInService() {
			return cluster.Errorf("ValidationError", "The instance %s is not in InService or EnteringStandby or Standby.", i.ID)
		}
	}
	f.note("protect %v %v", ids, protected)
	for n := range g.Instances {
		if slices.Contains(ids, g.Instances[n].ID) {
			g.Instances[n].Protected = protected
		}
	}
	return nil
}

func (f *fakeGroups) TerminateInstance(_ context.Context, id string, lower bool) error {
	for _, g := range f.groups {
		for n := range g.Instances {
			if g.Instances[n].ID == id {
				f.note("terminate %s", id)
				f.end(g, n)
				if lower {
					g.Desired--
				}
				return nil
			}
		}
	}
	return cluster.Errorf("ValidationError", "Instance Id not found - %s", id)
}

// end begins the termination of the n-th instance.
func (f *fakeGroups) end(g *cluster.AutoScalingGroup, n int) {
	g.Instances[n].Lifecycle = "Terminating"
	if _, held := f.hooks[g.Name]; held {
		g.Instances[n].Lifecycle = "Terminating:Wait"
	}
}

func (f *fakeGroups) TagGroup(_ context.Context, name, key, value string) error {
	if err := f.untaggable; err != nil {
		f.untaggable = nil
		return err
	}
	g, err := f.group(name)
	if err == nil {
		tags := map[string]string{}
		maps.Copy(tags, g.Tags)
		tags[key], g.Tags = value, tags
	}
	return err
}

func (f *fakeGroups) PutLifecycleHook(_ context.Context, hook cluster.LifecycleHook) error {
	f.puts++
	f.hooks[hook.Group] = hook
	return nil
}

func (f *fakeGroups) DeleteLifecycleHook(_ context.Context, group, _ string) error {
	delete(f.hooks, group)
	return nil
}

func (f *fakeGroups) CompleteLifecycleAction(_ context.Context, group, _, id string) error {
	g, err := f.group(group)
	if err != nil {
		return err
	}
	if f.overdue[id] {
		return cluster.Errorf("ValidationError", "No active Lifecycle Action found with instance ID %s", id)
	}
	f.note("complete %s", id)
	for n := range g.Instances {
		if g.Instances[n].ID == id {
			g.Instances[n].Lifecycle = "Terminating:Proceed"
		}
	}
	return nil
}

func (f *fakeGroups) RecordHeartbeat(_ context.Context, _, _, id string) error {
	if f.overdue[id] {
		return cluster.Errorf("ValidationError", "No active Lifecycle Action found with instance ID %s", id)
	}
	f.note("heartbeat %s", id)
	return nil
}

func (f *fakeGroups) PutTrackingPolicy(_ context.Context, p cluster.TrackingPolicy) error {
	f.puts++
	f.policy[p.Name] = p
	return nil
}

func (f *fakeGroups) DeletePolicy(_ context.Context, _, name string) error {
	delete(f.policy, name)
	return nil
}

func (f *fakeGroups) PutScalingMetrics(_ context.Context, points []cluster.Datapoint) error {
	if err := f.fails("PutScalingMetrics"); err != nil {
		return err
	}
	f.points = append(f.points, points...)
	return nil
}

func (f *fakeGroups) PutMetricAlarm(_ context.Context, a cluster.MetricAlarm) error {
	if err := f.fails("PutMetricAlarm " + a.Name); err != nil {
		return err
	}
	f.puts++
	f.alarms[a.Name] = a
	return nil
}

func (f *fakeGroups) DeleteAlarms(_ context.Context, names []string) error {
	for _, name := range names {
		delete(f.alarms, name)
	}
	return nil
}

// ActivateInstance, PutAttribute and RemoveAttribute belong to ECS.

func (f *fakeGroups) ActivateInstance(_ context.Context, _, id string) error {
	f.note("activate %s", id)
	if f.w.ecs.instances[id] == nil {
		return cluster.Errorf(cluster.CodeInvalidParameter, "instance %s is not there", id)
	}
	f.w.ecs.change(id, func(i *cluster.Instance) { i.Status = cluster.InstanceActive })
	return nil
}

func (f *fakeGroups) PutAttribute(_ context.Context, _, id, name, value string) error {
	f.w.ecs.change(id, func(i *cluster.Instance) {
		next := map[string]string{name: value}
		for k, v := range i.Attributes {
			if k != name {
				next[k] = v
			}
		}
		i.Attributes = next
	})
	return nil
}

func (f *fakeGroups) RemoveAttribute(_ context.Context, _, id, name string) error {
	f.w.ecs.change(id, func(i *cluster.Instance) {
		next := map[string]string{}
		for k, v := range i.Attributes {
			if k != name {
				next[k] = v
			}
		}
		i.Attributes = next
	})
	return nil
}

// step launches the instances that the groups want, and removes surplus and terminated ones.
func (f *fakeGroups) step() {
	for _, g := range f.groups {
		live := 0
		for n := range g.Instances {
			if g.Instances[n].Lifecycle == "InService" {
				live++
			}
		}
		for n := range g.Instances {
			if i := &g.Instances[n]; live > g.Desired && i.Lifecycle == "InService" && !i.Protected {
				f.end(g, n)
				live--
			}
		}
		g.Instances = slices.DeleteFunc(g.Instances, func(i cluster.GroupInstance) bool {
			over := i.Lifecycle == "Terminating" || i.Lifecycle == "Terminating:Proceed"
			if at := f.w.ecs.instances["h-"+i.ID]; over && at != nil {
				f.w.ecs.change("h-"+i.ID, func(c *cluster.Instance) {
					c.Status,
						c.AgentConnected = cluster.InstanceInactive, false
				})
			}
			return over
		})
		for ; live < g.Desired; live++ {
			f.n++
			id := fmt.Sprintf("i-%03d", f.n)
			g.Instances = append(g.Instances, cluster.GroupInstance{
				ID: id, Type: "m5.large", Zone: "zone-a", Lifecycle: "InService", Protected: g.Protects,
				LaunchedAt: f.w.clock.Now(),
			})
			c := zoned("h-"+id, "zone-a")
			c.EC2InstanceID, c.Registered.CPU = id, 4*256*cluster.CPUUnit
			if f.silent[id] {
				continue
			}
			events := len(f.w.ecs.events)
			if f.w.ecs.register(c); f.deaf {
				f.w.ecs.events = f.w.ecs.events[:events]
			}
		}
	}
	f.w.pump()
}

// minute lets a minute pass and then runs managed scaling.
func (s *scaled) minute(n int) {
	s.t.Helper()
	for range n {
		s.step()
		s.advance(time.Minute)
		s.world.minute()
		if err := s.function.RunSchedule(ctx, "scaling"); err != nil {
			s.t.Fatal(err)
		}
		s.pump()
	}
}
