package handler

import (
	"encoding/json"
	"reflect"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// specs keeps what placement is asked with from one decision to the next: what the engine remembers goes by the spec.
type specs struct {
	services map[string]serviceSpec // by short key
	shapes   map[shape]shapeSpec
	bare     map[aloneKey]*placement.Spec
}

// serviceSpec is a service's spec and the rows that it was made from.
type serviceSpec struct {
	spec    *placement.Spec
	service *cluster.Service
	def     *cluster.TaskDefinition
	policy  cluster.DomainPolicy // of services that name none
}

type shapeSpec struct {
	spec *placement.Spec
	rev  int64 // of the task definition
}

// maxSpecs bounds what is kept: standalone tasks may come in any number of shapes, services come and go.
const maxSpecs = 4096

func newSpecs() *specs {
	return &specs{services: map[string]serviceSpec{}, shapes: map[shape]shapeSpec{}}
}

// service is the spec of the service's tasks. Its row changes with every decision, what it asks for seldom does. A
// REPLICA service that names no domain policy has the configuration's.
func (c *specs) service(s *cluster.Service, def *cluster.TaskDefinition, policy cluster.DomainPolicy) *placement.Spec {
	old, ok := c.services[s.Short]
	if ok && (old.service.Rev == s.Rev || asksTheSame(old.service, s)) && old.def.Name() == def.Name() &&
		old.def.Rev == def.Rev && old.policy == policy {
		return old.spec
	}
	rules := s.Rules
	if rules.DomainPolicy == "" && s.Strategy == cluster.Replica {
		rules.DomainPolicy = policy
	}
	spec := newSpec(def, s.Short, "service:"+s.Name, &rules)
	if s.Strategy == cluster.Daemon {
		spec.PerInstance = 1
	}
	if len(c.services) >= maxSpecs {
		clear(c.services)
	}
	c.services[s.Short] = serviceSpec{spec, s, def, policy}
	return spec
}

func asksTheSame(a, b *cluster.Service) bool {
	return a.Strategy == b.Strategy && reflect.DeepEqual(a.Rules, b.Rules)
}

// shape tells standalone tasks apart that placement could answer differently for.
type shape struct {
	definition string
	needs      cluster.Resources
	group      string
	rules      string // as JSON, empty for none
}

func shapeOf(t *cluster.Task) shape {
	return shape{t.TaskDefinition, t.Needs, t.Group, encoded(t.Rules)}
}

func shapeOfRequest(r *cluster.Request) shape {
	return shape{r.TaskDefinition, r.Needs, r.Group, encoded(r.Rules)}
}

func encoded(rules *cluster.Rules) string {
	if rules == nil {
		return ""
	}
	text, _ := json.Marshal(rules) // strings and numbers: it cannot fail
	return string(text)
}

// standalone is the spec of standalone tasks of one shape, which the cluster's short key owns.
func (c *specs) standalone(k shape, def *cluster.TaskDefinition, owner string) *placement.Spec {
	if old, ok := c.shapes[k]; ok && old.rev == def.Rev {
		return old.spec
	}
	var rules cluster.Rules
	if k.rules != "" {
		_ = json.Unmarshal([]byte(k.rules), &rules) // it is what encoded made
	}
	spec := newSpec(def, owner, k.group, &rules)
	spec.Needs = k.needs
	if len(c.shapes) >= maxSpecs {
		clear(c.shapes)
	}
	c.shapes[k] = shapeSpec{spec, def.Rev}
	return spec
}

// newSpec makes a spec of rows, whose constraints were read when they were written: one that cannot be read now matches
// nothing.
func newSpec(def *cluster.TaskDefinition, owner, group string, rules *cluster.Rules) *placement.Spec {
	spec, err := placement.NewSpec(def, owner, group, rules)
	if err == nil {
		return spec
	}
	spec, _ = placement.NewSpec(&cluster.TaskDefinition{}, owner, group, &cluster.Rules{NodeConstraint: "false"})
	spec.Needs = def.Needs
	return spec
}

// alone is the spec for a look at one instance that a plan of moves has chosen: the plan has seen to the domain rules, for
// which the task itself still counts where it is, and to a capacity that may be exceeded.
func (c *specs) alone(spec *placement.Spec, conf *cluster.Configuration) *placement.Spec {
	soft := conf.Priorities.Capacity != 0
	key := aloneKey{spec, soft}
	if s := c.bare[key]; s != nil {
		return s
	}
	bare := *spec
	if bare.DomainPolicy != "" {
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
