package console_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"berth/shared/cluster"
	"berth/shared/state"
)

// The page of capacity shows the nodes of an update in the order in which they are replaced, and what
// each waits for since when.
func TestUpgradePage(t *testing.T) {
	store := newStore(t, 5)
	u := upgrade(store)
	server, _ := site(t, store.source, "")
	_, page := get(t, server, "/console/capacity")
	contains(t, page, "Upgrade of workers", "1 node of the new kind", "tasks to leave i-2", "since 2026-11-21 11:00:00",
		`<td class="number">1</td><td class="id"><a href="/console/instance/n-2?cluster=prod">i-00000000000000002</a></td>`)
	if n := strings.Count(page, "waits for its turn"); n != 3 {
		t.Errorf("%d nodes wait for their turn, want 3", n)
	}
	u.Removals[0].StepSince = time.Time{}
	store.write(t, newTask(fmt.Sprintf("%032x", 7), "n-1"))
	_, page = get(t, server, "/console/capacity")
	if strings.Contains(page, "since </span>") || strings.Contains(page, "since 0001") {
		t.Error("a wait without a beginning has a since")
	}
}

// A node group that could not be created says why.
func TestFailedCreationOnThePage(t *testing.T) {
	store := newStore(t, 1)
	store.source.CapacityRows = func(context.Context, string) ([]state.Row, error) {
		return []state.Row{&cluster.NodeGroup{Head: cluster.Head{Cluster: "prod", Rev: 1}, Name: "workers",
			Status: cluster.NodeGroupCreateFailed, Issues: []cluster.NodeGroupIssue{{Code: cluster.IssueGroupNotFound,
				Message: "There is no Auto Scaling group x"}}}}, nil
	}
	server, _ := site(t, store.source, "")
	_, page := get(t, server, "/console/capacity")
	contains(t, page, "CREATE_FAILED", "AutoScalingGroupNotFound: There is no Auto Scaling group x")
}

// An update of sizes that failed is shown before the nodes' update, which came earlier.
func TestFailedConfigurationOnThePage(t *testing.T) {
	store, head := newStore(t, 1), cluster.Head{Cluster: "prod", Rev: 1}
	store.source.CapacityRows = func(context.Context, string) ([]state.Row, error) {
		return []state.Row{&cluster.NodeGroup{Head: head, Name: "workers", Status: cluster.NodeGroupActive, Update: "u-1",
			FailedConfigUpdate: "u-2"},
			&cluster.Update{Head: head, NodeGroup: "workers", ID: "u-2", Type: cluster.UpdateConfiguration,
				Status: cluster.UpdateFailed, Errors: []cluster.UpdateError{{Code: cluster.OperationNotPermitted,
					Message: "desired capacity 5 can't be greater than max size 4"}}},
			&cluster.Update{Head: head, NodeGroup: "workers", ID: "u-1", Type: cluster.UpdateVersion,
				Status: cluster.UpdateSuccessful}}, nil
	}
	server, _ := site(t, store.source, "")
	_, page := get(t, server, "/console/capacity")
	contains(t, page, "<td>Failed</td>", "OperationNotPermitted: desired capacity 5 can&#39;t be greater than max size 4")
}

// upgrade lets the cluster of five instances or more have a node group of the first five, in whose
// update the third node is drained.
func upgrade(store *testStore) *cluster.Update {
	const old, next = "lt-1:1", "lt-1:2"
	group := &cluster.AutoScalingGroup{Name: "workers", Max: 9, Desired: 5, Template: next}
	for k := range 5 {
		template := old
		if k == 4 {
			template = next
		}
		group.Instances = append(group.Instances, cluster.GroupInstance{ID: fmt.Sprintf("i-%017x", k),
			Zone: "us-east-1a", Lifecycle: "InService", Template: template})
	}
	head := cluster.Head{Cluster: "prod", Rev: 1}
	u := &cluster.Update{Head: head, NodeGroup: "workers", ID: "u-1", Status: cluster.UpdateInProgress}
	u.Phase, u.WaitingFor, u.Template = "upgrade", "tasks to leave i-2", next
	u.Removals = []cluster.NodeRemoval{{Instance: group.Instances[2].ID, Node: "n-2", Step: cluster.StepDrain,
		StepSince: noon.Add(-time.Hour)}}
	store.source.CapacityRows = func(context.Context, string) ([]state.Row, error) {
		return []state.Row{&cluster.NodeGroup{Head: head, Name: "workers", AutoScalingGroup: "workers", Update: "u-1",
			Status: cluster.NodeGroupUpdating}, u}, nil
	}
	store.source.Groups = func(context.Context, []string) ([]*cluster.AutoScalingGroup, error) {
		return []*cluster.AutoScalingGroup{group}, nil
	}
	return u
}
