// Package observe turns what ECS reported into rows: tasks, container instances, loads and
// clusters.
//
// Five functions use it, so that an event, an entry of the sweep's list and the answer of a call
// are recorded in the same way. [Observer.RecordTask] and [Observer.RecordInstance] are the
// entries.
//
// Invariants:
//   - Reports come at least once, late and out of order. A row changes only if the report's version
//     is newer.
//   - A report that makes an instance less usable moves the placement version on, so that decisions
//     based on more do not commit.
//   - A task that no row wants is stopped, but never one that somebody else started.
//
// Start reading at observe.go.
package observe
