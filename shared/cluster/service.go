package cluster

import "time"

// SchedulingStrategy is REPLICA or DAEMON.
type SchedulingStrategy string

// The scheduling strategies of the ECS API.
const (
	Replica SchedulingStrategy = "REPLICA"
	Daemon  SchedulingStrategy = "DAEMON"
)

// ServiceStatus is the life cycle of a service (S10).
type ServiceStatus string

// A service is ACTIVE, then DRAINING while its tasks stop, then INACTIVE until it is purged.
const (
	ServiceActive   ServiceStatus = "ACTIVE"
	ServiceDraining ServiceStatus = "DRAINING"
	ServiceInactive ServiceStatus = "INACTIVE"
)

// Service is what a user asked for, and what the scheduler remembers of how it goes.
type Service struct {
	Head
	Name string `json:"nm"`
	// Short is the service's key in task rows and in startedBy: it differs for every creation of the same name.
	Short    string             `json:"sh"`
	Status   ServiceStatus      `json:"st"`
	Strategy SchedulingStrategy `json:"ss"`
	Desired  int                `json:"de"` // of a DAEMON service the instances that should have one, as last counted
	// Deployment is the PRIMARY one; Older are those whose tasks have yet to go, newest first. Last is the revision that a
	// rollback goes back to: the last that was completed, nil where that is the PRIMARY's or there is none.
	Deployment Deployment   `json:"dp"`
	Older      []Deployment `json:"od,omitempty"`
	Last       *Revision    `json:"lr,omitempty"`
	// Release is the current or last service deployment.
	Release    *Release         `json:"re,omitempty"`
	MinHealthy int              `json:"mi"` // percent, of the desired count, rounded up
	MaxPercent int              `json:"ma"` // percent, of the desired count, rounded down
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
	CreatedAt time.Time         `json:"ca"`
	CreatedBy string            `json:"cb,omitempty"`
	Tags      map[string]string `json:"tg,omitempty"`
	// PropagateTags is TASK_DEFINITION, SERVICE or NONE.
	PropagateTags string `json:"pt,omitempty"`
	// Token is the clientToken of its creation; Params a digest of the parameters that came with it.
	Token  string `json:"ct,omitempty"`
	Params string `json:"cp,omitempty"`

	// Events is how many service events were written: the ring's next position.
	Events int `json:"ev,omitempty"`
	// Steady reports that the last word to the user was "has reached a steady state".
	Steady bool `json:"sd,omitempty"`
	// Counts are what the last decision saw; DescribeServices shows them.
	Running int `json:"rc,omitempty"`
	Pending int `json:"pc,omitempty"`
	// Blocked is why tasks that are wanted could not be placed; nil when all were.
	Blocked *Diagnosis `json:"bl,omitempty"`
	// BlockedSince is since when, without any of its tasks having been placed or stopped.
	BlockedSince time.Time `json:"bs,omitzero"`
	// Moving reports that tasks are on their way to other instances, or will be once the service has come to rest.
	Moving bool `json:"mo,omitempty"`
	// Targets are instances for tasks that were stopped to be started there, until TargetsUntil.
	Targets      []string  `json:"tt,omitempty"`
	TargetsUntil time.Time `json:"tu,omitzero"`
	// GaveUp reports that such a task found no room there in time: nothing is stopped first until something changes.
	GaveUp bool `json:"gu,omitempty"`
	// Unrepaired is the rule that the tasks break where they are and that no moves can mend, in words.
	Unrepaired string `json:"un,omitempty"`
	// Said are events that are not repeated, by what they are about, until the cause is over or 6 hours have passed (S12).
	Said map[string]time.Time `json:"sy,omitempty"`
	// Rebalancing reports that tasks are being started and stopped to balance the zones (S13).
	Rebalancing bool `json:"rz,omitempty"`
	// Options are passed on with the start of each task.
	Options ServiceOptions `json:"op,omitzero"`
}

// Bounds are how many of so many desired tasks stay RUNNING and healthy at least, rounded up, and how many there may be at most,
// rounded down (S8).
func (s *Service) Bounds(desired int) (least, most int) {
	return (desired*s.MinHealthy + 99) / 100, desired * s.MaxPercent / 100
}

// Healthy is how many tasks of all its deployments were healthy, as the last decision saw them.
func (s *Service) Healthy() int {
	n := s.Deployment.Healthy
	for i := range s.Older {
		n += s.Older[i].Healthy
	}
	return n
}

// Revision is the revision with a deployment's id, of those that the service has tasks of or goes back to; nil for another.
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

// Revisions are those of the service's deployments, the PRIMARY's first.
func (s *Service) Revisions() []*Revision {
	out := []*Revision{&s.Deployment.Revision}
	for i := range s.Older {
		out = append(out, &s.Older[i].Revision)
	}
	return out
}

// ServiceOptions are settings of a service that are ECS's to act on.
type ServiceOptions struct {
	ManagedTags    bool `json:"mt,omitempty"` // enableECSManagedTags
	ExecuteCommand bool `json:"ec,omitempty"` // enableExecuteCommand
}

// Launch is what a service's tasks are started with beside their definition and network.
type Launch struct {
	ServiceOptions
	// FromDefinition has ECS put the task definition's tags on the tasks (propagateTags TASK_DEFINITION). Tags are the
	// service's, where those are propagated: ECS's StartTask knows no service to take them from.
	FromDefinition bool              `json:"fd,omitempty"`
	Tags           map[string]string `json:"tg,omitempty"`
}

// Launch is what the service's tasks are started with; nil where that is nothing.
func (s *Service) Launch() *Launch {
	l := &Launch{ServiceOptions: s.Options, FromDefinition: s.PropagateTags == "TASK_DEFINITION"}
	if s.PropagateTags == "SERVICE" && len(s.Tags) > 0 {
		l.Tags = s.Tags
	}
	if l.ServiceOptions == (ServiceOptions{}) && !l.FromDefinition && l.Tags == nil {
		return nil
	}
	return l
}

// ProviderShare is one entry of a capacity provider strategy (S14): of a service's tasks the first Base are placed with
// the provider, of the rest a share by Weight.
type ProviderShare struct {
	Provider string `json:"n"`
	Base     int    `json:"b,omitempty"`
	Weight   int    `json:"w,omitempty"`
}

// ServiceEvent is one message of DescribeServices.events; 100 are kept in a ring.
type ServiceEvent struct {
	Head
	ID        string    `json:"id"`
	Service   string    `json:"sv"` // short key
	Slot      int       `json:"sl"` // position in the ring, 0 to 99
	Number    int       `json:"no"` // how many came before
	CreatedAt time.Time `json:"at"`
	Message   string    `json:"ms"`
}

// EventRing is how many service events are kept.
const EventRing = 100

// Bounds of a service (quotas of ECS; API reference, LoadBalancer, ServiceRegistry, CapacityProviderStrategyItem).
const (
	// MaxDesired is the most tasks of one service, MaxDiscovered of one that is registered in Cloud Map.
	MaxDesired       = 5000
	MaxDiscovered    = 1000
	MaxLoadBalancers = 5
	MaxRegistries    = 1
	MaxProviders     = 20
	MaxBase          = 100_000
	MaxWeight        = 1000
	// MaxAlarms is how many alarms one DescribeAlarms of CloudWatch takes.
	MaxAlarms = 100
	// MaxOlder is how many deployments of one service may be on their way out.
	MaxOlder = 10
)
