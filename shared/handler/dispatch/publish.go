package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"berth/shared/handler"
	"berth/shared/state"
)

// SourceService is the event source of Berth's service events. Only AWS may send events with the
// source aws.ecs.
const SourceService = "berth.ecs"

// publishEvents sends service events to the event bus in the shape of ECS's own (S12), and returns
// those to send again. An event that cannot be sent is logged and dropped. Without a bus all are
// dropped: the installation no longer wants them.
func publishEvents(ctx context.Context, r *round, events []state.PublishedEvent) (left []state.PublishedEvent) {
	if r.Bus == nil || len(events) == 0 {
		return nil
	}
	var bodies [][]byte
	of := map[string]state.PublishedEvent{}
	for _, e := range events {
		body, err := encodeEvent(r, e)
		if err != nil {
			handler.Logger(r.Log).Error("dropping a service event", "cluster", r.cluster, "service", e.Service, "error",
				err)
			continue
		}
		bodies, of[string(body)] = append(bodies, body), e
	}
	again, err := r.Bus.PutEvents(ctx, bodies)
	if err != nil {
		handler.Logger(r.Log).Error("publishing service events", "cluster", r.cluster, "left", len(again), "error", err)
	}
	for _, body := range again {
		left = append(left, of[string(body)])
	}
	if len(left) > 0 {
		r.retryIn(time.Second)
	}
	return left
}

// encodeEvent returns an event as EventBridge takes it. It adds the cluster's ARN where the detail
// lacks it.
func encodeEvent(r *round, e state.PublishedEvent) ([]byte, error) {
	detail := map[string]any{}
	if err := json.Unmarshal([]byte(e.Detail), &detail); err != nil {
		return nil, fmt.Errorf("reading the detail of an event: %w", err)
	}
	if detail["clusterArn"] == nil {
		detail["clusterArn"] = r.Account.ARN("cluster", r.cluster)
	}
	about := r.Account.ARN("service", r.cluster, e.Service)
	if arn, ok := detail["taskArn"].(string); ok {
		about = arn
	}
	return json.Marshal(map[string]any{
		"source": SourceService, "detail-type": e.DetailType, "time": e.At.UTC().Format(time.RFC3339),
		"account": r.Account.ID, "region": r.Account.Region, "resources": []string{about}, "detail": detail,
	})
}
