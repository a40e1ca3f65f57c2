package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/state"
)

// Handler is the dispatch function: its ports, its settings, and what an execution environment
// remembers.
type Handler struct {
	State         state.Store
	ECS           handler.ECS
	LoadBalancers handler.LoadBalancers
	Registries    handler.Registries
	// Groups protects instances from scale-in before tasks start there; nil if no group is managed.
	Groups handler.AutoScaling
	// Scaling and Upgrades wake functions; nil if the function's schedule is soon enough.
	Scaling, Upgrades handler.Queue
	// Bus takes service events; nil publishes none.
	Bus handler.EventBus
	// Account completes the ARNs in published events.
	Account  cluster.Account
	Clock    handler.Clock
	Settings handler.Settings
	Log      *slog.Logger
	// Telemetry counts what operators watch; nil counts nothing.
	Telemetry *handler.Telemetry
	// Parallel makes the calls of one outbox row, each of which takes ECS a tenth of a second; at one
	// after the other they would be far below the 40 a second that ECS allows.
	Parallel handler.Parallel

	rotation handler.Rotation
	// arrivals says when the last wake-up of each kind that this environment sent arrives.
	arrivals map[sentWakeUp]time.Time
	// refused holds, by task, the attempt that ECS certainly did not carry out. It need not settle.
	refused map[state.Key]int32
}

// HandleRecords drains the outbox of each cluster with new entries, and wakes functions that wait
// for what has changed. It never holds up the stream: due rows and schedules retry what fails.
func (h *Handler) HandleRecords(ctx context.Context, records []state.Record) (retryFrom string, err error) {
	h.Telemetry.AddCount(handler.RecordsHandled, len(records))
	h.wakeFunctions(ctx, records)
	seen := map[string]bool{}
	for _, r := range records {
		if !strings.HasPrefix(r.Key.Sort, state.PrefixOutbox) {
			continue
		}
		// One round per cluster handles everything that the batch announces.
		if name := r.Key.Cluster; !seen[name] {
			seen[name] = true
			h.drainOrRetry(ctx, name)
		}
	}
	return "", nil
}

// drainOrRetry drains an outbox, and schedules another try in a second if that fails.
func (h *Handler) drainOrRetry(ctx context.Context, name string) {
	if _, err := h.drainOutbox(ctx, name, 0); err != nil {
		handler.Logger(h.Log).Error("draining the outbox", "cluster", name, "error", err)
		if err := h.scheduleDrain(ctx, name, time.Second, 0); err != nil {
			handler.Logger(h.Log).Error("scheduling the next round", "cluster", name, "error", err)
		}
	}
}

// HandleMessages handles wake-up messages: it runs the due rows of the cluster that each names. It
// returns the ids of messages to deliver again. A message that names no cluster is logged and
// dropped.
func (h *Handler) HandleMessages(ctx context.Context, messages []state.Message) (retry []string) {
	h.Telemetry.AddCount(handler.EventsHandled, len(messages))
	done := map[string]bool{}
	for _, m := range messages {
		var w handler.WakeUp
		if err := json.Unmarshal(m.Body, &w); err != nil || w.Cluster == "" {
			handler.Logger(h.Log).Warn("dropping a wake-up message", "message", m.ID, "error", err)
			continue
		}
		if done[w.Cluster] {
			continue
		}
		if err := h.runDueRows(ctx, w.Cluster, false); err != nil {
			handler.Logger(h.Log).Error("running due rows", "cluster", w.Cluster, "error", err)
			retry = append(retry, m.ID)
			continue
		}
		done[w.Cluster] = true
	}
	return retry
}

// RunSchedule runs each minute. It runs the due rows of every cluster, and drains outboxes whose
// stream record was lost.
func (h *Handler) RunSchedule(ctx context.Context, name string) error {
	if name != "due" {
		return &cluster.Drop{Reason: fmt.Sprintf("unknown schedule %q, expected due", name)}
	}
	return h.rotation.ForEachCluster(ctx, h.State, h.Clock.Now, h.Log,
		func(name string) error { return h.runDueRows(ctx, name, true) })
}

