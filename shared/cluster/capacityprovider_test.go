package cluster_test

import (
	"testing"

	"berth/shared/cluster"
)

func TestGroupInstanceLifecycle(t *testing.T) {
	for lifecycle, want := range map[string][2]bool{ // running, launching
		"InService": {true, false}, "Pending": {false, true}, "Pending:Wait": {false, true},
		"Pending:Proceed": {false, true},
		"Terminating":     {}, "Terminating:Wait": {}, "Terminated": {}, "Standby": {}, "EnteringStandby": {},
		"Detaching":      {},
		"Warmed:Pending": {}, "Warmed:Running": {}, "": {},
	} {
		i := cluster.GroupInstance{Lifecycle: lifecycle}
		expect(t, lifecycle, [2]bool{i.IsInService(), i.IsLaunching()}, want)
	}
}
