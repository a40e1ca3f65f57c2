package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/observe"
	"berth/shared/state"
)

// Handler is the function that makes the world match what was committed: it starts and stops tasks at ECS, within a
// token bucket that all clusters of the account and Region share, and it lets due rows fall due. Nobody else acts on
// tasks.
type Handler struct {
	State         state.State
	ECS           handler.ECS
	LoadBalancers handler.LoadBalancers
	Registries    handler.Registries
	// Groups have instances protected before tasks start there; nil where no group's size is managed.
	Groups handler.AutoScaling
	// Bus takes the service events that are to be published; nil where none are.
	Bus handler.EventBus
	// Account is for what is published.
	Account  cluster.Account
	Clock    handler.Clock
	Settings handler.Settings
	Log      *slog.Logger
	// Figures gather what operators watch; nil gathers nothing.
	Figures *handler.Figures

	rotation handler.Rotation
	// refused remembers attempts that ECS surely did not carry out, so that they need not be settled.
	refused map[state.Key]int32
}

// firstPage and lastPage are how many outbox rows are read at once: one large row may take all the tokens that there
// are, and reading more would only cost.
const firstPage, lastPage = 2, 64

// Records drains the outbox of each cluster that the batch names. A failure is left to the schedule and the due rows:
// the stream is never held up.
func (h *Handler) Records(ctx context.Context, records []state.Record) (retryFrom string, err error) {
	h.Figures.Add(handler.RecordsHandled, len(records))
	seen := map[string]bool{}
	for _, r := range records {
		if name := r.Key.Cluster; !seen[name] {
			seen[name] = true
			h.drainOrPutOff(ctx, name)
		}
	}
	return "", nil
}

// drainOrPutOff drains, and where that failed tries again soon.
func (h *Handler) drainOrPutOff(ctx context.Context, name string) {
	if err := h.drain(ctx, name, 0); err != nil {
		handler.Logger(h.Log).Error("draining the outbox", "cluster", name, "error", err)
		if err := h.later(ctx, name, time.Second, 0); err != nil {
			handler.Logger(h.Log).Error("putting off the outbox", "cluster", name, "error", err)
		}
	}
}

// Messages handles wake-ups: due rows of one cluster, then its outbox.
func (h *Handler) Messages(ctx context.Context, messages []state.Message) (retry []string) {
	h.Figures.Add(handler.EventsHandled, len(messages))
	done := map[string]bool{}
	for _, m := range messages {
		var w handler.WakeUp
		if err := json.Unmarshal(m.Body, &w); err != nil || w.Cluster == "" {
			handler.Logger(h.Log).Warn("dropped wake-up", "message", m.ID, "error", err)
			continue
		}
		if done[w.Cluster] {
			continue
		}
		if err := h.due(ctx, w.Cluster, false); err != nil {
			handler.Logger(h.Log).Error("running due rows", "cluster", w.Cluster, "error", err)
			retry = append(retry, m.ID)
			continue
		}
		done[w.Cluster] = true
	}
	return retry
}

// Schedule looks each minute at due rows, and at outboxes whose record was lost.
func (h *Handler) Schedule(ctx context.Context, name string) error {
	if name != "due" {
		return &cluster.Drop{Reason: fmt.Sprintf("unknown schedule %q, expected due", name)}
	}
	return h.rotation.Each(ctx, h.State, h.Clock.Now, h.Log, func(name string) error { return h.due(ctx, name, true) })
}

