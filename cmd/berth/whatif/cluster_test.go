package whatif_test

import (
	"fmt"
	"testing"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/state"
)

// sixNodes is Service Fabric's example of a sixth node that the maximum difference rule never uses,
// with a metric that has a buffer.
func sixNodes(policy cluster.DomainPolicy) []state.Row {
	rules := cluster.Rules{DomainPolicy: policy, Metrics: []cluster.Metric{{Name: "io", Load: 30}}}
	out := []state.Row{
		definition("web", cluster.Resources{CPU: 256 * units, Memory: 512}), service("web", 5, rules),
		&cluster.Configuration{
			Head: head(), Buffer: map[string]float64{"io": 0.2}, Balancing: map[string]float64{"io": 2},
			Activity: map[string]int64{"io": 10},
		},
	}
	for n, at := range [][2]int{{0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}, {0, 1}} {
		i := instance(fmt.Sprint("N", n+1), "a", map[string]int64{"io": 100})
		i.Attributes[cluster.AttributeFaultDomain] = fmt.Sprintf("fd:/FD%d", at[0])
		i.Attributes[cluster.AttributeUpgrade] = fmt.Sprint("UD", at[1])
		out = append(out, i)
		if n < 5 {
			out = append(out, task("web", n, i.ID))
		}
	}
	return out
}

func whyCluster(t *testing.T, rows []state.Row) string {
	t.Helper()
	s := snapshotOf(t, rows)
	before := hash(t, s)
	a, err := whatif.ExplainCluster(s)
	if err != nil {
		t.Fatal(err)
	}
	if hash(t, s) != before {
		t.Error("the question changed the cluster")
	}
	return text(t, a.Print)
}

func TestExplainCluster(t *testing.T) {
	t.Run("MaximumDifferenceNeverUsesN6", func(t *testing.T) {
		golden(t, whyCluster(t, sixNodes(cluster.PolicyDifference)), `
6 instances accept tasks.
Metric io: 150 of 600 used, 450 left, 330 without the buffer; not in balance (0 to 30 per instance).
Instance N6 cannot be used by any service: a task there would break the domain rule of web.
`)
	})
	t.Run("QuorumSafetyDoes", func(t *testing.T) {
		rows := sixNodes(cluster.PolicyQuorum)
		rows = append(rows, instance("N7", "a", nil))
		rows[len(rows)-1].(*cluster.Instance).Attributes[cluster.AttributeUnschedulable] = ""
		overloaded := rows[4].(*cluster.Task)
		overloaded.Reported = map[string]int64{"io": 90}
		golden(t, whyCluster(t, rows), `
6 instances accept tasks.
Metric io: 210 of 600 used, 390 left, 270 without the buffer; not in balance (0 to 90 per instance).
  Above their capacity without the buffer: N1.
`)
	})
	t.Run("WithoutMetrics", func(t *testing.T) {
		golden(t, whyCluster(t, rows()), `
3 instances accept tasks.
No metric has a load or a capacity.
`)
	})
	t.Run("WithoutLimit", func(t *testing.T) {
		rows := append(sixNodes(cluster.PolicyQuorum), instance("N7", "a", nil))
		golden(t, whyCluster(t, rows), `
7 instances accept tasks.
Metric io: 150 used, no limit; not in balance (0 to 30 per instance).
`)
	})
}
