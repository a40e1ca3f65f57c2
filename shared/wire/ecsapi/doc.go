// Package ecsapi answers the operations of the ECS API.
//
// Services, task sets, tasks, service deployments, task protection and capacity providers are
// Berth's own: each operation reads its input, calls one of the interfaces of [Resources], and
// writes the output in ECS's shapes. Clusters, task definitions, container instances and attributes
// are ECS's: these requests are checked, forwarded as they came (upstream.go; only the
// token of a page may be replaced), and made known to [Clusters]. Tags go to the package that keeps the resource.
//
// In: decoded inputs of the AWS SDK, from package awsjson. Out: its outputs, or errors of the API
// as [cluster.Error]. The operations are put together by package wire.
//
// Invariants:
//   - A member that Berth does not serve is refused by its name, never ignored: a caller must not
//     believe in a setting that has no effect.
//   - Input is checked completely before the scheduler is called, with the member, the value and
//     the bound in the message. Where ECS has a text for the mistake, the text is ECS's.
//   - Names are resolved here. The scheduler gets plain names, and answers become full ARNs.
//   - What only ECS can say about a task, such as its containers or its zone, is added if ECS
//     answers; without it the call still succeeds.
//
// Each kind of thing has a file with its operations. Beside it, NAME_input.go reads long inputs and
// NAME_shape.go writes long outputs. Start with operations.go and ports.go; service.go is typical
// for Berth's own operations, containerinstance.go for forwarded ones.
package ecsapi
