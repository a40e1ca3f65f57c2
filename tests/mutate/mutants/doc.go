// Package mutants measures what a folder's tests notice. It makes many small changes to the code
// there, one at a time, runs the tests, and returns the changes with which every test still
// passes.
//
// The work is done in this order:
//
//  1. [Find] lists every change that is possible: an operator, a condition, or a removed statement
//     (find.go, expression.go, statement.go).
//  2. [Sample] draws some of them by a seed (sample.go).
//  3. weaveFile puts all drawn changes of a file into one copy of it, each behind a switch. An
//     environment variable says which one is on, so that one compilation serves all (weave.go,
//     switches/switches.go).
//  4. [Build] compiles the tests with these copies, through "go test -overlay". The tree is only
//     read (build.go).
//  5. [Suite.Measure] runs each test once and records its duration and the switches that it
//     reaches (measure.go).
//  6. [Suite.Try] runs, for each change, the tests that reach it, the quickest first, until one
//     fails (try.go).
//
// [Kept] are the changes that no test can notice, with the reason for each (kept.go).
package mutants
