package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"berth/shared/placement"
)

// A quantity is a number or a Boolean of the cluster's metrics, and of those of one node.
type quantity struct {
	cluster func(c placement.Capacity) any
	node    func(c placement.InstanceCapacity) any
}

// quantities has the expectations about capacities and loads. They come as one value for the case's
// only metric, or as one per metric, per node, or per node and metric.
var quantities = map[string]quantity{
	"cluster_capacity": {cluster: func(c placement.Capacity) any { return c.Total }},
	"cluster_load":     {cluster: func(c placement.Capacity) any { return c.Load }},
	"remaining_total": {
		func(c placement.Capacity) any { return c.Remaining },
		func(c placement.InstanceCapacity) any { return c.Remaining },
	},
	"remaining_buffered": {
		func(c placement.Capacity) any { return c.RemainingUnbuffered },
		func(c placement.InstanceCapacity) any { return c.RemainingUnbuffered },
	},
	"total": {
		func(c placement.Capacity) any { return c.Total },
		func(c placement.InstanceCapacity) any { return c.Total },
	},
	"non_buffered": {
		func(c placement.Capacity) any { return c.Unbuffered },
		func(c placement.InstanceCapacity) any { return c.Unbuffered },
	},
	"node_capacity": {node: func(c placement.InstanceCapacity) any { return c.Capacity }},
	"node_load":     {node: func(c placement.InstanceCapacity) any { return c.Load }},
	"node_capacity_violation": {
		func(c placement.Capacity) any { return len(c.Violated) > 0 },
		func(c placement.InstanceCapacity) any { return c.Violated },
	},
}

// check returns the check of a quantity.
func (q quantity) check(s *session, data json.RawMessage) error {
	w, err := s.loadWorld()
	if err != nil {
		return err
	}
	var want any
	if err := json.Unmarshal(data, &want); err != nil {
		return err
	}
	switch want := want.(type) {
	case map[string]any:
		for key, value := range want {
			if err := q.checkKeyed(w, key, value); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	case []any:
		return q.checkNames(w, want)
	}
	return q.checkPlain(w, want)
}

// checkPlain compares the value of the case's only metric: that of its only node, or of the
// cluster.
func (q quantity) checkPlain(w *world, want any) error {
	metric, err := w.onlyMetric()
	if err != nil {
		return err
	}
	if len(w.c.Nodes) == 1 && q.node != nil {
		return w.checkNode(q, w.c.Nodes[0].Name, metric, want)
	}
	return w.checkCluster(q, metric, want)
}

// checkKeyed compares the value of a node or of a metric.
func (q quantity) checkKeyed(w *world, key string, want any) error {
	inner, nested := want.(map[string]any)
	node := slices.ContainsFunc(w.c.Nodes, func(n Node) bool { return n.Name == key })
	switch {
	case !nested && node && isTruth(want):
		return compareValues(slices.Contains(q.nodesWhereTrue(w), key), want)
	case !nested && node:
		metric, err := w.onlyMetric()
		if err != nil {
			return err
		}
		return w.checkNode(q, key, metric, want)
	case !nested && len(w.c.Nodes) == 1 && q.node != nil:
		return w.checkNode(q, w.c.Nodes[0].Name, key, want)
	case !nested:
		return w.checkCluster(q, key, want)
	}
	for other, value := range inner {
		name, metric := key, other
		if !node {
			name, metric = other, key
		}
		if err := w.checkNode(q, name, metric, value); err != nil {
			return fmt.Errorf("%s: %w", other, err)
		}
	}
	return nil
}

func isTruth(want any) bool {
	_, is := want.(bool)
	return is
}

// checkNames compares the nodes for which the quantity is true.
func (q quantity) checkNames(w *world, want []any) error {
	var names []string
	for _, name := range want {
		names = append(names, fmt.Sprint(name))
	}
	slices.Sort(names)
	return compareValues(slices.Sorted(slices.Values(q.nodesWhereTrue(w))), names)
}

// nodesWhereTrue returns the nodes for which the quantity is true of any metric.
func (q quantity) nodesWhereTrue(w *world) (out []string) {
	for _, n := range w.c.Nodes {
		for _, c := range placement.InstanceCapacities(w.snap, w.snap.Instances[n.Name]) {
			if q.node != nil && q.node(c) == true && !slices.Contains(out, n.Name) {
				out = append(out, n.Name)
			}
		}
	}
	return out
}

// onlyMetric returns the case's metric, if it has only one.
func (w *world) onlyMetric() (string, error) {
	if metrics := w.c.metricNames(); len(metrics) == 1 {
		return metrics[0], nil
	}
	return "", fmt.Errorf("of which of the metrics %v?", w.c.metricNames())
}

func (w *world) checkCluster(q quantity, metric string, want any) error {
	if q.cluster == nil {
		return fmt.Errorf("the cluster has none")
	}
	return compareNumber(q.cluster(placement.CapacityOfMetric(w.snap, metric)), want)
}

func (w *world) checkNode(q quantity, node, metric string, want any) error {
	v := w.snap.Instances[node]
	if v == nil || q.node == nil {
		return fmt.Errorf("node %s has none", node)
	}
	w.snap.MetricIndex(metric)
	for _, c := range placement.InstanceCapacities(w.snap, v) {
		if c.Metric == metric {
			return compareNumber(q.node(c), want)
		}
	}
	return fmt.Errorf("no metric %s", metric)
}

// compareNumber compares a number or a Boolean. "infinite" is no limit.
func compareNumber(got, want any) error {
	if n, ok := got.(int64); ok && n == placement.Unlimited {
		got = "infinite"
	}
	if n, ok := want.(float64); ok {
		want = int64(n)
	}
	return compareValues(got, want)
}

// checkBalanced compares whether all metrics, or each named one, are in balance.
func checkBalanced(s *session, data json.RawMessage) error {
	w, err := s.loadWorld()
	if err != nil {
		return err
	}
	balances := placement.MetricBalances(w.snap)
	var each map[string]bool
	if err := json.Unmarshal(data, &each); err == nil {
		got := map[string]bool{}
		for _, b := range balances {
			if _, named := each[b.Metric]; named {
				got[b.Metric] = b.Balanced
			}
		}
		return compareValues(got, each)
	}
	var want bool
	if err := decodeExpectation(data, &want); err != nil {
		return err
	}
	out := slices.IndexFunc(balances, func(b placement.Balance) bool { return !b.Balanced })
	if got := out < 0; got != want {
		return fmt.Errorf("got %v, want %v: %+v", got, want, balances)
	}
	return nil
}
