package throttling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"berth/shared/awsevent"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/handler/api"
	"berth/shared/observe"
	"berth/shared/service"
	"berth/shared/state"
)

// Handler is the throttling function: its ports and settings.
type Handler struct {
	State    state.Store
	Clock    handler.Clock
	Settings handler.Settings
	Decoder  awsevent.Decoder
	Log      *slog.Logger

	// Telemetry counts what operators watch; nil counts nothing.
	Telemetry *handler.Telemetry
}

// failures are the reports of one owner's failed starts, by ECS's task id, with the messages that
// they came in. owner is a short key.
type failures struct {
	cluster, owner string
	reports        map[string]cluster.ECSTask
	messages       []string
}

// HandleMessages handles events of failed starts and returns the ids of messages to deliver again.
// Of several reports of one task the newest counts. Each service is written once, however many of
// its tasks failed.
func (h *Handler) HandleMessages(ctx context.Context, messages []state.Message) (retry []string) {
	h.Telemetry.AddCount(handler.EventsHandled, len(messages))
	of := map[string]*failures{}
	for _, m := range messages {
		t, drop := h.decodeFailedStart(m.Body)
		if drop != nil {
			h.Telemetry.CountDropped(handler.DropKind(drop.Reason))
			handler.Logger(h.Log).Warn("dropped event", "message", m.ID, "reason", drop.Reason)
			continue
		}
		owner, _ := cluster.ParseStartedBy(t.StartedBy)
		key := t.Cluster + "#" + owner
		if of[key] == nil {
			of[key] = &failures{cluster: t.Cluster, owner: owner, reports: map[string]cluster.ECSTask{}}
		}
		f := of[key]
		f.messages = append(f.messages, m.ID)
		if old, again := f.reports[t.ID]; !again || old.Version < t.Version {
			f.reports[t.ID] = *t
		}
	}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if err := h.updateThrottle(ctx, of[key]); err != nil {
			handler.Logger(h.Log).Error("recording failed starts", "cluster", of[key].cluster, "owner", of[key].owner,
				"error", err)
			retry = append(retry, of[key].messages...)
		}
	}
	return retry
}

// decodeFailedStart returns the report of a failed start of Berth's, or why the event is dropped.
// EventBridge's filter cannot tell Berth's tasks from others, so most drops are normal.
func (h *Handler) decodeFailedStart(body []byte) (*cluster.ECSTask, *cluster.Drop) {
	e, err := h.Decoder.Decode(body)
	var drop *cluster.Drop
	if errors.As(err, &drop) {
		return nil, drop
	}
	t, ok := e.Detail.(*cluster.ECSTask)
	if !ok {
		return nil, &cluster.Drop{Reason: fmt.Sprintf("unhandled event %q from %q", e.DetailType, e.Source)}
	}
	if _, ours := cluster.ParseStartedBy(t.StartedBy); !ours || t.Last != cluster.TaskStopped || !t.Started.IsZero() {
		return nil, &cluster.Drop{Reason: "irrelevant: task " + t.ID + " is no failed start of Berth's"}
	}
	return t, nil
}

// updateThrottle brings a service's throttle row up to date, with a due row for each attempt that
// it allows now. One commit writes both, so that a crash cannot leave a pause without an end.
func (h *Handler) updateThrottle(ctx context.Context, f *failures) error {
	key := state.ThrottleKey(f.cluster, f.owner)
	return state.RetryRaces(ctx, h.Clock, "writing the throttle of "+f.owner, func() error {
		s, tasks, err := h.readService(ctx, f)
		if err != nil || s == nil {
			return err // standalone tasks, and those of a service that is gone
		}
		old, err := state.ReadRow[*cluster.Throttle](ctx, h.State, key, "the throttle of service "+s.Name)
		if err != nil {
			return err
		}
		writes := h.throttleWrites(s, old, service.Backoffs(old, tasks, h.Settings.Limits(), h.Clock.Now()))
		if len(writes) == 0 {
			return nil
		}
		err = h.State.Commit(ctx, state.Commit{Cluster: f.cluster, Version: state.NoVersion, Writes: writes})
		return cluster.Wrap(err, "writing the throttle of service %s", s.Name)
	})
}

