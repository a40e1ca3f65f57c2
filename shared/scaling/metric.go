package scaling

import "fmt"

// Metric is CapacityProviderReservation, and what it is made of (C1).
type Metric struct {
	// Published is false if managed scaling is off, and between the looks of two minutes.
	Published bool
	// Reservation is the percentage of the Running instances (N) that are Needed (M).
	Reservation     float64
	Needed, Running int
}

// reservationFromZero is the metric if tasks wait and no instance runs: the group starts two (C3).
const reservationFromZero = 200

// computeMetric counts the instances that are needed (M) of those that run (N), in percent (C1).
//
// Without waiting tasks, needed are those that are not empty. With waiting tasks, the empty ones
// are needed, too, because they were of no help, and so are those that did not register in time
// unless they are replaced: the group gets others beside them, up to its maximum.
//
// If nothing is needed and nothing runs, the metric is the target. 100 would make a group with a
// lower target start instances, find them empty, remove them, and so on (C8).
func computeMetric(v *view, d demandPlan) Metric {
	m := Metric{Published: !v.Between, Needed: v.running, Running: v.running}
	if v.replacesUnregistered() {
		m.Needed -= v.unregistered
	}
	if !d.hasWaiting() {
		m.Needed = v.running - v.countInstances((*instance).isEmpty)
	}
	m.Needed += d.instances
	switch {
	case m.Running > 0:
		m.Reservation = float64(m.Needed) * 100 / float64(m.Running)
	case m.Needed > 0:
		m.Reservation = reservationFromZero
	default:
		m.Reservation = float64(v.settings.Target)
	}
	if v.Upgrading && v.settings.TargetTracking { // new nodes are empty at first, and the policy must not take them
		m.Reservation = max(m.Reservation, float64(v.settings.Target))
	}
	return m
}

// exceedsTarget reports whether more than the target percentage of the running instances is needed.
func (m Metric) exceedsTarget(target int) bool { return m.Needed*100 > target*m.Running }

// isBelowTarget reports whether less than the target percentage of the running instances is needed.
func (m Metric) isBelowTarget(target int) bool { return m.Needed*100 < target*m.Running }

// describeFor says what the metric is made of, and how it compares with the target.
func (m Metric) describeFor(target int) string {
	return fmt.Sprintf("%d of %d running instances are needed, the target is %d %%", m.Needed, m.Running, target)
}
