package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/state"
	"berth/tests/oracle"
)

func TestUnusableInstances(t *testing.T) {
	// The six nodes of Service Fabric's example: five on the diagonal, N6 in the fault domain of N1
	// and the upgrade domain of N2.
	var rows []state.Row
	for i, at := range [][2]int{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {0, 1}} {
		rows = append(rows, oracle.Instance(fmt.Sprintf("N%d", i+1),
			oracle.Attribute(cluster.AttributeFaultDomain, fmt.Sprintf("fd:/FD%d", at[0])),
			oracle.Attribute(cluster.AttributeUpgrade, fmt.Sprintf("UD%d", at[1]))))
	}
	five := placement.ServiceSpec{Name: "five", Spec: &placement.Spec{Owner: "five",
		DomainPolicy: cluster.PolicyDifference}, Target: 5}
	picky := placement.ServiceSpec{Name: "picky", Spec: &placement.Spec{Owner: "picky",
		Attributes: []string{"disk=ssd"}}, Target: 1}
	e := placement.New(oracle.SnapshotOf(rows...))
	unused := func(services ...placement.ServiceSpec) (out []string) {
		for _, u := range e.UnusableInstances(services) {
			out = append(out, u.Instance+": "+u.Why)
		}
		return out
	}
	for name, c := range map[string]struct {
		services []placement.ServiceSpec
		want     []string
	}{
		"MaximumDifferenceNeverUsesN6": {[]placement.ServiceSpec{five},
			[]string{"N6: a task there would break the domain rule of five"}},
		"NorDoesOneWhoseConstraintsHoldNowhere": {[]placement.ServiceSpec{five, picky},
			[]string{"N6: a task there would break the domain rule of five"}},
		"AnotherServiceUsesIt": {[]placement.ServiceSpec{five,
			{Name: "any", Spec: &placement.Spec{Owner: "any"}, Target: 1}}, nil},
		"QuorumSafetyDoes": {[]placement.ServiceSpec{{Name: "safe",
			Spec: &placement.Spec{Owner: "safe", DomainPolicy: cluster.PolicyQuorum}, Target: 5}}, nil},
		"NoService": {nil, nil},
	} {
		if got := unused(c.services...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := unused(picky); len(got) != 6 ||
		got[0] != "N1: it does not meet the requirements of any service" {
		t.Errorf("%q", got)
	}
}
