package eligibility_test

import (
	"testing"

	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
	"berth/tests/oracle"
)

// Tasks must leave an instance only for a taint NO_EXECUTE that they do not tolerate.
func TestEvicts(t *testing.T) {
	for _, c := range []struct {
		taints, tolerations string
		want                bool
	}{
		{"", "", false},
		{"a:b:NO_EXECUTE", "", true},
		{"a:b:NO_EXECUTE", "a=b", false},
		{"a:b:NO_EXECUTE", "a=c", true},
		{"a:b:NO_SCHEDULE", "", false},
		{"a:b:NO_SCHEDULE c:d:NO_EXECUTE", "a", true},
		{"a:b:NO_SCHEDULE c:d:NO_EXECUTE", "c", false},
	} {
		tolerations, err := cluster.ReadTolerations(c.tolerations)
		if err != nil {
			t.Fatal(err)
		}
		s := oracle.SnapshotOf(oracle.Instance("i", oracle.Attribute(cluster.AttributeTaints, c.taints)))
		if got := eligibility.Evicts(s.Instances["i"], tolerations); got != c.want {
			t.Errorf("tasks that tolerate %q must leave an instance with %q: %t", c.tolerations, c.taints, got)
		}
	}
}
