package handler

import (
	"context"

	"berth/shared/cluster"
	"berth/shared/state"
)

// ReadGroupUse returns the row that says which capacity provider and node group use an Auto Scaling
// group; a new row with Rev 0 if none ever did.
func ReadGroupUse(ctx context.Context, store state.Store, group string) (*state.GroupUse, error) {
	u, err := state.ReadRow[*state.GroupUse](ctx, store, state.GroupUseKey(group),
		"the use of Auto Scaling group "+group)
	if err != nil || u != nil {
		return u, err
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
