package servicefabric

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"berth/shared/choice"
	"berth/shared/cluster"
)

// placementParameters are the parameters of the section PlacementAndLoadBalancing that Berth has.
// Two of them say the opposite of Berth's own setting.
var placementParameters = map[string]func(c *cluster.Configuration, value string) error{
	"PlacementConstraintPriority": setPriority(
		func(c *cluster.Configuration) *cluster.Priority { return &c.Priorities.Placement }),
	"CapacityConstraintPriority": setPriority(
		func(c *cluster.Configuration) *cluster.Priority { return &c.Priorities.Capacity }),
	"FaultDomainConstraintPriority": setPriority(
		func(c *cluster.Configuration) *cluster.Priority { return &c.Priorities.FaultDomain }),
	"UpgradeDomainConstraintPriority": setPriority(
		func(c *cluster.Configuration) *cluster.Priority { return &c.Priorities.UpgradeDomain }),
	"AffinityConstraintPriority": setPriority(
		func(c *cluster.Configuration) *cluster.Priority { return &c.Priorities.Affinity }),
	"QuorumBasedReplicaDistributionPerFaultDomains": setFlag(
		func(c *cluster.Configuration, is bool) { c.QuorumFault = is }),
	"QuorumBasedReplicaDistributionPerUpgradeDomains": setFlag(
		func(c *cluster.Configuration, is bool) { c.QuorumUpgrade = is }),
	"QuorumBasedLogicAutoSwitch":      setFlag(func(c *cluster.Configuration, is bool) { c.NoSwitch = !is }),
	"MoveExistingReplicaForPlacement": setFlag(func(c *cluster.Configuration, is bool) { c.KeepInPlace = !is }),
	"LoadBalancingEnabled": setRebalancing(func(r *cluster.Rebalancing, value string) (err error) {
		r.Enabled, err = strconv.ParseBool(strings.ToLower(strings.TrimSpace(value)))
		return err
	}),
	"MinLoadBalancingInterval":    setSeconds(func(r *cluster.Rebalancing) *int { return &r.IntervalSeconds }),
	"BalancingDelayAfterNewNode":  setSettleTime,
	"BalancingDelayAfterNodeDown": setSettleTime,
	"MovementPerPartitionThrottleThreshold": setSeconds(
		func(r *cluster.Rebalancing) *int { return &r.ServiceMovesInWindow }),
	"GlobalMovementThrottleThreshold":             setMovesInWindow,
	"GlobalMovementThrottleThresholdForBalancing": setMovesInWindow,
	"GlobalMovementThrottleCountingInterval": setSeconds(
		func(r *cluster.Rebalancing) *int { return &r.WindowSeconds }),
}

// setRebalancing returns a setter of a part of balancing.
func setRebalancing(set func(r *cluster.Rebalancing, value string) error) func(*cluster.Configuration, string) error {
	return func(c *cluster.Configuration, value string) error {
		if c.Rebalancing == nil {
			c.Rebalancing = &cluster.Rebalancing{}
		}
		return set(c.Rebalancing, value)
	}
}

// setSeconds returns a setter of a number of 0 or more, such as a time in seconds. Fractions are
// rounded up.
func setSeconds(of func(r *cluster.Rebalancing) *int) func(*cluster.Configuration, string) error {
	return setRebalancing(func(r *cluster.Rebalancing, value string) error {
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(n >= 0 && n <= math.MaxInt32) {
			return fmt.Errorf("expected a number of 0 or more")
		}
		*of(r) = int(math.Ceil(n))
		return nil
	})
}

// setSettleTime sets how long balancing waits after a change of nodes. Berth waits as long after
// any change, so the longest of the times counts.
func setSettleTime(c *cluster.Configuration, value string) error {
	var one cluster.Configuration
	if err := setSeconds(func(r *cluster.Rebalancing) *int { return &r.SettleSeconds })(&one, value); err != nil {
		return err
	}
	return setRebalancing(func(r *cluster.Rebalancing, _ string) error {
		r.SettleSeconds = max(r.SettleSeconds, one.Rebalancing.SettleSeconds)
		return nil
	})(c, value)
}

