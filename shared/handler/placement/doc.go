// Package placement is the placement function: it decides which tasks start and stop, and where.
//
// What comes in: batches of the state's stream, for a cluster or several. What goes out: commits
// under the cluster's placement version, and messages that wake dispatch when a due row falls due.
// [decide.Decide] turns a snapshot and the batch's changes into commits; this package loads and
// keeps the snapshot, commits, and starts over when somebody else has committed first.
//
// Invariants:
//   - A decision commits only if the placement version is the one that it was made on. So two
//     environments that decide at the same time never both succeed.
//   - The snapshot of the previous batch is used again only if the cluster's checkpoint says
//     that this environment handled that batch. Any doubt about it costs one load of the
//     cluster, never a wrong decision.
//   - A batch that fails is delivered again as a whole; records handled twice change nothing.
//
// Start reading at [Handler.HandleRecords]. docs/tour.md follows one event through it.
package placement
