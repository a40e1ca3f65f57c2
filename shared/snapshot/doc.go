// Package snapshot keeps one cluster in memory: its rows, what follows from them (the free capacity
// of each instance, the tasks of each service, tasks by zone) and a journal of what changed, so
// that a decision costs no more than the change it answers.
//
// Rows come in through [Snapshot.Put] and stream records through [Snapshot.ApplyRecord]. Decisions read it:
// package placement indexes it, and the handlers' decisions write what they intend back into it
// before it is committed.
//
// Invariants:
//   - Everything derived equals what a scan of the rows would give; capacity in use is never
//     counted a second time.
//   - An older version of a row never replaces a newer one.
//   - A snapshot belongs to one goroutine.
//
// Start reading at snapshot.go; task.go and instance.go keep the derived values.
package snapshot
