package doctor

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"berth/shared/handler"
)

// GroupUse is an Auto Scaling group with what uses it, and the clusters that its machines may join.
type GroupUse struct {
	Group, By string
	Clusters  []string
}

// GroupUses returns the Auto Scaling groups of the clusters' capacity providers and node groups, by
// name.
func GroupUses(clusters []Cluster) []GroupUse {
	uses := map[string]*GroupUse{}
	add := func(group, by string, joins ...string) {
		if group == "" {
			return
		}
		u := uses[group]
		if u == nil {
			u = &GroupUse{Group: group, By: by}
			uses[group] = u
		}
		u.Clusters = slices.Compact(slices.Sorted(slices.Values(append(u.Clusters, joins...))))
	}
	for _, c := range clusters {
		if c.Capacity.Err != nil || c.Capacity.Got == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.Capacity.Got.Providers)) {
			if p := c.Capacity.Got.Providers[name]; !p.Inactive && slices.Contains(p.Clusters, c.Name) {
				add(p.Group, "capacity provider "+name, c.Name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(c.Capacity.Got.NodeGroups)) {
			add(c.Capacity.Got.NodeGroups[name].AutoScalingGroup, "node group "+name, c.Name)
		}
	}
	var out []GroupUse
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		out = append(out, *uses[name])
	}
	return out
}

// checkGroups judges the Auto Scaling groups that capacity providers and node groups use: Berth's
// tag, and what their next machine is made of.
func checkGroups(f *Facts) Check {
	var found []Finding
	for _, c := range f.Clusters.Got {
		if c.Capacity.Err != nil {
			found = append(found, notChecked("the groups of cluster "+c.Name, c.Capacity.Err))
		}
	}
	uses := GroupUses(f.Clusters.Got)
	for _, u := range uses {
		thing := fmt.Sprintf("group %s of %s", u.Group, u.By)
		g, there := f.Groups[u.Group]
		switch {
		case !there || g.Err == ErrMissing:
			found = append(found, Finding{Verdict: Fail, Thing: thing, Value: "it does not exist",
				Expected: "the group",
				Remedy:   "Make the group again, or delete the " + u.By + " through Berth"})
		case g.Err != nil:
			found = append(found, notChecked(thing, g.Err))
		default:
			found = append(found, f.judgeGroup(thing, u, &g.Got)...)
		}
	}
	return newCheck("", countOf(len(uses), "Auto Scaling group")+", with the launch template", found...)
}

func (f *Facts) judgeGroup(thing string, u GroupUse, g *Group) (found []Finding) {
	if owner := g.Tags[handler.OwnerTag]; owner != f.Stack.Name {
		value := "the tag " + handler.OwnerTag + " is " + owner
		if owner == "" {
			value = "it has no tag " + handler.OwnerTag
		}
		found = append(found, Finding{Verdict: Fail, Thing: thing, Value: value,
			Expected: handler.OwnerTag + "=" + f.Stack.Name + ": Berth changes no other group", Remedy: "Tag the group",
			Command: f.aws("autoscaling create-or-update-tags --tags ResourceId=%s,ResourceType=auto-scaling-group,"+
				"Key=%s,Value=%s,PropagateAtLaunch=false", g.Name, handler.OwnerTag, f.Stack.Name)})
	}
	if g.Max == 0 {
		found = append(found, Finding{Verdict: Warn, Thing: thing, Value: "its maximum size is 0",
			Expected: "room for machines", Remedy: "Allow some (set N)",
			Command: f.aws("autoscaling update-auto-scaling-group --auto-scaling-group-name %s --max-size $N", g.Name)})
	}
	if g.Failure.Err != nil {
		found = append(found, notChecked("the launches of "+thing, g.Failure.Err))
	}
	if g.Template.Err != nil {
		return append(found, notChecked("the launch template of "+thing, g.Template.Err))
	}
	return append(append(found, f.judgeUserData(thing, u, g)...), f.judgeProfile(thing, &g.Template.Got)...)
}

var (
	clusterVariable   = regexp.MustCompile(`(?m)\bECS_CLUSTER\s*=\s*["']?([a-zA-Z0-9_-]+)`)
	bottlerocketTable = regexp.MustCompile(`(?s)\[settings\.ecs\][^\[]*?\bcluster\s*=\s*"([^"\n]+)"`)
)

