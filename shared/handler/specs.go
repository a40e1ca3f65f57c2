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
}

// serviceSpec is a service's spec and the rows that it was made from.
type serviceSpec struct {
	spec    *placement.Spec
	service *cluster.Service
	def     *cluster.TaskDefinition
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

// service is the spec of the service's tasks. Its row changes with every decision, what it asks for seldom does.
func (c *specs) service(s *cluster.Service, def *cluster.TaskDefinition) *placement.Spec {
	old, ok := c.services[s.Short]
	if ok && (old.service.Rev == s.Rev || asksTheSame(old.service, s)) && old.def.Name() == def.Name() && old.def.Rev == def.Rev {
		return old.spec
	}
	spec := newSpec(def, s.Short, &s.Rules)
	if s.Strategy == cluster.Daemon {
		spec.PerInstance = 1
	}
	if len(c.services) >= maxSpecs {
		clear(c.services)
	}
	c.services[s.Short] = serviceSpec{spec, s, def}
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
	spec := newSpec(def, owner, &rules)
	spec.Needs, spec.Group = k.needs, k.group
	if len(c.shapes) >= maxSpecs {
		clear(c.shapes)
	}
	c.shapes[k] = shapeSpec{spec, def.Rev}
	return spec
}

func newSpec(def *cluster.TaskDefinition, owner string, rules *cluster.Rules) *placement.Spec {
	return &placement.Spec{
		Needs: def.Needs, Ports: def.Ports, Attributes: def.Attributes, Owner: owner,
		Loads: rules.Metrics, Strategies: rules.Strategies, DomainPolicy: rules.DomainPolicy,
		Scoring: rules.Scoring, MoveCost: rules.MoveCost,
	}
}
