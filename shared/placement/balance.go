package placement

import (
	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// Balance is how evenly the load of a metric lies on the instances that take tasks (P15).
type Balance struct {
	Metric    string
	Min, Max  int64 // load of the emptiest and the fullest instance
	Threshold float64
	Activity  int64
	Balanced  bool
}

// weightOf are the weights of Service Fabric.
var weightOf = map[cluster.Weight]float64{
	cluster.WeightHigh: 1, cluster.WeightMedium: 0.3, cluster.WeightLow: 0.1, "": 0.1, cluster.WeightZero: 0,
}

// MetricBalances says of each metric that the cluster has met whether it is in balance. Its weight is the
// highest that any service gives it.
func MetricBalances(s *snapshot.Snapshot) []Balance {
	weights := map[string]float64{}
	for _, service := range s.Services {
		for _, m := range service.Rules.Metrics {
			weights[m.Name] = max(weights[m.Name], weightOf[m.Weight])
		}
	}
	out := make([]Balance, len(s.MetricNames()))
	for m, name := range s.MetricNames() {
		var loads []int64
		for _, v := range s.InstancesByIndex() {
			if v != nil && eligibility.TakesTasks(v) {
				loads = append(loads, v.Load(m))
			}
		}
		weight, used := weights[name]
		if !used {
			weight = weightOf[""]
		}
		out[m] = AssessBalance(&s.Configuration, name, weight, loads)
	}
	return out
}

// AssessBalance judges the loads of instances: in balance is a metric of no weight, one whose threshold
// is 0 or less (which switches balancing off; 1 where none is set), loads that differ by 1 at most,
// a fullest instance at or below the activity threshold, and a ratio of fullest to emptiest at or
// below a threshold above 1; an emptiest instance without load has no ratio (Service Fabric's
// MetricBalancingThresholds and MetricActivityThresholds).
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
	out.Balanced = weight <= 0 || out.Threshold <= 0 || out.Max <= out.Min+1 || out.Activity > 0 &&
		out.Max <= out.Activity ||
		out.Threshold > 1 && out.Min > 0 && float64(out.Max)/float64(out.Min) <= out.Threshold
	return out
}
