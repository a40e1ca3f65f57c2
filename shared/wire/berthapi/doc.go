// Package berthapi answers the operations that neither ECS nor EKS has: a cluster's configuration,
// the rules of a service beyond the ECS API, load reports, throttles, and the rows that placement
// decides on.
//
// They come in the ECS API's protocol under a target of their own, in plain JSON. A member that is
// not known is refused, as nobody but Berth could have meant it. `berth` (the command line) uses
// the same types to call them.
package berthapi
