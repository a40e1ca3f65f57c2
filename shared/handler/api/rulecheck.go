package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
	"berth/shared/snapshot"
)

// checkRules refuses rules that no cluster could satisfy, as InvalidParameterException: too many
// constraints, expressions with syntax errors, domain policies and policy directives for DAEMON
// services, unknown scoring functions and invalid metrics (S3, S4, P7, P9).
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
			"The daemon scheduling strategy does not support FDPolicy and PlacePolicy: it runs one task on each "+
				"instance.")
	}
	if r.Scoring != "" && !slices.Contains(placement.ScoringNames(), r.Scoring) {
		return cluster.Errorf(cluster.CodeInvalidParameter, "Tag %s is %.40q, %s", cluster.TagStrategy, r.Scoring,
			choice.Expected(r.Scoring, placement.ScoringNames()))
	}
	if err := checkScaling(r, strategy); err != nil {
		return err
	}
	for tag, value := range map[string]string{cluster.TagAffinity: r.Affinity, cluster.TagApplication: r.Application} {
		if strategy == cluster.Daemon && value != "" {
			return cluster.Errorf(cluster.CodeInvalidParameter,
				"The daemon scheduling strategy does not support the tag %s: it runs one task on each instance.", tag)
		}
	}
	return cluster.CheckMetrics(r.Metrics)
}

// checkAffinity refuses an affinity to a service that does not exist, or that has an affinity
// itself, and one of a service that others are attached to: as in Service Fabric there are no
// chains.
func checkAffinity(snap *snapshot.Snapshot, s *cluster.Service) error {
	name := s.Rules.Affinity
	if name == "" {
		return nil
	}
	parent := snap.Services[name]
	attached := slices.DeleteFunc(slices.Sorted(maps.Keys(snap.AttachedServices())), func(other string) bool {
		return snap.Services[other].Rules.Affinity != s.Name || snap.Services[other].Status != cluster.ServiceActive
	})
	switch {
	case name == s.Name:
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Tag %s of service %s names the service itself, expected another one.", cluster.TagAffinity, s.Name)
	case parent == nil || parent.Status != cluster.ServiceActive:
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Tag %s names %.260q, expected an ACTIVE service of the cluster%s", cluster.TagAffinity, name,
			choice.End(name, otherServices(snap, s.Name)))
	case parent.Rules.Affinity != "":
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Tag %s names service %s, which has an affinity to service %s itself, expected a service without one.",
			cluster.TagAffinity, name, parent.Rules.Affinity)
	case len(attached) > 0:
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Service %s cannot have an affinity (tag %s): service %s has one to it.", s.Name, cluster.TagAffinity,
			attached[0])
	}
	return nil
}

// otherServices returns the names of the cluster's ACTIVE services other than this one.
func otherServices(snap *snapshot.Snapshot, this string) (names []string) {
	for name, s := range snap.Services {
		if s.Status == cluster.ServiceActive && name != this {
			names = append(names, name)
		}
	}
	return names
}

// metricNames returns the names of the metrics that the rules have.
func metricNames(r *cluster.Rules) (names []string) {
	for _, m := range r.Metrics {
		names = append(names, m.Name)
	}
	return names
}

// checkScaling refuses scaling by load where it cannot apply: for DAEMON services, and by a metric
// that the tasks do not have.
func checkScaling(r *cluster.Rules, strategy cluster.SchedulingStrategy) error {
	switch {
	case r.Scaling == nil:
		return nil
	case strategy == cluster.Daemon:
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"The daemon scheduling strategy does not support the tag %s: it runs one task on each instance.",
			cluster.TagScaling)
	case !slices.ContainsFunc(r.Metrics, func(m cluster.Metric) bool { return m.Name == r.Scaling.Metric }):
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Tag %s names the metric %.130s, expected one of those of the service (%s)%s", cluster.TagScaling,
			r.Scaling.Metric, cluster.TagMetrics, choice.End(r.Scaling.Metric, metricNames(r)))
	}
	return nil
}

