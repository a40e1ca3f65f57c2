package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/handler"
	"berth/shared/state"
)

// lookUpDefinition asks ECS for a task definition, by family, family:revision or ARN, and caches in
// the cluster what placement needs of it. An INACTIVE one is a ClientException, as with ECS; so is
// one that ECS has still to deregister.
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
	switch ended, err := a.deregistrationRow(ctx, got.Name()); {
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
