package handler

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/state"
)

// ReadGroupUse is who has an Auto Scaling group; a row of Rev 0 where nobody ever had.
func ReadGroupUse(ctx context.Context, store state.Store, group string) (*state.GroupUse, error) {
	row, err := store.Get(ctx, state.GroupUseKey(group))
	if err != nil {
		return nil, fmt.Errorf("reading who has Auto Scaling group %s: %w", group, err)
	}
	if u, ok := row.(*state.GroupUse); ok && u != nil {
		return u, nil
	}
	return &state.GroupUse{Head: cluster.Head{Cluster: state.Directory}, Group: group}, nil
}

// ClaimGroup is the write by which somebody takes a group, to be committed with what takes it.
func ClaimGroup(u *state.GroupUse, take func(*state.GroupUse)) state.Write {
	next := *u
	next.Rev++
	take(&next)
	return state.Write{Put: &next}
}

// ReleaseGroup are the writes by which an Auto Scaling group has one user less, to be committed with the end of that user; none
// where it is somebody else's by now.
func ReleaseGroup(ctx context.Context, store state.Store, group string, end func(*state.GroupUse) (was bool)) ([]state.Write, error) {
	u, err := ReadGroupUse(ctx, store, group)
	if err != nil {
		return nil, err
	}
	next := *u
	if !end(&next) {
		return nil, nil
	}
	if next.Provider == "" && next.NodeGroup == (cluster.NodeGroupRef{}) {
		key := state.KeyOf(u)
		return []state.Write{{Delete: &key, Rev: u.Rev}}, nil
	}
	next.Rev++
	return []state.Write{{Put: &next}}, nil
}
