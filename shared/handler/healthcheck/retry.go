package healthcheck

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/decide/plan"
	"berth/shared/state"
)

// registrationRetryInterval is how often failed registrations are retried (S9).
const registrationRetryInterval = 5 * time.Minute

// shouldRetry reports whether failed registrations with a target group or Cloud Map service are to
// be retried now, and remembers that they are. Another environment may retry sooner; that costs a
// few calls.
func (h *Handler) shouldRetry(clusterName, arn string) bool {
	key, now := clusterName+"#"+arn, h.Clock.Now()
	next := h.retriedAt[key].Add(registrationRetryInterval)
	if cluster.RemainingWait(next, now, registrationRetryInterval) > 0 {
		return false
	}
	if h.retriedAt == nil {
		h.retriedAt = map[string]time.Time{}
	}
	h.retriedAt[key] = now
	return true
}

// retryRegistrations asks dispatch to retry failed registrations with the groups and registries
// that exist. Until one succeeds it stays recorded as failed. So no event is emitted again, and
// nothing is written if it fails as before.
func (h *Handler) retryRegistrations(
	ctx context.Context, clusterName string, rows []state.Row, there func(arn string) bool,
) error {
	var items []state.TargetItem
	for _, row := range rows {
		t, ok := row.(*cluster.Target)
		if ok && slices.ContainsFunc(t.Registrations, func(g cluster.Registration) bool {
			return g.State == cluster.RegistrationFailed && there(g.ARN)
		}) {
			items = append(items, state.TargetItem{Owner: t.Owner, ID: t.Task, Again: true})
		}
	}
	for n := 0; len(items) > 0; n++ {
		batch := items[:min(plan.MaxTargets, len(items))]
		items = items[len(batch):]
		o := &state.Outbox{
			Head:      cluster.Head{Cluster: clusterName, Rev: 1},
			ID:        fmt.Sprintf("%sagain-%d-%d", state.OutboxFirst, h.Clock.Now().Unix(), n),
			CreatedAt: h.Clock.Now(), Targets: batch,
		}
		if _, err := h.State.Write(ctx, state.Write{Put: o}); state.IgnoreConflict(err) != nil {
			return fmt.Errorf("retrying failed registrations: %w", err)
		}
	}
	return nil
}
