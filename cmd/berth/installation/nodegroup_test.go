package installation_test

import (
	"testing"
	"time"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// wakeWithin is how long after a call of the API node-group-upgrade has acted on it, if nothing is
// lost. The schedule would take up to a minute.
const wakeWithin = 3 * time.Second

// awaitWithin lets time pass until the condition holds, and fails the test if that takes too long.
func awaitWithin(t *testing.T, i *installation.Installation, what string, is func() bool) {
	t.Helper()
	for began := i.Loop.Now(); !is(); run(i, 100*time.Millisecond) {
		if took := i.Loop.Now().Sub(began); took > wakeWithin {
			t.Fatalf("not within %s: %s", wakeWithin, what)
		}
	}
}

// A call of the API wakes node-group-upgrade through the stream: a node group is ACTIVE, changed
// and deleted within seconds. Six calls in a row cannot all come just before the schedule.
func TestNodeGroupsAreWoken(t *testing.T) {
	i := scaled(t, nil)
	run(i, 10*time.Second)
	read := func(key state.Key) state.Row {
		row, err := i.Store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	status := func() cluster.NodeGroupStatus {
		g, _ := read(state.NodeGroupKey(home, "nodes")).(*cluster.NodeGroup)
		if g == nil {
			return ""
		}
		return g.Status
	}
	nodeGroups := i.API.NodeGroups
	for size := 5; size < 7; size++ {
		if _, err := nodeGroups.CreateNodeGroup(t.Context(), operation.CreateNodeGroup{
			Cluster: home, Name: "nodes", AutoScalingGroup: "group", Params: "p"}); err != nil {
			t.Fatal(err)
		}
		awaitWithin(t, i, "it is ACTIVE", func() bool { return status() == cluster.NodeGroupActive })
		u, err := nodeGroups.UpdateNodeGroupConfig(t.Context(), operation.UpdateNodeGroupConfig{
			Cluster: home, NodeGroup: "nodes", Sizes: &cluster.SizesChange{Max: &size}, Params: "p"})
		if err != nil {
			t.Fatal(err)
		}
		awaitWithin(t, i, "its sizes are changed", func() bool {
			row, _ := read(state.UpdateKey(home, "nodes", u.ID)).(*cluster.Update)
			return row.Status == cluster.UpdateSuccessful && group(t, i).Max == size
		})
		if _, err := nodeGroups.DeleteNodeGroup(t.Context(), home, "nodes"); err != nil {
			t.Fatal(err)
		}
		awaitWithin(t, i, "it is deleted", func() bool { return status() == "" })
	}
}
