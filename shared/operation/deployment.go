package operation

import (
	"time"

	"berth/shared/cluster"
)

// ListServiceDeployments asks for a page of a service's deployments, newest first.
type ListServiceDeployments struct {
	Cluster string
	Service string
	// Statuses are the statuses to list, all if empty. From and To bound the creation time, both
	// included; a zero time is no bound.
	Statuses []cluster.ServiceDeploymentStatus
	From, To time.Time
	After    string // id
	Limit    int
}

// A RecordRef names a service deployment or a service revision within a service: by its id, or by
// the revision's digits.
type RecordRef struct{ Cluster, Service, ID string }

// String returns the last part of the ARN.
func (r RecordRef) String() string { return r.Cluster + "/" + r.Service + "/" + r.ID }

// ReleaseDetail is a service deployment with its service.
type ReleaseDetail struct {
	cluster.Release
	Service *cluster.Service
	// Configuration is that of the time when it ended, or the service's while it is in progress.
	Configuration cluster.DeploymentConfiguration
}

// RevisionDetail is a service revision with its service.
type RevisionDetail struct {
	cluster.Revision
	Service *cluster.Service
}
