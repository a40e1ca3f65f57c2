// Package domain counts one service's tasks in its fault and upgrade domains and says what the
// domain rules allow (P1 to P6).
//
// The names of domains, what each instance is to the service and the rule come in; a [Domains]
// answers which domain may have one more task, how far the tasks are from the rule, which move
// makes nothing worse and which task is best stopped. It knows nothing of rows, snapshots or room.
// Placement and the plans of moves call it.
//
// Start with domains.go; tree.go is one dimension as a tree, count.go keeps its counts as tasks
// come and go. detour.go finds a place by moving tasks of the same call, usable.go which instances
// the rules leave a use for at all.
//
// The counts are exact after every call of Add. Nothing but creation allocates in the steady state.
package domain
