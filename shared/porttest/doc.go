// Package porttest tests the adapters of the state: every store must pass these
// tests. Package embedded runs them on its store in memory and on disk, package dynamo on DynamoDB
// Local and a second emulator. Handlers are tested on one store and run on another, so a difference
// between two stores is a bug in one of them.
//
// [TestStore] tests reads, writes and commits; [TestStream] the records that changes leave. They
// use the ports alone ([state.Store], [StreamState]) and know nothing of the inside of a store. The
// rules themselves are in package state: what a write does to a row is [state.Write.Apply], and
// testStoreMatchesModel compares each store with it.
//
// Every test uses clusters of its own, so that tests can run at the same time on one table that is
// never emptied. Limits are DynamoDB's on every store: what passes on one tier passes on all.
//
// fixture.go makes rows and writes them, expect.go compares, rows.go draws rows at random; the
// other files have the tests, by what they call. Start at [TestStore].
package porttest
