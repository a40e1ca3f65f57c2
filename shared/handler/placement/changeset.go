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
	// wasReloaded says that the cluster was read anew. The snapshot may have changes that no set has: those
	// of a batch that has not ended, or whose record was lost.
	wasReloaded bool
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

// A set omits its rows if there are more than minOmittedRows, and more than one in omittedShare of the
// cluster's. To write a row costs about three times as much as to read it, and many batches may come
// between two of managed scaling's looks.
const (
	minOmittedRows = 50
	omittedShare   = 100
)

// writeChangeSet writes the batch's change set, from which managed scaling learns what has changed.
// If that fails, managed scaling misses the batch and reads the cluster anew, so an error is only
// logged.
func (h *Handler) writeChangeSet(ctx context.Context, warm *decide.WarmSnapshot, batch *batchRows) {
	snap := warm.Snap
	size := len(snap.Instances) + snap.TaskCount()
	if snap.ProvidedInstances() == 0 || size < h.Settings.ChangeSetsFrom {
		return
	}
	log := handler.Logger(h.Log).With("cluster", snap.Meta.Cluster, "batch", warm.Batch)
	set := state.NewChangeSet(snap.Meta, warm.Batch, h.Clock.Now())
	set.Omitted = batch.wasReloaded || len(batch.keys) > max(minOmittedRows, size/omittedShare)
	if !set.Omitted {
		if err := set.Pack(changesOf(warm, batch.keys)); err != nil {
			log.Error("there is no change set", "error", err)
			return
		}
	}
	if _, err := h.State.Write(ctx, state.Write{Put: set, Any: true}); err != nil {
		log.Warn("there is no change set", "error", err)
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
