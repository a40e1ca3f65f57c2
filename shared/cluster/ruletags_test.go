package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"berth/shared/cluster"
)

// A move cost is one of Service Fabric's names in any case, or a whole number. The names are in the
// order of what they cost, and Low is what a service without a move cost has.
func TestMoveCosts(t *testing.T) {
	for text, units := range map[string]int{
		"": 1, "Zero": 0, "low": 1, "MEDIUM": 15, "High": 40, " veryhigh ": 100, "0": 0, "7": 7, "007": 7, "1000": 1000,
	} {
		var r cluster.Rules
		if err := cluster.ApplyRuleTag(&r, cluster.TagMoveCost, text); err != nil || r.MoveCost.Units() != units {
			t.Errorf("%q is %q of %d units, %v; expected %d units", text, r.MoveCost, r.MoveCost.Units(), err, units)
		}
	}
	if !slices.IsSortedFunc(cluster.MoveCosts, func(x, y cluster.MoveCost) int { return x.Units() - y.Units() }) {
		t.Errorf("%v are not in the order of their units", cluster.MoveCosts)
	}
	for _, text := range []string{"-1", "1001", "1.5", "Highest", "99999999999999999999"} {
		r := cluster.Rules{MoveCost: cluster.CostHigh}
		err := cluster.ApplyRuleTag(&r, cluster.TagMoveCost, text)
		if cluster.ErrorCode(err) != cluster.CodeInvalidParameter || !strings.Contains(err.Error(), "from 0 to 1000") {
			t.Errorf("%q: %v, expected an InvalidParameterException that says what is expected", text, err)
		}
	}
}
