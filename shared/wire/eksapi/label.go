package eksapi

import (
	"regexp"
	"slices"
	"strings"

	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/wire/input"
)

// Lengths of a label's key and value (EKS API reference, CreateNodegroup).
const (
	maxLabelKey   = 63
	maxLabelValue = 63
)

// Bounds of taints (EKS API reference, Taint; Kubernetes, labels).
const maxTaints = 50

var (
	taintKeys   = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,63}$`)
	taintValues = regexp.MustCompile(`^[A-Za-z0-9_.-]{0,63}$`)
)

// reservedLabels are the prefixes of attributes that ECS, EKS and Berth write themselves.
var reservedLabels = []string{"ecs.", "berth.", "eks.amazonaws.com/"}

// checkLabels checks labels against EKS's lengths and against the characters that attributes of
// container instances can have (ECS API reference, Attribute), because nodes carry their labels as
// attributes. How many labels are possible depends on the node group.
func checkLabels(labels map[string]string) error {
	for k, v := range labels {
		switch {
		case slices.ContainsFunc(reservedLabels, func(prefix string) bool { return strings.HasPrefix(k, prefix) }):
			return input.Invalid("Label %.100q cannot have a reserved prefix: %s.", k,
				strings.Join(reservedLabels, ", "))
		case len(k) > maxLabelKey || len(v) > maxLabelValue:
			return input.Invalid("The label %.100q has more than %d characters, or its value has.", k, maxLabelKey)
		case !input.IsAttributeName(k) || !attributeValues.MatchString(v):
			return input.Invalid("The label %.100q or its value %.100q cannot be an attribute of a container instance.",
				k, v)
		}
	}
	return nil
}

// labelsChange has the labels that a node group gets and loses.
type labelsChange struct {
	Set    map[string]string `json:"addOrUpdateLabels"`
	Remove []string          `json:"removeLabels"`
}

// A taint is a taint as the API has it.
type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// taintsChange has the taints that a node group gets and loses.
type taintsChange struct {
	Set    []taint `json:"addOrUpdateTaints"`
	Remove []taint `json:"removeTaints"`
}

// parseTaints checks taints; member is where they are.
func parseTaints(member string, taints []taint) (out []cluster.Taint, err error) {
	if len(taints) > maxTaints {
		return nil, input.Invalid("%s has %d items, but at most %d are possible.", member, len(taints), maxTaints)
	}
	for _, t := range taints {
		x := cluster.Taint{Key: t.Key, Value: t.Value, Effect: cluster.TaintEffect(t.Effect)}
		switch {
		case !taintKeys.MatchString(t.Key):
			return nil, input.Invalid("%.100q cannot be the key of a taint.", t.Key)
		case !taintValues.MatchString(t.Value):
			return nil, input.Invalid("%.100q cannot be the value of taint %s.", t.Value, t.Key)
		case t.Effect == "PREFER_NO_SCHEDULE":
			return nil, input.Invalid("The effect PREFER_NO_SCHEDULE of taint %s is not supported: a taint here "+
				"decides where tasks may run, not where they would rather run.", t.Key)
		case !slices.Contains(cluster.TaintEffects, x.Effect):
			return nil, input.Invalid("The effect of taint %s is %.40q, %s", t.Key, t.Effect,
				choice.Expected(t.Effect, cluster.TaintEffects))
		case isTainted(out, x):
			return nil, input.Invalid("%s has the key %s twice with the effect %s.", member, t.Key, t.Effect)
		}
		out = append(out, x)
	}
	return out, nil
}

// isTainted reports whether there is a taint of the same key and effect. EKS knows taints by both.
func isTainted(taints []cluster.Taint, x cluster.Taint) bool {
	return slices.ContainsFunc(taints, func(t cluster.Taint) bool { return t.Key == x.Key && t.Effect == x.Effect })
}

// parseLabelsChange reads a change of labels and taints, nil for none. Nothing can be set and
// removed at once, because the result would depend on the order.
func (in *configInput) parseLabelsChange() (*cluster.LabelsChange, error) {
	out := new(cluster.LabelsChange)
	if c := in.Labels; c != nil {
		if err := c.check(); err != nil {
			return nil, err
		}
		out.Set, out.Remove = c.Set, c.Remove
	}
	if c := in.Taints; c != nil {
		var err error
		if out.SetTaints, err = parseTaints("addOrUpdateTaints", c.Set); err != nil {
			return nil, err
		}
		if out.RemoveTaints, err = parseTaints("removeTaints", c.Remove); err != nil {
			return nil, err
		}
		for _, t := range out.RemoveTaints {
			if isTainted(out.SetTaints, t) {
				return nil,
					input.Invalid("The taint %s with the effect %s is in both addOrUpdateTaints and removeTaints.",
						t.Key, t.Effect)
			}
		}
	}
	if len(out.Set)+len(out.Remove)+len(out.SetTaints)+len(out.RemoveTaints) == 0 {
		return nil, nil
	}
	return out, nil
}

// check checks the labels of a change.
func (c *labelsChange) check() error {
	if err := checkLabels(c.Set); err != nil {
		return err
	}
	for _, name := range c.Remove {
		if _, set := c.Set[name]; set {
			return input.Invalid("The label %.100q is in both addOrUpdateLabels and removeLabels.", name)
		}
		if name == "" || len(name) > maxLabelKey {
			return input.Invalid("removeLabels has %.100q, but the name of a label has 1 to %d characters.", name,
				maxLabelKey)
		}
	}
	return nil
}

// taintShapes returns taints as the API shows them.
func taintShapes(taints []cluster.Taint) (out []taint) {
	for _, t := range taints {
		out = append(out, taint{t.Key, t.Value, string(t.Effect)})
	}
	return out
}
