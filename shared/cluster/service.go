package cluster

import (
	"encoding/json"
	"slices"
	"time"
)

// SchedulingStrategy is REPLICA or DAEMON.
type SchedulingStrategy string

// The scheduling strategies of the ECS API.
const (
	Replica SchedulingStrategy = "REPLICA"
	Daemon  SchedulingStrategy = "DAEMON"
)

// DaemonMaximum refuses a maximumPercent above 100 of a DAEMON service, in ECS's words.
const DaemonMaximum = "The daemon scheduling strategy does not support values above 100 for maximumPercent on a " +
	"deployment configuration. Change the maximumPercent value to 100, and try again"

// DaemonDesiredCount refuses a desired count of a DAEMON service, in ECS's words.
const DaemonDesiredCount = "The daemon scheduling strategy does not support a desired count for services. Remove the " +
	"desired count value and try again"

// ServiceLifecycle is the status that the ECS API shows of a service (S10).
type ServiceLifecycle string

// A service is ACTIVE, then DRAINING while its tasks stop, then INACTIVE until it is purged.
const (
	ServiceActive   ServiceLifecycle = "ACTIVE"
	ServiceDraining ServiceLifecycle = "DRAINING"
	ServiceInactive ServiceLifecycle = "INACTIVE"
)

// Service is the row of one service: what the user asked for, and what the scheduler remembers of
// how it goes.
type Service struct {
	Head
	ServiceIdentity
	ServiceSpec
	ServiceStatus
	ServiceTimes
}

// ServiceTimes are since when conditions of a service last, which only users read. A time is zero
// while its condition does not hold, and in rows from before Berth noted it.
type ServiceTimes struct {
	// UnhealthySince is when a decision first saw a RUNNING task unhealthy, by its containers or by
	// a target.
	UnhealthySince time.Time `json:"uh,omitzero"`
	// RulesChangedAt is when a change last concerned which instances the service may use: of its
	// rules, its capacity providers, its task definition's constraints, or its end.
	RulesChangedAt time.Time `json:"rt,omitzero"`
}

// ServiceIdentity says which service it is and which call created it. It never changes.
type ServiceIdentity struct {
	Name string `json:"nm"`
	// Short is the service's key in task rows and in startedBy. A service that is created again
	// under the same name gets another one.
	Short     string    `json:"sh"`
	CreatedAt time.Time `json:"ca"`
	CreatedBy string    `json:"cb,omitempty"` // principal
	// Token is the clientToken of the call, Params a digest of its parameters.
	Token  string `json:"ct,omitempty"`
	Params string `json:"cp,omitempty"`
	// Controller is EXTERNAL for a service of task sets.
	Controller DeploymentController `json:"dc,omitempty"`
}

// ServiceSpec is what the user asked for.
type ServiceSpec struct {
	Strategy SchedulingStrategy `json:"ss"`
	// Desired is the desired count. For a DAEMON service it is the number of eligible instances, as
	// last counted.
	Desired    int              `json:"de"`
	MinHealthy int              `json:"mi"` // minimumHealthyPercent, of the desired count, rounded up
	MaxPercent int              `json:"ma"` // maximumPercent, of the desired count, rounded down
	Breaker    CircuitBreaker   `json:"br,omitzero"`
	Alarms     DeploymentAlarms `json:"al,omitzero"`
	Early      EarlySuccess     `json:"es,omitzero"`
	Grace      int              `json:"gr,omitempty"` // healthCheckGracePeriodSeconds
	// ZoneRebalancing is availabilityZoneRebalancing ENABLED (S13).
	ZoneRebalancing bool `json:"zr,omitempty"`
	// Providers is the capacity provider strategy (S14).
	Providers []ProviderShare   `json:"cs,omitempty"`
	Rules     Rules             `json:"ru,omitzero"`
	Role      string            `json:"ro,omitempty"`
	Tags      map[string]string `json:"tg,omitempty"`
	// PropagateTags is TASK_DEFINITION, SERVICE or NONE.
	PropagateTags string `json:"pt,omitempty"`
	// Options are passed on when a task is started.
	Options ServiceOptions `json:"op,omitzero"`
}

