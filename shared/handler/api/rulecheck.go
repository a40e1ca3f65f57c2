package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// checkRules refuses rules that cannot be kept, whatever the cluster is like (S3, S4, P7).
func checkRules(r *cluster.Rules, def *cluster.TaskDefinition, strategy cluster.SchedulingStrategy) error {
	if n := len(r.Constraints) + len(def.Constraints); n > cluster.MaxConstraints {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"There are %d placement constraints, those of the task definition included, at most %d are allowed.", n,
			cluster.MaxConstraints)
	}
	if strategy == cluster.Daemon && r.DomainPolicy != "" && r.DomainPolicy != cluster.PolicyNone {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"The daemon scheduling strategy does not support the domain policy %s: it runs one task on each instance.",
			r.DomainPolicy)
	}
	for _, c := range slices.Concat(r.Constraints, def.Constraints) {
		if err := checkExpression("Placement constraint expression", c.Expression, constraint.ParseQuery); err != nil {
			return err
		}
	}
	if err := checkExpression("Constraint", r.NodeConstraint, constraint.ParseProperties); err != nil {
		return err
	}
	if x, err := constraint.ParseProperties(r.NodeConstraint); err == nil && strategy == cluster.Daemon &&
		x.Directives() != (constraint.Directives{}) {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"The daemon scheduling strategy does not support FDPolicy and PlacePolicy: it runs one task on each instance.")
	}
	if r.Scoring != "" && !slices.Contains(placement.Scorings(), r.Scoring) {
		return cluster.Errorf(cluster.CodeInvalidParameter, "Tag %s is %.40q, expected one of %s.",
			cluster.TagStrategy, r.Scoring, strings.Join(placement.Scorings(), ", "))
	}
	return cluster.CheckMetrics(r.Metrics)
}

func checkExpression(what, text string, parse func(string) (*constraint.Expression, error)) error {
	if text == "" {
		return nil
	}
	if _, err := parse(text); err != nil {
		return cluster.Errorf(cluster.CodeInvalidParameter, "%s is not valid: %s", what, err)
	}
	return nil
}

// checkFeasible refuses rules that cannot be kept in this cluster as it is: a new node constraint
// that names a property which no instance has (P7), and tasks whose metrics the cluster has no
// capacity left for (P11). before is the service as it was, nil for a new one: what it was allowed
// before does not stand in the way of other changes.
func (a *Dependencies) checkFeasible(ctx context.Context, s, before *cluster.Service) error {
	if s.Rules.NodeConstraint == "" && len(s.Rules.Metrics) == 0 {
		return nil // nothing that has to be looked up
	}
	snap, err := snapshot.Load(ctx, a.State, s.Cluster)
	if err != nil {
		return err
	}
	if before == nil || before.Rules.NodeConstraint != s.Rules.NodeConstraint {
		if err := checkProperties(snap, s.Rules.NodeConstraint); err != nil {
			return err
		}
	}
	if s.Status != cluster.ServiceActive || !hasInstances(snap) {
		return nil
	}
	return placement.Admit(snap, metricDemand(s), metricDemand(before))
}

// hasInstances reports whether the cluster has instances: of one that is still empty, nothing is
// known.
func hasInstances(snap *snapshot.Snapshot) bool {
	return slices.ContainsFunc(snap.InstancesByIndex(), func(v *snapshot.InstanceView) bool {
		return v != nil && v.Instance != nil && !v.IsDeregistered()
	})
}

func metricDemand(s *cluster.Service) placement.Demand {
	if s == nil {
		return placement.Demand{}
	}
	return placement.Demand{Metrics: s.Rules.Metrics, Count: s.Desired}
}

// checkProperties refuses an expression that can be evaluated on no instance, as it names a
// property that none has. In a cluster without instances nothing is known, and nothing is refused.
func checkProperties(snap *snapshot.Snapshot, expression string) error {
	if expression == "" {
		return nil
	}
	e, err := constraint.ParseProperties(expression)
	if err != nil {
		return cluster.Errorf(cluster.CodeInvalidParameter, "Constraint is not valid: %s", err)
	}
	known := map[string]bool{"NodeName": true}
	var nodes []constraint.Subject
	for _, v := range snap.InstancesByIndex() {
		if v == nil || v.Instance == nil || v.IsDeregistered() {
			continue
		}
		nodes = append(nodes, v.Facts())
		for _, name := range v.PropertyNames() {
			known[name] = true
		}
		for name := range snap.Configuration.NodeTypes[v.NodeType()].Properties {
			known[name] = true
		}
	}
	if len(nodes) == 0 {
		return nil
	}
	if err := e.Validate(slices.Values(nodes)); err != nil {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Constraint %.200q holds on no instance of the cluster: %s. Properties that instances have: %s.",
			expression, err, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return nil
}

// checkNetwork refuses a task definition in awsvpc mode without a network, and any other with one,
// in ECS's words.
func checkNetwork(def *cluster.TaskDefinition, n *cluster.Network) error {
	switch own := def.Needs.ENIs > 0; {
	case own && n == nil:
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Network Configuration must be provided when networkMode 'awsvpc' is specified.")
	case !own && n != nil:
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Network Configuration is not valid for the given networkMode of this task definition.")
	}
	return nil
}

// checkRebalancing refuses zone rebalancing where ECS does (S13): for DAEMON services, a
// maximumPercent of 100 or less, a first strategy other than to spread over the zones, and
// constraints on the zone; and under a domain policy, whose rules say where tasks are.
func checkRebalancing(s *cluster.Service, def *cluster.TaskDefinition) error {
	refuse := func(what string) error {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Availability Zone rebalancing does not support %s. Change it, or set availabilityZoneRebalancing to DISABLED.", what)
	}
	first := append(slices.Clone(s.Rules.Strategies), cluster.PlacementStrategy{Type: "spread", Field: zoneField})[0]
	switch {
	case s.Strategy == cluster.Daemon:
		return refuse("the daemon scheduling strategy")
	case s.MaxPercent <= 100:
		return refuse(fmt.Sprintf("a maximumPercent of %d: it must be above 100", s.MaxPercent))
	case first.Type != "spread" || first.Field != zoneField:
		return refuse(fmt.Sprintf("the first placement strategy %s(%s): it must be to spread over %s", first.Type,
			first.Field, zoneField))
	case hasDomainPolicy(s):
		return refuse("the domain policy " + string(s.Rules.DomainPolicy))
	}
	for _, c := range slices.Concat(s.Rules.Constraints, def.Constraints) {
		if strings.Contains(c.Expression, zoneField) {
			return refuse("placement constraints on " + zoneField)
		}
	}
	return nil
}

// zoneField is the availability zone where strategies and constraints name it.
const zoneField = "attribute:" + cluster.AttributeZone

// hasDomainPolicy reports whether the service itself names a domain policy.
func hasDomainPolicy(s *cluster.Service) bool {
	return s.Rules.DomainPolicy != "" && s.Rules.DomainPolicy != cluster.PolicyNone
}

// keepRebalancing holds a changed service to [rebalanceable]. A domain policy that is new switches
// zone rebalancing off by itself: nobody asked for it, it is ECS's default.
func keepRebalancing(s, before *cluster.Service, def *cluster.TaskDefinition) error {
	if !s.ZoneRebalancing {
		return nil
	}
	if hasDomainPolicy(s) && !hasDomainPolicy(before) {
		s.ZoneRebalancing = false
		return nil
	}
	return checkRebalancing(s, def)
}
