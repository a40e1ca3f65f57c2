package berthapi

import (
	"context"
	"encoding/json"
	"unicode/utf8"

	"berth/shared/cluster"
	"berth/shared/wire/input"
)

// Configuration is [cluster.Configuration] as callers write it, with the names of Service Fabric's
// settings (P3 to P5, P9, P12 to P15).
type Configuration struct {
	NodeTypes                 map[string]NodeType `json:"nodeTypes,omitempty"`
	DomainPolicy              string              `json:"domainPolicy,omitempty"`
	NodeBufferPercentage      map[string]float64  `json:"nodeBufferPercentage,omitempty"`
	NodeOverbookingPercentage map[string]float64  `json:"nodeOverbookingPercentage,omitempty"`
	MetricBalancingThresholds map[string]float64  `json:"metricBalancingThresholds,omitempty"`
	MetricActivityThresholds  map[string]int64    `json:"metricActivityThresholds,omitempty"`
	ConstraintPriorities      *Priorities         `json:"constraintPriorities,omitempty"`
	Rebalancing               *Rebalancing        `json:"rebalancing,omitempty"`
	// Applications have the limits of applications, by the name that services give.
	Applications map[string]Application `json:"applications,omitempty"`

	QuorumPerFaultDomain   bool `json:"quorumBasedReplicaDistributionPerFaultDomains,omitempty"`
	QuorumPerUpgradeDomain bool `json:"quorumBasedReplicaDistributionPerUpgradeDomains,omitempty"`
	// QuorumBasedLogicAutoSwitch and MoveExistingReplicaForPlacement are true unless they are given
	// as false, as in Service Fabric.
	QuorumBasedLogicAutoSwitch      *bool `json:"quorumBasedLogicAutoSwitch,omitempty"`
	MoveExistingReplicaForPlacement *bool `json:"moveExistingReplicaForPlacement,omitempty"`
}

// Rebalancing is [cluster.Rebalancing] as callers write it. A member that is 0 or not given has its
// default.
type Rebalancing struct {
	Enabled              bool               `json:"enabled"`
	Weights              map[string]float64 `json:"weights,omitempty"`
	SafetyLevels         map[string]float64 `json:"safetyLevels,omitempty"`
	EmptyMetrics         []string           `json:"emptyMetrics,omitempty"`
	EmptyInstances       int                `json:"emptyInstances,omitempty"`
	EmptyShare           float64            `json:"emptyShare,omitempty"`
	EmptyOverDomains     bool               `json:"emptyOverDomains,omitempty"`
	SettleSeconds        int                `json:"settleSeconds,omitempty"`
	IntervalSeconds      int                `json:"intervalSeconds,omitempty"`
	MovesAtOnce          int                `json:"movesAtOnce,omitempty"`
	ServiceMovesAtOnce   int                `json:"serviceMovesAtOnce,omitempty"`
	ServiceShare         float64            `json:"serviceShare,omitempty"`
	WindowSeconds        int                `json:"windowSeconds,omitempty"`
	MovesInWindow        int                `json:"movesInWindow,omitempty"`
	ServiceMovesInWindow int                `json:"serviceMovesInWindow,omitempty"`
}

// An Application is [cluster.Application] as callers write it, with the names of Service Fabric's
// application capacity. A member that is 0 or not given is no limit.
type Application struct {
	MinimumNodes int                          `json:"minimumNodes,omitempty"`
	MaximumNodes int                          `json:"maximumNodes,omitempty"`
	Metrics      map[string]ApplicationMetric `json:"metrics,omitempty"`
}

// An ApplicationMetric limits an application's load of one metric.
type ApplicationMetric struct {
	MaximumNodeCapacity      int64 `json:"maximumNodeCapacity,omitempty"`
	TotalApplicationCapacity int64 `json:"totalApplicationCapacity,omitempty"`
	NodeReservationCapacity  int64 `json:"nodeReservationCapacity,omitempty"`
}

// A NodeType is what instances of one type have in common: capacities of metrics, and properties
// that constraints can name (P7).
type NodeType struct {
	Capacities          map[string]int64  `json:"capacities,omitempty"`
	PlacementProperties map[string]string `json:"placementProperties,omitempty"`
}

// Priorities are constraint priorities: 0 makes a rule hard, 1 and 2 let it be relaxed for tasks
// that would stay unplaced, -1 ignores it.
type Priorities struct {
	PlacementConstraint int `json:"placementConstraint"`
	Capacity            int `json:"capacity"`
	FaultDomain         int `json:"faultDomain"`
	UpgradeDomain       int `json:"upgradeDomain"`
	Affinity            int `json:"affinity,omitempty"`
}

