package cluster

import (
	"strconv"
	"strings"
	"time"
)

// PlacementConstraint is a rule that tasks must keep, in ECS's terms: distinctInstance, or memberOf
// with an expression of the cluster query language (S3).
type PlacementConstraint struct {
	Type       string `json:"t"`
	Expression string `json:"e,omitempty"`
}

// The constraint types of the ECS API.
const (
	DistinctInstance = "distinctInstance"
	MemberOf         = "memberOf"
)

// PlacementStrategy is a preference, in ECS's terms: random, spread or binpack, over a field (S3).
type PlacementStrategy struct {
	Type  string `json:"t"`
	Field string `json:"f,omitempty"` // spread: instanceId, host, attribute:NAME; binpack: CPU or MEMORY
}

// The strategy types of the ECS API.
const (
	StrategyRandom  = "random"
	StrategySpread  = "spread"
	StrategyBinpack = "binpack"
)

// DomainPolicy is how a service's tasks are spread over fault and upgrade domains (P1–P6).
type DomainPolicy string

// The domain policies. Without one, ECS's rules apply (S2, S3), and several tasks of the service
// may share an instance.
const (
	// PolicyAdaptive is quorum safe if the target divides evenly, else maximum difference (P5).
	PolicyAdaptive   DomainPolicy = "adaptive"
	PolicyDifference DomainPolicy = "maximum-difference"
	PolicyQuorum     DomainPolicy = "quorum-safe"
	// PolicyNonpacking puts at most one task in a top-level fault domain; upgrade domains are as
	// with adaptive.
	PolicyNonpacking DomainPolicy = "nonpacking"
	// PolicyIgnore ignores fault domains; upgrade domains are as with adaptive.
	PolicyIgnore DomainPolicy = "ignore"
	// PolicyNone applies ECS's rules although the cluster's configuration has a policy.
	PolicyNone DomainPolicy = "none"
)

// DomainPolicies are all policies that a service can name.
var DomainPolicies = []DomainPolicy{PolicyAdaptive, PolicyDifference, PolicyQuorum, PolicyNonpacking, PolicyIgnore,
	PolicyNone}

// Weight is how much a metric counts in balancing: High 1, Medium 0.3, Low 0.1, Zero 0 (P9).
type Weight string

// The weights of Service Fabric.
const (
	WeightHigh   Weight = "High"
	WeightMedium Weight = "Medium"
	WeightLow    Weight = "Low"
	WeightZero   Weight = "Zero"
)

// Weights are all weights, the highest first.
var Weights = []Weight{WeightHigh, WeightMedium, WeightLow, WeightZero}

// Metric is a named load that each task of a service puts on its instance (P9), until the task
// reports its own (P10).
type Metric struct {
	Name   string `json:"n"`
	Load   int64  `json:"l"`
	Weight Weight `json:"w,omitempty"` // empty: Low
}

// MoveCost is how much it costs to move a task (P10): Zero 0, Low 1, Medium 15, High 40, VeryHigh
// 100, or a whole number up to [MostMoveCost]. Tasks with VeryHigh move only to repair what breaks
// a rule, not to balance the cluster.
type MoveCost string

// The move costs of Service Fabric. A service that names none has Low. Service Fabric's number for
// VeryHigh is not published; this one is Berth's.
const (
	CostZero     MoveCost = "Zero"
	CostLow      MoveCost = "Low"
	CostMedium   MoveCost = "Medium"
	CostHigh     MoveCost = "High"
	CostVeryHigh MoveCost = "VeryHigh"
)

// MostMoveCost bounds move costs that are numbers.
const MostMoveCost = 1000

// Units returns the cost of a move in Service Fabric's numbers (P10).
func (c MoveCost) Units() int {
	switch c {
	case "", CostLow:
		return 1
	case CostZero:
		return 0
	case CostMedium:
		return 15
	case CostHigh:
		return 40
	case CostVeryHigh:
		return 100
	}
	if n, err := strconv.Atoi(string(c)); err == nil {
		return n
	}
	return 1
}

