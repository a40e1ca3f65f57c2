package placement

import (
	"fmt"
	"math"
	"math/big"

	"berth/shared/cluster"
	"berth/shared/placement/eligibility"
	"berth/shared/snapshot"
)

// Unlimited is a capacity without limit.
const Unlimited = math.MaxInt64

// A Capacity is what a cluster has of one metric, and what is left of it (P11 to P13).
//
// Draining, cordoned and disconnected instances add no capacity. The load of their tasks counts,
// because it has to go somewhere. One instance without a capacity for the metric makes the
// cluster's [Unlimited].
type Capacity struct {
	Metric string
	// Total is the sum of the instances' capacities, Unbuffered the sum of what they take without
	// the buffer. Neither includes overbooking.
	Total, Unbuffered int64
	Load              int64
	// Reserved is what applications have reserved and do not use, on the instances that have their
	// tasks and for those that they still lack of their least number.
	Reserved int64
	// Remaining and RemainingUnbuffered are Total and Unbuffered less the load and Reserved, at
	// least 0.
	Remaining, RemainingUnbuffered int64
	// Violated has the instances with more load than they take without the buffer, in no order.
	Violated []string
}

// An InstanceCapacity is what one instance has of a metric, regardless of its status. Its Total
// includes overbooking.
type InstanceCapacity struct {
	Metric                         string
	Capacity, Unbuffered, Total    int64
	Load                           int64
	Remaining, RemainingUnbuffered int64 // of Total and of Unbuffered, at least 0
	Violated                       bool  // more load than it takes without the buffer
}

// MetricCapacities returns the cluster's capacity of each metric in the snapshot.
func MetricCapacities(s *snapshot.Snapshot) []Capacity {
	out := make([]Capacity, len(s.MetricNames()))
	for m := range out {
		out[m] = CapacityOfMetric(s, s.MetricNames()[m])
	}
	return out
}

// CapacityOfMetric returns the cluster's capacity of one metric. A cluster without instances has
// none.
func CapacityOfMetric(s *snapshot.Snapshot, metric string) Capacity {
	out := Capacity{Metric: metric}
	m := s.MetricIndex(metric)
	for _, v := range s.InstancesByIndex() {
		if v == nil {
			continue
		}
		out.Load = addCapped(out.Load, v.Load(m))
		if !eligibility.TakesTasks(v) {
			continue
		}
		here := instanceCapacity(s, v, m)
		out.Total, out.Unbuffered = addCapped(out.Total, here.Capacity), addCapped(out.Unbuffered, here.Unbuffered)
		if here.Violated {
			out.Violated = append(out.Violated, v.ID)
		}
	}
	out.Reserved = unusedReservations(s, m, "")
	used := addCapped(out.Load, out.Reserved)
	out.Remaining, out.RemainingUnbuffered = remainingOf(out.Total, used), remainingOf(out.Unbuffered, used)
	return out
}

// unusedReservations returns how much of a metric applications other than the named one have
// reserved and do not use: on each instance with their tasks, and for as many more instances as
// they lack of their least number.
func unusedReservations(s *snapshot.Snapshot, metric int, except string) (sum int64) {
	for _, a := range s.Applications() {
		for n := range a.Limits {
			if limit := &a.Limits[n]; limit.Metric == metric && limit.Reservation > 0 && a.Name != except {
				nodes := 0
				for _, v := range s.InstancesByIndex() {
					if v == nil {
						continue
					}
					use := v.UseOf(a)
					sum = addCapped(sum, use.UnusedReservation(n))
					if use.Tasks > 0 {
						nodes++
					}
				}
				sum = addCapped(sum, int64(max(0, a.MinimumNodes-nodes))*limit.Reservation)
			}
		}
	}
	return sum
}

// InstanceCapacities returns the instance's capacity of each metric in the snapshot.
func InstanceCapacities(s *snapshot.Snapshot, v *snapshot.InstanceView) []InstanceCapacity {
	out := make([]InstanceCapacity, len(s.MetricNames()))
	for m := range out {
		out[m] = instanceCapacity(s, v, m)
	}
	return out
}

func instanceCapacity(s *snapshot.Snapshot, v *snapshot.InstanceView, m int) InstanceCapacity {
	limit := v.Limit(m)
	out := InstanceCapacity{
		Metric: s.MetricNames()[m], Capacity: limit.Total, Unbuffered: limit.Unbuffered, Total: limit.Total,
		Load: v.Load(m),
	}
	if _, overbooked := s.Configuration.Overbooking[out.Metric]; overbooked {
		out.Capacity = limit.Unbuffered
	}
	used := addCapped(out.Load, v.ReservedLoad(m))
	out.Remaining, out.RemainingUnbuffered = remainingOf(out.Total, used), remainingOf(out.Unbuffered, used)
	out.Violated = out.Load > out.Unbuffered
	return out
}

