// Package moves plans which tasks should change their instance: to repair broken rules (P8, P10),
// and to make room for tasks that fit nowhere (P11).
//
// Comes in: owners whose tasks may move, and the engine of package placement with its snapshot. A
// [Plan] goes out: moves in an order in which they can be carried out, and the violations that
// remain. Package decide calls it once per batch, and `berth whatif --moves` on request. Nothing is
// changed: the caller starts and stops the tasks.
//
// A plan is made in these steps, a file each. Start with planner.go and plan.go.
//
//   - watch.go knows from the engine's changes whether anything can be broken at all
//   - build.go and scope.go copy what matters from the snapshot into a problem (problem.go)
//   - findviolations.go lists what is broken
//   - search.go tries every way in a small problem, and bound.go and gatherbound.go cut off what
//     cannot win; localsearch.go and clear.go look near each violation in a large one
//   - assignment.go keeps the score as tasks move; guard.go says what a move may not make worse;
//     affinity.go and application.go know the rules about tasks of several owners
//   - sequence.go orders the moves, explain.go says why each is made
//
// Moves that balance a cluster (P15) start at balance.go. balancing.go translates the problem for
// the search of package rebalance, and passes its moves through the checks of this one; gather.go
// chooses what is emptied where load is gathered; tally.go measures the balance and what moves gain.
//
// Invariants:
//
//   - Nothing gets worse than it is, except that a rule may be broken to repair one of a higher
//     priority, and that repairs may use the buffer.
//   - The same snapshot always gives the same plan, in any order of its rows.
//   - A search leaves the assignment as it found it.
package moves
