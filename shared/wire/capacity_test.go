package wire_test

import (
	"encoding/json"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

func TestDescribeCapacity(t *testing.T) {
	b := newBerth(t)
	b.scheduler.capacity = []state.Row{
		&cluster.CapacityProvider{Head: cluster.Head{Cluster: state.Directory, Rev: 1}, Name: "spot", Group: "group", Scaling: cluster.DefaultScaling},
		&cluster.NodeGroup{Head: cluster.Head{Cluster: "prod", Rev: 1}, Name: "web", AutoScalingGroup: "group"},
	}
	status, out := b.own(t, "DescribeCapacity", `{"cluster":"prod"}`)
	expect(t, "status", status, 200)
	var got []state.Row
	for _, r := range out["rows"].([]any) {
		row, err := state.DecodeRow(r.(map[string]any)["sort"].(string), must(json.Marshal(r.(map[string]any)["row"]))(t))
		expect(t, "decoding", err, nil)
		got = append(got, row)
	}
	expect(t, "provider", got[0].(*cluster.CapacityProvider).Scaling, cluster.DefaultScaling)
	expect(t, "node group", got[1].(*cluster.NodeGroup).AutoScalingGroup, "group")
	expect(t, "disconnect timeout", out["lostAfterSeconds"], any(90.0))
	expect(t, "time", out["at"], any(noon.Format(time.RFC3339Nano)))
	_, out = b.own(t, "DescribeCapacity", `{"cluster":"nothing"}`)
	expect(t, "no such cluster", out["__type"], any("ClusterNotFoundException"))
}

func TestPlanNodegroupUpdate(t *testing.T) {
	n := newNodeGroups()
	b := newBerth(t, withNodeGroups(n))
	_, out := b.own(t, "PlanNodegroupUpdate", `{"cluster":"prod","nodegroupName":"web","releaseVersion":"ami-2","force":true,"clientRequestToken":"t"}`)
	n.version.Params = ""
	expect(t, "asked", n.version, operation.UpdateNodeGroupVersion{
		Cluster: "prod", NodeGroup: "web", ReleaseVersion: "ami-2", Force: true, DryRun: true, Token: "t",
	})
	row := out["update"].(map[string]any)
	update, err := state.DecodeRow(row["sort"].(string), must(json.Marshal(row["row"]))(t))
	expect(t, "decoding", err, nil)
	expect(t, "update", update.(*cluster.Update).ID, updateID)
	for body, name := range map[string]string{`{"nodegroupName":"web"}`: cluster.DefaultName,
		`{"cluster":"` + account.ARN("cluster", "prod") + `","nodegroupName":"web"}`: "prod"} {
		b.own(t, "PlanNodegroupUpdate", body)
		expect(t, body, n.version.Cluster, name)
	}
	_, out = b.own(t, "PlanNodegroupUpdate", `{"cluster":"prod","nodegroupName":"no spaces"}`)
	expect(t, "bad name", out["__type"], any("InvalidParameterException"))
	_, out = newBerth(t).own(t, "PlanNodegroupUpdate", `{}`)
	expect(t, "without node groups", out["__type"], any("UnknownOperationException"))
}
