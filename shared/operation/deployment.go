package operation

import (
	"time"

	"berth/shared/cluster"
)

// ListServiceDeployments lists the service deployments of a service, the newest first.
type ListServiceDeployments struct {
	Cluster string
	Service string
	// Statuses are those wanted, any where empty; From and To bound the creation, both included,
	// where not zero.
	Statuses []cluster.ServiceDeploymentStatus
	From, To time.Time
	After    string // id
	Limit    int
}

// RecordRef names a service deployment or a service revision: its id, or the revision's digits, in
// a service.
type RecordRef struct{ Cluster, Service, ID string }

// String is the last part of the ARN.
func (r RecordRef) String() string { return r.Cluster + "/" + r.Service + "/" + r.ID }

// ReleaseDetail is a service deployment with the service that it is of.
type ReleaseDetail struct {
	cluster.Release
	Service *cluster.Service
}

// RevisionDetail is a service revision with the service that it is of.
type RevisionDetail struct {
	cluster.Revision
	Service *cluster.Service
}
