package cluster

import (
	"strings"
	"testing"
)

func TestApplicationLimitsThatContradictEachOther(t *testing.T) {
	of := func(m ApplicationMetric) Application {
		return Application{MinimumNodes: 2, MaximumNodes: 4, Metrics: map[string]ApplicationMetric{"io": m}}
	}
	for why, a := range map[string]Application{
		"has at least 3 nodes and at most 2":            {MinimumNodes: 3, MaximumNodes: 2},
		"expected numbers of 0 or more":                 {MaximumNodes: -1},
		"reserves 6 of metric io on each node, but may": of(ApplicationMetric{NodeCapacity: 5, Reservation: 6}),
		"reserves 6 of metric io on 2 nodes, but may":   of(ApplicationMetric{TotalCapacity: 11, Reservation: 6}),
		"has the number -1 for metric io":               of(ApplicationMetric{NodeCapacity: -1}),
		"ECS itself counts":                             {Metrics: map[string]ApplicationMetric{"CPU": {}}},
	} {
		err := CheckConfiguration(&Configuration{Applications: map[string]Application{"shop": a}})
		if ErrorCode(err) != CodeInvalidParameter || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want %q", err, why)
		}
	}
	fits := of(ApplicationMetric{NodeCapacity: 6, TotalCapacity: 12, Reservation: 6})
	if err := CheckConfiguration(&Configuration{Applications: map[string]Application{"shop": fits}}); err != nil {
		t.Error(err)
	}
	if err := CheckConfiguration(&Configuration{Applications: map[string]Application{"": fits}}); err == nil {
		t.Error("an application without a name is accepted")
	}
}
