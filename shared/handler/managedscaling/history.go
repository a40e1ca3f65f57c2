package managedscaling

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/handler"
	"berth/shared/scaling"
	"berth/shared/state"
)

// readHistory reads what managed scaling remembers of a provider in a cluster, Rev 0 if nothing.
func readHistory(
	ctx context.Context, store state.Store, clusterName, provider string,
) (*cluster.ScalingHistory, error) {
	old, err := state.ReadRow[*cluster.ScalingHistory](
		ctx, store, state.ScalingHistoryKey(clusterName, provider), "what is remembered")
	if err != nil || old != nil {
		return old, err
	}
	return &cluster.ScalingHistory{Head: cluster.Head{Cluster: clusterName}, Provider: provider}, nil
}

// writeHistory writes what is remembered, if it has changed. If another environment has written it
// meanwhile, this one stops and the other acts. So of two that decide at the same time, one carries
// out its decision.
func writeHistory(ctx context.Context, store state.Store, old, next *cluster.ScalingHistory) error {
	next.Head = old.Head
	if reflect.DeepEqual(old, next) {
		return nil
	}
	return putHistory(ctx, store, old, next)
}

// putHistory is writeHistory for a history that may be the same.
func putHistory(ctx context.Context, store state.Store, old, next *cluster.ScalingHistory) error {
	next.Head = old.Head
	next.Rev++
	_, err := store.Write(ctx, state.Write{Put: next})
	return cluster.Wrap(err, "remembering a decision")
}

// scheduleLook writes the due row of the next decision, if it is due at another time than before.
// If it is lost, the minute's schedule decides instead.
func (r *round) scheduleLook(ctx context.Context, old, next *cluster.ScalingHistory) error {
	if next.LookAgainAt.IsZero() || next.LookAgainAt.Equal(old.LookAgainAt) {
		return nil
	}
	return writeDue(ctx, r.State,
		state.NewDue(r.of.Cluster, state.DueScaling, next.Provider, next.LookAgainAt, r.Clock.Now()))
}

// writeDue writes the due row of the next decision about a provider in a cluster.
func writeDue(ctx context.Context, store state.Store, due *state.Due) error {
	_, err := store.Write(ctx, state.Write{Any: true, Put: due})
	return cluster.Wrap(err, "scheduling the next decision about %s", due.Subject)
}

// emitEvents adds events to the services that they concern, and to the log for the operator.
func (r *round) emitEvents(ctx context.Context, p *cluster.CapacityProvider, events []scaling.Event) error {
	for _, e := range events {
		handler.Logger(r.Log).Info("managed scaling", "cluster", r.of.Cluster, "provider", p.Name, "message", e.Message)
		name, ok := strings.CutPrefix(e.Owner, "service ")
		if !ok {
			continue
		}
		if err := r.addServiceEvent(ctx, name, e.Message); err != nil {
			return err
		}
	}
	return nil
}

// emitNew emits the events and then records their keys, and which instances were sent a heartbeat now. If it
// is cut off in between, both are done again. history is what was written last.
func (r *round) emitNew(
	ctx context.Context, p *cluster.CapacityProvider, history *cluster.ScalingHistory, sent []string,
	events []scaling.Event,
) error {
	next := *history
	next.EmittedKeys, next.Heartbeats = slices.Clone(history.EmittedKeys), maps.Clone(history.Heartbeats)
	for _, id := range sent {
		next.Heartbeats[id] = r.Clock.Now()
	}
	var failed error
	for _, e := range events {
		if failed = r.emitEvents(ctx, p, []scaling.Event{e}); failed != nil {
			break
		}
		if e.Key != "" {
			next.EmittedKeys = append(next.EmittedKeys, e.Key)
		}
	}
	slices.Sort(next.EmittedKeys)
	next.EmittedKeys = slices.Compact(next.EmittedKeys)
	return errors.Join(failed, writeHistory(ctx, r.State, history, &next))
}

// addServiceEvent appends an event to a service. Its number comes from the service's row, which
// changes in the same commit. The stamp is removed: an event alone does not move the placement
// version.
func (r *round) addServiceEvent(ctx context.Context, name, message string) error {
	return state.RetryRaces(ctx, r.Clock, "adding an event to service "+name, func() error {
		s, err := state.ReadRow[*cluster.Service](ctx, r.State, state.ServiceKey(r.of.Cluster, name), "service "+name)
		if err != nil || s == nil {
			return err
		}
		next := *s
		next.Rev++
		next.Stamp = 0
		event := decide.NewServiceEvent(&next, message, r.Clock.Now())
		next.Events++
		return r.State.Commit(ctx, state.Commit{
			Cluster: r.of.Cluster, Version: state.NoVersion,
			Writes: []state.Write{{Put: &next}, {Put: event, Any: true}},
		})
	})
}