// ServiceStatus is what the scheduler remembers of a service.
type ServiceStatus struct {
	Status ServiceLifecycle `json:"st"`
	// Deployment is the PRIMARY deployment. Older are earlier ones that still have tasks, newest
	// first.
	Deployment Deployment   `json:"dp"`
	Older      []Deployment `json:"od,omitempty"`
	// Last is the revision that a rollback returns to: the last one that completed. It is nil if
	// that is the PRIMARY deployment's own, or if there is none.
	Last *Revision `json:"lr,omitempty"`
	// Release is the current or last service deployment.
	Release *Release `json:"re,omitempty"`

	// Running and Pending are the task counts that the last decision left; DescribeServices shows
	// them.
	Running int `json:"rc,omitempty"`
	Pending int `json:"pc,omitempty"`
	// Steady is set if the service's last event about it was "has reached a steady state".
	Steady bool `json:"sd,omitempty"`

	// EnoughHealthy is set if the last decision found as many healthy tasks as are wanted.
	EnoughHealthy bool `json:"eh,omitempty"`

	// Blocked says why tasks that are wanted could not be placed; nil if all were. BlockedSince is
	// when the service last stopped a task, or the number of tasks left to place last fell below all before.
	Blocked      *Diagnosis `json:"bl,omitempty"`
	BlockedSince time.Time  `json:"bs,omitzero"`
	// Moving is set if tasks are moving to other instances, or will once the service is steady.
	Moving bool `json:"mo,omitempty"`
	// MoveTargets are the instances that tasks were stopped for and are to start on, until
	// MoveTargetsUntil.
	MoveTargets      []string  `json:"tt,omitempty"`
	MoveTargetsUntil time.Time `json:"tu,omitzero"`
	// MoveGaveUp is set if such a task found no room there in time. No task is stopped before its
	// replacement starts until something changes.
	MoveGaveUp bool `json:"gu,omitempty"`
	// Unrepaired says which rule tasks violate where they are, if no set of moves repairs it.
	Unrepaired string `json:"un,omitempty"`
	// ScaledAt is when the interval began in which the load has changed the desired count last.
	ScaledAt time.Time `json:"la,omitzero"`
	// Rebalancing is set while tasks move to balance the zones (S13).
	Rebalancing bool `json:"rz,omitempty"`

	// EmittedKeys are the keys of events that are not repeated until their cause is over or 6 hours
	// have passed, and when the events were emitted (S12).
	EmittedKeys map[string]time.Time `json:"sy,omitempty"`
	// Events is how many service events were written: the ring's next position.
	Events int `json:"ev,omitempty"`
}

// UnmarshalJSON reads a service's row. Rows written before services could have several deployments
// have the revision's fields beside the deployment, not in it.
func (s *Service) UnmarshalJSON(data []byte) error {
	type plain Service
	if err := json.Unmarshal(data, (*plain)(s)); err != nil || s.Deployment.TaskDefinition != "" ||
		s.HasTaskSets() {
		return err
	}
	var before struct {
		TaskDefinition string   `json:"td"`
		Network        *Network `json:"nw"`
		Deployment     struct {
			Completed bool `json:"co"`
		} `json:"dp"`
	}
	if err := json.Unmarshal(data, &before); err != nil {
		return err
	}
	d := &s.Deployment
	d.TaskDefinition, d.Network, d.Constraints = before.TaskDefinition, before.Network, s.Rules.Constraints
	if before.Deployment.Completed {
		d.State = RolloutCompleted
	}
	return nil
}

// TaskBounds returns how many tasks must be RUNNING and healthy at least, rounded up, and how many
// there may be at most, rounded down, with so many desired (S8). With percentages of 50 and 150, 5
// desired tasks have the bounds 3 and 7.
func (s *Service) TaskBounds(desired int) (least, most int) {
	return (desired*s.MinHealthy + 99) / 100, desired * s.MaxPercent / 100
}

// HealthyCount returns how many tasks of all deployments were healthy when the last decision was
// made.
func (s *Service) HealthyCount() int {
	n := s.Deployment.Healthy
	for i := range s.Older {
		n += s.Older[i].Healthy
	}
	return n
}

