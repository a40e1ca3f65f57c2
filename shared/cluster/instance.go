package cluster

import (
	"cmp"
	"maps"
	"strings"
)

// InstanceStatus is the status of a container instance, in ECS's words.
type InstanceStatus string

// The container instance statuses of the ECS API. Only an ACTIVE instance takes new tasks.
const (
	InstanceRegistering   InstanceStatus = "REGISTERING"
	InstanceActive        InstanceStatus = "ACTIVE"
	InstanceDraining      InstanceStatus = "DRAINING"
	InstanceDeregistering InstanceStatus = "DEREGISTERING"
	InstanceInactive      InstanceStatus = "INACTIVE"
	InstanceFailed        InstanceStatus = "REGISTRATION_FAILED"
)

// Built-in attributes that rules name.
const (
	AttributeZone         = "ecs.availability-zone"
	AttributeInstanceType = "ecs.instance-type"
	AttributeFaultDomain  = "berth.fault-domain"
	AttributeUpgrade      = "berth.upgrade-domain"
	// AttributeProvider names the capacity provider of an instance for which ECS names none (S14).
	AttributeProvider = "berth.capacity-provider"
	// AttributeExternal marks instances outside EC2 (ECS Anywhere).
	AttributeExternal = "ecs.capability.external"
	// AttributeUnschedulable, with any value, keeps new tasks off the instance. Tasks that are
	// there stay (N3).
	AttributeUnschedulable = "berth.unschedulable"
)

// Instance is a container instance as ECS last reported it.
type Instance struct {
	Head
	ID             string         `json:"id"` // the last part of its ARN
	EC2InstanceID  string         `json:"ec2,omitempty"`
	Status         InstanceStatus `json:"st"`
	AgentConnected bool           `json:"ac"`
	AgentVersion   string         `json:"av,omitempty"`
	// DisconnectedAt is when Berth first saw the agent disconnected; zero while it is connected.
	DisconnectedAt Instant `json:"da,omitzero"`
	// DrainingAt is when Berth first saw the instance DRAINING; zero while it is not.
	DrainingAt Instant `json:"dr,omitzero"`
	// AttributesChangedAt is when Berth saw the attributes change last; zero if they are those that
	// the instance was first seen with.
	AttributesChangedAt Instant `json:"ch,omitzero"`
	// Provider is the capacity provider that the instance belongs to (S14); empty for none.
	Provider     string            `json:"cp,omitempty"`
	Version      int64             `json:"v"` // of the event that last changed it
	RegisteredAt Instant           `json:"at"`
	Registered   Capacity          `json:"r"`
	Attributes   map[string]string `json:"a,omitempty"`
	// ReleasedIn is the Auto Scaling group that managed scaling has allowed to terminate the
	// instance. It must be protected from scale-in before a task starts here (C6).
	ReleasedIn string `json:"rl,omitempty"`
}

// Zone returns the instance's availability zone, empty if it has none.
func (i *Instance) Zone() string { return i.Attributes[AttributeZone] }

// CapacityProvider returns the capacity provider that the instance belongs to, from ECS or else
// from its attribute. It is empty for none.
func (i *Instance) CapacityProvider() string {
	return cmp.Or(i.Provider, i.Attributes[AttributeProvider])
}

// IsExternal reports whether the instance is outside EC2: by its attribute, or by an id of Systems
// Manager.
func (i *Instance) IsExternal() bool {
	_, external := i.Attributes[AttributeExternal]
	return external || strings.HasPrefix(i.EC2InstanceID, "mi-")
}

// IsAvailable reports whether new tasks may be started here at all: ACTIVE, its agent connected.
func (i *Instance) IsAvailable() bool { return i.Status == InstanceActive && i.AgentConnected }

// Supersedes reports whether i, rather than old, is the container instance of their EC2 instance.
// When an agent registers again, the old registration stays behind, disconnected. Registered
// instances come before deregistered ones, then connected before disconnected, then later before
// earlier registrations. old may be nil.
func (i *Instance) Supersedes(old *Instance) bool {
	if old == nil {
		return true
	}
	rank := func(i *Instance) int {
		switch {
		case i.IsDeregistered():
			return 0
		case !i.AgentConnected:
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(i), rank(old)), i.RegisteredAt.Compare(old.RegisteredAt),
		cmp.Compare(i.ID, old.ID)) > 0
}

// IsDeregistered reports whether the instance has left the cluster, and its tasks with it.
func (i *Instance) IsDeregistered() bool { return i.Status == InstanceInactive }

// SameReport reports whether ECS reports the same of both, except for versions. A report that
// changes nothing needs no write.
func (i *Instance) SameReport(o *Instance) bool {
	return i.Status == o.Status && i.AgentConnected == o.AgentConnected && i.AgentVersion == o.AgentVersion &&
		i.EC2InstanceID == o.EC2InstanceID && i.Provider == o.Provider && i.Registered.Equal(o.Registered) &&
		maps.Equal(i.Attributes, o.Attributes)
}
