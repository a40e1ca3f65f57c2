package nodegroupupgrade

import (
	"context"
	"errors"
	"fmt"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// HandleMessages handles wake-ups, and events of instances that came into service in an Auto
// Scaling group or were terminated there. It reconciles each cluster that they name once, and
// returns the ids of messages to deliver again. A message only says that something may have
// changed.
func (h *Handler) HandleMessages(ctx context.Context, messages []state.Message) (retry []string) {
	h.Telemetry.AddCount(handler.EventsHandled, len(messages))
	woken := map[string]error{}
	for _, m := range messages {
		name, err := h.clusterOf(ctx, m.Body)
		var drop *cluster.Drop
		switch {
		case errors.As(err, &drop):
			h.Telemetry.CountDropped(handler.DropKind(drop.Reason))
			handler.Logger(h.Log).Warn("dropped message", "message", m.ID, "reason", drop.Reason)
			continue
		case err == nil && name == "":
			continue
		case err == nil:
			if _, done := woken[name]; !done {
				woken[name] = h.reconcileCluster(ctx, name)
			}
			err = woken[name]
		}
		if err != nil {
			handler.Logger(h.Log).Error("reconciling node groups", "cluster", name, "error", err)
			retry = append(retry, m.ID)
		}
	}
	return retry
}

// clusterOf returns the cluster that a message wakes the function for: the one that it names, or
// that of the node group whose Auto Scaling group it names. It is empty if no node group has that.
func (h *Handler) clusterOf(ctx context.Context, body []byte) (string, error) {
	if name, ok := handler.WokenCluster(body); ok {
		if name == "" {
			return "", &cluster.Drop{Reason: "wake-up without a cluster"}
		}
		return name, nil
	}
	e, err := h.Decoder.Decode(body)
	if err != nil {
		return "", err
	}
	member, ok := e.Detail.(*awsevent.GroupMember)
	if !ok {
		return "", &cluster.Drop{Reason: fmt.Sprintf("unhandled event %q from %q", e.DetailType, e.Source)}
	}
	use, err := handler.ReadGroupUse(ctx, h.State, member.Group)
	if err != nil {
		return "", err
	}
	return use.NodeGroup.Cluster, nil
}
