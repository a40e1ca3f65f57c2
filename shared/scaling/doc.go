// Package scaling decides how many instances the Auto Scaling group of a capacity provider should
// have (C1 to C8). It also decides which instances must be protected from scale-in, which are
// emptied and terminated, and says why.
//
// [Decide] takes an [Input]: the cluster, the group, the waiting tasks, what was remembered, and
// the time. It returns a [Decision]. The package carries out nothing and reads no clock.
//
// Decide computes its answer in this order; each step is a function of the [Input] and of the
// results before it:
//
//	instances.go    what each instance of the group counts as
//	protection.go   which instances the group must not take (C6)
//	launchmodel.go  what the next instances of the group are like (C2)
//	demand.go       how many more instances the waiting tasks need (C2)
//	metric.go       CapacityProviderReservation (C1)
//	size.go         the desired capacity (C3, C5, C8)
//	replace.go      instances that never registered (C5)
//	drains.go       the instances that consolidation is emptying
//	consolidate.go  which further instances can be emptied (C5)
//	explain.go      why each instance stays, or may go
//
// Example: a group with a target of 100 % runs 4 instances, one of them without tasks, and 30 tasks
// wait of which 10 fit on one instance. None of the 30 fits now, so 3 instances are needed besides
// the 4: the metric is 7/4 = 175 %, and the desired capacity becomes 7.
//
// Invariants:
//   - Desired is within the group's minimum and maximum, which never change (C7).
//   - An instance that runs a task is neither released from protection nor terminated.
//   - The snapshot is unchanged afterwards, although placements are tried on it.
//
// The managed-scaling function calls Decide for each capacity provider once a minute. The
// node-group-upgrade function calls [WhyNoRoom], the API calls [AdmitWaiting], and "berth
// consolidate --dry-run" calls [PlanConsolidation].
package scaling
