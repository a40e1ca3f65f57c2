// Package embedded is the tier that needs nothing but this process: the state on disk or in memory,
// and queues, streams, schedules, the event bus and time in process. It connects the functions as
// template.yaml says and decides nothing itself. `berth up`, the simulation and most tests run on
// it.
//
// It has four parts, each usable without the others:
//
//   - [Store] is the state: DynamoDB's conditions, transactions, limits and prices on one file.
//     Start at Store.submitCommit.
//   - [Loop] is time: callbacks one at a time, in real or in virtual time.
//   - [LoadTemplate] reads a SAM template into a [Wiring]. What it does not know it refuses.
//   - [Runtime] delivers messages, records and ticks to functions as SQS, DynamoDB Streams, Lambda,
//     EventBridge and its Scheduler do: batching, retries, visibility, dead letters, filters. Start
//     at NewRuntime, and at gate in queue_source.go.
//
// What comes in are events ([Runtime.PutEvent]), messages ([Queue.Send]) and changes of the state;
// what goes out are calls of handlers ([Function]). The package knows no handler and no AWS SDK.
//
// Invariants:
//
//   - No reader sees a change before it is durable.
//   - All of a runtime happens on its loop, one callback at a time: no lock is needed there, and a
//     run with the same seed does the same in the same order.
//   - What the real services may do and rarely do (repeat, delay, reorder, lose) can be
//     injected by [Faults], with their numbers in docs/simulation.md.
package embedded
