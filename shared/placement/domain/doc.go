// Package domain counts one service's tasks in its fault and upgrade domains, and says what the
// domain rules allow (P1 to P6 of docs/behaviour.md).
//
// Comes in: the names of the domains, what each instance is to the service ([Standing]) and the
// [Rule]. A [Domains] then answers: may a domain have one more task, how far are the tasks from the
// rule, does a move make anything worse, which task can best be spared. It knows no rows, no
// snapshots and no capacity. Package placement and the planner of moves call it.
//
// Start with domains.go. tree.go builds one dimension as a tree, and count.go keeps its counts as
// tasks come and go. swap.go finds a place by moving tasks of the same call; usable.go finds
// instances that the rules always exclude.
//
// Invariants: the counts are exact after every call of [Domains.AddTasks], which takes time in
// proportion to the depth of the tree. Counting, and the questions that placement asks per
// instance, allocate nothing.
package domain