// checkExpression refuses an expression that does not parse. what names it in the error. An empty
// expression passes.
func checkExpression(what, text string, parse func(string) (*constraint.Expression, error)) error {
	if text == "" {
		return nil
	}
	if _, err := parse(text); err != nil {
		return cluster.Errorf(cluster.CodeInvalidParameter, "%s is not valid: %s", what, err)
	}
	return nil
}

// checkFeasible refuses rules that this cluster cannot satisfy now: a new node constraint with a
// property that no instance has (P7), a new affinity to a service that it cannot be to, and tasks
// whose metrics find no remaining capacity (P11).
// before is the service before the change, nil for a new one. What was accepted before does not
// stand in the way of other changes.
//
// It loads the whole snapshot, so services with none of these skip it.
func (a *Dependencies) checkFeasible(ctx context.Context, s, before *cluster.Service) error {
	if s.Rules.NodeConstraint == "" && s.Rules.Affinity == "" && len(s.Rules.Metrics) == 0 {
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
	if before == nil || before.Rules.Affinity != s.Rules.Affinity {
		if err := checkAffinity(snap, s); err != nil {
			return err
		}
	}
	if s.Status != cluster.ServiceActive || !hasInstances(snap) {
		return nil
	}
	return placement.Admit(snap, metricDemand(s), metricDemand(before))
}

// hasInstances reports whether the cluster has instances. About an empty cluster, which managed
// scaling may yet fill, nothing is known, so nothing is refused there.
func hasInstances(snap *snapshot.Snapshot) bool {
	return slices.ContainsFunc(snap.InstancesByIndex(), func(v *snapshot.InstanceView) bool {
		return v != nil && v.Instance != nil && !v.IsDeregistered()
	})
}

// metricDemand returns what the service's tasks need of each metric together; nothing for no
// service.
func metricDemand(s *cluster.Service) placement.Demand {
	if s == nil {
		return placement.Demand{}
	}
	return placement.Demand{Metrics: s.Rules.Metrics, Count: s.WantedTasks(), Application: s.Rules.Application}
}

// checkProperties refuses an expression that can hold on no instance because it names a property
// that none has. Otherwise a misspelt name would leave all tasks unplaced without a word. An empty
// cluster refuses nothing.
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

// checkNetwork refuses a task definition in awsvpc mode without a network configuration, and one in
// any other mode with one. The texts are ECS's.
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

// checkRebalancing refuses zone rebalancing where ECS does (S13): for DAEMON services, with a
// maximumPercent of 100 or less, if the first strategy does not spread over zones, or with
// constraints on the zone. It also refuses it under a domain policy, whose rules already say where
// tasks are.
func checkRebalancing(s *cluster.Service, def *cluster.TaskDefinition) error {
	refuse := func(what string) error {
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"Availability Zone rebalancing does not support %s. Change it, or set availabilityZoneRebalancing to "+
				"DISABLED.", what)
	}
	// Without strategies ECS spreads over the zones first.
	first := append(slices.Clone(s.Rules.Strategies), cluster.PlacementStrategy{Type: "spread", Field: zoneField})[0]
	switch {
	case s.Strategy == cluster.Daemon: // ECS's words
		return cluster.Errorf(cluster.CodeInvalidParameter,
			"The service couldn't be created because Availability Zone Rebalancing does not support DAEMON as "+
				"scheduling strategy. Update scheduling strategy and try again.")
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

// zoneField is how strategies and constraints name the availability zone.
const zoneField = "attribute:" + cluster.AttributeZone

// hasDomainPolicy reports whether the service itself names a domain policy. The cluster's default
// does not count.
func hasDomainPolicy(s *cluster.Service) bool {
	return s.Rules.DomainPolicy != "" && s.Rules.DomainPolicy != cluster.PolicyNone
}

// keepRebalancing checks zone rebalancing of a changed service. If the change adds a domain policy,
// rebalancing is switched off instead of refusing the change: it is ECS's default, and the caller
// did not ask for it.
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