// readService returns a service and its tasks; nil if the owner is no service any more. The tasks
// are as their rows say, or as the reports say where task-state-change has not written those yet.
func (h *Handler) readService(ctx context.Context, f *failures) (*cluster.Service, []*cluster.Task, error) {
	tasks, err := state.ListRows[*cluster.Task](
		ctx, h.State, state.Prefix(f.cluster, state.PrefixTask+f.owner+"#"), "the tasks of "+f.owner)
	if err != nil {
		return nil, nil, err
	}
	// The report names the owner by its short key; the service's name is in its tasks' rows.
	name := ""
	for _, t := range tasks {
		name = cmp.Or(name, t.Service)
	}
	if name == "" {
		return nil, nil, nil
	}
	s, err := state.ReadRow[*cluster.Service](ctx, h.State, state.ServiceKey(f.cluster, name), "service "+name)
	if err != nil || s == nil || s.Short != f.owner || s.Status == cluster.ServiceInactive {
		return nil, nil, err
	}
	return s, tasks, h.applyReports(ctx, f, tasks)
}

// applyReports brings tasks up to date with newer reports, in place, without writing them.
func (h *Handler) applyReports(ctx context.Context, f *failures, tasks []*cluster.Task) error {
	at := make(map[string]int, len(tasks))
	for n, t := range tasks {
		at[t.ID] = n
	}
	o := &observe.Observer{Now: h.Clock.Now(), Settings: h.Settings.Settings}
	for _, id := range slices.Sorted(maps.Keys(f.reports)) {
		report := f.reports[id]
		derived := cluster.TaskID(report.StartedBy, report.Instance)
		n, found := at[derived]
		if !found {
			a, err := state.ReadRow[*state.Alias](ctx, h.State, state.AliasKey(f.cluster, derived),
				"the alias of task "+id)
			if err != nil {
				return err
			}
			if a != nil {
				n, found = at[a.ID]
			}
		}
		if !found {
			continue // forgotten
		}
		next, newer := state.Write{Observe: o.NewObservation(state.KeyOf(tasks[n]), report)}.Apply(tasks[n])
		if t, ok := next.(*cluster.Task); ok && newer {
			tasks[n] = t
		}
	}
	return nil
}

// throttleWrites returns the writes for a service's backoffs, none if they are as they were.
// Backoffs of deployments that no longer exist are left out. A due row is written only for a time
// that is new.
func (h *Handler) throttleWrites(
	s *cluster.Service, old *cluster.Throttle, backoffs map[string]cluster.Backoff,
) []state.Write {
	next := &cluster.Throttle{Head: cluster.Head{Cluster: s.Cluster}, Owner: s.Short, Service: s.Name,
		Revisions: map[string]cluster.Backoff{}}
	var before map[string]cluster.Backoff
	if old != nil {
		next.Rev, before = old.Rev, old.Revisions
	}
	next.Rev++
	now := h.Clock.Now()
	next.Expires = now.Add(h.Settings.KeepRequests).Unix()
	writes := []state.Write{{Put: next}}
	dues := map[state.Key]bool{} // two revisions may go on at the same time
	for _, id := range slices.Sorted(maps.Keys(backoffs)) {
		b := backoffs[id]
		if !api.HasDeployment(s, id) {
			continue
		}
		next.Revisions[id] = b
		// A time that has passed needs no due row: placement starts the next attempt without one.
		if b.NextAttemptAt.After(now) && !b.NextAttemptAt.Equal(before[id].NextAttemptAt) {
			due := state.NewDue(s.Cluster, state.DueService, s.Name, b.NextAttemptAt, now)
			if key := state.KeyOf(due); !dues[key] {
				dues[key] = true
				writes = append(writes, state.Write{Any: true, Put: due})
			}
		}
	}
	if maps.EqualFunc(before, next.Revisions, equalBackoff) {
		return nil
	}
	return writes
}

func equalBackoff(a, b cluster.Backoff) bool {
	return a.Step == b.Step && a.Failures == b.Failures && a.Reason == b.Reason && a.Since.Equal(b.Since) &&
		a.NextAttemptAt.Equal(b.NextAttemptAt)
}