// MoveCosts are the move costs with a name, the lowest first.
var MoveCosts = []MoveCost{CostZero, CostLow, CostMedium, CostHigh, CostVeryHigh}

// Rules say where tasks may and should run: those of a service, of a RunTask request, or of a
// standalone task.
type Rules struct {
	Constraints []PlacementConstraint `json:"c,omitempty"`
	Strategies  []PlacementStrategy   `json:"s,omitempty"`
	// NodeConstraint is an expression over node properties (P7), empty for none.
	NodeConstraint string       `json:"n,omitempty"`
	DomainPolicy   DomainPolicy `json:"d,omitempty"`
	Metrics        []Metric     `json:"m,omitempty"`
	MoveCost       MoveCost     `json:"o,omitempty"`
	// Scoring names the order of instances that are otherwise equal; empty for the default.
	Scoring string `json:"g,omitempty"`
	// Providers is a standalone task's capacity provider strategy (S14). A service has its own
	// field.
	Providers []ProviderShare `json:"v,omitempty"`
	// External restricts tasks to instances outside EC2: the launch type EXTERNAL.
	External bool `json:"x,omitempty"`
	// Rebalancing says whether tasks move to balance the cluster (P15); empty: as the cluster says.
	Rebalancing Switch `json:"b,omitempty"`
	// Scaling changes a service's desired count by its load; nil for none.
	Scaling *LoadScaling `json:"l,omitempty"`
	// Tolerations let tasks run on nodes with taints.
	Tolerations []Toleration `json:"t,omitempty"`
	// Affinity names the service beside whose tasks these tasks run, each on an instance that has
	// one of them; empty for none.
	Affinity string `json:"a,omitempty"`
	// Application names the application whose limits bind these tasks; empty for none.
	Application string `json:"p,omitempty"`
}

// Switch is on, off, or empty for what applies otherwise.
type Switch string

// The positions of a switch.
const (
	SwitchOn  Switch = "on"
	SwitchOff Switch = "off"
)

// Switches are all positions of a switch.
var Switches = []Switch{SwitchOn, SwitchOff}

// NodeType has what instances of one type have in common, unless their attributes say otherwise
// (P9, P16).
type NodeType struct {
	Capacities map[string]int64  `json:"c,omitempty"` // per metric
	Properties map[string]string `json:"p,omitempty"`
}

// Priority says what happens to a rule that cannot be kept. A rule of priority 0 always holds.
// Rules of priority 1 and 2 are given up for tasks that would otherwise stay unplaced, 2 first. A
// negative one is ignored.
type Priority int

// Priorities are the constraint priorities of Service Fabric's configuration. With the zero value
// all rules hold.
type Priorities struct {
	Placement     Priority `json:"p,omitempty"`
	Capacity      Priority `json:"c,omitempty"`
	FaultDomain   Priority `json:"f,omitempty"`
	UpgradeDomain Priority `json:"u,omitempty"`
	Affinity      Priority `json:"a,omitempty"`
}

// Configuration is an operator's settings for placement in a cluster (P5, P9–P16). A cluster
// without such a row has the zero value.
type Configuration struct {
	Head
	NodeTypes map[string]NodeType `json:"nt,omitempty"`
	// DomainPolicy applies to services that name none. If it is empty, these follow ECS's rules.
	DomainPolicy DomainPolicy `json:"dp,omitempty"`
	// Buffer and Overbooking are fractions of an instance's capacity per metric (P12, P13); -1
	// overbooks without limit. A metric may be in one of them.
	Buffer      map[string]float64 `json:"nb,omitempty"`
	Overbooking map[string]float64 `json:"ob,omitempty"`
	// A metric is in balance if the load of its fullest instance is at most Balancing times that of
	// the emptiest, or at most Activity. Balancing is 1 for metrics that it does not name; 0 or
	// less switches balancing off.
	Balancing  map[string]float64 `json:"bt,omitempty"`
	Activity   map[string]int64   `json:"at,omitempty"`
	Priorities Priorities         `json:"pr,omitzero"`
	// QuorumFault and QuorumUpgrade force quorum safety on adaptive services; NoSwitch keeps them
	// from choosing it.
	QuorumFault   bool `json:"qf,omitempty"`
	QuorumUpgrade bool `json:"qu,omitempty"`
	NoSwitch      bool `json:"ns,omitempty"`
	// KeepInPlace forbids moving tasks to make room for others (P11).
	KeepInPlace bool `json:"kp,omitempty"`
	// Rebalancing is nil for off, with all defaults.
	Rebalancing *Rebalancing `json:"rb,omitempty"`
	// Applications have the limits of applications, by the name that services give.
	Applications map[string]Application `json:"ap,omitempty"`
}