// setMovesInWindow sets how many moves balancing may begin within the window. Service Fabric has a limit
// for all moves and one for balancing; the lower one counts, and 0 is no limit of its own.
func setMovesInWindow(c *cluster.Configuration, value string) error {
	var one cluster.Configuration
	if err := setSeconds(func(r *cluster.Rebalancing) *int { return &r.MovesInWindow })(&one, value); err != nil {
		return err
	}
	return setRebalancing(func(r *cluster.Rebalancing, _ string) error {
		if n := one.Rebalancing.MovesInWindow; n > 0 && (r.MovesInWindow == 0 || n < r.MovesInWindow) {
			r.MovesInWindow = n
		}
		return nil
	})(c, value)
}

// setPriority returns a setter of a constraint priority: -1 ignores the constraint, 0 is hard,
// 1 and 2 are soft.
func setPriority(of func(*cluster.Configuration) *cluster.Priority) func(*cluster.Configuration, string) error {
	return func(c *cluster.Configuration, value string) error {
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || n < -1 || n > 2 {
			return fmt.Errorf("expected a priority from -1 to 2")
		}
		*of(c) = cluster.Priority(n)
		return nil
	}
}

// setFlag returns a setter of a Boolean. Service Fabric accepts it in any case.
func setFlag(set func(*cluster.Configuration, bool)) func(*cluster.Configuration, string) error {
	return func(c *cluster.Configuration, value string) error {
		is, err := strconv.ParseBool(strings.ToLower(strings.TrimSpace(value)))
		if err != nil {
			return fmt.Errorf("expected true or false")
		}
		set(c, is)
		return nil
	}
}

// placementSection is the section of fabricSettings with single parameters of the Cluster Resource
// Manager.
const placementSection = "PlacementAndLoadBalancing"

// A fixedParameter is a setting that Berth does not have, because it always acts as one value says.
type fixedParameter struct {
	value string
	why   string // why other values are not taken
}

// fixedParameters are the settings of the section of which one value says what Berth does.
var fixedParameters = map[string]fixedParameter{
	"ScaleoutCountConstraintPriority":       {"0", "the largest number of instances of an application always binds"},
	"ApplicationCapacityConstraintPriority": {"0", "the capacity of an application always binds"},
	"PartiallyPlaceServices":                {"true", "tasks that find an instance start, while the others wait"},
	"PlaceChildWithoutParent":               {"false", "a child waits until its parent has a task"},
	"MoveParentToFixAffinityViolation":      {"true", "a task of the parent moves if its child finds no room there"},
	"PreventTransientOvercommit":            {"true", "a task takes up room in both places while it moves"},
	"ValidatePlacementConstraint":           {"true", "constraints are always validated"},
	"AllowMovementOnPausedNodes":            {"false", "a disconnected or draining instance is no place to balance"},
	"SeparateBalancingStrategyPerNodeType":  {"false", "metrics are balanced over all instances that can use them"},
	"NodeTaggingEnabled":                    {"false", "constraints on attributes do what tags of nodes do"},
	"EnableServiceSensitivity":              {"false", "the move cost VeryHigh keeps a service's tasks in place"},
	"EnableZoneDownModeNodeCapacityExpansion": {"false",
		"capacities stay as they are while a zone is down; overbooking raises them"},
	"UseMoveCostReports":           {"false", "the move cost is the service's; tasks report loads only"},
	"InBuildThrottlingEnabled":     {"false", "the maximumPercent of a service limits the tasks that start at once"},
	"SwapPrimaryThrottlingEnabled": {"false", onlyStateful},
}

const (
	onlyStateful  = "it is about stateful services, and tasks have no primary and no secondaries"
	onlyReports   = "it is about Service Fabric's own reports; events and explanations say what Berth does and why"
	onlyIntervals = "Berth acts on each change, and not at intervals"
	onlySearch    = "Berth's searches are limited by steps, and give the same result each time"
	onlyThrottles = "it has one window for all limits of balancing, and limits that are numbers of moves"
)

