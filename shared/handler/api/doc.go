// Package api answers the operations of the ECS and EKS APIs that Berth serves itself.
//
// It owns the desired state: services, requests for tasks, protection, tags, capacity providers,
// node groups and cluster configurations. An operation checks what was asked for against the state
// and ECS, writes rows, and returns. It places nothing and starts nothing: the stream of written
// rows wakes placement, dispatch acts on what placement commits, and managed-scaling and
// node-group-upgrade act on their own rows each minute.
//
// In: plain names and the types of package operation, which package wire reads from requests. Out:
// nouns of package cluster, and [cluster.Error] with the API's own codes. Every other error is a
// fault, which callers see as ServerException.
//
// Invariants:
//   - An operation may be repeated. With a client token it answers what it answered before;
//     without one, what exists already is a conflict or changes nothing.
//   - A write that leaves placement fewer choices, such as a new constraint, moves the
//     cluster's placement version, so that a decision made before it cannot be committed.
//   - A service's row and its history (service deployments, revisions) change in one commit.
//   - Every operation begins with the cluster, which must be one that Berth manages. Only
//     CreateCluster makes it manage a cluster that ECS already has.
//
// Start reading at handler.go, then service.go and service_edit.go; task_request.go shows how
// RunTask waits for an answer.
package api
