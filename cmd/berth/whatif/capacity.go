package whatif

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/cmd/berth/client"
	"berth/shared/cluster"
	"berth/shared/handler/managedscaling"
	"berth/shared/operation"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/state"
	"berth/shared/wire/berthapi"
)

// Capacity is what a cluster's instances come from: capacity providers, node groups and Auto
// Scaling groups, by name.
type Capacity struct {
	Providers  map[string]*cluster.CapacityProvider
	Histories  map[string]*cluster.ScalingHistory // by provider
	NodeGroups map[string]*cluster.NodeGroup
	Updates    map[string]*cluster.Update // the last one of each node group's nodes
	// FailedConfigs are the updates of sizes or labels that failed, of the node groups that have had no
	// update since.
	FailedConfigs map[string]*cluster.Update
	Groups        map[string]*cluster.AutoScalingGroup
	// Failures are the launches that failed lately, of the groups that are smaller than desired.
	Failures map[string][]cluster.FailedLaunch
	// Attached has the names of the cluster's providers, also of Fargate's, and its default strategy. It
	// is nil if the cluster never had one, or if an older Berth does not say.
	Attached *cluster.ClusterProviders
	// Unattachable are the capacity providers that could not be created, and that no cluster has.
	Unattachable []*cluster.CapacityProvider
	// DeadLetters are the dead-letter queues that have messages, where known.
	DeadLetters []operation.DeadLetters
	// DisconnectTimeout is how long an agent may be disconnected before its tasks are replaced
	// elsewhere (parameter LostAfterSeconds); nil if an older Berth does not say.
	DisconnectTimeout *time.Duration
	// At is the time of the scheduler's clock; zero if it is unknown.
	At time.Time
	// Generation changes with the cluster's rows; empty if it is unknown.
	Generation string
}

// Now returns the time of the scheduler's clock, or local if that is unknown.
func (k *Capacity) Now(local time.Time) time.Time {
	if k == nil || k.At.IsZero() {
		return local
	}
	return k.At
}

// failuresFor is how long ago a failed launch is still reported.
const failuresFor = time.Hour

// LaunchReader returns the launches of a group that failed since a time, the newest first.
type LaunchReader func(ctx context.Context, group string, since time.Time) ([]cluster.FailedLaunch, error)

// ReadFailures reads the failed launches of the groups that are smaller than desired.
func (k *Capacity) ReadFailures(ctx context.Context, read LaunchReader, now time.Time) error {
	k.Failures = map[string][]cluster.FailedLaunch{}
	for name, g := range k.Groups {
		if len(g.Instances) >= g.Desired {
			continue
		}
		failed, err := read(ctx, name, now.Add(-failuresFor))
		if err != nil {
			return err
		}
		k.Failures[name] = failed
	}
	return nil
}

// describeCapacity reads the stored rows, and the time of the scheduler's clock.
func describeCapacity(
	ctx context.Context, c *client.Client, clusterName string,
) (out berthapi.CapacityOutput, err error) {
	err = c.CallBerth(ctx, "DescribeCapacity", berthapi.ClusterInput{Cluster: clusterName}, &out)
	return out, err
}

// ReadClock returns the time of the scheduler's clock, or this machine's if an older Berth does not
// say.
func ReadClock(ctx context.Context, c *client.Client, clusterName string) (time.Time, error) {
	out, err := describeCapacity(ctx, c, clusterName)
	return (&Capacity{At: out.At}).Now(time.Now()), err
}

