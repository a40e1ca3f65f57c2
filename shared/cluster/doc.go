// Package cluster has the nouns of the scheduler: container instances, tasks, services and their
// deployments, task definitions, capacity providers, node groups, and what these need and offer.
//
// Every other package imports it, and it imports none of them. It has no I/O: a type knows what
// follows from its own fields ([Task.Status], [Diagnosis.String]), parses the texts that stand for
// it ([ParseARN], [ReadMetrics]) and checks itself ([CheckConfiguration]).
//
// Invariants:
//   - Types that embed [Head] are rows of the state. Their JSON names are the stored format, which
//     never changes.
//   - Texts and codes of AWS are as AWS writes them.
//   - A snapshot holds hundreds of thousands of tasks, so [Task] stays small.
//
// Start reading at task.go, instance.go and service.go.
package cluster
