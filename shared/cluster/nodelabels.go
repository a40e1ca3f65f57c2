package cluster

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"berth/shared/choice"
)

// NodeLabels says what the nodes of a node group are labelled with.
type NodeLabels struct {
	Labels map[string]string `json:"lb,omitempty"`
	// RemovedLabels names labels that nodes of a group that Berth makes may come with although they
	// were removed: an agent that restarts reports those that its instance was launched with. The
	// last one was removed last.
	RemovedLabels []string `json:"rl,omitempty"`
	Taints        []Taint  `json:"tn,omitempty"`
}

// maxRemovedLabels bounds NodeLabels.RemovedLabels. It is the number of labels that EKS allows.
const maxRemovedLabels = 50

// LabelsChange is a change of a node group's labels and taints. Of a taint that is removed, the
// value does not matter.
type LabelsChange struct {
	Set          map[string]string `json:"s,omitempty"`
	Remove       []string          `json:"r,omitempty"`
	SetTaints    []Taint           `json:"st,omitempty"`
	RemoveTaints []Taint           `json:"rt,omitempty"`
}

// ApplyTo returns the labels after the change. What is not there may be removed.
func (c *LabelsChange) ApplyTo(l NodeLabels) NodeLabels {
	next := map[string]string{}
	maps.Copy(next, l.Labels)
	maps.Copy(next, c.Set)
	for _, name := range c.Remove {
		delete(next, name)
	}
	removed := slices.Clone(l.RemovedLabels)
	for _, name := range slices.Sorted(maps.Keys(l.Labels)) {
		if _, stays := next[name]; !stays {
			removed = append(removed, name)
		}
	}
	replaced := slices.Concat(c.SetTaints, c.RemoveTaints)
	taints := append(slices.DeleteFunc(slices.Clone(l.Taints), func(t Taint) bool {
		return slices.ContainsFunc(replaced, t.isReplacedBy)
	}), c.SetTaints...)
	if len(l.Taints) > 0 {
		removed = append(removed, AttributeTaints)
	}
	l.Labels, l.Taints = next, taints
	is := l.Attributes()
	removed = slices.DeleteFunc(removed, func(name string) bool { _, stays := is[name]; return stays })
	l.RemovedLabels = removed[max(0, len(removed)-maxRemovedLabels):]
	return l
}

// Attributes returns the labels and the taints as attributes of a container instance.
func (l *NodeLabels) Attributes() map[string]string {
	out := map[string]string{}
	maps.Copy(out, l.Labels)
	if len(l.Taints) > 0 {
		out[AttributeTaints] = TaintsText(l.Taints)
	}
	return out
}

// A Taint keeps tasks without a matching toleration off a node. There may be one of a key and an
// effect.
type Taint struct {
	Key    string      `json:"k"`
	Value  string      `json:"v,omitempty"`
	Effect TaintEffect `json:"e"`
}

// TaintEffect is what a taint does to tasks that do not tolerate it, in EKS's words.
type TaintEffect string

// The effects that Berth serves: no such task is placed on the node, and with NO_EXECUTE those that
// are there leave it.
const (
	NoSchedule TaintEffect = "NO_SCHEDULE"
	NoExecute  TaintEffect = "NO_EXECUTE"
)

// TaintEffects are the effects that Berth serves.
var TaintEffects = []TaintEffect{NoSchedule, NoExecute}

// AttributeTaints has the taints of an instance.
const AttributeTaints = "berth.taints"

func (t Taint) isReplacedBy(o Taint) bool { return t.Key == o.Key && t.Effect == o.Effect }

