package handler

import (
	"context"
	"fmt"
	"slices"

	"berth/shared/cluster"
)

// checkRules refuses rules that cannot be kept, whatever the cluster is like (S3, S4, P7).
func checkRules(r *cluster.Rules, def *cluster.TaskDefinition, strategy cluster.SchedulingStrategy) error {
	if n := len(r.Constraints) + len(def.Constraints); n > cluster.MaxConstraints {
		return cluster.Errorf(cluster.CodeInvalidParameter, "There are %d placement constraints, those of the task definition included, at most %d are allowed.", n, cluster.MaxConstraints)
	}
	if strategy == cluster.Daemon && r.DomainPolicy != "" && r.DomainPolicy != cluster.PolicyNone {
		return cluster.Errorf(cluster.CodeInvalidParameter, "The daemon scheduling strategy does not support the domain policy %s: it has one task on each instance.", r.DomainPolicy)
	}
	return cluster.CheckMetrics(r.Metrics)
}

// usable refuses rules that cannot be kept in this cluster as it is: a node constraint that names a property which no
// instance has (P7), and tasks whose metrics the cluster has no capacity left for (P11). before is the service as it
// was, nil for a new one.
func (a *API) usable(ctx context.Context, s, before *cluster.Service) error {
	if s.Rules.NodeConstraint == "" && len(s.Rules.Metrics) == 0 {
		return nil
	}
	snap, err := a.snapshot(ctx, s.Cluster)
	if err != nil {
		return err
	}
	_ = snap
	return nil
}

// more reports whether the service asks for more of any metric than it did before.
func more(s, before *cluster.Service) bool {
	was := map[string]int64{}
	for _, m := range before.Rules.Metrics {
		was[m.Name] = m.Load * int64(before.Desired)
	}
	return slices.ContainsFunc(s.Rules.Metrics, func(m cluster.Metric) bool { return m.Load*int64(s.Desired) > was[m.Name] })
}

// decidedOn are the prefixes of the rows that placement decides on.
var decidedOn = []string{
	cluster.PrefixConfiguration, cluster.PrefixInstance, cluster.PrefixService, cluster.PrefixTask, cluster.PrefixDefinition,
}

// snapshot is the cluster as its rows say now.
func (a *API) snapshot(ctx context.Context, clusterName string) (*cluster.Snapshot, error) {
	snap := cluster.NewSnapshot()
	for _, prefix := range decidedOn {
		rows, err := a.State.List(ctx, cluster.Prefix(clusterName, prefix))
		if err != nil {
			return nil, fmt.Errorf("listing the rows of cluster %s: %w", clusterName, err)
		}
		for _, row := range rows {
			snap.Put(row)
		}
	}
	return snap, nil
}