// Bounds of a configuration.
const (
	// maxNodeTypes and maxNames bound the node types, and the metrics or properties of one.
	maxNodeTypes    = 100
	maxNames        = 100 // metrics or properties
	maxNodeTypeName = 128 // characters
	// maxApplications bounds the applications.
	maxApplications = 1000
	// maxOwnConfig is in bytes: the row must stay below DynamoDB's 400 KB.
	maxOwnConfig = 300 << 10
	// worstPriority is the highest number of a constraint priority, which binds least.
	worstPriority = 2
)

// ConfigurationRow returns the row of a configuration. Anything impossible is an
// InvalidParameterException.
func ConfigurationRow(clusterName string, in *Configuration) (*cluster.Configuration, error) {
	out := &cluster.Configuration{
		Head: cluster.Head{Cluster: clusterName}, Buffer: in.NodeBufferPercentage,
		Overbooking: in.NodeOverbookingPercentage, Balancing: in.MetricBalancingThresholds,
		Activity: in.MetricActivityThresholds, QuorumFault: in.QuorumPerFaultDomain,
		QuorumUpgrade: in.QuorumPerUpgradeDomain,
		NoSwitch:      in.QuorumBasedLogicAutoSwitch != nil && !*in.QuorumBasedLogicAutoSwitch,
		KeepInPlace:   in.MoveExistingReplicaForPlacement != nil && !*in.MoveExistingReplicaForPlacement,
	}
	if size, _ := json.Marshal(in); len(size) > maxOwnConfig {
		return nil, input.Invalid("The configuration has %d bytes, at most %d are allowed.", len(size), maxOwnConfig)
	}
	// The policy has the same names as in the tag of a service, so the tag's parser reads it.
	var rules cluster.Rules
	if err := cluster.ApplyRuleTag(&rules, cluster.TagDomainPolicy, in.DomainPolicy); err != nil {
		return nil, err
	}
	out.DomainPolicy = rules.DomainPolicy
	if p := in.ConstraintPriorities; p != nil {
		for _, n := range []int{p.PlacementConstraint, p.Capacity, p.FaultDomain, p.UpgradeDomain, p.Affinity} {
			if n > worstPriority || n < -1 {
				return nil, input.Invalid("A constraint priority is %d, but must be between -1 and %d.", n,
					worstPriority)
			}
		}
		out.Priorities = cluster.Priorities{
			Placement: cluster.Priority(p.PlacementConstraint), Capacity: cluster.Priority(p.Capacity),
			FaultDomain: cluster.Priority(p.FaultDomain), UpgradeDomain: cluster.Priority(p.UpgradeDomain),
			Affinity: cluster.Priority(p.Affinity),
		}
	}
	if in.Rebalancing != nil {
		out.Rebalancing = new(cluster.Rebalancing(*in.Rebalancing))
	}
	if len(in.NodeTypes) > maxNodeTypes {
		return nil, input.Invalid("There are %d node types, at most %d are allowed.", len(in.NodeTypes), maxNodeTypes)
	}
	for name, t := range in.NodeTypes {
		if n := utf8.RuneCountInString(name); n == 0 || n > maxNodeTypeName || len(t.Capacities) > maxNames ||
			len(t.PlacementProperties) > maxNames {
			return nil,
				input.Invalid("Node type %.130q must have a name of 1 to %d characters and at most %d capacities "+
					"and properties.", name, maxNodeTypeName, maxNames)
		}
		if out.NodeTypes == nil {
			out.NodeTypes = map[string]cluster.NodeType{}
		}
		out.NodeTypes[name] = cluster.NodeType{Capacities: t.Capacities, Properties: t.PlacementProperties}
	}
	if err := addApplications(out, in.Applications); err != nil {
		return nil, err
	}
	return out, cluster.CheckConfiguration(out)
}

// addApplications adds the applications to the row.
func addApplications(out *cluster.Configuration, in map[string]Application) error {
	if len(in) > maxApplications {
		return input.Invalid("There are %d applications, at most %d are allowed.", len(in), maxApplications)
	}
	for name, a := range in {
		if out.Applications == nil {
			out.Applications = map[string]cluster.Application{}
		}
		row := cluster.Application{MinimumNodes: a.MinimumNodes, MaximumNodes: a.MaximumNodes}
		for metric, m := range a.Metrics {
			if row.Metrics == nil {
				row.Metrics = map[string]cluster.ApplicationMetric{}
			}
			row.Metrics[metric] = cluster.ApplicationMetric{NodeCapacity: m.MaximumNodeCapacity,
				TotalCapacity: m.TotalApplicationCapacity, Reservation: m.NodeReservationCapacity}
		}
		if len(row.Metrics) > maxNames {
			return input.Invalid("Application %.130q has %d metrics, at most %d are allowed.", name, len(row.Metrics),
				maxNames)
		}
		out.Applications[name] = row
	}
	return nil
}

