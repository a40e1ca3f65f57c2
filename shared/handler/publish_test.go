package handler_test

import (
	"encoding/json"
	"testing"

	"berth/shared/cluster"
	"berth/shared/handler"
)

// The eventTypes are ECS's (section "Service action events" of the ECS Developer Guide).
func TestPlacement_PublishesUnderECSsTypes(t *testing.T) {
	w := newWorld(t, func(s *handler.Settings) { s.PublishEvents = true })
	w.instances("i", 2, 4096, 8192)
	w.createAs(cluster.ServiceSpec{
		Cluster: prod, Name: "log", TaskDefinition: "web:1", Strategy: cluster.Daemon,
		Rules: cluster.Rules{Constraints: []cluster.PlacementConstraint{{Type: cluster.MemberOf, Expression: "attribute:disk !exists"}}},
	})
	w.pump()
	w.ecs.change("i000", func(i *cluster.Instance) {
		i.Attributes = map[string]string{cluster.AttributeZone: i.Zone(), "disk": "slow"}
	})
	w.pump()
	types := map[string]string{}
	for _, r := range w.changed {
		o, ok := r.New.(*cluster.Outbox)
		if !ok {
			continue
		}
		for _, e := range o.Publish {
			var detail struct{ EventType, EventName string }
			if err := json.Unmarshal([]byte(e.Detail), &detail); err != nil {
				t.Fatal(err)
			}
			types[detail.EventName] = e.DetailType + "/" + detail.EventType
		}
	}
	want(t, "constraint", types["SERVICE_DAEMON_PLACEMENT_CONSTRAINT_VIOLATED"], "ECS Service Action/ERROR")
	want(t, "desired count", types["SERVICE_DESIRED_COUNT_UPDATED"], "ECS Service Action/INFO")
}
