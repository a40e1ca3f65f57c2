package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

// group is an Auto Scaling group, as stored: it launches machines of one kind into one cluster, and terminates them.
type group struct {
	Name, Cluster     string
	Machine           Machine
	Min, Max, Desired int
	Protects          bool
	Tags              map[string]string
	Hooks             map[string]time.Duration // heartbeats, by name
	Members           []member
	Launches          int64
	// Failure is why the last launch failed, empty where it did not.
	Failure string
	// Template is the launch template version that it launches from, as ID:VERSION. Failed are the last failed launches.
	Template string
	Failed   []cluster.FailedLaunch
}

// member is one instance of a group.
type member struct {
	Instance   string // container instance id; empty until it has registered
	EC2, Zone  string
	Template   string // launch template version that it was made from
	Lifecycle  string
	Protected  bool
	LaunchedAt time.Time
	// Until is when what the member waits for is over: its launch, or the heartbeat of its termination.
	Until  time.Time
	Silent bool // it never registers
}

func (g *group) row() (string, string, any) { return bucketGroups, g.Name, g }

// The states of a group's instances.
const (
	pending          = "Pending"
	inService        = "InService"
	terminatingWait  = "Terminating:Wait"
	launchAfter      = 40 * time.Second
	launchAgainAfter = time.Minute
)

// LaunchFault is what goes wrong with one launch of a group; the zero value is nothing.
type LaunchFault struct {
	Reason string        // it fails, and is tried again after a minute
	Slow   time.Duration // it takes longer by so much
	Zone   string        // it is in this zone, whatever the group's are
	Silent bool          // the machine runs, and never registers with the cluster
}

// SetLaunchFaults has launches go wrong, for tests: f gets the group and the number of the launch, from 1. It must not call
// the fleet; nil ends the faults.
func (f *Fleet) SetLaunchFaults(fault func(group string, n int64) LaunchFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.launches = fault
}

// GroupSpec is what a group is made of.
type GroupSpec struct {
	Name, Cluster     string
	Machine           Machine
	Min, Max, Desired int
	// Protects has new instances protected from scale-in.
	Protects bool
	// Image is that of the launch template that is made for the group, ami-1 where empty.
	Image string
}

// AddGroup makes an Auto Scaling group and returns its ARN.
func (f *Fleet) AddGroup(s GroupSpec) (arn string, err error) {
	if _, _, _, err := s.Machine.size(); err != nil {
		return "", err
	}
	err = f.change(func(now time.Time) error {
		if _, err := f.cluster(s.Cluster); err != nil {
			return err
		}
		if s.Name == "" || f.groups[s.Name] != nil || s.Min < 0 || s.Desired < s.Min || s.Max < s.Desired {
			return cluster.Errorf("ValidationError", "group %.255q cannot be made: its name is taken, or its sizes are in disorder", s.Name)
		}
		g := &group{
			Name: s.Name, Cluster: s.Cluster, Machine: s.Machine, Min: s.Min, Max: s.Max, Desired: s.Desired, Protects: s.Protects,
			Tags: map[string]string{}, Hooks: map[string]time.Duration{},
		}
		g.Template = f.addTemplate("berth/"+s.Name, cmp.Or(s.Image, "ami-1")).version(1).String()
		f.groups[s.Name] = g
		f.balance(g, now)
		return nil
	})
	return f.groupARN(s.Name), err
}

// DeleteGroup takes a group away with its instances, as its owner does with force.
func (f *Fleet) DeleteGroup(name string) error {
	return f.change(func(now time.Time) error {
		g := f.groups[name]
		if g == nil {
			return cluster.Errorf("ValidationError", "AutoScalingGroup name not found - %.255s", name)
		}
		for n := range g.Members {
			f.end(&g.Members[n], now)
		}
		delete(f.groups, name)
		f.forget(g)
		return nil
	})
}

func (f *Fleet) groupARN(name string) string {
	return f.arn("autoscaling", "autoScalingGroup:"+hyphened(cluster.Digest("group", name))+":autoScalingGroupName/"+name)
}

// balance launches what the group wants and has not, and terminates what is too many: the oldest that are not protected.
func (f *Fleet) balance(g *group, now time.Time) {
	f.touch(g)
	have := 0
	for n := range g.Members {
		m := &g.Members[n]
		if i := f.instances[m.Instance]; m.Instance != "" && (i == nil || i.Status == cluster.InstanceInactive) {
			m.Lifecycle = "" // somebody else has terminated it
		}
		if m.Lifecycle == pending || m.Lifecycle == inService {
			have++
		}
	}
	for n := range g.Members {
		if m := &g.Members[n]; have > g.Desired && !m.Protected && (m.Lifecycle == pending || m.Lifecycle == inService) {
			f.leave(g, m, now)
			have--
		}
	}
	g.Members = slices.DeleteFunc(g.Members, func(m member) bool { return m.Lifecycle == "" })
	for ; have < g.Desired; have++ {
		if !f.begin(g, now) {
			f.opt.Clock.After(launchAgainAfter, func() { f.rebalance(g.Name) })
			return
		}
	}
}

