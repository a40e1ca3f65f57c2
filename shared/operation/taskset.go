package operation

import "berth/shared/cluster"

// CreateTaskSet asks for a new task set of a service with the deployment controller EXTERNAL.
type CreateTaskSet struct {
	Cluster        string
	Service        string
	TaskDefinition string // family:revision
	ExternalID     string
	Network        *cluster.Network
	LoadBalancers  []cluster.LoadBalancer
	Registries     []cluster.Registry
	Providers      []cluster.ProviderShare
	// Launched reports that the caller named a launch type, so that the cluster's default strategy
	// does not apply (S14). External is set if it is EXTERNAL.
	Launched, External bool
	Scale              float64 // percent of the service's desired count
	Tags               map[string]string
	Token              string // clientToken
	Params             string // digest of all parameters, see [cluster.Digest]
}

// A TaskSetRef names a task set by its id, which is ecs-svc/ and digits.
type TaskSetRef struct{ Cluster, Service, ID string }

// TaskSetDetail is a task set with its service.
type TaskSetDetail struct {
	Deployment cluster.Deployment
	Service    *cluster.Service
}
