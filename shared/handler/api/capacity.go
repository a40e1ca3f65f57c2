package api

import (
	"context"
	"fmt"

	"berth/shared/cluster"
	"berth/shared/state"
)

// Capacity is what a cluster's instances come from, as rows: its capacity providers, what managed scaling remembers of them,
// its node groups, and the last update of each one's nodes.
func (a *Handler) Capacity(ctx context.Context, clusterName string) (rows []state.Row, err error) {
	if _, err := a.known(ctx, clusterName); err != nil {
		return nil, err
	}
	of, err := a.Attachments(ctx, clusterName)
	if err != nil {
		return nil, err
	}
	for _, p := range of.Rows {
		rows = append(rows, p)
		history, err := a.State.Get(ctx, state.ScalingHistoryKey(clusterName, p.Name))
		if err != nil {
			return nil, fmt.Errorf("reading what scaled %s: %w", p.Name, err)
		}
		if h, ok := history.(*cluster.ScalingHistory); ok && h != nil {
			rows = append(rows, h)
		}
	}
	found, err := a.State.List(ctx, state.Prefix(clusterName, state.PrefixNodeGroup))
	if err != nil {
		return nil, fmt.Errorf("listing node groups: %w", err)
	}
	for _, row := range found {
		rows = append(rows, row)
		g, ok := row.(*cluster.NodeGroup)
		if !ok || g.Update == "" {
			continue
		}
		last, err := a.State.Get(ctx, state.UpdateKey(clusterName, g.Name, g.Update))
		if err != nil {
			return nil, fmt.Errorf("reading update %s: %w", g.Update, err)
		}
		if u, ok := last.(*cluster.Update); ok && u != nil {
			rows = append(rows, u)
		}
	}
	return rows, nil
}
