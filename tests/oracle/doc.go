// Package oracle decides what placement and the planner of moves should decide, the slow way. Tests
// compare the two on random clusters.
//
//   - world.go: a cluster as plain rows, and short ways to write them
//   - generate.go: random clusters and requests
//   - oracle.go: placing and explaining by full scans, one task after the other
//   - history.go: a cluster whose rows change
//   - moveworld.go, moveoracle.go, movefigures.go: clusters with violations, and all ways to move
//     their tasks
//
// An oracle states the rules of docs/behaviour.md a second time, from the rows alone. The one
// exception is package domain, which has a specification of its own in its tests.
package oracle
