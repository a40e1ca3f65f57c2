// Package dispatch is the dispatch function: it makes the world match what was committed. It reads
// the outbox rows of a cluster, claims tasks, starts and stops them at ECS, registers and
// deregisters them with target groups and Cloud Map, and publishes service events. It also deletes
// the due rows whose time has come, which is what wakes placement. No other function acts on tasks.
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
//   - StartTask and StopTask together stay within the account's token bucket, which starts and
//     stops share by the rules of package quota. What gets no call in a round waits for a due row.
//
// The files, each of which calls only those below it:
//
//   - handler.go: what invokes the function
//   - outbox.go: a round over a cluster's outbox, row by row
//   - start.go, stop.go: tasks; unknownstart.go resolves starts with an unknown outcome, protect.go
//     keeps instances from being terminated
//   - register.go, deregister.go, drain.go: registrations of running, stopped and stopping tasks;
//     locate.go finds addresses, registration.go has what they share
//   - publish.go: service events
//   - round.go, tokens.go: what a round, and each row, may still use
//
// Start reading at handler.go, then outbox.go and start.go.
package dispatch
