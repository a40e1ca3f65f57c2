package managedscaling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// Handler is the managed-scaling function: its ports and settings.
type Handler struct {
	State   state.Store
	ECS     handler.ECS
	Hosts   handler.Hosts
	Groups  handler.AutoScaling
	Metrics handler.Metrics
	// Types may be nil: then the sizes of a group's instances are known once one has registered.
	Types    handler.InstanceTypes
	Clock    handler.Clock
	Settings handler.Settings
	Decoder  awsevent.Decoder
	Log      *slog.Logger
	// Telemetry counts what operators watch; nil counts nothing.
	Telemetry *handler.Telemetry

	rotation handler.Rotation
}

// RunSchedule examines the capacity providers, and then reconciles every cluster that has some, as
// far as the invocation's time goes. name must be "scaling".
func (h *Handler) RunSchedule(ctx context.Context, name string) error {
	if name != "scaling" {
		return &cluster.Drop{Reason: fmt.Sprintf("unknown schedule %q, expected scaling", name)}
	}
	err := h.checkProviders(ctx)
	var points []cluster.Datapoint
	err = errors.Join(err, h.rotation.ForEachCluster(ctx, h.State, h.Clock.Now, h.Log, func(name string) error {
		return h.reconcileCluster(ctx, name, false, &points)
	}))
	return errors.Join(err, h.publish(ctx, points))
}

// publish publishes the values of the metric of all clusters that were reconciled, in as few
// requests as possible, because CloudWatch charges for each.
func (h *Handler) publish(ctx context.Context, points []cluster.Datapoint) error {
	if len(points) == 0 {
		return nil
	}
	return cluster.Wrap(h.Metrics.PutScalingMetrics(ctx, points), "publishing the metrics")
}

// HandleMessages handles events of alarms, and of instances whose termination waits for the
// lifecycle hook, and wake-ups. It returns the ids of messages to deliver again. A message says
// only that its cluster must be reconciled before the minute is over: the decision is made from
// what is there.
func (h *Handler) HandleMessages(ctx context.Context, messages []state.Message) (retry []string) {
	h.Telemetry.AddCount(handler.EventsHandled, len(messages))
	subjects := map[string]bool{} // alarms that fired, groups with a termination
	woken := map[string]bool{}    // clusters; "" for the providers themselves. True if only between two looks
	var handled []string
	for _, m := range messages {
		if w, ok := handler.ParseWakeUp(m.Body); ok {
			before, known := woken[w.Cluster]
			woken[w.Cluster] = w.Cause != handler.WakeChange && (before || !known)
			handled = append(handled, m.ID)
			continue
		}
		name, err := h.eventSubject(m.Body)
		if err != nil {
			h.Telemetry.CountDropped(handler.DropKind(err.Reason))
			handler.Logger(h.Log).Warn("dropped event", "message", m.ID, "reason", err.Reason)
			continue
		}
		subjects[name] = true
		handled = append(handled, m.ID)
	}
	if len(handled) == 0 {
		return nil
	}
	if err := h.reconcileAffected(ctx, subjects, woken); err != nil {
		handler.Logger(h.Log).Error("scaling on an event", "error", err)
		return handled
	}
	return nil
}

// reconcileAffected reconciles the clusters that messages are about. New and changed providers are
// examined first, because a cluster's attachments wait for that.
//
// An alarm, a termination or a change of providers asks for the decision that each minute brings;
// other wake-ups for one between the looks of two minutes.
func (h *Handler) reconcileAffected(ctx context.Context, subjects, woken map[string]bool) (err error) {
	for _, between := range woken {
		if !between {
			err = h.checkProviders(ctx)
			break
		}
	}
	var points []cluster.Datapoint
	err = errors.Join(err, state.ForEachCluster(ctx, h.State, func(name string) error {
		between, affected := woken[name]
		if len(subjects) > 0 && (!affected || between) {
			has, err := h.isAffected(ctx, name, subjects)
			if err != nil {
				return err
			}
			between, affected = between && !has, affected || has
		}
		if !affected {
			return nil
		}
		return h.reconcileCluster(ctx, name, between, &points)
	}))
	return errors.Join(err, h.publish(ctx, points))
}

// eventSubject returns the name of the alarm or group that an event is about, or why the event is
// dropped. Alarms and hooks of others are among those.
func (h *Handler) eventSubject(body []byte) (string, *cluster.Drop) {
	e, err := h.Decoder.Decode(body)
	var drop *cluster.Drop
	switch {
	case errors.As(err, &drop):
		return "", drop
	case err != nil:
		return "", &cluster.Drop{Reason: err.Error()}
	}
	switch d := e.Detail.(type) {
	case *awsevent.Alarm:
		if strings.HasPrefix(d.Name, cluster.AlarmPrefix) {
			return d.Name, nil
		}
	case *awsevent.Lifecycle:
		if d.Hook == cluster.DrainingHook && d.IsTerminating() {
			return d.Group, nil
		}
	}
	return "", &cluster.Drop{Reason: fmt.Sprintf("unhandled event %q from %q", e.DetailType, e.Source)}
}

// isAffected reports whether the cluster has a capacity provider with one of these alarms or
// groups.
func (h *Handler) isAffected(ctx context.Context, clusterName string, subjects map[string]bool) (bool, error) {
	of, err := handler.FindClusterProviders(ctx, h.State, clusterName)
	if err != nil {
		return false, err
	}
	for _, name := range of.ScaledProviders() {
		if low, high := cluster.ScalingAlarms(clusterName, name); subjects[low] || subjects[high] {
			return true, nil
		}
		p, err := handler.FindProvider(ctx, h.State, name)
		if err != nil || p != nil && subjects[p.Group] {
			return err == nil, err
		}
	}
	return false, nil
}

// reconcileCluster scales all capacity providers of a cluster, and adds the values of the metric to
// points. A cluster that has none costs a read of one row. between reports that the decision is one
// between the looks of two minutes.
func (h *Handler) reconcileCluster(
	ctx context.Context, name string, between bool, points *[]cluster.Datapoint,
) error {
	of, err := handler.FindClusterProviders(ctx, h.State, name)
	if err != nil || of.Rev == 0 || len(of.ScaledProviders())+len(of.Detaching) == 0 {
		return err
	}
	var report clusterReport
	// First what leaves: a group may go from one provider to another.
	for _, p := range of.Detaching {
		err := h.detachProvider(ctx, of, p)
		if err != nil && !isLostRace(err) {
			err = notAttached{cluster.Wrap(err, "taking capacity provider %s from the cluster", p)}
		}
		h.addOutcome(&report, name, p, err)
	}
	if len(of.ScaledProviders()) > 0 {
		r, err := h.readRound(ctx, of, between)
		if err != nil {
			return errors.Join(err, h.recordUnreadableGroups(ctx, of, err))
		}
		for _, p := range of.ScaledProviders() {
			// Its group was not examined in time; the attachments stay IN_PROGRESS.
			if row := r.rows[p]; row != nil && row.CheckPending {
				report.isPending = true
				continue
			}
			h.addOutcome(&report, name, p, cluster.Wrap(r.reconcileProvider(ctx, p), "capacity provider %s", p))
		}
		*points = append(*points, r.points...)
	}
	err = errors.Join(append(report.failed, report.unattached...)...)
	if report.isPending {
		return err
	}
	return errors.Join(err, h.recordAttachmentStatus(ctx, of, report.reasons))
}
