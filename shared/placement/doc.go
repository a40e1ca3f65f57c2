// Package placement decides where a task may run and where it should, and which of many tasks had
// better stop. It never decides how many there are.
//
// A snapshot and a request come in; instances, or the reason why not, go out. Nothing is changed:
// the caller commits what comes out. Decisions (shared/decide), scaling, whatif and the benchmarks
// call it. It knows no clock, no store and no randomness: the same snapshot and request always give
// the same answer.
//
// Where to start reading:
//
//   - spec.go: what is asked
//   - filter.go: what keeps a task off an instance, one entry for each rule
//   - order.go: which of two instances is better
//   - place.go: one call, from the request to the placements
//   - explain.go and diagnose.go: why, in numbers and in words
//   - engine.go: how the answers stay up to date with the snapshot's journal
//   - sortedindex.go and pick.go: how the best instance is found without a look at every one
//
// Packages below it have one job each: eligibility (what an instance's row decides), domain (fault
// and upgrade domains), packing (the score that keeps GPUs usable), moves (which tasks should
// change their instance).
//
// Invariants:
//
//   - An answer equals that of a look at every instance, one task after the other (package
//     tests/oracle).
//   - What a call places is taken back before it returns; only the snapshot's journal changes what
//     the engine keeps.
//   - What the engine keeps is bounded in bytes; what was used least recently goes first.
package placement
