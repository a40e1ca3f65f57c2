// Package ecsapi answers the operations of the ECS API.
//
// Services, tasks, service deployments, task protection and capacity providers are Berth's own:
// each of these operations reads its input, asks one of [Resources], and writes the output in ECS's
// shapes. Clusters, task definitions, container instances and attributes are ECS's: these
// operations are checked, passed on as they came (see upstream.go), and made known to [Clusters].
// Tags are with whoever has the resource.
//
// There is a file for each kind of thing, and ports.go has what is asked of the scheduler. Members
// that Berth does not serve are refused by name, never ignored. Start with operations.go.
package ecsapi