// joinedCluster returns the cluster that user data names, and "" if it names none. It is false if
// the user data cannot be read, such as compressed one.
func joinedCluster(userData string) (name string, readable bool) {
	raw, err := base64.StdEncoding.DecodeString(userData)
	if err != nil || strings.HasPrefix(string(raw), "\x1f\x8b") {
		return "", false
	}
	// The last assignment counts for the agent.
	if all := clusterVariable.FindAllStringSubmatch(string(raw), -1); len(all) > 0 {
		return all[len(all)-1][1], true
	}
	if m := bottlerocketTable.FindStringSubmatch(string(raw)); m != nil {
		return m[1], true
	}
	return "", true
}

// judgeUserData judges which cluster the group's next machine joins. Without a name that is
// "default", unless the image has one: then machines of the group have joined before.
func (f *Facts) judgeUserData(thing string, u GroupUse, g *Group) []Finding {
	t := &g.Template.Got
	name, readable := joinedCluster(t.UserData)
	finding := Finding{Verdict: Fail, Thing: thing,
		Expected: "ECS_CLUSTER=" + strings.Join(u.Clusters, " or "),
		Remedy: "Make a version of the launch template whose user data has it (user.sh is your script), let the " +
			"group use that version, and replace its machines",
		Command: f.aws("ec2 create-launch-template-version --launch-template-name %s --source-version %s "+
			`--launch-template-data "{\"UserData\": \"$(base64 -w0 user.sh)\"}"`, t.Name, t.Version)}
	version := fmt.Sprintf("version %s of launch template %s", t.Version, t.Name)
	switch {
	case !readable:
		finding.Verdict, finding.Command = Unknown, ""
		finding.Value, finding.Remedy = "not checked: the user data of "+version+" is compressed", ""
	case slices.Contains(u.Clusters, name), name == "" && slices.Contains(u.Clusters, "default"):
		return nil
	case name == "" && f.hasJoined(u, g):
		return nil
	case name == "":
		finding.Value = version + " names no cluster: its machines join default"
	default:
		finding.Value = version + " has ECS_CLUSTER=" + name
	}
	return []Finding{finding}
}

// hasJoined reports whether a machine of the group is in one of the clusters that use the group.
func (f *Facts) hasJoined(u GroupUse, g *Group) bool {
	registered := f.registeredIn()
	return slices.ContainsFunc(g.Instances, func(m Member) bool {
		return slices.Contains(u.Clusters,
			registered[m.ID])
	})
}

// registeredIn returns the cluster of each EC2 instance that ECS has.
func (f *Facts) registeredIn() map[string]string {
	out := map[string]string{}
	for _, c := range f.Clusters.Got {
		for _, i := range c.ECS.Got.Instances {
			out[i.EC2] = c.Name
		}
	}
	return out
}

// agentPolicy ends the ARN of AWS's policy for the agent.
const agentPolicy = "/AmazonEC2ContainerServiceforEC2Role"

// agentActions are what the agent needs to join and to report tasks (the same policy).
var agentActions = []string{"ecs:DiscoverPollEndpoint", "ecs:Poll", "ecs:RegisterContainerInstance",
	"ecs:SubmitContainerStateChange", "ecs:SubmitTaskStateChange"}

