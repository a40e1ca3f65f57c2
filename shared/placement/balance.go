package placement

import (
	"maps"

	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// A Balance says how evenly the load of one metric is spread over the instances that take tasks
// (P15).
type Balance struct {
	Metric    string
	Min, Max  int64   // load of the emptiest and the fullest instance
	Threshold float64 // ratio of Max to Min above which the metric is out of balance
	Activity  int64   // load of the fullest instance up to which nothing needs balancing
	Balanced  bool
}

// weightOf has the numbers that Service Fabric gives to the weights of metrics.
var weightOf = map[cluster.Weight]float64{
	cluster.WeightHigh: 1, cluster.WeightMedium: 0.3, cluster.WeightLow: 0.1, "": 0.1, cluster.WeightZero: 0,
}

// MetricWeights returns the weight of each metric in the snapshot: the configuration's, else the
// highest that any service gives it, else Low. CPU and MEMORY have one only if the configuration
// says so.
func MetricWeights(s *snapshot.Snapshot) map[string]float64 {
	weights := map[string]float64{}
	for _, service := range s.Services {
		for _, m := range service.Rules.Metrics {
			weights[m.Name] = max(weights[m.Name], weightOf[m.Weight])
		}
	}
	for _, name := range s.MetricNames() {
		if _, used := weights[name]; !used {
			weights[name] = weightOf[""]
		}
	}
	if r := s.Configuration.Rebalancing; r != nil {
		maps.Copy(weights, r.Weights)
	}
	return weights
}

// MetricBalances returns the balance of each metric in the snapshot, in the order of its metric
// names.
func MetricBalances(s *snapshot.Snapshot) []Balance {
	weights := MetricWeights(s)
	out := make([]Balance, len(s.MetricNames()))
	for m, name := range s.MetricNames() {
		var loads []int64
		for _, v := range s.InstancesByIndex() {
			if v != nil && eligibility.TakesTasks(v) {
				loads = append(loads, v.Load(m))
			}
		}
		out[m] = AssessBalance(&s.Configuration, name, weights[name], loads)
	}
	return out
}

// AssessBalance compares the loads of instances by Service Fabric's MetricBalancingThresholds and
// MetricActivityThresholds. A metric is in balance if any of these holds:
//
//   - its weight is 0
//   - its threshold is 0 or less, which switches balancing off (without a setting it is 1)
//   - the loads differ by 1 at most
//   - no instance has more than the activity threshold
//   - the threshold is above 1, and the fullest instance has at most that many times the load of
//     the emptiest
//
// An emptiest instance without load has no ratio: the last rule does not apply. For example, loads
// 10 and 30 with threshold 3 are in balance; loads 0 and 30 are not.
func AssessBalance(c *cluster.Configuration, metric string, weight float64, loads []int64) Balance {
	out := Balance{Metric: metric, Threshold: 1, Activity: c.Activity[metric]}
	if t, set := c.Balancing[metric]; set {
		out.Threshold = t
	}
	for n, load := range loads {
		out.Max = max(out.Max, load)
		if n == 0 || load < out.Min {
			out.Min = load
		}
	}
	out.Balanced = weight <= 0 || out.Threshold <= 0 || out.Max <= out.Min+1 ||
		out.Activity > 0 && out.Max <= out.Activity ||
		out.Threshold > 1 && float64(out.Max) <= out.Threshold*float64(out.Min)
	return out
}
