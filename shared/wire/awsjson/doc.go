// Package awsjson is the ECS API's protocol, AWS JSON 1.1: POST / with the operation's name in the
// header X-Amz-Target, JSON in and out.
//
// [Mux] takes a map from operation names to [Operation] values and answers requests with them. [Op]
// makes an operation of a function on the SDK's own input and output, [StrictOp] of one on shapes
// of Berth's own. Berth's API and the simulated ECS use the same Mux.
//
// Start with mux.go; encode.go explains how the SDK, which is made for clients, is brought to write
// answers.
package awsjson
