// Package awsjson is the ECS API's protocol, AWS JSON 1.1: POST / with the operation's name in the
// header X-Amz-Target, JSON in and out.
//
// [Mux] takes a map of operation names to [Operation] values and answers requests with them.
// [TypedOperation] makes an operation of a function on the SDK's own input and output,
// [StrictOperation] one of a function on types of Berth's own. Berth's API and the simulated ECS
// use the same Mux.
//
// Invariants: a request never makes the Mux panic; an operation of the ECS API that is not served
// is refused by name; a fault reaches the log in full and the caller only as ServerException.
//
// Start with mux.go. encode.go says what is added to the SDK's outputs, and writer.go writes them.
package awsjson
