// Package taskstatechange is the task-state-change function: it records what ECS reports of tasks
// and container instances, and compares the state with ECS each hour, because events can be lost.
//
// What comes in: ECS's events, load reports and Spot interruption warnings from a queue, and the
// schedule "sweep". What goes out: task, instance and load rows, through package observe; due rows
// where a sweep finds that placement has something left to do; outbox entries for registrations;
// the deregistration at ECS of task definitions that no service uses any more.
//
// Invariants:
//   - Nothing is decided here. The stream of the rows wakes placement.
//   - Events may come late, twice and in any order: a row takes only what is newer.
//   - An old event never stops a task by itself. ECS is asked for the present state first. What EC2 announces
//     of a Spot instance drains it however late it comes, if it is still ACTIVE.
//   - A task definition that was deregistered through Berth is deregistered at ECS only after each cluster
//     was found not to use it, at a time when nothing new could.
//   - A cluster is removed only if two operations of ECS agree that it no longer exists.
//
// Start reading at taskstatechange.go for events, sweep.go for the comparison, forget.go for
// clusters that were deleted, and deregister.go for task definitions that were deregistered.
package taskstatechange
