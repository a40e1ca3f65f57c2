// Package shape converts between the shapes of the ECS API and Berth's nouns: container instances,
// tasks, task definitions, overrides, network configurations and tags.
//
// The API operations read requests with it. The adapter to ECS and the simulated ECS read and write
// what ECS says. So a rule such as "which CPU does a task need" is stated once for all three.
//
// Functions that begin with Parse read the SDK's types and fail with an InvalidParameterException
// or UnsupportedFeatureException; ...Shape and ...OrNil write them. CPU is in thousandths of a CPU
// unit inside Berth (1024 CPU units to a vCPU), memory in MiB. Start with convert.go and
// definition.go.
package shape
