package nodegroupupgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// HandleMessages handles wake-ups, and events of instances that came into service in an Auto
// Scaling group or were terminated there. It reconciles each cluster that they name once, and
// returns the ids of messages to deliver again. A message only says that something may have
// changed.
//
// Events that come within a second of the last look ask for one more look, at the end of that
// second, by a due row. Wake-ups are spaced by dispatch, which sends them.
func (h *Handler) HandleMessages(ctx context.Context, messages []state.Message) (retry []string) {
	h.Telemetry.AddCount(handler.EventsHandled, len(messages))
	woken, uses := map[string]error{}, map[string]cluster.NodeGroupRef{}
	for _, m := range messages {
		name, group, err := h.subjectOf(ctx, m.Body, uses)
		var drop *cluster.Drop
		switch {
		case errors.As(err, &drop):
			h.Telemetry.CountDropped(handler.DropKind(drop.Reason))
			handler.Logger(h.Log).Warn("dropped message", "message", m.ID, "reason", drop.Reason)
			continue
		case err == nil && name == "":
			continue
		case err == nil:
			_, done := woken[name]
			if deferred, failed := h.deferLook(ctx, name, group, done); deferred {
				err = failed
				break
			}
			if !done {
				h.looks.Begin(name, h.Clock.Now())
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

// deferLook writes a due row for the look that an event of a node group asks for, if this
// environment has looked at the cluster just now. done reports that it did so for a message of the
// same batch, which was there before that look.
func (h *Handler) deferLook(ctx context.Context, name, group string, done bool) (deferred bool, err error) {
	if group == "" || done {
		return false, nil
	}
	g := &cluster.NodeGroup{Head: cluster.Head{Cluster: name}, Name: group}
	return h.looks.Defer(name, h.Clock.Now(),
		func(at time.Time) error { return writeDue(ctx, h.State, h.Clock, g, at) })
}

// subjectOf returns the cluster that a message wakes the function for: the one that it names, or
// that of the node group whose Auto Scaling group it names, with that node group. Both are empty if
// no node group has that. uses are the node groups of the Auto Scaling groups that were read
// before.
func (h *Handler) subjectOf(
	ctx context.Context, body []byte, uses map[string]cluster.NodeGroupRef,
) (name, group string, err error) {
	if name, ok := handler.WokenCluster(body); ok {
		if name == "" {
			return "", "", &cluster.Drop{Reason: "wake-up without a cluster"}
		}
		return name, "", nil
	}
	e, err := h.Decoder.Decode(body)
	if err != nil {
		return "", "", err
	}
	member, ok := e.Detail.(*awsevent.GroupMember)
	if !ok {
		return "", "", &cluster.Drop{Reason: fmt.Sprintf("unhandled event %q from %q", e.DetailType, e.Source)}
	}
	ref, known := uses[member.Group]
	if !known {
		use, err := handler.ReadGroupUse(ctx, h.State, member.Group)
		if err != nil {
			return "", "", err
		}
		ref = use.NodeGroup
		uses[member.Group] = ref
	}
	return ref.Cluster, ref.Name, nil
}
