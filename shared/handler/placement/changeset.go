package placement

import (
	"context"
	"strings"

	"berth/shared/decide"
	"berth/shared/handler"
	"berth/shared/state"
)

// A batchRows has the keys of the instances and tasks that a batch is about: those of its records, and
// those that it has written.
type batchRows struct {
	keys map[state.Key]bool
	// isLoaded says that the cluster was read anew. What the snapshot has then, no set may have: it was
	// committed by a batch that has not ended, or its record was lost.
	isLoaded bool
}

func rowsOf(records []state.Record) *batchRows {
	b := &batchRows{keys: map[state.Key]bool{}}
	for _, r := range records {
		b.add(r.Key)
	}
	return b
}

func (b *batchRows) add(key state.Key) {
	if strings.HasPrefix(key.Sort, state.PrefixInstance) || strings.HasPrefix(key.Sort, state.PrefixTask) {
		b.keys[key] = true
	}
}

// omittedShare is the share of a cluster's rows, one in so many, above which a batch's rows are left
// out of its change set. To write them costs about three times as much as to read them, and many
// batches may come between two readings.
const omittedShare = 50

// announceChanges writes the batch's change set, from which managed scaling learns what has changed.
// If that fails, managed scaling misses the batch and reads the cluster anew, so an error is only
// logged.
func (h *Handler) announceChanges(ctx context.Context, warm *decide.WarmSnapshot, batch *batchRows) {
	snap := warm.Snap
	size := len(snap.Instances) + snap.TaskCount()
	if snap.ProvidedInstances() == 0 || size < h.Settings.ChangeSetsFrom {
		return
	}
	name := snap.Meta.Cluster
	set := state.NewChangeSet(name, warm.Batch, snap.Meta.Version, h.Clock.Now())
	set.Omitted = batch.isLoaded || len(batch.keys) > max(omittedShare, size/omittedShare)
	if !set.Omitted {
		if err := set.Pack(changesOf(warm, batch.keys)); err != nil {
			handler.Logger(h.Log).Error("changes are not announced", "cluster", name, "error", err)
			return
		}
	}
	if _, err := h.State.Write(ctx, state.Write{Put: set, Any: true}); err != nil {
		handler.Logger(h.Log).Warn("changes are not announced", "cluster", name, "error", err)
	}
}

// changesOf returns the rows as placement knows them.
func changesOf(warm *decide.WarmSnapshot, keys map[state.Key]bool) (changes []state.Change) {
	for key := range keys {
		c := state.Change{Key: key}
		if id, ok := strings.CutPrefix(key.Sort, state.PrefixInstance); ok {
			if v := warm.Snap.Instances[id]; v != nil && v.Instance != nil {
				c.Row = v.Instance
			}
		} else if owner, id, ok := strings.Cut(strings.TrimPrefix(key.Sort, state.PrefixTask), "#"); ok {
			if t := warm.Snap.Task(owner, id); t != nil {
				c.Row = t
			}
		}
		changes = append(changes, c)
	}
	return changes
}
