package autoscaling

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// The answers of Describe operations: fields are named as in the API, so that encoding/xml needs
// few tags.
type (
	xmlTemplateSpec struct{ LaunchTemplateId, LaunchTemplateName, Version string }
	xmlOverride     struct {
		InstanceType     string
		WeightedCapacity string `xml:",omitempty"`
	}
	xmlMixed struct {
		Spec  xmlTemplateSpec `xml:"LaunchTemplate>LaunchTemplateSpecification"`
		Types []xmlOverride   `xml:"LaunchTemplate>Overrides>member"`

		InstancesDistribution *distribution
	}
	xmlMember struct {
		InstanceId                                                   string
		AutoScalingGroupName                                         string `xml:",omitempty"`
		InstanceType, AvailabilityZone, LifecycleState, HealthStatus string
		ProtectedFromScaleIn                                         bool
		LaunchTemplate                                               *xmlTemplateSpec
	}
	xmlGroupTag struct {
		ResourceId, ResourceType, Key, Value string
		PropagateAtLaunch                    bool
	}
	xmlProcess struct{ ProcessName, SuspensionReason string }
	xmlASG     struct {
		AutoScalingGroupName, AutoScalingGroupARN string
		LaunchTemplate                            *xmlTemplateSpec
		MixedInstancesPolicy                      *xmlMixed
		MinSize, MaxSize, DesiredCapacity         int
		Zones                                     []string    `xml:"AvailabilityZones>member"`
		Instances                                 []xmlMember `xml:"Instances>member"`
		CreatedTime                               string
		Suspended                                 []xmlProcess  `xml:"SuspendedProcesses>member"`
		VPCZoneIdentifier                         string        `xml:",omitempty"`
		Tags                                      []xmlGroupTag `xml:"Tags>member"`
		NewInstancesProtectedFromScaleIn          bool
		xmlSettings
	}
	xmlActivity struct {
		ActivityId, AutoScalingGroupName, AutoScalingGroupARN, Description, Cause, StartTime string
		EndTime                                                                              string `xml:",omitempty"`
		StatusCode                                                                           string
		StatusMessage                                                                        string `xml:",omitempty"`
		Progress                                                                             int
		Details                                                                              string
	}
)

// templateSpec returns a launch template version, ID:VERSION, with the template's name if it still
// exists.
func (a *groupAPI) templateSpec(template string) *xmlTemplateSpec {
	id, version, _ := strings.Cut(template, ":")
	out := &xmlTemplateSpec{LaunchTemplateId: id, Version: version}
	if t, _, err := a.groups.templates.ResolveTemplate(cluster.TemplateRef{ID: id}); err == nil {
		out.LaunchTemplateName = t.Name
	}
	return out
}

// describeMember describes an instance; of is the group's name where the answer has it. An instance
// whose machine is gone or stopped is Unhealthy until the group replaces it.
func (a *groupAPI) describeMember(m *member, of string) xmlMember {
	out := xmlMember{
		InstanceId: m.EC2, AutoScalingGroupName: of, InstanceType: m.Type, AvailabilityZone: m.Zone,
		LifecycleState: m.Lifecycle,
		HealthStatus:   "Healthy", ProtectedFromScaleIn: m.Protected, LaunchTemplate: a.templateSpec(m.Template),
	}
	if registered, stopped := a.groups.machines.CheckMachine(m.Instance); m.Instance != "" && (!registered || stopped) {
		out.HealthStatus = "Unhealthy"
	}
	return out
}

// describeGroup has no members of warm pools, metrics and traffic sources, which are not simulated.
func (a *groupAPI) describeGroup(g *group) xmlASG {
	out := xmlASG{
		AutoScalingGroupName: g.Name, AutoScalingGroupARN: a.groups.groupARN(g.Name), MinSize: g.Min, MaxSize: g.Max,
		DesiredCapacity: g.Desired,
		Zones:           g.Machine.ZonesIn(a.groups.kernel.Account.Region),
		CreatedTime:     protocol.FormatXMLTime(g.CreatedAt), VPCZoneIdentifier: g.Subnets,
		NewInstancesProtectedFromScaleIn: g.Protects,
		xmlSettings:                      g.describeSettings(a.groups.kernel.Account.ID),
	}
	if g.Mixed {
		out.MixedInstancesPolicy = &xmlMixed{Spec: *a.templateSpec(g.Template),
			InstancesDistribution: g.Distribution.withDefaults()}
		for _, t := range g.Types {
			out.MixedInstancesPolicy.Types = append(out.MixedInstancesPolicy.Types, xmlOverride{t.Type, t.Weight})
		}
	} else {
		out.LaunchTemplate = a.templateSpec(g.Template)
	}
	if !g.Rebalances {
		out.Suspended = []xmlProcess{{"AZRebalance", "User suspended"}}
	}
	for k := range g.Members {
		out.Instances = append(out.Instances, a.describeMember(&g.Members[k], ""))
	}
	for _, key := range slices.Sorted(maps.Keys(g.Tags)) {
		out.Tags = append(out.Tags, xmlGroupTag{g.Name, "auto-scaling-group", key, g.Tags[key], !g.Own[key]})
	}
	return out
}

