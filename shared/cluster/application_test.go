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
		"may use 5 of metric io on each of 4 nodes, but 19 in all; expected at least 20 in all": of(
			ApplicationMetric{NodeCapacity: 5, TotalCapacity: 19}),
		"has the number -1 for metric io": of(ApplicationMetric{NodeCapacity: -1}),
		"ECS itself counts":               {Metrics: map[string]ApplicationMetric{"CPU": {}}},
	} {
		err := CheckConfiguration(&Configuration{Applications: map[string]Application{"shop": a}})
		if ErrorCode(err) != CodeInvalidParameter || !strings.Contains(err.Error(), why) {
			t.Errorf("got %v, want %q", err, why)
		}
	}
	fits := of(ApplicationMetric{NodeCapacity: 6, TotalCapacity: 24, Reservation: 6})
	anywhere := of(ApplicationMetric{NodeCapacity: 6, TotalCapacity: 12, Reservation: 6})
	anywhere.MaximumNodes = 0
	for _, a := range []Application{fits, anywhere, of(ApplicationMetric{TotalCapacity: 12, Reservation: 6})} {
		if err := CheckConfiguration(&Configuration{Applications: map[string]Application{"shop": a}}); err != nil {
			t.Error(err)
		}
	}
	if err := CheckConfiguration(&Configuration{Applications: map[string]Application{"": fits}}); err == nil {
		t.Error("an application without a name is accepted")
	}
}
