package whatif

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/shared/cluster"
	"berth/shared/placement"
)

// Question is what would be placed: more tasks of a service, tasks of a definition, or tasks of a size. Rules are added to
// those of the service, or replace them where there is only room for one.
type Question struct {
	Service    string
	Definition string // family:revision
	Needs      cluster.Resources
	Ports      []cluster.Port
	Rules      cluster.Rules
	Count      int
}

// NotFound is what was asked about and is not in the cluster, with what is.
type NotFound struct {
	Kind, Name string
	Known      []string
}

func (e *NotFound) Error() string {
	return fmt.Sprintf("%s %q is not in the cluster, expected one of: %s", e.Kind, e.Name, strings.Join(e.Known, ", "))
}

// request is the question for the engine.
func (q Question) request(snap *cluster.Snapshot) (placement.Request, error) {
	def := &cluster.TaskDefinition{Needs: q.Needs, Ports: q.Ports}
	owner, group, rules, target := "what-if", "", q.Rules, q.Count
	perInstance := 0
	if q.Service != "" {
		s := snap.Services[q.Service]
		if s == nil {
			return placement.Request{}, &NotFound{"service", q.Service, slices.Sorted(maps.Keys(snap.Services))}
		}
		owner, target, rules = s.Short, max(s.Desired, len(snap.Owned(s.Short))+q.Count), merge(s.Rules, q.Rules)
		q.Definition = s.TaskDefinition
		if s.Strategy == cluster.Daemon {
			perInstance = 1
		} else if rules.DomainPolicy == "" {
			rules.DomainPolicy = snap.Configuration.DomainPolicy
		}
	}
	if q.Definition != "" {
		if def = snap.Definitions[q.Definition]; def == nil {
			return placement.Request{}, &NotFound{"task definition", q.Definition, slices.Sorted(maps.Keys(snap.Definitions))}
		}
	}
	spec, err := placement.NewSpec(def, owner, group, &rules)
	if err != nil {
		return placement.Request{}, err
	}
	if perInstance > 0 {
		spec.PerInstance = perInstance
	}
	return placement.Request{Spec: spec, Count: q.Count, Target: target}, nil
}

func merge(a, b cluster.Rules) cluster.Rules {
	a.Constraints = slices.Concat(a.Constraints, b.Constraints)
	if b.Strategies != nil {
		a.Strategies = b.Strategies
	}
	if b.NodeConstraint != "" {
		a.NodeConstraint = b.NodeConstraint
	}
	if b.DomainPolicy != "" {
		a.DomainPolicy = b.DomainPolicy
	}
	if b.Metrics != nil {
		a.Metrics = b.Metrics
	}
	if b.Scoring != "" {
		a.Scoring = b.Scoring
	}
	return a
}