// due runs the due rows of one cluster. A row is deleted after what dispatch itself has to do for it; its deletion
// is what wakes placement.
func (h *Handler) due(ctx context.Context, name string, drain bool) error {
	rows, err := h.State.List(ctx, state.DueBy(name, h.Clock.Now()))
	if err != nil {
		return fmt.Errorf("listing due rows: %w", err)
	}
	var instances []*state.Due
	loads, turn := false, 0
	for _, row := range rows {
		switch d, _ := row.(*state.Due); d.Kind {
		case state.DueOutbox:
			drain, turn = true, max(turn, d.Generation)
		case state.DueLoads:
			loads = true
		case state.DueInstance, state.DueHost: // that an agent is back may not have been heard of
			instances = append(instances, d)
		}
	}
	failed := h.recheck(ctx, name, instances)
	if loads {
		failed = errors.Join(failed, observe.TakeInLoads(ctx, h.State, h.Clock, name))
	}
	for _, row := range rows {
		if d, ok := row.(*state.Due); ok && failed != nil && (d.Kind == state.DueInstance || d.Kind == state.DueHost || d.Kind == state.DueLoads) {
			continue // looked at again by the next round; what else is due does not wait for it
		}
		key := state.KeyOf(row)
		if _, err := h.State.Write(ctx, state.Write{Delete: &key}); err != nil {
			return fmt.Errorf("deleting due row %s: %w", key.Sort, err)
		}
	}
	if drain {
		failed = errors.Join(failed, h.drain(ctx, name, turn))
	}
	return failed
}

func (h *Handler) observer() *observe.Observer {
	return &observe.Observer{State: h.State, Now: h.Clock.Now(), Settings: h.Settings, Log: handler.Logger(h.Log)}
}

// recheck asks ECS about instances that were not available, and puts off those that still are not.
func (h *Handler) recheck(ctx context.Context, name string, dues []*state.Due) error {
	o := h.observer()
	for batch := range slices.Chunk(newest(dues), cluster.DescribeBatch) {
		ids := make([]string, len(batch))
		for i, d := range batch {
			ids[i] = d.Subject
		}
		got, err := h.ECS.DescribeInstances(ctx, name, ids)
		if err != nil && cluster.ErrorCode(err) != cluster.CodeClusterNotFound { // none of its instances is there, either
			return fmt.Errorf("describing instances: %w", err)
		}
		found := map[string]*cluster.Instance{}
		for _, i := range got {
			found[i.ID] = i
		}
		for _, d := range batch {
			if err := h.recheckOne(ctx, o, d, found[d.Subject]); err != nil {
				return err
			}
		}
	}
	return nil
}

// newest is one due row per instance, the one that was put off most often; those of [state.DueInstance] go first.
func newest(dues []*state.Due) []*state.Due {
	slices.SortFunc(dues, func(a, b *state.Due) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(b.Generation, a.Generation), cmp.Compare(b.Kind, a.Kind))
	})
	return slices.CompactFunc(dues, func(a, b *state.Due) bool { return a.Subject == b.Subject })
}

func (h *Handler) recheckOne(ctx context.Context, o *observe.Observer, d *state.Due, now *cluster.Instance) error {
	row, err := h.State.Get(ctx, state.InstanceKey(d.Cluster, d.Subject))
	if err != nil {
		return fmt.Errorf("reading instance %s: %w", d.Subject, err)
	}
	known, ok := row.(*cluster.Instance)
	if !ok || known == nil || known.Gone() {
		return nil
	}
	if now == nil {
		return handler.IgnoreDrop(o.Gone(ctx, known))
	}
	if err := handler.IgnoreDrop(o.Instance(ctx, now, known)); err != nil {
		return err
	}
	if now.Available() || now.Gone() || d.Kind == state.DueHost {
		return nil
	}
	return o.Recheck(ctx, d.Cluster, d.Subject, d.Generation+1)
}

// later has the outbox drained again; turn is how often that was so without anything being done.
func (h *Handler) later(ctx context.Context, name string, wait time.Duration, turn int) error {
	due := &state.Due{
		Head: cluster.Head{Cluster: name}, Kind: state.DueOutbox, Generation: turn,
		At: h.Clock.Now().Add(wait + time.Second - 1).Truncate(time.Second),
	}
	_, err := h.State.Write(ctx, state.Write{Put: due, Any: true})
	return cluster.Wrap(err, "putting off the outbox of %s", name)
}
