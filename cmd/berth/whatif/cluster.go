package whatif

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// ClusterAnswer is what a cluster has of each metric, and which instances no service can use.
type ClusterAnswer struct {
	Instances int      `json:"instances"` // those that accept tasks
	Metrics   []Metric `json:"metrics"`
	Unused    []Unused `json:"unused"`
}

// Metric is one metric of the cluster. Amounts without a limit are nil. With a capacity of 100 per
// instance, a node buffer of 20 % and 6 instances, Capacity is 600 and CapacityWithoutBuffer 480
// (P12).
type Metric struct {
	Name                   string `json:"name"`
	Capacity               *int64 `json:"capacity,omitempty"`
	CapacityWithoutBuffer  *int64 `json:"capacityWithoutBuffer,omitempty"`
	Load                   int64  `json:"load"`
	Remaining              *int64 `json:"remaining,omitempty"`
	RemainingWithoutBuffer *int64 `json:"remainingWithoutBuffer,omitempty"`
	// Violated are the instances whose load exceeds their capacity without the node buffer.
	Violated []string `json:"violated"`
	// Emptiest and Fullest are the lowest and the highest load of an instance. The metric is
	// balanced if their ratio is at most BalancingThreshold, or if Fullest is at most
	// ActivityThreshold (P15).
	Emptiest           int64   `json:"emptiest"`
	Fullest            int64   `json:"fullest"`
	BalancingThreshold float64 `json:"balancingThreshold"`
	ActivityThreshold  int64   `json:"activityThreshold"`
	Balanced           bool    `json:"balanced"`
}

// Unused is an instance that the rules allow no service to use.
type Unused struct {
	Instance string `json:"instance"`
	Why      string `json:"why"`
}

// ExplainCluster reports the metrics of a cluster and its unusable instances.
func ExplainCluster(snap *snapshot.Snapshot) (*ClusterAnswer, error) {
	m := newModel(snap)
	out := &ClusterAnswer{Metrics: []Metric{}, Unused: []Unused{}}
	for _, v := range snap.Instances {
		// The snapshot also has views without an instance, for tasks whose instance is unknown.
		if v.Instance == nil || !v.IsAvailable() {
			continue
		}
		if _, cordoned := v.Attributes[cluster.AttributeUnschedulable]; !cordoned {
			out.Instances++
		}
	}
	balances := placement.MetricBalances(snap)
	for n, c := range placement.MetricCapacities(snap) {
		// Both lists have the metrics in the same order.
		b := balances[n]
		slices.Sort(c.Violated)
		out.Metrics = append(out.Metrics, Metric{
			Name: c.Metric, Capacity: unlessUnlimited(c.Total), CapacityWithoutBuffer: unlessUnlimited(c.Unbuffered),
			Load:      c.Load,
			Remaining: unlessUnlimited(c.Remaining), RemainingWithoutBuffer: unlessUnlimited(c.RemainingUnbuffered),
			Violated: append([]string{}, c.Violated...), Emptiest: b.Min, Fullest: b.Max,
			BalancingThreshold: b.Threshold, ActivityThreshold: b.Activity, Balanced: b.Balanced,
		})
	}
	slices.SortFunc(out.Metrics, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	services, err := m.serviceSpecs()
	if err != nil {
		return nil, err
	}
	for _, u := range m.engine.UnusableInstances(services) {
		out.Unused = append(out.Unused, Unused(u))
	}
	return out, nil
}

// unlessUnlimited returns nil for a capacity without a limit.
func unlessUnlimited(n int64) *int64 {
	if n == placement.Unlimited {
		return nil
	}
	return &n
}

// serviceSpecs returns the ACTIVE services with what their tasks ask for, ordered by name, and each
// task set of those that have some.
func (m *model) serviceSpecs() (out []placement.ServiceSpec, err error) {
	for _, name := range slices.Sorted(maps.Keys(m.snap.Services)) {
		s := m.snap.Services[name]
		if s.Status != cluster.ServiceActive {
			continue
		}
		for _, part := range s.Parts() {
			spec, err := m.serviceSpec(part, &cluster.Rules{})
			if err != nil {
				return nil, err
			}
			of := placement.ServiceSpec{Name: name, Spec: spec, Target: s.WantedTasks()}
			if s.HasTaskSets() {
				of.Name += " " + part.Deployment.ID
			}
			out = append(out, of)
		}
	}
	return out, nil
}

// Print writes the answer for people.
func (a *ClusterAnswer) Print(w io.Writer) error {
	p := &printer{w: w}
	verb := "accept"
	if a.Instances == 1 {
		verb = "accepts"
	}
	p.printLine("%s %s tasks.", CountNoun(a.Instances, "instance"), verb)
	for _, m := range a.Metrics {
		p.printMetricLine(&m)
	}
	if len(a.Metrics) == 0 {
		p.printLine("No metric has a load or a capacity.")
	}
	for _, u := range a.Unused {
		p.printLine("Instance %s cannot be used by any service: %s.", u.Instance, u.Why)
	}
	return p.err
}

// printMetricLine writes a metric. Amounts are of the whole cluster; the balance compares single
// instances.
func (p *printer) printMetricLine(m *Metric) {
	text := fmt.Sprintf("%d used, no limit", m.Load)
	if m.Capacity != nil {
		text = fmt.Sprintf("%d of %d used, %d left", m.Load, *m.Capacity, *m.Remaining)
		if *m.CapacityWithoutBuffer != *m.Capacity {
			text += fmt.Sprintf(", %d without the buffer", *m.RemainingWithoutBuffer)
		}
	}
	balance := "in balance"
	if !m.Balanced {
		balance = "not in balance"
	}
	p.printLine("Metric %s: %s; %s (%d to %d per instance).", m.Name, text, balance, m.Emptiest, m.Fullest)
	if len(m.Violated) > 0 {
		p.printLine("  Above their capacity without the buffer: %s.", strings.Join(m.Violated, ", "))
	}
}
