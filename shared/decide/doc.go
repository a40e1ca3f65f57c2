// Package decide makes the decisions of the placement function: from a snapshot, the changes of one
// batch, the time and the settings to a chain of commits.
//
// [Decide] is the entry. It reconciles the services that changed (package service says how many
// tasks of which revision), places what is wanted (package placement says where), answers requests,
// plans moves, and writes its intents into the snapshot as if they had been committed. The
// placement function commits them; the sweep and what-if ask the same functions what would be done.
//
// Invariants:
//   - Pure: no clock, randomness, environment or store. The same input gives the same commits.
//   - Each commit is safe without those after it. A start and the stop that it permits stay
//     together.
//   - A snapshot whose commits failed is thrown away.
//
// Start reading at decide.go.
package decide