// ConfigurationOf returns a stored configuration as callers see it.
func ConfigurationOf(c *cluster.Configuration) *Configuration {
	out := &Configuration{
		DomainPolicy: string(c.DomainPolicy), NodeBufferPercentage: c.Buffer, NodeOverbookingPercentage: c.Overbooking,
		MetricBalancingThresholds: c.Balancing, MetricActivityThresholds: c.Activity,
		QuorumPerFaultDomain:   c.QuorumFault,
		QuorumPerUpgradeDomain: c.QuorumUpgrade,
	}
	if c.Rebalancing != nil {
		out.Rebalancing = new(Rebalancing(*c.Rebalancing))
	}
	if c.NoSwitch {
		out.QuorumBasedLogicAutoSwitch = new(false)
	}
	if c.KeepInPlace {
		out.MoveExistingReplicaForPlacement = new(false)
	}
	if p := c.Priorities; p != (cluster.Priorities{}) {
		out.ConstraintPriorities = &Priorities{int(p.Placement), int(p.Capacity), int(p.FaultDomain),
			int(p.UpgradeDomain), int(p.Affinity)}
	}
	for name, t := range c.NodeTypes {
		if out.NodeTypes == nil {
			out.NodeTypes = map[string]NodeType{}
		}
		out.NodeTypes[name] = NodeType{Capacities: t.Capacities, PlacementProperties: t.Properties}
	}
	out.Applications = applicationsOf(c)
	return out
}

// applicationsOf returns the stored applications as callers see them.
func applicationsOf(c *cluster.Configuration) map[string]Application {
	var out map[string]Application
	for name, row := range c.Applications {
		a := Application{MinimumNodes: row.MinimumNodes, MaximumNodes: row.MaximumNodes}
		for metric, m := range row.Metrics {
			if a.Metrics == nil {
				a.Metrics = map[string]ApplicationMetric{}
			}
			a.Metrics[metric] = ApplicationMetric{m.NodeCapacity, m.TotalCapacity, m.Reservation}
		}
		if out == nil {
			out = map[string]Application{}
		}
		out[name] = a
	}
	return out
}

// ClusterInput names a cluster, by name or ARN.
type ClusterInput struct {
	Cluster string `json:"cluster"`
}

// PutConfigurationInput replaces a cluster's configuration as a whole.
type PutConfigurationInput struct {
	Cluster       string         `json:"cluster"`
	Configuration *Configuration `json:"configuration"`
	// Revision is the one that DescribeClusterConfiguration has answered. If the configuration has changed
	// since, the call fails with a ConflictException. Without it any configuration is replaced.
	Revision *int64 `json:"revision,omitempty"`
}

// ConfigurationOutput is a cluster's configuration.
type ConfigurationOutput struct {
	Configuration *Configuration `json:"configuration"`
	// Revision grows with each change, from 0 for a cluster without a configuration. The answer to a change
	// has none.
	Revision *int64 `json:"revision,omitempty"`
	// Notes says what of a new configuration has no effect.
	Notes []string `json:"notes,omitempty"`
}

func (s *server) describeConfiguration(ctx context.Context, in *ClusterInput) (*ConfigurationOutput, error) {
	name, err := s.ClusterName(&in.Cluster)
	if err != nil {
		return nil, err
	}
	c, err := s.Configurations.ClusterConfiguration(ctx, name)
	if err != nil {
		return nil, err
	}
	return &ConfigurationOutput{Configuration: ConfigurationOf(c), Revision: &c.Rev}, nil
}

func (s *server) putConfiguration(ctx context.Context, in *PutConfigurationInput) (*ConfigurationOutput, error) {
	name, err := s.ClusterName(&in.Cluster)
	if err != nil {
		return nil, err
	}
	if in.Configuration == nil {
		return nil, input.Invalid("configuration must be given.")
	}
	row, err := ConfigurationRow(name, in.Configuration)
	if err != nil {
		return nil, err
	}
	if in.Revision != nil {
		if *in.Revision < 0 {
			return nil, input.Invalid("revision is %d, but must be 0 or more.", *in.Revision)
		}
		row.Rev = *in.Revision + 1
	}
	if err := s.Configurations.PutConfiguration(ctx, row); err != nil {
		return nil, err
	}
	return &ConfigurationOutput{Configuration: ConfigurationOf(row), Notes: thresholdNotes(row)}, nil
}

// thresholdNotes says that thresholds have no effect, if any is set and balancing is off.
func thresholdNotes(c *cluster.Configuration) []string {
	if len(c.Balancing)+len(c.Activity) == 0 || c.Rebalances() {
		return nil
	}
	return []string{"metricBalancingThresholds and metricActivityThresholds apply to services with the tag " +
		"berth:rebalancing=on, and to berth rebalance: rebalancing.enabled is not true."}
}
