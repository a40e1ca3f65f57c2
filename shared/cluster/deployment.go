package cluster

import (
	"slices"
	"strings"
	"time"
)

// Revision is what the tasks of one deployment are made of. It is a service revision of the ECS
// API.
type Revision struct {
	// ID is the deployment's id, "ecs-svc/" and 19 digits; the same digits name the service
	// revision.
	ID             string         `json:"id"`
	CreatedAt      time.Time      `json:"ca"`
	TaskDefinition string         `json:"td,omitempty"` // family:revision
	Network        *Network       `json:"nw,omitempty"`
	LoadBalancers  []LoadBalancer `json:"lb,omitempty"`
	Registries     []Registry     `json:"rg,omitempty"`
	Volumes        []Volume       `json:"vo,omitempty"`
	// Providers is the service's capacity provider strategy when the deployment was made.
	Providers []ProviderShare `json:"cs,omitempty"`
	// Constraints are a DAEMON service's when the deployment was made. Its running tasks are held
	// to these (S4).
	Constraints []PlacementConstraint `json:"pc,omitempty"`
}

// IDDigits returns the digits of the deployment's id.
func (r *Revision) IDDigits() string { return strings.TrimPrefix(r.ID, "ecs-svc/") }

// RegistersTasks reports whether the revision's tasks are registered with target groups or in Cloud
// Map.
func (r *Revision) RegistersTasks() bool { return len(r.LoadBalancers)+len(r.Registries) > 0 }

// LoadBalancer is a target group that a container's port is registered with, or a Classic Load
// Balancer that the container's instance is registered with (S9).
type LoadBalancer struct {
	TargetGroup string `json:"tg"` // ARN of the target group, or ClassicBalancer of the other's name
	Container   string `json:"cn"`
	Port        int    `json:"cp"` // containerPort
}

// classicPrefix begins the part of its ARN that names a Classic Load Balancer.
const classicPrefix = "loadbalancer/"

// ClassicBalancer returns how a Classic Load Balancer is named where a target group has its ARN:
// "loadbalancer/web". A Classic Load Balancer has instances without ports, so each task that is
// registered with it has a fixed host port.
func ClassicBalancer(name string) string { return classicPrefix + name }

// ClassicName returns the name of a Classic Load Balancer that [ClassicBalancer] has named. is is
// false for the ARN of a target group or Cloud Map service.
func ClassicName(balancer string) (name string, is bool) {
	return strings.CutPrefix(balancer, classicPrefix)
}

// Registry is a Cloud Map service that a task is registered in (S9). Container and ContainerPort,
// or Port, name the port for an SRV record.
type Registry struct {
	ARN           string `json:"ar"`
	Port          int    `json:"p,omitempty"`
	Container     string `json:"cn,omitempty"`
	ContainerPort int    `json:"cp,omitempty"`
}

// RolloutState says how far a deployment is, in ECS's words.
type RolloutState string

// The rollout states of the ECS API.
const (
	RolloutInProgress RolloutState = "IN_PROGRESS"
	RolloutCompleted  RolloutState = "COMPLETED"
	RolloutFailed     RolloutState = "FAILED"
)

// Deployment is a revision of a service with its task counts. The PRIMARY deployment is what was
// asked for last. An ACTIVE one is older: tasks of the PRIMARY replace its own.
type Deployment struct {
	Revision
	UpdatedAt time.Time    `json:"ua"`
	State     RolloutState `json:"rs,omitempty"` // empty: in progress
	Reason    string       `json:"rr,omitempty"`
	// Desired is how many tasks an ACTIVE deployment should still have: a task that stops by itself
	// is replaced by one of the same revision. For the PRIMARY deployment the service's desired
	// count holds.
	Desired int `json:"de,omitempty"`
	// Failed is how many failures the circuit breaker has counted (S8).
	Failed int `json:"fa,omitempty"`
	// Healthy, Running and Pending are its task counts when the last decision was made.
	Healthy int `json:"he,omitempty"`
	Running int `json:"rc,omitempty"`
	Pending int `json:"pn,omitempty"`
	// BakeUntil is until when its alarms are watched once all its tasks run; zero before.
	BakeUntil time.Time `json:"bu,omitzero"`
	// Set is what makes it a task set, nil for a deployment of the controller ECS.
	Set *TaskSet `json:"ts,omitempty"`
}

