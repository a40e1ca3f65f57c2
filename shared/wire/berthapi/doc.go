// Package berthapi answers the operations that neither ECS nor EKS has: a cluster's placement
// configuration, the rules of a service beyond the ECS API, load reports, throttles, the plan of a
// node group update, and the rows that placement decides on.
//
// They come in the ECS API's protocol with [awsjson.OwnTarget] as their prefix, in plain JSON. An
// unknown member is refused, because only Berth could have meant it. The command `berth` uses
// the same types to call them.
//
// The operations read names with package input, ask the scheduler through the interfaces of
// [Resources], and answer with types of this package, whose JSON names never change. Start with
// operations.go.
package berthapi
