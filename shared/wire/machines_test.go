package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/shared/cluster"
)

// What a node group without an Auto Scaling group of the user's is made of is checked and passed
// on, and shown.
func TestEKS_Machines(t *testing.T) {
	n := newNodeGroups()
	b := newBerth(t, withNodeGroups(n))
	create := func(members string) eksAnswer {
		return call(t, b.mux, "POST", "/clusters/prod/node-groups", `{"nodegroupName": "made", "subnets": ["subnet-1"]`+
			members+`}`)
	}
	const role = `, "nodeRole": "arn:aws:iam::123456789012:role/path/nodes"`
	for name, c := range map[string]struct{ members, says string }{
		"Role":      {`, "nodeRole": "nodes"`, "must be the ARN of a role"},
		"Type":      {role + `, "instanceTypes": ["m5 large"]`, "is no instance type"},
		"TypeTwice": {role + `, "instanceTypes": ["m5.large", "m5.large"]`, "is there twice"},
		"TooManyTypes": {role + `, "instanceTypes": [` + strings.Repeat(`"m5.large",`, 20) + `"c5.large"]`,
			"at most 20"},
		"Disk": {role + `, "diskSize": 0`, "between 1 and 16384"},
		"DiskOfATemplate": {role + `, "launchTemplate": {"id": "lt-1"}, "diskSize": 50`,
			"Disk size must be specified within the launch template"},
		"Custom": {role + `, "amiType": "CUSTOM"`, "needs a launchTemplate that names the image"},
		"TypesOfTheirs": {role + `, "instanceTypes": ["m5.large"], "tags": {"berth:auto-scaling-group": "g"}`,
			"instanceTypes is not supported with the tag"},
		"Version":        {role + `, "version": "` + strings.Repeat("1", 256) + `"`, "version must have at most 255"},
		"ReleaseVersion": {role + `, "releaseVersion": "` + strings.Repeat("1", 256) + `"`, "releaseVersion must have"},
		"Token":          {role + `, "clientRequestToken": "` + strings.Repeat("1", 256) + `"`, "must have at most 255"},
		"RoleTooLong": {`, "nodeRole": "` + strings.Repeat("r", 2049) + `", "tags": {"berth:auto-scaling-group": "g"}`,
			"nodeRole must have at most 2048"},
		"MisspeltTag":  {role + `, "tags": {"berth:autoscaling-group": "g"}`, "has berth:auto-scaling-group alone"},
		"TagsCase":     {role + `, "tags": {"Berth:auto-scaling-group": "g"}`, "is not known here"},
		"AWSTag":       {role + `, "tags": {"aws:x": "y"}`, "starts with aws:, which is reserved"},
		"EmptyTag":     {role + `, "tags": {"": "y"}`, "must have 1 to 128 characters"},
		"TagValue":     {role + `, "tags": {"a": "` + strings.Repeat("x", 257) + `"}`, "more than 256 characters"},
		"TooManyTags":  {role + `, "tags": {` + manyTags(51) + `}`, "at most 50"},
		"RemoteAccess": {role + `, "remoteAccess": {}`, "remoteAccess is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			got := create(c.members)
			message, _ := got.body["message"].(string)
			if got.status != 400 || got.kind != "InvalidParameterException" || !strings.Contains(message, c.says) {
				t.Errorf("%+v, want %q", got, c.says)
			}
		})
	}
	expect(t, "made", len(n.groups), 0)
	expect(t, "status", create(role+`, "instanceTypes": ["m5.large"], "amiType": "AL2_ARM_64", "capacityType": "SPOT",
		"diskSize": 50, "tags": {`+manyTags(50)+`}`).status, 200)
	m := n.made
	if m.Machines == nil || m.AMIType != "AL2_ARM_64" || m.Machines.CapacityType != cluster.Spot ||
		m.Machines.DiskSize != 50 || len(m.Machines.InstanceTypes) != 1 || m.AutoScalingGroup != "" {
		t.Errorf("%+v", m)
	}
	n.groups["made"].Machines, n.groups["made"].Target.AMIType = m.Machines, m.AMIType
	got, _ := call(t, b.mux, "GET", "/clusters/prod/node-groups/made", "").body["nodegroup"].(map[string]any)
	for member, value := range map[string]any{"capacityType": "SPOT", "diskSize": 50.0, "amiType": "AL2_ARM_64",
		"instanceTypes": []any{"m5.large"}} {
		expect(t, member, got[member], value)
	}
}

// manyTags returns the members of n tags.
func manyTags(n int) string {
	tags := make([]string, n)
	for i := range tags {
		tags[i] = fmt.Sprintf(`"tag-%d": ""`, i)
	}
	return strings.Join(tags, ", ")
}

// A node group of the user's own launch template has the AMI type CUSTOM, and no disk size.
func TestEKS_MachinesOfALaunchTemplate(t *testing.T) {
	n := newNodeGroups()
	b := newBerth(t, withNodeGroups(n))
	expect(t, "status", call(t, b.mux, "POST", "/clusters/prod/node-groups", `{"nodegroupName": "made",
		"subnets": ["subnet-1"], "nodeRole": "arn:aws:iam::123456789012:role/nodes", "amiType": "CUSTOM",
		"launchTemplate": {"name": "own", "version": "2"}}`).status, 200)
	m := n.made
	if m.Machines == nil || m.AMIType != "CUSTOM" || m.Template == nil || m.Template.Name != "own" {
		t.Errorf("%+v", m)
	}
	n.groups["made"].Machines = &cluster.Machines{CapacityType: cluster.OnDemand}
	n.groups["made"].Target = cluster.UpdateTarget{AMIType: "CUSTOM", SourceTemplate: "lt-1", SourceName: "own",
		SourceVersion: "2"}
	got, _ := call(t, b.mux, "GET", "/clusters/prod/node-groups/made", "").body["nodegroup"].(map[string]any)
	expect(t, "amiType", got["amiType"], any("CUSTOM"))
	n.groups["made"].Target.AMIType = "" // the template was not read yet
	early, _ := call(t, b.mux, "GET", "/clusters/prod/node-groups/made", "").body["nodegroup"].(map[string]any)
	expect(t, "amiType before the template is read", early["amiType"], nil)
	expect(t, "diskSize", got["diskSize"], nil)
	expect(t, "instanceTypes", got["instanceTypes"], any([]any{}))
	expect(t, "launchTemplate", got["launchTemplate"], any(map[string]any{"id": "lt-1", "name": "own", "version": "2"}))
}
