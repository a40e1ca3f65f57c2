// Package eksapi answers the operations of the EKS API on node groups, their updates and tags, and
// on clusters that clients of node groups call: REST with JSON.
//
// It owns that protocol: paths, query parameters, shapes and error codes. In come HTTP requests,
// from package wire. Out go calls of [NodeGroups], which Berth's API handlers implement, and
// answers in EKS's shapes. A node group of Berth is the set of container instances of an Auto
// Scaling group, so what EKS says of AMIs, taints and remote access does not apply: those members
// are refused by name.
//
// Invariants:
//   - Operations that Berth does not serve are refused by name (refused.go). A path that is no
//     operation of the EKS API is answered as EKS does.
//   - Bad input is found before [NodeGroups] is called, with the member, the value and what
//     was expected.
//   - Two requests with the same parameters have the same digest, regardless of their
//     clientRequestToken.
//
// handler.go finds the operation by method and path; nodegroup.go, update.go, cluster.go and tag.go
// have the operations, shape.go the shapes. Start with [Handler.ServeHTTP].
package eksapi