// IsCompleted reports whether the deployment has reached its desired count and no older deployment
// is left.
func (d *Deployment) IsCompleted() bool { return d.State == RolloutCompleted }

// CircuitBreaker says after how many failures a deployment has failed (S8).
type CircuitBreaker struct {
	Enable   bool `json:"en,omitempty"`
	Rollback bool `json:"rb,omitempty"`
	// Cumulative keeps the count of failures when a task becomes healthy (resetOnHealthyTask
	// false).
	Cumulative bool `json:"cu,omitempty"`
	// Type is COUNT, BOUNDED_PERCENT or UNBOUNDED_PERCENT; empty means BOUNDED_PERCENT of 50.
	Type  ThresholdType `json:"ty,omitempty"`
	Value int           `json:"va,omitempty"`
}

// ThresholdType says what a circuit breaker's threshold value counts.
type ThresholdType string

// The threshold types of the ECS API.
const (
	ThresholdCount            ThresholdType = "COUNT"
	ThresholdBoundedPercent   ThresholdType = "BOUNDED_PERCENT"
	ThresholdUnboundedPercent ThresholdType = "UNBOUNDED_PERCENT"
)

// DeploymentAlarms are CloudWatch alarms that fail a deployment (S8).
type DeploymentAlarms struct {
	Names    []string `json:"n,omitempty"`
	Enable   bool     `json:"en,omitempty"`
	Rollback bool     `json:"rb,omitempty"`
}

// EarlySuccess completes a deployment before all its tasks run (earlySuccessCriteria of the ECS
// API): when Percent of the desired count are healthy. Deferred does not wait until the tasks of
// older deployments have gone (sourceServiceRevisionCleanup DEFERRED, else BLOCKING).
type EarlySuccess struct {
	Enable   bool `json:"en,omitempty"`
	Percent  int  `json:"pc,omitempty"`
	Deferred bool `json:"df,omitempty"`
}

// ServiceDeploymentStatus is the status of a service deployment, in ECS's words.
type ServiceDeploymentStatus string

// The service deployment statuses of the ECS API.
const (
	DeploymentPending            ServiceDeploymentStatus = "PENDING"
	DeploymentInProgress         ServiceDeploymentStatus = "IN_PROGRESS"
	DeploymentSuccessful         ServiceDeploymentStatus = "SUCCESSFUL"
	DeploymentStopped            ServiceDeploymentStatus = "STOPPED"
	DeploymentStopRequested      ServiceDeploymentStatus = "STOP_REQUESTED"
	DeploymentRollbackRequested  ServiceDeploymentStatus = "ROLLBACK_REQUESTED"
	DeploymentRollbackInProgress ServiceDeploymentStatus = "ROLLBACK_IN_PROGRESS"
	DeploymentRollbackSuccessful ServiceDeploymentStatus = "ROLLBACK_SUCCESSFUL"
	DeploymentRollbackFailed     ServiceDeploymentStatus = "ROLLBACK_FAILED"
)

// HasEnded reports whether the status is final.
func (s ServiceDeploymentStatus) HasEnded() bool {
	return slices.Contains([]ServiceDeploymentStatus{
		DeploymentSuccessful, DeploymentStopped, DeploymentRollbackSuccessful, DeploymentRollbackFailed,
	}, s)
}

