package taskstatechange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/state"
)

// Handler is the task-state-change function: its ports and settings.
type Handler struct {
	State    state.Store
	ECS      handler.ECS
	Clock    handler.Clock
	Settings handler.Settings
	Decoder  awsevent.Decoder
	Log      *slog.Logger

	// Health is health-check's queue; nil leaves the first health of tasks to its schedule.
	Health handler.Queue

	// Telemetry counts what operators watch; nil counts nothing.
	Telemetry *handler.Telemetry

	rotation    handler.Rotation
	definitions handler.CheckedDefinitions
}

// HandleMessages handles events from the queue and returns the ids of messages to deliver again.
// Malformed events, and those of unknown kinds, clusters and instances, are counted and dropped.
func (h *Handler) HandleMessages(ctx context.Context, messages []state.Message) (retry []string) {
	h.Telemetry.AddCount(handler.EventsHandled, len(messages))
	o, begun := h.newObserver(), begunTasks{}
	for _, m := range messages {
		err := h.handleEvent(ctx, o, m.Body, begun)
		var drop *cluster.Drop
		switch {
		case errors.As(err, &drop):
			h.countDrop(drop.Reason, m.ID)
		case err != nil:
			handler.Logger(h.Log).Error("handling event", "message", m.ID, "receives", m.Receives, "error", err)
			retry = append(retry, m.ID)
		}
	}
	if err := o.State.Flush(ctx); err != nil {
		handler.Logger(h.Log).Error("writing the inbox", "error", err)
		retry = nil
		for _, m := range messages { // any of their tasks may be missing in the inbox
			retry = append(retry, m.ID)
		}
	}
	h.askForHealth(ctx, begun)
	return retry
}

// begunTasks are tasks with health checks that have begun to run, by cluster.
type begunTasks map[string][]state.TaskRef

// askForHealth asks health-check for the first health of tasks. A question that is lost is made up for by its
// schedule.
func (h *Handler) askForHealth(ctx context.Context, begun begunTasks) {
	for _, name := range slices.Sorted(maps.Keys(begun)) {
		for some := range slices.Chunk(begun[name], cluster.DescribeBatch) {
			body, err := json.Marshal(handler.HealthWait{Cluster: name, Tasks: some})
			for _, delay := range handler.FirstHealthDelays {
				if err == nil {
					err = h.Health.Send(ctx, body, delay)
				}
			}
			if err != nil {
				handler.Logger(h.Log).Error("asking for the first health of tasks", "cluster", name, "error", err)
			}
		}
	}
}

// noteBegun notes a task of Berth's that runs, if its containers have health checks.
func (h *Handler) noteBegun(ctx context.Context, t *cluster.ECSTask, begun begunTasks) error {
	short, ours := cluster.ParseStartedBy(t.StartedBy)
	if h.Health == nil || !ours || t.Last != cluster.TaskRunning || t.Desired != cluster.TaskRunning {
		return nil
	}
	checked, err := h.definitions.IsChecked(ctx, h.State, t.Cluster, t.TaskDefinition)
	ref := state.TaskRef{Owner: short, ID: cluster.TaskID(t.StartedBy, t.Instance)}
	if checked && !slices.Contains(begun[t.Cluster], ref) {
		begun[t.Cluster] = append(begun[t.Cluster], ref)
	}
	return err
}

// countDrop counts and logs a message that is acknowledged without effect.
func (h *Handler) countDrop(reason, message string) {
	h.Telemetry.CountDropped(handler.DropKind(reason))
	handler.Logger(h.Log).Warn("dropped event", "message", message, "reason", reason)
}

// newObserver returns an observer as of now.
func (h *Handler) newObserver() *observe.Observer {
	return &observe.Observer{State: state.NewFeed(h.State, h.Clock), Clock: h.Clock, Now: h.Clock.Now(),
		Settings: h.Settings.Settings, Log: handler.Logger(h.Log)}
}

