package wire_test

import (
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
		"LaunchTemplate": {role + `, "launchTemplate": {"id": "lt-1"}`,
			"launchTemplate is only supported with the tag"},
		"Custom": {role + `, "amiType": "CUSTOM"`, "CUSTOM is only supported with the tag"},
		"TypesOfTheirs": {role + `, "instanceTypes": ["m5.large"], "tags": {"berth:auto-scaling-group": "g"}`,
			"instanceTypes is not supported with the tag"},
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
		"diskSize": 50`).status, 200)
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
