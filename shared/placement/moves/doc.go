// Package moves plans which tasks should change their instance: to repair broken rules (P8, P10)
// and to make room for tasks that fit nowhere (P11).
//
// Owners whose tasks may move come in, with the engine of package placement. A [Plan] comes out:
// moves in an order in which they can be carried out, and what stays broken. Decisions and whatif
// call it, once for each batch; nothing is changed.
//
// A plan is made in these steps, a file each:
//
//   - watch.go knows from the engine's changes whether anything can be broken at all
//   - build.go and scope.go copy what matters from the snapshot into a problem of dense numbers
//   - defect.go lists what is broken
//   - search.go tries every way in a small problem; nearby.go and clear.go look around each defect
//     in a large one
//   - guard.go says what a move may not make worse, bound.go when a branch of the search
//     cannot win
//   - sequence.go orders the moves, explain.go says why each is made
//
// Nothing gets worse than it is, except that a rule may be broken to repair one of a higher
// priority. The same snapshot always gives the same plan.
package moves
