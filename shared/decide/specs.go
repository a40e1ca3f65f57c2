package decide

import (
	"encoding/json"
	"reflect"
	"slices"

	"berth/shared/cluster"
	"berth/shared/placement"
	"berth/shared/placement/domain"
	"berth/shared/snapshot"
	"berth/shared/state"
)

// Specs keeps what placement is asked with from one decision to the next: what the engine remembers
// goes by the spec.
type Specs struct {
	snap     *snapshot.Snapshot
	services map[serviceKey]serviceSpec
	shapes   map[shape]shapeSpec
	bare     map[aloneKey]*placement.Spec
}

// serviceKey is a service by its short key, with one of its task definitions. Running DAEMON tasks
// are held to the rules of their deployment: these have a spec of their own.
type serviceKey struct {
	short, definition string
	provider          string // that the tasks go to; empty for any instance
	running           bool
}

// serviceSpec is a service's spec and what it was made from.
type serviceSpec struct {
	spec     *placement.Spec
	rules    cluster.Rules
	rev, def int64 // of the rows
}

type shapeSpec struct {
	spec *placement.Spec
	rev  int64 // of the task definition
}

// maxSpecs bounds what is kept, beside what the services there are need: standalone tasks may come
// in any number of shapes, services come and go.
const maxSpecs = 4096

// NewSpecs returns an empty cache of placement specs for the snapshot.
func NewSpecs(snap *snapshot.Snapshot) *Specs {
	return &Specs{snap: snap, services: map[serviceKey]serviceSpec{}, shapes: map[shape]shapeSpec{}}
}

// Service is the spec of the service's tasks of one task definition. Its row changes with every
// decision, what it asks for seldom does. A REPLICA service that names no domain policy has the
// configuration's.
func (c *Specs) Service(s *cluster.Service, def *cluster.TaskDefinition, policy cluster.DomainPolicy) *placement.Spec {
	rules := s.Rules
	if rules.DomainPolicy == "" && s.Strategy == cluster.Replica {
		rules.DomainPolicy = policy
	}
	return c.keep(serviceKey{short: s.Short, definition: def.Name()}, s, def, rules)
}

// With is the spec for tasks that go to a capacity provider (S14).
func (c *Specs) With(
	provider string, s *cluster.Service, def *cluster.TaskDefinition, policy cluster.DomainPolicy,
) *placement.Spec {
	if provider == "" {
		return c.Service(s, def, policy)
	}
	rules := s.Rules
	if rules.DomainPolicy == "" {
		rules.DomainPolicy = policy
	}
	return c.keep(serviceKey{short: s.Short, definition: def.Name(), provider: provider}, s, def, rules)
}

// running is the spec that running tasks of a DAEMON service are held to (S4): the constraints are
// those of the service when its deployment was made.
func (c *Specs) running(s *cluster.Service, def *cluster.TaskDefinition) *placement.Spec {
	rules := s.Rules
	rules.Constraints = s.Deployment.Constraints
	return c.keep(serviceKey{short: s.Short, definition: def.Name(), running: true}, s, def, rules)
}

func (c *Specs) keep(
	key serviceKey, s *cluster.Service, def *cluster.TaskDefinition, rules cluster.Rules,
) *placement.Spec {
	old, ok := c.services[key]
	if ok && old.def == def.Rev && (old.rev == s.Rev && old.rules.DomainPolicy == rules.DomainPolicy ||
		reflect.DeepEqual(old.rules, rules)) {
		old.rev = s.Rev
		c.services[key] = old
		return old.spec
	}
	spec := newSpec(def, s.Short, "service:"+s.Name, &rules)
	bind(spec, key.provider)
	if s.Strategy == cluster.Daemon {
		spec.PerInstance = 1
	}
	if len(c.services) >= maxSpecs+2*len(c.snap.Services) {
		clear(c.services)
	}
	c.services[key] = serviceSpec{spec, rules, s.Rev, def.Rev}
	return spec
}

// shape tells standalone tasks apart that placement could answer differently for.
type shape struct {
	definition string
	needs      cluster.Resources
	group      string
	rules      string // as JSON, empty for none
}

// ShapeOf returns what distinguishes a standalone task for placement.
func ShapeOf(t *cluster.Task) shape {
	return shape{t.TaskDefinition, t.Needs, t.Group, encodeRules(t.Rules)}
}

func shapeOfRequest(r *state.Request) shape {
	return shape{r.TaskDefinition, r.Needs, r.Group, encodeRules(r.Rules)}
}

func encodeRules(rules *cluster.Rules) string {
	if rules == nil {
		return ""
	}
	text, _ := json.Marshal(rules) // strings and numbers: it cannot fail
	return string(text)
}

// Standalone is the spec of standalone tasks of one shape, which the cluster's short key owns.
func (c *Specs) Standalone(k shape, def *cluster.TaskDefinition, owner string) *placement.Spec {
	if old, ok := c.shapes[k]; ok && old.rev == def.Rev {
		return old.spec
	}
	var rules cluster.Rules
	if k.rules != "" {
		_ = json.Unmarshal([]byte(k.rules), &rules) // it is what encoded made
	}
	spec := newSpec(def, owner, k.group, &rules)
	spec.Needs = k.needs
	bind(spec, FirstProvider(&rules))
	if len(c.shapes) >= maxSpecs {
		clear(c.shapes)
	}
	c.shapes[k] = shapeSpec{spec, def.Rev}
	return spec
}

// newSpec makes a spec of rows, whose constraints were read when they were written: one that cannot
// be read now matches nothing.
func newSpec(def *cluster.TaskDefinition, owner, group string, rules *cluster.Rules) *placement.Spec {
	spec, err := placement.NewSpec(def, owner, group, rules)
	if err == nil {
		return spec
	}
	spec, _ = placement.NewSpec(&cluster.TaskDefinition{}, owner, group, &cluster.Rules{NodeConstraint: "false"})
	spec.Needs = def.Needs
	return spec
}

// bind has the spec's tasks go to instances of a capacity provider; empty for any instance.
func bind(spec *placement.Spec, provider string) {
	if provider != "" {
		spec.Attributes = append(slices.Clone(spec.Attributes), cluster.AttributeProvider+"="+provider)
	}
}

// alone is the spec for a look at one instance that a plan of moves has chosen: the plan has seen
// to the domain rules, for which the task itself still counts where it is, and to a capacity that
// may be exceeded.
func (c *Specs) alone(spec *placement.Spec, conf *cluster.Configuration) *placement.Spec {
	soft := conf.Priorities.Capacity != 0
	key := aloneKey{spec, soft}
	if s := c.bare[key]; s != nil {
		return s
	}
	bare := *spec
	if (domain.Rule{Policy: bare.DomainPolicy}).Governs() {
		bare.DomainPolicy, bare.PerInstance = "", 1
	}
	if soft {
		bare.Loads = nil
	}
	if c.bare == nil || len(c.bare) >= maxSpecs {
		c.bare = map[aloneKey]*placement.Spec{}
	}
	c.bare[key] = &bare
	return &bare
}

type aloneKey struct {
	of   *placement.Spec
	soft bool
}
