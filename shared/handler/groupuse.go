package handler

import (
	"context"
	"fmt"

	"berth/shared/cluster"
)

// groupUse is who has an Auto Scaling group; a row of Rev 0 where nobody ever had.
func groupUse(ctx context.Context, state State, group string) (*cluster.GroupUse, error) {
	row, err := state.Get(ctx, cluster.GroupUseKey(group))
	if err != nil {
		return nil, fmt.Errorf("reading who has Auto Scaling group %s: %w", group, err)
	}
	if u, ok := row.(*cluster.GroupUse); ok && u != nil {
		return u, nil
	}
	return &cluster.GroupUse{Head: cluster.Head{Cluster: cluster.Directory}, Group: group}, nil
}

// taken is the write by which somebody takes a group, to be committed with what takes it.
func taken(u *cluster.GroupUse, take func(*cluster.GroupUse)) cluster.Write {
	next := *u
	next.Rev++
	take(&next)
	return cluster.Write{Put: &next}
}

// letGoOf are the writes by which an Auto Scaling group has one user less, to be committed with the end of that user; none
// where it is somebody else's by now.
func letGoOf(ctx context.Context, state State, group string, end func(*cluster.GroupUse) (was bool)) ([]cluster.Write, error) {
	u, err := groupUse(ctx, state, group)
	if err != nil {
		return nil, err
	}
	next := *u
	if !end(&next) {
		return nil, nil
	}
	if next.Provider == "" && next.NodeGroup == (cluster.NodeGroupRef{}) {
		key := cluster.KeyOf(u)
		return []cluster.Write{{Delete: &key, Rev: u.Rev}}, nil
	}
	next.Rev++
	return []cluster.Write{{Put: &next}}, nil
}
