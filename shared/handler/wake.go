package handler

import (
	"context"
	"encoding/json"
	"log/slog"
)

// WakeUp is the message that wakes a function for one cluster: dispatch when something is due,
// managed scaling when capacity providers have changed. Without a cluster it wakes managed scaling
// for the providers themselves.
type WakeUp struct {
	Cluster string `json:"cluster"`
}

// WakeNow sends a wake-up. A failure is logged and nothing else: the function's schedule finds the
// same work a minute later. A nil queue wakes no function.
func WakeNow(ctx context.Context, q Queue, log *slog.Logger, clusterName string) {
	if q == nil {
		return
	}
	body, err := json.Marshal(WakeUp{Cluster: clusterName})
	if err == nil {
		err = q.Send(ctx, body, 0)
	}
	if err != nil {
		Logger(log).Error("sending a wake-up", "cluster", clusterName, "error", err)
	}
}
