package api

import (
	"context"

	"berth/shared/cluster"
	"berth/shared/operation"
	"berth/shared/state"
)

// TagNodeGroup sets and removes tags of a node group. A node group that was deleted meanwhile, or
// created again under its name, is a NotFoundException.
func (n *NodeGroups) TagNodeGroup(
	ctx context.Context, of cluster.NodeGroupRef, set map[string]string, remove []string,
) error {
	return n.retryRaces(ctx, "tagging node group "+of.Name, func() error {
		g, err := n.findNodeGroup(ctx, of.Cluster, of.Name)
		switch {
		case err != nil:
			return err
		case g == nil || g.ID != of.ID:
			return cluster.Errorf(cluster.CodeNotFound, "No node group found for name: %s.", of.Name)
		}
		next := *g
		if next.Tags, err = changedTags(of.Name, g.Tags, set, remove); err != nil {
			return err
		}
		next.Rev++
		_, err = n.State.Write(ctx, state.Write{Put: &next})
		return err
	})
}

// ManagedClusters returns the names of the clusters that Berth manages, sorted.
func (n *NodeGroups) ManagedClusters(ctx context.Context) ([]string, error) {
	return state.ClusterNames(ctx, n.State)
}

// DescribeCluster returns a cluster as EKS's API knows it. An unknown one is a
// ClusterNotFoundException.
func (n *NodeGroups) DescribeCluster(ctx context.Context, name string) (*operation.ClusterSummary, error) {
	meta, err := n.findCluster(ctx, name)
	if err != nil {
		return nil, err
	}
	return &operation.ClusterSummary{Name: name, CreatedAt: meta.CreatedAt}, nil
}
