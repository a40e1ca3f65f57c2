package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
)

type (
	xmlTemplateSpec struct{ LaunchTemplateId, LaunchTemplateName, Version string }
	xmlOverride     struct {
		InstanceType     string
		WeightedCapacity string `xml:",omitempty"`
	}
	xmlMixed struct {
		Spec  xmlTemplateSpec `xml:"LaunchTemplate>LaunchTemplateSpecification"`
		Types []xmlOverride   `xml:"LaunchTemplate>Overrides>member"`
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
		DefaultCooldown                           int
		Zones                                     []string `xml:"AvailabilityZones>member"`
		HealthCheckType                           string
		HealthCheckGracePeriod                    int
		Instances                                 []xmlMember `xml:"Instances>member"`
		CreatedTime                               string
		Suspended                                 []xmlProcess  `xml:"SuspendedProcesses>member"`
		VPCZoneIdentifier                         string        `xml:",omitempty"`
		Tags                                      []xmlGroupTag `xml:"Tags>member"`
		TerminationPolicies                       []string      `xml:"TerminationPolicies>member"`
		NewInstancesProtectedFromScaleIn          bool
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

func (f *Fleet) templateSpec(template string) *xmlTemplateSpec {
	id, version, _ := strings.Cut(template, ":")
	out := &xmlTemplateSpec{LaunchTemplateId: id, Version: version}
	if t := f.templates[id]; t != nil {
		out.LaunchTemplateName = t.Name
	}
	return out
}

func (f *Fleet) describeMember(m *member, of string) xmlMember {
	out := xmlMember{
		InstanceId: m.EC2, AutoScalingGroupName: of, InstanceType: m.Type, AvailabilityZone: m.Zone, LifecycleState: m.Lifecycle,
		HealthStatus: "Healthy", ProtectedFromScaleIn: m.Protected, LaunchTemplate: f.templateSpec(m.Template),
	}
	if i := f.instances[m.Instance]; m.Instance != "" && (i == nil || i.Status == cluster.InstanceInactive) {
		out.HealthStatus = "Unhealthy"
	}
	return out
}

func (f *Fleet) describeGroup(g *group) xmlASG {
	out := xmlASG{
		AutoScalingGroupName: g.Name, AutoScalingGroupARN: f.groupARN(g.Name), MinSize: g.Min, MaxSize: g.Max, DesiredCapacity: g.Desired,
		DefaultCooldown: 300, Zones: f.zones(g.Machine), HealthCheckType: "EC2", CreatedTime: xmlTime(g.CreatedAt), VPCZoneIdentifier: g.Subnets,
		TerminationPolicies: []string{"Default"}, NewInstancesProtectedFromScaleIn: g.Protects,
	}
	if g.Mixed {
		out.MixedInstancesPolicy = &xmlMixed{Spec: *f.templateSpec(g.Template)}
		for _, t := range g.Types {
			out.MixedInstancesPolicy.Types = append(out.MixedInstancesPolicy.Types, xmlOverride{t.Type, t.Weight})
		}
	} else {
		out.LaunchTemplate = f.templateSpec(g.Template)
	}
	if !g.Rebalances {
		out.Suspended = []xmlProcess{{"AZRebalance", "User suspended"}}
	}
	for k := range g.Members {
		out.Instances = append(out.Instances, f.describeMember(&g.Members[k], ""))
	}
	for _, key := range slices.Sorted(maps.Keys(g.Tags)) {
		out.Tags = append(out.Tags, xmlGroupTag{g.Name, "auto-scaling-group", key, g.Tags[key], !g.Own[key]})
	}
	return out
}

// named are the groups named, all where none is, by name.
func (f *Fleet) named(names []string) (found []*group) {
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(f.groups))
	}
	slices.Sort(names)
	for _, name := range names {
		if g := f.groups[name]; g != nil {
			found = append(found, g)
		}
	}
	return found
}

func (f *Fleet) describeGroups(_ context.Context, form url.Values) (any, error) {
	if err := only(form, "AutoScalingGroupNames", "MaxRecords", "NextToken"); err != nil {
		return nil, err
	}
	size, names := 50, members(form, "AutoScalingGroupNames", "")
	if err := whole(form, "MaxRecords", &size); err != nil {
		return nil, err
	}
	if proceed, err := f.faulty("DescribeAutoScalingGroups", fmt.Sprint(names), func() error { return nil }); !proceed {
		return nil, err
	}
	var out struct {
		Groups []xmlASG `xml:"AutoScalingGroups>member"`
		Next   string   `xml:"NextToken,omitempty"`
	}
	err := f.look(func(time.Time) error {
		page, next, err := pageOf(f.named(names), form.Get("NextToken"), size, 100)
		for _, g := range page {
			out.Groups = append(out.Groups, f.describeGroup(g))
		}
		out.Next = next
		return err
	})
	return out, err
}

func (f *Fleet) describeGroupInstances(_ context.Context, form url.Values) (any, error) {
	if err := only(form, "InstanceIds", "MaxRecords", "NextToken"); err != nil {
		return nil, err
	}
	size, ids := 50, members(form, "InstanceIds", "")
	if err := whole(form, "MaxRecords", &size); err != nil {
		return nil, err
	}
	var all []xmlMember
	_ = f.look(func(time.Time) error {
		for _, g := range f.named(nil) {
			for k := range g.Members {
				if len(ids) == 0 || slices.Contains(ids, g.Members[k].EC2) {
					all = append(all, f.describeMember(&g.Members[k], g.Name))
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
	out.Instances, out.Next, err = pageOf(all, form.Get("NextToken"), size, 50)
	return out, err
}

func (a activity) describe(g *group) xmlActivity {
	progress := 100
	if a.Status == activityRuns {
		progress = 30
	}
	details, _ := json.Marshal(map[string]string{"Availability Zone": a.Zone}) // it never fails for strings
	return xmlActivity{
		ActivityId: a.ID, AutoScalingGroupName: g.Name, Description: a.Description, Cause: cmp.Or(a.Cause, "The group's desired capacity was not met."),
		StartTime: xmlTime(a.Start), EndTime: xmlTime(a.End), StatusCode: a.Status, StatusMessage: a.Message, Progress: progress, Details: string(details),
	}
}

func (f *Fleet) describeActivities(_ context.Context, form url.Values) (any, error) {
	if err := only(form, asgName, "MaxRecords", "NextToken"); err != nil {
		return nil, err
	}
	size, name := 100, form.Get(asgName)
	if err := whole(form, "MaxRecords", &size); err != nil {
		return nil, err
	}
	if proceed, err := f.faulty("DescribeScalingActivities", name, func() error { return nil }); !proceed {
		return nil, err
	}
	var all []xmlActivity
	err := f.look(func(time.Time) error {
		groups := f.named(nil)
		if name != "" {
			if groups = f.named([]string{name}); len(groups) == 0 {
				return noGroup(name)
			}
		}
		for _, g := range groups {
			for _, a := range slices.Backward(g.Activities) {
				d := a.describe(g)
				d.AutoScalingGroupARN = f.groupARN(g.Name)
				all = append(all, d)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b xmlActivity) int { return cmp.Compare(b.StartTime, a.StartTime) })
	var out struct {
		Activities []xmlActivity `xml:"Activities>member"`
		Next       string        `xml:"NextToken,omitempty"`
	}
	out.Activities, out.Next, err = pageOf(all, form.Get("NextToken"), size, 100)
	return out, err
}
