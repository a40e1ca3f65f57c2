// Package dispatch makes the world match what was committed. It reads the outbox rows of a cluster,
// claims tasks, starts and stops them at ECS, registers and deregisters them with target groups and
// Cloud Map, and publishes service events. It also deletes the due rows whose time has come, which
// is what wakes placement. No other function acts on tasks.
//
// What comes in: stream records and wake-up messages, which only name a cluster, and a schedule
// each minute. What goes out: calls of ECS, Elastic Load Balancing, Cloud Map and the event bus;
// the task, target and outbox rows that record their outcome.
//
// Invariants:
//   - A task is started only after its row was claimed for this attempt, so two environments never
//     start it twice.
//   - A start whose outcome is unknown is resolved before the next attempt: ECS's lists are asked
//     after a settling time, one task is adopted, any other is stopped.
//   - An outbox row is deleted only when everything in it is done. Cut off anywhere, the next round
//     repeats what is left; every call here may be repeated.
//   - StartTask and StopTask together stay within the account's token bucket. An empty bucket ends
//     the round; a due row starts the next one.
//
// Start reading at handler.go, then round.go, start.go and stop.go; register.go, locate.go and
// drain.go are about load balancers.
package dispatch