// Release is a service deployment of the ECS API: one attempt to bring a service to a target
// revision, and back if that fails. The service's row has the current or last one; the history has
// a row for each.
type Release struct {
	ID         string                  `json:"id"` // the last part of its ARN
	Status     ServiceDeploymentStatus `json:"st"`
	Reason     string                  `json:"rs,omitempty"`
	CreatedAt  time.Time               `json:"ca"`
	StartedAt  time.Time               `json:"sa,omitzero"`
	FinishedAt time.Time               `json:"fa,omitzero"`
	StoppedAt  time.Time               `json:"so,omitzero"`
	UpdatedAt  time.Time               `json:"ua"`
	// Target and Sources are deployment ids ([Revision.ID]).
	Target  string   `json:"tr"`
	Sources []string `json:"sr,omitempty"`
	ReleaseResult
	// Stop is what StopServiceDeployment asked for, until placement acts on it.
	Stop StopType `json:"stp,omitempty"`
	// Alarms are the names of the alarms that are watched.
	Alarms []string `json:"al,omitempty"`
	// Breaker is set if the circuit breaker is on.
	Breaker bool `json:"br,omitempty"`
}

// ReleaseResult is how a service deployment goes, and why it ended the way it did.
type ReleaseResult struct {
	// Requested, Running and Pending are task counts of the target; Failures and Threshold are the
	// circuit breaker's.
	Requested int `json:"rq,omitempty"`
	Running   int `json:"rn,omitempty"`
	Pending   int `json:"pn,omitempty"`
	Failures  int `json:"fl,omitempty"`
	Threshold int `json:"th,omitempty"`
	// Tripped is set if the circuit breaker ended it; Triggered names the alarms that did.
	Tripped   bool     `json:"tp,omitempty"`
	Triggered []string `json:"tg,omitempty"`
	// TriggeredSince is when the first of those alarms entered ALARM, zero if unknown.
	TriggeredSince time.Time `json:"ts,omitzero"`
	// TargetDefinition is the task definition of the target, and LastFailure why the last of its tasks
	// failed to start, if the target failed. Rows of stopped tasks say both, but not for long.
	TargetDefinition string `json:"td,omitempty"`
	LastFailure      string `json:"lf,omitempty"`
	// RollbackTo is the deployment that it rolled back to, with why and since when.
	RollbackTo     string    `json:"rt,omitempty"`
	RollbackReason string    `json:"rw,omitempty"`
	RollbackAt     time.Time `json:"ra,omitzero"`
}

// StopType says what StopServiceDeployment does: ABORT leaves the tasks as they are, ROLLBACK
// returns to the last revision that completed.
type StopType string

// The stop types of the ECS API.
const (
	StopAbort    StopType = "ABORT"
	StopRollback StopType = "ROLLBACK"
)

// ServiceDeployment is the row of one [Release].
type ServiceDeployment struct {
	Head
	Service string `json:"sv"` // name
	Short   string `json:"sh"`
	Release
	// Configuration is the service's when the row was written: the service may have another one since.
	Configuration DeploymentConfiguration `json:"cf,omitzero"`
}

// DeploymentConfiguration says how the deployments of a service go, and when they fail.
type DeploymentConfiguration struct {
	MinHealthy int              `json:"mi"` // minimumHealthyPercent
	MaxPercent int              `json:"ma"` // maximumPercent
	Breaker    CircuitBreaker   `json:"br,omitzero"`
	Alarms     DeploymentAlarms `json:"al,omitzero"`
	Early      EarlySuccess     `json:"es,omitzero"`
}

// DeploymentConfiguration returns how deployments of the service go now.
func (s *ServiceSpec) DeploymentConfiguration() DeploymentConfiguration {
	return DeploymentConfiguration{
		MinHealthy: s.MinHealthy, MaxPercent: s.MaxPercent, Breaker: s.Breaker, Alarms: s.Alarms, Early: s.Early,
	}
}

// ServiceRevision is the row of one [Revision].
type ServiceRevision struct {
	Head
	Service string `json:"sv"` // name
	Short   string `json:"sh"`
	Revision
}
