// Package state defines what Berth stores: the rows of the table, their keys, the conditional
// writes that change them, and the port that an adapter of a store implements.
//
// A row is a noun of package cluster (a service, a task, an instance) or a bookkeeping record that
// exists only here (an outbox row, a due row, a checkpoint). [KeyOf] and [EmptyRow] know every
// kind. [Write.Apply] states what a write does, so that every store does the same; package porttest
// holds the stores to it.
//
// Handlers read and write through [Store]. The adapters are package dynamo and the store of package
// embedded.
//
// Invariants:
//   - The JSON names of fields are the stored format. They never change; a row written by an older
//     version can still be read.
//   - A row's Rev grows by one with each write. A write that expects another Rev fails with
//     [Conflict] and changes nothing.
//   - A commit is all or nothing, and at most [MaxWrites] rows.
//
// Start reading at row.go, then write.go.
package state