func (f *Fleet) rebalance(name string) {
	f.progress(func(now time.Time) {
		if g := f.groups[name]; g != nil {
			f.balance(g, now)
		}
	})
}

// begin begins a launch, in the zone that has the fewest.
func (f *Fleet) begin(g *group, now time.Time) bool {
	g.Launches++
	var fault LaunchFault
	if f.launches != nil {
		fault = f.launches(g.Name, g.Launches)
	}
	if id, _, _ := strings.Cut(g.Template, ":"); f.templates[id] == nil {
		fault.Reason = "InvalidLaunchTemplateId.NotFound"
	}
	if g.Failure = fault.Reason; fault.Reason != "" {
		g.failed(now, fault.Reason)
		return false
	}
	m := member{
		EC2: "i-" + f.id("group "+g.Name, g.Launches)[:17], Zone: fault.Zone, Template: g.Template, Lifecycle: pending, Protected: g.Protects, LaunchedAt: now,
		Until: now.Add(launchAfter + fault.Slow), Silent: fault.Silent,
	}
	if m.Zone == "" {
		m.Zone = f.poorest(g)
	}
	g.Members = append(g.Members, m)
	f.opt.Clock.After(m.Until.Sub(now), func() { f.arrive(g.Name, m.EC2) })
	return true
}

func (f *Fleet) poorest(g *group) string {
	zones := f.zones(g.Machine)
	count := map[string]int{}
	for _, m := range g.Members {
		count[m.Zone]++
	}
	return slices.MinFunc(zones, func(a, b string) int { return count[a] - count[b] })
}

// member is the group's instance of that id; nil for none.
func (g *group) member(ec2 string) *member {
	i := slices.IndexFunc(g.Members, func(m member) bool { return m.EC2 == ec2 })
	if i < 0 {
		return nil
	}
	return &g.Members[i]
}

// arrive ends a launch: the instance is in service, and registers.
func (f *Fleet) arrive(name, ec2 string) {
	f.progress(func(now time.Time) {
		g := f.groups[name]
		if g == nil {
			return
		}
		m := g.member(ec2)
		if m == nil || m.Lifecycle != pending || m.Until.After(now) {
			return
		}
		m.Lifecycle = inService
		if c, err := f.cluster(g.Cluster); err == nil && !m.Silent {
			if i, err := f.launch(c, g.Machine, launched{m.Zone, m.EC2, now}); err == nil {
				m.Instance = i.ID
			}
		}
		f.touch(g)
	})
}

// leave begins the termination of a member; a hook holds it up.
func (f *Fleet) leave(g *group, m *member, now time.Time) {
	var wait time.Duration
	for _, d := range g.Hooks {
		wait = max(wait, d)
	}
	if wait == 0 || m.Lifecycle == pending {
		f.end(m, now)
		return
	}
	m.Lifecycle, m.Until = terminatingWait, now.Add(wait)
	f.opt.Clock.After(wait, func() { f.overdue(g.Name, m.EC2) })
}

// end takes the machine away; whoever calls deletes the member.
func (f *Fleet) end(m *member, now time.Time) {
	if i := f.instances[m.Instance]; i != nil && i.Status != cluster.InstanceInactive {
		f.terminate(i, now)
	}
	m.Lifecycle = ""
}

// overdue lets a termination go on whose heartbeat is over.
func (f *Fleet) overdue(name, ec2 string) {
	f.progress(func(now time.Time) {
		g := f.groups[name]
		if g == nil {
			return
		}
		if m := g.member(ec2); m != nil && m.Lifecycle == terminatingWait && !m.Until.After(now) {
			f.end(m, now)
			f.balance(g, now)
		}
	})
}

// resumeGroups goes on with what the groups were about when the file was closed.
func (f *Fleet) resumeGroups() {
	for _, g := range f.groups {
		for _, m := range g.Members {
			wait := max(0, m.Until.Sub(f.opt.Clock.Now()))
			switch m.Lifecycle {
			case pending:
				f.opt.Clock.After(wait, func() { f.arrive(g.Name, m.EC2) })
			case terminatingWait:
				f.opt.Clock.After(wait, func() { f.overdue(g.Name, m.EC2) })
			}
		}
		f.opt.Clock.After(launchAgainAfter, func() { f.rebalance(g.Name) })
	}
}

