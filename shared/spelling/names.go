package spelling

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/snapshot"
)

// Names are the names that rules may use in one cluster.
type Names struct {
	Attributes map[string]map[string]bool // values by attribute
	Properties map[string]map[string]bool // values by node property
	Metrics    map[string]bool            // with a capacity on some instance, or in the configuration
	Providers  map[string]bool
	Families   map[string]bool
	Loads      map[string]bool // metrics that a service has a load of
	Taints     map[string]bool // keys
}

// maxValues is how many values of an attribute are kept. An attribute with more, such as a serial
// number, is not checked for its values.
const maxValues = 1000

// NewNames collects the names of a cluster. providers are those of the cluster, beside the ones
// that its instances name.
func NewNames(snap *snapshot.Snapshot, providers ...string) *Names {
	n := &Names{Attributes: map[string]map[string]bool{}, Properties: map[string]map[string]bool{},
		Metrics: map[string]bool{}, Providers: map[string]bool{}, Families: map[string]bool{},
		Loads: map[string]bool{}, Taints: map[string]bool{}}
	for _, name := range builtInProperties {
		n.Properties[name] = map[string]bool{}
	}
	for _, v := range snap.Instances {
		if v.Instance == nil || v.IsDeregistered() {
			continue
		}
		for name, value := range v.Attributes {
			addValue(n.Attributes, name, value)
		}
		n.addProperties(snap, v.Instance)
		for _, t := range cluster.ReadTaints(v.Attributes[cluster.AttributeTaints]) {
			n.Taints[t.Key] = true
		}
		for name := range v.Registered.Metrics {
			n.Metrics[name] = true
		}
		if p := v.CapacityProvider(); p != "" {
			n.Providers[p] = true
		}
	}
	for _, t := range snap.Configuration.NodeTypes {
		for name := range t.Capacities {
			n.Metrics[name] = true
		}
	}
	for _, p := range providers {
		n.Providers[p] = true
	}
	for _, d := range snap.Definitions {
		n.Families[d.Family] = true
	}
	for _, s := range snap.Services {
		for _, m := range s.Rules.Metrics {
			n.Loads[m.Name] = true
		}
	}
	return n
}

// builtInProperties are those that an instance may have without having registered them.
var builtInProperties = []string{"NodeType", "NodeName", "FaultDomain", "UpgradeDomain"}

func (n *Names) addProperties(snap *snapshot.Snapshot, i *cluster.Instance) {
	names := append(i.PropertyNames(), builtInProperties...)
	for name := range snap.Configuration.NodeTypes[i.NodeType()].Properties {
		names = append(names, name)
	}
	for _, name := range names {
		if value, ok := i.Property(name, snap.Configuration.NodeTypes); ok {
			addValue(n.Properties, name, value)
		}
	}
}

func addValue(to map[string]map[string]bool, name, value string) {
	if to[name] == nil {
		to[name] = map[string]bool{}
	}
	if len(to[name]) <= maxValues {
		to[name][value] = true
	}
}

// Unknown is a name in a rule that no instance has, or a value that no instance has of a known
// name.
type Unknown struct {
	Kind    string `json:"kind"` // attribute, property, metric, capacity provider, family, taint
	Name    string `json:"name"`
	Value   string `json:"value,omitempty"` // set if only the value is unknown
	Nearest string `json:"nearest,omitempty"`
	// Within is the rule's text, if it is an expression.
	Within string `json:"within,omitempty"`
}

// String is a sentence without a full stop.
func (u Unknown) String() string {
	what, noun := fmt.Sprintf("no instance has the %s %q", u.Kind, u.Name), u.Kind
	if u.Kind == "capacity provider" || u.Kind == "family" {
		what = fmt.Sprintf("the cluster has no %s %q", u.Kind, u.Name)
	}
	if u.Value != "" {
		what, noun = fmt.Sprintf("no instance has the value %q of the %s %q", u.Value, u.Kind, u.Name), "value"
	}
	if u.Nearest != "" {
		what += fmt.Sprintf("; the nearest %s is %q", noun, u.Nearest)
	}
	return what
}

// Corrected returns the rule's expression with the nearest name or value wherever the unknown one
// stands, or nothing if there is none.
func (u Unknown) Corrected() string {
	if u.Nearest == "" || u.Within == "" {
		return ""
	}
	var out strings.Builder
	done, name := 0, ""
	for n, at := range expressionWord.FindAllStringIndex(u.Within, -1) {
		word := strings.Trim(u.Within[at[0]:at[1]], `'"`)
		isName := n%2 == 0 // of properties, names and values take turns
		if u.Kind == "attribute" {
			isName = len(word) > len(attributePrefix) && strings.EqualFold(word[:len(attributePrefix)], attributePrefix)
			if isName {
				word = word[len(attributePrefix):]
			}
		}
		if isName {
			name = word
		}
		if isName == (u.Value == "") && name == u.Name && (isName || word == u.Value) {
			start := at[0] + strings.LastIndex(u.Within[at[0]:at[1]], word)
			out.WriteString(u.Within[done:start] + u.Nearest)
			done = start + len(word)
		}
	}
	return out.String() + u.Within[done:]
}