// String returns the taint as users write tolerations of it: "dedicated=gpu:NO_SCHEDULE".
func (t Taint) String() string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// TaintsText returns taints as the attribute has them: "dedicated:gpu:NO_SCHEDULE old::NO_EXECUTE".
// Attributes can have no equals sign.
func TaintsText(taints []Taint) string {
	parts := make([]string, len(taints))
	for i, t := range taints {
		parts[i] = t.Key + ":" + t.Value + ":" + string(t.Effect)
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// ReadTaints reads the text of the attribute. Somebody may have written it by hand: a part that is
// missing is empty, and an unknown effect is NO_SCHEDULE.
func ReadTaints(text string) (taints []Taint) {
	for _, part := range strings.Fields(text) {
		key, rest, _ := strings.Cut(part, ":")
		value, effect, _ := strings.Cut(rest, ":")
		t := Taint{key, value, TaintEffect(effect)}
		if !slices.Contains(TaintEffects, t.Effect) {
			t.Effect = NoSchedule
		}
		taints = append(taints, t)
	}
	return taints
}

// A Toleration lets tasks run on nodes with matching taints. An empty key, or effect, matches all.
type Toleration struct {
	Key    string      `json:"k,omitempty"`
	Effect TaintEffect `json:"e,omitempty"`
	// Value is compared unless AnyValue is set.
	Value    string `json:"v,omitempty"`
	AnyValue bool   `json:"a,omitempty"`
}

// Matches reports whether a task with the toleration tolerates the taint.
func (t Toleration) Matches(x Taint) bool {
	return (t.Key == "" || t.Key == x.Key) && (t.AnyValue || t.Value == x.Value) &&
		(t.Effect == "" || t.Effect == x.Effect)
}

// Tolerates reports whether one of the tolerations matches the taint.
func Tolerates(tolerations []Toleration, x Taint) bool {
	return slices.ContainsFunc(tolerations, func(t Toleration) bool { return t.Matches(x) })
}

// maxTolerations bounds the tolerations of a service. It is the number of taints that EKS allows.
const maxTolerations = 50

// tolerationForm is KEY, KEY=VALUE or *, with or without :EFFECT.
var tolerationForm = regexp.MustCompile(`^(\*|[A-Za-z0-9_./-]{1,63})(=[A-Za-z0-9_.-]{0,63})?(:[A-Z_]+)?$`)

// ReadTolerations reads the value of the tag berth:tolerations, whose items are separated by blanks
// or commas: "dedicated=gpu:NO_SCHEDULE, spot", or "*" for all taints.
func ReadTolerations(text string) (out []Toleration, err error) {
	for _, item := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		parts := tolerationForm.FindStringSubmatch(item)
		if parts == nil || parts[1] == "*" && parts[2] != "" {
			return nil, Errorf(CodeInvalidParameter,
				"Toleration %.140q cannot be read, expected KEY, KEY=VALUE or *, each with or without :EFFECT, such "+
					"as dedicated=gpu:NO_SCHEDULE.", item)
		}
		t := Toleration{Key: strings.TrimPrefix(parts[1], "*"), AnyValue: parts[2] == "",
			Value: strings.TrimPrefix(parts[2], "="), Effect: TaintEffect(strings.TrimPrefix(parts[3], ":"))}
		if t.Effect != "" && !slices.Contains(TaintEffects, t.Effect) {
			return nil, Errorf(CodeInvalidParameter, "The effect of toleration %.140q is not known, %s", item,
				choice.Expected(string(t.Effect), TaintEffects))
		}
		out = append(out, t)
	}
	if len(out) > maxTolerations {
		return nil, Errorf(CodeInvalidParameter, "There are %d tolerations, at most %d are allowed.", len(out),
			maxTolerations)
	}
	return out, nil
}

// TolerationsText returns the text that [ReadTolerations] parses.
func TolerationsText(tolerations []Toleration) string {
	parts := make([]string, len(tolerations))
	for i, t := range tolerations {
		if parts[i] = t.Key; t.Key == "" {
			parts[i] = "*"
		}
		if !t.AnyValue {
			parts[i] += "=" + t.Value
		}
		if t.Effect != "" {
			parts[i] += ":" + string(t.Effect)
		}
	}
	return strings.Join(parts, ",")
}