// runDueRows does what is due in one cluster: it checks instances again, applies reported loads,
// and drains the outbox. Each due row is deleted after its work, and the deletion wakes placement
// through the stream.
//
// Work that failed leaves its due rows, so the next round repeats it. Due rows of placement's do
// not wait for that.
func (h *Handler) runDueRows(ctx context.Context, name string, scheduled bool) error {
	rows, err := h.listDueRows(ctx, name, scheduled)
	if err != nil {
		return err
	}
	var instances []*state.Due
	windowsEnd := h.Clock.Now() // of the loads to apply
	drain, loads, scaling, upgrades, idleRounds := scheduled, false, false, false, 0
	for _, d := range rows {
		switch d.Kind {
		case state.DueOutbox:
			drain, idleRounds = true, max(idleRounds, d.Generation)
		case state.DueLoads:
			loads = true
			if d.At.After(windowsEnd) {
				windowsEnd = d.At
			}
		case state.DueScaling:
			scaling = true
		case state.DueNodeGroup:
			upgrades = true
		case state.DueInstance, state.DueHost: // the event that the agent has reconnected may be lost
			instances = append(instances, d)
		}
	}
	failed := h.recheckInstances(ctx, name, instances)
	if loads {
		feed := state.NewFeed(h.State, h.Clock)
		failed = errors.Join(failed, observe.ApplyLoads(ctx, feed, h.Clock, name, windowsEnd))
	}
	if scaling {
		handler.SendWakeUp(ctx, h.Scaling, h.Log, handler.WakeUp{Cluster: name, Cause: handler.WakeDue}, 0)
	}
	if upgrades {
		handler.SendWakeUp(ctx, h.Upgrades, h.Log, handler.WakeUp{Cluster: name, Cause: handler.WakeDue}, 0)
	}
	for _, d := range rows {
		if d.Kind == state.DueOutbox {
			continue // after the drain
		}
		if failed != nil && (d.Kind == state.DueInstance || d.Kind == state.DueHost || d.Kind == state.DueLoads) {
			continue // the next round tries again; other due rows do not wait for it
		}
		key := state.KeyOf(d)
		if _, err := h.State.Write(ctx, state.Write{Delete: &key}); err != nil {
			return fmt.Errorf("deleting due row %s: %w", key.Sort, err)
		}
	}
	if !drain {
		return failed
	}
	settled, err := h.drainOutbox(ctx, name, idleRounds)
	if failed = errors.Join(failed, err); !settled {
		return failed
	}
	return errors.Join(failed, h.deleteDrained(ctx, rows))
}

// deleteDrained deletes the due rows of a drain that has succeeded, or that another round continues. One
// that was written anew meanwhile stays: it may be about outbox rows that the drain has not seen.
func (h *Handler) deleteDrained(ctx context.Context, rows []*state.Due) error {
	for _, d := range rows {
		if d.Kind != state.DueOutbox {
			continue
		}
		key := state.KeyOf(d)
		_, err := h.State.Write(ctx, state.Write{Delete: &key, Rev: d.Rev})
		if state.IgnoreConflict(err) != nil {
			return fmt.Errorf("deleting due row %s: %w", key.Sort, err)
		}
	}
	return nil
}

// maxAheadRows bounds the rows that one run of the schedule takes before their time. If this
// function's clock is behind, every row looks as if it were written in the future.
const maxAheadRows = 100

// listDueRows returns the rows of a cluster that are due, in order of their times. The schedule also
// looks at the rows that are due later: a row that a clock had set which was an hour ahead would
// wait for an hour.
func (h *Handler) listDueRows(ctx context.Context, name string, scheduled bool) ([]*state.Due, error) {
	now := h.Clock.Now()
	among := state.DueBy(name, now)
	if scheduled {
		among = state.Prefix(name, state.PrefixDue)
	}
	rows, err := state.ListRows[*state.Due](ctx, h.State, among, "due rows")
	if err != nil {
		return nil, err
	}
	ahead := 0
	return slices.DeleteFunc(rows, func(d *state.Due) bool {
		if d.At.After(now) && d.IsDue(now) {
			ahead++
		}
		return !d.IsDue(now) || ahead > maxAheadRows
	}), nil
}

