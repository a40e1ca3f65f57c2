package servicefabric_test

import (
	"reflect"
	"testing"

	"berth/shared/servicefabric"
)

// documentedParameters are the parameters of the section PlacementAndLoadBalancing that Service Fabric
// documents (customize Service Fabric cluster settings), with a value that each may have.
var documentedParameters = map[string]string{
	"AffinityConstraintPriority": "1", "ApplicationCapacityConstraintPriority": "1",
	"AutoDetectAvailableResources": "true", "AuxiliaryInBuildThrottlingWeight": "1",
	"AllowMovementOnPausedNodes": "true", "AllowNewReplicaPlacementOnNodeInClusterUpgrade": "true",
	"BalancingDelayAfterNewNode": "120", "BalancingDelayAfterNodeDown": "120",
	"BlockNodeInUpgradeConstraintPriority": "-1", "CapacityConstraintPriority": "1",
	"ConsecutiveDroppedMovementsHealthReportLimit": "20", "ConstraintFixPartialDelayAfterNewNode": "120",
	"ConstraintFixPartialDelayAfterNodeDown": "120", "ConstraintViolationHealthReportLimit": "50",
	"DecisionOperationalTracingEnabled": "false", "DetailedConstraintViolationHealthReportLimit": "200",
	"DetailedDiagnosticsInfoListLimit": "15", "DetailedNodeListLimit": "15", "DetailedPartitionListLimit": "15",
	"DetailedVerboseHealthReportLimit": "200", "EnforceUserServiceMetricCapacities": "false",
	"EnableServiceSensitivity": "true", "EnableZoneDownModeNodeCapacityExpansion": "true",
	"FaultDomainConstraintPriority": "1", "GlobalMovementThrottleCountingInterval": "300",
	"GlobalMovementThrottleThreshold": "900", "GlobalMovementThrottleThresholdForBalancing": "100",
	"GlobalMovementThrottleThresholdForPlacement": "0", "GlobalMovementThrottleThresholdPercentage": "0",
	"GlobalMovementThrottleThresholdPercentageForBalancing": "0", "InBuildThrottlingAssociatedMetric": "",
	"InBuildThrottlingEnabled": "true", "InBuildThrottlingGlobalMaxValue": "0",
	"InterruptBalancingForAllFailoverUnitUpdates": "false", "MinConstraintCheckInterval": "1",
	"MinLoadBalancingInterval": "5", "MinPlacementInterval": "1", "MoveExistingReplicaForPlacement": "false",
	"MovementPerPartitionThrottleCountingInterval": "600", "MovementPerPartitionThrottleThreshold": "40",
	"MoveParentToFixAffinityViolation": "false", "NodeTaggingEnabled": "true", "NodeTaggingConstraintPriority": "0",
	"PartiallyPlaceServices": "false", "PlaceChildWithoutParent": "true", "PlacementConstraintPriority": "1",
	"PlacementConstraintValidationCacheSize": "10000", "PlacementSearchTimeout": "0.5", "PLBRefreshGap": "1",
	"PreferredLocationConstraintPriority": "2", "PreferredPrimaryDomainsConstraintPriority": "1",
	"PreferUpgradedUDs": "false", "PreventTransientOvercommit": "false",
	"RelaxUnlimitedPartitionBasedAutoScaling": "false", "RelaxUnlimitedInstanceBasedAutoScaling": "false",
	"ScaleoutCountConstraintPriority": "1", "SeparateBalancingStrategyPerNodeType": "true",
	"SubclusteringEnabled": "false", "SubclusteringReportingPolicy": "1", "SwapPrimaryThrottlingAssociatedMetric": "",
	"SwapPrimaryThrottlingEnabled": "true", "SwapPrimaryThrottlingGlobalMaxValue": "0", "TraceCRMReasons": "true",
	"UpgradeDomainConstraintPriority": "1", "UseMoveCostReports": "true", "UseSeparateAuxiliaryLoad": "true",
	"UseSeparateAuxiliaryMoveCost": "false", "UseSeparateSecondaryLoad": "true",
	"UseSeparateSecondaryMoveCost": "true", "ValidatePlacementConstraint": "false",
	"ValidatePrimaryPlacementConstraintOnPromote": "true", "VerboseHealthReportLimit": "20",
	"NodeLoadsOperationalTracingEnabled": "true", "NodeLoadsOperationalTracingInterval": "20",
	"ReduceDecisionTracing": "false", "QuorumBasedReplicaDistributionPerUpgradeDomains": "true",
	"QuorumBasedReplicaDistributionPerFaultDomains": "true", "QuorumBasedLogicAutoSwitch": "false",
}

