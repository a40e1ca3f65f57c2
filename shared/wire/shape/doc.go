// Package shape turns the shapes of the ECS API into Berth's nouns and back: container instances,
// tasks, task definitions, overrides, network configurations and tags.
//
// The API reads requests with it; the adapter to ECS and the simulated ECS read and write what ECS
// says.
package shape
