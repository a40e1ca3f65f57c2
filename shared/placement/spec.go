package placement

import (
	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement/domain"
	"berth/shared/placement/eligibility"
)

// A Spec is what the tasks of one kind need. It is created once and never changed: the engine's
// caches are keyed by its pointer.
type Spec struct {
	Needs      cluster.Resources
	Ports      []cluster.Port
	Attributes []string // required of an instance: name, or name=value
	// Tolerations say which taints of an instance do not keep the tasks off it.
	Tolerations []cluster.Toleration
	// Loads are the metrics that each task starts with (P9).
	Loads []cluster.Metric
	// Tasks of Owner are spread (S2, S3). If Group is not empty, only tasks of that group count,
	// and the new tasks are of it.
	Owner string
	Group string
	// Deployment, if not empty, is the id of the deployment that the tasks are of. Then they are spread
	// by its tasks alone, as those of the service's other deployments will end. PerInstance and domain
	// policies count all.
	Deployment string
	// PerInstance is the most tasks that Owner, or its tasks in Group, may have on one instance; 0
	// is no limit. Stopping tasks count. distinctInstance and DAEMON mean 1; with a domain policy
	// it is never more than 1.
	PerInstance int
	// Constraints must all match: memberOf and node-property expressions.
	Constraints []*constraint.Expression
	// Strategies are applied in order, each among the instances that the earlier ones leave equal
	// (S3). Without any strategy, scoring and domain policy, the default spread (S2) applies.
	Strategies   []cluster.PlacementStrategy
	DomainPolicy cluster.DomainPolicy
	// Scoring names the order among instances that everything else leaves equal: "" or one of
	// [ScoringNames].
	Scoring string
	// Avoid has instances that get no new task. Tasks on them stay.
	Avoid []string
	// AllOrNothing places the first tasks of an owner all or not at all.
	AllOrNothing bool
	MoveCost     cluster.MoveCost
	// Affinity is an owner beside whose tasks these tasks run, each on an instance that has one of
	// them; empty for none.
	Affinity string
	// Application names the application whose limits bind the tasks; empty for none.
	Application string
	// Replacing says that the tasks replace others, which the application's number of instances and its
	// capacity in all count already.
	Replacing bool
}

// NewSpec returns the spec of the owner's tasks in the group: they need what the definition says,
// under the rules. Both the service's and the definition's constraints must hold. The error says
// which constraint cannot be read.
func NewSpec(def *cluster.TaskDefinition, owner, group string, rules *cluster.Rules) (*Spec, error) {
	constraints, distinct, err := eligibility.ParseConstraints(def, rules)
	if err != nil {
		return nil, err
	}
	s := &Spec{
		Needs: def.Needs, Ports: def.Ports, Attributes: eligibility.RequiredAttributes(def, rules),
		Constraints: constraints, Loads: rules.Metrics, Owner: owner, Group: group,
		Strategies: rules.Strategies, DomainPolicy: rules.DomainPolicy, Scoring: rules.Scoring,
		MoveCost: rules.MoveCost, Tolerations: rules.Tolerations, Application: rules.Application,
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

// IsGoverned reports whether a domain policy governs the tasks (P1 to P6).
func (s *Spec) IsGoverned() bool { return domain.Rule{Policy: s.DomainPolicy}.Governs() }

// MaxPerInstance returns how many of the tasks may share an instance, 0 for any number.
func (s *Spec) MaxPerInstance() int32 {
	if s.IsGoverned() {
		return 1
	}
	return int32(s.PerInstance)
}

// A Request asks for instances for a number of tasks, or which of them should stop.
type Request struct {
	Spec  *Spec
	Count int
	// Target is the service's desired count, which domain rules depend on (P4, P5).
	Target int
	// Instances, if not nil, are the only ones to use: one task on each, in this order, before any
	// gets a second.
	Instances []string
	// Refused has instances that get no task now: ECS has refused a start there, for a reason that
	// no row shows (S7).
	Refused []string
	// Seed decides choices by chance: the same seed makes the same choices.
	Seed uint64
	// Unbuffered forbids the buffer and overbooking (P14).
	Unbuffered bool
	// Strict forbids relaxing soft rules.
	Strict bool
	// Unexplained leaves out the diagnosis, which may have to examine every instance.
	Unexplained bool
}

// A Placement is where one task goes: the instance, and the positions of its GPU devices.
type Placement struct {
	Instance string
	GPUs     []int
}

// A Result says where the tasks go. Diagnosis says why the rest found no instance. It is nil if all
// were placed, or if the request wanted none.
type Result struct {
	Placed    []Placement
	Diagnosis *cluster.Diagnosis
}