// onGroup changes a group by a call of its API.
func (f *Fleet) onGroup(operation, name string, change func(g *group, now time.Time) error) error {
	apply := func() error {
		return f.change(func(now time.Time) error {
			g := f.groups[name]
			if g == nil {
				return cluster.Errorf("ValidationError", "AutoScalingGroup name not found - %.255s", name)
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
			g := f.groups[name]
			if g == nil {
				continue
			}
			d := &cluster.AutoScalingGroup{
				Name: name, ARN: f.groupARN(name), Min: g.Min, Max: g.Max, Desired: g.Desired, Protects: g.Protects, Tags: maps.Clone(g.Tags),
				Zones: slices.Clone(f.zones(g.Machine)), Template: g.Template,
			}
			for _, m := range g.Members {
				d.Instances = append(d.Instances, cluster.GroupInstance{
					ID: m.EC2, Type: g.Machine.Type, Zone: m.Zone, Lifecycle: m.Lifecycle, Protected: m.Protected, Template: m.Template,
				})
			}
			out = append(out, d)
		}
		return nil
	})
	return out, err
}

// SetDesired sets the desired capacity, within the group's minimum and maximum.
func (f *Fleet) SetDesired(_ context.Context, name string, n int) error {
	return f.onGroup("SetDesiredCapacity", name, func(g *group, _ time.Time) error {
		if n < g.Min || n > g.Max {
			return cluster.Errorf("ValidationError", "New SetDesiredCapacity value %d is outside the minimum %d and the maximum %d of the group", n, g.Min, g.Max)
		}
		g.Desired = n
		return nil
	})
}

// SetInstanceProtection protects instances in service from scale-in, or releases them: all or none.
func (f *Fleet) SetInstanceProtection(_ context.Context, name string, ids []string, protected bool) error {
	return f.onGroup("SetInstanceProtection", name, func(g *group, _ time.Time) error {
		for _, id := range ids {
			if m := g.member(id); m == nil || m.Lifecycle != inService {
				return cluster.Errorf("ValidationError", "The instance %.32s is not in InService", id)
			}
		}
		for _, id := range ids {
			g.member(id).Protected = protected
		}
		return nil
	})
}

// TerminateInstance terminates an instance; lower takes it off the desired capacity, else it is replaced.
func (f *Fleet) TerminateInstance(_ context.Context, id string, lower bool) error {
	name := ""
	_ = f.look(func(time.Time) error {
		for _, g := range f.groups {
			if g.member(id) != nil {
				name = g.Name
			}
		}
		return nil
	})
	return f.onGroup("TerminateInstanceInAutoScalingGroup", name, func(g *group, now time.Time) error {
		m := g.member(id)
		if m == nil || m.Lifecycle == terminatingWait {
			return nil
		}
		if lower && g.Desired <= g.Min {
			return cluster.Errorf("ValidationError", "Currently, desiredSize equals minSize (%d). Terminating instance without replacement will violate group's min size constraint", g.Min)
		}
		if lower {
			g.Desired--
		}
		f.leave(g, m, now)
		return nil
	})
}

// TagGroup sets a tag of the group.
func (f *Fleet) TagGroup(_ context.Context, name, key, value string) error {
	return f.onGroup("CreateOrUpdateTags", name, func(g *group, _ time.Time) error {
		g.Tags[key] = value
		return nil
	})
}

// PutLifecycleHook holds up terminations from now on.
func (f *Fleet) PutLifecycleHook(_ context.Context, h cluster.LifecycleHook) error {
	return f.onGroup("PutLifecycleHook", h.Group, func(g *group, _ time.Time) error {
		g.Hooks[h.Name] = h.Heartbeat
		return nil
	})
}

// DeleteLifecycleHook no longer does.
func (f *Fleet) DeleteLifecycleHook(_ context.Context, name, hook string) error {
	return f.onGroup("DeleteLifecycleHook", name, func(g *group, _ time.Time) error {
		delete(g.Hooks, hook)
		return nil
	})
}

// held is the member whose termination a hook holds up.
func (g *group) held(hook, id string) (*member, error) {
	m := g.member(id)
	if m == nil || m.Lifecycle != terminatingWait {
		return nil, cluster.Errorf("ValidationError", "No active Lifecycle Action found with instance ID %.32s and hook %.255s", id, hook)
	}
	return m, nil
}

// CompleteLifecycleAction lets a termination go on.
func (f *Fleet) CompleteLifecycleAction(_ context.Context, name, hook, id string) error {
	return f.onGroup("CompleteLifecycleAction", name, func(g *group, now time.Time) error {
		m, err := g.held(hook, id)
		if err == nil {
			f.end(m, now)
		}
		return err
	})
}

// RecordHeartbeat has a termination wait for another heartbeat's time.
func (f *Fleet) RecordHeartbeat(_ context.Context, name, hook, id string) error {
	return f.onGroup("RecordLifecycleActionHeartbeat", name, func(g *group, now time.Time) error {
		m, err := g.held(hook, id)
		if err != nil {
			return err
		}
		wait := g.Hooks[hook]
		m.Until = now.Add(wait)
		f.opt.Clock.After(wait, func() { f.overdue(g.Name, id) })
		return nil
	})
}

// PutTrackingPolicy refuses: the fleet's alarms watch nothing.
func (f *Fleet) PutTrackingPolicy(context.Context, cluster.TrackingPolicy) error {
	return cluster.Errorf("ValidationError", "the simulated fleet has no target tracking policies")
}

// DeletePolicy has nothing to delete.
func (f *Fleet) DeletePolicy(context.Context, string, string) error { return nil }