// HasEnoughHealthy reports whether an ACTIVE service has as many healthy tasks as it wants, in each
// of its task sets.
func (s *Service) HasEnoughHealthy() bool {
	return s.Status == ServiceActive &&
		!slices.ContainsFunc(s.Parts(), func(part *Service) bool { return part.HealthyCount() < part.Desired })
}

// Revision returns the revision with a deployment's id if the service has tasks of it or may roll
// back to it, else nil.
func (s *Service) Revision(id string) *Revision {
	if s.Deployment.ID == id {
		return &s.Deployment.Revision
	}
	for i := range s.Older {
		if s.Older[i].ID == id {
			return &s.Older[i].Revision
		}
	}
	if s.Last != nil && s.Last.ID == id {
		return s.Last
	}
	return nil
}

// Revisions returns the revisions of the service's deployments, the PRIMARY one first.
func (s *Service) Revisions() []*Revision {
	out := []*Revision{&s.Deployment.Revision}
	for i := range s.Older {
		out = append(out, &s.Older[i].Revision)
	}
	return out
}

// ServiceOptions are settings of a service that ECS itself acts on.
type ServiceOptions struct {
	ManagedTags    bool `json:"mt,omitempty"` // enableECSManagedTags
	ExecuteCommand bool `json:"ec,omitempty"` // enableExecuteCommand
}

// Launch has the settings of StartTask besides task definition, overrides and network.
type Launch struct {
	ServiceOptions
	// FromDefinition asks ECS to put the task definition's tags on the tasks (propagateTags
	// TASK_DEFINITION). Tags are the service's own, if these are propagated: ECS's StartTask knows
	// no service to take them from. A standalone task has all its tags here.
	FromDefinition bool              `json:"fd,omitempty"`
	Tags           map[string]string `json:"tg,omitempty"`
	Volumes        []Volume          `json:"vo,omitempty"`
}

// LaunchSettings returns the launch settings of the service's tasks of a revision, or nil if there
// are none.
func (s *Service) LaunchSettings(r *Revision) *Launch {
	l := &Launch{ServiceOptions: s.Options, FromDefinition: s.PropagateTags == "TASK_DEFINITION"}
	if r != nil {
		l.Volumes = s.volumesFor(r)
	}
	if tags := UserTags(s.Tags); s.PropagateTags == "SERVICE" && len(tags) > 0 {
		l.Tags = tags
	}
	if l.ServiceOptions == (ServiceOptions{}) && !l.FromDefinition && l.Tags == nil && l.Volumes == nil {
		return nil
	}
	return l
}

// ProviderShare is one entry of a capacity provider strategy (S14). The first Base tasks of a
// service use the provider, and of the rest a share by Weight: with weights 1 and 3, every fourth
// task uses the first provider.
type ProviderShare struct {
	Provider string `json:"n"`
	Base     int    `json:"b,omitempty"`
	Weight   int    `json:"w,omitempty"`
}

// HasWeight reports whether a capacity provider strategy has a provider for the tasks beyond its
// base.
func HasWeight(strategy []ProviderShare) bool {
	return slices.ContainsFunc(strategy, func(s ProviderShare) bool { return s.Weight > 0 })
}

// ServiceEvent is one message of DescribeServices.events. A ring keeps the last 100.
type ServiceEvent struct {
	Head
	ID        string    `json:"id"`
	Service   string    `json:"sv"` // short key
	Slot      int       `json:"sl"` // position in the ring, 0 to 99
	Number    int       `json:"no"` // how many came before
	CreatedAt time.Time `json:"at"`
	Message   string    `json:"ms"`
}

// EventRing is how many events of a service are kept.
const EventRing = 100

// Bounds of a service (quotas of ECS; API reference, LoadBalancer, ServiceRegistry,
// CapacityProviderStrategyItem).
const (
	// MaxDesired is the most tasks of one service, MaxDiscovered of one that is registered in Cloud
	// Map.
	MaxDesired       = 5000
	MaxDiscovered    = 1000
	MaxLoadBalancers = 5
	MaxRegistries    = 1
	MaxProviders     = 20
	MaxBase          = 100_000
	MaxWeight        = 1000
	// MaxAlarms is how many alarms one DescribeAlarms of CloudWatch may name.
	MaxAlarms = 100
	// MaxOlder is how many older deployments of a service may still have tasks.
	MaxOlder = 10
)
