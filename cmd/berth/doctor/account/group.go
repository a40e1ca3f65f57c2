package account

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/cmd/berth/doctor"
)

// templateReference names a launch template version, as Auto Scaling's answers do.
type templateReference struct {
	ID      string `xml:"LaunchTemplateId"`
	Name    string `xml:"LaunchTemplateName"`
	Version string
}

// describedGroup is a group in Auto Scaling's answers.
type describedGroup struct {
	Name    string `xml:"AutoScalingGroupName"`
	Min     int    `xml:"MinSize"`
	Max     int    `xml:"MaxSize"`
	Desired int    `xml:"DesiredCapacity"`
	Tags    []struct {
		Key, Value string
	} `xml:"Tags>member"`
	Instances []struct {
		ID        string `xml:"InstanceId"`
		Lifecycle string `xml:"LifecycleState"`
	} `xml:"Instances>member"`
	Template *templateReference `xml:"LaunchTemplate"`
	Mixed    *templateReference `xml:"MixedInstancesPolicy>LaunchTemplate>LaunchTemplateSpecification"`
	// Types override the template's. OnDemandShare is the percentage above OnDemandBase that is
	// On-Demand: 100 unless set.
	Types         []string `xml:"MixedInstancesPolicy>LaunchTemplate>Overrides>member>InstanceType"`
	OnDemandBase  int      `xml:"MixedInstancesPolicy>InstancesDistribution>OnDemandBaseCapacity"`
	OnDemandShare *int     `xml:"MixedInstancesPolicy>InstancesDistribution>OnDemandPercentageAboveBaseCapacity"`
}

// describeGroups reads groups by name. One that does not exist is missing.
func (r *groupReader) describeGroups(ctx context.Context, names []string) map[string]doctor.Read[doctor.Group] {
	out := map[string]doctor.Read[doctor.Group]{}
	in := map[string]string{}
	for n, name := range names {
		in["AutoScalingGroupNames.member."+strconv.Itoa(n+1)] = name
		out[name] = doctor.Read[doctor.Group]{Err: doctor.ErrMissing}
	}
	var answer struct {
		Groups []describedGroup `xml:"DescribeAutoScalingGroupsResult>AutoScalingGroups>member"`
	}
	if err := r.callForm(ctx, autoScaling, "DescribeAutoScalingGroups", in, &answer); err != nil {
		for _, name := range names {
			out[name] = doctor.Read[doctor.Group]{Err: err}
		}
		return out
	}
	for i := range answer.Groups {
		d := &answer.Groups[i]
		g := doctor.Group{Name: d.Name, Min: d.Min, Max: d.Max, Desired: d.Desired, Tags: map[string]string{}}
		for _, t := range d.Tags {
			g.Tags[t.Key] = t.Value
		}
		for _, m := range d.Instances {
			g.Instances = append(g.Instances, doctor.Member{ID: m.ID, Lifecycle: m.Lifecycle})
		}
		reference := cmp.Or(d.Template, d.Mixed)
		if reference == nil { // a launch configuration
			g.Template.Err = doctor.ErrUnsupported
		} else {
			g.Template = resultOf(r.readTemplate(ctx, reference))
			g.OnDemand, g.Spot = d.marketsOf(&g.Template.Got)
		}
		out[d.Name] = resultOf(g, nil)
	}
	return out
}

// marketsOf returns the instance types that the group launches On-Demand and as Spot.
func (d *describedGroup) marketsOf(t *doctor.Template) (onDemand, spot []string) {
	types := d.Types
	if len(types) == 0 && t.InstanceType != "" {
		types = []string{t.InstanceType}
	}
	if d.Mixed == nil {
		if t.Spot {
			return nil, types
		}
		return types, nil
	}
	share := 100
	if d.OnDemandShare != nil {
		share = *d.OnDemandShare
	}
	if share > 0 || d.OnDemandBase > 0 {
		onDemand = types
	}
	if share < 100 {
		spot = types
	}
	return onDemand, spot
}

