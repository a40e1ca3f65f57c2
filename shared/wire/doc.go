// Package wire is Berth's API as clients call it: the ECS API, the part of the EKS API that
// concerns node groups, and the operations that only Berth has, all on one HTTP endpoint.
//
// A request comes in at [Server.ServeHTTP]. A path below /clusters/ is the EKS API's; everything
// else is an operation named by the header X-Amz-Target. The operation's package reads the request,
// asks the scheduler through a small interface, and writes the answer. Packages, from the caller
// inwards:
//
//   - transport: what all protocols share on HTTP: size limit, headers, the check of the host, who
//     calls, faults
//   - awsjson: AWS JSON 1.1, the ECS API's protocol
//   - ecsapi, eksapi, berthapi: the operations, one file for each kind of thing
//   - input: how callers name things, bounds, pages
//   - shape: ECS's shapes as Berth's nouns, and back
//
// functions/api and the embedded installation put a [Server] together from the operations in
// shared/handler. This package decides nothing about tasks or services: it checks what callers
// send, and what is not supported it refuses by name.
package wire
