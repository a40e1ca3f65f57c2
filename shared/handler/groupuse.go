package handler

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/state"
)

// ReadGroupUse returns the row that says which capacity provider and node group use an Auto Scaling
// group; a new row with Rev 0 if none ever did.
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

// ClaimGroup returns the write that claims a group. Commit it together with the row of the provider
// or node group that claims it.
func ClaimGroup(u *state.GroupUse, take func(*state.GroupUse)) state.Write {
	next := *u
	next.Rev++
	take(&next)
	return state.Write{Put: &next}
}

// ReleaseGroup returns the writes that give up a claim on a group, none if somebody else has
// claimed it meanwhile. Commit them together with the deletion of the user. end removes the claim
// from the row and reports whether it was there.
func ReleaseGroup(
	ctx context.Context, store state.Store, group string, end func(*state.GroupUse) (was bool),
) ([]state.Write, error) {
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
