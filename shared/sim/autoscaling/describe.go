package autoscaling

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
	"berth/shared/sim/protocol"
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

func (e *scaler) templateSpec(template string) *xmlTemplateSpec {
	id, version, _ := strings.Cut(template, ":")
	out := &xmlTemplateSpec{LaunchTemplateId: id, Version: version}
	if t, _, err := e.Templates.Find(cluster.TemplateRef{ID: id}); err == nil {
		out.LaunchTemplateName = t.Name
	}
	return out
}

func (e *scaler) describeMember(m *member, of string) xmlMember {
	out := xmlMember{
		InstanceId: m.EC2, AutoScalingGroupName: of, InstanceType: m.Type, AvailabilityZone: m.Zone, LifecycleState: m.Lifecycle,
		HealthStatus: "Healthy", ProtectedFromScaleIn: m.Protected, LaunchTemplate: e.templateSpec(m.Template),
	}
	if m.Instance != "" && !e.Machines.IsRegistered(m.Instance) {
		out.HealthStatus = "Unhealthy"
	}
	return out
}

func (e *scaler) describeGroup(g *group) xmlASG {
	out := xmlASG{
		AutoScalingGroupName: g.Name, AutoScalingGroupARN: e.groupARN(g.Name), MinSize: g.Min, MaxSize: g.Max, DesiredCapacity: g.Desired,
		DefaultCooldown: 300, Zones: g.Machine.ZonesIn(e.kernel.Account().Region), HealthCheckType: "EC2", CreatedTime: protocol.XMLTime(g.CreatedAt), VPCZoneIdentifier: g.Subnets,
		TerminationPolicies: []string{"Default"}, NewInstancesProtectedFromScaleIn: g.Protects,
	}
	if g.Mixed {
		out.MixedInstancesPolicy = &xmlMixed{Spec: *e.templateSpec(g.Template)}
		for _, t := range g.Types {
			out.MixedInstancesPolicy.Types = append(out.MixedInstancesPolicy.Types, xmlOverride{t.Type, t.Weight})
		}
	} else {
		out.LaunchTemplate = e.templateSpec(g.Template)
	}
	if !g.Rebalances {
		out.Suspended = []xmlProcess{{"AZRebalance", "User suspended"}}
	}
	for k := range g.Members {
		out.Instances = append(out.Instances, e.describeMember(&g.Members[k], ""))
	}
	for _, key := range slices.Sorted(maps.Keys(g.Tags)) {
		out.Tags = append(out.Tags, xmlGroupTag{g.Name, "auto-scaling-group", key, g.Tags[key], !g.Own[key]})
	}
	return out
}

// named are the groups named, all where none is, by name.
func (e *scaler) named(names []string) (found []*group) {
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(e.groups))
	}
	slices.Sort(names)
	for _, name := range names {
		if g := e.groups[name]; g != nil {
			found = append(found, g)
		}
	}
	return found
}

func (e *api) describeGroups(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, "AutoScalingGroupNames", "MaxRecords", "NextToken"); err != nil {
		return nil, err
	}
	size, names := 50, protocol.Members(form, "AutoScalingGroupNames", "")
	if err := protocol.Whole(form, "MaxRecords", &size); err != nil {
		return nil, err
	}
	if err := e.kernel.FailCall("DescribeAutoScalingGroups", fmt.Sprint(names)); err != nil {
		return nil, err
	}
	var out struct {
		Groups []xmlASG `xml:"AutoScalingGroups>member"`
		Next   string   `xml:"NextToken,omitempty"`
	}
	err := e.kernel.View(func(time.Time) error {
		page, next, err := protocol.PageOf(e.groups.scaler.named(names), form.Get("NextToken"), size, 100)
		for _, g := range page {
			out.Groups = append(out.Groups, e.groups.scaler.describeGroup(g))
		}
		out.Next = next
		return err
	})
	return out, err
}

func (e *api) describeGroupInstances(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, "InstanceIds", "MaxRecords", "NextToken"); err != nil {
		return nil, err
	}
	size, ids := 50, protocol.Members(form, "InstanceIds", "")
	if err := protocol.Whole(form, "MaxRecords", &size); err != nil {
		return nil, err
	}
	var all []xmlMember
	_ = e.kernel.View(func(time.Time) error {
		for _, g := range e.groups.scaler.named(nil) {
			for k := range g.Members {
				if len(ids) == 0 || slices.Contains(ids, g.Members[k].EC2) {
					all = append(all, e.groups.scaler.describeMember(&g.Members[k], g.Name))
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
	out.Instances, out.Next, err = protocol.PageOf(all, form.Get("NextToken"), size, 50)
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
		StartTime: protocol.XMLTime(a.Start), EndTime: protocol.XMLTime(a.End), StatusCode: a.Status, StatusMessage: a.Message, Progress: progress, Details: string(details),
	}
}

func (e *api) describeActivities(_ context.Context, form url.Values) (any, error) {
	if err := protocol.Only(form, asgName, "MaxRecords", "NextToken"); err != nil {
		return nil, err
	}
	size, name := 100, form.Get(asgName)
	if err := protocol.Whole(form, "MaxRecords", &size); err != nil {
		return nil, err
	}
	var all []xmlActivity
	err := e.kernel.CallView("DescribeScalingActivities", name, func(time.Time) error {
		groups := e.groups.scaler.named(nil)
		if name != "" {
			if groups = e.groups.scaler.named([]string{name}); len(groups) == 0 {
				return noGroup(name)
			}
		}
		for _, g := range groups {
			for _, a := range slices.Backward(g.Activities) {
				d := a.describe(g)
				d.AutoScalingGroupARN = e.groups.scaler.groupARN(g.Name)
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
	out.Activities, out.Next, err = protocol.PageOf(all, form.Get("NextToken"), size, 100)
	return out, err
}