// unsupportedParameters are the other documented settings of the section, by the reason why Berth does
// not take them.
var unsupportedParameters = map[string][]string{
	onlyStateful: {
		"AuxiliaryInBuildThrottlingWeight", "PreferredPrimaryDomainsConstraintPriority",
		"SwapPrimaryThrottlingAssociatedMetric", "SwapPrimaryThrottlingGlobalMaxValue", "UseSeparateAuxiliaryLoad",
		"UseSeparateAuxiliaryMoveCost", "UseSeparateSecondaryLoad", "UseSeparateSecondaryMoveCost",
		"ValidatePrimaryPlacementConstraintOnPromote",
	},
	onlyReports: {
		"ConsecutiveDroppedMovementsHealthReportLimit", "ConstraintViolationHealthReportLimit",
		"DecisionOperationalTracingEnabled", "DetailedConstraintViolationHealthReportLimit",
		"DetailedDiagnosticsInfoListLimit", "DetailedNodeListLimit", "DetailedPartitionListLimit",
		"DetailedVerboseHealthReportLimit", "NodeLoadsOperationalTracingEnabled",
		"NodeLoadsOperationalTracingInterval", "ReduceDecisionTracing", "SubclusteringReportingPolicy",
		"TraceCRMReasons", "VerboseHealthReportLimit",
	},
	onlyIntervals: {
		"ConstraintFixPartialDelayAfterNewNode", "ConstraintFixPartialDelayAfterNodeDown",
		"InterruptBalancingForAllFailoverUnitUpdates", "MinConstraintCheckInterval", "MinPlacementInterval",
		"PLBRefreshGap",
	},
	onlySearch: {"PlacementConstraintValidationCacheSize", "PlacementSearchTimeout"},
	onlyThrottles: {
		"GlobalMovementThrottleThresholdPercentage", "GlobalMovementThrottleThresholdPercentageForBalancing",
		"MovementPerPartitionThrottleCountingInterval",
	},
	"placement is not throttled by moves: the account's rate of StartTask limits it": {
		"GlobalMovementThrottleThresholdForPlacement",
	},
	"ECS knows the CPU and memory of each instance": {
		"AutoDetectAvailableResources", "EnforceUserServiceMetricCapacities",
	},
	"an instance that is updated is cordoned and drained first, and its tasks go to updated ones": {
		"AllowNewReplicaPlacementOnNodeInClusterUpgrade", "BlockNodeInUpgradeConstraintPriority", "PreferUpgradedUDs",
	},
	"a task goes where the rules allow and its order of instances says; Berth knows no preferred location": {
		"PreferredLocationConstraintPriority",
	},
	"constraints on attributes do what tags of nodes do": {"NodeTaggingConstraintPriority"},
	"the maximumPercent of a service limits the tasks that start at once": {
		"InBuildThrottlingAssociatedMetric", "InBuildThrottlingGlobalMaxValue",
	},
	"the bounds of a service's load scaling are always numbers of tasks": {
		"RelaxUnlimitedInstanceBasedAutoScaling", "RelaxUnlimitedPartitionBasedAutoScaling",
	},
	"a metric is balanced over the instances that some task with it could use": {"SubclusteringEnabled"},
}

// whyUnsupported has the reasons by name.
var whyUnsupported = func() map[string]string {
	out := map[string]string{}
	for why, names := range unsupportedParameters {
		for _, name := range names {
			out[name] = why
		}
	}
	return out
}()

// addPlacementParameter sets what the parameter of the section says, or notes why Berth does not take it.
func (b *builder) addPlacementParameter(line int, name, value string) error {
	if fixed, known := fixedParameters[name]; known {
		if !strings.EqualFold(strings.TrimSpace(value), fixed.value) {
			b.ignore(placementSection, name)
			b.out.Reasons[placementSection+"/"+name] = fixed.why
		}
		return nil
	}
	set := placementParameters[name]
	if set == nil {
		b.ignore(placementSection, name)
		if why := whyUnsupported[name]; why != "" {
			b.out.Reasons[placementSection+"/"+name] = why
		} else if nearest := choice.Nearest(name, slices.Collect(maps.Keys(placementParameters))); nearest != "" {
			b.out.Reasons[placementSection+"/"+name] = fmt.Sprintf("the nearest that it has is %q", nearest)
		}
		return nil
	}
	if err := set(&b.out.Configuration, value); err != nil {
		return errorAt(line, "%s of section %s is %q: %v", name, placementSection, value, err)
	}
	if n, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && n == 0 && limitParameters[name] {
		b.ignore(placementSection, name)
		b.out.Reasons[placementSection+"/"+name] = "balancing always has this limit; its default stays"
	}
	return nil
}

// limitParameters are the parameters that stand for a default of Berth's if they are 0.
var limitParameters = map[string]bool{
	"MinLoadBalancingInterval": true, "BalancingDelayAfterNewNode": true, "BalancingDelayAfterNodeDown": true,
	"MovementPerPartitionThrottleThreshold": true, "GlobalMovementThrottleThreshold": true,
	"GlobalMovementThrottleThresholdForBalancing": true, "GlobalMovementThrottleCountingInterval": true,
}
