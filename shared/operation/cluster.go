package operation

import "berth/shared/cluster"

// ClusterCounts are the tasks and services of a cluster, by launch type.
type ClusterCounts struct{ EC2, External LaunchTypeCounts }

// LaunchTypeCounts are those of one launch type. Pending tasks are PROVISIONING or PENDING.
type LaunchTypeCounts struct {
	Running, Pending                 int
	ActiveServices, DrainingServices int
}

// ListInstances asks for a page of the ids of a cluster's container instances, sorted.
type ListInstances struct {
	Cluster string
	Filter  string                 // in the cluster query language
	Status  cluster.InstanceStatus // empty: all that are not INACTIVE
	After   string
	Limit   int
}
