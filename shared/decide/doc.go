// Package decide makes the decisions of the placement function: from a snapshot, the changes of one
// batch, the time and the settings to a chain of commits.
//
// [Warm.Observe] applies stream records to the snapshot and returns what they ask to be
// reconsidered. [Decide] then decides: it reconciles the services that changed (package service
// says how many tasks of which revision), places what is wanted (package placement says where),
// answers requests and plans moves. It writes what it decides into the snapshot, as if it had been
// committed.
//
// Invariants: - Pure: no clock, randomness, environment or store. The same input gives the same
// commits. - Each commit is safe without those after it. A start and the stop that it permits stay
// together. - A snapshot whose commits failed is thrown away.
//
// Start reading at decide.go.
package decide
