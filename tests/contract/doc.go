// Package contract checks that the adapters of AWS and what they call agree. One suite runs on two
// implementations: on moto, which others wrote from AWS's documents, and on the simulated AWS, on
// which every other test relies.
//
// A suite is a list of clauses, each one property on which Berth relies. If an implementation does
// not satisfy a clause, its list of known differences says why. An entry that is no longer true
// fails the test.
//
// Start reading at TestECS in ecs_test.go. The other suites are Auto Scaling and CloudWatch
// (autoscaling_test.go), launch templates, node groups, load balancing with Cloud Map and alarms
// (balancing_test.go), and queues with the event bus.
package contract
