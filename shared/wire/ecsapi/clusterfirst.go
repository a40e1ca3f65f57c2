package ecsapi

import (
	"context"
	"encoding/json"

	"berth/shared/cluster"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
)

// inCluster are the operations on things in a cluster. The value reports that the member cluster
// must be given; the others mean the default cluster without it.
var inCluster = map[string]bool{
	"CreateService": false, "UpdateService": false, "DeleteService": false, "DescribeServices": false,
	"ListServices": false, "ListServiceDeployments": false,
	"CreateTaskSet": true, "UpdateTaskSet": true, "UpdateServicePrimaryTaskSet": true, "DeleteTaskSet": true,
	"DescribeTaskSets": true,
	"RunTask":          false, "StartTask": false, "StopTask": false, "DescribeTasks": false, "ListTasks": false,
	"GetTaskProtection": true, "UpdateTaskProtection": true,
	"ListContainerInstances": false, "DescribeContainerInstances": false, "UpdateContainerInstancesState": false,
	"RegisterContainerInstance": false, "DeregisterContainerInstance": false, "UpdateContainerAgent": false,
	"PutAttributes": false, "DeleteAttributes": false, "ListAttributes": false,
	"PutClusterCapacityProviders": true, "UpdateCluster": true, "UpdateClusterSettings": true, "DeleteCluster": true,
}

// findClusterFirst makes an operation refuse an unknown cluster before anything else, as ECS does,
// except for values that no request may have.
// A call that succeeds has found its cluster, so it costs nothing: only when an operation refuses
// its input is the cluster looked up, and takes precedence if there is none.
func findClusterFirst(refs input.References, clusters Clusters, op awsjson.Operation, given bool) awsjson.Operation {
	return func(ctx context.Context, body []byte) (any, error) {
		out, err := op(ctx, body)
		if err == nil || !refusesInput(err) {
			return out, err
		}
		var in struct{ Cluster *string }
		if json.Unmarshal(body, &in) != nil || given && input.Value(in.Cluster) == "" {
			return nil, err
		}
		name, unreadable := refs.ClusterName(in.Cluster)
		if unreadable != nil {
			return nil, err
		}
		if missing := clusters.CheckManaged(ctx, name); cluster.ErrorCode(missing) == cluster.CodeClusterNotFound {
			return nil, missing
		}
		return nil, err
	}
}

// refusesInput reports whether an operation has refused what the caller asked of it, for a reason
// that ECS would look for after the cluster.
func refusesInput(err error) bool {
	if input.IsUnknownValue(err) {
		return false
	}
	switch cluster.ErrorCode(err) {
	case cluster.CodeInvalidParameter, cluster.CodeClient, cluster.CodeUnsupported:
		return true
	}
	return false
}
