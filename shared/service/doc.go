// Package service decides how many tasks of which revision a service should have, which of them
// have to go, and how its deployments go. It never decides where a task runs; package placement
// does.
//
// [Reconcile] takes an [Input], everything that the decision depends on, and returns a [Plan]:
// tasks to stop and to start, the service's next row, and the events that report them. Package
// decide calls it for each service that something has happened to, places the starts and commits
// the plan. Nothing here reads a clock, a store or the environment.
//
// A plan is made in four steps, all visible in reconcile.go:
//
//  1. sortTasks sorts the tasks into buckets, once (sort.go, task.go).
//  2. assessRollout ends the deployment if its circuit breaker or an alarm has tripped
//     (deployment.go, circuitbreaker.go, alarms.go).
//  3. The policies decide about tasks, each in a file of its own. A policy reads a view, which is
//     the service as the decisions before it leave it, and returns a decision (decision.go).
//  4. The deployment is completed if nothing is left to do, and everything is put together as a
//     plan (finish.go, event.go).
//
// A service with task sets is planned set by set (taskset.go), each like a service of its own: it
// has its share of the desired count, and the deployment percentages are of that share. With 4
// desired, a set of 100 % has 4 tasks and one of 25 % has 1. If the second is scaled to 100 %, 3
// more of it start and none of the first stops. What follows holds for each set then.
//
// What always holds:
//
//   - A service never gets more tasks than maximumPercent allows, and no stop leaves fewer healthy
//     ones than minimumHealthyPercent asks for. Only healthy and stabilizing tasks count for the
//     second; others may always stop.
//   - Protected tasks are never stopped, unless the service is deleted.
//   - The same input gives the same plan, in any order of the tasks. Where the choice is
//     free, Input.Seed decides.
//   - Once a plan is carried out, the same input plans nothing more until something happens.
//
// Start reading at [Reconcile] and its list of policies. property_test.go checks the rules above
// over random histories.
package service
