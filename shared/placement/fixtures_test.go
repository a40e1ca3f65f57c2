package placement_test

import (
	"berth/shared/cluster"
	"berth/tests/oracle"
)

// capacity is the instance's of a metric.
func capacity(metric string, n int64) oracle.Option {
	return func(i *cluster.Instance) {
		if i.Registered.Metrics == nil {
			i.Registered.Metrics = map[string]int64{}
		}
		i.Registered.Metrics[metric] = n
	}
}

// load is what the task reported of metric m.
func load(n int64) oracle.TaskOption {
	return func(t *cluster.Task) {
		t.Needs = cluster.Resources{}
		t.Reported = map[string]int64{"m": n}
	}
}

func configuration(c cluster.Configuration) *cluster.Configuration {
	c.Head = cluster.Head{Cluster: "c", Rev: 1}
	return &c
}
