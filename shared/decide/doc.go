// Package decide makes the decisions of the placement function: from a snapshot, the changes of one
// batch, the time and the settings to a chain of commits.
//
// [WarmSnapshot.ObserveRecords] applies stream records to the snapshot and returns the [Changes]
// that they ask to be reconsidered. [Decide] then reconciles the services that changed (package
// service says how many tasks of which revision), places what is wanted (package placement says
// where), answers requests and plans moves. It writes what it decides into the snapshot, as if it
// had been committed, and returns the commits.
//
// The placement function commits them. The sweep asks [Differences] what a wake-up would do, and
// what-if and the simulation decide by the same functions.
//
// Invariants:
//   - Pure: no clock, randomness, environment or store. The same input gives the same commits.
//   - Each commit is safe without those after it. A start and the stop that it permits stay
//     together.
//   - A snapshot whose commits failed is thrown away.
//
// Start reading at decide.go. Each phase of Decide has a file: services.go and reconcile.go for
// services, starts.go for their tasks, provisioning.go and requests.go for standalone ones,
// moves.go and zones.go for tasks that move. Package plan builds the commits, package specs the
// questions to placement.
package decide
