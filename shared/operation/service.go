package operation

import (
	"berth/shared/cluster"
)

// CreateService asks for a new service.
type CreateService struct {
	Cluster        string
	Name           string
	Strategy       cluster.SchedulingStrategy // REPLICA where empty
	TaskDefinition string                     // family, family:revision or ARN
	Desired        *int
	MinHealthy     *int
	MaxPercent     *int
	Role           string
	Rules          cluster.Rules
	Network        *cluster.Network
	Tags           map[string]string
	PropagateTags  string
	Token          string // clientToken
	Params         string // digest of all parameters, see [cluster.Digest]
	CreatedBy      string // principal
	// Launched reports that the caller named a launch type, so that the cluster's default strategy
	// does not apply (S14).
	Launched bool
	// Controller is EXTERNAL for a service of task sets, which has no task definition of its own.
	Controller cluster.DeploymentController
	ServiceParameters
}

// UpdateService changes a service. What is nil, or an empty TaskDefinition, stays as it is.
type UpdateService struct {
	Cluster        string
	Name           string
	Desired        *int
	MinHealthy     *int
	MaxPercent     *int
	TaskDefinition string // family, family:revision or ARN; empty leaves it
	Force          bool   // forceNewDeployment
	// Constraints and Strategies replace the whole list; nil leaves it.
	Constraints *[]cluster.PlacementConstraint
	Strategies  *[]cluster.PlacementStrategy
	// Network replaces the service's network. One without subnets removes it; nil keeps it.
	Network       *cluster.Network
	PropagateTags string
	// Controller is the deployment controller that the caller expects; nil if the caller says
	// nothing. It cannot be changed.
	Controller *cluster.DeploymentController
	ServiceParameters
}

// ServiceParameters are what CreateService and UpdateService both take; nil for what the caller did
// not give. A list that is given replaces the one before.
type ServiceParameters struct {
	Breaker         *cluster.CircuitBreaker
	Alarms          *cluster.DeploymentAlarms
	Early           *cluster.EarlySuccess
	LoadBalancers   *[]cluster.LoadBalancer
	Registries      *[]cluster.Registry
	Volumes         *[]cluster.Volume
	Grace           *int // seconds
	ZoneRebalancing *bool
	Providers       *[]cluster.ProviderShare
	ManagedTags     *bool
	ExecuteCommand  *bool
}

// ServiceDetail is a service with its newest events, as DescribeServices shows it.
type ServiceDetail struct {
	*cluster.Service
	EventLog []*cluster.ServiceEvent // newest first
}

// ListServices asks for a page of ACTIVE services sorted by name.
type ListServices struct {
	Cluster  string
	Strategy cluster.SchedulingStrategy // any where empty
	External *bool                      // of the launch type EXTERNAL, or not; nil: any
	After    string                     // name
	Limit    int
}
