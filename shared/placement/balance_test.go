package placement_test

import (
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/tests/oracle"
)

func TestAssessBalance(t *testing.T) {
	threshold := func(x float64) map[string]float64 { return map[string]float64{"m": x} }
	for name, c := range map[string]struct {
		configuration cluster.Configuration
		weight        float64
		loads         []int64
		want          bool
	}{
		"RatioAtTheThreshold": {cluster.Configuration{Balancing: threshold(1.5)}, 1, []int64{400, 500, 600},
			true},
		"RatioAboveTheThreshold": {cluster.Configuration{Balancing: threshold(1.4)}, 1, []int64{400, 500, 600},
			false},
		"ThresholdZeroSwitchesOff": {cluster.Configuration{Balancing: threshold(0)}, 1, []int64{1, 20000, 60000},
			true},
		"NoThresholdIsOne":   {cluster.Configuration{}, 1, []int64{10, 12}, false},
		"DifferenceOfOne":    {cluster.Configuration{}, 1, []int64{10, 11}, true},
		"NoRatioWithoutLoad": {cluster.Configuration{Balancing: threshold(100)}, 1, []int64{0, 2}, false},
		"NoWeight":           {cluster.Configuration{}, 0, []int64{0, 100}, true},
		"AtTheActivityThreshold": {cluster.Configuration{Activity: map[string]int64{"m": 100}}, 1, []int64{0, 100},
			true},
		"AboveTheActivityThreshold": {cluster.Configuration{Activity: map[string]int64{"m": 100}}, 1, []int64{0, 101},
			false},
		"NoInstances": {cluster.Configuration{}, 1, nil, true},
		"ActivityOfAnotherMetricIsNo": {cluster.Configuration{Activity: map[string]int64{"n": 100}}, 1, []int64{0, 50},
			false},
	} {
		t.Run(name, func(t *testing.T) {
			if b := placement.AssessBalance(&c.configuration, "m", c.weight, c.loads); b.Balanced != c.want {
				t.Fatalf("%+v", b)
			}
		})
	}
}

func TestMetricBalances(t *testing.T) {
	service := &cluster.Service{
		Head:            cluster.Head{Cluster: "c", Rev: 1},
		ServiceIdentity: cluster.ServiceIdentity{Name: "web", Short: "web"},
		ServiceSpec: cluster.ServiceSpec{
			Rules: cluster.Rules{
				Metrics: []cluster.Metric{{Name: "m", Load: 10, Weight: cluster.WeightHigh},
					{Name: "idle", Load: 10, Weight: cluster.WeightZero}},
			},
		},
	}
	t1 := oracle.Task("t1", "a", oracle.Needs(cluster.Resources{}))
	t1.Service = "web"
	s := oracle.SnapshotOf(service, oracle.Instance("a"), oracle.Instance("b"),
		oracle.Instance("drains", oracle.Status(cluster.InstanceDraining)), t1)
	got := map[string]placement.Balance{}
	for _, b := range placement.MetricBalances(s) {
		got[b.Metric] = b
	}
	if b := got["m"]; b.Balanced || b.Min != 0 || b.Max != 10 {
		t.Fatalf("%+v", b)
	}
	if b := got["idle"]; !b.Balanced {
		t.Fatalf("a metric of no weight: %+v", b)
	}
}
