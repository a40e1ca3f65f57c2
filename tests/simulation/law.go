package simulation

import (
	"slices"
	"strconv"
	"strings"

	"berth/shared/cluster"
	"berth/shared/state"
)

// law is what holds for the tasks of one service, or those that one request asked for.
type law struct {
	owner, group string
	service      string // name; empty for standalone tasks
	daemon       bool
	target       int
	def          *cluster.TaskDefinition
	needs        cluster.Resources
	rules        cluster.Rules
	policy       cluster.DomainPolicy // empty for ECS's rules
	providers    []string             // any where there are none
}

// lawOf is the law that the task was placed by, as its owner's row now says; nil where that is gone.
func (l *ledger) lawOf(t *cluster.Task) *law {
	if t.Service != "" {
		if s := l.service(t); s != nil {
			return l.revisionLaw(s, t.Revision, t.TaskDefinition)
		}
		return nil
	}
	r, ok := l.rows[state.RequestKey(t.Cluster, t.Request)].(*state.Request)
	if !ok {
		return nil
	}
	return l.requestLaw(r, t.Owner)
}

// serviceLaw is the law of the service's PRIMARY revision.
func (l *ledger) serviceLaw(s *cluster.Service) *law {
	return l.revisionLaw(s, s.Deployment.ID, s.Deployment.TaskDefinition)
}

// revisionLaw is the law of the tasks of one of the service's revisions.
func (l *ledger) revisionLaw(s *cluster.Service, revision, definition string) *law {
	def := l.definition(s.Cluster, definition)
	if def == nil {
		return nil
	}
	w := &law{
		owner: s.Short, group: "service:" + s.Name, service: s.Name, daemon: s.Strategy == cluster.Daemon, target: s.Desired,
		def: def, needs: def.Needs, rules: s.Rules, providers: l.providers(s, revision),
	}
	w.policy = policyOf(w.rules)
	if w.policy == "" && !w.daemon {
		w.policy = l.configuration().DomainPolicy
	}
	if w.policy == cluster.PolicyNone {
		w.policy = ""
	}
	return w
}

func (l *ledger) requestLaw(r *state.Request, owner string) *law {
	def := l.definition(r.Cluster, r.TaskDefinition)
	if def == nil {
		return nil
	}
	w := &law{owner: owner, group: r.Group, def: def, needs: r.Needs}
	if r.Rules != nil {
		w.rules = *r.Rules
	}
	return w
}

// policyOf is the domain policy that the rules name, in the node constraint's directive before all.
func policyOf(r cluster.Rules) cluster.DomainPolicy {
	if p := nodeExpressions[r.NodeConstraint].policy; p != "" {
		return p
	}
	return r.DomainPolicy
}

func (l *ledger) configuration() *cluster.Configuration {
	c, ok := l.rows[state.Key{Cluster: clusterName, Sort: state.PrefixConfiguration}].(*cluster.Configuration)
	if !ok {
		return &cluster.Configuration{}
	}
	return c
}

// alone reports that an instance may have one of the tasks at most.
func (w *law) alone() bool {
	return w.daemon || w.policy != "" ||
		slices.ContainsFunc(w.rules.Constraints, func(c cluster.PlacementConstraint) bool { return c.Type == cluster.DistinctInstance })
}

// sociable reports that what else runs on an instance decides whether a constraint holds there.
func (w *law) sociable() bool {
	return slices.ContainsFunc(w.constraints(), sociable)
}

func sociable(c cluster.PlacementConstraint) bool {
	return strings.Contains(c.Expression, "task:group")
}

func (w *law) constraints() []cluster.PlacementConstraint {
	return slices.Concat(w.def.Constraints, w.rules.Constraints)
}

// scene is an instance as expressions see it.
type scene struct {
	*cluster.Instance
	types  map[string]cluster.NodeType
	groups map[string]bool
}

func (s scene) is(name, value string) bool {
	v, ok := s.Attributes[name]
	return ok && v == value
}

func (s scene) has(name string) bool {
	_, ok := s.Attributes[name]
	return ok
}

