package invariant

import (
	"slices"
	"strconv"
	"strings"

	"berth/shared/cluster"
	"berth/shared/state"
)

// A TaskSpec is what the tasks of one service revision, or of one request, ask of an instance.
type TaskSpec struct {
	owner, group string
	service      string // name; empty for standalone tasks
	Daemon       bool
	desired      int
	Def          *cluster.TaskDefinition
	Needs        cluster.Resources
	Rules        cluster.Rules
	Policy       cluster.DomainPolicy // empty for ECS's own spread
	Providers    []string             // nil for any
}

// SpecOfTask returns the spec by which the task was placed, as its owner's row now says, or nil if
// that row is gone. The replacement of a task that moves has the loads that the task had reported.
func (h *RowHistory) SpecOfTask(t *cluster.Task) *TaskSpec {
	if t.Service != "" {
		s := h.ServiceOf(t)
		if s == nil {
			return nil
		}
		spec := h.specOfRevision(s, t.Revision, t.TaskDefinition)
		if spec != nil && len(t.Reported) > 0 {
			spec.Rules.Metrics = slices.Clone(spec.Rules.Metrics)
			for n, m := range spec.Rules.Metrics {
				if load, reported := t.Reported[m.Name]; reported {
					spec.Rules.Metrics[n].Load = load
				}
			}
		}
		return spec
	}
	r, ok := h.Rows[state.RequestKey(t.Cluster, t.Request)].(*state.Request)
	if !ok {
		return nil
	}
	return h.specOfRequest(r, t.Owner)
}

// SpecOfService returns the spec of the service's PRIMARY revision.
func (h *RowHistory) SpecOfService(s *cluster.Service) *TaskSpec {
	return h.specOfRevision(s, s.Deployment.ID, s.Deployment.TaskDefinition)
}

// specOfRevision returns the spec of one revision of the service.
func (h *RowHistory) specOfRevision(s *cluster.Service, revision, definition string) *TaskSpec {
	def := h.definitionOf(s.Cluster, definition)
	if def == nil {
		return nil
	}
	spec := &TaskSpec{
		owner: s.Short, group: "service:" + s.Name, service: s.Name, Daemon: s.Strategy == cluster.Daemon,
		desired: wantedTasks(s),
		Def:     def, Needs: def.Needs, Rules: s.Rules, Providers: h.allowedProviders(s, revision),
	}
	spec.Policy = policyOf(spec.Rules)
	if spec.Policy == "" && !spec.Daemon {
		spec.Policy = h.ConfigurationRow().DomainPolicy
	}
	if spec.Policy == cluster.PolicyNone {
		spec.Policy = ""
	}
	return spec
}

func (h *RowHistory) specOfRequest(r *state.Request, owner string) *TaskSpec {
	def := h.definitionOf(r.Cluster, r.TaskDefinition)
	if def == nil {
		return nil
	}
	spec := &TaskSpec{owner: owner, group: r.Group, Def: def, Needs: r.Needs}
	if r.Rules != nil {
		spec.Rules = *r.Rules
	}
	return spec
}

// policyOf returns the domain policy of the rules. A directive in the node constraint comes first.
func policyOf(r cluster.Rules) cluster.DomainPolicy {
	if p := NodeExpressions[r.NodeConstraint].Policy; p != "" {
		return p
	}
	return r.DomainPolicy
}

func (h *RowHistory) ConfigurationRow() *cluster.Configuration {
	c, ok := h.Rows[state.Key{Cluster: h.cluster, Sort: state.PrefixConfiguration}].(*cluster.Configuration)
	if !ok {
		return &cluster.Configuration{}
	}
	return c
}

// isAlonePerInstance reports whether an instance may have at most one of the tasks.
func (spec *TaskSpec) isAlonePerInstance() bool {
	return spec.Daemon || spec.Policy != "" ||
		slices.ContainsFunc(spec.Rules.Constraints,
			func(c cluster.PlacementConstraint) bool { return c.Type == cluster.DistinctInstance })
}

// dependsOnOtherTasks reports whether a constraint depends on the other tasks of an instance.
func (spec *TaskSpec) dependsOnOtherTasks() bool {
	return slices.ContainsFunc(spec.constraints(), DependsOnOtherTasks)
}

func DependsOnOtherTasks(c cluster.PlacementConstraint) bool {
	return strings.Contains(c.Expression, "task:group")
}

func (spec *TaskSpec) constraints() []cluster.PlacementConstraint {
	return slices.Concat(spec.Def.Constraints, spec.Rules.Constraints)
}

// An evaluation is an instance as constraint expressions see it.
type evaluation struct {
	*cluster.Instance
	nodeTypes  map[string]cluster.NodeType
	taskGroups map[string]bool
}

func (e evaluation) attributeIs(name, value string) bool {
	v, ok := e.Attributes[name]
	return ok && v == value
}

func (e evaluation) hasAttribute(name string) bool {
	_, ok := e.Attributes[name]
	return ok
}

// nodeProperty returns a node property: the instance's own, its node type's, or a built-in one.
func (e evaluation) nodeProperty(name string) (string, bool) {
	if v, ok := e.Attributes["berth.property."+name]; ok {
		return v, true
	}
	kind := e.Attributes["berth.node-type"]
	if v, ok := e.nodeTypes[kind].Properties[name]; ok {
		return v, true
	}
	switch name {
	case "NodeType":
		return kind, kind != ""
	case "FaultDomain":
		return FaultDomain(e.Instance), true // every instance has a zone
	case "UpgradeDomain":
		return upgradeDomain(e.Instance), true
	}
	return "", false
}

