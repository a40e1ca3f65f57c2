// Package plan builds what a decision commits: a chain of commits, each within DynamoDB's limit and
// safe without those after it.
//
// A decision hands each row, start and stop to a [Builder] as soon as it is made. The Builder
// writes them into the open commit and into the snapshot, so that what is decided next sees them as
// if they had been committed. When the decision is over, [Builder.Commits] returns the chain.
//
// Invariants:
//   - What [Builder.KeepTogether] asks for goes into one commit: a start with the service's row, a
//     replacement with what it replaces.
//   - Ids of started tasks and of outbox rows follow from the placement version that their commit
//     makes. A commit that loses a race leaves no ids behind, and the same decision made again
//     makes the same ids.
//   - A commit with starts, stops or task rows rests on the placement version. One that has only
//     due rows, registrations and events rests on no version, so it makes no other plan fail.
//
// Start reading at builder.go; outbox.go has the rows that dispatch carries out.
package plan