// expressionWord is a word of an expression that may be a name or a value.
var expressionWord = regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s()\[\],'"=<>!~&|^]+`)

const attributePrefix = "attribute:"

// CheckRules returns the names in rules and in a capacity provider strategy that the cluster does
// not have. In a cluster without instances nothing is checked but capacity providers.
func (n *Names) CheckRules(r cluster.Rules, providers []cluster.ProviderShare) (out []Unknown) {
	for _, share := range slices.Concat(providers, r.Providers) {
		if !n.Providers[share.Provider] && !cluster.IsFargateProvider(share.Provider) {
			out = append(out, newUnknown("capacity provider", share.Provider, n.Providers))
		}
	}
	if len(n.Attributes) == 0 {
		return out
	}
	for _, c := range r.Constraints {
		if e, err := constraint.ParseQuery(c.Expression); c.Type == cluster.MemberOf && err == nil {
			out = append(out, n.checkExpression(e, c.Expression)...)
		}
	}
	if e, err := constraint.ParseProperties(r.NodeConstraint); err == nil {
		out = append(out, n.checkExpression(e, r.NodeConstraint)...)
	}
	for _, s := range r.Strategies {
		if name, ok := strings.CutPrefix(s.Field, attributePrefix); ok && n.Attributes[name] == nil {
			out = append(out, newUnknown("attribute", name, n.Attributes))
		}
	}
	return slices.Concat(out, n.checkMetrics(r.Metrics), n.checkTolerations(r.Tolerations))
}

// checkTolerations returns the keys of taints that no instance has, if another one is near: a
// toleration of none is in order, as the group that has the taint may be empty.
func (n *Names) checkTolerations(tolerations []cluster.Toleration) (out []Unknown) {
	for _, t := range tolerations {
		if u := newUnknown("taint", t.Key, n.Taints); t.Key != "" && !n.Taints[t.Key] && u.Nearest != "" {
			out = append(out, u)
		}
	}
	return out
}

// checkMetrics returns the metrics that no instance has a capacity of, in a cluster in which some
// metric has one. A metric without a capacity limits nothing.
func (n *Names) checkMetrics(metrics []cluster.Metric) (out []Unknown) {
	for _, m := range metrics {
		if len(n.Metrics) > 0 && !n.Metrics[m.Name] {
			out = append(out, newUnknown("metric", m.Name, n.Metrics))
		}
	}
	return out
}

// CheckLoads returns the metrics that no service has, if another one is near, in a cluster in which no
// metric has a capacity: [Names.CheckRules] says nothing of those.
func (n *Names) CheckLoads(metrics []cluster.Metric) (out []Unknown) {
	for _, m := range metrics {
		if u := newUnknown("metric", m.Name, n.Loads); len(n.Metrics) == 0 && !n.Loads[m.Name] && u.Nearest != "" {
			out = append(out, u)
		}
	}
	return out
}

// CheckFamily returns a task definition's family that the cluster has not used, if another one is
// near.
func (n *Names) CheckFamily(definition string) (out []Unknown) {
	family, _, _ := strings.Cut(cluster.LastPart(definition), ":")
	if u := newUnknown("family", family, n.Families); !n.Families[family] && u.Nearest != "" {
		out = append(out, u)
	}
	return out
}

func (n *Names) checkExpression(e *constraint.Expression, text string) (out []Unknown) {
	for _, c := range e.Comparisons() {
		kind, known := "attribute", n.Attributes
		if c.Property {
			kind, known = "property", n.Properties
		}
		values := known[c.Name]
		switch {
		case values == nil:
			u := newUnknown(kind, c.Name, known)
			u.Within = text
			out = append(out, u)
		case len(c.Values) > 0 && len(values) <= maxValues &&
			!slices.ContainsFunc(c.Values, func(v string) bool { return values[v] }):
			out = append(out, Unknown{Kind: kind, Name: c.Name, Value: c.Values[0],
				Nearest: choice.Nearest(c.Values[0], slices.Collect(maps.Keys(values))), Within: text})
		}
	}
	return out
}

func newUnknown[V any](kind, name string, known map[string]V) Unknown {
	return Unknown{Kind: kind, Name: name, Nearest: choice.Nearest(name, slices.Collect(maps.Keys(known)))}
}
