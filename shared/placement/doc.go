// Package placement decides where tasks run, and which of many tasks stop. How many there should be
// is not its concern: package service decides that.
//
// A snapshot and a [Request] come in. A [Result] goes out: the instance of each task, and a
// diagnosis for the tasks that found none. Nothing is changed: the caller commits the result.
// Package decide places and stops tasks with it, scaling simulates sizes, moves plans on top of it,
// and `berth whatif` explains.
//
// Where to start reading:
//
//   - spec.go: what is asked, and the answer
//   - filter.go: what makes an instance infeasible, one entry per rule
//   - order.go: which of two feasible instances is better
//   - place.go: one call, from the request to the placements
//   - chooser.go: what is kept for the tasks of one spec, and for how long
//   - sortedindex.go and pick.go: how the best instance is found without a full scan
//   - engine.go: how all this stays up to date with the snapshot's journal
//   - explain.go and diagnose.go: why, in numbers and in words
//   - stop.go: which tasks stop
//
// The packages below it have one job each: eligibility (what an instance's row decides), domain
// (fault and upgrade domains), packing (the score that keeps GPUs usable), moves (which tasks
// should change their instance).
//
// Invariants:
//
//   - A result equals that of a full scan for one task after the other. Package tests/oracle is
//     such a scan; tests compare the two on random clusters.
//   - The same snapshot and request always give the same result. There is no clock and no store; a
//     choice by chance comes from the request's seed.
//   - What a call places is undone before it returns. Only the snapshot's journal changes what the
//     engine keeps.
//   - The caches are bounded in bytes. The least recently used choosers go first.
package placement