// ReadCapacity reads the rows of a running Berth, and the groups that they name from Auto Scaling.
// A group that no longer exists is missing in the result. If only Auto Scaling cannot be read, the
// rows are returned with the error.
func ReadCapacity(ctx context.Context, c *client.Client, clusterName string) (*Capacity, error) {
	out, err := describeCapacity(ctx, c, clusterName)
	if err != nil {
		return nil, err
	}
	var rows []state.Row
	for _, r := range out.Rows {
		row, err := state.DecodeRow(r.Sort, r.Row)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	k, names := NewCapacity(rows)
	k.At, k.Generation, k.DeadLetters = out.At, out.Generation, out.DeadLetters
	if seconds := out.LostAfterSeconds; seconds != nil {
		k.DisconnectTimeout = new(time.Duration(*seconds * float64(time.Second)))
	}
	groups, err := c.AutoScalingGroups(ctx, names)
	for _, g := range groups {
		k.Groups[g.Name] = g
	}
	if err != nil {
		return k, err
	}
	return k, k.ReadFailures(ctx, c.FailedLaunches, k.Now(time.Now()))
}

// NewCapacity sorts the rows of what a cluster's instances come from. It returns the names of the
// groups that they name, each once: the caller reads them into Groups.
func NewCapacity(rows []state.Row) (k *Capacity, groups []string) {
	k = &Capacity{
		Providers: map[string]*cluster.CapacityProvider{}, Histories: map[string]*cluster.ScalingHistory{},
		NodeGroups: map[string]*cluster.NodeGroup{}, Updates: map[string]*cluster.Update{},
		FailedConfigs: map[string]*cluster.Update{}, Groups: map[string]*cluster.AutoScalingGroup{},
	}
	for _, row := range rows {
		switch r := row.(type) {
		case *cluster.CapacityProvider:
			if r.IsUnattachable() {
				k.Unattachable = append(k.Unattachable, r)
				continue
			}
			k.Providers[r.Name] = r
			groups = append(groups, r.Group)
		case *cluster.ClusterProviders:
			k.Attached = r
		case *cluster.ScalingHistory:
			k.Histories[r.Provider] = r
		case *cluster.NodeGroup:
			k.NodeGroups[r.Name] = r
			groups = append(groups, r.AutoScalingGroup)
		case *cluster.Update:
			if r.Type == cluster.UpdateConfiguration {
				k.FailedConfigs[r.NodeGroup] = r
			} else {
				k.Updates[r.NodeGroup] = r
			}
		}
	}
	// Groups are asked for once, however many providers and node groups share them.
	slices.Sort(groups)
	return k, slices.Compact(groups)
}

// FindNodeGroup returns a node group with its Auto Scaling group, which is nil if it no longer
// exists. A node group that is being created, or could not be created, is an error.
func (k *Capacity) FindNodeGroup(name string) (*cluster.NodeGroup, *cluster.AutoScalingGroup, error) {
	g := k.NodeGroups[name]
	switch {
	case g == nil:
		return nil, nil, &NotFound{"node group", name, slices.Collect(maps.Keys(k.NodeGroups))}
	case len(g.Issues) > 0:
		return nil, nil, fmt.Errorf("node group %s is %s: %s: %s", name, g.Status, g.Issues[0].Code,
			g.Issues[0].Message)
	case g.Status == cluster.NodeGroupCreating:
		return nil, nil, fmt.Errorf("node group %s is %s, which takes a minute; try again then", name, g.Status)
	}
	return g, k.Groups[g.AutoScalingGroup], nil
}

// nodeGroupOf returns the node group of an Auto Scaling group, or nil if it is none.
func (k *Capacity) nodeGroupOf(group string) *cluster.NodeGroup {
	for _, g := range k.NodeGroups {
		if g.AutoScalingGroup == group {
			return g
		}
	}
	return nil
}

// scalingInput is what managed scaling would decide on for a provider, whose group must exist.
func (k *Capacity) scalingInput(snap *snapshot.Snapshot, p *cluster.CapacityProvider, now time.Time) scaling.Input {
	in := managedscaling.ScalingInput(snap, p, k.Groups[p.Group], k.Histories[p.Name], now)
	g := k.nodeGroupOf(p.Group)
	// Managed scaling does not change a group while its nodes are being replaced.
	in.Upgrading = g != nil && g.IsUpgrading()
	return in
}

// DecideScaling returns what managed scaling would decide now about a provider, whose group must
// exist.
func (k *Capacity) DecideScaling(
	snap *snapshot.Snapshot, p *cluster.CapacityProvider, now time.Time,
) scaling.Decision {
	return scaling.Decide(k.scalingInput(snap, p, now))
}

// scalingDecisions returns what managed scaling would decide now about the capacity providers of a
// service's strategy. Providers without a usable group are left out.
func (k *Capacity) scalingDecisions(
	snap *snapshot.Snapshot, s *cluster.Service, now time.Time,
) (out []ScalingDecision) {
	for _, share := range s.Providers {
		p := k.Providers[share.Provider]
		// Managed scaling skips these, so there is no decision to report.
		if p == nil || p.HasFailedCreation() || k.Groups[p.Group] == nil {
			continue
		}
		d := k.DecideScaling(snap, p, now)
		line := ScalingDecision{Provider: p.Name, Group: p.Group, Current: k.Groups[p.Group].Desired,
			Desired: d.Desired,
			Why:     d.Why, Demands: []string{}}
		for _, need := range d.Demands {
			if slices.Contains(need.Owners, "service "+s.Name) {
				line.Demands = append(line.Demands, need.String())
			}
		}
		out = append(out, line)
	}
	return out
}
