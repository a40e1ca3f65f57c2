package api

import (
	"context"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/state"
)

// Configurations reads and replaces the placement configurations of clusters.
type Configurations struct{ *Dependencies }

// ClusterConfiguration returns a cluster's configuration. If none was set, it is the zero
// value, with Rev 0.
func (a *Configurations) ClusterConfiguration(ctx context.Context, clusterName string) (*cluster.Configuration, error) {
	if _, err := a.findCluster(ctx, clusterName); err != nil {
		return nil, err
	}
	none := &cluster.Configuration{Head: cluster.Head{Cluster: clusterName}}
	c, err := state.ReadRow[*cluster.Configuration](ctx, a.State, state.KeyOf(none),
		"the configuration of cluster "+clusterName)
	if err == nil && c == nil {
		return none, nil
	}
	return c, err
}

// PutConfiguration replaces a cluster's configuration as a whole. It moves the placement version: a
// larger node buffer, for example, leaves an instance less to give than a decision under way
// assumes.
//
// A property that no constraint can name is an InvalidParameterException.
//
// A c with a Rev replaces only the configuration whose Rev is one less, 0 for none. If there is another
// one, it fails with a ConflictException.
func (a *Configurations) PutConfiguration(ctx context.Context, c *cluster.Configuration) error {
	for kind, t := range c.NodeTypes {
		for name := range t.Properties {
			if !constraint.IsPropertyName(name) {
				return cluster.Errorf(cluster.CodeInvalidParameter,
					"Node type %.130s has the property %.130q, which no constraint can name: expected a name without "+
						"operators such as == and !, without parentheses, and without blanks around it.", kind, name)
			}
		}
	}
	return a.retryNarrowing(ctx, c.Cluster, "configuring cluster "+c.Cluster, func() error {
		old, err := a.ClusterConfiguration(ctx, c.Cluster)
		if err != nil {
			return err
		}
		if c.Rev != 0 && c.Rev != old.Rev+1 {
			return cluster.Errorf(cluster.CodeConflict, "The configuration of cluster %s is at revision %d, not %d: "+
				"it has changed. Read it again.", c.Cluster, old.Rev, c.Rev-1)
		}
		return state.TryNarrowing(ctx, a.State, c.Cluster, a.Clock.Now(), func(stamp int64) ([]state.Write, error) {
			next := *c
			next.Head = cluster.Head{Cluster: c.Cluster, Rev: old.Rev + 1, Stamp: stamp}
			return []state.Write{{Put: &next}}, nil
		})
	})
}
