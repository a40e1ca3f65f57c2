// Package rebalance looks for a better way to place tasks that already run: where each should be,
// and in which order to move them.
//
// In comes a [Problem], small numbers that stand for instances, services, tasks and resources, with
// the rules that must hold and what everything costs. [Search] returns the best assignment that it
// finds within a [Budget] of steps or time. [PlanMoves] orders the moves to an assignment so that
// the rules hold after each. Package moves calls it for clusters, and `berth rebalance` for
// problems in files.
//
// The search anneals: it tries changes by chance and accepts what is worse less and less often. Its
// changes are moves of one task, exchanges of two, and rearrangements of a few. It keeps to the
// rules at every step, so that it can stop at any time.
//
// A result of Search may need all its moves at once: two tasks that change places on full instances
// have no order. PlanMoves then lets one of them wait on a third instance, or leaves the moves out.
//
// Start reading at problem.go, then search.go and step.go:
//
//   - problem.go says what there is
//   - spreads.go counts tasks in zones and domains
//   - assignment.go keeps loads and costs as tasks move; rules.go keeps what services count
//   - try.go says what a move would change, without making it
//   - search.go cools, step.go draws the changes, rearrange.go makes room for large tasks
//   - journal.go remembers the best assignment
//   - sequence.go orders the moves
//
// Invariants:
//
//   - A rule that holds at the start holds in the result and after each move of a plan. What is
//     broken at the start gets no worse.
//   - A result never costs more than the start.
//   - The same problem, number of steps and seed always give the same result. There is no clock.
package rebalance
