package template

import (
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"berth"
)

// grant is one statement of a role's policy.
type grant struct {
	role, sid string
	actions   []string
	resources []*yaml.Node
	condition string // as text
}

// grants returns the statements of every role and managed policy of a template that allow
// something.
func grants(t *testing.T, text string) (all []grant) {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	resources := memberOf(doc.Content[0], "Resources")
	for i := 0; i+1 < len(resources.Content); i += 2 {
		kind := memberOf(resources.Content[i+1], "Type").Value
		if kind == "AWS::IAM::Role" || kind == "AWS::IAM::ManagedPolicy" {
			all = append(all, statements(t, resources.Content[i].Value,
				memberOf(resources.Content[i+1], "Properties"))...)
		}
	}
	return all
}

func statements(t *testing.T, role string, n *yaml.Node) (all []grant) {
	t.Helper()
	if n == nil {
		return nil
	}
	if action, sid := memberOf(n, "Action"), memberOf(n, "Sid"); action != nil && sid != nil &&
		memberOf(n, "Effect").Value == "Allow" {
		g := grant{role: role, sid: sid.Value, resources: contentOf(memberOf(n, "Resource"))}
		for _, a := range contentOf(action) {
			g.actions = append(g.actions, a.Value)
		}
		if c := memberOf(n, "Condition"); c != nil {
			text, err := yaml.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			g.condition = string(text)
		}
		return []grant{g}
	}
	for _, below := range n.Content {
		all = append(all, statements(t, role, below)...)
	}
	return all
}

// wildcards lists the statements about resources whose ARNs contain *. Each has its reason beside
// it in template.yaml, at a resource or at the condition that limits it. Avoid adding one.
var wildcards = []string{
	"ApiRole.Networks", "ApiRole.PassThrough", "ApiRole.PassThroughUnscoped",
	"DispatchRole.ClassicLoadBalancers", "DispatchRole.CloudMap", "DispatchRole.CloudMapInRoute53",
	"DispatchRole.DescribeGroups",
	"DispatchRole.DescribeTargetGroups", "DispatchRole.ListTasks", "DispatchRole.Protect",
	"DispatchRole.Stream", "DispatchRole.TagTasks", "DispatchRole.TargetGroups", "DispatchRole.Tasks",
	"HealthCheckRole.CloudMap", "HealthCheckRole.DescribeTasks", "HealthCheckRole.Look",
	"ManagedScalingRole.Alarms", "ManagedScalingRole.Describe", "ManagedScalingRole.Groups",
	"ManagedScalingRole.Instances", "ManagedScalingRole.ListTasks", "ManagedScalingRole.Metric",
	"ManagedScalingRole.TagGroups",
	"NodeGroupUpgradeRole.DeleteTemplates",
	"NodeGroupUpgradeRole.Describe", "NodeGroupUpgradeRole.Groups", "NodeGroupUpgradeRole.InstanceProfiles",
	"NodeGroupUpgradeRole.Instances",
	"NodeGroupUpgradeRole.LaunchByTemplate", "NodeGroupUpgradeRole.ListTasks",
	"NodeGroupUpgradeRole.MakeGroups", "NodeGroupUpgradeRole.MakeTemplates",
	"NodeGroupUpgradeRole.PublicImageParameters", "NodeGroupUpgradeRole.TagByTemplate",
	"NodeGroupUpgradeRole.TagTemplates", "NodeGroupUpgradeRole.Templates",
	"PlacementRole.Stream",
	"TaskStateChangeRole.DeleteTaskDefinitions", "TaskStateChangeRole.DeregisterTaskDefinitions",
	"TaskStateChangeRole.ListTasks", "TaskStateChangeRole.Look",
}

func TestEveryWildcardIsListedAndHasAReason(t *testing.T) {
	var found []string
	for _, g := range grants(t, berth.Template) {
		hasWildcard, hasReason := false, strings.Contains(g.condition, "#")
		for _, r := range g.resources {
			hasWildcard = hasWildcard || strings.Contains(r.Value, "*")
			hasReason = hasReason || r.LineComment != ""
		}
		if hasWildcard {
			found = append(found, g.role+"."+g.sid)
		}
		if hasWildcard && !hasReason {
			t.Errorf("%s.%s has a wildcard and does not say why", g.role, g.sid)
		}
		for _, a := range g.actions {
			if strings.Contains(a, "*") {
				t.Errorf("%s.%s allows %s, want every action by its name", g.role, g.sid, a)
			}
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, wildcards) {
		t.Errorf("statements with wildcards:\n got %q\nwant %q", found, wildcards)
	}
}

// An Auto Scaling group changes only if its owner has given it Berth's tag, and no role may give it
// that tag.
func TestOnlyTaggedGroupsMayChange(t *testing.T) {
	changes := 0
	for _, g := range grants(t, berth.Template) {
		for _, a := range g.actions {
			operation, ok := strings.CutPrefix(a, "autoscaling:")
			if !ok || strings.HasPrefix(operation, "Describe") {
				continue
			}
			changes++
			// To create a group with tags is to tag it.
			if operation == "CreateAutoScalingGroup" ||
				operation == "CreateOrUpdateTags" && slices.Contains(g.actions, "autoscaling:CreateAutoScalingGroup") {
				checkOwnGroups(t, g)
				continue
			}
			if !strings.Contains(g.condition, "aws:ResourceTag/berth:installation") ||
				!strings.Contains(g.condition, "StringEquals") {
				t.Errorf("%s.%s allows %s on groups without the tag: %q", g.role, g.sid, a, g.condition)
			}
			tags := operation == "CreateOrUpdateTags" || operation == "DeleteTags"
			if tags && (!strings.Contains(g.condition, "AmazonECSManaged") ||
				strings.Count(g.condition, "berth:installation") != 1) {
				t.Errorf("%s.%s may set other tags than AmazonECSManaged: %q", g.role, g.sid, g.condition)
			}
		}
	}
	if changes < 10 {
		t.Errorf("%d actions that change groups were found", changes)
	}
}

// checkOwnGroups holds a role that may create Auto Scaling groups to names of the installation's
// own, and to groups that have Berth's tag from the beginning.
func checkOwnGroups(t *testing.T, g grant) {
	t.Helper()
	for _, r := range g.resources {
		if !strings.HasSuffix(r.Value, ":autoScalingGroupName/berth-${AWS::StackName}-*") {
			t.Errorf("%s.%s may create %s, want groups called berth-INSTALLATION-* only", g.role, g.sid, r.Value)
		}
	}
	if !strings.Contains(g.condition, "aws:RequestTag/berth:installation") {
		t.Errorf("%s.%s may create groups without the tag: %q", g.role, g.sid, g.condition)
	}
}

// The policy for callers lets nobody make up an event: what invokes the function must have come
// through its URL.
func TestCallersInvokeThroughTheURLOnly(t *testing.T) {
	for _, g := range grants(t, berth.Template) {
		if g.role == "CallerPolicy" && slices.Contains(g.actions, "lambda:InvokeFunction") {
			if !strings.Contains(g.condition, "lambda:InvokedViaFunctionUrl") {
				t.Errorf("CallerPolicy.%s has the condition %q", g.sid, g.condition)
			}
			return
		}
	}
	t.Error("CallerPolicy does not allow lambda:InvokeFunction, which function URLs need")
}