// addCapped returns the sum, or Unlimited if it would overflow.
func addCapped(a, b int64) int64 {
	if a > Unlimited-b {
		return Unlimited
	}
	return a + b
}

// remainingOf returns total less used, at least 0. Nothing reduces Unlimited.
func remainingOf(total, used int64) int64 {
	if total == Unlimited {
		return Unlimited
	}
	return max(0, total-used)
}

// A Demand is a number of tasks with the loads of one of them.
type Demand struct {
	Metrics []cluster.Metric
	Count   int
	// Application names the application of the tasks, whose reservations they may use.
	Application string
}

func (d Demand) totalLoad(metric string) *big.Int {
	for _, m := range d.Metrics {
		if m.Name == metric {
			return new(big.Int).Mul(big.NewInt(m.Load), big.NewInt(int64(d.Count)))
		}
	}
	return new(big.Int)
}

// Admit refuses to create or enlarge a service if the cluster's remaining capacity of a metric
// cannot hold what the service adds (P11; Service Fabric's InsufficientClusterCapacity). The error
// is an InvalidParameterException with the numbers.
//
// The buffer is held back, and so is what applications have reserved, except for the service's own.
// Overbooking counts as capacity, because the new tasks may use it (P14).
// A task that moves counts once. Admit adds up the whole cluster and ignores that the remaining
// capacity may be scattered over many instances. A service that wants no more than it had is never
// refused. CPU, memory, GPUs and ports are no metrics: tasks wait for those.
func Admit(s *snapshot.Snapshot, want, had Demand) error {
	for _, m := range want.Metrics {
		required := want.totalLoad(m.Name)
		required.Sub(required, had.totalLoad(m.Name))
		c := CapacityOfMetric(s, m.Name)
		usable, how := c.Total, "without the buffer"
		if buffer := s.Configuration.Buffer[m.Name]; buffer > 0 { // rounded once, for the whole cluster
			usable = cluster.ScaleCapacity(usable, 1-buffer)
		}
		if _, overbooked := s.Configuration.Overbooking[m.Name]; overbooked {
			usable, how = overbookedCapacity(s, s.MetricIndex(m.Name)), "with overbooking"
		}
		if usable == Unlimited {
			continue
		}
		load := c.Load - leavingLoad(s, s.MetricIndex(m.Name))
		reserved := unusedReservations(s, s.MetricIndex(m.Name), want.Application)
		if available := max(0, usable-load-reserved); required.Cmp(big.NewInt(available)) > 0 {
			with := ""
			if reserved > 0 {
				with = fmt.Sprintf(", %d reserved for applications", reserved)
			}
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"The cluster has insufficient capacity of metric %s: %s more required, %d available (capacity %d, %d "+
					"%s, load %d%s).",
				m.Name, required, available, c.Total, usable, how, load, with)
		}
	}
	return nil
}

// overbookedCapacity returns what the instances that take tasks have of a metric, overbooking
// included.
func overbookedCapacity(s *snapshot.Snapshot, metric int) (total int64) {
	for _, v := range s.InstancesByIndex() {
		if v != nil && eligibility.TakesTasks(v) {
			total = addCapped(total, v.Limit(metric).Total)
		}
	}
	return total
}

// leavingLoad returns the load of tasks that are about to leave: those that are being stopped, and
// those whose replacement on another instance already counts.
func leavingLoad(s *snapshot.Snapshot, metric int) (load int64) {
	type key struct{ owner, id string }
	replaced := map[key]bool{}
	for _, v := range s.InstancesByIndex() {
		if v == nil {
			continue
		}
		for _, t := range v.Tasks {
			if t.Replaces != "" && t.IsActive() {
				replaced[key{t.Owner, t.Replaces}] = true
			}
		}
	}
	for _, v := range s.InstancesByIndex() {
		if v == nil {
			continue
		}
		for _, t := range v.Tasks {
			if !t.Foreign && (!t.IsActive() || replaced[key{t.Owner, t.ID}]) {
				s.LoadsOf(t, func(m int, l int64) {
					if m == metric {
						load = addCapped(load, l)
					}
				})
			}
		}
	}
	return load
}
