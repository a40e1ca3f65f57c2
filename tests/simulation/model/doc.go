// Package model states what a service of ECS has to look like, as plainly as the documentation
// does: an executable form of rules S1 to S11, S13 and S14 of docs/behaviour.md. It does not know
// how Berth gets there.
//
// A [DeploymentHistory] is the state machine of a service's deployments (S8): the simulation's
// checker repeats every change of a service's row on it, and it refuses steps that must not happen.
// [Service.CheckAtRest] compares a service that has come to rest with the rules. The other
// functions are rules with numbers: percentages ([Service.Floor], [Service.Ceiling]), the circuit
// breaker's threshold, the delays of the throttle ([NextStartWindow]), the shares of capacity
// providers ([AssignProviders]).
//
// Start reading at [Service]; the tests contain the worked examples of the documentation.
package model
