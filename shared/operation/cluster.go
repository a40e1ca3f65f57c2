package operation

// ClusterCounts are the tasks and services of a cluster, by launch type.
type ClusterCounts struct{ EC2, External LaunchTypeCounts }

// LaunchTypeCounts are those of one launch type. Pending tasks are PROVISIONING or PENDING.
type LaunchTypeCounts struct {
	Running, Pending                 int
	ActiveServices, DrainingServices int
}
