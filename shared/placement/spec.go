package placement

import "berth/shared/cluster"

// Spec is what the tasks of one kind need and want. It is made once and never changed: what the engine keeps for it goes
// by its pointer.
type Spec struct {
	Needs      cluster.Resources
	Ports      []cluster.Port
	Attributes []string // that an instance must have: name, or name=value
	// Loads are the metrics that each task starts out with (P9).
	Loads []cluster.Metric
	// Owner's tasks are spread over zones, then over instances (S2); where Group is not empty, only those in it count.
	Owner string
	Group string
	// PerInstance is the most tasks that Owner may have on one instance, those being stopped included; 0 is no limit.
	PerInstance  int
	Strategies   []cluster.PlacementStrategy
	DomainPolicy cluster.DomainPolicy
	Scoring      string
	// Avoid are instances that get no new task; those there stay.
	Avoid    []string
	MoveCost cluster.MoveCost
}