func (e evaluation) numericProperty(name string) (float64, bool) {
	text, ok := e.nodeProperty(name)
	x, err := strconv.ParseFloat(text, 64)
	return x, ok && err == nil
}

func FaultDomain(i *cluster.Instance) string {
	if d := i.Attributes["berth.fault-domain"]; d != "" {
		return d
	}
	return "fd:/" + i.Attributes["ecs.availability-zone"]
}

func upgradeDomain(i *cluster.Instance) string {
	if d := i.Attributes["berth.upgrade-domain"]; d != "" {
		return d
	}
	return i.ID
}

// MemberOfExpressions are the memberOf expressions that the workload uses, with their meaning.
var MemberOfExpressions = map[string]func(evaluation) bool{
	"attribute:disk == ssd": func(e evaluation) bool { return e.attributeIs("disk", "ssd") },
	"attribute:disk != ssd": func(e evaluation) bool {
		return e.hasAttribute("disk") &&
			!e.attributeIs("disk", "ssd")
	},
	"not(attribute:disk == ssd)": func(e evaluation) bool { return !e.attributeIs("disk", "ssd") },
	"attribute:disk exists":      func(e evaluation) bool { return e.hasAttribute("disk") },
	"attribute:disk !exists":     func(e evaluation) bool { return !e.hasAttribute("disk") },
	"attribute:ecs.availability-zone in [us-east-1a, us-east-1c]": func(e evaluation) bool {
		return e.attributeIs("ecs.availability-zone", "us-east-1a") ||
			e.attributeIs("ecs.availability-zone", "us-east-1c")
	},
	"attribute:ecs.instance-type =~ sim\\.(small|metric)": func(e evaluation) bool {
		return e.attributeIs("ecs.instance-type", "sim.small") || e.attributeIs("ecs.instance-type", "sim.metric")
	},
	"task:group == service:s0":      func(e evaluation) bool { return e.taskGroups["service:s0"] },
	"not(task:group == service:s1)": func(e evaluation) bool { return !e.taskGroups["service:s1"] },
	"not(task:group == service:s2) and attribute:ecs.os-type == linux": func(e evaluation) bool {
		return !e.taskGroups["service:s2"] && e.attributeIs("ecs.os-type", "linux")
	},
	"task:group in [family:small, service:s3] or attribute:disk == ssd": func(e evaluation) bool {
		return e.taskGroups["family:small"] || e.taskGroups["service:s3"] || e.attributeIs("disk", "ssd")
	},
}

// A nodeExpression is the meaning of a node constraint. An expression with an undefined property
// does not hold.
type nodeExpression struct {
	holds  func(evaluation) bool
	Policy cluster.DomainPolicy // set by a directive
}

// NodeExpressions are the node constraints that the workload uses.
var NodeExpressions = map[string]nodeExpression{
	"NodeType == Blue": {holds: func(e evaluation) bool { return e.attributeIs("berth.node-type", "Blue") }},
	"NodeType != Green": {holds: func(e evaluation) bool {
		kind, ok := e.nodeProperty("NodeType")
		return ok && kind != "Green"
	}},
	"Tier >= 2": {holds: func(e evaluation) bool {
		tier, ok := e.numericProperty("Tier")
		return ok && tier >= 2
	}},
	"!(Tier == 3)": {holds: func(e evaluation) bool {
		tier, ok := e.numericProperty("Tier")
		return ok && tier != 3
	}},
	"Tier > 1 && HasSSD == true": {holds: func(e evaluation) bool {
		tier, ok := e.numericProperty("Tier")
		ssd, known := e.nodeProperty("HasSSD")
		return ok && known && tier > 1 && ssd == "true"
	}},
	"NodeType == Blue || Tier >= 2": {holds: func(e evaluation) bool {
		tier, ok := e.numericProperty("Tier")
		kind, known := e.nodeProperty("NodeType")
		return ok && known && (kind == "Blue" || tier >= 2)
	}},
	"FaultDomain ^ fd:/dc1": {holds: func(e evaluation) bool {
		d, _ := e.nodeProperty("FaultDomain")
		return d == "fd:/dc1" || strings.HasPrefix(d, "fd:/dc1/")
	}},
	"Tier >= 1 && FDPolicy ~ Nonpacking": {holds: func(e evaluation) bool {
		tier, ok := e.numericProperty("Tier")
		return ok && tier >= 1
	}, Policy: cluster.PolicyNonpacking},
}

// UnmetConstraint returns the first constraint that the instance does not satisfy, or "".
func (spec *TaskSpec) UnmetConstraint(e evaluation) string {
	for _, c := range spec.constraints() {
		if c.Type == cluster.MemberOf && !MemberOfExpressions[c.Expression](e) {
			return c.Expression
		}
	}
	if x := spec.Rules.NodeConstraint; x != "" && !NodeExpressions[x].holds(e) {
		return x
	}
	return ""
}

// BalancesZones reports whether the service's zones are rebalanced (S13).
func BalancesZones(s *cluster.Service, spec *TaskSpec) bool {
	if !s.ZoneRebalancing || spec.Policy != "" || spec.Rules.Scoring != "" || s.MaxPercent <= 100 {
		return false
	}
	for _, c := range spec.constraints() {
		if strings.Contains(c.Expression, cluster.AttributeZone) {
			return false
		}
	}
	first := spec.Rules.Strategies
	return len(first) == 0 || first[0].Type == cluster.StrategySpread &&
		first[0].Field == "attribute:"+cluster.AttributeZone
}
