package simulation

import (
	"context"
	"errors"
	"maps"
	"slices"

	"berth/cmd/berth/installation"
	"berth/shared/cluster"
	"berth/shared/state"
)

// Bugs in how a cluster's rows are kept in several partitions.

// commitByPartition makes a commit of its own for each partition key. Only that of the cluster's own
// partition checks and moves the placement version.
func (s *buggyStore) commitByPartition(ctx context.Context, c state.Commit) error {
	byPartition := map[string][]state.Write{}
	for _, w := range c.Writes {
		if p := w.Key().PartitionKey(); p != c.Cluster {
			byPartition[p] = append(byPartition[p], w)
		}
	}
	var errs []error
	for _, p := range slices.Sorted(maps.Keys(byPartition)) {
		errs = append(errs, s.Store.Commit(ctx, state.Commit{
			Cluster: c.Cluster, Version: state.NoVersion, Writes: byPartition[p],
		}))
	}
	fenced := c
	fenced.Writes = slices.DeleteFunc(slices.Clone(c.Writes), func(w state.Write) bool {
		return w.Key().PartitionKey() != c.Cluster
	})
	return errors.Join(append(errs, s.Store.Commit(ctx, fenced))...)
}

// wrapRecords plants the bug in what handles a function's records.
func (b Bug) wrapRecords(
	w *World,
) func(function string, handle installation.RecordsHandler) installation.RecordsHandler {
	if b != MergeOlder {
		return nil
	}
	return func(function string, handle installation.RecordsHandler) installation.RecordsHandler {
		if function != "placement" {
			return handle
		}
		return func(ctx context.Context, records []state.Record) (string, error) {
			var shown []state.Record
			for _, r := range records {
				shown = append(shown, w.mergeOlder(r)...)
			}
			return handle(ctx, shown)
		}
	}
}

// mergeOlder returns records that make the snapshot take the tasks of an inbox row even if it has
// newer versions of them: it forgets those first. A stop stays, as the snapshot keeps it (keepStop).
func (w *World) mergeOlder(r state.Record) []state.Record {
	inbox, ok := r.New.(*state.Inbox)
	if !ok {
		return []state.Record{r}
	}
	tasks, err := inbox.Tasks()
	if err != nil {
		return []state.Record{r}
	}
	var shown []state.Record
	for _, t := range tasks {
		key := state.KeyOf(t)
		if now, ok := w.checker.Rows[key].(*cluster.Task); ok && now.Rev > t.Rev {
			if now.Desired == cluster.TaskStopped {
				t.Desired, t.StopCode, t.Reason = now.Desired, now.StopCode, now.Reason
			}
			newer := *t
			newer.Rev = now.Rev
			shown = append(shown, state.Record{Sequence: r.Sequence, Op: state.Remove, Key: key, Old: &newer})
		}
		shown = append(shown, state.Record{Sequence: r.Sequence, Op: state.Modify, Key: key, New: t})
	}
	if len(inbox.Unread) > 0 {
		unread := *inbox
		unread.Packed, r.New = "", &unread
		shown = append(shown, r)
	}
	return shown
}
