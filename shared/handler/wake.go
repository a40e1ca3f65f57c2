package handler

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

// WakeUp is the message that wakes a function for one cluster: dispatch when something is due, and
// the functions that dispatch wakes when something has changed that they wait for. Without
// a cluster it wakes managed scaling for the capacity providers themselves.
type WakeUp struct {
	Cluster string    `json:"cluster"`
	Cause   WakeCause `json:"cause,omitempty"`
}

// A WakeCause is what a function was woken for. The function decides from what is there now, so
// a cause that no longer holds does no harm.
type WakeCause string

// The causes.
const (
	// WakeChange is a change made by the API, or that something is due.
	WakeChange WakeCause = ""
	// WakeInstance is an instance that has registered, is available again, is draining, has lost
	// a task while draining, or has left the cluster.
	WakeInstance WakeCause = "instance"
	// WakeWaiting is a task that has begun to wait for an instance.
	WakeWaiting WakeCause = "waiting"
	// WakeService is a service that has as many healthy tasks as it should again.
	WakeService WakeCause = "service"
	// WakeRoom is a task that has ended, on any instance.
	WakeRoom WakeCause = "room"
	// WakeDue is a time that has come: the end of what blocked a scale-out, or of a wait of an update.
	WakeDue WakeCause = "due"
)

// ParseWakeUp reads a wake-up; false for any other message. Events of EventBridge have
// a detail-type.
func ParseWakeUp(body []byte) (w WakeUp, ok bool) {
	var m struct {
		Cluster    *string   `json:"cluster"`
		Cause      WakeCause `json:"cause"`
		DetailType string    `json:"detail-type"`
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Cluster == nil || m.DetailType != "" {
		return WakeUp{}, false
	}
	return WakeUp{*m.Cluster, m.Cause}, true
}

// SendWakeUp sends a wake-up, and reports whether that worked. A failure is logged and nothing else:
// the function's schedule finds the same work a minute later. A nil queue wakes no function.
func SendWakeUp(ctx context.Context, q Queue, log *slog.Logger, w WakeUp, delay time.Duration) (sent bool) {
	if q == nil {
		return false
	}
	body, err := json.Marshal(w)
	if err == nil {
		err = q.Send(ctx, body, delay)
	}
	if err != nil {
		Logger(log).Error("sending a wake-up", "cluster", w.Cluster, "cause", w.Cause, "error", err)
	}
	return err == nil
}

// WokenCluster returns the cluster of a wake-up; false for any other message.
func WokenCluster(body []byte) (name string, ok bool) {
	w, ok := ParseWakeUp(body)
	return w.Cluster, ok
}