// Each documented parameter either changes the configuration, or is named with the reason why it does
// not. None does both, and none is dropped.
func TestEachDocumentedParameterIsTakenOrNamed(t *testing.T) {
	const section = "PlacementAndLoadBalancing"
	read := func(name, value string) *servicefabric.Cluster {
		t.Helper()
		got, err := servicefabric.Read([]byte(settings([]string{section, name, value})))
		if err != nil {
			t.Fatalf("%s %q: %v", name, value, err)
		}
		return got
	}
	none, err := servicefabric.Read([]byte(settings()))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range documentedParameters {
		got := read(name, value)
		taken := !reflect.DeepEqual(got.Configuration, none.Configuration)
		named := len(got.Ignored) == 1 && got.Ignored[0] == section+"/"+name && got.Reasons[section+"/"+name] != ""
		if taken == named {
			t.Errorf("%s %q: taken is %v, named with the reason is %v (%v)", name, value, taken, named, got.Reasons)
		}
	}
}

// A value that says what Berth does in any case is taken without a word; another one is named.
func TestParametersWithOneValue(t *testing.T) {
	const section = "PlacementAndLoadBalancing"
	for name, value := range map[string]string{"ScaleoutCountConstraintPriority": "0",
		"ApplicationCapacityConstraintPriority": " 0 ", "PartiallyPlaceServices": "True",
		"PreventTransientOvercommit": "true", "UseMoveCostReports": "FALSE"} {
		for _, other := range []bool{false, true} {
			if other {
				value = "2"
			}
			got, err := servicefabric.Read([]byte(settings([]string{section, name, value})))
			if err != nil || (len(got.Ignored) > 0) != other {
				t.Errorf("%s %q: ignored are %v, %v", name, value, got.Ignored, err)
			}
		}
	}
}

// Of the limits for all moves and for balancing the lower one counts. A limit of 0 is none in Service
// Fabric, and stands for Berth's default.
func TestMovesInWindowAreTheLowerLimit(t *testing.T) {
	const section, all, own = "PlacementAndLoadBalancing", "GlobalMovementThrottleThreshold",
		"GlobalMovementThrottleThresholdForBalancing"
	for _, c := range []struct {
		all, own string
		want     int
		ignored  []string
	}{
		{"900", "100", 100, nil}, {"100", "900", 100, nil}, {"0", "50", 50, []string{section + "/" + all}},
		{"50", "0", 50, []string{section + "/" + own}},
	} {
		got, err := servicefabric.Read([]byte(settings([]string{section, all, c.all, own, c.own})))
		if err != nil {
			t.Fatal(err)
		}
		expect(t, "moves in the window", got.Configuration.Rebalancing.MovesInWindow, c.want)
		expect(t, "ignored", got.Ignored, c.ignored)
	}
}

// A parameter that nobody knows is named with the nearest that Berth has.
func TestMisspeltParameter(t *testing.T) {
	const section = "PlacementAndLoadBalancing"
	for name, want := range map[string]string{
		"LoadBalancingEnabld": `the nearest that it has is "LoadBalancingEnabled"`, "SomethingElse": "",
	} {
		got, err := servicefabric.Read([]byte(settings([]string{section, name, "true"})))
		if err != nil || !reflect.DeepEqual(got.Ignored, []string{section + "/" + name}) ||
			got.Reasons[section+"/"+name] != want {
			t.Errorf("%s: ignored %q, %q, %v, want %q", name, got.Ignored, got.Reasons, err, want)
		}
	}
}