// An Application is what the services that name it may use together (P12; Service Fabric's
// application capacity).
type Application struct {
	// MinimumNodes is the number of instances for which a reservation is kept, MaximumNodes on how
	// many instances the application's tasks may be; 0 is no limit.
	MinimumNodes int                          `json:"n,omitempty"`
	MaximumNodes int                          `json:"x,omitempty"`
	Metrics      map[string]ApplicationMetric `json:"m,omitempty"`
}

// An ApplicationMetric limits an application's load of one metric: on each instance, and in all; 0
// is no limit. On each instance with a task of the application, Reservation of the instance's
// capacity is the application's alone.
type ApplicationMetric struct {
	NodeCapacity  int64 `json:"c,omitempty"`
	TotalCapacity int64 `json:"t,omitempty"`
	Reservation   int64 `json:"r,omitempty"`
}

// Rebalancing says whether tasks move to balance the cluster, for what, and how fast (P15). A field
// that is zero has its default; see the methods.
type Rebalancing struct {
	Enabled bool `json:"on,omitempty"`
	// Weights replace those that services give to metrics. CPU and MEMORY are balanced only if they
	// have one.
	Weights map[string]float64 `json:"w,omitempty"`
	// SafetyLevels have, per metric, the share of an instance's capacity above which load is to be
	// moved away.
	SafetyLevels map[string]float64 `json:"s,omitempty"`
	// EmptyMetrics are the metrics whose load is gathered on few instances instead of evened out,
	// until EmptyInstances instances, or EmptyShare of those that can use the metrics, have none. With
	// EmptyOverDomains these are in as many fault and upgrade domains as possible. Without either
	// number, load is gathered while the loads of a domain are within the metric's balancing threshold.
	EmptyMetrics     []string `json:"e,omitempty"`
	EmptyInstances   int      `json:"ec,omitempty"`
	EmptyShare       float64  `json:"es,omitempty"`
	EmptyOverDomains bool     `json:"ed,omitempty"`
	// SettleSeconds is how many seconds after a change the balance is looked at, IntervalSeconds
	// how many seconds lie between two looks at least.
	SettleSeconds   int `json:"se,omitempty"`
	IntervalSeconds int `json:"iv,omitempty"`
	// MovesAtOnce is how many tasks of the cluster move at once, ServiceMovesAtOnce how many of one
	// service, and ServiceShare the share of a service's tasks.
	MovesAtOnce        int     `json:"ao,omitempty"`
	ServiceMovesAtOnce int     `json:"sa,omitempty"`
	ServiceShare       float64 `json:"ss,omitempty"`
	// In each window of WindowSeconds, at most MovesInWindow tasks of the cluster and
	// ServiceMovesInWindow of one service begin to move.
	WindowSeconds        int `json:"wi,omitempty"`
	MovesInWindow        int `json:"iw,omitempty"`
	ServiceMovesInWindow int `json:"sw,omitempty"`
}

// The defaults of [Rebalancing]; those of windows are Service Fabric's.
const (
	defaultSettle          = 30
	defaultInterval        = 60
	defaultMovesAtOnce     = 20
	defaultServiceAtOnce   = 5
	defaultServiceShare    = 0.3
	defaultWindow          = 600
	defaultInWindow        = 1000
	defaultServiceInWindow = 50
	maxSeconds             = 7 * 24 * 3600
	maxMovesAtOnce         = 100
	maxBalanceWeight       = 1000
)

// orDefault returns n, or the default for 0.
func orDefault[T int | float64](n, standard T) T {
	if n == 0 {
		return standard
	}
	return n
}

