package cluster

import "time"

// ServiceSpec is what CreateService was given, names already reduced from ARNs. Pointers are nil where the caller said nothing.
type ServiceSpec struct {
	Cluster        string
	Name           string
	Strategy       SchedulingStrategy // REPLICA where empty
	TaskDefinition string             // family, family:revision or ARN
	Desired        *int
	MinHealthy     *int
	MaxPercent     *int
	Role           string
	Rules          Rules
	Network        *Network
	Tags           map[string]string
	PropagateTags  string
	Token          string // clientToken
	Params         string // digest of all parameters, see Digest
	CreatedBy      string // principal
	// Launched reports that the caller named a launch type: then the cluster's default strategy does not hold.
	Launched bool
	ServiceParameters
}

// ServiceChange is what UpdateService was given.
type ServiceChange struct {
	Cluster        string
	Name           string
	Desired        *int
	MinHealthy     *int
	MaxPercent     *int
	TaskDefinition string // family, family:revision or ARN; empty leaves it
	Force          bool   // forceNewDeployment
	// Constraints and Strategies replace the whole list; nil leaves it.
	Constraints *[]PlacementConstraint
	Strategies  *[]PlacementStrategy
	// Network replaces the service's; one without subnets takes it away, nil leaves it.
	Network       *Network
	PropagateTags string
	ServiceParameters
}

// ServiceParameters are what CreateService and UpdateService both take; nil where the caller said nothing. A list that is
// given replaces the one before.
type ServiceParameters struct {
	Breaker         *CircuitBreaker
	Alarms          *DeploymentAlarms
	Early           *EarlySuccess
	LoadBalancers   *[]LoadBalancer
	Registries      *[]Registry
	Grace           *int // seconds
	ZoneRebalancing *bool
	Providers       *[]ProviderShare
	ManagedTags     *bool
	ExecuteCommand  *bool
}

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

// DeploymentQuery selects service deployments of ListServiceDeployments, the newest first.
type DeploymentQuery struct {
	Cluster string
	Service string
	// Statuses are those wanted, any where empty; From and To bound the creation, both included, where not zero.
	Statuses []ServiceDeploymentStatus
	From, To time.Time
	After    string // id
	Limit    int
}

// RecordRef names a service deployment or a service revision: its id, or the revision's digits, in a service.
type RecordRef struct{ Cluster, Service, ID string }

// String is the last part of the ARN.
func (r RecordRef) String() string { return r.Cluster + "/" + r.Service + "/" + r.ID }

// ReleaseDetail is a service deployment with the service that it is of.
type ReleaseDetail struct {
	Release
	Service *Service
}

// RevisionDetail is a service revision with the service that it is of.
type RevisionDetail struct {
	Revision
	Service *Service
}

// ProtectedTask is a task and until when it is not stopped by the scheduler; zero: it may be.
type ProtectedTask struct {
	Task  string // id
	Until time.Time
}

// ServiceDetail is a service with its newest events, for DescribeServices.
type ServiceDetail struct {
	*Service
	EventLog []*ServiceEvent // newest first
}

// ServiceQuery selects services of ListServices, in order of name.
type ServiceQuery struct {
	Cluster  string
	Strategy SchedulingStrategy // any where empty
	External *bool              // of the launch type EXTERNAL, or not; nil: any
	After    string             // name
	Limit    int
}

// TaskSpec is what RunTask or StartTask was given.
type TaskSpec struct {
	Kind           RequestKind
	Cluster        string
	TaskDefinition string
	Count          int
	Instances      []string // ids, of StartTask
	Group          string
	StartedBy      string
	Overrides      *Overrides
	Rules          Rules
	Network        *Network
	// Wait is the value of the tag berth:wait: a duration, or "forever"; empty fails what fits nowhere.
	Wait   string
	Tags   map[string]string
	Token  string
	Params string
	// Launched reports that the caller named a launch type: then the cluster's default strategy does not hold.
	Launched bool
}

// TaskLaunch is what a task was asked for with beside its definition: a capacity provider (S14), or the launch type EXTERNAL.
type TaskLaunch struct {
	Provider string
	External bool
}

// TaskQuery selects tasks of ListTasks, in order of key. Desired is RUNNING where empty.
type TaskQuery struct {
	Cluster   string
	Service   string
	Family    string
	Instance  string
	StartedBy string
	Desired   TaskStatus
	External  *bool  // of the launch type EXTERNAL, or not; nil: any
	After     string // task id
	Limit     int
}
