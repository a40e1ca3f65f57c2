package e2e

import (
	"testing"

	"berth/tests/cloud"
)

func TestZZ(t *testing.T) {
	c, lost := &calls{}, &losses{}
	l := newLocal(t, func(o *cloud.Options) {
		o.Tap = &cloud.Tap{Before: lost.before, After: c.add, Lose: lost.next}
		o.Parameters["RecheckSeconds"], o.Parameters["ThrottleLadderSeconds"] = "1", "1,3"
	})
	t.Run("Capacity", func(t *testing.T) { runCapacityScenario(t, l) })
	t.Run("NodeGroup", func(t *testing.T) {
		runNodeGroupScenario(t, l, func(_ *capacity, spoilt bool) string {
			operation := ""
			if spoilt {
				operation = "UpdateContainerInstancesState"
			}
			lost.refuse(operation, l.Caller)
			return "AccessDenied"
		})
	})
	used := l.samples(c.since(0))
	for _, g := range sortedGrants(used) {
		if g.function == "managed-scaling" || g.function == "node-group-upgrade" {
			t.Log(g)
		}
	}
}
