package placement

import (
	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement/domain"
	"berth/shared/placement/eligibility"
)

// Spec is what the tasks of one kind need and want. It is made once and never changed: what the
// engine keeps for it goes by its pointer.
type Spec struct {
	Needs      cluster.Resources
	Ports      []cluster.Port
	Attributes []string // that an instance must have: name, or name=value
	// Loads are the metrics that each task starts out with (P9).
	Loads []cluster.Metric
	// Owner's tasks are spread (S2, S3); where Group is not empty, only those in it count, and the
	// tasks are of it.
	Owner string
	Group string
	// PerInstance is the most tasks that Owner, or its tasks in Group, may have on one instance,
	// those being stopped included; 0 is no limit. distinctInstance and DAEMON are 1; with a domain
	// policy it is never more than 1.
	PerInstance int
	// Constraints must all match: memberOf and node-property expressions.
	Constraints []*constraint.Expression
	// Strategies are tried in order, each among those that the ones before hold equal (S3). None is
	// S2's.
	Strategies   []cluster.PlacementStrategy
	DomainPolicy cluster.DomainPolicy
	// Scoring names the order among instances that all else holds equal; empty for the tightest
	// fit.
	Scoring string
	// Avoid are instances that get no new task; those there stay.
	Avoid []string
	// AllOrNothing places the tasks of an owner that has none yet all or not at all.
	AllOrNothing bool
	MoveCost     cluster.MoveCost
}

// NewSpec is the spec of the owner's tasks in the group: they need what the definition says, under
// the rules; a service's and its definition's constraints hold both. The error says what is wrong
// with a constraint.
func NewSpec(def *cluster.TaskDefinition, owner, group string, rules *cluster.Rules) (*Spec, error) {
	constraints, distinct, err := eligibility.ParseConstraints(def, rules)
	if err != nil {
		return nil, err
	}
	s := &Spec{
		Needs: def.Needs, Ports: def.Ports, Attributes: eligibility.RequiredAttributes(def, rules),
		Constraints: constraints,
		Loads:       rules.Metrics, Owner: owner, Group: group,
		Strategies: rules.Strategies, DomainPolicy: rules.DomainPolicy, Scoring: rules.Scoring,
		MoveCost: rules.MoveCost,
	}
	if distinct {
		s.PerInstance = 1
	}
	if rules.NodeConstraint != "" {
		d := constraints[len(constraints)-1].Directives()
		s.AllOrNothing = d.AllOrNothing
		if d.DomainPolicy != "" {
			s.DomainPolicy = cluster.DomainPolicy(d.DomainPolicy)
		}
	}
	return s, nil
}

// IsGoverned reports whether a domain policy governs the tasks (P1–P6).
func (s *Spec) IsGoverned() bool { return domain.Rule{Policy: s.DomainPolicy}.Governs() }

// MaxPerInstance returns how many of the tasks may share an instance, 0 for any number.
func (s *Spec) MaxPerInstance() int32 {
	if s.IsGoverned() {
		return 1
	}
	return int32(s.PerInstance)
}

// Request is a number of tasks of one kind that look for instances, or of which some are to stop.
type Request struct {
	Spec  *Spec
	Count int
	// Target is the desired count of the service: domain rules depend on it (P4, P5).
	Target int
	// Instances, where not nil, are the only ones in question: one task on each, in this order of
	// wish, before any gets a second.
	Instances []string
	// Refused are instances that get no task now: ECS has refused one there, for a reason that the
	// rows do not show (S7).
	Refused []string
	// Seed decides what chance decides: the same seed, the same choice.
	Seed uint64
	// Unbuffered forbids the buffer and overbooking (P14).
	Unbuffered bool
	// Unexplained leaves out the diagnosis, which takes a look at every instance.
	Unexplained bool
}

// Placement is where one task goes: the instance, and the positions of the GPU devices it is given.
type Placement struct {
	Instance string
	GPUs     []int
}

// Result is where the tasks go. Diagnosis says why the rest found no instance; nil when all were
// placed, and where the request wanted none.
type Result struct {
	Placed    []Placement
	Diagnosis *cluster.Diagnosis
}
