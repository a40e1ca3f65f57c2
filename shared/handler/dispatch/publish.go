package dispatch

import (
	"encoding/json"
	"fmt"
	"time"

	"berth/shared/handler"
	"berth/shared/state"
)

// SourceService is the source of Berth's own service events on the event bus: nobody but AWS may send those of aws.ecs.
const SourceService = "berth.ecs"

// publish sends service events to the event bus (S12), each in the shape of ECS's own, and returns those to send again. What
// the bus refuses for good is logged and forgotten, as all of them are where no bus is wanted any more.
func (d *drainer) publish(events []state.PublishedEvent) (left []state.PublishedEvent) {
	if d.Bus == nil || len(events) == 0 {
		return nil
	}
	var bodies [][]byte
	of := map[string]state.PublishedEvent{}
	for _, e := range events {
		body, err := d.published(e)
		if err != nil {
			handler.Logger(d.Log).Error("dropped a service event", "cluster", d.cluster, "service", e.Service, "error", err)
			continue
		}
		bodies, of[string(body)] = append(bodies, body), e
	}
	again, err := d.Bus.Put(d.ctx, bodies)
	if err != nil {
		handler.Logger(d.Log).Error("publishing service events", "cluster", d.cluster, "left", len(again), "error", err)
	}
	for _, body := range again {
		left = append(left, of[string(body)])
	}
	if len(left) > 0 {
		d.again(time.Second)
	}
	return left
}

// published is an event as EventBridge delivers it. What the detail says of the cluster need not be in it yet.
func (d *drainer) published(e state.PublishedEvent) ([]byte, error) {
	detail := map[string]any{}
	if err := json.Unmarshal([]byte(e.Detail), &detail); err != nil {
		return nil, fmt.Errorf("reading the detail of an event: %w", err)
	}
	if detail["clusterArn"] == nil {
		detail["clusterArn"] = d.Account.ARN("cluster", d.cluster)
	}
	about := d.Account.ARN("service", d.cluster, e.Service)
	if arn, ok := detail["taskArn"].(string); ok {
		about = arn
	}
	return json.Marshal(map[string]any{
		"source": SourceService, "detail-type": e.DetailType, "time": e.At.UTC().Format(time.RFC3339),
		"account": d.Account.ID, "region": d.Account.Region, "resources": []string{about}, "detail": detail,
	})
}
