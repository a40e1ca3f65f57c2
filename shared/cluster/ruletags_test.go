package cluster_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

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
func TestReadLoadScaling(t *testing.T) {
	got, err := cluster.ReadLoadScaling(" max=10 lower=100 metric=connections  upper=400.5 min=2 ")
	want := &cluster.LoadScaling{Metric: "connections", Lower: 100, Upper: 400.5, Increment: 1, Min: 2, Max: 10,
		IntervalSeconds: 60}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; expected %+v", got, err, want)
	}
	if got, err := cluster.ReadLoadScaling(""); got != nil || err != nil {
		t.Errorf("an empty text is %+v, %v; expected none", got, err)
	}
	const whole = "metric=m lower=1 upper=2 min=1 max=-1 increment=3 interval=10"
	if got, err := cluster.ReadLoadScaling(whole); err != nil || got.String() != whole {
		t.Errorf("%q is written as %q, %v", whole, got, err)
	}
	for change, expected := range map[string]string{
		"metric=CPU": "CPU is no metric", "lower=-1": "lower of scaling", "lower=NaN": "lower of scaling",
		"lower=2": "below the upper one", "upper=1e16": "upper of scaling", "min=0": "from 1 to",
		"max=-2": "from -1 to",
		"max=0":  "a max of 1 or more", "increment=0": "increment of scaling", "interval=9": "from 10 to 86400",
		"interval=86401": "from 10 to 86400", "step=1": `no member "step"`, "lowr=1": `interval; did you mean "lower"?`,
		"min=1 min=1": "min twice",
		"upper":       "upper of scaling",
	} {
		name, _, _ := strings.Cut(change, "=")
		var kept []string
		for _, member := range strings.Fields(whole) {
			if !strings.HasPrefix(member, name+"=") {
				kept = append(kept, member)
			}
		}
		_, err := cluster.ReadLoadScaling(strings.Join(append(kept, change), " "))
		if cluster.ErrorCode(err) != cluster.CodeInvalidParameter || !strings.Contains(err.Error(), expected) {
			t.Errorf("%s: %v, expected an InvalidParameterException with %q", change, err, expected)
		}
	}
}

// What is written reads as the same.
func TestLoadScalingText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lower := rapid.Float64Range(0, 1e6).Draw(t, "lower")
		want := &cluster.LoadScaling{Metric: "m", Lower: lower,
			Upper:     lower + rapid.Float64Range(0.5, 1e6).Draw(t, "more"),
			Increment: rapid.IntRange(1, 1000).Draw(t, "increment"), Min: rapid.IntRange(1, 50).Draw(t, "min"),
			Max:             rapid.SampledFrom([]int{-1, 50, 1000}).Draw(t, "max"),
			IntervalSeconds: rapid.IntRange(10, 86400).Draw(t, "interval")}
		got, err := cluster.ReadLoadScaling(want.String())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is read as %+v, %v", want, got, err)
		}
	})
}
