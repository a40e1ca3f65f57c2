// Package eligibility says what an instance's row decides about tasks, regardless of the tasks that
// run there now: whether the instance is in the cluster and takes tasks, and whether it has the
// attributes and satisfies the constraints that tasks require.
//
// It has no state and no order: an instance is eligible or not. Package placement asks it when it
// creates a spec and reads an instance; the planner of moves and the packing score ask it as well,
// so that all of them agree.
package eligibility

import (
	"fmt"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/snapshot"
)

// InCluster reports whether the instance is known and not deregistered. Others are no candidates,
// and explanations do not count them.
func InCluster(v *snapshot.InstanceView) bool { return v.Instance != nil && !v.IsDeregistered() }

// IsCordoned reports whether the instance takes no new tasks while those on it stay.
func IsCordoned(v *snapshot.InstanceView) bool {
	_, cordoned := v.Attributes[cluster.AttributeUnschedulable]
	return cordoned
}

// TakesTasks reports whether the instance is in the cluster, ACTIVE with its agent connected, and
// not cordoned.
func TakesTasks(v *snapshot.InstanceView) bool {
	return InCluster(v) && v.IsAvailable() && !IsCordoned(v)
}

// UntoleratedTaint returns the first taint of the instance that keeps tasks with these tolerations
// off it; false if there is none.
func UntoleratedTaint(v *snapshot.InstanceView, tolerations []cluster.Toleration) (cluster.Taint, bool) {
	for _, t := range cluster.ReadTaints(v.Attributes[cluster.AttributeTaints]) {
		if !cluster.Tolerates(tolerations, t) {
			return t, true
		}
	}
	return cluster.Taint{}, false
}

// Evicts reports whether tasks with these tolerations must leave the instance, because it has a
// taint NO_EXECUTE that they do not tolerate.
func Evicts(v *snapshot.InstanceView, tolerations []cluster.Toleration) bool {
	return slices.ContainsFunc(cluster.ReadTaints(v.Attributes[cluster.AttributeTaints]), func(t cluster.Taint) bool {
		return t.Effect == cluster.NoExecute && !cluster.Tolerates(tolerations, t)
	})
}

// RequiredAttributes returns the attributes that an instance must have for the definition's tasks
// under the rules, each as "name" or "name=value".
func RequiredAttributes(def *cluster.TaskDefinition, rules *cluster.Rules) []string {
	if rules.External {
		return append(slices.Clone(def.Attributes), cluster.AttributeExternal)
	}
	return def.Attributes
}

// ParseConstraints parses the constraints of the definition and of the rules, all of which must
// hold; the rules' node constraint comes last. distinct reports that tasks may not share an
// instance. The error names the constraint that cannot be read.
func ParseConstraints(
	def *cluster.TaskDefinition, rules *cluster.Rules,
) (out []*constraint.Expression, distinct bool, err error) {
	for _, c := range slices.Concat(def.Constraints, rules.Constraints) {
		if c.Type == cluster.DistinctInstance {
			distinct = true
			continue
		}
		x, err := constraint.ParseQuery(c.Expression)
		if err != nil {
			return nil, false, fmt.Errorf("reading placement constraint %q: %w", c.Expression, err)
		}
		out = append(out, x)
	}
	if rules.NodeConstraint != "" {
		x, err := constraint.ParseProperties(rules.NodeConstraint)
		if err != nil {
			return nil, false, fmt.Errorf("reading node constraint %q: %w", rules.NodeConstraint, err)
		}
		out = append(out, x)
	}
	return out, distinct, nil
}

// MissingAttribute returns the first of the attributes that the instance does not have, or has with
// another value; empty if it has all. The capacity provider may be one of several, as in
// "berth.provider=a|b".
func MissingAttribute(v *snapshot.InstanceView, attributes []string) string {
	for _, required := range attributes {
		name, value, hasValue := strings.Cut(required, "=")
		actual, ok := v.Attributes[name]
		if name == cluster.AttributeExternal {
			ok = v.IsExternal()
		}
		if name == cluster.AttributeProvider {
			actual = v.CapacityProvider()
			ok, hasValue = actual != "" && (!hasValue || slices.Contains(strings.Split(value, "|"), actual)), false
		}
		if !ok || hasValue && actual != value {
			return required
		}
	}
	return ""
}

// MeetsStatic reports whether the instance has the attributes and no other taints than tolerated
// ones, and meets the constraints that depend on its row alone. It ignores constraints that depend
// on the tasks there.
func MeetsStatic(
	v *snapshot.InstanceView, attributes []string, tolerations []cluster.Toleration,
	constraints []*constraint.Expression,
) bool {
	_, tainted := UntoleratedTaint(v, tolerations)
	return !tainted && MissingAttribute(v, attributes) == "" && !slices.ContainsFunc(constraints,
		func(x *constraint.Expression) bool {
			return x.Static() && !x.Matches(v.Facts())
		})
}
