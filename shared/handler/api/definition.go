package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/operation"
	"berth/shared/state"
)

// lookUpDefinition asks ECS for a task definition, by family, family:revision or ARN, and caches in
// the cluster what placement needs of it. An INACTIVE one is a ClientException, as with ECS; so is
// one that was deregistered through Berth.
func (a *Dependencies) lookUpDefinition(
	ctx context.Context, clusterName, name string,
) (*cluster.TaskDefinition, error) {
	got, err := a.ECS.DescribeTaskDefinition(ctx, name)
	if err != nil {
		return nil, suggestFamily(ctx, a.ECS, name, err)
	}
	if got.Inactive {
		return nil, errInactiveDefinition()
	}
	row, err := a.State.Get(ctx, state.TaskDefinitionKey(clusterName, got.Name()))
	if err != nil {
		return nil, fmt.Errorf("reading task definition %s: %w", name, err)
	}
	if row == nil {
		cached := *got
		cached.Head = cluster.Head{Cluster: clusterName}
		if _, err = a.State.Write(ctx, state.Write{Put: &cached, Any: true}); err != nil {
			return nil, fmt.Errorf("caching task definition %s: %w", name, err)
		}
		got = &cached
	}
	// After the cache, see DeferDeregistration.
	switch ended, err := deregistrationRow(ctx, a.State, got.Name()); {
	case err != nil:
		return nil, err
	case ended != nil:
		return nil, errInactiveDefinition()
	}
	return got, nil
}

func errInactiveDefinition() error {
	return cluster.Errorf(cluster.CodeClient, "TaskDefinition is inactive")
}

// suggestFamily adds the nearest family to ECS's words if ECS refused the name of a family that it
// does not have.
func suggestFamily(ctx context.Context, ecs handler.ECS, name string, err error) error {
	var refused *cluster.Error
	if !errors.As(err, &refused) || refused.Code != cluster.CodeClient {
		return err
	}
	known, unread := ecs.ListFamilies(ctx)
	family, _, _ := strings.Cut(cluster.LastPart(name), ":")
	if unread != nil || slices.Contains(known, family) { // the refusal says enough
		return err
	}
	return suggestNearest(refused, "family", family, known)
}

// suggestNearest adds the nearest of the known names to a refusal in ECS's words.
func suggestNearest(refused *cluster.Error, kind, name string, known []string) error {
	if nearest := choice.Nearest(name, known); nearest != "" {
		return cluster.Errorf(refused.Code, "%s The nearest %s is %q.", refused.Message, kind, nearest)
	}
	return refused
}

// cachedDefinition returns a task definition that some service of the cluster uses, from the cache
// if possible. It may have become INACTIVE since; services go on using it.
func (a *Dependencies) cachedDefinition(
	ctx context.Context, clusterName, name string,
) (*cluster.TaskDefinition, error) {
	def, err := state.ReadRow[*cluster.TaskDefinition](ctx, a.State, state.TaskDefinitionKey(clusterName, name),
		"task definition "+name)
	if err != nil || def != nil {
		return def, err
	}
	return a.lookUpDefinition(ctx, clusterName, name)
}

// DeferDeregistration makes a revision (family:revision) INACTIVE for Berth alone if a cluster may
// use it. The sweep deregisters it at ECS when none does any more: until then ECS starts the tasks
// of its services. It returns nil if no cluster has ever used the revision, or ECS has deregistered it
// before; the caller then passes the call on to ECS and calls [Clusters.TaskDefinitionChanged].
//
// The row is written before the clusters are looked at, and [Dependencies.lookUpDefinition] caches
// a definition before it looks for the row. So a call that begins to use the revision at the same
// time either finds the row or is found here. The row stays for a while after ECS has deregistered
// the revision, because such a call may have read ECS's answer before.
func (a *Clusters) DeferDeregistration(ctx context.Context, name string) (*operation.Deregistration, error) {
	family, digits, _ := strings.Cut(name, ":")
	revision, err := strconv.Atoi(digits)
	if err != nil {
		return nil, fmt.Errorf("deregistering task definition %s: expected family:revision", name)
	}
	row := &state.Deregistration{Head: cluster.Head{Rev: 1}, Family: family, Revision: revision, At: a.Clock.Now()}
	_, err = a.State.Write(ctx, state.Write{Put: row})
	var earlier *state.Conflict
	switch {
	case errors.As(err, &earlier):
		old, ok := earlier.Row.(*state.Deregistration)
		if !ok {
			return nil, fmt.Errorf("deregistering task definition %s: %w", name, err)
		}
		row = old
	case err != nil:
		return nil, fmt.Errorf("deregistering task definition %s: %w", name, err)
	}
	cached, err := a.markInactive(ctx, name)
	if err != nil || !row.EndedAt.IsZero() || !cached && row.DeleteAt.IsZero() {
		return nil, err
	}
	return deregistrationOf(row), nil
}