// property is a node property: the instance's own, its node type's, or built in.
func (s scene) property(name string) (string, bool) {
	if v, ok := s.Attributes["berth.property."+name]; ok {
		return v, true
	}
	kind := s.Attributes["berth.node-type"]
	if v, ok := s.types[kind].Properties[name]; ok {
		return v, true
	}
	switch name {
	case "NodeType":
		return kind, kind != ""
	case "FaultDomain":
		return faultDomain(s.Instance), true // every instance has a zone
	case "UpgradeDomain":
		return upgradeDomain(s.Instance), true
	}
	return "", false
}

func (s scene) number(name string) (float64, bool) {
	text, ok := s.property(name)
	x, err := strconv.ParseFloat(text, 64)
	return x, ok && err == nil
}

func faultDomain(i *cluster.Instance) string {
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

// memberships are the memberOf expressions that customers use, with what they mean.
var memberships = map[string]func(scene) bool{
	"attribute:disk == ssd":      func(s scene) bool { return s.is("disk", "ssd") },
	"attribute:disk != ssd":      func(s scene) bool { return s.has("disk") && !s.is("disk", "ssd") },
	"not(attribute:disk == ssd)": func(s scene) bool { return !s.is("disk", "ssd") },
	"attribute:disk exists":      func(s scene) bool { return s.has("disk") },
	"attribute:disk !exists":     func(s scene) bool { return !s.has("disk") },
	"attribute:ecs.availability-zone in [us-east-1a, us-east-1c]": func(s scene) bool {
		return s.is("ecs.availability-zone", "us-east-1a") || s.is("ecs.availability-zone", "us-east-1c")
	},
	"attribute:ecs.instance-type =~ sim\\.(small|metric)": func(s scene) bool {
		return s.is("ecs.instance-type", "sim.small") || s.is("ecs.instance-type", "sim.metric")
	},
	"task:group == service:s0":      func(s scene) bool { return s.groups["service:s0"] },
	"not(task:group == service:s1)": func(s scene) bool { return !s.groups["service:s1"] },
	"not(task:group == service:s2) and attribute:ecs.os-type == linux": func(s scene) bool {
		return !s.groups["service:s2"] && s.is("ecs.os-type", "linux")
	},
	"task:group in [family:small, service:s3] or attribute:disk == ssd": func(s scene) bool {
		return s.groups["family:small"] || s.groups["service:s3"] || s.is("disk", "ssd")
	},
}

// nodeExpression is a node constraint's meaning; what cannot be evaluated, a property being undefined, does not hold.
type nodeExpression struct {
	holds  func(scene) bool
	policy cluster.DomainPolicy // by a directive
}

// nodeExpressions are the node constraints that customers use.
var nodeExpressions = map[string]nodeExpression{
	"NodeType == Blue": {holds: func(s scene) bool { return s.is("berth.node-type", "Blue") }},
	"NodeType != Green": {holds: func(s scene) bool {
		kind, ok := s.property("NodeType")
		return ok && kind != "Green"
	}},
	"Tier >= 2": {holds: func(s scene) bool {
		tier, ok := s.number("Tier")
		return ok && tier >= 2
	}},
	"!(Tier == 3)": {holds: func(s scene) bool {
		tier, ok := s.number("Tier")
		return ok && tier != 3
	}},
	"Tier > 1 && HasSSD == true": {holds: func(s scene) bool {
		tier, ok := s.number("Tier")
		ssd, known := s.property("HasSSD")
		return ok && known && tier > 1 && ssd == "true"
	}},
	"NodeType == Blue || Tier >= 2": {holds: func(s scene) bool {
		tier, ok := s.number("Tier")
		kind, known := s.property("NodeType")
		return ok && known && (kind == "Blue" || tier >= 2)
	}},
	"FaultDomain ^ fd:/dc1": {holds: func(s scene) bool {
		d, _ := s.property("FaultDomain")
		return d == "fd:/dc1" || strings.HasPrefix(d, "fd:/dc1/")
	}},
	"Tier >= 1 && FDPolicy ~ Nonpacking": {holds: func(s scene) bool {
		tier, ok := s.number("Tier")
		return ok && tier >= 1
	}, policy: cluster.PolicyNonpacking},
}

// unmet is the first of the law's constraints that does not hold in the scene, empty if all do.
func (w *law) unmet(s scene) string {
	for _, c := range w.constraints() {
		if c.Type == cluster.MemberOf && !memberships[c.Expression](s) {
			return c.Expression
		}
	}
	if x := w.rules.NodeConstraint; x != "" && !nodeExpressions[x].holds(s) {
		return x
	}
	return ""
}
