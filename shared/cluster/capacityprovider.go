package cluster

import (
	"strings"
	"time"
)

// CapacityProvider is an Auto Scaling group that Berth sizes by what its cluster's tasks need (C1–C8; ECS API reference,
// CapacityProvider). It belongs to the account and Region, not to a cluster.
type CapacityProvider struct {
	Head
	Name     string `json:"nm"`
	Group    string `json:"gn"` // the Auto Scaling group's name
	GroupARN string `json:"ga"`
	// Protection is managedTerminationProtection ENABLED: instances with tasks are protected from scale-in (C6).
	Protection bool `json:"pr,omitempty"`
	// Draining is managedDraining ENABLED: a lifecycle hook holds an instance that is terminated until its tasks have left.
	Draining bool           `json:"dr,omitempty"`
	Scaling  ManagedScaling `json:"ms"`
}

// ManagedScaling is a capacity provider's managedScaling with what Berth adds to it. Rows have every value filled in:
// [DefaultScaling] has those of who says nothing.
type ManagedScaling struct {
	Enabled bool          `json:"en,omitempty"`
	Target  int           `json:"tc"`           // targetCapacity: percent of the instances that are to be in use, 1 to 100 (C3)
	MinStep int           `json:"mi"`           // minimumScalingStepSize: the fewest instances that waiting tasks add at once (C2)
	MaxStep int           `json:"ma"`           // maximumScalingStepSize: the most that are added at once
	Warmup  time.Duration `json:"wu,omitempty"` // instanceWarmupPeriod: how long a launched instance blocks scaling out (C3)

	// What follows is beyond ECS, and its defaults are what ECS does.

	// UntilRegistered ends an instance's warm-up when it has registered with the cluster, if that is sooner.
	UntilRegistered bool `json:"wr,omitempty"`
	// Datapoints is how many minutes in a row the metric must be below the target before instances are taken away; Share
	// the percentage of the group that may go in one minute, at least one instance; Cooldown how long after scaling out
	// none goes (C5, C8).
	Datapoints int           `json:"dp"`
	Share      int           `json:"sh"`
	Cooldown   time.Duration `json:"cd,omitempty"`
	// TargetTracking leaves the desired capacity to a target tracking policy on the group: Berth only publishes the metric
	// and protects instances (C1).
	TargetTracking bool          `json:"tt,omitempty"`
	Consolidation  Consolidation `json:"co,omitzero"`
}

// Consolidation is how lightly used instances are emptied (C5): those whose tasks fit elsewhere are drained, and then
// terminated.
type Consolidation struct {
	Enabled bool `json:"en,omitempty"`
	// Share is the disruption budget: the percentage of the group's instances, at least one, whose draining may begin
	// within any Window.
	Share  int           `json:"sh,omitempty"`
	Window time.Duration `json:"wi,omitempty"`
}

// DefaultScaling are the defaults of the ECS API (managed scaling itself is not among them), and of what Berth adds.
var DefaultScaling = ManagedScaling{
	Target: 100, MinStep: 1, MaxStep: 10000, Warmup: 300 * time.Second,
	Datapoints: 15, Share: 50, Cooldown: 15 * time.Minute,
	Consolidation: Consolidation{Share: 10, Window: 10 * time.Minute},
}

// AutoScalingGroup is a group as Amazon EC2 Auto Scaling describes it.
type AutoScalingGroup struct {
	Name              string
	Min, Max, Desired int
	Instances         []GroupInstance
}

// GroupInstance is one instance of an Auto Scaling group.
type GroupInstance struct {
	ID        string // EC2's
	Type      string // instance type
	Zone      string
	Lifecycle string // LifecycleState, such as InService or Terminating:Wait
	Protected bool   // from scale-in
	// LaunchedAt is zero where it is not known: the group does not say.
	LaunchedAt time.Time
}

// Running reports whether the group counts the instance as one that runs.
func (i *GroupInstance) Running() bool { return i.Lifecycle == "InService" }

// Launching reports whether the instance is on its way into the group.
func (i *GroupInstance) Launching() bool {
	return i.Lifecycle == "Pending" || strings.HasPrefix(i.Lifecycle, "Pending:")
}

// InstanceSample is what a new instance of a group will be like, as far as one is known that the group has or had: an
// instance type in a zone.
type InstanceSample struct {
	AgentVersion string            `json:"av,omitempty"`
	Registered   Capacity          `json:"r"`
	Attributes   map[string]string `json:"a,omitempty"`
}

// ScalingHistory is what managed scaling remembers of one capacity provider in one cluster from minute to minute; written
// by it alone.
type ScalingHistory struct {
	Head
	Provider string `json:"nm"`
	// Low is how many minutes in a row the metric was below the target, Minute the last that was counted (C5).
	Low    int       `json:"lo,omitempty"`
	Minute time.Time `json:"mi,omitzero"`
	// LastOut and LastIn are when the desired capacity was last raised and lowered (C8).
	LastOut time.Time `json:"ou,omitzero"`
	LastIn  time.Time `json:"in,omitzero"`
	// FirstSeen is when instances of which the launch time is not known were first seen, by EC2 id, while they warm up.
	FirstSeen map[string]time.Time `json:"fs,omitempty"`
	// Samples are what the group's instances are like: the last ones known while there is none.
	Samples []InstanceSample `json:"sm,omitempty"`
	// Drains are those that consolidation began, while they last and count for its budget, the oldest first. Spared are
	// instances that could not be emptied, with when they may be tried again.
	Drains []Drain              `json:"dr,omitempty"`
	Spared map[string]time.Time `json:"sr,omitempty"`
}

// Drain is an instance that consolidation empties.
type Drain struct {
	Instance string    `json:"i"` // container instance id
	At       time.Time `json:"at"`
	// Ended reports that the instance is to take tasks again, Over that nothing is left to do: it counts for the budget only.
	Ended bool `json:"en,omitempty"`
	Over  bool `json:"ov,omitempty"`
}

// Key of each kind of row.

func (p *CapacityProvider) Key() Key { return ProviderKey(p.Name) }
func (h *ScalingHistory) Key() Key   { return ScalingHistoryKey(h.Cluster, h.Provider) }

// ProviderKey and ScalingHistoryKey name rows that are read singly.

func ProviderKey(name string) Key                { return Key{Directory, PrefixProvider + name} }
func ScalingHistoryKey(cluster, name string) Key { return Key{cluster, PrefixScaling + name} }