// DeferDeletion requests the deletion of those of the revisions that ECS has still to deregister,
// and returns these by name. ECS deletes the others itself.
func (a *Clusters) DeferDeletion(
	ctx context.Context, names []string,
) (map[string]*operation.Deregistration, error) {
	deferred := map[string]*operation.Deregistration{}
	for _, name := range names {
		err := a.retryRaces(ctx, "deleting task definition "+name, func() error {
			row, err := deregistrationRow(ctx, a.State, name)
			if err != nil || row == nil || !row.EndedAt.IsZero() {
				return err
			}
			if next := *row; next.DeleteAt.IsZero() {
				next.Rev++
				next.DeleteAt = a.Clock.Now()
				if _, err := a.State.Write(ctx, state.Write{Put: &next}); err != nil {
					return err
				}
				row = &next
			}
			deferred[name] = deregistrationOf(row)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return deferred, nil
}

// DeferredDeregistrations returns the revisions of a family that are INACTIVE for Berth and ACTIVE
// at ECS; those of all families if it is empty.
func (a *Clusters) DeferredDeregistrations(
	ctx context.Context, family string,
) (out []*operation.Deregistration, err error) {
	prefix := state.PrefixDeregistration
	if family != "" {
		prefix = state.DeregistrationKey(family + ":").Sort
	}
	rows, err := state.ListRows[*state.Deregistration](ctx, a.State, state.Prefix(state.Directory, prefix),
		"deferred deregistrations")
	for _, row := range rows {
		if !row.EndedAt.IsZero() {
			continue
		}
		out = append(out, deregistrationOf(row))
	}
	return out, err
}

// TaskDefinitionChanged records that ECS has deregistered a revision or deletes it.
func (a *Clusters) TaskDefinitionChanged(ctx context.Context, name string) error {
	if _, err := a.markInactive(ctx, name); err != nil {
		return err
	}
	return a.retryRaces(ctx, "ending the deregistration of task definition "+name, func() error {
		row, err := deregistrationRow(ctx, a.State, name)
		// A row with a requested deletion is the sweep's to end.
		if err != nil || row == nil || !row.EndedAt.IsZero() || !row.DeleteAt.IsZero() {
			return err
		}
		_, err = a.State.Write(ctx, state.Write{Put: row.Ended(a.Clock.Now())})
		return err
	})
}

// markInactive marks a task definition INACTIVE in every cluster that has it in its cache, and
// reports whether one has. Running services keep it; new ones are refused.
func (a *Clusters) markInactive(ctx context.Context, name string) (cached bool, err error) {
	err = state.ForEachCluster(ctx, a.State, func(clusterName string) error {
		d, err := state.ReadRow[*cluster.TaskDefinition](ctx, a.State, state.TaskDefinitionKey(clusterName, name),
			"task definition "+name)
		if err != nil || d == nil {
			return err
		}
		cached = true
		if d.Inactive {
			return nil
		}
		next := *d
		next.Inactive = true
		_, err = a.State.Write(ctx, state.Write{Put: &next, Any: true})
		return cluster.Wrap(err, "marking task definition %s", name)
	})
	return cached, err
}

// deregistrationRow returns the row of a revision that was deregistered through Berth, until
// [state.KeepDeregistration] after ECS has deregistered it; nil if there is none.
func deregistrationRow(ctx context.Context, store state.Store, name string) (*state.Deregistration, error) {
	return state.ReadRow[*state.Deregistration](ctx, store, state.DeregistrationKey(name),
		"the deregistration of task definition "+name)
}

func deregistrationOf(row *state.Deregistration) *operation.Deregistration {
	return &operation.Deregistration{Family: row.Family, Revision: row.Revision, At: row.At, DeleteAt: row.DeleteAt}
}