// handleEvent passes the noun in an event's detail on to the observer. It adds tasks whose health is asked for
// to begun.
func (h *Handler) handleEvent(ctx context.Context, o *observe.Observer, body []byte, begun begunTasks) error {
	e, err := h.Decoder.Decode(body)
	if err != nil {
		return err
	}
	detail, err := h.currentDetail(ctx, e)
	if err != nil {
		return err
	}
	switch detail := detail.(type) {
	case *cluster.ECSTask:
		return errors.Join(o.RecordTask(ctx, *detail), h.noteBegun(ctx, detail, begun))
	case *awsevent.Load:
		return observe.GatherLoads(ctx, h.State, h.Clock, detail.Cluster, []cluster.LoadReport{detail.LoadReport})
	case *cluster.Instance:
		return o.RecordInstance(ctx, detail, nil)
	case *awsevent.SpotWarning:
		return h.drainSpotInstance(ctx, detail.EC2InstanceID)
	}
	return &cluster.Drop{Reason: fmt.Sprintf("unhandled event %q from %q", e.DetailType, e.Source)}
}

// maxEventAge is how old an event may be to stop tasks without asking ECS.
const maxEventAge = 2 * time.Minute

// currentDetail returns the detail of an event. If the event is old and would cause tasks to be
// stopped, it returns what ECS says now instead. After hours of downtime an UNHEALTHY task may be
// healthy again, or a DRAINING instance ACTIVE, while the event that says so is still further back
// in the queue.
func (h *Handler) currentDetail(ctx context.Context, e awsevent.Event) (any, error) {
	if e.Time.IsZero() || h.Clock.Now().Sub(e.Time) <= maxEventAge {
		return e.Detail, nil
	}
	switch d := e.Detail.(type) {
	case *cluster.Instance:
		if d.IsAvailable() || d.IsDeregistered() {
			break
		}
		got, err := h.ECS.DescribeInstances(ctx, d.Cluster, []string{d.ID})
		switch {
		case err != nil && cluster.PermanentError(err) == nil:
			return nil, fmt.Errorf("describing instance %s: %w", d.ID, err)
		case len(got) > 0:
			return got[0], nil
		}
	}
	return e.Detail, nil
}

// drainSpotInstance drains the container instance on a Spot instance that is about to be
// interrupted (S11). It drains it at ECS, whose event then reaches Berth like any other. The
// message is delivered again until ECS accepts.
func (h *Handler) drainSpotInstance(ctx context.Context, ec2 string) error {
	names, err := state.ClusterNames(ctx, h.State)
	if err != nil {
		return err
	}
	for _, name := range names {
		alias, err := state.ReadRow[*state.Alias](
			ctx, h.State, state.AliasKey(name, ec2), "the alias of EC2 instance "+ec2+" in cluster "+name)
		if err != nil {
			return err
		}
		if alias == nil {
			continue
		}
		i, err := state.ReadRow[*cluster.Instance](
			ctx, h.State, state.InstanceKey(name, alias.ID), "instance "+alias.ID)
		if err != nil {
			return err
		}
		if i != nil && i.Status == cluster.InstanceActive {
			return h.ECS.DrainInstance(ctx, name, i.ID)
		}
	}
	return nil
}

// RunSchedule deregisters task definitions that no cluster used any more when it was swept last. Then it
// runs the hourly sweep over the clusters until the invocation's time is up; the next run continues
// there. name must be "sweep".
func (h *Handler) RunSchedule(ctx context.Context, name string) error {
	if name != "sweep" {
		return &cluster.Drop{Reason: fmt.Sprintf("unknown schedule %q, expected sweep", name)}
	}
	deregistered := h.deregisterUnused(ctx) // first: the sweep takes all the time that there is
	return errors.Join(deregistered, h.rotation.ForEachCluster(ctx, h.State, h.Clock.Now, h.Log,
		func(name string) error { return h.sweepCluster(ctx, name) }))
}