// readTemplate reads a version of a launch template.
func (r *groupReader) readTemplate(ctx context.Context, ref *templateReference) (doctor.Template, error) {
	in := map[string]string{"LaunchTemplateId": ref.ID, "LaunchTemplateVersion.1": cmp.Or(ref.Version, "$Default")}
	if ref.ID == "" { // EC2 refuses both
		delete(in, "LaunchTemplateId")
		in["LaunchTemplateName"] = ref.Name
	}
	var out struct {
		Versions []struct {
			Name     string `xml:"launchTemplateName"`
			Number   string `xml:"versionNumber"`
			UserData string `xml:"launchTemplateData>userData"`
			Type     string `xml:"launchTemplateData>instanceType"`
			Market   string `xml:"launchTemplateData>instanceMarketOptions>marketType"`
			Profile  struct {
				ARN  string `xml:"arn"`
				Name string `xml:"name"`
			} `xml:"launchTemplateData>iamInstanceProfile"`
		} `xml:"launchTemplateVersionSet>item"`
	}
	if err := r.callForm(ctx, ec2, "DescribeLaunchTemplateVersions", in, &out); err != nil {
		return doctor.Template{}, err
	}
	if len(out.Versions) == 0 {
		return doctor.Template{}, doctor.ErrMissing
	}
	v := out.Versions[0]
	return doctor.Template{Name: v.Name, Version: v.Number, UserData: v.UserData,
		InstanceType: v.Type, Spot: v.Market == "spot", Profile: cmp.Or(v.Profile.Name, v.Profile.ARN)}, nil
}

// readTemplateRoles reads what the roles of the template's instance profile allow.
func (r *groupReader) readTemplateRoles(ctx context.Context, g *doctor.Group) {
	t := &g.Template.Got
	if g.Template.Err != nil || t.Profile == "" {
		return
	}
	var out struct {
		Roles []string `xml:"GetInstanceProfileResult>InstanceProfile>Roles>member>RoleName"`
	}
	if err := r.callForm(ctx, iam, "GetInstanceProfile",
		map[string]string{"InstanceProfileName": t.Profile[strings.LastIndexByte(t.Profile, '/')+1:]},
		&out); err != nil {
		t.Roles.Err = err
		return
	}
	for _, name := range out.Roles {
		t.Roles.Got = append(t.Roles.Got, doctor.InstanceRole{Name: name, Role: resultOf(r.readRole(ctx, name))})
	}
}

// readFailure reads why the group's newest activity has failed, if it has.
func (r *groupReader) readFailure(ctx context.Context, g *doctor.Group) {
	var out struct {
		Activities []struct {
			Status  string `xml:"StatusCode"`
			Message string `xml:"StatusMessage"`
		} `xml:"DescribeScalingActivitiesResult>Activities>member"`
	}
	g.Failure.Err = r.callForm(ctx, autoScaling, "DescribeScalingActivities",
		map[string]string{"AutoScalingGroupName": g.Name, "MaxRecords": "1"}, &out)
	if len(out.Activities) > 0 && out.Activities[0].Status == "Failed" {
		g.Failure.Got = out.Activities[0].Message
	}
}

// maxLaunches is how many machines one call asks about.
const maxLaunches = 100

// readLaunches reads since when the machines run that ECS does not have. A machine that is
// terminated meanwhile makes EC2 refuse the call: then the times stay unknown.
func (r *groupReader) readLaunches(ctx context.Context, f *doctor.Facts) {
	registered := map[string]bool{}
	for _, c := range f.Clusters.Got {
		for _, i := range c.ECS.Got.Instances {
			registered[i.EC2] = true
		}
	}
	for name, g := range f.Groups {
		var ids []string
		for _, m := range g.Got.Instances {
			if !registered[m.ID] && m.Lifecycle == "InService" && len(ids) < maxLaunches {
				ids = append(ids, m.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		launched := r.launchTimes(ctx, ids)
		g.Got.Instances = slices.Clone(g.Got.Instances)
		for i := range g.Got.Instances {
			g.Got.Instances[i].LaunchedAt = launched[g.Got.Instances[i].ID]
		}
		f.Groups[name] = g
	}
}

// launchTimes returns when machines were launched.
func (r *groupReader) launchTimes(ctx context.Context, ids []string) map[string]time.Time {
	in := map[string]string{}
	for n, id := range ids {
		in["InstanceId."+strconv.Itoa(n+1)] = id
	}
	var out struct {
		Instances []struct {
			ID       string    `xml:"instanceId"`
			Launched time.Time `xml:"launchTime"`
		} `xml:"reservationSet>item>instancesSet>item"`
	}
	launched := map[string]time.Time{}
	if err := r.callForm(ctx, ec2, "DescribeInstances", in, &out); err != nil {
		return launched
	}
	for _, i := range out.Instances {
		launched[i.ID] = i.Launched
	}
	return launched
}

// readScalingLimits reads how many Auto Scaling groups there are, and may be.
func (r *reader) readScalingLimits(ctx context.Context, f *doctor.Facts) {
	var out struct {
		Max    int `xml:"DescribeAccountLimitsResult>MaxNumberOfAutoScalingGroups"`
		Groups int `xml:"DescribeAccountLimitsResult>NumberOfAutoScalingGroups"`
	}
	err := r.callForm(ctx, autoScaling, "DescribeAccountLimits", nil, &out)
	f.Scaling = resultOf(doctor.ScalingLimits{Groups: out.Groups, MaxGroups: out.Max}, err)
}
