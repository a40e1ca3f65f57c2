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

// isDeregistrationSettled reports whether nothing new can use the revision any more.
func isDeregistrationSettled(d *state.Deregistration, now time.Time) bool {
	return cluster.RemainingWait(d.At.Add(deregistrationSettle), now, deregistrationSettle) == 0
}

// listDeregistrations returns the revisions that were deregistered through Berth and that ECS has
// still to deregister.
func listDeregistrations(ctx context.Context, store state.Store) ([]*state.Deregistration, error) {
	rows, err := state.ListRows[*state.Deregistration](ctx, store,
		state.Prefix(state.Directory, state.PrefixDeregistration), "deferred deregistrations")
	return slices.DeleteFunc(rows, func(d *state.Deregistration) bool { return !d.EndedAt.IsZero() }), err
}

// noteUnusedDefinitions records which revisions with a deferred deregistration the cluster has used
// and uses no more. In most installations at most times there are none, and it is one small read.
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

// deregisterUnused deregisters at ECS the revisions that no cluster uses any more, and deletes those
// whose deletion was requested, too. A call that is cut off is repeated by the next sweep, which
// does no harm.
func (h *Handler) deregisterUnused(ctx context.Context) error {
	rows, err := listDeregistrations(ctx, h.State)
	if err != nil || len(rows) == 0 {
		return err
	}
	names, err := state.ClusterNames(ctx, h.State)
	if err != nil {
		return err
	}
	var failed []error
	for _, row := range rows {
		if !isDeregistrationSettled(row, h.Clock.Now()) {
			continue
		}
		inUse, err := h.mayBeInUse(ctx, row, names)
		if err == nil && !inUse {
			err = h.deregister(ctx, row)
		}
		failed = append(failed, err)
		if err != nil && cluster.PermanentError(err) == nil {
			break // ECS or the store has enough for now: the rows of the others wait for the next sweep
		}
	}
	return errors.Join(failed...)
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

// deregister carries a deferred deregistration out, and records its end last. If a deletion was
// requested meanwhile, the next sweep does it.
func (h *Handler) deregister(ctx context.Context, row *state.Deregistration) error {
	name := row.Name()
	err := h.ECS.DeregisterTaskDefinition(ctx, name)
	if err == nil && !row.DeleteAt.IsZero() {
		err = h.ECS.DeleteTaskDefinition(ctx, name)
	}
	if err != nil {
		if refused := cluster.PermanentError(err); refused == nil || refused.Code != cluster.CodeClient {
			return err
		}
		// ECS no longer has the revision: somebody has deleted it there.
		handler.Logger(h.Log).Warn("ECS has no task definition to deregister", "definition", name, "error", err)
	}
	_, err = h.State.Write(ctx, state.Write{Put: row.Ended(h.Clock.Now())})
	return cluster.Wrap(state.IgnoreConflict(err), "ending the deregistration of task definition %s", name)
}
