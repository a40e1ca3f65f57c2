package managedscaling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

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
	metrics  metricBuffer
	looks    handler.Looks
	calls    terminationCalls
	readings map[string]*reading // by cluster
}

// RunSchedule examines the capacity providers, and then reconciles every cluster that has some, as
// far as the invocation's time goes. name must be "scaling".
func (h *Handler) RunSchedule(ctx context.Context, name string) error {
	if name != "scaling" {
		return &cluster.Drop{Reason: fmt.Sprintf("unknown schedule %q, expected scaling", name)}
	}
	names, err := state.ClusterNames(ctx, h.State)
	if err != nil {
		return err
	}
	p, err := h.newPass(ctx)
	if err != nil {
		return err
	}
	err = p.checkProviders(ctx, names)
	err = errors.Join(err, h.rotation.ForEachOf(ctx, p.clustersAmong(names), h.Clock.Now, h.Log,
		func(name string) error { return p.reconcileCluster(ctx, name, false) }))
	return errors.Join(err, h.publish(ctx, p.points, false))
}

// HandleMessages handles events of alarms, and of instances whose termination waits for the
// lifecycle hook, and wake-ups. It returns the ids of messages to deliver again. A message says
// only that its cluster must be reconciled before the minute is over: the decision is made from
// what is there.
//
// Terminations that are reported within a second of the last look ask for one more look, at the end
// of that second, by a due row. Alarms are rare, and dispatch spaces the wake-ups that it sends.
func (h *Handler) HandleMessages(ctx context.Context, messages []state.Message) (retry []string) {
	h.Telemetry.AddCount(handler.EventsHandled, len(messages))
	alarms, terminating := map[string]bool{}, map[string]bool{} // names of alarms, and of groups

	woken := map[string]bool{} // clusters; "" for the providers themselves. True if only between two looks
	var handled []string
	for _, m := range messages {
		if w, ok := handler.ParseWakeUp(m.Body); ok {
			before, known := woken[w.Cluster]
			woken[w.Cluster] = w.Cause != handler.WakeChange && (before || !known)
			handled = append(handled, m.ID)
			continue
		}
		alarm, group, err := h.eventSubject(m.Body)
		if err != nil {
			h.Telemetry.CountDropped(handler.DropKind(err.Reason))
			handler.Logger(h.Log).Warn("dropped event", "message", m.ID, "reason", err.Reason)
			continue
		}
		if alarm != "" {
			alarms[alarm] = true
		} else {
			terminating[group] = true
		}
		handled = append(handled, m.ID)
	}
	if len(handled) == 0 {
		return nil
	}
	if err := h.reconcileAffected(ctx, alarms, terminating, woken); err != nil {
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
func (h *Handler) reconcileAffected(ctx context.Context, alarms, terminating, woken map[string]bool) error {
	p, err := h.newPass(ctx)
	if err != nil {
		return err
	}
	for _, between := range woken {
		if !between {
			err = p.checkProviders(ctx, nil)
			break
		}
	}
	affected := maps.Clone(woken)
	delete(affected, "")
	for _, name := range p.clustersWithAlarms(alarms) {
		affected[name] = false
	}
	failed := []error{err, p.addTerminating(ctx, terminating, affected)}
	p.visited = map[string]bool{}
	for name := range affected {
		p.visited[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(affected)) {
		failed = append(failed, cluster.Wrap(p.reconcileCluster(ctx, name, affected[name]), "cluster %s", name))
	}
	return errors.Join(errors.Join(failed...), h.publish(ctx, p.points, true))
}

// addTerminating adds the clusters whose instances the groups are terminating to those that are to be
// looked at, unless this environment has just looked: then a due row asks for the next look.
func (p *pass) addTerminating(ctx context.Context, groups, affected map[string]bool) error {
	var failed []error
	for _, row := range p.providers {
		if !groups[row.Group] {
			continue
		}
		for _, name := range row.Clusters {
			if between, is := affected[name]; is && !between {
				continue
			}
			now := p.Clock.Now()
			deferred, err := p.looks.Defer(name, now, func(at time.Time) error {
				return writeDue(ctx, p.State, state.NewDue(name, state.DueScaling, row.Name, at, now))
			})
			failed = append(failed, err)
			if !deferred {
				affected[name] = false
			}
		}
	}
	return errors.Join(failed...)
}

// eventSubject returns the name of the alarm or of the group that an event is about, or why the event
// is dropped. Alarms and hooks of others are among those.
func (h *Handler) eventSubject(body []byte) (alarm, group string, dropped *cluster.Drop) {
	e, err := h.Decoder.Decode(body)
	var drop *cluster.Drop
	switch {
	case errors.As(err, &drop):
		return "", "", drop
	case err != nil:
		return "", "", &cluster.Drop{Reason: err.Error()}
	}
	switch d := e.Detail.(type) {
	case *awsevent.Alarm:
		if strings.HasPrefix(d.Name, cluster.AlarmPrefix) {
			return d.Name, "", nil
		}
	case *awsevent.Lifecycle:
		if d.Hook == cluster.DrainingHook && d.IsTerminating() {
			return "", d.Group, nil
		}
	}
	return "", "", &cluster.Drop{Reason: fmt.Sprintf("unhandled event %q from %q", e.DetailType, e.Source)}
}

// reconcileCluster scales all capacity providers of a cluster, and adds the values of the metric to
// the pass. A cluster that has none costs one read. between reports that the decision is one
// between the looks of two minutes.
func (p *pass) reconcileCluster(ctx context.Context, name string, between bool) error {
	p.looks.Begin(name, p.Clock.Now())
	r, err := p.beginRound(ctx, name, between)
	if err != nil {
		return err
	}
	if r == nil {
		return p.releaseDeleted(ctx, name)
	}
	of := r.of
	var report clusterReport
	// First what leaves: a group may go from one provider to another.
	for _, gone := range of.Detaching {
		err := p.detachProvider(ctx, of, gone)
		if err != nil && !isLostRace(err) {
			err = notAttached{cluster.Wrap(err, "taking capacity provider %s from the cluster", gone)}
		}
		p.addOutcome(&report, name, gone, err)
	}
	if len(of.Detaching) > 0 { // what they leave has changed
		if err := r.readSettings(ctx, name); err != nil {
			return err
		}
		r.of = of
	}
	if len(of.ScaledProviders()) > 0 {
		if err := r.readCluster(ctx); err != nil {
			return errors.Join(err, p.recordUnreadableGroups(ctx, of, err))
		}
		for _, scaled := range of.ScaledProviders() {
			// Its group was not examined in time; the attachments stay IN_PROGRESS.
			if row := r.rows[scaled]; row != nil && row.CheckPending {
				report.isPending = true
				continue
			}
			p.addOutcome(&report, name, scaled,
				cluster.Wrap(r.reconcileProvider(ctx, scaled), "capacity provider %s", scaled))
		}
	}
	err = errors.Join(append(report.failed, report.unattached...)...)
	if report.isPending {
		return err
	}
	return errors.Join(err, p.recordAttachmentStatus(ctx, of, report.reasons))
}
