// Package protocol reads requests and writes answers in the protocols of the simulated services.
//
// It knows three: forms in and XML out ([ServeQuery]: Auto Scaling, Elastic Load Balancing, EC2),
// Smithy's RPC in CBOR and AWS's JSON ([Encoding.ServeTree]: CloudWatch, Cloud Map). ECS's protocol
// is that of Berth's own API, in package wire/awsjson.
//
// A request of either protocol becomes a [Tree] first, and then an operation's input struct
// ([DecodeTree]). Errors are *cluster.Error with the code that the service uses; any other error is
// answered as an InternalFailure that says nothing of the inside. The package keeps no state and
// knows no service. Start at [ServeQuery].
package protocol
