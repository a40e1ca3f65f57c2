package spelling

import (
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/snapshot"
)

// CheckConstraints returns the names in rules' constraints that no instance of the cluster has. A
// name that the first instances have costs little: the others are collected only for one that none
// has.
func CheckConstraints(snap *snapshot.Snapshot, r cluster.Rules) []Unknown {
	only := cluster.Rules{Constraints: r.Constraints, NodeConstraint: r.NodeConstraint}
	for _, c := range comparisonsOf(only) {
		if !isKnown(snap, c) {
			return NewNames(snap).CheckRules(only, nil)
		}
	}
	return nil
}

// CheckIdle returns the names in rules' strategy and metrics that no instance has. Such a name
// stops no task, it only has no effect.
func CheckIdle(snap *snapshot.Snapshot, r cluster.Rules) []Unknown {
	return NewNames(snap).CheckRules(cluster.Rules{Strategies: r.Strategies, Metrics: r.Metrics}, nil)
}

// IdleNames returns the names of [CheckIdle], without the nearest ones, which cost more.
func IdleNames(snap *snapshot.Snapshot, r cluster.Rules) (out []string) {
	for _, s := range r.Strategies {
		name, ok := strings.CutPrefix(s.Field, "attribute:")
		if ok && hasAttributes(snap) && !isKnown(snap, constraint.Comparison{Name: name}) {
			out = append(out, s.Field)
		}
	}
	for _, m := range r.Metrics {
		if isIdleMetric(snap, m.Name) {
			out = append(out, m.Name)
		}
	}
	return out
}

// isIdleMetric reports whether other metrics have a capacity somewhere, and this one has none.
func isIdleMetric(snap *snapshot.Snapshot, name string) bool {
	others := false
	for _, t := range snap.Configuration.NodeTypes {
		if _, ok := t.Capacities[name]; ok {
			return false
		}
		others = others || len(t.Capacities) > 0
	}
	for _, v := range snap.Instances {
		if v.Instance == nil || v.IsDeregistered() {
			continue
		}
		if _, ok := v.Registered.Metrics[name]; ok {
			return false
		}
		others = others || len(v.Registered.Metrics) > 0
	}
	return others
}

// hasAttributes reports whether some instance has an attribute.
func hasAttributes(snap *snapshot.Snapshot) bool {
	for _, v := range snap.Instances {
		if v.Instance != nil && !v.IsDeregistered() && len(v.Attributes) > 0 {
			return true
		}
	}
	return false
}

func comparisonsOf(r cluster.Rules) (out []constraint.Comparison) {
	for _, c := range r.Constraints {
		if e, err := constraint.ParseQuery(c.Expression); c.Type == cluster.MemberOf && err == nil {
			out = append(out, e.Comparisons()...)
		}
	}
	if e, err := constraint.ParseProperties(r.NodeConstraint); err == nil {
		out = append(out, e.Comparisons()...)
	}
	return out
}

// isKnown reports whether some instance has the name, with one of the values if the comparison names
// any.
func isKnown(snap *snapshot.Snapshot, c constraint.Comparison) bool {
	for _, v := range snap.Instances {
		if v.Instance == nil || v.IsDeregistered() {
			continue
		}
		value, ok := v.Attributes[c.Name]
		if c.Property {
			value, ok = v.Instance.Property(c.Name, snap.Configuration.NodeTypes)
		}
		if ok && (len(c.Values) == 0 || slices.Contains(c.Values, value)) {
			return true
		}
	}
	return false
}

// List joins what is unknown to one text; empty for nothing.
func List(unknown []Unknown) string {
	var texts []string
	for _, u := range unknown {
		texts = append(texts, u.String())
	}
	return strings.Join(texts, "; ")
}
