package installation_test

import (
	"testing"
	"time"

	"berth/shared/operation"
	"berth/shared/sim/ec2"
)

// Instances that register at the same time wake managed-scaling and node-group-upgrade a few times,
// however many they are: a wake-up says only that something has changed.
func TestInstancesThatRegisterTogetherWakeOnce(t *testing.T) {
	for _, n := range []int{10, 100, 1000} {
		i := scaled(t, nil)
		if _, err := i.API.NodeGroups.CreateNodeGroup(t.Context(), operation.CreateNodeGroup{
			Cluster: home, Name: "nodes", AutoScalingGroup: "group", Params: "p"}); err != nil {
			t.Fatal(err)
		}
		run(i, 70*time.Second)
		before := i.Runtime.Counters()
		if _, err := i.EnsureCluster(t.Context(), home, n, ec2.Machine{Type: "m5.large"}); err != nil {
			t.Fatal(err)
		}
		run(i, 30*time.Second) // less than until the next schedule
		after := i.Runtime.Counters()
		sent := func(queue string) int { return after.Queues[queue].Sends - before.Queues[queue].Sends }
		invoked := func(function string) int {
			return after.Functions[function].Invocations - before.Functions[function].Invocations
		}
		t.Logf("%d instances: %d wake-ups of managed-scaling, %d of node-group-upgrade; %d and %d invocations, %d of "+
			"placement and %d of dispatch", n, sent("ManagedScalingQueue"), sent("NodeGroupUpgradeQueue"),
			invoked("managed-scaling"), invoked("node-group-upgrade"), invoked("placement"), invoked("dispatch"))
		for _, queue := range []string{"ManagedScalingQueue", "NodeGroupUpgradeQueue"} {
			if got := sent(queue); got < 1 || got > 4 {
				t.Errorf("%d instances send %d messages to %s, want 1 to 4", n, got, queue)
			}
		}
	}
}