// groupsByName returns the groups named, or all if none is, by name.
func groupsByName(groups map[string]*group, names []string) (found []*group) {
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(groups))
	}
	slices.Sort(names)
	for _, name := range names {
		if g := groups[name]; g != nil {
			found = append(found, g)
		}
	}
	return found
}

// findGroup returns the group named, which must exist, or all groups if the name is empty.
func findGroup(groups map[string]*group, name string) ([]*group, error) {
	if name == "" {
		return groupsByName(groups, nil), nil
	}
	if groups[name] == nil {
		return nil, groupNotFound(name)
	}
	return []*group{groups[name]}, nil
}

func (a *groupAPI) describeGroups(_ context.Context, in *struct {
	AutoScalingGroupNames []string
	MaxRecords            int `default:"50"`
	NextToken             string
}) (any, error) {
	var out struct {
		Groups []xmlASG `xml:"AutoScalingGroups>member"`
		Next   string   `xml:"NextToken,omitempty"`
	}
	names := in.AutoScalingGroupNames
	err := a.groups.kernel.CallView("DescribeAutoScalingGroups", fmt.Sprint(names), func(time.Time) error {
		page, next, err := protocol.PageOf(groupsByName(a.groups.byName, names), in.NextToken, in.MaxRecords, 100)
		for _, g := range page {
			out.Groups = append(out.Groups, a.describeGroup(g))
		}
		out.Next = next
		return err
	})
	return out, err
}

// The quotas of an account in a Region, by default (Auto Scaling user guide, quotas).
const (
	maxGroupsOfAccount         = 500
	maxConfigurationsOfAccount = 200
)

// describeAccountLimits answers with the default quotas, which the fleet does not enforce, and with
// the number of groups. There are no launch configurations.
func (a *groupAPI) describeAccountLimits(context.Context, *struct{}) (any, error) {
	var out struct {
		MaxNumberOfAutoScalingGroups, MaxNumberOfLaunchConfigurations int
		NumberOfAutoScalingGroups, NumberOfLaunchConfigurations       int
	}
	out.MaxNumberOfAutoScalingGroups, out.MaxNumberOfLaunchConfigurations = maxGroupsOfAccount,
		maxConfigurationsOfAccount
	_ = a.groups.kernel.View(func(time.Time) error {
		out.NumberOfAutoScalingGroups = len(a.groups.byName)
		return nil
	})
	return out, nil
}

// describeInstances lists instances by group and launch. Unlike those of a group they name their
// group.
func (a *groupAPI) describeInstances(_ context.Context, in *struct {
	InstanceIds []string
	MaxRecords  int `default:"50"`
	NextToken   string
}) (any, error) {
	var all []xmlMember
	_ = a.groups.kernel.View(func(time.Time) error {
		for _, g := range groupsByName(a.groups.byName, nil) {
			for k := range g.Members {
				if len(in.InstanceIds) == 0 || slices.Contains(in.InstanceIds, g.Members[k].EC2) {
					all = append(all, a.describeMember(&g.Members[k], g.Name))
				}
			}
		}
		return nil
	})
	var out struct {
		Instances []xmlMember `xml:"AutoScalingInstances>member"`
		Next      string      `xml:"NextToken,omitempty"`
	}
	var err error
	out.Instances, out.Next, err = protocol.PageOf(all, in.NextToken, in.MaxRecords, 50)
	return out, err
}

// describeActivity has no ARN of the group, which only the caller can make. A launch in progress is
// at 30 percent for as long as it takes.
func (a activity) describeActivity(g *group) xmlActivity {
	progress := 100
	if a.Status == activityRuns {
		progress = 30
	}
	details, _ := json.Marshal(map[string]string{"Availability Zone": a.Zone}) // never fails for strings
	return xmlActivity{
		ActivityId: a.ID, AutoScalingGroupName: g.Name, Description: a.Description,
		Cause:     cmp.Or(a.Cause, "The group's desired capacity was not met."),
		StartTime: protocol.FormatXMLTime(a.Start), EndTime: protocol.FormatXMLTime(a.End), StatusCode: a.Status,
		StatusMessage: a.Message, Progress: progress,
		Details: string(details),
	}
}

// describeActivities lists the newest activities first, across groups if none is named. Berth reads
// failed launches from it and stops at the first one that is too old.
func (a *groupAPI) describeActivities(_ context.Context, in *struct {
	AutoScalingGroupName string
	MaxRecords           int `default:"100"`
	NextToken            string
}) (any, error) {
	var all []xmlActivity
	err := a.groups.kernel.CallView("DescribeScalingActivities", in.AutoScalingGroupName, func(time.Time) error {
		groups, err := findGroup(a.groups.byName, in.AutoScalingGroupName)
		for _, g := range groups {
			for _, activity := range slices.Backward(g.Activities) {
				d := activity.describeActivity(g)
				d.AutoScalingGroupARN = a.groups.groupARN(g.Name)
				all = append(all, d)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b xmlActivity) int { return cmp.Compare(b.StartTime, a.StartTime) })
	var out struct {
		Activities []xmlActivity `xml:"Activities>member"`
		Next       string        `xml:"NextToken,omitempty"`
	}
	out.Activities, out.Next, err = protocol.PageOf(all, in.NextToken, in.MaxRecords, 100)
	return out, err
}