// judgeProfile judges the instance profile: without a role that allows the agent's calls, machines
// never join.
func (f *Facts) judgeProfile(thing string, t *Template) []Finding {
	version := fmt.Sprintf("version %s of launch template %s", t.Version, t.Name)
	if t.Profile == "" {
		return []Finding{{Verdict: Fail, Thing: thing, Value: version + " has no instance profile",
			Expected: "one with a role that lets the agent call ECS",
			Remedy:   "Make a version with it (NODE is your instance profile), and let the group use that version",
			Command: f.aws("ec2 create-launch-template-version --launch-template-name %s --source-version %s "+
				`--launch-template-data '{"IamInstanceProfile": {"Name": "NODE"}}'`, t.Name, t.Version)}}
	}
	if t.Roles.Err == ErrMissing {
		return []Finding{{Verdict: Fail, Thing: thing, Value: "instance profile " + t.Profile + " does not exist",
			Expected: "the instance profile of " + version, Remedy: "Make it, and add the role",
			Command: f.aws("iam create-instance-profile --instance-profile-name %s", t.Profile[strings.LastIndexByte(
				t.Profile, '/')+1:])}}
	}
	if t.Roles.Err != nil {
		return []Finding{notChecked("the instance profile of "+thing, t.Roles.Err)}
	}
	if len(t.Roles.Got) == 0 {
		return []Finding{{Verdict: Fail, Thing: thing, Value: "instance profile " + t.Profile + " has no role",
			Expected: "a role that lets the agent call ECS", Remedy: "Add a role (NODE is its name)",
			Command: f.aws("iam add-role-to-instance-profile --instance-profile-name %s --role-name NODE",
				t.Profile[strings.LastIndexByte(t.Profile, '/')+1:])}}
	}
	role := t.Roles.Got[0]
	if role.Role.Err != nil {
		return []Finding{notChecked("role "+role.Name+" of "+thing, role.Role.Err)}
	}
	if slices.ContainsFunc(role.Role.Got.Managed, func(arn string) bool {
		return strings.HasSuffix(arn,
			agentPolicy)
	}) {
		return nil
	}
	missing := role.Role.Got.missingGrants([]Statement{{Effect: "Allow", Action: agentActions, Resource: Texts{"*"}}})
	if len(missing) == 0 {
		return nil
	}
	partition, _, _, _ := f.Stack.place()
	return []Finding{{Verdict: Fail, Thing: thing,
		Value:    "role " + role.Name + " does not allow " + strings.Join(missing, "; "),
		Expected: "AWS's policy AmazonEC2ContainerServiceforEC2Role", Remedy: "Attach it",
		Command: f.aws("iam attach-role-policy --role-name %s --policy-arn arn:%s:iam::aws:policy/service-role%s",
			role.Name, cmp.Or(partition, "aws"), agentPolicy)}}
}

// checkMachines finds machines that are in service and have not joined, and those that have joined
// another cluster.
func checkMachines(f *Facts) Check {
	var found []Finding
	registered, machines := f.registeredIn(), 0
	for _, u := range GroupUses(f.Clusters.Got) {
		g := f.Groups[u.Group]
		if g.Err != nil {
			continue // checkGroups says so
		}
		machines += len(g.Got.Instances)
		found = append(found, f.judgeMembers(u, &g.Got, registered)...)
	}
	return newCheck("", countOf(machines, "machine")+" of the groups", found...)
}

func (f *Facts) judgeMembers(u GroupUse, g *Group, registered map[string]string) (found []Finding) {
	for _, c := range f.Clusters.Got {
		if slices.Contains(u.Clusters, c.Name) && c.ECS.Err != nil {
			return []Finding{notChecked("the machines of group "+u.Group, c.ECS.Err)}
		}
	}
	var absent, elsewhere, unknown []string
	for _, m := range g.Instances {
		in, joined := registered[m.ID]
		switch {
		case m.Lifecycle != "InService":
		case joined && !slices.Contains(u.Clusters, in):
			elsewhere = append(elsewhere, m.ID+" in "+in)
		case joined:
		case m.LaunchedAt.IsZero():
			unknown = append(unknown, m.ID)
		case f.Now.Sub(m.LaunchedAt) > f.JoinWithin:
			absent = append(absent, m.ID)
		}
	}
	thing := fmt.Sprintf("group %s of %s", u.Group, u.By)
	if len(unknown) > 0 {
		found = append(found, notChecked(listNames(unknown)+" of "+thing+", which have not joined",
			&Denied{Action: "ec2:DescribeInstances"}))
	}
	if len(elsewhere) > 0 {
		found = append(found, Finding{Verdict: Fail, Thing: thing,
			Value:    "machines in another cluster: " + listNames(elsewhere),
			Expected: strings.Join(u.Clusters, " or "),
			Remedy:   "Correct ECS_CLUSTER in the launch template, and replace them",
			Command:  f.aws("autoscaling start-instance-refresh --auto-scaling-group-name %s", g.Name)})
	}
	if len(absent) > 0 {
		found = append(found, Finding{Verdict: Fail, Thing: thing,
			Value:    "in service, and in no cluster that Berth manages: " + listNames(absent),
			Expected: "registered within " + f.JoinWithin.String() + " of the launch",
			Remedy: "If ECS_CLUSTER and the role are well, read what the machine has printed: user data that " +
				"has failed, no way out to ECS, an image without the agent, a wrong clock (docs/joining.md)",
			Command: f.aws("ec2 get-console-output --latest --output text --instance-id %s", absent[0])})
	}
	return found
}