// recheckInstances asks ECS about instances that were unavailable and records the answer. It
// schedules another check of those that still are, unless one is scheduled already: an instance
// that became unavailable twice, or whose event came twice, would be checked by two series of due
// rows from then on. Without it an instance whose reconnection no event reported would stay
// unavailable until the next sweep.
func (h *Handler) recheckInstances(ctx context.Context, name string, dues []*state.Due) error {
	if len(dues) == 0 {
		return nil
	}
	scheduled, err := h.scheduledChecks(ctx, name, dues)
	if err != nil {
		return err
	}
	o := h.newObserver(state.NewFeed(h.State, h.Clock))
	for batch := range slices.Chunk(latestPerInstance(dues), cluster.DescribeBatch) {
		ids := make([]string, len(batch))
		for i, d := range batch {
			ids[i] = d.Subject
		}
		got, err := h.ECS.DescribeInstances(ctx, name, ids)
		if err != nil && cluster.ErrorCode(err) != cluster.CodeClusterNotFound { // then its instances are gone too
			return fmt.Errorf("describing instances: %w", err)
		}
		found := map[string]*cluster.Instance{}
		for _, i := range got {
			found[i.ID] = i
		}
		for _, d := range batch {
			unavailable, err := h.recheckInstance(ctx, o, d, found[d.Subject])
			if err != nil {
				return err
			}
			if !unavailable || scheduled[d.Subject] {
				continue
			}
			if err := o.SchedulePoll(ctx, d.Cluster, d.Subject, d.Generation+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// scheduledChecks returns the instances with a due row for another check than these.
func (h *Handler) scheduledChecks(ctx context.Context, name string, dues []*state.Due) (map[string]bool, error) {
	rows, err := h.State.List(ctx, state.DueBy(name, h.Clock.Now().Add(h.Settings.RetryIntervalMax)))
	if err != nil {
		return nil, fmt.Errorf("listing due rows: %w", err)
	}
	now := map[state.Key]bool{}
	for _, d := range dues {
		now[state.KeyOf(d)] = true
	}
	scheduled := map[string]bool{}
	for _, row := range rows {
		if d, _ := row.(*state.Due); d.Kind == state.DueInstance && !now[state.KeyOf(d)] {
			scheduled[d.Subject] = true
		}
	}
	return scheduled, nil
}

// latestPerInstance keeps one due row per instance: the one with the highest generation, of two
// kinds the [state.DueInstance].
func latestPerInstance(dues []*state.Due) []*state.Due {
	slices.SortFunc(dues, func(a, b *state.Due) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(b.Generation, a.Generation),
			cmp.Compare(b.Kind, a.Kind))
	})
	return slices.CompactFunc(dues, func(a, b *state.Due) bool { return a.Subject == b.Subject })
}

// recheckInstance records what ECS says now of the instance that a due row names; now is nil if ECS
// does not have it. It reports whether the instance is still unavailable and must be checked again.
func (h *Handler) recheckInstance(
	ctx context.Context, o *observe.Observer, d *state.Due, now *cluster.Instance,
) (unavailable bool, err error) {
	known, err := state.ReadRow[*cluster.Instance](
		ctx, h.State, state.InstanceKey(d.Cluster, d.Subject), "instance "+d.Subject)
	if err != nil || known == nil || known.IsDeregistered() {
		return false, err
	}
	if now == nil {
		return false, cluster.IgnoreDrop(o.RecordDeregistered(ctx, known))
	}
	if err := cluster.IgnoreDrop(o.RecordInstance(ctx, now, known)); err != nil {
		return false, err
	}
	return !now.IsAvailable() && !now.IsDeregistered() && d.Kind == state.DueInstance, nil
}
