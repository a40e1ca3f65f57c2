package taskstatechange

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// deregistrationSettle is how long after a deregistration a sweep looks whether the revision is in
// use. A call of the API that had found the revision ACTIVE has long ended by then, and what it
// wrote is in the snapshot.
const deregistrationSettle = 5 * time.Minute

// isDeregistrationSettled reports whether nothing new can use the revision any more. A deregistration
// whose time a clock wrote that had jumped ahead waits for it: an hour more does no harm.
func isDeregistrationSettled(d *state.Deregistration, now time.Time) bool {
	return now.Sub(d.At) >= deregistrationSettle
}

// listDeregistrations returns the revisions that were deregistered through Berth and that ECS has
// still to deregister.
func listDeregistrations(ctx context.Context, store state.Store) ([]*state.Deregistration, error) {
	rows, err := state.ListRows[*state.Deregistration](ctx, store,
		state.Prefix(state.Directory, state.PrefixDeregistration), "deferred deregistrations")
	return slices.DeleteFunc(rows, func(d *state.Deregistration) bool { return !d.EndedAt.IsZero() }), err
}

// noteUnusedDefinitions records which revisions with a deferred deregistration the cluster has used
// and uses no more. Most installations have none at most times: then this is one small read.
func (s *sweep) noteUnusedDefinitions(ctx context.Context) error {
	rows, err := listDeregistrations(ctx, s.State)
	if err != nil || len(rows) == 0 {
		return err
	}
	used := usedDefinitions(s.Snap)
	for _, row := range rows {
		name := row.Name()
		if s.Snap.Definitions[name] == nil || used[name] || slices.Contains(row.Unused, s.cluster) ||
			!isDeregistrationSettled(row, s.Now) {
			continue
		}
		next := *row
		next.Rev++
		next.Unused = append(slices.Clone(row.Unused), s.cluster)
		// If somebody else has changed the row, the next sweep tries again.
		if _, err := s.State.Write(ctx, state.Write{Put: &next}); state.IgnoreConflict(err) != nil {
			return fmt.Errorf("recording that task definition %s is unused: %w", name, err)
		}
	}
	return nil
}

// usedDefinitions returns the task definitions from which placement or dispatch may still start
// tasks: those of a service's deployments and task sets, the one that it would roll back to, and
// those of requests and tasks that have not been started. A service that is being deleted starts
// nothing.
func usedDefinitions(snap *snapshot.Snapshot) map[string]bool {
	used := map[string]bool{}
	for _, s := range snap.Services {
		if s.Status != cluster.ServiceActive {
			continue
		}
		for _, r := range s.Revisions() {
			used[r.TaskDefinition] = true
		}
		if s.Last != nil {
			used[s.Last.TaskDefinition] = true
		}
	}
	for _, r := range snap.Requests {
		used[r.TaskDefinition] = true
	}
	for t := range snap.Tasks() {
		if !t.Foreign && !t.HasEnded() && t.ECSID == "" {
			used[t.TaskDefinition] = true
		}
	}
	return used
}

// Bounds of one sweep: how many revisions it deregisters, and how many calls ECS may fail before the others
// wait for the next sweep.
const (
	maxDeregistered   = 100
	maxFailedAttempts = 3
)

// deregisterUnused deregisters at ECS the revisions that no cluster uses any more, and deletes those
// whose deletion was requested, too. A call that is cut off is repeated by the next sweep, which
// does no harm. What fails at ECS for now is only logged: the error would have all clusters swept again.
func (h *Handler) deregisterUnused(ctx context.Context) error {
	rows, err := listDeregistrations(ctx, h.State)
	if err != nil || len(rows) == 0 {
		return err
	}
	names, err := state.ClusterNames(ctx, h.State)
	if err != nil {
		return err
	}
	var refused []error
	called, failed := 0, 0
	for _, row := range rows {
		if !isDeregistrationSettled(row, h.Clock.Now()) {
			continue
		}
		inUse, err := h.mayBeInUse(ctx, row, names)
		if err != nil {
			return err
		}
		if inUse {
			continue
		}
		called++
		switch err := h.deregister(ctx, row); {
		case err == nil:
		case cluster.PermanentError(err) != nil:
			refused = append(refused, err)
		default:
			failed++
			handler.Logger(h.Log).Warn("a task definition is not deregistered yet",
				"definition", row.Name(), "error", err)
		}
		if called == maxDeregistered || failed == maxFailedAttempts {
			break
		}
	}
	return errors.Join(refused...)
}

// mayBeInUse reports whether one of the clusters has used the revision and no sweep has found it
// unused there yet.
func (h *Handler) mayBeInUse(ctx context.Context, row *state.Deregistration, names []string) (bool, error) {
	for _, name := range names {
		if slices.Contains(row.Unused, name) {
			continue
		}
		cached, err := h.State.Get(ctx, state.TaskDefinitionKey(name, row.Name()))
		if err != nil {
			return true, fmt.Errorf("reading task definition %s of cluster %s: %w", row.Name(), name, err)
		}
		if cached != nil {
			return true, nil
		}
	}
	return false, nil
}

// deregister carries a deferred deregistration out, and records that last. If ECS refuses to delete the
// revision, the next sweep tries again, until ECS no longer has it.
func (h *Handler) deregister(ctx context.Context, row *state.Deregistration) error {
	name := row.Name()
	err := h.ECS.DeregisterTaskDefinition(ctx, name)
	isGone := isRefusedByECS(err) // by this installation in an earlier sweep, or by somebody else
	switch {
	case err != nil && !isGone:
		return err
	case isGone:
		handler.Logger(h.Log).Warn("ECS has no task definition to deregister", "definition", name, "error", err)
	case !row.DeleteAt.IsZero():
		if err := h.ECS.DeleteTaskDefinition(ctx, name); isRefusedByECS(err) {
			handler.Logger(h.Log).Warn("a task definition is not deleted yet", "definition", name, "error", err)
			return nil
		} else if err != nil {
			return err
		}
	}
	// If a deletion was requested meanwhile, the next sweep deletes the revision.
	_, err = h.State.Write(ctx, state.Write{Put: row.Ended(h.Clock.Now())})
	return cluster.Wrap(state.IgnoreConflict(err), "ending the deregistration of task definition %s", name)
}

// isRefusedByECS reports whether ECS says that the revision is not what the call is for.
func isRefusedByECS(err error) bool {
	refused := cluster.PermanentError(err)
	return refused != nil && refused.Code == cluster.CodeClient
}