// Rebalances reports whether tasks move to balance the cluster.
func (c *Configuration) Rebalances() bool { return c.Rebalancing != nil && c.Rebalancing.Enabled }

// RebalancingOrDefault returns the settings, all of them defaults if there are none.
func (c *Configuration) RebalancingOrDefault() *Rebalancing {
	if c.Rebalancing == nil {
		return &Rebalancing{}
	}
	return c.Rebalancing
}

// SettleTime returns how long after a change the balance is looked at.
func (r *Rebalancing) SettleTime() time.Duration {
	return time.Duration(orDefault(r.SettleSeconds, defaultSettle)) * time.Second
}

// IntervalTime returns how long it takes from one look at the balance to the next.
func (r *Rebalancing) IntervalTime() time.Duration {
	return time.Duration(orDefault(r.IntervalSeconds, defaultInterval)) * time.Second
}

// WindowTime returns the time that [Rebalancing.WindowLimits] apply to.
func (r *Rebalancing) WindowTime() time.Duration {
	return time.Duration(orDefault(r.WindowSeconds, defaultWindow)) * time.Second
}

// MostAtOnce returns how many tasks of the cluster move at once.
func (r *Rebalancing) MostAtOnce() int { return orDefault(r.MovesAtOnce, defaultMovesAtOnce) }

// MostOfService returns how many of a service's tasks move at once, at least one.
func (r *Rebalancing) MostOfService(tasks int) int {
	share := int(orDefault(r.ServiceShare, defaultServiceShare) * float64(tasks))
	return max(1, min(orDefault(r.ServiceMovesAtOnce, defaultServiceAtOnce), share))
}

// WindowLimits returns how many tasks of the cluster, and of one service, begin to move in a
// window.
func (r *Rebalancing) WindowLimits() (all, ofService int) {
	return orDefault(r.MovesInWindow, defaultInWindow), orDefault(r.ServiceMovesInWindow, defaultServiceInWindow)
}

// PropertyPrefix begins the names of attributes that are node properties (P7).
const PropertyPrefix = "berth.property."

// AttributeNodeType names the instance's node type.
const AttributeNodeType = "berth.node-type"

// FaultDomain returns the instance's place in the hierarchy of fault domains, such as "fd:/dc1/r0"
// (P1). Without the attribute it is the zone, and without a zone it is empty.
func (i *Instance) FaultDomain() string {
	if d := i.Attributes[AttributeFaultDomain]; d != "" {
		return d
	}
	if z := i.Zone(); z != "" {
		return "fd:/" + z
	}
	return ""
}

// UpgradeDomain returns the instance's upgrade domain (P2). Without the attribute, each instance is
// its own.
func (i *Instance) UpgradeDomain() string {
	if d := i.Attributes[AttributeUpgrade]; d != "" {
		return d
	}
	return i.ID
}

// NodeType returns the name of the instance's node type, empty if it has none.
func (i *Instance) NodeType() string { return i.Attributes[AttributeNodeType] }

// Property returns the value of a node property (P7): from the instance's attributes, else from its
// node type, else one that every node has: NodeType, NodeName, FaultDomain or UpgradeDomain.
func (i *Instance) Property(name string, types map[string]NodeType) (string, bool) {
	if v, ok := i.Attributes[PropertyPrefix+name]; ok {
		return v, true
	}
	if v, ok := types[i.NodeType()].Properties[name]; ok {
		return v, true
	}
	switch name {
	case "NodeType":
		return i.NodeType(), i.NodeType() != ""
	case "NodeName":
		return i.ID, true
	case "FaultDomain":
		return i.FaultDomain(), i.FaultDomain() != ""
	case "UpgradeDomain":
		return i.UpgradeDomain(), true
	}
	return "", false
}

// PropertyNames returns the node properties that the instance's attributes define, in no order.
func (i *Instance) PropertyNames() []string {
	var out []string
	for name := range i.Attributes {
		if p, ok := strings.CutPrefix(name, PropertyPrefix); ok {
			out = append(out, p)
		}
	}
	return out
}
