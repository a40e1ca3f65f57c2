package autoscaling

import (
	"cmp"
	"context"
	"strings"
	"time"

	"berth/shared/cluster"
)

// distribution is an InstancesDistribution: how a group mixes On-Demand and Spot instances. Nothing
// here depends on it.
type distribution struct {
	OnDemandAllocationStrategy          string
	OnDemandBaseCapacity                *int `json:",omitempty"`
	OnDemandPercentageAboveBaseCapacity *int `json:",omitempty"`
	SpotAllocationStrategy              string
	SpotInstancePools                   *int   `json:",omitempty"`
	SpotMaxPrice                        string `json:",omitempty" xml:",omitempty"`
}

// withDefaults returns a distribution with Auto Scaling's defaults for what it lacks; d may be nil.
func (d *distribution) withDefaults() *distribution {
	out := distribution{}
	if d != nil {
		out = *d
	}
	out.OnDemandAllocationStrategy = cmp.Or(out.OnDemandAllocationStrategy, "prioritized")
	out.SpotAllocationStrategy = cmp.Or(out.SpotAllocationStrategy, "lowest-price")
	out.OnDemandBaseCapacity = cmp.Or(out.OnDemandBaseCapacity, new(0))
	out.OnDemandPercentageAboveBaseCapacity = cmp.Or(out.OnDemandPercentageAboveBaseCapacity, new(100))
	if out.SpotAllocationStrategy == "lowest-price" {
		out.SpotInstancePools = cmp.Or(out.SpotInstancePools, new(2))
	}
	return &out
}

// Maker makes and deletes groups as node groups need it.
type Maker struct{ Groups *Groups }

// EnsureGroup makes a group. One of that name may exist.
func (m Maker) EnsureGroup(ctx context.Context, n cluster.NewAutoScalingGroup) error {
	mixed := &mixedInput{InstancesDistribution: &distribution{OnDemandPercentageAboveBaseCapacity: new(100)}}
	if n.Spot {
		mixed.InstancesDistribution = &distribution{OnDemandPercentageAboveBaseCapacity: new(0),
			SpotAllocationStrategy: "price-capacity-optimized"}
	}
	mixed.LaunchTemplate.LaunchTemplateSpecification = templateInput{LaunchTemplateId: n.Template.ID,
		Version: n.Template.Version}
	for _, t := range n.Types {
		overrides := &mixed.LaunchTemplate.Overrides
		*overrides = append(*overrides, overrideInput{InstanceType: t})
	}
	in := &createInput{AutoScalingGroupName: n.Name, MinSize: &n.Sizes.Min, MaxSize: &n.Sizes.Max,
		DesiredCapacity: &n.Sizes.Desired, MixedInstancesPolicy: mixed, VPCZoneIdentifier: strings.Join(n.Subnets, ",")}
	for key, value := range n.Tags {
		in.Tags = append(in.Tags, tagInput{Key: key, Value: value, ResourceId: n.Name})
	}
	_, err := (&groupAPI{m.Groups}).createGroup(ctx, in)
	if cluster.ErrorCode(err) == "AlreadyExists" {
		return nil
	}
	return err
}

// DeleteGroup deletes a group with its instances, and reports whether it is gone.
func (m Maker) DeleteGroup(ctx context.Context, name string) (gone bool, err error) {
	err = m.Groups.kernel.CallView("DescribeAutoScalingGroups", name, func(time.Time) error {
		gone = m.Groups.byName[name] == nil
		return nil
	})
	if err != nil || gone {
		return gone, err
	}
	_, err = (&groupAPI{m.Groups}).deleteGroup(ctx, &deleteInput{name, true})
	return false, err
}

// Names returns the names of the groups that begin with a prefix, sorted.
func (m Maker) Names(prefix string) (names []string) {
	_ = m.Groups.kernel.View(func(time.Time) error {
		for _, g := range groupsByName(m.Groups.byName, nil) {
			if strings.HasPrefix(g.Name, prefix) {
				names = append(names, g.Name)
			}
		}
		return nil
	})
	return names
}
